//! `stat` and its kin.

use core::ffi::{c_char, c_int, c_uint};

use capos_schema::storage::{DirectoryClient, EntryKind, FileStatus, ReadOnlyFileClient};

use crate::guest::errno::{Errno, Result, answer};
use crate::guest::files::description::Object;
use crate::guest::files::descriptor;
use crate::guest::files::namespace::{self, Place, Target};
use crate::guest::grants::wait;
use crate::guest::handle::{Handle, failed, told};

/// Bytes that programs may best read at a time.
const BLOCK: i64 = 64 << 10;
/// Bytes that C counts blocks in.
const COUNTED_BLOCK: i64 = 512;
/// Permission bits of everything. The capability decides what may be done with a file, not these bits. So they are the
/// same for all files, and a copy has those of its source.
pub const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// The metadata of a file for C.
#[derive(Clone, Copy, Debug)]
pub struct Metadata {
    /// Type and permission bits.
    pub mode: u32,
    pub device: u64,
    pub id: u64,
    pub bytes: i64,
    pub modified_milliseconds: i64,
}

impl Metadata {
    fn of_kind(mode: u32) -> Self {
        Self { mode, device: 1, id: 1, bytes: 0, modified_milliseconds: 0 }
    }

    fn of_status(status: &FileStatus, device: u64) -> Result<Self> {
        Ok(Self {
            mode: match status.kind {
                EntryKind::File => libc::S_IFREG | FILE_MODE,
                EntryKind::Directory => libc::S_IFDIR | DIRECTORY_MODE,
                EntryKind::Link => libc::S_IFLNK | 0o777,
            },
            device,
            id: status.id,
            bytes: i64::try_from(status.bytes).map_err(|_| Errno(libc::EOVERFLOW))?,
            modified_milliseconds: status.modified_milliseconds,
        })
    }

    /// Of a file that was granted alone. The numbers of such files are the process's own: each comes from a server of
    /// its own, perhaps.
    fn of_granted(status: &FileStatus, id: u64) -> Result<Self> {
        Ok(Self { id: id.saturating_add(2), ..Self::of_status(status, 1)? })
    }

    fn top() -> Self {
        Self::of_kind(libc::S_IFDIR | 0o555)
    }

    fn character_device() -> Self {
        Self::of_kind(libc::S_IFCHR | 0o666)
    }

    pub fn is_directory(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFDIR
    }

    pub fn is_link(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFLNK
    }

    /// Seconds and nanoseconds.
    fn modified(&self) -> (i64, i64) {
        let milliseconds = self.modified_milliseconds;
        (milliseconds.div_euclid(1000), milliseconds.rem_euclid(1000).saturating_mul(1_000_000))
    }

    fn blocks(&self) -> i64 {
        self.bytes.checked_add(COUNTED_BLOCK.saturating_sub(1)).map_or(0, |bytes| bytes / COUNTED_BLOCK)
    }
}

/// Of an open file.
pub fn of_open(object: &Object) -> Result<Metadata> {
    Ok(match object {
        Object::Input(_) | Object::Output(_) | Object::Null | Object::Random => Metadata::character_device(),
        Object::PipeReader(_) | Object::PipeWriter(_) => Metadata::of_kind(libc::S_IFIFO | 0o600),
        Object::Counter(_) => Metadata::of_kind(0o600),
        Object::File(file) => match file.granted_id() {
            Some(id) => Metadata::of_granted(&file.status()?, id)?,
            None => Metadata::of_status(&file.status()?, file.device)?,
        },
        Object::Directory(open) => match &open.directory {
            Some((directory, device)) => inside(directory, *device, ".", true)?,
            None => Metadata::top(),
        },
    })
}

fn inside(directory: &Handle, device: u64, path: &str, follow: bool) -> Result<Metadata> {
    let answer = wait(directory.client::<DirectoryClient>().status(path, follow)).map_err(failed)?;
    told(answer.error)?;
    Metadata::of_status(&answer.status, device)
}

/// Of the object at a place.
pub fn of_place(place: &Place, follow: bool) -> Result<Metadata> {
    let found = match &place.target {
        Target::Top => Metadata::top(),
        // A link that is written as a directory is followed.
        Target::Inside { directory, device, path } => inside(directory, *device, path, follow || place.path.directory)?,
        Target::File(id) => {
            let file: ReadOnlyFileClient = Handle::granted(*id).client();
            let status = wait(file.status()).map_err(failed)?;
            Metadata::of_granted(&status, *id)?
        }
        Target::Null | Target::Random => Metadata::character_device(),
    };
    if place.path.directory && !found.is_directory() {
        return Err(Errno(libc::ENOTDIR));
    }
    Ok(found)
}

