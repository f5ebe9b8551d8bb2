//! Copies between a volume and the home directory.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ops::ControlFlow;

use capos_policy::Egress;
use capos_schema::authority::Label;
use capos_schema::cap::CallError;
use capos_schema::storage::{DirectoryClient, FileClient, FileError, OpenOptions, ReadOnlyFileClient};
use capos_schema::transfer::CopiedFile;
use capos_transfer::copy::{CopyError, Progress, Source, Target, copy};

use crate::file::FileObject;

/// Whether data with this label may go to a volume.
///
/// # Errors
/// It may not; the error names the class.
pub fn check_label(label: &Label) -> Result<(), CallError> {
    Egress::default().check_outbound(label).map_err(|class| {
        CallError::invalid_argument(format!(
            "data with the label `{class}` may not leave this machine on a volume; a file gets the labels of all that its \
             conversation had read, so write it in a new one (`/stop`)"
        ))
    })
}

/// A file of a volume.
pub struct VolumeFile(pub alloc::rc::Rc<FileObject>);

impl Source for VolumeFile {
    type Error = CallError;

    async fn size(&mut self) -> Result<u64, CallError> {
        Ok(self.0.status().await?.bytes)
    }

    async fn read(&mut self, offset: u64, most: usize) -> Result<Vec<u8>, CallError> {
        self.0.read(offset, most).await
    }
}

impl Target for VolumeFile {
    async fn write(&mut self, offset: u64, bytes: Vec<u8>) -> Result<(), CallError> {
        self.0.write(offset, &bytes).await
    }

    async fn truncate(&mut self, bytes: u64) -> Result<(), CallError> {
        self.0.truncate(bytes).await
    }
}

/// How far the copies in progress are, each with a number of its own.
#[derive(Default)]
pub struct Running(RefCell<BTreeMap<u64, Progress>>);

impl Running {
    /// All of them together.
    pub fn progress(&self) -> Progress {
        self.0.borrow().values().fold(Progress { done: 0, total: 0 }, |sum, one| Progress {
            done: sum.done.saturating_add(one.done),
            total: sum.total.saturating_add(one.total),
        })
    }

    /// Takes part until it is dropped, also if its caller is gone.
    fn begin(&self) -> Part<'_> {
        let mut all = self.0.borrow_mut();
        let number = all.last_key_value().map_or(0, |(last, _)| last.saturating_add(1));
        all.insert(number, Progress { done: 0, total: 0 });
        Part(self, number)
    }
}

/// One copy in progress.
struct Part<'a>(&'a Running, u64);

impl Drop for Part<'_> {
    fn drop(&mut self) {
        self.0.0.borrow_mut().remove(&self.1);
    }
}

/// Copies the file.
pub async fn run<S, T>(running: &Running, mut source: S, mut target: T, limit: u64) -> Result<CopiedFile, CallError>
where
    S: Source<Error = CallError>,
    T: Target<Error = CallError>,
{
    // A caller that cancels drops this, between two pieces or in one; what is there stays for the next attempt.
    let part = running.begin();
    let tell = |progress| {
        running.0.borrow_mut().insert(part.1, progress);
        ControlFlow::Continue(())
    };
    let copied = copy(&mut source, &mut target, limit, tell).await;
    let copied = copied.map_err(|error| match error {
        CopyError::Source(error) | CopyError::Target(error) => error,
        CopyError::TooLarge(bytes) => CallError::invalid_argument(format!(
            "the file has {bytes} bytes, and a file on a FAT volume at most {limit}; split it first"
        )),
        CopyError::Changed => CallError::failed("the file became shorter while it was copied; copy it again"),
        CopyError::Cancelled(_) => CallError::failed("the copy was cancelled"),
    })?;
    Ok(CopiedFile { bytes: copied.bytes, resumed: copied.resumed, sha256: hex::encode(copied.digest) })
}

/// The place of a copy: what the caller named, with the name of the file if that is nothing.
pub fn place(to: &str, of: &str) -> String {
    let name = of.rsplit('/').find(|part| !part.is_empty()).unwrap_or(of);
    if to.is_empty() { name.to_string() } else { to.to_string() }
}

/// The home directory.
pub struct Home(pub DirectoryClient);

impl Home {
    /// The error for a path in it.
    fn refused(path: &str, error: FileError) -> CallError {
        let why = match error {
            FileError::NotFound => "there is no such file, or a folder on the way to it is missing",
            FileError::Exists => "it exists; choose another name, or delete it first",
            FileError::IsDirectory => "it is a folder; name a file",
            FileError::NotDirectory => "a file is on the way to it",
            FileError::ReadOnly => "the home directory is read-only",
            FileError::NoSpace => "the home directory has no space left",
            FileError::TooLarge => "it is too large",
            FileError::TooLong => "the path is too long",
            _ => "the path is malformed",
        };
        CallError::invalid_argument(format!("`{}` in the home directory: {why}", path.escape_debug()))
    }

    /// Rejects a name that is taken.
    pub async fn check_free(&self, path: &str) -> Result<(), CallError> {
        match self.0.status(path, false).await?.error {
            FileError::NotFound => Ok(()),
            FileError::None => Err(Self::refused(path, FileError::Exists)),
            error => Err(Self::refused(path, error)),
        }
    }

    /// Opens a file to continue it, and makes it if it does not exist.
    pub async fn writer(&self, path: &str) -> Result<FileClient, CallError> {
        let options = OpenOptions { write: true, create: true, ..OpenOptions::default() };
        let opened = self.0.open_with(path, &options).await?;
        opened.file.ok_or_else(|| Self::refused(path, opened.error))
    }

    /// Opens a file to read it, with the directory that tells the label of what was read.
    pub async fn reader(&self, path: &str) -> Result<(ReadOnlyFileClient, DirectoryClient), CallError> {
        let labelled = self.0.labelled(&Label::default()).await?;
        let opened = labelled.open_with(path, &OpenOptions::default()).await?;
        match opened.reader {
            Some(reader) => Ok((reader, labelled)),
            None if opened.directory.is_some() => Err(Self::refused(path, FileError::IsDirectory)),
            None => Err(Self::refused(path, opened.error)),
        }
    }

    /// Gives a file its name.
    pub async fn rename(&self, from: &str, to: &str) -> Result<(), CallError> {
        match self.0.rename(from, to).await? {
            FileError::None => Ok(()),
            error => Err(Self::refused(to, error)),
        }
    }
}
