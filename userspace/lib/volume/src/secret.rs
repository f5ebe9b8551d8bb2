//! Secrets that open key slots, and the keys derived from them.

use alloc::vec::Vec;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

use crate::error::Error;
use crate::recovery::RecoveryCode;

/// The fewest bytes of a key file.
pub const MIN_KEY_FILE: usize = 32;
/// Bytes of a key.
pub const KEY: usize = 32;

/// What a person or a machine opens the volume with.
pub enum Secret<'a> {
    /// The bytes of a passphrase. The caller normalises its characters.
    Passphrase(&'a [u8]),
    Recovery(&'a RecoveryCode),
    /// The bytes of a key file: random ones, at least [`MIN_KEY_FILE`].
    KeyFile(&'a [u8]),
}

/// What deriving a key from a passphrase takes: parameters of Argon2id with one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over the memory.
    pub passes: u32,
}

impl Cost {
    /// The least: for tests and for machines without memory.
    pub const LEAST: Self = Self { memory_kib: 8, passes: 1 };
    /// The most that a header may ask for: 4 GiB, 1,000 passes.
    const MOST: Self = Self { memory_kib: 4 << 20, passes: 1000 };

    /// Bytes of memory that the derivation takes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.memory_kib) << 10
    }

    pub(crate) fn is_valid(&self) -> bool {
        (Self::LEAST.memory_kib..=Self::MOST.memory_kib).contains(&self.memory_kib)
            && (Self::LEAST.passes..=Self::MOST.passes).contains(&self.passes)
    }
}

/// HMAC-SHA256 of some parts.
pub fn mac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    // A key of any length is accepted, so the fallback is never taken.
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).unwrap_or_else(|_| Mac::new(&Default::default()));
    for part in parts {
        mac.update(part);
    }
    mac
}

/// A key that follows from another one and a purpose.
pub fn derive(key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; KEY]> {
    Zeroizing::new(mac(key, parts).finalize().into_bytes().into())
}

/// Checks that a secret is long enough.
pub fn check(secret: &Secret<'_>) -> Result<(), Error> {
    match secret {
        Secret::Passphrase([]) => Err(Error::TooShort { needed: 1 }),
        Secret::KeyFile(bytes) if bytes.len() < MIN_KEY_FILE => Err(Error::TooShort { needed: MIN_KEY_FILE }),
        _ => Ok(()),
    }
}

/// The key of a slot. A passphrase takes the memory and time of `cost`; `limit` bounds the memory in bytes.
pub fn slot_key(secret: &Secret<'_>, cost: Cost, salt: &[u8; 32], limit: u64) -> Result<Zeroizing<[u8; KEY]>, Error> {
    match secret {
        Secret::Passphrase(text) => argon2id(text, cost, salt, limit),
        Secret::Recovery(code) => Ok(derive(salt, &[b"capos-volume recovery code", code.bytes()])),
        Secret::KeyFile(bytes) => Ok(derive(salt, &[b"capos-volume key file", bytes])),
    }
}

fn argon2id(text: &[u8], cost: Cost, salt: &[u8; 32], limit: u64) -> Result<Zeroizing<[u8; KEY]>, Error> {
    let needed = cost.bytes();
    if needed > limit {
        return Err(Error::Memory { needed, limit });
    }
    let params = Params::new(cost.memory_kib, cost.passes, 1, Some(KEY)).map_err(|_| Error::Cost)?;
    let mut memory: Vec<Block> = Vec::new();
    memory.try_reserve_exact(params.block_count()).map_err(|_| Error::Allocation { needed })?;
    memory.resize(params.block_count(), Block::new());
    let mut key = Zeroizing::new([0; KEY]);
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let derived = argon2.hash_password_into_with_memory(text, salt, &mut *key, &mut memory);
    memory.iter_mut().for_each(Zeroize::zeroize);
    derived.map_err(|_| Error::Cost)?;
    Ok(key)
}

/// Memory with which the calibration begins.
const FIRST_KIB: u32 = 1024;
/// Passes while memory still grows, as RFC 9106 has them for bounded memory.
const PASSES: u32 = 3;

