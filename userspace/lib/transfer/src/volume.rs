//! A volume of either kind.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use capos_tree::path;

use crate::cached::Cached;
use crate::fat::{Fat, FatFile};
use crate::iso::Iso;
use crate::{Disk, Error};

/// The format of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// FAT12, FAT16 or FAT32.
    Fat,
    /// ISO 9660.
    Iso9660,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    /// A link of an ISO 9660 volume, or anything else that is no file and no folder.
    Link,
}

/// The status of a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    pub kind: Kind,
    /// Length of a file.
    pub bytes: u64,
    /// Seconds since 1970, 0 if unknown.
    pub modified: i64,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub status: Status,
}

impl Entry {
    /// Bytes that it takes in a list.
    pub(crate) fn weight(&self) -> usize {
        self.name.len().saturating_add(size_of::<Self>())
    }
}

/// The entries of a folder, in the order of their names' bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub entries: Vec<Entry>,
    /// Entries that are left out, because their names break the rules or appear twice, or their folder has a name here already.
    pub left_out: usize,
}

/// An open file. It is given back to [`Volume::close`].
#[derive(Debug)]
pub struct Handle(Opened);

#[derive(Debug)]
enum Opened {
    Fat(FatFile),
    Iso(capos_iso9660::Node),
}

/// A mounted volume.
pub struct Volume<D: Disk>(Mounted<D>);

enum Mounted<D: Disk> {
    Fat(alloc::boxed::Box<Fat<D>>),
    Iso(Iso<D>),
}

/// The components of a path, which begins at the volume's root.
fn parts(path: &str) -> Result<Vec<&str>, Error> {
    Ok(path::components(path)?)
}

const READ_ONLY: Error = Error::ReadOnly("an ISO 9660 volume cannot be changed");

impl<D: Disk> Volume<D> {
    /// Mounts the volume on a disk. Without `writable` nothing is ever written there.
    ///
    /// # Errors
    /// It holds no volume of this format, or one that contradicts itself, or the disk fails.
    pub async fn mount(disk: D, format: Format, writable: bool) -> Result<Self, Error> {
        let disk = Rc::new(Cached::new(disk));
        Ok(Self(match format {
            Format::Fat => Mounted::Fat(alloc::boxed::Box::new(Fat::mount(disk, writable).await?)),
            Format::Iso9660 => Mounted::Iso(Iso::mount(disk).await?),
        }))
    }

