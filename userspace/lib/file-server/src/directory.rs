//! Directories of the tree, served.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};

use capos_policy::join;
use capos_rt::yield_now;
use capos_schema::authority::Label;
use capos_schema::cap::{CallContext, CallError};
use capos_schema::storage::{
    DirectoryClient, DirectoryCompareFilesResults, DirectoryEntriesResults, DirectoryEntry, DirectoryFindFilesResults,
    DirectoryListResults, DirectoryOpenWithResults, DirectoryReadLinkResults, DirectoryReadTextResults,
    DirectorySearchTextResults, DirectoryServer, DirectoryStatusResults, EntryInfo, FileBasis, FileClient, FileError,
    FileStatus, OpenOptions, ReadOnlyFileClient, TextMatch,
};
use capos_tree::{
    Basis, CompareError, FileTree, Info, Kind, LineFound, NodeId, Opening, Removal, TextError, TextPiece, Trail, Tree,
    TreeError,
};

use crate::file::FileObject;
use crate::key::Key;
use crate::volume::{Volume, entry, refused, status, told};

/// The most that one part of a folder's entries takes, in bytes.
const MAX_LIST: usize = 256 * 1024;
/// The same for a list that a model reads, with the number of those that are left out: of a longer text it sees the beginning.
const MAX_SHOWN: usize = 14 * 1024;

/// A directory as a client holds it.
pub struct DirectoryObject<T> {
    volume: Rc<Volume<T>>,
    node: NodeId,
    writable: bool,
    trail: Trail,
    /// The tree's losses that its holder knows of.
    losses: core::cell::Cell<u64>,
}

impl<T: FileTree + 'static> DirectoryObject<T> {
    /// The root of a volume.
    pub fn root(volume: &Rc<Volume<T>>, writable: bool) -> Rc<Self> {
        Rc::new(Self::new(volume, Tree::ROOT, writable, Trail::default()))
    }

    pub(crate) fn new(volume: &Rc<Volume<T>>, node: NodeId, writable: bool, trail: Trail) -> Self {
        let losses = volume.tree.losses().into();
        Self { volume: volume.clone(), node, writable, trail, losses }
    }

    fn may_write(&self) -> Result<(), CallError> {
        if self.writable { Ok(()) } else { Err(CallError::invalid_argument("this directory is read-only")) }
    }

    fn narrower(&self, node: NodeId, writable: bool, trail: Trail) -> Result<DirectoryClient, CallError> {
        let directory = Self::new(&self.volume, node, writable, trail);
        DirectoryClient::serve(&self.volume.exporter, Rc::new(directory))
    }

    /// Changes the tree for a program, if this directory may, with the time.
    async fn change<R>(&self, change: impl AsyncFn(&T, i64) -> Result<R, TreeError>) -> Result<FileError, CallError> {
        if !self.writable {
            return Ok(FileError::ReadOnly);
        }
        let now = self.volume.now().await;
        let changed = self.volume.change(async |tree| change(tree, now).await).await;
        Ok(told(changed)?.err().unwrap_or(FileError::None))
    }

    /// Changes the tree for a person, if this directory may, with the time. It is on the medium when this returns.
    async fn change_durably<R>(&self, change: impl AsyncFn(&T, i64) -> Result<R, TreeError>) -> Result<R, CallError> {
        self.may_write()?;
        let now = self.volume.now().await;
        self.volume.change_durably(async |tree| change(tree, now).await).await.map_err(refused)
    }

    async fn status_of(&self, path: &str) -> Result<(NodeId, Info), TreeError> {
        self.volume.tree.status(self.node, path).await
    }

    /// Opens what is at a path; a file with whatever holds it.
    async fn open_at(
        &self,
        path: &str,
        opening: Opening,
    ) -> Result<(NodeId, Info, Option<Rc<FileObject<T>>>), TreeError> {
        let now = self.volume.now().await;
        let open = async |tree: &T| tree.open_at(self.node, path, opening, now).await;
        let (node, info) = if opening.create || opening.truncate {
            self.volume.change(open).await?
        } else {
            open(&self.volume.tree).await?
        };
        let file = (info.kind == Kind::File).then(|| FileObject::opened(&self.volume, node, self.trail.clone()));
        if opening.write && opening.truncate {
            self.volume.forget_memory(node);
        }
        Ok((node, info, file))
    }

    async fn open_file(&self, path: &str, opening: Opening) -> Result<Rc<FileObject<T>>, TreeError> {
        let (_, info, file) = self.open_at(path, opening).await?;
        file.ok_or(TreeError::IsDirectory(info.name))
    }
}

