//! Sound files with some bytes changed.

use capos_gguf::Header;

/// Numbers that look random and are always the same.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers that follow from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next one, below a limit that is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// Bytes at which numbers tend to go wrong.
const EDGES: [u8; 6] = [0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff];

/// A file with one to three bytes changed, mostly in front of the tensors, which the most depends on, and at times cut off.
pub fn changed(original: &[u8], random: &mut Random) -> Vec<u8> {
    let mut file = original.to_vec();
    let all = original.len();
    let header = Header::parse(original, all as u64).map_or(all, |header| header.data_offset() as usize);
    for _ in 0..=random.below(3) {
        let limit = if random.below(10) == 0 { all } else { header };
        let (at, way, edge, bit, any) =
            (random.below(limit), random.below(3), random.below(EDGES.len()), random.below(8), random.below(256));
        if let Some(byte) = file.get_mut(at) {
            *byte = match way {
                0 => EDGES.get(edge).copied().unwrap_or_default(),
                1 => *byte ^ (1 << bit),
                _ => any as u8,
            };
        }
    }
    if random.below(10) == 0 {
        file.truncate(random.below(all));
    }
    file
}
