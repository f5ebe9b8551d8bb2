//! A volume's tree, served.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_schema::authority::Label;
use capos_schema::cap::{CallContext, CallError};
use capos_schema::storage::{
    DirectoryClient, DirectoryCompareFilesResults, DirectoryEntriesResults, DirectoryEntry, DirectoryFindFilesResults,
    DirectoryListResults, DirectoryOpenWithResults, DirectoryReadLinkResults, DirectoryReadTextResults,
    DirectorySearchTextResults, DirectoryServer, DirectoryStatusResults, EntryInfo, FileBasis, FileClient, FileError,
    FileStatus, OpenOptions, ReadOnlyFileClient,
};
use capos_transfer::{Error, Handle, Kind, Volume};
use capos_tree::{Basis, TextError, TextPiece, TreeError, path};

use crate::copies::check_label;
use crate::disk::BlockDisk;
use crate::file::{FileObject, file_status, info};
use crate::refused::{refused, told};
use crate::volumes::{Mounted, Volumes};

/// The most that one list of entries takes, in bytes.
const MAX_LIST: usize = 256 * 1024;
/// What an entry of such a list takes besides its name, in bytes.
const ENTRY_BYTES: usize = 80;

/// A folder of a volume: the root of what its holder sees.
pub struct DirectoryObject {
    volumes: Rc<Volumes>,
    mounted: Rc<Mounted>,
    /// Its path on the volume; empty for the top.
    folder: String,
    writable: bool,
}

impl DirectoryObject {
    /// The top of a volume.
    pub fn root(volumes: &Rc<Volumes>, mounted: &Rc<Mounted>) -> Rc<Self> {
        let (volumes, mounted) = (volumes.clone(), mounted.clone());
        Rc::new(Self { volumes, mounted, folder: String::new(), writable: true })
    }

    /// The path on the volume of a path below this folder.
    fn full(&self, path: &str) -> Result<String, Error> {
        let parts = path::components(path)?;
        let below = [self.folder.as_str()].into_iter().filter(|folder| !folder.is_empty());
        Ok(below.chain(parts).collect::<Vec<_>>().join("/"))
    }

    async fn with<T>(
        &self,
        path: &str,
        work: impl AsyncFnOnce(&mut Volume<BlockDisk>, &str) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let full = self.full(path)?;
        self.mounted.with(async |volume| work(volume, &full).await).await
    }

    /// The same for a change.
    async fn change<T>(
        &self,
        path: &str,
        work: impl AsyncFnOnce(&mut Volume<BlockDisk>, &str) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if !self.writable {
            return Err(Error::ReadOnly("this capability only reads"));
        }
        self.volumes.set_time().await;
        self.with(path, work).await
    }

    fn refused(&self, error: &Error) -> CallError {
        refused(&self.mounted.name, error)
    }

    fn told(&self, result: Result<(), Error>) -> Result<FileError, CallError> {
        result.map_or_else(|error| told(&self.mounted.name, &error), |()| Ok(FileError::None))
    }

    fn narrower(&self, folder: String, writable: bool) -> Result<DirectoryClient, CallError> {
        let (volumes, mounted) = (self.volumes.clone(), self.mounted.clone());
        let directory = Self { volumes, mounted, folder, writable };
        DirectoryClient::serve(&self.volumes.exporter, Rc::new(directory))
    }

    fn reader(&self, handle: Handle) -> Result<ReadOnlyFileClient, CallError> {
        ReadOnlyFileClient::serve(&self.volumes.exporter, FileObject::new(&self.volumes, &self.mounted, handle))
    }

    fn writer(&self, handle: Handle) -> Result<FileClient, CallError> {
        FileClient::serve(&self.volumes.exporter, FileObject::new(&self.volumes, &self.mounted, handle))
    }

    /// Opens a file to write, and makes it if it does not exist.
    async fn create_or_open(&self, path: &str) -> Result<Handle, Error> {
        let open = async |volume: &mut Volume<BlockDisk>, path: &str| match volume.open(path, true).await {
            Err(Error::NotFound(_)) => volume.create(path).await,
            result => result,
        };
        self.change(path, open).await
    }

