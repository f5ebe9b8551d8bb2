//! The targets of the process's paths: the directories and files that it was granted, each under its name, and nothing
//! else.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int};

use capos_schema::storage::{DirectoryClient, EntryKind, ReadOnlyFileClient};
use spin::Once;

use crate::guest::errno::{Errno, Result};
use crate::guest::files::description::Object;
use crate::guest::files::descriptor;
use crate::guest::grants::{self, cap};
use crate::guest::handle::Handle;
use crate::guest::threads::lock::Mutex;
use crate::path::{self, Path, PathError};

/// The program's own file, which the launcher may grant.
const PROGRAM: &str = "program";

/// The target of a path.
#[derive(Clone, Debug)]
pub enum Target {
    /// Where the names of all grants are.
    Top,
    /// A path, as its server takes it, in a directory.
    Inside { directory: Arc<Handle>, device: u64, path: String },
    /// A file that was granted alone.
    File(u64),
    /// `/dev/null`.
    Null,
    /// `/dev/urandom`.
    Random,
}

/// A path and its target.
#[derive(Clone, Debug)]
pub struct Place {
    pub path: Path,
    pub target: Target,
}

impl Place {
    /// Whether it is the name of a grant itself, or the top, which only the launcher may change.
    pub fn is_granted_name(&self) -> bool {
        !matches!(&self.target, Target::Inside { path, .. } if path != ".")
    }
}

impl From<PathError> for Errno {
    fn from(error: PathError) -> Self {
        Self(match error {
            PathError::Empty => libc::ENOENT,
            PathError::TooLong => libc::ENAMETOOLONG,
        })
    }
}

/// Where relative paths start, once the program has set it.
static WORKING: Mutex<Option<Path>> = Mutex::new(None);
/// Where they start before.
static FIRST: Once<Path> = Once::new();

/// The environment's `PWD`, if it names a directory that was granted; else the top.
fn first() -> Path {
    let environment = grants::grants().map(|grants| grants.environment.as_slice()).unwrap_or_default();
    let named = environment.iter().find_map(|line| line.strip_prefix("PWD=")).filter(|path| path.starts_with('/'));
    let path = named.and_then(|named| Path::new("/", named).ok());
    path.filter(|path| matches!(find(path), Ok(Target::Inside { .. }))).unwrap_or(Path::top())
}

/// The working directory.
pub fn working() -> Path {
    match &*WORKING.lock() {
        Some(path) => path.clone(),
        None => FIRST.call_once(first).clone(),
    }
}

/// Makes another directory the working directory.
pub fn work_in(path: Path) {
    *WORKING.lock() = Some(path);
}

/// The names at the top.
pub fn names() -> Vec<(String, EntryKind)> {
    let Some(grants) = grants::grants() else { return Vec::new() };
    let directories = grants.all::<DirectoryClient>().map(|(name, _)| (name, EntryKind::Directory));
    let files = grants.all::<ReadOnlyFileClient>().map(|(name, _)| (name, EntryKind::File));
    let names = directories.chain(files).filter(|(name, _)| path::is_name(name));
    names.map(|(name, kind)| (String::from(name), kind)).collect()
}

fn granted_file(name: &str) -> Option<u64> {
    grants::grants()?.all::<ReadOnlyFileClient>().find(|(granted, _)| *granted == name).map(|(_, id)| id)
}

/// What a path leads to. `ENOENT` if nothing of its first name was granted.
pub fn find(path: &Path) -> Result<Target> {
    let Some((root, inside)) = path.split() else { return Ok(Target::Top) };
    let grants = grants::grants().ok_or(Errno(libc::ENOENT))?;
    if let Some((at, (_, id))) = grants.all::<DirectoryClient>().enumerate().find(|(_, (name, _))| *name == root) {
        // The first device is the top.
        let device = u64::try_from(at).unwrap_or(0).saturating_add(2);
        let path = String::from(if inside.is_empty() { "." } else { inside });
        return Ok(Target::Inside { directory: Arc::new(Handle::granted(id)), device, path });
    }
    if let Some(id) = granted_file(root) {
        return if inside.is_empty() { Ok(Target::File(id)) } else { Err(Errno(libc::ENOTDIR)) };
    }
    match path.as_str() {
        "/dev/null" => Ok(Target::Null),
        "/dev/urandom" | "/dev/random" if cap::<capos_schema::kernel::EntropyClient>("entropy").is_some() => {
            Ok(Target::Random)
        }
        "/proc/self/exe" => granted_file(PROGRAM).map(Target::File).ok_or(Errno(libc::ENOENT)),
        _ => Err(Errno(libc::ENOENT)),
    }
}

/// A path of C. `EILSEQ` if it is not UTF-8: names on capOS are text. It is copied once and judged on the copy: another
/// thread of the program may change it meanwhile.
///
/// # Safety
/// `path` is null or a string.
unsafe fn text(path: *const c_char) -> Result<String> {
    if path.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: the caller's.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    if bytes.len() >= path::MAX_PATH {
        return Err(Errno(libc::ENAMETOOLONG));
    }
    String::from_utf8(bytes.to_vec()).map_err(|_| Errno(libc::EILSEQ))
}

/// The target of a path of C, from the working directory.
///
/// # Safety
/// `path` is null or a string.
pub unsafe fn place(path: *const c_char) -> Result<Place> {
    // SAFETY: the caller's.
    unsafe { place_at(libc::AT_FDCWD, path) }
}

/// The target of a path of C, from an open directory: through the directory that was opened, wherever it is by now,
/// unless the path leaves it.
///
/// # Safety
/// `path` is null or a string.
pub unsafe fn place_at(directory: c_int, path: *const c_char) -> Result<Place> {
    // SAFETY: the caller's.
    let text = &*unsafe { text(path) }?;
    if directory == libc::AT_FDCWD || text.starts_with('/') {
        let path = Path::new(working().as_str(), text)?;
        return Ok(Place { target: find(&path)?, path });
    }
    let open = descriptor::get(directory)?;
    let Object::Directory(open) = &open.object else { return Err(Errno(libc::ENOTDIR)) };
    let path = Path::new(open.path.as_str(), text)?;
    let target = match (&open.directory, path::inside(text)) {
        (Some((directory, device)), Some(inside)) => Target::Inside {
            directory: directory.clone(),
            device: *device,
            path: if inside.is_empty() { String::from(".") } else { inside },
        },
        _ => find(&path)?,
    };
    Ok(Place { path, target })
}
