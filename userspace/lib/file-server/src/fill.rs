//! Copies a directory into the volume at start. An entry that cannot be copied is left out and named in the log, so that one
//! bad name on a medium does not take all other files away.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_rt::log;
use capos_schema::authority::Label;
use capos_schema::cap::CallError;
use capos_schema::storage::{DirectoryClient, EntryInfo, EntryKind};
use capos_tree::{FileTree, Opening, Removal, Tree, TreeError, WriteAt};

/// Bytes of one read of the source.
const PIECE: u32 = 32 * 1024;

/// Where the files come from.
#[allow(async_fn_in_trait, reason = "used on the thread that made it")]
pub trait Source {
    /// The entries of a folder.
    async fn list(&self, path: &str) -> Result<Vec<EntryInfo>, CallError>;
    /// Calls a function with the bytes of a file, piece by piece.
    async fn read(
        &self,
        path: &str,
        with: impl AsyncFnMut(Vec<u8>) -> Result<(), TreeError>,
    ) -> Result<Result<(), TreeError>, CallError>;
}

impl Source for DirectoryClient {
    async fn list(&self, path: &str) -> Result<Vec<EntryInfo>, CallError> {
        Ok(DirectoryClient::list(self, path).await?.entries)
    }

    async fn read(
        &self,
        path: &str,
        mut with: impl AsyncFnMut(Vec<u8>) -> Result<(), TreeError>,
    ) -> Result<Result<(), TreeError>, CallError> {
        let file = self.open(path).await?;
        let mut offset = 0_u64;
        loop {
            let piece = file.read(offset, PIECE).await?;
            if piece.is_empty() {
                return Ok(Ok(()));
            }
            offset = offset.saturating_add(piece.len() as u64);
            if let Err(error) = with(piece).await {
                return Ok(Err(error));
            }
        }
    }
}

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    pub files: usize,
    /// Entries that were left out.
    pub left_out: usize,
}

/// The tree's times are in milliseconds.
fn milliseconds(entry: &EntryInfo) -> i64 {
    entry.modified_unix.saturating_mul(1000)
}

/// Copies the folder `top` of the source into the tree. A file that is there already is replaced.
///
/// # Errors
/// The source is gone. The next start of this service can have all files.
pub async fn fill<T: FileTree>(tree: &T, source: &impl Source, top: &str) -> Result<Filled, CallError> {
    let mut filled = Filled::default();
    let mut folders: Vec<String> = alloc::vec![String::new()];
    while let Some(folder) = folders.pop() {
        let from = format!("{top}/{folder}");
        let entries = match source.list(&from).await {
            Err(error) if !error.is_disconnected() => {
                leave_out(&mut filled, &from, &format!("{error}"));
                continue;
            }
            entries => entries?,
        };
        for entry in entries {
            let path = if folder.is_empty() { entry.name.clone() } else { format!("{folder}/{}", entry.name) };
            let from = format!("{top}/{path}");
            let copied = match entry.kind {
                EntryKind::Directory => match tree.make_directory(Tree::ROOT, &path, milliseconds(&entry)).await {
                    // An earlier copy was cut off.
                    Ok(_) | Err(TreeError::Exists(_)) => {
                        folders.push(path);
                        Ok(())
                    }
                    Err(error) => Err(format!("{error}")),
                },
                EntryKind::File => copy(tree, source, &from, &path, milliseconds(&entry)).await?,
                EntryKind::Link => Err(String::from("it is a link")),
            };
            match copied {
                Ok(()) if entry.kind == EntryKind::File => filled.files = filled.files.saturating_add(1),
                Ok(()) => {}
                Err(why) => leave_out(&mut filled, &from, &why),
            }
        }
    }
    Ok(filled)
}

