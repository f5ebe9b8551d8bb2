//! The random numbers of synthetic content.

/// Repeatable random numbers (splitmix64), a stream for each use.
#[derive(Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// A stream of a seed.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut numbers = Self(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        numbers.0 = numbers.word();
        numbers
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below another; 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        let rest = self.word().checked_rem(bound as u64);
        rest.and_then(|rest| usize::try_from(rest).ok()).unwrap_or(0)
    }

    /// From -1 to 1.
    pub fn signed(&mut self) -> f32 {
        (self.word() >> 40) as f32 / 8_388_608.0 - 1.0
    }

    /// Fills these bytes.
    pub fn bytes(&mut self, out: &mut [u8]) {
        let (words, rest) = out.as_chunks_mut::<8>();
        for word in words {
            *word = self.word().to_le_bytes();
        }
        for (to, from) in rest.iter_mut().zip(self.word().to_le_bytes()) {
            *to = from;
        }
    }
}
