//! The objects of descriptors: an open file with its position, shared by all duplicates of one.

use alloc::sync::Arc;
use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering};

use crate::guest::errno::{Errno, Result};
use crate::guest::files::directory::OpenDirectory;
use crate::guest::files::file::OpenFile;
use crate::guest::files::pipe::{Counter, PipeReader, PipeWriter};
use crate::guest::files::stream::Input;
use crate::guest::output::Writer;
use crate::guest::threads::lock::Mutex;

/// The open object.
#[derive(Debug)]
pub enum Object {
    /// Standard input.
    Input(Input),
    /// Standard output or standard error.
    Output(Writer),
    Null,
    Random,
    File(OpenFile),
    Directory(OpenDirectory),
    PipeReader(PipeReader),
    PipeWriter(PipeWriter),
    Counter(Counter),
}

/// An open file description.
#[derive(Debug)]
pub struct Description {
    pub object: Object,
    /// How it was opened, and `O_APPEND` and `O_NONBLOCK` as they are now.
    flags: AtomicI32,
    /// Held for a whole operation that uses it, so that two never get the same bytes.
    pub position: Mutex<u64>,
}

/// Flags that a program may change.
const CHANGEABLE: c_int = libc::O_APPEND | libc::O_NONBLOCK;

impl Description {
    /// Something that was opened with these flags.
    pub fn new(object: Object, flags: c_int) -> Arc<Self> {
        let kept = flags & (libc::O_ACCMODE | CHANGEABLE);
        Arc::new(Self { object, flags: AtomicI32::new(kept), position: Mutex::new(0) })
    }

    pub fn flags(&self) -> c_int {
        self.flags.load(Ordering::Relaxed)
    }

    /// Changes what may be changed of the flags.
    pub fn set_flags(&self, flags: c_int) {
        let kept = self.flags() & !CHANGEABLE;
        self.flags.store(kept | flags & CHANGEABLE, Ordering::Relaxed);
    }

    pub fn blocks(&self) -> bool {
        self.flags() & libc::O_NONBLOCK == 0
    }

    /// Fails if it was not opened to read.
    pub fn may_read(&self) -> Result<()> {
        if self.flags() & libc::O_ACCMODE == libc::O_WRONLY { Err(Errno(libc::EBADF)) } else { Ok(()) }
    }

    /// Fails if it was not opened to write.
    pub fn may_write(&self) -> Result<()> {
        if self.flags() & libc::O_ACCMODE == libc::O_RDONLY { Err(Errno(libc::EBADF)) } else { Ok(()) }
    }
}
