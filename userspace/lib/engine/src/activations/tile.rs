//! Rows of activations laid out for products with many of them: what meets the same weights lies together.

use super::{CHUNK, GROUP, HALF_GROUP, Row};

/// [`CHUNK`] columns of some quantised rows. Rows that are not there have scales and sums of zero.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Tile<const ROWS: usize> {
    /// For every four columns the quants of each row: 128 added to each where there are eight rows, and signed where
    /// there are sixteen.
    pub quants: [[[u8; 4]; ROWS]; CHUNK / 4],
    /// For each group the scale of each row.
    pub scales: [[f32; ROWS]; CHUNK / GROUP],
    /// See [`Row::sums`].
    pub sums: [[f32; ROWS]; CHUNK / GROUP],
    /// See [`Row::half_sums`].
    pub half_sums: [[f32; ROWS]; CHUNK / HALF_GROUP],
}

impl<const ROWS: usize> Tile<ROWS> {
    /// No rows.
    pub(super) const EMPTY: Self = Self {
        quants: [[[0; 4]; ROWS]; CHUNK / 4],
        scales: [[0.0; ROWS]; CHUNK / GROUP],
        sums: [[0.0; ROWS]; CHUNK / GROUP],
        half_sums: [[0.0; ROWS]; CHUNK / HALF_GROUP],
    };

    /// What turns a signed quant into one of the tile.
    const TURN: u8 = if ROWS == 8 { 0x80 } else { 0 };

    /// Lays out the columns of one row that begin with group `group`.
    pub(super) fn put(&mut self, place: usize, row: Row<'_>, group: usize) {
        let quants = row.quants.as_chunks::<4>().0.iter().skip(group.saturating_mul(GROUP / 4));
        for (to, quants) in self.quants.iter_mut().zip(quants) {
            if let Some(to) = to.get_mut(place) {
                *to = quants.map(|quant| quant.cast_unsigned() ^ Self::TURN);
            }
        }
        let put = |to: &mut [[f32; ROWS]], from: &[f32], first: usize| {
            for (to, from) in to.iter_mut().zip(from.iter().skip(first)) {
                if let Some(to) = to.get_mut(place) {
                    *to = *from;
                }
            }
        };
        put(&mut self.scales, row.scales, group);
        put(&mut self.sums, row.sums, group);
        put(&mut self.half_sums, row.half_sums, group.saturating_mul(2));
    }
}

/// Columns of a [`FloatTile`].
pub const TILE_COLUMNS: usize = 32;

/// Columns of sixteen rows, each number as the sum of two of 16 bits, which is no farther from it than a 2^17th of its size.
/// What is not there is zero.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct FloatTile {
    /// For every two columns the nearest number of each row.
    pub high: [[[u16; 2]; 16]; TILE_COLUMNS / 2],
    /// What is nearest to the rest.
    pub low: [[[u16; 2]; 16]; TILE_COLUMNS / 2],
}

impl FloatTile {
    /// No rows.
    pub(super) const EMPTY: Self =
        Self { high: [[[0; 2]; 16]; TILE_COLUMNS / 2], low: [[[0; 2]; 16]; TILE_COLUMNS / 2] };

    /// Lays out up to [`TILE_COLUMNS`] numbers of one row.
    pub(super) fn put(&mut self, place: usize, values: &[f32]) {
        let (mut highs, mut lows) = ([0; TILE_COLUMNS], [0; TILE_COLUMNS]);
        for ((high, low), value) in highs.iter_mut().zip(&mut lows).zip(values) {
            let nearest = nearest(*value);
            *high = upper_half(nearest);
            *low = upper_half(self::nearest(value - nearest));
        }
        for (to, from) in [(&mut self.high, &highs), (&mut self.low, &lows)] {
            for (to, pair) in to.iter_mut().zip(from.as_chunks().0) {
                if let Some(to) = to.get_mut(place) {
                    *to = *pair;
                }
            }
        }
    }
}

/// The nearest number that has nothing in its lower 16 bits.
#[inline(always)]
fn nearest(value: f32) -> f32 {
    const INFINITY: u32 = f32::INFINITY.to_bits();
    let bits = value.to_bits();
    // What is infinite or not a number stays so.
    let rounded = if bits & INFINITY == INFINITY { bits } else { bits.wrapping_add(0x8000) };
    f32::from_bits(rounded & 0xffff_0000)
}

#[inline(always)]
fn upper_half(number: f32) -> u16 {
    (number.to_bits() >> 16) as u16
}
