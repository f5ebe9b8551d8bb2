//! Errors of volumes, as callers get them.

use alloc::format;

use capos_schema::cap::CallError;
use capos_schema::storage::FileError;
use capos_transfer::Error;
use capos_tree::PathError;

/// The error of a request to the volume of this name.
pub fn refused(volume: &str, error: &Error) -> CallError {
    let text = format!("volume {volume}: {error}");
    match error {
        Error::NoSpace => CallError::overloaded(text),
        Error::Removed | Error::Disk(_) | Error::Malformed(_) => CallError::failed(text),
        _ => CallError::invalid_argument(text),
    }
}

/// What a program is told; a fault of the volume is an exception.
pub fn told(volume: &str, error: &Error) -> Result<FileError, CallError> {
    Ok(match error {
        Error::NotFound(_) => FileError::NotFound,
        Error::Exists(_) | Error::Busy(_) => FileError::Exists,
        Error::IsFolder(_) => FileError::IsDirectory,
        Error::NotFolder(_) => FileError::NotDirectory,
        Error::NotEmpty(_) => FileError::NotEmpty,
        Error::IntoItself => FileError::IntoItself,
        Error::Path(PathError::TooLong | PathError::NameTooLong(_)) => FileError::TooLong,
        Error::Path(PathError::NoName) => FileError::IsDirectory,
        Error::Path(_) | Error::Name(_) => FileError::BadPath,
        Error::ReadOnly(_) | Error::Damaged(_) => FileError::ReadOnly,
        Error::NoSpace => FileError::NoSpace,
        Error::TooLarge | Error::Gap => FileError::TooLarge,
        Error::TooMany | Error::Removed | Error::Disk(_) | Error::Malformed(_) => return Err(refused(volume, error)),
    })
}