/// Copies one file, or tells why not; then nothing is left of it.
async fn copy<T: FileTree>(
    tree: &T,
    source: &impl Source,
    from: &str,
    path: &str,
    modified: i64,
) -> Result<Result<(), String>, CallError> {
    let opening = Opening { write: true, create: true, truncate: true, writable: true, ..Opening::default() };
    let id = match tree.open_at(Tree::ROOT, path, opening, modified).await {
        Ok((id, _)) => id,
        Err(error) => return Ok(Err(format!("{error}"))),
    };
    let label = Label::default();
    let write = async |piece: Vec<u8>| tree.write(id, WriteAt::End, &piece, &label, modified).await.map(drop);
    let why = match source.read(from, write).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("{error}")),
        Err(error) if error.is_disconnected() => return Err(error),
        Err(error) => Some(format!("{error}")),
    };
    if why.is_some() {
        let removed = tree.remove(Tree::ROOT, path, Removal::File, modified).await;
        removed.map_err(|error| CallError::failed(format!("{path} cannot be removed: {error}")))?;
    }
    tree.close(id);
    Ok(why.map_or(Ok(()), Err))
}

/// Counts and logs an entry. Its path is written with escapes, and so is a reason, which may quote it.
fn leave_out(filled: &mut Filled, path: &str, why: &str) {
    filled.left_out = filled.left_out.saturating_add(1);
    log::warning!("{path:?} is left out: {}", why.escape_debug());
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::string::ToString;
    use core::cell::RefCell;

    use capos_schema::local;

    use super::*;

    /// Entries by folder. A file without content cannot be read.
    #[derive(Default)]
    struct Medium {
        folders: BTreeMap<&'static str, Vec<(&'static str, EntryKind)>>,
        files: BTreeMap<&'static str, &'static [u8]>,
        gone: bool,
    }

    impl Source for Medium {
        async fn list(&self, path: &str) -> Result<Vec<EntryInfo>, CallError> {
            let entries = self.folders.get(path).ok_or_else(|| CallError::failed("a sector cannot be read"))?;
            let entry = |(name, kind): &(&str, EntryKind)| EntryInfo {
                name: (*name).to_string(),
                kind: *kind,
                ..EntryInfo::default()
            };
            Ok(entries.iter().map(entry).collect())
        }

        async fn read(
            &self,
            path: &str,
            mut with: impl AsyncFnMut(Vec<u8>) -> Result<(), TreeError>,
        ) -> Result<Result<(), TreeError>, CallError> {
            match self.files.get(path) {
                Some(data) => Ok(with(data.to_vec()).await),
                None if self.gone => Err(CallError::disconnected("the driver has ended")),
                None => Err(CallError::failed("a sector cannot be read")),
            }
        }
    }

    fn medium() -> Medium {
        Medium {
            folders: BTreeMap::from([
                (
                    "/home/",
                    alloc::vec![
                        ("good", EntryKind::File),
                        ("bad\u{1b}[2Jname", EntryKind::File),
                        ("bad\nfolder", EntryKind::Directory),
                        ("unread", EntryKind::File),
                        ("unlisted", EntryKind::Directory),
                        ("link", EntryKind::Link),
                        ("folder", EntryKind::Directory),
                    ],
                ),
                ("/home/folder", alloc::vec![("large", EntryKind::File), ("last", EntryKind::File)]),
            ]),
            files: BTreeMap::from([
                ("/home/good", &b"one"[..]),
                ("/home/bad\u{1b}[2Jname", b"two"),
                ("/home/folder/large", &[0; 100_000]),
                ("/home/folder/last", b"three"),
            ]),
            gone: false,
        }
    }

    #[test]
    fn what_cannot_be_copied_takes_nothing_else_away() {
        let tree = RefCell::new(Tree::new(10_000));
        let filled = local::run(fill(&tree, &medium(), "/home")).unwrap();
        assert_eq!(filled, Ok(Filled { files: 2, left_out: 6 }));
        let tree = tree.borrow();
        for (path, there) in [("good", true), ("folder/last", true), ("folder/large", false), ("unread", false)] {
            assert_eq!(tree.find(Tree::ROOT, path).is_ok(), there, "{path}");
        }
    }

    #[test]
    fn a_source_that_is_gone_ends_the_copy() {
        let tree = RefCell::new(Tree::new(10_000));
        let filled = local::run(fill(&tree, &Medium { gone: true, ..medium() }, "/home")).unwrap();
        assert!(filled.unwrap_err().is_disconnected());
    }
}
