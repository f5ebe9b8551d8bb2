//! Directories: reading their entries.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int};

use capos_schema::storage::{DirectoryClient, EntryKind};

use crate::guest::errno::{self, Errno, Result, answer};
use crate::guest::files::description::{Description, Object};
use crate::guest::files::{descriptor, file, namespace};
use crate::guest::grants::wait;
use crate::guest::handle::{Handle, failed, told};
use crate::path::{self, Path};

/// An open directory.
#[derive(Debug)]
pub struct OpenDirectory {
    /// Its capability and device; `None` for the top.
    pub directory: Option<(Arc<Handle>, u64)>,
    /// Where it was when it was opened.
    pub path: Path,
}

impl OpenDirectory {
    /// Answers when all that was changed is on the server's medium.
    pub fn sync(&self) -> Result<()> {
        let Some((directory, _)) = &self.directory else { return Ok(()) };
        wait(directory.client::<DirectoryClient>().sync()).map_err(failed)
    }
}

#[derive(Debug)]
struct Entry {
    name: String,
    kind: EntryKind,
    id: u64,
}

/// A stream of entries: `DIR`. C leaves it to the caller that one thread at a time uses it.
#[derive(Debug)]
pub struct EntryStream {
    descriptor: c_int,
    open: Arc<Description>,
    /// The server's last answer, the next name first.
    entries: vec::IntoIter<Entry>,
    /// How many were given.
    given: i64,
    /// The last name from the server, and whether it has more.
    after: String,
    more: bool,
    /// The result of the last call.
    place: libc::dirent64,
}

fn open_directory(description: &Description) -> Result<&OpenDirectory> {
    match &description.object {
        Object::Directory(open) => Ok(open),
        _ => Err(Errno(libc::ENOTDIR)),
    }
}

impl EntryStream {
    fn new(descriptor: c_int, open: Arc<Description>) -> Result<Box<Self>> {
        open_directory(&open)?;
        // SAFETY: numbers and arrays of numbers.
        let place = unsafe { core::mem::zeroed() };
        let mut stream = Self {
            descriptor,
            open,
            entries: Vec::new().into_iter(),
            given: 0,
            after: String::new(),
            more: true,
            place,
        };
        stream.rewind();
        Ok(Box::new(stream))
    }

    fn rewind(&mut self) {
        let itself = [".", ".."].map(|name| Entry { name: name.into(), kind: EntryKind::Directory, id: 1 });
        self.entries = Vec::from(itself).into_iter();
        (self.given, self.more) = (0, true);
        self.after.clear();
    }

    fn fill(&mut self) -> Result<()> {
        let Some((directory, _)) = &open_directory(&self.open)?.directory else {
            let names = namespace::names().into_iter().zip(2..);
            self.entries = names.map(|((name, kind), id)| Entry { name, kind, id }).collect::<Vec<_>>().into_iter();
            self.more = false;
            return Ok(());
        };
        let told_of = wait(directory.client::<DirectoryClient>().entries(".", &self.after)).map_err(failed)?;
        told(told_of.error)?;
        // A server that repeats an answer would be asked for ever. Names come in any order: those of a home may be sealed.
        let last = told_of.entries.last().map(|entry| entry.name.as_str());
        if told_of.more && last.is_none_or(|last| last == self.after) {
            return Err(Errno(libc::EIO));
        }
        if let Some(last) = told_of.entries.last() {
            self.after = last.name.clone();
        }
        self.more = told_of.more;
        let entries = told_of.entries.into_iter().filter(|entry| path::is_name(&entry.name));
        let entries = entries.map(|entry| Entry { name: entry.name, kind: entry.status.kind, id: entry.status.id });
        self.entries = entries.collect::<Vec<_>>().into_iter();
        Ok(())
    }

    fn next(&mut self) -> Result<Option<&mut libc::dirent64>> {
        let entry = loop {
            match self.entries.next() {
                Some(entry) => break entry,
                None if self.more => self.fill()?,
                None => return Ok(None),
            }
        };
        self.given = self.given.saturating_add(1);
        self.place.d_ino = entry.id;
        self.place.d_off = self.given;
        self.place.d_reclen = u16::try_from(size_of::<libc::dirent64>()).unwrap_or(0);
        self.place.d_type = match entry.kind {
            EntryKind::File => libc::DT_REG,
            EntryKind::Directory => libc::DT_DIR,
            EntryKind::Link => libc::DT_LNK,
        };
        // Names are shorter than the place, so a zero stays at its end.
        let name = entry.name.bytes().map(u8::cast_signed).chain(core::iter::repeat(0));
        for (to, from) in self.place.d_name.iter_mut().zip(name) {
            *to = from;
        }
        Ok(Some(&mut self.place))
    }
}

fn give(stream: Result<Box<EntryStream>>) -> *mut EntryStream {
    stream.map_or_else(
        |error| {
            errno::set(error);
            core::ptr::null_mut()
        },
        Box::into_raw,
    )
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn opendir(path: *const c_char) -> *mut EntryStream {
    // SAFETY: the caller's string.
    let place = unsafe { namespace::place(path) };
    give(place.and_then(|place| {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let open = Description::new(file::open_place(place, flags)?, flags);
        EntryStream::new(descriptor::add(open.clone(), true)?, open)
    }))
}

/// The descriptor is the stream's from then on.
#[unsafe(no_mangle)]
extern "C" fn fdopendir(number: c_int) -> *mut EntryStream {
    give(descriptor::get(number).and_then(|open| EntryStream::new(number, open)))
}

/// # Safety
/// As in C: `stream` is what `opendir` or `fdopendir` gave.
#[unsafe(no_mangle)]
unsafe extern "C" fn closedir(stream: *mut EntryStream) -> c_int {
    if stream.is_null() {
        return answer(Err(Errno(libc::EBADF)));
    }
    // SAFETY: it was made by `give`, and the caller gives it back once.
    let stream = unsafe { Box::from_raw(stream) };
    descriptor::close(stream.descriptor)
}

/// # Safety
/// As in C: `stream` is what `opendir` or `fdopendir` gave.
#[unsafe(no_mangle)]
unsafe extern "C" fn readdir64(stream: *mut EntryStream) -> *mut libc::dirent64 {
    // SAFETY: the caller's stream.
    let next = unsafe { stream.as_mut() }.ok_or(Errno(libc::EBADF)).and_then(EntryStream::next);
    match next {
        Ok(Some(entry)) => entry,
        Ok(None) => core::ptr::null_mut(),
        Err(error) => {
            errno::set(error);
            core::ptr::null_mut()
        }
    }
}

/// # Safety
/// As in C: `stream` is what `opendir` or `fdopendir` gave.
#[unsafe(no_mangle)]
unsafe extern "C" fn rewinddir(stream: *mut EntryStream) {
    // SAFETY: the caller's stream.
    if let Some(stream) = unsafe { stream.as_mut() } {
        stream.rewind();
    }
}

/// # Safety
/// As in C: `stream` is what `opendir` or `fdopendir` gave.
#[unsafe(no_mangle)]
unsafe extern "C" fn dirfd(stream: *const EntryStream) -> c_int {
    // SAFETY: the caller's stream.
    answer(unsafe { stream.as_ref() }.map(|stream| stream.descriptor).ok_or(Errno(libc::EBADF)))
}
