//! A folder of another service, as the files of a backup.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_backup::{Error, Files};
use capos_rt::with_results;
use capos_schema::cap::CallError;
use capos_schema::storage::{DirectoryClient, FileError, OpenOptions};

/// Bytes of one read or write.
const PIECE: usize = 192 << 10;
/// Results of one read, and what is around them.
const RESULTS: u32 = 256 << 10;

/// The folder.
pub struct Folder {
    pub directory: DirectoryClient,
    /// What errors call it.
    pub name: String,
}

impl Folder {
    fn failed(&self, path: &str, error: &CallError) -> Error {
        Error::Files(format!("{}/{path}: {error}", self.name))
    }

    fn refused(&self, path: &str, error: FileError) -> Error {
        Error::Files(match error {
            FileError::NoSpace => {
                format!("{} has no room for {path}; remove files from it, or use another one", self.name)
            }
            FileError::ReadOnly => format!("{} cannot be written", self.name),
            other => format!("{}/{path} cannot be used: {}", self.name, other.name()),
        })
    }

    fn told(&self, path: &str, told: Result<FileError, CallError>) -> Result<(), Error> {
        match told.map_err(|error| self.failed(path, &error))? {
            FileError::None => Ok(()),
            error => Err(self.refused(path, error)),
        }
    }

    /// Makes the folders on the way to a file.
    async fn make_way(&self, path: &str) -> Result<(), Error> {
        for (at, _) in path.match_indices('/') {
            let folder = path.get(..at).unwrap_or_default();
            match self.directory.create_directory(folder).await {
                Ok(FileError::Exists) => {}
                other => self.told(folder, other)?,
            }
        }
        Ok(())
    }
}

impl Files for Folder {
    async fn put(&self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        self.make_way(path).await?;
        let part = format!("{path}.part");
        let options = OpenOptions { write: true, create: true, truncate: true, ..OpenOptions::default() };
        let failed = |error: CallError| self.failed(path, &error);
        let opened = self.directory.open_with(&part, &options).await.map_err(failed)?;
        let file = opened.file.ok_or_else(|| self.refused(path, opened.error))?;
        let mut offset = 0_u64;
        for piece in bytes.chunks(PIECE) {
            file.write(offset, piece).await.map_err(failed)?;
            offset = offset.saturating_add(piece.len() as u64);
        }
        file.sync().await.map_err(failed)?;
        drop(file);
        self.told(path, self.directory.rename(&part, path).await)
    }

    async fn get(&self, path: &str, most: usize) -> Result<Option<Vec<u8>>, Error> {
        let failed = |error: CallError| self.failed(path, &error);
        let opened = self.directory.open_with(path, &OpenOptions::default()).await.map_err(failed)?;
        let file = match (opened.error, opened.reader) {
            (FileError::NotFound, _) => return Ok(None),
            (_, Some(reader)) => with_results(&reader, RESULTS),
            (error, None) => return Err(self.refused(path, error)),
        };
        let size = usize::try_from(opened.status.bytes).unwrap_or(usize::MAX);
        if size > most {
            return Err(Error::Altered { file: path.to_string() });
        }
        let mut bytes = Vec::with_capacity(size);
        while bytes.len() < size {
            let count = size.saturating_sub(bytes.len()).min(PIECE);
            let piece =
                file.read(bytes.len() as u64, u32::try_from(count).unwrap_or(u32::MAX)).await.map_err(failed)?;
            if piece.is_empty() || piece.len() > count {
                return Err(Error::Altered { file: path.to_string() });
            }
            bytes.extend(piece);
        }
        Ok(Some(bytes))
    }

    async fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
        let (mut names, mut after) = (Vec::new(), String::new());
        loop {
            let listed = self.directory.entries(folder, &after).await.map_err(|error| self.failed(folder, &error))?;
            match listed.error {
                FileError::None => {}
                FileError::NotFound => return Ok(names),
                error => return Err(self.refused(folder, error)),
            }
            names.extend(listed.entries.into_iter().map(|entry| entry.name));
            match names.last() {
                // A listing that does not go on is not asked for again.
                Some(last) if listed.more && *last > after => after.clone_from(last),
                _ => return Ok(names),
            }
        }
    }

    async fn flush(&self) -> Result<(), Error> {
        self.directory.sync().await.map_err(|error| self.failed("", &error))
    }
}
