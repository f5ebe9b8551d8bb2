//! Where a repository lies.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::Future;

use crate::Error;

/// A folder of files. Paths have `/` between names, which are lower-case letters, digits, `-` and `.`.
pub trait Files {
    /// Writes a file, whole or not at all, with the folders on the way to it. One of this name is replaced.
    ///
    /// # Errors
    /// [`Error::Files`]
    fn put(&self, path: &str, bytes: &[u8]) -> impl Future<Output = Result<(), Error>>;

    /// Reads a file of at most `most` bytes; none if there is no such file.
    ///
    /// # Errors
    /// [`Error::Files`]; the file is longer.
    fn get(&self, path: &str, most: usize) -> impl Future<Output = Result<Option<Vec<u8>>, Error>>;

    /// The names in a folder, in order; none if there is no such folder.
    ///
    /// # Errors
    /// [`Error::Files`]
    fn list(&self, folder: &str) -> impl Future<Output = Result<Vec<String>, Error>>;

    /// Answers when everything that was written is on the medium.
    ///
    /// # Errors
    /// [`Error::Files`]
    fn flush(&self) -> impl Future<Output = Result<(), Error>>;
}

/// Files in memory, for tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryFiles {
    /// Contents by path.
    pub files: RefCell<BTreeMap<String, Vec<u8>>>,
    /// Writes left until they fail; none if they do not.
    pub writes: RefCell<Option<u32>>,
}

impl Files for MemoryFiles {
    async fn put(&self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        if let Some(left) = self.writes.borrow_mut().as_mut() {
            *left = left.checked_sub(1).ok_or_else(|| Error::Files("the medium was removed".into()))?;
        }
        self.files.borrow_mut().insert(path.to_string(), bytes.to_vec());
        Ok(())
    }

    async fn get(&self, path: &str, most: usize) -> Result<Option<Vec<u8>>, Error> {
        let found = self.files.borrow().get(path).cloned();
        if found.as_ref().is_some_and(|found| found.len() > most) {
            return Err(Error::Altered { file: path.to_string() });
        }
        Ok(found)
    }

    async fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
        let files = self.files.borrow();
        let names = files.keys().filter_map(|path| path.strip_prefix(folder)?.strip_prefix('/'));
        Ok(names.filter(|name| !name.contains('/')).map(ToString::to_string).collect())
    }

    async fn flush(&self) -> Result<(), Error> {
        Ok(())
    }
}
