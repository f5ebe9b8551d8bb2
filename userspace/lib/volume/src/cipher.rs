//! The ciphers of blocks, and the trial that chooses one.

use alloc::boxed::Box;
use alloc::vec;

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::{AeadInOut, KeyInit};
use chacha20poly1305::ChaCha20Poly1305;

use crate::disk::BLOCK;

/// Bytes of a nonce.
pub const NONCE: usize = 12;
/// Bytes of a tag.
pub const TAG: usize = 16;

/// An authenticated cipher of blocks; the number stands in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CipherKind {
    Aes256Gcm = 1,
    ChaCha20Poly1305 = 2,
}

impl CipherKind {
    pub const ALL: [Self; 2] = [Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// The cipher of a number in a header.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number)
    }

    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes256Gcm => "AES-256-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        }
    }
}

/// A cipher with its key.
pub enum Cipher {
    Aes(Box<Aes256Gcm>),
    ChaCha(Box<ChaCha20Poly1305>),
}

impl Cipher {
    pub fn new(kind: CipherKind, key: &[u8; 32]) -> Self {
        match kind {
            CipherKind::Aes256Gcm => Self::Aes(Box::new(Aes256Gcm::new(key.into()))),
            CipherKind::ChaCha20Poly1305 => Self::ChaCha(Box::new(ChaCha20Poly1305::new(key.into()))),
        }
    }

    /// Encrypts a block in place and returns its tag. `None` never happens: a block is shorter than the ciphers' limits.
    pub fn seal(&self, nonce: &[u8; NONCE], bound: &[u8], block: &mut [u8]) -> Option<[u8; TAG]> {
        match self {
            Self::Aes(cipher) => cipher.encrypt_inout_detached(nonce.into(), bound, block.into()).ok().map(Into::into),
            Self::ChaCha(cipher) => {
                cipher.encrypt_inout_detached(nonce.into(), bound, block.into()).ok().map(Into::into)
            }
        }
    }

    /// Decrypts a block in place; `false` if it is not what was sealed with this nonce, tag and bound data.
    #[must_use]
    pub fn open(&self, nonce: &[u8; NONCE], tag: &[u8; TAG], bound: &[u8], block: &mut [u8]) -> bool {
        match self {
            Self::Aes(cipher) => cipher.decrypt_inout_detached(nonce.into(), bound, block.into(), tag.into()).is_ok(),
            Self::ChaCha(cipher) => {
                cipher.decrypt_inout_detached(nonce.into(), bound, block.into(), tag.into()).is_ok()
            }
        }
    }
}

/// Blocks that one round of the trial seals.
const TRIAL_BLOCKS: u8 = 32;
/// Rounds of the trial; the shortest one counts.
const TRIAL_ROUNDS: u8 = 3;

/// Chooses the cipher that seals fastest on this processor; `clock` returns a time in any unit that does not go back.
pub fn choose(clock: &mut dyn FnMut() -> u64) -> CipherKind {
    let mut block = vec![0; BLOCK];
    let mut time = |kind| {
        let cipher = Cipher::new(kind, &[1; 32]);
        let mut shortest = u64::MAX;
        for _ in 0..TRIAL_ROUNDS {
            let begin = clock();
            for number in 0..TRIAL_BLOCKS {
                let mut nonce = [0; NONCE];
                nonce[0] = number;
                let _ = cipher.seal(&nonce, &[], &mut block);
            }
            shortest = shortest.min(clock().saturating_sub(begin));
        }
        shortest
    };
    // The first round of each cipher also detects the processor's features.
    CipherKind::ALL.into_iter().min_by_key(|kind| time(*kind)).unwrap_or(CipherKind::ChaCha20Poly1305)
}
