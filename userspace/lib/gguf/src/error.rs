//! What can be wrong with a file, with the message.

use alloc::string::String;
use core::fmt;

use capos_plural::count;

/// Why a file is not accepted, or not yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GgufError {
    /// The metadata continues after the given bytes: call again with at least this many bytes from
    /// the start of the file (never more than the file has).
    NeedMore {
        /// Bytes from the start of the file.
        bytes: u64,
    },
    /// The file does not begin with the four bytes `GGUF`.
    Magic {
        /// Its first bytes.
        found: [u8; 4],
    },
    /// A version that is not read here.
    Version {
        /// The version.
        found: u32,
    },
    /// The file ends before this does.
    CutOff {
        /// The missing part.
        what: &'static str,
        /// Where it begins, in bytes from the start of the file.
        offset: u64,
        /// Its length in bytes.
        bytes: u64,
    },
    /// A number past what is accepted.
    TooLarge {
        /// What the number counts.
        what: &'static str,
        /// Where it is, in bytes from the start of the file.
        offset: u64,
        /// The number.
        found: u64,
        /// The largest that is accepted.
        limit: u64,
    },
    /// Bytes that should be text and are not UTF-8.
    NotText {
        /// What the text is for.
        what: &'static str,
        /// Where they are, in bytes from the start of the file.
        offset: u64,
    },
    /// A metadata entry that is needed to run a model, with text that is not UTF-8.
    NotUtf8 {
        /// Its key.
        key: String,
    },
    /// A code that names no known type.
    UnknownType {
        /// What the type is of.
        what: &'static str,
        /// Where it is, in bytes from the start of the file.
        offset: u64,
        /// The code.
        found: u32,
    },
    /// A Boolean value that is neither 0 nor 1.
    NotBool {
        /// Where it is, in bytes from the start of the file.
        offset: u64,
    },
    /// A key or tensor name that is there twice.
    Duplicate {
        /// Which kind of name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A metadata entry that must be of another type or value.
    Entry {
        /// Its key.
        key: &'static str,
        /// What it should be.
        why: &'static str,
    },
    /// A tensor with an inconsistent description.
    Tensor {
        /// Its name.
        name: String,
        /// The problem.
        why: &'static str,
    },
    /// Two tensors whose data overlap.
    Overlap {
        /// The tensor that begins first.
        first: String,
        /// The one that begins before the first has ended.
        second: String,
    },
}

impl GgufError {
    /// What a person can do about it.
    fn advice(&self) -> &'static str {
        match self {
            Self::NeedMore { .. } => "read that much and parse it again",
            Self::Magic { .. } => "take a file in the GGUF format",
            Self::CutOff { .. } => "take a complete copy of the file",
            _ => "convert the model again, or take another copy of the file",
        }
    }
}

impl fmt::Display for GgufError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeedMore { bytes } => {
                write!(f, "more of the file is needed: its first {}", count(*bytes, "byte"))
            }
            Self::Magic { found } => {
                write!(f, "this is not a GGUF file: it begins with '{}' instead of 'GGUF'", found.escape_ascii())
            }
            Self::Version { found } => {
                write!(f, "this is GGUF version {found}; versions 2 and 3 in little-endian order can be read")
            }
            Self::CutOff { what, offset, bytes } => {
                write!(
                    f,
                    "the file ends before {what}, which would take {} from byte {offset} on",
                    count(*bytes, "byte")
                )
            }
            Self::TooLarge { what, offset, found, limit } => {
                write!(f, "{what} at byte {offset} is {found}; at most {limit} is accepted")
            }
            Self::NotText { what, offset } => write!(f, "{what} at byte {offset} is not UTF-8"),
            Self::NotUtf8 { key } => {
                write!(f, "the metadata entry '{key}' is needed to run the model, and its text is not UTF-8")
            }
            Self::UnknownType { what, offset, found } => {
                write!(f, "the type of {what} at byte {offset} is {found}, which is not known")
            }
            Self::NotBool { offset } => {
                write!(f, "the truth value at byte {offset} is neither 0 nor 1")
            }
            Self::Duplicate { what, name } => write!(f, "{what} '{name}' is there twice"),
            Self::Entry { key, why } => write!(f, "the metadata entry '{key}' {why}"),
            Self::Tensor { name, why } => write!(f, "the tensor '{name}' {why}"),
            Self::Overlap { first, second } => {
                write!(f, "the data of the tensors '{first}' and '{second}' overlap")
            }
        }?;
        write!(f, "; {}", self.advice())
    }
}

impl core::error::Error for GgufError {}