/// # Safety
/// `out` is null or a place for the answer.
unsafe fn give(metadata: Result<Metadata>, out: *mut libc::stat64) -> c_int {
    answer(metadata.and_then(|metadata| {
        if out.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        let (seconds, nanoseconds) = metadata.modified();
        // SAFETY: all zero is one; then the caller's place for the answer.
        unsafe {
            out.write_bytes(0, 1);
            (*out).st_dev = metadata.device;
            (*out).st_ino = metadata.id;
            (*out).st_nlink = 1;
            (*out).st_mode = metadata.mode;
            (*out).st_size = metadata.bytes;
            (*out).st_blksize = BLOCK;
            (*out).st_blocks = metadata.blocks();
            // Only its last change is known.
            ((*out).st_atime, (*out).st_atime_nsec) = (seconds, nanoseconds);
            ((*out).st_mtime, (*out).st_mtime_nsec) = (seconds, nanoseconds);
            ((*out).st_ctime, (*out).st_ctime_nsec) = (seconds, nanoseconds);
        }
        Ok(0)
    }))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn fstat64(number: c_int, out: *mut libc::stat64) -> c_int {
    // SAFETY: the caller's place for the answer.
    unsafe { give(descriptor::get(number).and_then(|open| of_open(&open.object)), out) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn stat64(path: *const c_char, out: *mut libc::stat64) -> c_int {
    // SAFETY: the caller's string and place for the answer.
    unsafe { fstatat64(libc::AT_FDCWD, path, out, 0) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn lstat64(path: *const c_char, out: *mut libc::stat64) -> c_int {
    // SAFETY: the caller's string and place for the answer.
    unsafe { fstatat64(libc::AT_FDCWD, path, out, libc::AT_SYMLINK_NOFOLLOW) }
}

/// # Safety
/// `path` is null or a string.
unsafe fn at(directory: c_int, path: *const c_char, flags: c_int) -> Result<Metadata> {
    // SAFETY: the caller's string.
    if flags & libc::AT_EMPTY_PATH != 0 && (path.is_null() || unsafe { *path } == 0) {
        return of_open(&descriptor::get(directory)?.object);
    }
    // SAFETY: the caller's string.
    of_place(&unsafe { namespace::place_at(directory, path) }?, flags & libc::AT_SYMLINK_NOFOLLOW == 0)
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn fstatat64(directory: c_int, path: *const c_char, out: *mut libc::stat64, flags: c_int) -> c_int {
    // SAFETY: the caller's string and place for the answer.
    unsafe { give(at(directory, path, flags), out) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn statx(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    _mask: c_uint,
    out: *mut libc::statx,
) -> c_int {
    // SAFETY: the caller's string.
    answer(unsafe { at(directory, path, flags) }.and_then(|metadata| {
        if out.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        let (seconds, nanoseconds) = metadata.modified();
        let unsigned = |value: i64| u64::try_from(value).unwrap_or(0);
        // SAFETY: all zero is one; then the caller's place for the answer.
        unsafe {
            out.write_bytes(0, 1);
            // All but the time of birth, which no file server keeps.
            (*out).stx_mask = libc::STATX_BASIC_STATS;
            (*out).stx_blksize = u32::try_from(BLOCK).unwrap_or(4096);
            (*out).stx_nlink = 1;
            (*out).stx_mode = u16::try_from(metadata.mode & 0xffff).unwrap_or(0);
            (*out).stx_ino = metadata.id;
            (*out).stx_size = unsigned(metadata.bytes);
            (*out).stx_blocks = unsigned(metadata.blocks());
            (*out).stx_dev_minor = u32::try_from(metadata.device).unwrap_or(0);
            for time in [&raw mut (*out).stx_atime, &raw mut (*out).stx_mtime, &raw mut (*out).stx_ctime] {
                (*time).tv_sec = seconds;
                (*time).tv_nsec = u32::try_from(nanoseconds).unwrap_or(0);
            }
        }
        Ok(0)
    }))
}
