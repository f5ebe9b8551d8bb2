//! Files: opening them, and their bytes.

use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicBool, Ordering};

use capos_schema::storage::{
    DirectoryClient, FileClient, FileStatus, OpenOptions, ReadOnlyFileClient, ReadOnlyFileMemoryResults,
};

use crate::guest::errno::{Errno, Result, answer};
use crate::guest::files::description::{Description, Object};
use crate::guest::files::descriptor;
use crate::guest::files::directory::OpenDirectory;
use crate::guest::files::namespace::{self, Place, Target};
use crate::guest::grants::wait;
use crate::guest::handle::{Handle, failed, not_opened, not_written, told};
use crate::transfer::{self, MAX_TRANSFER};

/// Bytes of an answer besides its data.
const OVERHEAD: u32 = 64;

/// The capability of an open file.
#[derive(Debug)]
enum Open {
    ToRead(Handle),
    ToWrite(Handle),
}

/// An open file.
#[derive(Debug)]
pub struct OpenFile {
    open: Open,
    pub device: u64,
    /// It may have a lock, which ends with it.
    locked: AtomicBool,
}

impl OpenFile {
    fn new(open: Open, device: u64) -> Self {
        Self { open, device, locked: AtomicBool::new(false) }
    }

    /// The capability of a file that was granted alone.
    pub fn granted_id(&self) -> Option<u64> {
        match &self.open {
            Open::ToRead(file) | Open::ToWrite(file) => file.granted_id(),
        }
    }

    /// Locks the file. `EWOULDBLOCK` if others have it and the caller does not want to wait.
    pub fn lock(&self, exclusive: bool, wait_for_it: bool) -> Result<()> {
        self.locked.store(true, Ordering::Relaxed);
        let held = match &self.open {
            Open::ToRead(file) => wait(file.client::<ReadOnlyFileClient>().lock(exclusive, wait_for_it)),
            Open::ToWrite(file) => wait(file.client::<FileClient>().lock(exclusive, wait_for_it)),
        };
        if held.map_err(failed)? { Ok(()) } else { Err(Errno(libc::EWOULDBLOCK)) }
    }

    pub fn unlock(&self) -> Result<()> {
        if self.locked.swap(false, Ordering::Relaxed) {
            match &self.open {
                Open::ToRead(file) => wait(file.client::<ReadOnlyFileClient>().unlock()),
                Open::ToWrite(file) => wait(file.client::<FileClient>().unlock()),
            }
            .map_err(failed)?;
        }
        Ok(())
    }

    /// At most as many bytes as there are in `buffer`, from `offset` on: fewer only at the end of the file, or if a
    /// call failed after others had given some.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let (mut done, mut left) = (0_usize, buffer);
        while !left.is_empty() {
            let at = offset.checked_add(u64::try_from(done).unwrap_or(u64::MAX)).ok_or(Errno(libc::EINVAL))?;
            let first = transfer::first(at, left.len());
            let (piece, rest) = core::mem::take(&mut left).split_at_mut_checked(first).unwrap_or_default();
            left = rest;
            let count = u32::try_from(piece.len()).unwrap_or(0);
            let room = count.saturating_add(OVERHEAD).next_multiple_of(8);
            let data = match &self.open {
                Open::ToRead(file) => wait(file.client_within::<ReadOnlyFileClient>(room).read(at, count)),
                Open::ToWrite(file) => wait(file.client_within::<FileClient>(room).read(at, count)),
            };
            let data = match data {
                Ok(data) => data,
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(failed(error)),
            };
            // More than was asked for is not for this buffer.
            let (to, from) = piece.split_at_mut(data.len().min(piece.len()));
            to.copy_from_slice(data.get(..to.len()).unwrap_or_default());
            done = done.saturating_add(to.len());
            if !from.is_empty() {
                break;
            }
        }
        Ok(done)
    }

    /// Writes at an offset. How many bytes were written: fewer only if a call failed after others had succeeded.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        let Open::ToWrite(file) = &self.open else { return Err(Errno(libc::EBADF)) };
        let file: FileClient = file.client();
        let (mut done, mut left) = (0_usize, bytes);
        while !left.is_empty() {
            let at = offset.checked_add(u64::try_from(done).unwrap_or(u64::MAX)).ok_or(Errno(libc::EFBIG))?;
            let (piece, rest) = left.split_at_checked(transfer::first(at, left.len())).unwrap_or((left, &[]));
            left = rest;
            match wait(file.write(at, piece)) {
                Ok(written) => {
                    let written = usize::try_from(written).unwrap_or(usize::MAX).min(piece.len());
                    done = done.saturating_add(written);
                    if written < piece.len() {
                        break;
                    }
                }
                Err(_) if done > 0 => break,
                Err(error) => return Err(not_written(error)),
            }
        }
        Ok(done)
    }

    /// Writes at the end. How many bytes were written, and where the end is then.
    pub fn append(&self, bytes: &[u8]) -> Result<(usize, u64)> {
        let Open::ToWrite(file) = &self.open else { return Err(Errno(libc::EBADF)) };
        // One call, so that concurrent writes are never mixed.
        let bytes = bytes.get(..MAX_TRANSFER).unwrap_or(bytes);
        let offset = wait(file.client::<FileClient>().append(bytes)).map_err(not_written)?;
        Ok((bytes.len(), offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(0))))
    }

    pub fn status(&self) -> Result<FileStatus> {
        match &self.open {
            Open::ToRead(file) => wait(file.client::<ReadOnlyFileClient>().status()),
            Open::ToWrite(file) => wait(file.client::<FileClient>().status()),
        }
        .map_err(failed)
    }

    pub fn truncate(&self, bytes: u64) -> Result<()> {
        let Open::ToWrite(file) = &self.open else { return Err(Errno(libc::EINVAL)) };
        wait(file.client::<FileClient>().truncate(bytes)).map_err(not_written)
    }

    pub fn set_modified(&self, milliseconds: i64) -> Result<()> {
        let Open::ToWrite(file) = &self.open else { return Err(Errno(libc::EBADF)) };
        wait(file.client::<FileClient>().set_modified(milliseconds)).map_err(failed)
    }

    /// Answers when all that was changed is on the server's medium.
    pub fn sync(&self) -> Result<()> {
        match &self.open {
            Open::ToRead(file) => wait(file.client::<ReadOnlyFileClient>().sync()),
            Open::ToWrite(file) => wait(file.client::<FileClient>().sync()),
        }
        .map_err(failed)
    }

    /// The file as memory that its server pages in; `None` if the server has no such thing.
    pub fn memory(&self) -> Result<Option<ReadOnlyFileMemoryResults>> {
        use capos_abi::ExceptionKind;
        use capos_schema::cap::CallError;
        let Open::ToRead(file) = &self.open else { return Ok(None) };
        match wait(file.client::<ReadOnlyFileClient>().memory()) {
            Ok(memory) => Ok(Some(memory)),
            Err(CallError::Exception(exception)) if exception.kind == ExceptionKind::Unimplemented => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // A server that is gone has forgotten it.
        let _ = self.unlock();
    }
}