impl<T: FileTree + 'static> DirectoryServer for DirectoryObject<T> {
    async fn list(&self, _cx: &CallContext, path: String) -> Result<DirectoryListResults, CallError> {
        let listing = self.volume.tree.list_after(self.node, &path, "", MAX_SHOWN).await.map_err(refused)?;
        let there = listing.entries.len() as u64;
        let left_out = if listing.more {
            let (_, info) = self.status_of(&path).await.map_err(refused)?;
            info.bytes.saturating_sub(there)
        } else {
            0
        };
        Ok(DirectoryListResults {
            entries: listing.entries.into_iter().map(|(_, info)| entry(info)).collect(),
            left_out,
        })
    }

    async fn stat(&self, _cx: &CallContext, path: String) -> Result<EntryInfo, CallError> {
        self.status_of(&path).await.map(|(_, info)| entry(info)).map_err(refused)
    }

    async fn open(&self, _cx: &CallContext, path: String) -> Result<ReadOnlyFileClient, CallError> {
        let file = self.open_file(&path, Opening::default()).await.map_err(refused)?;
        ReadOnlyFileClient::serve(&self.volume.exporter, file)
    }

    async fn create(&self, _cx: &CallContext, path: String) -> Result<FileClient, CallError> {
        self.may_write()?;
        let opening = Opening { write: true, create: true, writable: true, ..Opening::default() };
        let file = self.open_file(&path, opening).await.map_err(refused)?;
        FileClient::serve(&self.volume.exporter, file)
    }

    async fn open_directory(&self, _cx: &CallContext, path: String) -> Result<DirectoryClient, CallError> {
        let (node, info) = self.status_of(&path).await.map_err(refused)?;
        if info.kind != Kind::Directory {
            return Err(refused(TreeError::NotDirectory(info.name)));
        }
        self.narrower(node, self.writable, self.trail.clone())
    }

    async fn read_text(
        &self,
        _cx: &CallContext,
        path: String,
        offset: u32,
        length: u32,
    ) -> Result<DirectoryReadTextResults, CallError> {
        let no_text = |error: TextError| CallError::invalid_argument(format!("`{path}` {error}"));
        let (node, info) = self.status_of(&path).await.map_err(refused)?;
        let piece = TextPiece::choose(info.bytes, offset, length).map_err(&no_text)?;
        let (first, count) = piece.bytes();
        let (bytes, label) = self.volume.tree.read(node, first, count).await.map_err(refused)?;
        let (text, start) = piece.text(&bytes).map_err(&no_text)?;
        self.trail.join(&label);
        Ok(DirectoryReadTextResults { text: text.to_string(), start, bytes: info.bytes, label })
    }

    async fn write_text(
        &self,
        _cx: &CallContext,
        path: String,
        text: String,
        append: bool,
        label: Option<Label>,
        basis: Option<FileBasis>,
    ) -> Result<(), CallError> {
        let label = join(&label.unwrap_or_default(), &self.trail.label());
        let basis = basis.as_ref().map_or(Basis::Any, |basis| Basis::Hash(&basis.hash));
        let (place, data) = ((self.node, path.as_str()), text.as_bytes());
        let store = async |tree: &T, now| tree.store_on(basis, place, data, append, &label, now).await;
        let node = self.change_durably(store).await?;
        self.volume.forget_memory(node);
        Ok(())
    }

    async fn remove(&self, _cx: &CallContext, path: String) -> Result<(), CallError> {
        self.change_durably(async |tree, now| tree.remove(self.node, &path, Removal::Any, now).await).await
    }

    async fn make_directory(&self, _cx: &CallContext, path: String) -> Result<(), CallError> {
        self.change_durably(async |tree, now| tree.make_directory(self.node, &path, now).await).await.map(drop)
    }

    async fn read_only(&self, _cx: &CallContext) -> Result<DirectoryClient, CallError> {
        if self.node == Tree::ROOT && self.trail.is_none() {
            // The manifest gives this to services, which continue when this one is restarted.
            return self.volume.root(false);
        }
        self.narrower(self.node, false, self.trail.clone())
    }

    async fn open_with(
        &self,
        _cx: &CallContext,
        path: String,
        options: OpenOptions,
    ) -> Result<DirectoryOpenWithResults, CallError> {
        let OpenOptions { write, create, exclusive, truncate, no_follow: _ } = options;
        let opening = Opening { write, create, exclusive, truncate, writable: self.writable };
        let (node, info, file) = match told(self.open_at(&path, opening).await)? {
            Ok(opened) => opened,
            Err(error) => return Ok(DirectoryOpenWithResults { error, ..DirectoryOpenWithResults::default() }),
        };
        let mut results =
            DirectoryOpenWithResults { status: status(node, &info), ..DirectoryOpenWithResults::default() };
        match file {
            None => results.directory = Some(self.narrower(node, self.writable, self.trail.clone())?),
            Some(file) if write => results.file = Some(FileClient::serve(&self.volume.exporter, file)?),
            Some(file) => results.reader = Some(ReadOnlyFileClient::serve(&self.volume.exporter, file)?),
        }
        Ok(results)
    }

    async fn status(
        &self,
        _cx: &CallContext,
        path: String,
        _follow: bool,
    ) -> Result<DirectoryStatusResults, CallError> {
        Ok(match told(self.status_of(&path).await)? {
            Ok((node, info)) => DirectoryStatusResults { error: FileError::None, status: status(node, &info) },
            Err(error) => DirectoryStatusResults { error, status: FileStatus::default() },
        })
    }

    async fn entries(
        &self,
        _cx: &CallContext,
        path: String,
        after: String,
    ) -> Result<DirectoryEntriesResults, CallError> {
        let listing = match told(self.volume.tree.list_after(self.node, &path, &after, MAX_LIST).await)? {
            Ok(listing) => listing,
            Err(error) => return Ok(DirectoryEntriesResults { error, ..DirectoryEntriesResults::default() }),
        };
        let entry = |(node, info): (NodeId, Info)| DirectoryEntry { status: status(node, &info), name: info.name };
        let entries = listing.entries.into_iter().map(entry).collect();
        Ok(DirectoryEntriesResults { error: FileError::None, entries, more: listing.more })
    }

    async fn create_directory(&self, _cx: &CallContext, path: String) -> Result<FileError, CallError> {
        let make = async |tree: &T, now| tree.make_directory(self.node, &path, now).await;
        Ok(match self.change(make).await? {
            // The directory itself.
            FileError::IsDirectory => FileError::Exists,
            other => other,
        })
    }

    async fn remove_file(&self, _cx: &CallContext, path: String) -> Result<FileError, CallError> {
        self.change(async |tree, now| tree.remove(self.node, &path, Removal::File, now).await).await
    }

    async fn remove_directory(&self, _cx: &CallContext, path: String) -> Result<FileError, CallError> {
        self.change(async |tree, now| tree.remove(self.node, &path, Removal::Directory, now).await).await
    }

    async fn rename(&self, _cx: &CallContext, from: String, to: String) -> Result<FileError, CallError> {
        self.change(async |tree, now| tree.rename(self.node, &from, &to, now).await).await
    }

    async fn set_modified(&self, _cx: &CallContext, path: String, milliseconds: i64) -> Result<FileError, CallError> {
        let set = async |tree: &T, _| {
            let (node, _) = tree.status(self.node, &path).await?;
            tree.set_modified(node, milliseconds).await
        };
        self.change(set).await
    }

    async fn read_link(&self, _cx: &CallContext, path: String) -> Result<DirectoryReadLinkResults, CallError> {
        // There are no links here.
        let error = told(self.status_of(&path).await)?.err().unwrap_or(FileError::NotLink);
        Ok(DirectoryReadLinkResults { error, target: String::new() })
    }

    async fn labelled(&self, _cx: &CallContext, label: Label) -> Result<DirectoryClient, CallError> {
        let trail = self.trail.labelled(&label);
        if self.node == Tree::ROOT {
            // Programs get this, and continue when this one is restarted.
            let trail = self.volume.trails.keep(trail);
            return self.volume.durable(Key::Root { trail, writable: self.writable });
        }
        self.narrower(self.node, self.writable, trail)
    }

    async fn label(&self, _cx: &CallContext) -> Result<Label, CallError> {
        Ok(self.trail.label())
    }

    async fn copy_file(&self, _cx: &CallContext, from: String, to: String) -> Result<u64, CallError> {
        let label = self.trail.label();
        let place = (self.node, from.as_str(), to.as_str());
        let copy = async |tree: &T, now| capos_tree::copy_file(tree, place, &label, now).await;
        self.change_durably(copy).await
    }

    async fn move_file(&self, _cx: &CallContext, from: String, to: String) -> Result<(), CallError> {
        self.change_durably(async |tree, now| tree.rename_new(self.node, &from, &to, now).await).await
    }

    async fn find_files(
        &self,
        _cx: &CallContext,
        name: String,
        path: String,
    ) -> Result<DirectoryFindFilesResults, CallError> {
        require_text("name", &name)?;
        let place = (self.node, path.as_str());
        let found = capos_tree::find(&self.volume.tree, place, &name, MAX_SHOWN, &yield_now).await;
        let (found, left_out) = found.map_err(refused)?;
        Ok(DirectoryFindFilesResults { entries: found.into_iter().map(entry).collect(), left_out })
    }

    async fn search_text(
        &self,
        _cx: &CallContext,
        text: String,
        path: String,
    ) -> Result<DirectorySearchTextResults, CallError> {
        require_text("text", &text)?;
        let place = (self.node, path.as_str());
        let found = capos_tree::search(&self.volume.tree, place, &text, MAX_SHOWN, &yield_now).await;
        let capos_tree::Found { matches, left_out, not_searched, label } = found.map_err(refused)?;
        self.trail.join(&label);
        let line = |found: LineFound| TextMatch { path: found.path, line: found.line, text: found.text };
        let matches = matches.into_iter().map(line).collect();
        Ok(DirectorySearchTextResults { matches, left_out, not_searched, label })
    }

    async fn compare_files(
        &self,
        _cx: &CallContext,
        first: String,
        second: String,
    ) -> Result<DirectoryCompareFilesResults, CallError> {
        let mut label = Label::default();
        let compared = capos_tree::compare(&self.volume.tree, self.node, (&first, &second), &mut label).await;
        self.trail.join(&label);
        let changes = compared.map_err(|error| match error {
            CompareError::Tree(error) => refused(error),
            CompareError::Unfit(why) => CallError::invalid_argument(why),
        })?;
        Ok(DirectoryCompareFilesResults { changes, label })
    }

    async fn sync(&self, _cx: &CallContext) -> Result<(), CallError> {
        let since = self.losses.replace(self.volume.tree.losses());
        self.volume.tree.sync(since).await.map_err(refused)
    }
}

/// Bytes of a text to look for. A longer one costs time for each line and each name.
const MAX_WANTED: usize = 255;

/// Rejects a text to look for that is empty, since that is everywhere, or too long.
fn require_text(name: &str, text: &str) -> Result<(), CallError> {
    match text.len() {
        0 => Err(CallError::invalid_argument(format!("{name} is empty; say what to look for"))),
        1..=MAX_WANTED => Ok(()),
        bytes => {
            Err(CallError::invalid_argument(format!("{name} has {bytes} bytes; at most {MAX_WANTED} are looked for")))
        }
    }
}
