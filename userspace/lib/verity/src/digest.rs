//! The fs-verity file digest: SHA-256 over a descriptor that holds the root hash and the size.

use core::fmt;

use sha2::{Digest, Sha256};

use crate::{BLOCK_SIZE, HASH_SIZE, Hash};

/// Bytes of Linux's `struct fsverity_descriptor`.
const DESCRIPTOR_SIZE: usize = 256;

/// The fs-verity digest of a file (SHA-256, 4096-byte blocks, no salt).
///
/// Printed as `sha256:<64 hexadecimal digits>`, the way `fsverity digest` prints it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileDigest(pub [u8; HASH_SIZE]);

impl FileDigest {
    /// The word before the colon of the printed form.
    pub const ALGORITHM: &'static str = "sha256";

    /// Reads the printed form; digits must be lower case.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sha256:")?;
        crate::text::parse_hex(digits).map(Self)
    }

    /// The 32 bytes of the digest.
    pub fn as_bytes(&self) -> &[u8; HASH_SIZE] {
        &self.0
    }
}

impl fmt::Display for FileDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        crate::text::write_hex(f, &self.0)
    }
}

impl fmt::Debug for FileDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The digest of a file of `size` bytes whose tree has this root hash.
///
/// The root hash is the hash of the tree's first block; of the only data block if the file has just
/// one; and all zeros if the file is empty.
pub fn file_digest(size: u64, root: &Hash) -> FileDigest {
    let mut hasher = Sha256::new();
    // Version 1, hash algorithm 1 (SHA-256), log2 of the block size 12, no salt.
    hasher.update([1u8, 1, 12, 0]);
    // Size of a built-in signature: none.
    hasher.update([0u8; 4]);
    hasher.update(size.to_le_bytes());
    // The root hash is in a field of 64 bytes; salt (32) and reserved bytes (144) are zero.
    hasher.update(root);
    hasher.update([0u8; 64 - HASH_SIZE + 32 + 144]);
    const { assert!(4 + 4 + 8 + 64 + 32 + 144 == DESCRIPTOR_SIZE) };
    FileDigest(hasher.finalize().into())
}

/// Hash of a block; one shorter than [`BLOCK_SIZE`] counts as if zeros followed.
pub(crate) fn hash_block(data: &[u8]) -> Hash {
    const ZEROS: [u8; BLOCK_SIZE] = [0; BLOCK_SIZE];
    let mut hasher = Sha256::new();
    hasher.update(data);
    let missing = BLOCK_SIZE.saturating_sub(data.len());
    hasher.update(ZEROS.get(..missing).unwrap_or(&[]));
    hasher.finalize().into()
}
