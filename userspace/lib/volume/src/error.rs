//! Errors of the volume.

use core::fmt;

use crate::disk::DiskError;

/// What is wrong with the content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The block is not the version that was written last: it was changed, torn, replaced by an older version or by
    /// another block.
    Mismatch,
    /// The block holds only zeros: its write was lost or it was erased.
    Zeros,
    /// The version that was written last lies in the block's other slot: a write went to the wrong place.
    Misplaced,
    /// The disk does not deliver the block, and delivers a copy of the header.
    Unreadable,
}

/// An operation of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read,
    Write,
    Flush,
}

/// Why the volume did not do what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// No header copy has the volume's mark.
    NotAVolume,
    /// The volume has a format that this version of capOS does not know.
    Version { found: u32 },
    /// Every header copy is damaged.
    DamagedHeader,
    /// The key is right, but no header was written with it: the headers were changed.
    AlteredHeader,
    /// No key slot accepts the secret.
    WrongKey,
    /// The slot's key derivation needs more memory, in bytes, than there is.
    Memory { needed: u64, limit: u64 },
    /// The system did not give the memory, in bytes, that the key derivation needs.
    Allocation { needed: u64 },
    /// The disk is too small for a volume, in blocks.
    TooSmall { blocks: u64, needed: u64 },
    /// The disk has fewer blocks than the volume on it.
    Shrunk { blocks: u64, needed: u64 },
    /// The blocks lie beyond the volume's end.
    OutOfRange { first: u64, count: u64, blocks: u64 },
    /// The buffer's length is no multiple of a block.
    Length { bytes: usize },
    /// The volume was opened for reading.
    ReadOnly,
    /// An earlier write failed; what the disk holds since is unknown until the volume is opened again.
    Failed,
    /// A block of the disk is not what was written last. `level` 0 is data, and `index` the volume's block; higher
    /// levels are nodes of the tree.
    Block { block: u64, level: u8, index: u64, fault: Fault },
    /// The disk failed at `block`.
    Disk { operation: Operation, block: u64, error: DiskError },
    /// There is no key slot of this number in use.
    NoSlot { slot: usize },
    /// All key slots are in use.
    SlotsFull,
    /// The last key slot in use cannot be removed.
    LastSlot,
    /// The secret is too short: a passphrase is empty, or a key file has fewer bytes than needed.
    TooShort { needed: usize },
    /// The slot's label is longer than this number of bytes.
    LongLabel { most: usize },
    /// The parameters of the key derivation lie outside their limits.
    Cost,
    /// The counters of the volume are used up: copy the data to a new volume.
    Exhausted,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotAVolume => f.write_str("the disk holds no capOS volume"),
            Self::Version { found } => write!(
                f,
                "the volume has format {found}, and this capOS knows format {}: start a newer capOS",
                crate::header::VERSION
            ),
            Self::DamagedHeader => {
                f.write_str("all four copies of the volume's header are damaged: restore a backup onto a new volume")
            }
            Self::AlteredHeader => f.write_str(
                "the key is right, but the volume's headers were changed by a program without it: restore a backup",
            ),
            Self::WrongKey => f.write_str("no key slot of the volume accepts this secret"),
            Self::Memory { needed, limit } => write!(
                f,
                "this key slot needs {} KiB of memory to open, and {} KiB are there: use another slot or more memory",
                needed.div_ceil(1024),
                limit >> 10
            ),
            Self::Allocation { needed } => {
                write!(f, "{} KiB of memory for this key slot could not be allocated: end other programs", needed >> 10)
            }
            Self::TooSmall { blocks, needed } => {
                write!(f, "the disk has {blocks} blocks of 4 KiB, and a volume needs at least {needed}")
            }
            Self::Shrunk { blocks, needed } => {
                write!(f, "the disk has {blocks} blocks of 4 KiB, and the volume on it takes {needed}: it was cut")
            }
            Self::OutOfRange { first, count, blocks } => {
                write!(f, "{count} blocks from block {first} on lie beyond the volume's {blocks} blocks")
            }
            Self::Length { bytes } => write!(f, "{bytes} bytes are no multiple of a block of 4096 bytes"),
            Self::ReadOnly => f.write_str("the volume was opened for reading only"),
            Self::Failed => f.write_str("an earlier write to the disk failed: open the volume again to write"),
            Self::Block { block, level, index, fault } => {
                let what = match fault {
                    Fault::Mismatch => "is damaged or is not its newest version",
                    Fault::Zeros => "holds only zeros: its write was lost or it was erased",
                    Fault::Misplaced => "was written to the wrong place",
                    Fault::Unreadable => "cannot be read: the disk reports a failure of this block",
                };
                match level {
                    0 => write!(f, "disk block {block} (data block {index}) {what}: restore it from a backup"),
                    level => {
                        write!(f, "disk block {block} (tree level {level}, node {index}) {what}: restore a backup")
                    }
                }
            }
            Self::Disk { operation: Operation::Read, block, error } => write!(f, "reading disk block {block}: {error}"),
            Self::Disk { operation: Operation::Write, block, error } => {
                write!(f, "writing disk block {block}: {error}")
            }
            Self::Disk { operation: Operation::Flush, error, .. } => write!(f, "flushing the disk: {error}"),
            Self::NoSlot { slot } => write!(f, "key slot {slot} is not in use"),
            Self::SlotsFull => write!(f, "all {} key slots are in use: remove one first", crate::slot::SLOTS),
            Self::LastSlot => f.write_str("the last key slot cannot be removed: add another one first"),
            Self::TooShort { needed } => write!(f, "the secret is too short: at least {needed} bytes are needed"),
            Self::LongLabel { most } => write!(f, "the label of a key slot has at most {most} bytes"),
            Self::Cost => f.write_str("the parameters of the key derivation lie outside their limits"),
            Self::Exhausted => f.write_str("the volume's counters are used up: copy the data to a new volume"),
        }
    }
}

impl core::error::Error for Error {}
