//! Rows of activations laid out for products with many of them: values that meet the same weights are together.

use super::{CHUNK, GROUP, HALF_GROUP, Row};

/// Rows of a [`Tile`].
pub const TILE_ROWS: usize = 8;

/// [`CHUNK`] columns of eight quantised rows. Rows that are not there have scales and sums of zero.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// For every four columns the quants of each row, as the [`Layout`](crate::kernel::Layout) says.
    pub quants: [[[u8; 4]; TILE_ROWS]; CHUNK / 4],
    /// For each group the scale of each row.
    pub scales: [[f32; TILE_ROWS]; CHUNK / GROUP],
    /// See [`Row::sums`].
    pub sums: [[f32; TILE_ROWS]; CHUNK / GROUP],
    /// See [`Row::half_sums`].
    pub half_sums: [[f32; TILE_ROWS]; CHUNK / HALF_GROUP],
}

impl Tile {
    /// No rows.
    pub(super) const EMPTY: Self = Self {
        quants: [[[0; 4]; TILE_ROWS]; CHUNK / 4],
        scales: [[0.0; TILE_ROWS]; CHUNK / GROUP],
        sums: [[0.0; TILE_ROWS]; CHUNK / GROUP],
        half_sums: [[0.0; TILE_ROWS]; CHUNK / HALF_GROUP],
    };

    /// Lays out the columns of one row that begin with group `group`. `sign` is what of each quant is turned over.
    pub(super) fn put(&mut self, place: usize, row: Row<'_>, group: usize, sign: u8) {
        let quants = row.quants.as_chunks::<4>().0.iter().skip(group.saturating_mul(GROUP / 4));
        for (to, quants) in self.quants.iter_mut().zip(quants) {
            if let Some(to) = to.get_mut(place) {
                *to = quants.map(|quant| quant.cast_unsigned() ^ sign);
            }
        }
        let put = |to: &mut [[f32; TILE_ROWS]], from: &[f32], first: usize| {
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

/// Rows of a [`FloatTile`].
pub const FLOAT_ROWS: usize = 16;

/// Columns of a [`FloatTile`].
pub const TILE_COLUMNS: usize = 32;

/// Columns of sixteen rows as BF16, the upper half of 32 bits: for every two columns the numbers of each row. Missing
/// values are zero.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatTile(pub [[[u16; 2]; FLOAT_ROWS]; TILE_COLUMNS / 2]);

impl FloatTile {
    /// No rows.
    pub(crate) const EMPTY: Self = Self([[[0; 2]; FLOAT_ROWS]; TILE_COLUMNS / 2]);
}
