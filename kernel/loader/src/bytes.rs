//! Little-endian numbers at offsets of a byte slice.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

/// `N` bytes at `at`, if they are all there.
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The byte at `at`.
pub fn u8_at(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

/// The 16-bit number at `at`.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

/// The 32-bit number at `at`.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

/// The 64-bit number at `at`.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// Overwrites the 64-bit number at `at`; false when it is outside.
#[must_use]
pub fn put_u64(bytes: &mut [u8], at: usize, value: u64) -> bool {
    let Some(field) = at.checked_add(8).and_then(|end| bytes.get_mut(at..end)) else {
        return false;
    };
    field.copy_from_slice(&value.to_le_bytes());
    true
}

/// The bytes before the first zero, or all of them.
pub fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or(bytes)
}
