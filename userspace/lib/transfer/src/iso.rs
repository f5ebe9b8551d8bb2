//! ISO 9660 volumes, read only.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use capos_iso9660 as iso;
use capos_iso9660::{Node, ReadSectors, SECTOR};

use crate::cached::Cached;
use crate::name::is_accepted;
use crate::{Disk, Entry, Error, Fault, Kind, MAX_LIST, Status};

/// The disk, by sectors.
struct Sectors<D>(Rc<Cached<D>>);

impl<D: Disk> ReadSectors for Sectors<D> {
    type Error = Fault;

    async fn read(&self, lba: u32, buffer: &mut [u8]) -> Result<(), Fault> {
        let per_sector = (SECTOR as u64).checked_div(self.0.disk().block_bytes().into()).unwrap_or(0);
        self.0.read(u64::from(lba).saturating_mul(per_sector), buffer).await
    }
}

pub struct Iso<D>(iso::Volume<Sectors<D>>);

impl<D: Disk> Iso<D> {
    pub async fn mount(disk: Rc<Cached<D>>) -> Result<Self, Error> {
        let block = u64::from(disk.disk().block_bytes());
        let per_sector = (SECTOR as u64).checked_div(block).filter(|_| (SECTOR as u64).is_multiple_of(block));
        let per_sector = per_sector
            .ok_or_else(|| Error::Malformed(format!("blocks of {block} bytes are longer than its sectors")))?;
        let sectors = disk.disk().blocks().checked_div(per_sector).unwrap_or(0);
        iso::Volume::mount(Sectors(disk), sectors).await.map(Self).map_err(refused)
    }

    pub fn label(&self) -> &str {
        self.0.label()
    }

    pub async fn status(&self, path: &str) -> Result<Status, Error> {
        self.find(path).await.map(|node| Self::status_of(&node))
    }

    pub fn status_of(node: &Node) -> Status {
        let kind = match node.kind() {
            iso::Kind::File => Kind::File,
            iso::Kind::Directory => Kind::Folder,
            _ => Kind::Link,
        };
        Status { kind, bytes: if kind == Kind::File { node.size() } else { 0 }, modified: node.modified() }
    }

    pub async fn list(&self, path: &str) -> Result<(Vec<Entry>, usize), Error> {
        let node = self.find(path).await?;
        if !node.is_directory() {
            return Err(Error::NotFolder(path.into()));
        }
        let mut left_out = 0_usize;
        let found = self.0.list(&node, |_| left_out = left_out.saturating_add(1)).await.map_err(refused)?;
        let (mut entries, mut bytes, mut folders) = (Vec::new(), 0_usize, BTreeSet::new());
        for entry in found {
            // The reader rejects a folder that says that it lies elsewhere; one with two names here it does not.
            let is_again = entry.node.is_directory()
                && entry.node.extents().first().is_some_and(|extent| !folders.insert(extent.lba));
            if is_again || !is_accepted(&entry.name) {
                left_out = left_out.saturating_add(1);
                continue;
            }
            let entry = Entry { status: Self::status_of(&entry.node), name: entry.name };
            bytes = bytes.saturating_add(entry.weight());
            entries.push(entry);
            if bytes > MAX_LIST {
                return Err(Error::TooMany);
            }
        }
        Ok((entries, left_out))
    }

    pub async fn open(&self, path: &str) -> Result<Node, Error> {
        let node = self.find(path).await?;
        match Self::status_of(&node).kind {
            Kind::File => Ok(node),
            Kind::Folder => Err(Error::IsFolder(path.into())),
            Kind::Link => Err(Error::NotFound(path.into())),
        }
    }

    pub async fn read(&self, node: &Node, offset: u64, most: usize) -> Result<Vec<u8>, Error> {
        let left = usize::try_from(node.size().saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut buffer = vec![0; most.min(left)];
        let read = self.0.read(node, offset, &mut buffer).await.map_err(refused)?;
        buffer.truncate(read);
        Ok(buffer)
    }

    async fn find(&self, path: &str) -> Result<Node, Error> {
        // Judged by the rules of this machine as well.
        let path = capos_tree::path::components(path)?.join("/");
        self.0.resolve(self.0.root(), &path).await.map_err(refused)
    }
}

fn refused(error: iso::Error<Fault>) -> Error {
    match error {
        iso::Error::Source { error, .. } => error.into(),
        iso::Error::NotFound { path } => Error::NotFound(path),
        iso::Error::NotADirectory { path } => Error::NotFolder(path),
        other => Error::Malformed(other.to_string()),
    }
}