    async fn open_by(&self, path: &str, options: &OpenOptions) -> Result<DirectoryOpenWithResults, OpenError> {
        let found = self.with(path, async |volume, path| volume.status(path).await).await;
        let status = match found {
            Ok(_) if options.create && options.exclusive => return Err(FileError::Exists.into()),
            Ok(found) => Some(found),
            Err(Error::NotFound(_)) if options.create => None,
            Err(error) => return Err(error.into()),
        };
        let mut results = DirectoryOpenWithResults::default();
        match status.map(|status| status.kind) {
            Some(Kind::Folder) if options.write => return Err(FileError::IsDirectory.into()),
            Some(Kind::Folder) => results.directory = Some(self.narrower(self.full(path)?, self.writable)?),
            Some(Kind::Link) => return Err(FileError::IsLink.into()),
            Some(Kind::File) if !options.write => {
                let handle = self.with(path, async |volume, path| volume.open(path, false).await).await?;
                results.reader = Some(self.reader(handle)?);
            }
            _ => {
                let handle = self.create_or_open(path).await?;
                let file = FileObject::new(&self.volumes, &self.mounted, handle);
                if options.truncate && status.is_some_and(|status| status.bytes > 0) {
                    file.truncate(0).await?;
                }
                let exporter = &self.volumes.exporter;
                match options.write {
                    true => results.file = Some(FileClient::serve(exporter, file)?),
                    false => results.reader = Some(ReadOnlyFileClient::serve(exporter, file)?),
                }
            }
        }
        let status = self.with(path, async |volume, path| volume.status(path).await).await?;
        results.status = file_status(&status);
        Ok(results)
    }

    async fn listed(&self, path: &str) -> Result<capos_transfer::Listing, Error> {
        self.with(path, async |volume, path| volume.list(path).await).await
    }
}

/// Why nothing was opened.
enum OpenError {
    Told(FileError),
    Volume(Error),
    Call(CallError),
}

impl From<FileError> for OpenError {
    fn from(error: FileError) -> Self {
        Self::Told(error)
    }
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Volume(error)
    }
}

impl From<CallError> for OpenError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl DirectoryServer for DirectoryObject {
    async fn sync(&self, _cx: &CallContext) -> Result<(), CallError> {
        // What was answered is on the medium.
        Ok(())
    }

    async fn list(&self, _cx: &CallContext, path: String) -> Result<DirectoryListResults, CallError> {
        let listing = self.listed(&path).await.map_err(|error| self.refused(&error))?;
        let entries = listing.entries.into_iter().map(|entry| info(entry.name, &entry.status)).collect();
        Ok(DirectoryListResults { entries, left_out: listing.left_out as u64 })
    }

    async fn stat(&self, _cx: &CallContext, path: String) -> Result<EntryInfo, CallError> {
        let status = self.with(&path, async |volume, path| volume.status(path).await).await;
        let status = status.map_err(|error| self.refused(&error))?;
        Ok(info(path.rsplit('/').next().unwrap_or(&path).to_string(), &status))
    }

    async fn open(&self, _cx: &CallContext, path: String) -> Result<ReadOnlyFileClient, CallError> {
        let handle = self.with(&path, async |volume, path| volume.open(path, false).await).await;
        self.reader(handle.map_err(|error| self.refused(&error))?)
    }

    async fn create(&self, _cx: &CallContext, path: String) -> Result<FileClient, CallError> {
        self.writer(self.create_or_open(&path).await.map_err(|error| self.refused(&error))?)
    }

    async fn open_directory(&self, _cx: &CallContext, path: String) -> Result<DirectoryClient, CallError> {
        let status = self.with(&path, async |volume, path| volume.status(path).await).await;
        match status.map_err(|error| self.refused(&error))?.kind {
            Kind::Folder => self.narrower(self.full(&path).map_err(|error| self.refused(&error))?, self.writable),
            _ => Err(self.refused(&Error::NotFolder(path))),
        }
    }

