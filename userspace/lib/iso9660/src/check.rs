//! Looking at everything on a volume, for tools and tests.

use alloc::collections::BTreeMap;
use alloc::vec;

use crate::{Error, Extent, Kind, Node, Place, Problem, ReadSectors, Volume, limits};

/// What [`Volume::check`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Directories, the root included.
    pub directories: u64,
    /// Regular files.
    pub files: u64,
    /// Symbolic links.
    pub links: u64,
    /// Devices, pipes and sockets.
    pub specials: u64,
    /// Bytes of all regular files together; files that share their contents count each.
    pub bytes: u64,
}

/// The extents seen so far, by first sector: directories apart from files.
#[derive(Default)]
struct Seen {
    extents: BTreeMap<u32, (Extent, bool)>,
}

impl Seen {
    /// Files may share an extent (hard links), or be a shorter or longer view of it from the
    /// same first sector; anything else that overlaps is wrong.
    fn add(&mut self, extent: Extent, directory: bool) -> Result<(), Problem> {
        let with = |directory: bool| {
            if directory { "a directory" } else { "another file" }
        };
        let end = u32::try_from(extent.end()).unwrap_or(u32::MAX);
        if let Some((same, was_directory)) = self.extents.get_mut(&extent.lba) {
            if directory || *was_directory {
                return Err(Problem::Overlap { with: with(*was_directory), first: same.lba });
            }
            same.bytes = same.bytes.max(extent.bytes);
        } else {
            self.extents.insert(extent.lba, (extent, directory));
        }
        let before = self.extents.range(..extent.lba).next_back();
        let after = self.extents.range(extent.lba.saturating_add(1)..end.max(extent.lba.saturating_add(1))).next();
        for (_, (other, other_directory)) in before.into_iter().chain(after) {
            if other.overlaps(&extent) {
                return Err(Problem::Overlap { with: with(*other_directory), first: other.lba });
            }
        }
        Ok(())
    }
}

impl<R: ReadSectors> Volume<R> {
    /// Checks every directory of the volume and the place of every file. In addition to what every
    /// request checks, no two directories may overlap. Two files may overlap only if they share
    /// their contents.
    ///
    /// # Errors
    /// [`Error::Malformed`], [`Error::Source`].
    pub async fn check(&self) -> Result<Summary, Error<R::Error>> {
        let mut summary = Summary::default();
        let mut seen = Seen::default();
        let mut todo = vec![self.root().clone()];
        let mut nodes = 0usize;
        while let Some(directory) = todo.pop() {
            self.check_node(&directory, &mut seen, &mut summary)?;
            let mut reader = self.entries(&directory)?;
            while let Some(entry) = reader.next().await? {
                nodes = nodes.saturating_add(1);
                if nodes > limits::CHECKED_NODES {
                    let (found, limit) = (nodes as u64, limits::CHECKED_NODES as u64);
                    let what = "the number of entries on the volume";
                    return Err(place(&directory).wrong(Problem::TooLarge { what, found, limit }).into());
                }
                if entry.node.is_directory() {
                    todo.push(entry.node);
                } else {
                    self.check_node(&entry.node, &mut seen, &mut summary)?;
                }
            }
        }
        Ok(summary)
    }

    fn check_node(&self, node: &Node, seen: &mut Seen, summary: &mut Summary) -> Result<(), Error<R::Error>> {
        let counter = match node.kind() {
            Kind::Directory => &mut summary.directories,
            Kind::File => &mut summary.files,
            Kind::Link(_) => &mut summary.links,
            Kind::Special => &mut summary.specials,
        };
        *counter = counter.saturating_add(1);
        if node.is_file() {
            summary.bytes = summary.bytes.saturating_add(node.size());
        }
        for extent in node.extents() {
            seen.add(*extent, node.is_directory())
                .map_err(|problem| Place::new("the extent", extent.lba).wrong(problem))?;
        }
        Ok(())
    }
}

fn place(directory: &Node) -> Place {
    Place::new("the directory", directory.extents().first().map_or(0, |extent| extent.lba))
}
