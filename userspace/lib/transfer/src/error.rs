//! Errors of volumes.

use alloc::string::String;
use core::fmt;

use capos_tree::PathError;

use crate::name::NameError;
use crate::{Fault, MAX_FILE};

/// Why a request on a volume failed. It follows the name of the volume in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Nothing of this name, or a folder on the way to it is missing.
    NotFound(String),
    /// The name is taken. Names of a FAT volume differ by more than capital letters.
    Exists(String),
    /// A folder instead of a file.
    IsFolder(String),
    /// A file instead of a folder.
    NotFolder(String),
    /// The folder has entries.
    NotEmpty(String),
    /// A folder cannot be moved into itself.
    IntoItself,
    /// The file is open.
    Busy(String),
    /// The path breaks the rules of this machine.
    Path(PathError),
    /// The name cannot be written to a FAT volume.
    Name(NameError),
    /// The volume takes no writes.
    ReadOnly(&'static str),
    /// The volume is damaged in a way that makes writing dangerous.
    Damaged(String),
    /// It has no space left.
    NoSpace,
    /// Past the longest file of a FAT volume.
    TooLarge,
    /// A gap in a file that is too long to be filled with zeros.
    Gap,
    /// More entries in a folder than are listed.
    TooMany,
    /// The medium was removed.
    Removed,
    /// The disk failed; the text says where and how.
    Disk(String),
    /// The volume's structures are not well formed.
    Malformed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(path) => write!(f, "there is no `{path}`"),
            Self::Exists(path) => write!(f, "`{path}` exists (capital and small letters are the same there)"),
            Self::IsFolder(path) => write!(f, "`{path}` is a folder"),
            Self::NotFolder(path) => write!(f, "`{path}` is not a folder"),
            Self::NotEmpty(path) => write!(f, "the folder `{path}` is not empty"),
            Self::IntoItself => f.write_str("a folder cannot be moved into itself"),
            Self::Busy(path) => write!(f, "`{path}` is open; close it first"),
            Self::Path(error) => error.fmt(f),
            Self::Name(error) => error.fmt(f),
            Self::ReadOnly(why) => write!(f, "it is read-only: {why}"),
            Self::Damaged(what) => {
                write!(f, "it is damaged and is only read: {what}; repair it on the system that wrote it")
            }
            Self::NoSpace => f.write_str("it has no space left"),
            Self::TooLarge => write!(f, "a file there has at most {MAX_FILE} bytes; split it first"),
            Self::Gap => f.write_str("it has no sparse files; write the bytes in order"),
            Self::TooMany => f.write_str("a folder has more entries than are listed"),
            Self::Removed => f.write_str("its medium was removed; attach it again and repeat the request"),
            Self::Disk(why) => write!(f, "its disk failed: {why}"),
            Self::Malformed(what) => write!(f, "it is malformed: {what}"),
        }
    }
}

impl core::error::Error for Error {}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Removed => Self::Removed,
            Fault::ReadOnly => Self::ReadOnly("its medium is write-protected"),
            Fault::Failed(why) => Self::Disk(why),
        }
    }
}

impl From<PathError> for Error {
    fn from(error: PathError) -> Self {
        Self::Path(error)
    }
}

impl From<NameError> for Error {
    fn from(error: NameError) -> Self {
        Self::Name(error)
    }
}
