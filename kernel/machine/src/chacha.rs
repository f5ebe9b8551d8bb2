//! The ChaCha20 block function (RFC 8439) and a random generator with fast key erasure on it.
//!
//! Written out here because the kernel must not touch vector registers, which the crates that
//! offer ChaCha20 and SHA-2 do if the processor has them.

/// 64 bytes of key stream for a key, a block counter and a nonce of zero.
#[must_use]
pub fn block(key: &[u8; 32], counter: u32, nonce: [u32; 3]) -> [u8; 64] {
    let mut state = [0u32; 16];
    let constants = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];
    let words = key.chunks_exact(4).map(|c| c.iter().rev().fold(0u32, |word, byte| (word << 8) | u32::from(*byte)));
    let input = constants.into_iter().chain(words).chain([counter]).chain(nonce);
    for (slot, word) in state.iter_mut().zip(input) {
        *slot = word;
    }
    let start = state;
    for _ in 0..10 {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = &mut state;
        quarter(a, e, i, m);
        quarter(b, f, j, n);
        quarter(c, g, k, o);
        quarter(d, h, l, p);
        quarter(a, f, k, p);
        quarter(b, g, l, m);
        quarter(c, h, i, n);
        quarter(d, e, j, o);
    }
    let mut out = [0; 64];
    for ((bytes, word), first) in out.chunks_exact_mut(4).zip(state).zip(start) {
        bytes.copy_from_slice(&word.wrapping_add(first).to_le_bytes());
    }
    out
}

fn quarter(a: &mut u32, b: &mut u32, c: &mut u32, d: &mut u32) {
    *a = a.wrapping_add(*b);
    *d = (*d ^ *a).rotate_left(16);
    *c = c.wrapping_add(*d);
    *b = (*b ^ *c).rotate_left(12);
    *a = a.wrapping_add(*b);
    *d = (*d ^ *a).rotate_left(8);
    *c = c.wrapping_add(*d);
    *b = (*b ^ *c).rotate_left(7);
}

/// A generator whose key is replaced after every use, so that its earlier output cannot be computed
/// from its state.
#[derive(Clone)]
pub struct Generator {
    key: [u8; 32],
}

impl Generator {
    /// A generator that knows nothing yet: [`Generator::absorb`] before use.
    #[must_use]
    pub const fn new() -> Self {
        Self { key: [0; 32] }
    }

    /// Mixes input into the key. More input never makes the key worse.
    pub fn absorb(&mut self, input: &[u8]) {
        for chunk in input.chunks(32) {
            for (key, byte) in self.key.iter_mut().zip(chunk) {
                *key ^= byte;
            }
            self.rekey(u32::MAX);
        }
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let mut counter = 0u32;
        for chunk in bytes.chunks_mut(64) {
            let stream = block(&self.key, counter, [0; 3]);
            for (byte, random) in chunk.iter_mut().zip(stream) {
                *byte = random;
            }
            counter = counter.wrapping_add(1);
            if counter == u32::MAX {
                self.rekey(counter);
                counter = 0;
            }
        }
        self.rekey(u32::MAX);
    }

    fn rekey(&mut self, counter: u32) {
        let stream = block(&self.key, counter, [0; 3]);
        for (key, byte) in self.key.iter_mut().zip(stream) {
            *key = byte;
        }
    }
}

impl Default for Generator {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_of_rfc_8439() {
        let key: [u8; 32] = core::array::from_fn(|i| i as u8);
        let out = block(&key, 1, [0x0900_0000, 0x4a00_0000, 0]);
        assert_eq!(
            &out[..16],
            &[0x10, 0xf1, 0xe7, 0xe4, 0xd1, 0x3b, 0x59, 0x15, 0x50, 0x0f, 0xdd, 0x1f, 0xa3, 0x20, 0x71, 0xc4]
        );
        assert_eq!(&out[60..], &[0xa2, 0x50, 0x3c, 0x4e]);
    }

    #[test]
    fn output_depends_on_every_input_and_never_repeats() {
        let mut first = Generator::new();
        first.absorb(b"a");
        let mut second = first.clone();
        second.absorb(b"b");
        let (mut a, mut b, mut c) = ([0; 100], [0; 100], [0; 100]);
        first.fill(&mut a);
        first.fill(&mut b);
        second.fill(&mut c);
        assert_ne!(a, b);
        assert_ne!(a, c);
        assert_ne!(&a[..50], &a[50..]);
    }
}