    async fn read_text(
        &self,
        _cx: &CallContext,
        path: String,
        offset: u32,
        length: u32,
    ) -> Result<DirectoryReadTextResults, CallError> {
        let handle = self.with(&path, async |volume, path| volume.open(path, false).await).await;
        let handle = handle.map_err(|error| self.refused(&error))?;
        let file = FileObject::new(&self.volumes, &self.mounted, handle);
        let size = file.status().await?.bytes;
        let no_text = |error: TextError| CallError::invalid_argument(format!("`{path}` {error}"));
        let piece = TextPiece::choose(size, offset, length).map_err(&no_text)?;
        let (first, count) = piece.bytes();
        let mut bytes = file.read(first, count).await?;
        if bytes.len() < count {
            // One read carries less than a piece and the bytes around it.
            let at = first.saturating_add(bytes.len() as u64);
            bytes.extend(file.read(at, count.saturating_sub(bytes.len())).await?);
        }
        let (text, start) = piece.text(&bytes).map_err(&no_text)?;
        Ok(DirectoryReadTextResults { text: text.into(), start, bytes: size, label: Label::default() })
    }

    async fn write_text(
        &self,
        cx: &CallContext,
        path: String,
        text: String,
        append: bool,
        label: Option<Label>,
        basis: Option<FileBasis>,
    ) -> Result<(), CallError> {
        check_label(&label.unwrap_or_default())?;
        if let Some(FileBasis { hash }) = basis {
            let found = match self.with(&path, async |volume, path| volume.status(path).await).await {
                Ok(_) => Some(self.read_text(cx, path.clone(), 0, 0).await?.text),
                Err(Error::NotFound(_)) => None,
                Err(error) => return Err(self.refused(&error)),
            };
            if !Basis::Hash(&hash).admits(found.as_ref().map(String::as_bytes)) {
                return Err(CallError::invalid_argument(TreeError::Changed(path).to_string()));
            }
        }
        let handle = self.create_or_open(&path).await.map_err(|error| self.refused(&error))?;
        let file = FileObject::new(&self.volumes, &self.mounted, handle);
        let end = if append { file.status().await?.bytes } else { 0 };
        if !append {
            file.truncate(0).await?;
        }
        file.write(end, text.as_bytes()).await
    }

    async fn remove(&self, _cx: &CallContext, path: String) -> Result<(), CallError> {
        let remove = async |volume: &mut Volume<BlockDisk>, path: &str| match volume.status(path).await?.kind {
            Kind::Folder => volume.remove_folder(path).await,
            _ => volume.remove_file(path).await,
        };
        self.change(&path, remove).await.map_err(|error| self.refused(&error))
    }

    async fn make_directory(&self, _cx: &CallContext, path: String) -> Result<(), CallError> {
        let made = self.change(&path, async |volume, path| volume.make_folder(path).await).await;
        made.map_err(|error| self.refused(&error))
    }

    async fn read_only(&self, _cx: &CallContext) -> Result<DirectoryClient, CallError> {
        self.narrower(self.folder.clone(), false)
    }

    async fn open_with(
        &self,
        _cx: &CallContext,
        path: String,
        options: OpenOptions,
    ) -> Result<DirectoryOpenWithResults, CallError> {
        let error = match self.open_by(&path, &options).await {
            Ok(results) => return Ok(results),
            Err(OpenError::Told(error)) => error,
            Err(OpenError::Volume(error)) => told(&self.mounted.name, &error)?,
            Err(OpenError::Call(error)) => return Err(error),
        };
        Ok(DirectoryOpenWithResults { error, ..DirectoryOpenWithResults::default() })
    }

    async fn status(
        &self,
        _cx: &CallContext,
        path: String,
        _follow: bool,
    ) -> Result<DirectoryStatusResults, CallError> {
        Ok(match self.with(&path, async |volume, path| volume.status(path).await).await {
            Ok(status) => DirectoryStatusResults { error: FileError::None, status: file_status(&status) },
            Err(error) => {
                DirectoryStatusResults { error: told(&self.mounted.name, &error)?, status: FileStatus::default() }
            }
        })
    }