/// Finds the largest cost of a passphrase for this machine.
///
/// Memory comes first, up to `limit` bytes; then passes. A derivation takes at most `target` units of `clock`, as
/// measured here.
///
/// # Errors
/// `limit` is below the least memory, or the memory is not there.
pub fn calibrate(clock: &mut dyn FnMut() -> u64, target: u64, limit: u64) -> Result<Cost, Error> {
    let most = u32::try_from(limit >> 10).unwrap_or(u32::MAX).min(Cost::MOST.memory_kib);
    if most < Cost::LEAST.memory_kib {
        return Err(Error::Memory { needed: Cost::LEAST.bytes(), limit });
    }
    let mut measure = |cost| {
        let begin = clock();
        argon2id(b"calibration", cost, &[0; 32], limit)?;
        Ok(clock().saturating_sub(begin).max(1))
    };
    let mut cost = Cost { memory_kib: FIRST_KIB.min(most), passes: PASSES };
    loop {
        let time = measure(cost)?;
        if time > target {
            return Ok(scaled_down(cost, time, target));
        }
        if cost.memory_kib == most {
            let passes = u64::from(cost.passes).saturating_mul(target).checked_div(time).unwrap_or_default();
            let passes = u32::try_from(passes).unwrap_or(u32::MAX).min(Cost::MOST.passes);
            return Ok(Cost { passes: passes.max(cost.passes), ..cost });
        }
        if time > target >> 1 {
            return Ok(cost);
        }
        cost.memory_kib = cost.memory_kib.saturating_mul(2).min(most);
    }
}

/// A cost that was too high, lowered in proportion: memory first, then passes.
fn scaled_down(cost: Cost, time: u64, target: u64) -> Cost {
    let work = u64::from(cost.memory_kib).saturating_mul(u64::from(cost.passes));
    // An eighth less than the proportion, because small memory is not exactly proportional.
    let work = work.saturating_mul(target).checked_div(time).unwrap_or_default();
    let work = work.saturating_sub(work >> 3);
    let least = u64::from(Cost::LEAST.memory_kib);
    let passes = u64::from(PASSES).min(work.checked_div(least).unwrap_or_default()).max(1);
    let memory = work.checked_div(passes).unwrap_or_default().max(least);
    Cost { memory_kib: u32::try_from(memory).unwrap_or(cost.memory_kib), passes: u32::try_from(passes).unwrap_or(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that a derivation of this many KiB and passes advances by `kib × passes × rate / 1024`.
    fn with_rate(rate: u64, target: u64, limit: u64) -> (Cost, u64) {
        // The calibration measures costs in a known order, so the clock replays their times.
        let mut kib = u64::from(FIRST_KIB.min((limit >> 10) as u32));
        let (mut now, mut end) = (0, false);
        let cost = calibrate(
            &mut || {
                if end {
                    now += kib * u64::from(PASSES) * rate / 1024;
                    kib = (kib * 2).min(limit >> 10);
                }
                end = !end;
                now
            },
            target,
            limit,
        )
        .unwrap();
        (cost, u64::from(cost.memory_kib) * u64::from(cost.passes) * rate / 1024)
    }

    #[test]
    fn calibration_takes_the_memory_first_and_keeps_the_time() {
        // Fast: all of the memory, then passes.
        let (cost, time) = with_rate(100, 20_000, 8 << 20);
        assert_eq!(cost, Cost { memory_kib: 8192, passes: 25 });
        assert!(time <= 20_000);
        // Slower: less memory than there is.
        let (cost, time) = with_rate(1000, 20_000, 64 << 20);
        assert_eq!(cost, Cost { memory_kib: 4096, passes: 3 });
        assert!((10_000..=20_000).contains(&time), "{time}");
        // Very slow: below the first memory.
        let (cost, time) = with_rate(100_000, 20_000, 64 << 20);
        assert!(cost.memory_kib < FIRST_KIB && cost.passes == 3 && time <= 20_000, "{cost:?} {time}");
        let (cost, _) = with_rate(100_000_000, 20_000, 64 << 20);
        assert_eq!(cost, Cost::LEAST);
    }

    #[test]
    fn memory_is_bounded_before_it_is_taken() {
        let cost = Cost { memory_kib: 64, passes: 1 };
        assert!(argon2id(b"x", cost, &[1; 32], 64 << 10).is_ok());
        let error = argon2id(b"x", cost, &[1; 32], (64 << 10) - 1);
        assert!(matches!(error, Err(Error::Memory { needed: 65_536, limit: 65_535 })));
        assert!(matches!(calibrate(&mut || 0, 1, 100), Err(Error::Memory { needed: 8192, limit: 100 })));
    }

    #[test]
    fn costs_have_limits() {
        assert!(Cost::LEAST.is_valid() && Cost::MOST.is_valid());
        for cost in [(7, 1), (8, 0), ((4 << 20) + 1, 1), (8, 1001)] {
            assert!(!Cost { memory_kib: cost.0, passes: cost.1 }.is_valid());
        }
    }
}
