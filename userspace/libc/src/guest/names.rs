//! Operations on names: making, removing and renaming them, and the working directory.

use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int};

use capos_schema::storage::{DirectoryClient, FileError};

use crate::guest::errno::{self, Errno, Result, answer, answer_size};
use crate::guest::files::description::Object;
use crate::guest::files::metadata;
use crate::guest::files::namespace::{self, Place, Target};
use crate::guest::files::{descriptor, file};
use crate::guest::grants::wait;
use crate::guest::handle::{failed, told};
use crate::guest::{clock, malloc};
use crate::path::{MAX_PATH, Path};

/// Links that are followed on the way to one file at most.
const MAX_LINKS: usize = 40;

/// Changes a name inside a granted directory.
fn change(
    place: &Place,
    call: impl FnOnce(DirectoryClient, &str) -> core::result::Result<FileError, capos_schema::cap::CallError>,
) -> Result<c_int> {
    match &place.target {
        Target::Inside { directory, path, .. } if path != "." => {
            told(call(directory.client(), path).map_err(failed)?)?;
            Ok(0)
        }
        // The name of a grant.
        _ => Err(Errno(libc::EBUSY)),
    }
}

fn make_directory(place: Result<Place>) -> Result<c_int> {
    let place = place?;
    if place.is_granted_name() {
        return Err(Errno(libc::EEXIST));
    }
    change(&place, |directory, path| wait(directory.create_directory(path)))
}

/// The mode is ignored: capabilities decide what may be done with a directory.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn mkdir(path: *const c_char, _mode: libc::mode_t) -> c_int {
    // SAFETY: the caller's string.
    answer(make_directory(unsafe { namespace::place(path) }))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn mkdirat(directory: c_int, path: *const c_char, _mode: libc::mode_t) -> c_int {
    // SAFETY: the caller's string.
    answer(make_directory(unsafe { namespace::place_at(directory, path) }))
}

fn remove_file(place: &Place) -> Result<c_int> {
    if place.path.directory {
        // Fails with ENOTDIR if it is not a directory.
        metadata::of_place(place, true)?;
        return Err(Errno(libc::EISDIR));
    }
    change(place, |directory, path| wait(directory.remove_file(path)))
}

fn remove_directory(place: &Place) -> Result<c_int> {
    change(place, |directory, path| wait(directory.remove_directory(path)))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: the caller's string.
    answer(unsafe { namespace::place(path) }.and_then(|place| remove_file(&place)))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: the caller's string.
    answer(unsafe { namespace::place(path) }.and_then(|place| remove_directory(&place)))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller's string.
    answer(unsafe { namespace::place_at(directory, path) }.and_then(|place| match flags {
        0 => remove_file(&place),
        libc::AT_REMOVEDIR => remove_directory(&place),
        _ => Err(Errno(libc::EINVAL)),
    }))
}

