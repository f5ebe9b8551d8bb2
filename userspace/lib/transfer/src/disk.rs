//! The disk below a volume.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;

/// Why a disk did not do an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The medium was removed or changed, or its drive is gone.
    Removed,
    /// The disk accepts no writes.
    ReadOnly,
    /// The disk failed; the text says where and how.
    Failed(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed => f.write_str("the medium was removed"),
            Self::ReadOnly => f.write_str("the medium is write-protected"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for Fault {}

/// A disk of blocks.
///
/// An operation whose future is dropped may still take place. Those that begin later see it as done, or as never done.
pub trait Disk: 'static {
    /// Bytes of a block: a power of two from 512 to 4096.
    fn block_bytes(&self) -> u32;

    /// Number of blocks.
    fn blocks(&self) -> u64;

    /// Whether it accepts writes.
    fn is_writable(&self) -> bool;

    /// Reads `count` blocks from `block` on.
    fn read(&self, block: u64, count: u32) -> impl Future<Output = Result<Vec<u8>, Fault>>;

    /// Writes whole blocks from `block` on, and answers when they are on the medium. The order of writes is what keeps a
    /// volume whole when the power is cut, so that no write may be kept back.
    fn write(&self, block: u64, bytes: Vec<u8>) -> impl Future<Output = Result<(), Fault>>;
}