/// Opens the object at a place.
pub fn open_place(place: Place, flags: c_int) -> Result<Object> {
    let write = flags & libc::O_ACCMODE != libc::O_RDONLY;
    if flags & libc::O_TMPFILE == libc::O_TMPFILE {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let create = flags & libc::O_CREAT != 0;
    if create && flags & libc::O_DIRECTORY != 0 {
        return Err(Errno(libc::EINVAL));
    }
    if create && place.path.directory {
        return Err(Errno(libc::EISDIR));
    }
    let exclusive = create && flags & libc::O_EXCL != 0;
    let (directory, device, path) = match place.target {
        Target::Inside { directory, device, path } => (directory, device, path),
        _ if exclusive => return Err(Errno(libc::EEXIST)),
        Target::Top if write => return Err(Errno(libc::EISDIR)),
        Target::Top => return Ok(Object::Directory(OpenDirectory { directory: None, path: place.path })),
        _ if flags & libc::O_DIRECTORY != 0 || place.path.directory => return Err(Errno(libc::ENOTDIR)),
        Target::File(_) if write => return Err(Errno(libc::EROFS)),
        Target::File(id) => {
            return Ok(Object::File(OpenFile::new(Open::ToRead(Handle::granted(id)), 1)));
        }
        Target::Null => return Ok(Object::Null),
        Target::Random => return Ok(Object::Random),
    };
    let options = OpenOptions {
        write,
        create,
        exclusive,
        truncate: flags & libc::O_TRUNC != 0,
        no_follow: flags & libc::O_NOFOLLOW != 0,
    };
    let opened = wait(directory.client::<DirectoryClient>().open_with(&path, &options)).map_err(not_opened)?;
    told(opened.error)?;
    let open = match (opened.directory, opened.file, opened.reader) {
        (Some(directory), _, _) if !write => {
            let directory = Some((alloc::sync::Arc::new(Handle::own(directory)), device));
            return Ok(Object::Directory(OpenDirectory { directory, path: place.path }));
        }
        (_, Some(file), _) if write => Open::ToWrite(Handle::own(file)),
        (_, _, Some(reader)) if !write => Open::ToRead(Handle::own(reader)),
        // The server returned another kind of object than requested.
        _ => return Err(Errno(libc::EIO)),
    };
    if flags & libc::O_DIRECTORY != 0 || place.path.directory {
        return Err(Errno(libc::ENOTDIR));
    }
    Ok(Object::File(OpenFile::new(open, device)))
}

fn open(place: Result<Place>, flags: c_int) -> Result<c_int> {
    let object = open_place(place?, flags)?;
    descriptor::add(Description::new(object, flags), flags & libc::O_CLOEXEC != 0)
}

/// The mode that C may give for a new file is ignored: capabilities decide what may be done with a file.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller's string.
    answer(open(unsafe { namespace::place(path) }, flags))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn openat64(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller's string.
    answer(open(unsafe { namespace::place_at(directory, path) }, flags))
}
