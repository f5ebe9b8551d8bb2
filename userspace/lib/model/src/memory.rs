//! How much memory a worker that runs a model needs besides the weights, and how long conversations may be in the
//! memory that it has.

use capos_engine::Config;
use capos_engine::memory::{Load, pass_bytes, token_bytes};
use capos_gguf::Header;

/// Requests that a worker works on together.
pub const TOGETHER: usize = 4;
/// Most tokens that a worker takes through a model at once.
pub const PASS: usize = 128;
/// Lengths of conversations are multiples of this many tokens if memory decides.
pub const STEP: u32 = 256;

/// A worker's memory that does not depend on the model's shape: its program, its heap, and the records of requests.
const BASE: u64 = 48 << 20;
/// Bytes for each token of the vocabulary: its text, its places in the tokenizer's tables, and the grammars' tables.
const VOCABULARY: u64 = 512;
/// The part of a worker's memory in which it keeps the tokens of conversations that may continue.
const KEPT_PART: u64 = 8;
/// Bytes of that at least.
const LEAST_KEPT: u64 = 16 << 20;
/// The part of keys and values that may be taken twice while their memory grows.
const GROWTH_PART: u64 = 8;

/// Bytes of finished conversations that a worker with `bytes` bytes keeps.
#[must_use]
pub fn kept(bytes: u64) -> u64 {
    (bytes / KEPT_PART).max(LEAST_KEPT)
}

/// The memory that a model needs, by its shape.
#[derive(Clone, Debug)]
pub struct Need {
    config: Config,
    vocabulary: u64,
    threads: u32,
    /// Tokens of the longest conversation that the model was made for.
    pub context: u32,
}

impl Need {
    /// Of the model of a file that runs with `threads` threads; `None` if the engine cannot run it.
    #[must_use]
    pub fn of(header: &Header<'_>, threads: u32) -> Option<Self> {
        let config = Config::of(header).ok()?;
        let context = u32::try_from(config.context).ok()?;
        Some(Self { config, vocabulary: header.facts().vocabulary, threads, context })
    }

    /// Bytes with which a conversation of `tokens` tokens can be had.
    #[must_use]
    pub fn bytes(&self, tokens: u32) -> u64 {
        let load = Load { prefill: PASS as u64, sequences: TOGETHER as u64, threads: self.threads.into() };
        let passes = pass_bytes(&self.config, self.vocabulary, load, tokens.into());
        let cache = token_bytes(&self.config).saturating_mul(tokens.into());
        let cache = cache.saturating_add(cache / GROWTH_PART);
        let own = BASE.saturating_add(self.vocabulary.saturating_mul(VOCABULARY));
        let used = own.saturating_add(passes).saturating_add(cache);
        // With the kept conversations.
        let of_part = used.saturating_add(used.div_ceil(KEPT_PART.saturating_sub(1)));
        of_part.max(used.saturating_add(LEAST_KEPT))
    }

    /// Tokens of the longest conversation that is possible with `bytes` bytes: the model's full context, or the largest
    /// multiple of [`STEP`] below it.
    ///
    /// # Errors
    /// The bytes that the shortest takes, if they are more.
    pub fn tokens(&self, bytes: u64) -> Result<u32, u64> {
        if self.bytes(self.context) <= bytes {
            return Ok(self.context);
        }
        let least = self.bytes(STEP.min(self.context));
        if self.context <= STEP || least > bytes {
            return Err(least);
        }
        // Between a size that fits and one that does not, in steps.
        let (mut fits, mut does_not) = (1u32, self.context.div_ceil(STEP));
        while does_not.saturating_sub(fits) > 1 {
            let middle = fits.midpoint(does_not);
            match self.bytes(middle.saturating_mul(STEP)) <= bytes {
                true => fits = middle,
                false => does_not = middle,
            }
        }
        Ok(fits.saturating_mul(STEP))
    }
}

/// Bytes that one worker may have of a machine with `machine` bytes. It is half of the memory that its file and the
/// rest of the system leave, since a session that changes its model has two workers for a while. If a large file leaves
/// less, it is a quarter of the machine, because the file's pages can be evicted.
#[must_use]
pub fn share(machine: u64, file: u64) -> u64 {
    const REST: u64 = 192 << 20;
    (machine.saturating_sub(file).saturating_sub(REST) / 2).max(machine / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_gguf::Synthetic;

    const MIB: u64 = 1 << 20;

    fn need(size: u64) -> Need {
        let file = Synthetic::new(size, 3).unwrap().to_vec();
        Need::of(&Header::parse(&file, file.len() as u64).unwrap(), 1).unwrap()
    }

    #[test]
    fn a07_what_a_worker_needs_follows_the_shape() {
        let (small, large) = (need(256 << 10), need(64 * MIB));
        assert_eq!((small.context, large.context), (8192, 8192));
        // 8192 tokens of 16 layers of 512 keys and values with 16 bits, which a 64 MiB file has, and a part for the
        // rest.
        let layers = u64::try_from(large.config.layers).unwrap();
        assert!(large.bytes(8192) > 8192 * layers * 2048);
        assert!(large.bytes(8192) < 64 * MIB + 8192 * layers * 2048 * 2, "{} MiB", large.bytes(8192) / MIB);
        assert!(small.bytes(8192) < large.bytes(8192));
        // Heads and layers of the file count, and not its size.
        let mut wide = small.clone();
        wide.config.kv_heads *= 64;
        assert!(wide.bytes(8192) > small.bytes(8192) + 8192 * 63 * 256);
    }

    #[test]
    fn a07_conversations_are_as_long_as_memory_allows() {
        let need = need(64 * MIB);
        let whole = need.bytes(8192);
        assert_eq!(need.tokens(whole), Ok(8192));
        assert_eq!(need.tokens(u64::MAX), Ok(8192));
        assert_eq!(need.tokens(whole - 1), Ok(8192 - STEP));
        let least = need.bytes(STEP);
        assert_eq!((need.tokens(least), need.tokens(least - 1)), (Ok(STEP), Err(least)));
        for bytes in (least..whole).step_by(7 * 1024 * 1024 + 1) {
            let tokens = need.tokens(bytes).unwrap();
            assert!(need.bytes(tokens) <= bytes && need.bytes(tokens + STEP) > bytes, "{tokens} in {bytes}");
        }
    }

    #[test]
    fn a07_two_workers_the_file_and_the_rest_have_room() {
        assert_eq!(share(256 * MIB, 768 * MIB), 64 * MIB);
        assert_eq!(share(512 * MIB, 6 * MIB), 157 * MIB);
        assert_eq!(share(8192 * MIB, 2048 * MIB), 2976 * MIB);
    }

    #[test]
    fn what_is_kept_is_a_part() {
        assert_eq!((kept(0), kept(128 * MIB), kept(1024 * MIB)), (16 * MIB, 16 * MIB, 128 * MIB));
    }
}
