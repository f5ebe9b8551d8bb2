//! Why a backup could not be written or read.

use alloc::string::String;
use core::fmt;

/// Why a backup could not be written or read. Nothing that was there before has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The folder holds no backup.
    NoBackup,
    /// The backup is of another version.
    Version { found: u32 },
    /// A file is not what was written, or belongs to another backup.
    Altered { file: String },
    /// A file is not there.
    Missing { file: String },
    /// Only machines with this volume's keys write to it.
    OtherVolume,
    /// No key slot accepts the secret, or one needs more memory than there is.
    Key(capos_volume::Error),
    /// The files' own error.
    Files(String),
    /// The store's own error.
    Store(String),
    /// The person stopped it.
    Stopped,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBackup => f.write_str("there is no backup in this folder; name the folder that /backup made"),
            Self::Version { found } => {
                write!(f, "the backup has version {found}, and this system reads version {}", crate::VERSION)
            }
            Self::Altered { file } => {
                write!(f, "the file {file} of the backup is not what was written; use another copy of the backup")
            }
            Self::Missing { file } => {
                write!(f, "the file {file} of the backup is missing; run the backup again to its end")
            }
            Self::OtherVolume => {
                f.write_str("the folder holds the backup of another machine; give this one a folder of its own")
            }
            Self::Key(error) => write!(f, "the backup does not open: {error}"),
            Self::Files(why) | Self::Store(why) => f.write_str(why),
            Self::Stopped => f.write_str("the backup was stopped; the next one continues from here"),
        }
    }
}

impl core::error::Error for Error {}
