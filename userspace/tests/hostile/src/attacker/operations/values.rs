//! Random values, many of which mean something to the kernel.

use capos_rt::memory::PAGE;

use super::victims::{CODE, PLACES};
use crate::kit::Random;

/// Small numbers: counts, sizes of rings, widths, rights, methods.
const SMALL: [u64; 16] = [0, 0, 1, 1, 2, 2, 3, 4, 4, 7, 8, 8, 16, 32, 64, 200];
/// Lengths of text: those at which something ends among them.
const LENGTHS: [u64; 16] = [0, 1, 2, 5, 5, 7, 8, 9, 15, 16, 31, 32, 33, 64, 65, 300];
/// Where numbers end.
const EDGES: [u64; 16] = [
    u64::MAX,
    u64::MAX - 4095,
    1 << 63,
    (1 << 63) - 1,
    1 << 47,
    (1 << 47) - PAGE,
    0xffff_8000_0000_0000,
    0xffff_ffff_8000_0000,
    1 << 32,
    u32::MAX as u64,
    1 << 31,
    1 << 16,
    0xffff,
    0x100,
    0x7f,
    0x80,
];

/// The hint of a field's name about its values. They are such more often than not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// Nothing.
    Any,
    /// Whole pages.
    Size,
    /// Where in memory to begin.
    Offset,
    /// Where in an address space something may be put.
    Place,
    /// Where a victim has code.
    Code,
}

impl Hint {
    /// This name's hint.
    pub fn of(name: &str) -> Self {
        match name {
            "bytes" | "length" => Self::Size,
            "offset" => Self::Offset,
            "address" | "ring" | "stack" | "argument0" | "argument1" => Self::Place,
            "entry" => Self::Code,
            _ => Self::Any,
        }
    }
}

/// Makes values.
pub struct Values<'a> {
    pub random: &'a mut Random,
    /// Identifiers of capabilities that the process holds or held.
    pub ids: &'a [u64],
}

fn pick(of: &[u64], at: u64) -> u64 {
    usize::try_from(at).ok().and_then(|at| of.get(at % of.len().max(1))).copied().unwrap_or(0)
}

impl Values<'_> {
    /// Below a bound, which is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.next() % bound.max(1)
    }

    /// A number of this many bits; `hint` is what the schema's name says about it.
    pub fn number(&mut self, bits: u32, hint: Hint) -> u64 {
        let word = self.random.next();
        let (way, at) = (word % 16, word >> 8);
        let value = match (hint, way) {
            (Hint::Size, 0..=9) => (at % 4 + 1) * PAGE,
            (Hint::Offset, 0..=9) => (at % 4 / 2) * PAGE,
            (Hint::Place, 0..=9) => PLACES + (at % 32) * PAGE,
            (Hint::Code, 0..=9) => CODE + (at % 3) * 64,
            (_, 0..=6) => pick(&SMALL, at),
            (_, 7) => (at % 8) * PAGE,
            (_, 8) => CODE + (at % 4) * 64,
            (_, 9 | 10) => PLACES + (at % 8) * PAGE,
            (_, 11 | 12) => pick(self.ids, at),
            (_, 13 | 14) => pick(&EDGES, at),
            _ => self.random.next() >> (at % 64),
        };
        if bits >= 64 { value } else { value & ((1 << bits) - 1) }
    }

    /// Bytes of a text or elements of a list.
    pub fn length(&mut self) -> u64 {
        let at = self.random.next();
        pick(&LENGTHS, at)
    }

    /// Eight bytes of text: letters, and now and then what no text should hold.
    pub fn text(&mut self) -> u64 {
        let word = self.random.next();
        if word.is_multiple_of(16) { word } else { word & 0x0f0f_0f0f_0f0f_0f0f | 0x6060_6060_6060_6060 }
    }
}
