//! Model files in the GGUF container, versions 2 and 3: a reader and a writer.
//!
//! A GGUF file is a header, key-value metadata, a table of tensors and then the tensors' data. The
//! function [`Header::parse`] needs only the beginning of the file, up to the data. It borrows
//! that, copies only what it must sort, and rejects an inconsistent file with an error message
//! ([`GgufError`]). If it needs more of the file, it says how much:
//!
//! ```
//! # use capos_gguf::*;
//! # fn read(file: &[u8], n: u64) -> Vec<u8> { file[..n as usize].to_vec() }
//! # let file = Synthetic::new(1 << 20, 7).unwrap().to_vec();
//! let size = file.len() as u64;
//! let mut wanted = 4096.min(size);
//! loop {
//!     let prefix = read(&file, wanted);
//!     match Header::parse(&prefix, size) {
//!         Err(GgufError::NeedMore { bytes }) => wanted = bytes,
//!         other => break println!("{}", other?.facts().architecture),
//!     }
//! }
//! # Ok::<(), GgufError>(())
//! ```
//!
//! [`Writer`] makes the beginning of a file from metadata and tensors; [`Synthetic`] makes whole
//! files of any size with plausible metadata and repeatable contents, for tests and first boots.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

mod cursor;
mod error;
mod facts;
mod header;
mod numbers;
mod synthetic;
mod tensor;
mod value;
mod writer;

pub use error::GgufError;
pub use facts::{CHAT_TEMPLATE, Facts, TOOL_TEMPLATE, file_type_name};
pub use header::Header;
pub use numbers::Numbers;
pub use synthetic::{Synthetic, SyntheticError, small_model};
pub use tensor::{TensorInfo, TensorType};
pub use value::{Array, Elements, Value, ValueType};
pub use writer::{Writer, WriterValue};

/// The four bytes at the start of every file.
pub const MAGIC: [u8; 4] = *b"GGUF";

/// The version that is written.
pub const VERSION: u32 = 3;

/// Alignment of tensor data if the metadata names none, in bytes.
pub const DEFAULT_ALIGNMENT: u32 = 32;

/// Bounds of the work and memory that a file can cause.
pub mod limits {
    /// Metadata entries.
    pub const ENTRIES: u64 = 65_536;
    /// Tensors.
    pub const TENSORS: u64 = 65_536;
    /// Dimensions of a tensor.
    pub const DIMENSIONS: u32 = 4;
    /// Length of a key or of a tensor's name in bytes.
    pub const NAME_BYTES: u64 = 65_535;
    /// Length of everything before the tensor data in bytes.
    pub const METADATA_BYTES: u64 = 256 * 1024 * 1024;
    /// Alignment of tensor data in bytes.
    pub const ALIGNMENT: u32 = 65_536;
    /// Arrays within arrays.
    pub const NESTING: u32 = 4;
}
