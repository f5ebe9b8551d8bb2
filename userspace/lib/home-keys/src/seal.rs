//! Sealing of some bytes with a key of their own.

use alloc::vec::Vec;

use capos_volume::{Cipher, CipherKind, KEY, NONCE, TAG, derive};
use zeroize::Zeroizing;

/// Bytes of a salt. From the key and the salt follows the key of the one seal, so salts can be random.
const SALT: usize = 24;
/// Bytes that sealed ones are longer.
pub const OVERHEAD: usize = SALT + TAG;

fn cipher(kind: CipherKind, key: &[u8; KEY], salt: &[u8]) -> Cipher {
    Cipher::new(kind, &derive(key, &[b"capos-home seal", salt]))
}

/// Salt, sealed bytes, tag. `None` never happens: it is shorter than the cipher's limit.
pub fn seal(kind: CipherKind, key: &[u8; KEY], bound: &[u8], bytes: &[u8], salt: &[u8; SALT]) -> Option<Vec<u8>> {
    let mut sealed = Vec::with_capacity(bytes.len().saturating_add(OVERHEAD));
    sealed.extend_from_slice(salt);
    sealed.extend_from_slice(bytes);
    let tag = cipher(kind, key, salt).seal(&[0; NONCE], bound, sealed.get_mut(SALT..)?)?;
    sealed.extend_from_slice(&tag);
    Some(sealed)
}

/// What was sealed; `None` if it is not what this key sealed, bound to this.
pub fn open(kind: CipherKind, key: &[u8; KEY], bound: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (salt, rest) = sealed.split_first_chunk::<SALT>()?;
    let (bytes, tag) = rest.split_last_chunk::<TAG>()?;
    let mut bytes = Zeroizing::new(bytes.to_vec());
    cipher(kind, key, salt).open(&[0; NONCE], tag, bound, &mut bytes).then_some(bytes)
}

/// A key that is sealed.
pub fn seal_key(
    key: &[u8; KEY],
    bound: &[u8],
    what: &[u8; KEY],
    random: crate::Random<'_>,
) -> Option<[u8; SEALED_KEY]> {
    let mut salt = [0; SALT];
    random(&mut salt);
    seal(CipherKind::ChaCha20Poly1305, key, bound, what, &salt)?.try_into().ok()
}

/// A key that was sealed.
pub fn open_key(key: &[u8; KEY], bound: &[u8], sealed: &[u8]) -> Option<Zeroizing<[u8; KEY]>> {
    let bytes = open(CipherKind::ChaCha20Poly1305, key, bound, sealed)?;
    Some(Zeroizing::new(bytes.as_slice().try_into().ok()?))
}

/// Bytes of a sealed key.
pub const SEALED_KEY: usize = KEY + OVERHEAD;
