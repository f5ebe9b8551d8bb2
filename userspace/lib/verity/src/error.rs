//! Everything that can be wrong, with the message.

use alloc::string::String;
use core::fmt;

use capos_plural::count;

use crate::{BLOCK_SIZE, FileDigest, KeyId};

/// A block, a tree or a request for one that does not fit the signed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerityError {
    /// The file is longer than fs-verity can describe (2^63 - 1 bytes).
    FileTooLarge { size: u64 },
    /// The tree file has another length than the signed file's tree.
    TreeLength { expected: u64, found: u64 },
    /// A data block past the end of the file was requested.
    BlockOutOfRange { block: u64, blocks: u64 },
    /// The caller's bytes are neither a whole block nor the file's last, shorter one.
    DataLength { block: u64, expected: usize, found: usize },
    /// The bytes of a data block are not those that were signed.
    DataMismatch { block: u64 },
    /// The bytes of a tree block are not those that were signed.
    TreeMismatch { tree_block: u64 },
    /// This tree block is needed to check the data block, and is neither in the cache nor among
    /// the blocks that the caller brought along.
    TreeBlockMissing { tree_block: u64 },
    /// More bytes were given to the builder than the file's stated size.
    TooMuchData { size: u64 },
    /// Fewer bytes were given to the builder than the file's stated size.
    TooLittleData { size: u64, found: u64 },
}

impl fmt::Display for VerityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileTooLarge { size } => {
                write!(f, "the file has {}; at most 2^63 - 1 can be signed", count(*size, "byte"))
            }
            Self::TreeLength { expected, found } => {
                write!(
                    f,
                    "the Merkle tree has {} and should have {expected}; sign the file again",
                    count(*found, "byte")
                )
            }
            Self::BlockOutOfRange { block, blocks } => {
                write!(f, "block {block} was asked for, but the file has {}", count(*blocks, "block"))
            }
            Self::DataLength { block, expected, found } => write!(
                f,
                "block {block} was given as {}; it has {expected}, or {BLOCK_SIZE} with zeros after them",
                count(*found, "byte")
            ),
            Self::DataMismatch { block } => write!(
                f,
                "block {block} (bytes {} and on) differs from what was signed; take an unchanged copy of the file",
                block.saturating_mul(BLOCK_SIZE as u64)
            ),
            Self::TreeMismatch { tree_block } => {
                write!(
                    f,
                    "block {tree_block} of the Merkle tree differs from what was signed; take an unchanged copy of the tree \
                     or sign the file again"
                )
            }
            Self::TreeBlockMissing { tree_block } => {
                write!(f, "block {tree_block} of the Merkle tree is needed first")
            }
            Self::TooMuchData { size } => {
                write!(
                    f,
                    "the file grew past its {} while it was read; sign it when it is complete",
                    count(*size, "byte")
                )
            }
            Self::TooLittleData { size, found } => {
                write!(
                    f,
                    "the file ended after {} while it was read, and it had {size}; sign it when it is complete",
                    count(*found, "byte")
                )
            }
        }
    }
}

impl core::error::Error for VerityError {}

/// A signature file, trust store or key file that is not well formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// The text is longer than [`crate::MAX_TEXT_BYTES`].
    TooLong { bytes: usize },
    /// The text is not UTF-8, or holds control characters.
    NotText { line: usize },
    /// The first line does not name this kind of file.
    Magic { expected: &'static str },
    /// The file is of a version that this program does not know.
    Version { found: String, known: u32 },
    /// The text ends before this field.
    Missing { field: &'static str },
    /// A line holds something else than the field that belongs there.
    UnexpectedLine { line: usize, expected: &'static str },
    /// A field that this version does not have.
    UnknownField { line: usize, field: String },
    /// A field that is there twice, or two entries that contradict one another.
    Duplicate { line: usize, what: String },
    /// A field has an invalid value.
    Value { line: usize, field: &'static str, why: &'static str },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes } => {
                write!(f, "the text has {bytes} bytes; more than {} are not read", crate::MAX_TEXT_BYTES)
            }
            Self::NotText { line } => {
                write!(f, "line {line} holds bytes that are not printable UTF-8 text")
            }
            Self::Magic { expected } => {
                write!(f, "the first line does not begin with '{expected}'")
            }
            Self::Version { found, known } => {
                write!(f, "version '{found}' is not known here; this program reads version {known}")
            }
            Self::Missing { field } => write!(f, "the field '{field}' is missing"),
            Self::UnexpectedLine { line, expected } => {
                write!(f, "line {line}: expected {expected}")
            }
            Self::UnknownField { line, field } => {
                write!(f, "line {line}: the field '{field}' is not known in this version")
            }
            Self::Duplicate { line, what } => write!(f, "line {line}: {what}"),
            Self::Value { line, field, why } => write!(f, "line {line}: {field}: {why}"),
        }
    }
}

impl core::error::Error for FormatError {}

/// Why a signature does not make its file trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The signature file itself is malformed.
    Format(FormatError),
    /// The signature is for another purpose than the requested one.
    Purpose { expected: String, found: String },
    /// The signature is for a file of another name.
    Name { expected: String, found: String },
    /// The file has another size than the one that was signed.
    Size { signed: u64, found: u64 },
    /// The trust store does not hold the key.
    UnknownKey { key: KeyId },
    /// The trust store holds the key, but not for this purpose.
    KeyPurpose { key: KeyId, purpose: String },
    /// The signature is not one by that key over these facts.
    BadSignature { key: KeyId },
    /// The file's bytes have another digest than the one that was signed.
    Digest { signed: FileDigest, found: FileDigest },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(error) => write!(f, "the signature file is malformed: {error}; sign the file again"),
            Self::Purpose { expected, found } => {
                write!(
                    f,
                    "the signature is for the purpose '{found}', and '{expected}' is needed; sign the file with a key of \
                     that purpose"
                )
            }
            Self::Name { expected, found } => {
                write!(
                    f,
                    "the signature is for a file named '{found}', not '{expected}'; rename the file or sign it under its name"
                )
            }
            Self::Size { signed, found } => {
                let found = count(*found, "byte");
                write!(f, "the file has {found}, but {signed} were signed; take an unchanged copy or sign it again")
            }
            Self::UnknownKey { key } => {
                write!(f, "the key {key} is not in the trust store; add it there or sign the file with a key that is")
            }
            Self::KeyPurpose { key, purpose } => {
                write!(
                    f,
                    "the key {key} is trusted, but not for the purpose '{purpose}'; add the purpose in the trust store or \
                     sign with another key"
                )
            }
            Self::BadSignature { key } => write!(
                f,
                "the signature was not made by the key {key} over these facts: something was changed after signing; sign \
                 the file again"
            ),
            Self::Digest { signed, found } => {
                write!(
                    f,
                    "the file's digest is {found}, but {signed} was signed: the file was changed after signing; take an \
                     unchanged copy or sign it again"
                )
            }
        }
    }
}

impl core::error::Error for Refusal {}

impl From<FormatError> for Refusal {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}