    async fn entries(
        &self,
        _cx: &CallContext,
        path: String,
        after: String,
    ) -> Result<DirectoryEntriesResults, CallError> {
        let mut results = DirectoryEntriesResults::default();
        let listing = match self.listed(&path).await {
            Ok(listing) => listing,
            Err(error) => {
                results.error = told(&self.mounted.name, &error)?;
                return Ok(results);
            }
        };
        let mut bytes = 0_usize;
        for entry in listing.entries.into_iter().filter(|entry| entry.name > after) {
            bytes = bytes.saturating_add(entry.name.len()).saturating_add(ENTRY_BYTES);
            if bytes > MAX_LIST {
                results.more = true;
                break;
            }
            results.entries.push(DirectoryEntry { status: file_status(&entry.status), name: entry.name });
        }
        Ok(results)
    }

    async fn create_directory(&self, _cx: &CallContext, path: String) -> Result<FileError, CallError> {
        self.told(self.change(&path, async |volume, path| volume.make_folder(path).await).await)
    }

    async fn remove_file(&self, _cx: &CallContext, path: String) -> Result<FileError, CallError> {
        self.told(self.change(&path, async |volume, path| volume.remove_file(path).await).await)
    }

    async fn remove_directory(&self, _cx: &CallContext, path: String) -> Result<FileError, CallError> {
        self.told(self.change(&path, async |volume, path| volume.remove_folder(path).await).await)
    }

    async fn rename(&self, _cx: &CallContext, from: String, to: String) -> Result<FileError, CallError> {
        let renamed = match self.full(&to) {
            Ok(to) => self.change(&from, async |volume, from| volume.rename(from, &to).await).await,
            Err(error) => Err(error),
        };
        self.told(renamed)
    }

    async fn set_modified(&self, _cx: &CallContext, path: String, milliseconds: i64) -> Result<FileError, CallError> {
        let seconds = milliseconds / 1000;
        self.told(self.change(&path, async |volume, path| volume.set_modified(path, seconds).await).await)
    }

    async fn read_link(&self, _cx: &CallContext, path: String) -> Result<DirectoryReadLinkResults, CallError> {
        // Links of an ISO 9660 volume are followed, and not told.
        let found = self.with(&path, async |volume, path| volume.status(path).await.map(drop)).await;
        let error = match self.told(found)? {
            FileError::None => FileError::NotLink,
            error => error,
        };
        Ok(DirectoryReadLinkResults { error, target: String::new() })
    }

    async fn labelled(&self, _cx: &CallContext, _label: Label) -> Result<DirectoryClient, CallError> {
        // A volume keeps no labels, so that its holder only reads: labelled data leaves by an export alone.
        self.narrower(self.folder.clone(), false)
    }

    async fn label(&self, _cx: &CallContext) -> Result<Label, CallError> {
        Ok(Label::default())
    }

    async fn copy_file(&self, _cx: &CallContext, _from: String, _to: String) -> Result<u64, CallError> {
        Err(of_homes())
    }

    async fn move_file(&self, _cx: &CallContext, _from: String, _to: String) -> Result<(), CallError> {
        Err(of_homes())
    }

    async fn find_files(
        &self,
        _cx: &CallContext,
        _name: String,
        _path: String,
    ) -> Result<DirectoryFindFilesResults, CallError> {
        Err(of_homes())
    }

    async fn search_text(
        &self,
        _cx: &CallContext,
        _text: String,
        _path: String,
    ) -> Result<DirectorySearchTextResults, CallError> {
        Err(of_homes())
    }

    async fn compare_files(
        &self,
        _cx: &CallContext,
        _first: String,
        _second: String,
    ) -> Result<DirectoryCompareFilesResults, CallError> {
        Err(of_homes())
    }
}

/// Of a method that only home directories have.
fn of_homes() -> CallError {
    CallError::invalid_argument("files are copied, moved, found, searched and compared in home directories only")
}