    /// Its name as it is written there, which may hold any character; empty if it has none.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn label(&mut self) -> Result<String, Error> {
        match &mut self.0 {
            Mounted::Fat(fat) => fat.label().await,
            Mounted::Iso(iso) => Ok(iso.label().into()),
        }
    }

    /// The status of what a path names.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn status(&mut self, path: &str) -> Result<Status, Error> {
        match &mut self.0 {
            Mounted::Fat(fat) => fat.status(&parts(path)?).await,
            Mounted::Iso(iso) => iso.status(path).await,
        }
    }

    /// The entries of a folder.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn list(&mut self, path: &str) -> Result<Listing, Error> {
        let (mut entries, mut left_out) = match &mut self.0 {
            Mounted::Fat(fat) => fat.list(&parts(path)?).await?,
            Mounted::Iso(iso) => iso.list(path).await?,
        };
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        let all = entries.len();
        entries.dedup_by(|later, first| later.name == first.name);
        left_out = left_out.saturating_add(all.saturating_sub(entries.len()));
        Ok(Listing { entries, left_out })
    }

    /// Opens a file, to read it or to `write` it as well.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn open(&mut self, path: &str, write: bool) -> Result<Handle, Error> {
        Ok(Handle(match &mut self.0 {
            Mounted::Fat(fat) => Opened::Fat(fat.open(&parts(path)?, write).await?),
            Mounted::Iso(_) if write => return Err(READ_ONLY),
            Mounted::Iso(iso) => Opened::Iso(iso.open(path).await?),
        }))
    }

    /// Makes an empty file and opens it to write.
    ///
    /// # Errors
    /// [`Error`]; `Exists` if the name is taken.
    pub async fn create(&mut self, path: &str) -> Result<Handle, Error> {
        let (folder, name) = path::parent_and_name(path)?;
        Ok(Handle(Opened::Fat(self.fat()?.create(&folder, name).await?)))
    }

    /// The status of an open file.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn status_of(&mut self, file: &Handle) -> Result<Status, Error> {
        match (&mut self.0, &file.0) {
            (Mounted::Fat(fat), Opened::Fat(file)) => fat.status_of(file).await,
            (Mounted::Iso(_), Opened::Iso(node)) => Ok(Iso::<D>::status_of(node)),
            _ => Err(Error::Removed),
        }
    }

    /// Reads at most `most` bytes; fewer at the end of the file.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn read(&mut self, file: &Handle, offset: u64, most: usize) -> Result<Vec<u8>, Error> {
        match (&mut self.0, &file.0) {
            (Mounted::Fat(fat), Opened::Fat(file)) => fat.read(file, offset, most).await,
            (Mounted::Iso(iso), Opened::Iso(node)) => iso.read(node, offset, most).await,
            _ => Err(Error::Removed),
        }
    }

    /// Writes all bytes. They are on the medium when this is answered.
    ///
    /// # Errors
    /// [`Error`]; some of the bytes may be written.
    pub async fn write(&mut self, file: &Handle, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        match (&mut self.0, &file.0) {
            (Mounted::Fat(fat), Opened::Fat(file)) => fat.write(file, offset, bytes).await,
            _ => Err(READ_ONLY),
        }
    }

    /// Cuts or extends a file.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn truncate(&mut self, file: &Handle, bytes: u64) -> Result<(), Error> {
        match (&mut self.0, &file.0) {
            (Mounted::Fat(fat), Opened::Fat(file)) => fat.truncate(file, bytes).await,
            _ => Err(READ_ONLY),
        }
    }

    /// Closes a file.
    ///
    /// # Errors
    /// [`Error`]. What was written and answered is on the medium even so.
    pub async fn close(&mut self, file: Handle) -> Result<(), Error> {
        match (&mut self.0, file.0) {
            (Mounted::Fat(fat), Opened::Fat(file)) => fat.close(file).await,
            _ => Ok(()),
        }
    }

    /// Makes a folder.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn make_folder(&mut self, path: &str) -> Result<(), Error> {
        let (folder, name) = path::parent_and_name(path)?;
        self.fat()?.make_folder(&folder, name).await
    }

    /// Removes a file.
    ///
    /// # Errors
    /// [`Error`]; `Busy` if it is open.
    pub async fn remove_file(&mut self, path: &str) -> Result<(), Error> {
        let (folder, name) = path::parent_and_name(path)?;
        self.fat()?.remove_file(&folder, name).await
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn remove_folder(&mut self, path: &str) -> Result<(), Error> {
        let (folder, name) = path::parent_and_name(path)?;
        self.fat()?.remove_folder(&folder, name).await
    }

    /// Renames a file or folder. A file, or an empty folder, at `to` is replaced. FAT cannot do that atomically: after a
    /// power cut in between, the old file may be missing or the new one may have both names, but never is neither there.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn rename(&mut self, from: &str, to: &str) -> Result<(), Error> {
        let (from_folder, from) = path::parent_and_name(from)?;
        let (to_folder, to) = path::parent_and_name(to)?;
        self.fat()?.rename((&from_folder, from), (&to_folder, to)).await
    }

    /// Sets the time of the last change, in seconds since 1970.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn set_modified(&mut self, path: &str, seconds: i64) -> Result<(), Error> {
        let parts = parts(path)?;
        self.fat()?.set_modified(&parts, seconds).await
    }

    /// Whether the volume can be written: it is FAT, its medium is writable and it is not damaged. The first call looks at
    /// the whole volume.
    ///
    /// # Errors
    /// It cannot; the error says why.
    pub async fn check_writable(&mut self) -> Result<(), Error> {
        self.fat()?.check_writable().await
    }

    fn fat(&mut self) -> Result<&mut Fat<D>, Error> {
        match &mut self.0 {
            Mounted::Fat(fat) => Ok(fat),
            Mounted::Iso(_) => Err(READ_ONLY),
        }
    }
}
