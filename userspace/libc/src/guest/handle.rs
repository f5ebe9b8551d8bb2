//! Capabilities of open files: places in the process's table that any thread may call through.

use capos_abi::{ExceptionKind, Status};
use capos_ring::BlockingCap;
use capos_schema::cap::{CallError, Client};
use capos_schema::storage::FileError;

use crate::guest::errno::{Errno, Result};
use crate::guest::threads::thread_block;

/// A capability that a call has given, or a grant. Dropping one that was given by a call releases it.
#[derive(Debug)]
pub struct Handle {
    id: u64,
    owned: bool,
}

impl Handle {
    /// Takes over the result of a call.
    pub fn own(client: impl Client) -> Self {
        Self { id: BlockingCap::into_id(&client.into_cap()), owned: true }
    }

    /// A capability that the process was started with.
    pub fn granted(id: u64) -> Self {
        Self { id, owned: false }
    }

    /// Whether both are one capability.
    pub fn is(&self, other: &Self) -> bool {
        self.id == other.id
    }

    /// The capability, if the process was started with it.
    pub fn granted_id(&self) -> Option<u64> {
        (!self.owned).then_some(self.id)
    }

    /// To call it from this thread.
    pub fn client<C: Client>(&self) -> C {
        // SAFETY: every thread's block contains its ring.
        unsafe { BlockingCap::borrowed(thread_block::here, self.id) }
    }

    /// The same, if the answer is known to have few bytes, although the schema allows for many.
    pub fn client_within<C: Client>(&self, results: u32) -> C {
        // SAFETY: as in `client`.
        unsafe { BlockingCap::borrowed_within(thread_block::here, self.id, results) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.owned {
            thread_block::ring().release(self.id);
        }
    }
}

/// The error number for a failed call to a file server: the program's own request is not at fault.
pub fn failed(error: CallError) -> Errno {
    match &error {
        _ if error.is_disconnected() => Errno(libc::EIO),
        CallError::Protocol(_) => Errno(libc::EIO),
        _ => Errno::from(error),
    }
}

/// The same for calls that open a file, which is a capability: the process's account limits their number.
pub fn not_opened(error: CallError) -> Errno {
    match error {
        CallError::Transport(Status::QuotaExceeded) => Errno(libc::EMFILE),
        _ => failed(error),
    }
}

/// The same for calls that add to a file.
pub fn not_written(error: CallError) -> Errno {
    match &error {
        CallError::Exception(exception) if exception.kind == ExceptionKind::Overloaded => Errno(libc::ENOSPC),
        CallError::Exception(exception) if exception.kind == ExceptionKind::InvalidArgument => Errno(libc::EFBIG),
        _ => failed(error),
    }
}

/// A server's errors for a path.
pub fn told(error: FileError) -> Result<()> {
    Err(Errno(match error {
        FileError::None => return Ok(()),
        FileError::NotFound => libc::ENOENT,
        FileError::Exists => libc::EEXIST,
        FileError::IsDirectory => libc::EISDIR,
        FileError::NotDirectory => libc::ENOTDIR,
        FileError::NotEmpty => libc::ENOTEMPTY,
        FileError::ReadOnly => libc::EROFS,
        FileError::NoSpace => libc::ENOSPC,
        FileError::TooLarge => libc::EFBIG,
        FileError::BadPath | FileError::IntoItself | FileError::NotLink => libc::EINVAL,
        FileError::TooLong => libc::ENAMETOOLONG,
        FileError::IsLink => libc::ELOOP,
    }))
}
