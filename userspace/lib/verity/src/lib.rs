//! Signed files: the fs-verity Merkle tree over a file's bytes, and an Ed25519 signature over
//! its digest.
//!
//! A signed file comes with two more files:
//!
//! | file | what it holds |
//! |---|---|
//! | `<name>.verity` | the Merkle tree in the layout of Linux and of `fsverity digest --out-merkle-tree`: blocks of
//! 4096 bytes, the root's block first, the hashes of the data last; empty if the file has at most one block |
//! | `<name>.sig` | five facts about the file (purpose, name, size, digest, key) and the signature over them, as text ([`FileSignature`]) |
//!
//! The order of trust: a [`TrustStore`] says which key may sign for which purpose. The signature
//! vouches for the digest and the size ([`FileSignature::verify`] gives a [`VerifiedFile`]). A
//! [`BlockVerifier`] made from that checks each block of the file against the tree when it is read.
//! So a file need not be hashed as a whole before it is used, and a later change on disk is found
//! at the next read of the changed block.
//!
//! The digest is the one that `fsverity digest --hash-alg=sha256 --block-size=4096` prints
//! (no salt).
//!
//! Nothing here does input or output: the host tools and the guest's services use the same code.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

mod block_verifier;
mod builder;
mod digest;
mod error;
mod geometry;
mod key;
mod signature;
mod text;
mod trust;

pub use block_verifier::BlockVerifier;
pub use builder::{BuildError, TreeBuilder, TreeSink};
pub use digest::{FileDigest, file_digest};
pub use error::{FormatError, Refusal, VerityError};
pub use geometry::{Level, TreeGeometry, TreePath};
pub use key::{KeyId, PublicKey, SigningKey};
pub use signature::{Expected, FileSignature, VerifiedFile};
pub use text::MAX_TEXT_BYTES;
pub use trust::{TrustStore, TrustedKey};

/// Size of a data block and of a tree block in bytes.
pub const BLOCK_SIZE: usize = 4096;

/// Bytes of one hash in the tree.
pub const HASH_SIZE: usize = 32;

/// Hashes in one tree block.
pub const HASHES_PER_BLOCK: usize = 128;

/// Purpose of a file of model weights.
pub const PURPOSE_MODEL_WEIGHTS: &str = "model-weights";

/// Purpose of a program's executable file.
pub const PURPOSE_PROGRAM: &str = "program";

/// One SHA-256 hash.
pub type Hash = [u8; HASH_SIZE];