fn move_name(from: Place, to: Place) -> Result<c_int> {
    if from.is_granted_name() || to.is_granted_name() {
        return Err(Errno(libc::EBUSY));
    }
    if from.path.directory || to.path.directory {
        let moved = metadata::of_place(&from, false)?;
        if !moved.is_directory() {
            return Err(Errno(libc::ENOTDIR));
        }
    }
    // A server moves names only within the directory that is called, and the directories below it.
    match (from.target, to.target) {
        (Target::Inside { directory, path, .. }, Target::Inside { directory: other, path: other_path, .. })
            if directory.is(&other) =>
        {
            told(wait(directory.client::<DirectoryClient>().rename(&path, &other_path)).map_err(failed)?)?;
            Ok(0)
        }
        _ => Err(Errno(libc::EXDEV)),
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the caller's strings.
    unsafe { renameat(libc::AT_FDCWD, from, libc::AT_FDCWD, to) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn renameat(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
) -> c_int {
    // SAFETY: the caller's strings.
    let places = unsafe { (namespace::place_at(from_directory, from), namespace::place_at(to_directory, to)) };
    answer(places.0.and_then(|from| move_name(from, places.1?)))
}

/// The target of a link, unresolved.
fn link_target(place: &Place) -> Result<String> {
    if place.path.as_str() == "/proc/self/exe" && matches!(place.target, Target::File(_)) {
        return Ok(String::from("/program"));
    }
    let Target::Inside { directory, path, .. } = &place.target else { return Err(Errno(libc::EINVAL)) };
    let link = wait(directory.client::<DirectoryClient>().read_link(path)).map_err(failed)?;
    told(link.error)?;
    Ok(link.target)
}

/// # Safety
/// `buffer` is null or `length` writable bytes.
unsafe fn give_link(target: Result<String>, buffer: *mut c_char, length: usize) -> isize {
    answer_size(target.and_then(|target| {
        let count = target.len().min(length);
        if count > 0 && buffer.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        // SAFETY: `count` bytes fit the caller's buffer.
        unsafe { core::ptr::copy_nonoverlapping(target.as_ptr().cast(), buffer, count) };
        isize::try_from(count).map_err(|_| Errno(libc::EINVAL))
    }))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn readlink(path: *const c_char, buffer: *mut c_char, length: usize) -> isize {
    // SAFETY: the caller's string and buffer.
    unsafe { readlinkat(libc::AT_FDCWD, path, buffer, length) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn readlinkat(directory: c_int, path: *const c_char, buffer: *mut c_char, length: usize) -> isize {
    // SAFETY: the caller's string and buffer.
    unsafe {
        let place = namespace::place_at(directory, path);
        give_link(place.and_then(|place| link_target(&place)), buffer, length)
    }
}

/// A path without links, of something that exists. A link is read as its server reads it: from the granted directory if
/// it starts with a slash.
fn real(path: Path) -> Result<Path> {
    metadata::of_place(&Place { target: namespace::find(&path)?, path: path.clone() }, true)?;
    let mut waiting: Vec<String> =
        path.as_str().split('/').rev().filter(|name| !name.is_empty()).map(String::from).collect();
    let mut done = Path::top();
    let mut root: Option<Path> = None;
    let mut links = 0_usize;
    while let Some(name) = waiting.pop() {
        let next = Path::new(done.as_str(), &name)?;
        let place = Place { target: namespace::find(&next)?, path: next.clone() };
        if !place.is_granted_name() && metadata::of_place(&place, false)?.is_link() {
            links = links.saturating_add(1);
            if links > MAX_LINKS {
                return Err(Errno(libc::ELOOP));
            }
            let target = link_target(&place)?;
            if target.starts_with('/') {
                done = root.clone().unwrap_or(Path::top());
            }
            waiting.extend(target.rsplit('/').filter(|name| !name.is_empty()).map(String::from));
            continue;
        }
        if root.is_none() {
            root = Some(next.clone());
        }
        // A link's `..` ends at the granted directory.
        done = match &root {
            Some(root) if next.as_str() == "/" => root.clone(),
            _ => next,
        };
    }
    Ok(done)
}

/// Copies a path with its zero: into the caller's buffer, or into a new one if there is none.
///
/// # Safety
/// `buffer` is null or `length` writable bytes.
unsafe fn give_path(path: Result<Path>, buffer: *mut c_char, length: usize) -> *mut c_char {
    let given = path.and_then(|path| {
        let text = path.as_str();
        let whole = text.len().saturating_add(1);
        let buffer = match buffer.is_null() {
            true => malloc::malloc(whole.max(length)).cast::<c_char>(),
            false if whole > length => return Err(Errno(libc::ERANGE)),
            false => buffer,
        };
        if buffer.is_null() {
            return Err(Errno(libc::ENOMEM));
        }
        // SAFETY: the text and its zero fit the buffer.
        unsafe {
            core::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, text.len());
            buffer.add(text.len()).write(0);
        }
        Ok(buffer)
    });
    given.unwrap_or_else(|error| {
        errno::set(error);
        core::ptr::null_mut()
    })
}

/// # Safety
/// As in C: `buffer` is null or has `PATH_MAX` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn realpath(path: *const c_char, buffer: *mut c_char) -> *mut c_char {
    // SAFETY: the caller's string and buffer.
    unsafe {
        let place = namespace::place(path);
        let length = if buffer.is_null() { 0 } else { MAX_PATH };
        give_path(place.and_then(|place| real(place.path)), buffer, length)
    }
}

/// # Safety
/// As in C: `buffer` is null or has `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn getcwd(buffer: *mut c_char, length: usize) -> *mut c_char {
    let path = if length == 0 && !buffer.is_null() { Err(Errno(libc::EINVAL)) } else { Ok(namespace::working()) };
    // SAFETY: the caller's buffer.
    unsafe { give_path(path, buffer, length) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn chdir(path: *const c_char) -> c_int {
    // SAFETY: the caller's string.
    answer(unsafe { namespace::place(path) }.and_then(|place| {
        if !metadata::of_place(&place, true)?.is_directory() {
            return Err(Errno(libc::ENOTDIR));
        }
        namespace::work_in(place.path);
        Ok(0)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn fchdir(number: c_int) -> c_int {
    answer(descriptor::get(number).and_then(|open| match &open.object {
        Object::Directory(open) => {
            namespace::work_in(open.path.clone());
            Ok(0)
        }
        _ => Err(Errno(libc::ENOTDIR)),
    }))
}

/// The only links are those of the medium; programs cannot make any.
#[unsafe(no_mangle)]
extern "C" fn symlink(_target: *const c_char, _path: *const c_char) -> c_int {
    answer(Err(Errno(libc::EPERM)))
}

#[unsafe(no_mangle)]
extern "C" fn symlinkat(_target: *const c_char, _directory: c_int, _path: *const c_char) -> c_int {
    answer(Err(Errno(libc::EPERM)))
}

#[unsafe(no_mangle)]
extern "C" fn link(_from: *const c_char, _to: *const c_char) -> c_int {
    answer(Err(Errno(libc::EPERM)))
}

#[unsafe(no_mangle)]
extern "C" fn linkat(
    _from_directory: c_int,
    _from: *const c_char,
    _to_directory: c_int,
    _to: *const c_char,
    _flags: c_int,
) -> c_int {
    answer(Err(Errno(libc::EPERM)))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: the caller's string.
    unsafe { faccessat(libc::AT_FDCWD, path, mode, 0) }
}

/// Returns whether it is there. Whether a file of a granted directory may be written shows when it is opened to write:
/// only its server knows.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn faccessat(directory: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller's string.
    answer(unsafe { namespace::place_at(directory, path) }.and_then(|place| {
        let found = metadata::of_place(&place, flags & libc::AT_SYMLINK_NOFOLLOW == 0)?;
        if mode & libc::W_OK != 0 && matches!(place.target, Target::File(_)) {
            return Err(Errno(libc::EROFS));
        }
        // No file is a program to be started by its name.
        if mode & libc::X_OK != 0 && !found.is_directory() { Err(Errno(libc::EACCES)) } else { Ok(0) }
    }))
}

/// Permission bits cannot change: setting those that a file already has succeeds, anything else is rejected.
fn change_mode(found: &metadata::Metadata, mode: libc::mode_t) -> Result<c_int> {
    if mode & 0o7777 == found.mode & 0o7777 { Ok(0) } else { Err(Errno(libc::EOPNOTSUPP)) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn chmod(path: *const c_char, mode: libc::mode_t) -> c_int {
    // SAFETY: the caller's string.
    let place = unsafe { namespace::place(path) };
    answer(place.and_then(|place| change_mode(&metadata::of_place(&place, true)?, mode)))
}

#[unsafe(no_mangle)]
extern "C" fn fchmod(number: c_int, mode: libc::mode_t) -> c_int {
    answer(descriptor::get(number).and_then(|open| change_mode(&metadata::of_open(&open.object)?, mode)))
}

/// Milliseconds since 1970 that a pair of times sets as the time of the last change; `None` if it sets none. The time
/// of the last reading is not kept.
///
/// # Safety
/// `times` is null or points to two.
unsafe fn change_time(times: *const libc::timespec) -> Result<Option<i64>> {
    let now = || Ok(Some(i64::try_from(clock::wall()? / 1_000_000).unwrap_or(i64::MAX)));
    if times.is_null() {
        return now();
    }
    // SAFETY: the caller's.
    let time = unsafe { times.add(1).read() };
    match time.tv_nsec {
        libc::UTIME_NOW => now(),
        libc::UTIME_OMIT => Ok(None),
        0..=999_999_999 => {
            let seconds = time.tv_sec.checked_mul(1000).ok_or(Errno(libc::EINVAL))?;
            Ok(Some(seconds.checked_add(time.tv_nsec / 1_000_000).ok_or(Errno(libc::EINVAL))?))
        }
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn futimens(number: c_int, times: *const libc::timespec) -> c_int {
    // SAFETY: the caller's times.
    answer(descriptor::get(number).and_then(|open| match (&open.object, unsafe { change_time(times) }?) {
        (_, None) => Ok(0),
        (Object::File(file), Some(time)) => file.set_modified(time).map(|()| 0),
        (Object::Directory(open), Some(time)) => {
            let (directory, _) = open.directory.as_ref().ok_or(Errno(libc::EROFS))?;
            told(wait(directory.client::<DirectoryClient>().set_modified(".", time)).map_err(failed)?)?;
            Ok(0)
        }
        _ => Err(Errno(libc::EINVAL)),
    }))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn utimensat(
    directory: c_int,
    path: *const c_char,
    times: *const libc::timespec,
    _flags: c_int,
) -> c_int {
    // SAFETY: the caller's string and times.
    let (place, time) = unsafe { (namespace::place_at(directory, path), change_time(times)) };
    answer(place.and_then(|place| match (&place.target, time?) {
        (_, None) => Ok(0),
        (Target::Inside { directory, path, .. }, Some(time)) => {
            told(wait(directory.client::<DirectoryClient>().set_modified(path, time)).map_err(failed)?)?;
            Ok(0)
        }
        _ => Err(Errno(libc::EROFS)),
    }))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn truncate64(path: *const c_char, length: i64) -> c_int {
    // SAFETY: the caller's string.
    answer(unsafe { namespace::place(path) }.and_then(|place| {
        let length = u64::try_from(length).map_err(|_| Errno(libc::EINVAL))?;
        match file::open_place(place, libc::O_WRONLY)? {
            Object::File(file) => file.truncate(length).map(|()| 0),
            _ => Err(Errno(libc::EINVAL)),
        }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn umask(_mode: libc::mode_t) -> libc::mode_t {
    0o022
}

macro_rules! unsupported {
    ($($name:ident),* $(,)?) => {
        $(
            /// capOS has nothing for it: fails with `ENOSYS`.
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> c_int {
                errno::unsupported()
            }
        )*
    };
}

unsupported!(chown, fchown, lchown, mkfifo, mkfifoat);
