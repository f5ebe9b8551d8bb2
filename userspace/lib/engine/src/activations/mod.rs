//! Rows that are multiplied with matrices, as numbers and as signed bytes.

mod lanes;
mod tile;

use alloc::vec::Vec;
use core::ops::Range;

use crate::aligned::Aligned;
use crate::block::Kind;
use crate::kernel::{Kernels, Layout};
use crate::pool::{Pool, part_size, rows_of_part, share};

/// Values of a row that share a scale when they are quantised.
pub const GROUP: usize = 32;

/// Quantised rows are filled up with zeros to a multiple of this, so that kernels need no case for a remainder.
pub const CHUNK: usize = 256;

/// Values of a single row that are worth sharing with other threads, if floating point is slow.
const VALUES_SHARED: usize = 1024;

/// Values whose sum is kept; half a group.
pub const HALF_GROUP: usize = GROUP / 2;

pub use lanes::{LANE_ROWS, LANES, Lanes, lane, parts};
pub use tile::{FLOAT_ROWS, FloatTile, TILE_COLUMNS, TILE_ROWS, Tile};

/// Rows of equal length.
#[derive(Clone, Debug, Default)]
pub struct Activations {
    columns: usize,
    /// Columns with the zeros that follow them.
    padded: usize,
    quantised: bool,
    values: Aligned<f32>,
    quants: Aligned<i8>,
    scales: Aligned<f32>,
    sums: Aligned<f32>,
    half_sums: Aligned<f32>,
    /// How `eights` are laid out, if they are.
    layout: Option<Layout>,
    /// For eight rows after the other, all their chunks.
    eights: Vec<Tile>,
    /// For up to [`LANE_ROWS`] rows after the other, their first chunks, then their second ones, and so on.
    lanes: Vec<Lanes>,
    /// Whether `floats` are these numbers.
    laid_out: bool,
    /// For sixteen rows after the other, all their columns.
    floats: Vec<FloatTile>,
    /// The remainders of the numbers.
    rests: Vec<FloatTile>,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The numbers.
    pub values: &'a [f32],
    /// Quants, from which a group's scale approximately restores the numbers.
    pub quants: &'a [i8],
    /// A scale for each group.
    pub scales: &'a [f32],
    /// For each group the sum of its quants, times its scale.
    pub sums: &'a [f32],
    /// For each half group the sum of its quants, times the group's scale.
    pub half_sums: &'a [f32],
}

/// One row to be quantised.
pub struct RowMut<'a> {
    /// The numbers.
    pub values: &'a [f32],
    /// See [`Row::quants`].
    pub quants: &'a mut [i8],
    /// See [`Row::scales`].
    pub scales: &'a mut [f32],
    /// See [`Row::sums`].
    pub sums: &'a mut [f32],
    /// See [`Row::half_sums`].
    pub half_sums: &'a mut [f32],
}

impl<'a> RowMut<'a> {
    /// Splits it into parts of `values` values, which are `quants` quants: whole [`GROUP`]s. Neither number is 0.
    fn parts(self, values: usize, quants: usize) -> impl Iterator<Item = RowMut<'a>> {
        let groups = quants / GROUP;
        let values = self.values.chunks(values);
        let quants = self.quants.chunks_mut(quants);
        let scales = self.scales.chunks_mut(groups);
        let sums = self.sums.chunks_mut(groups);
        let half_sums = self.half_sums.chunks_mut(groups.saturating_mul(2));
        values
            .zip(quants)
            .zip(scales)
            .zip(sums.zip(half_sums))
            .map(|(((values, quants), scales), (sums, half_sums))| RowMut { values, quants, scales, sums, half_sums })
    }
}

impl Activations {
    /// Makes it `rows` rows of `columns` numbers, whose values are the caller's to write.
    pub fn resize(&mut self, rows: usize, columns: usize) -> &mut [f32] {
        self.columns = columns;
        self.padded = columns.next_multiple_of(CHUNK);
        self.forget();
        self.values.resize(rows.saturating_mul(columns));
        &mut self.values
    }

    /// Prepares all rows for a matrix of this kind, if the kernels need more than the numbers: quants for quantised
    /// types, and the layout for products with many rows. For quants, `columns` must be a multiple of the group. Rows
    /// that are prepared already stay unchanged.
    pub fn prepare(&mut self, kind: Kind, kernels: &dyn Kernels, pool: &dyn Pool) {
        if self.columns == 0 {
            return;
        }
        let layout = kernels.layout(kind, self.rows());
        if layout == Some(Layout::Sixteen) {
            let rests = kind.is_float();
            if !self.laid_out || rests && self.rests.is_empty() {
                self.laid_out = true;
                self.lay_out_floats(rests, kernels, pool);
            }
            return;
        }
        if kind.is_float() {
            return;
        }
        if !self.quantised {
            self.quantised = true;
            self.quantise_rows(kernels, pool);
        }
        if self.layout == layout {
            return;
        }
        self.layout = layout;
        match layout {
            Some(Layout::Eight) => self.eights = self.lay_out(0x80, pool),
            Some(Layout::EightSigned) => self.eights = self.lay_out(0, pool),
            Some(Layout::Lanes) => self.lay_out_lanes(pool),
            _ => {}
        }
    }

    /// Drops what was computed from earlier numbers.
    fn forget(&mut self) {
        self.quantised = false;
        self.layout = None;
        self.eights.clear();
        self.lanes.clear();
        self.laid_out = false;
        self.rests.clear();
    }

    fn quantise_rows(&mut self, kernels: &dyn Kernels, pool: &dyn Pool) {
        let (padded, count) = (self.padded.max(CHUNK), self.rows());
        let groups = padded / GROUP;
        // The columns' padding has to be zero, but may hold values of other rows.
        self.quants.refill(padded.saturating_mul(count));
        self.scales.refill(groups.saturating_mul(count));
        self.sums.refill(groups.saturating_mul(count));
        self.half_sums.refill(groups.saturating_mul(count).saturating_mul(2));
        let all = RowMut {
            values: &self.values,
            quants: &mut self.quants,
            scales: &mut self.scales,
            sums: &mut self.sums,
            half_sums: &mut self.half_sums,
        };
        if count == 1 && kernels.has_slow_floats() && self.columns >= VALUES_SHARED {
            let size = part_size(pool, self.columns, CHUNK);
            let parts = all.parts(size, size).collect();
            return share(pool, parts, |part| kernels.quantise(part));
        }
        let size = rows_of_part(pool, count);
        let mut parts = Vec::new();
        for (index, row) in all.parts(self.columns, padded).enumerate() {
            if index.is_multiple_of(size) {
                parts.push(Vec::new());
            }
            if let Some(part) = parts.last_mut() {
                part.push(row);
            }
        }
        share(pool, parts, |part: Vec<RowMut<'_>>| part.into_iter().for_each(|row| kernels.quantise(row)));
    }

    /// Makes tiles of the quantised rows, with these bits of each quant turned over.
    fn lay_out(&self, sign: u8, pool: &dyn Pool) -> Vec<Tile> {
        let chunks = self.chunks();
        let mut tiles = alloc::vec![Tile::EMPTY; self.rows().div_ceil(TILE_ROWS).saturating_mul(chunks)];
        let parts = tiles.chunks_exact_mut(chunks).enumerate().collect();
        share(pool, parts, |(index, tiles): (usize, &mut [Tile])| {
            for (chunk, tile) in tiles.iter_mut().enumerate() {
                for place in 0..TILE_ROWS {
                    let row = self.row(index.saturating_mul(TILE_ROWS).saturating_add(place));
                    tile.put(place, row, chunk.saturating_mul(CHUNK / GROUP), sign);
                }
            }
        });
        tiles
    }

    /// Makes lanes of the quantised rows.
    fn lay_out_lanes(&mut self, pool: &dyn Pool) {
        let chunks = self.chunks();
        let mut lanes = core::mem::take(&mut self.lanes);
        lanes.clear();
        lanes.resize(self.rows().saturating_mul(chunks), Lanes::EMPTY);
        let mut left = &mut lanes[..];
        let mut all = Vec::new();
        for rows in parts(self.rows(), LANE_ROWS) {
            let Some((first, rest)) = left.split_at_mut_checked(rows.len().saturating_mul(chunks)) else { break };
            all.push((rows, first));
            left = rest;
        }
        share(pool, all, |(rows, lanes): (Range<usize>, &mut [Lanes])| {
            for (chunk, lanes) in lanes.chunks_exact_mut(rows.len().max(1)).enumerate() {
                for (to, row) in lanes.iter_mut().zip(rows.clone()) {
                    *to = Lanes::of(self.row(row), chunk);
                }
            }
        });
        self.lanes = lanes;
    }

    /// Chunks of a row, one at least.
    fn chunks(&self) -> usize {
        self.padded.checked_div(CHUNK).unwrap_or(0).max(1)
    }

    /// Makes tiles of the numbers, and of their remainders on request.
    fn lay_out_floats(&mut self, rests: bool, kernels: &dyn Kernels, pool: &dyn Pool) {
        let across = self.columns.div_ceil(TILE_COLUMNS).max(1);
        let count = self.rows().div_ceil(FLOAT_ROWS).saturating_mul(across);
        // All of them are written.
        self.floats.resize(count, FloatTile::EMPTY);
        self.rests.resize(if rests { count } else { 0 }, FloatTile::EMPTY);
        let mut left_parts = self.rests.chunks_exact_mut(across);
        let rows = self.values.chunks(self.columns.saturating_mul(FLOAT_ROWS).max(1));
        let parts = rows.zip(self.floats.chunks_exact_mut(across));
        let parts = parts.map(|(rows, tiles)| (rows, tiles, left_parts.next().unwrap_or_default())).collect();
        share(pool, parts, |(rows, tiles, left): (&[f32], &mut [FloatTile], &mut [FloatTile])| {
            kernels.lay_out(rows.chunks_exact(self.columns.max(1)), tiles, left);
        });
    }

    /// The tiles of eight rows after the other, a slice of chunks for each, if the kernels' [`Layout`] is such.
    pub fn eights(&self) -> impl Iterator<Item = &[Tile]> {
        self.eights.chunks_exact(self.chunks())
    }

    /// The lanes of up to [`LANE_ROWS`] rows after the other, if the kernels' [`Layout`] is such: which rows they are,
    /// and for each chunk one of each row.
    pub fn lanes(&self) -> impl Iterator<Item = (Range<usize>, &[Lanes])> {
        let chunks = self.chunks();
        parts(self.rows(), LANE_ROWS).map(move |rows| {
            let of_rows = rows.start.saturating_mul(chunks)..rows.end.saturating_mul(chunks);
            (rows, self.lanes.get(of_rows).unwrap_or(&[]))
        })
    }

    /// The tiles of the numbers of sixteen rows after the other, a slice of all columns for each, if the kernels'
    /// [`Layout`] is such.
    pub fn floats(&self) -> impl Iterator<Item = &[FloatTile]> {
        self.floats.chunks_exact(self.columns.div_ceil(TILE_COLUMNS).max(1))
    }

    /// The same for their remainders, if the matrix has numbers of 16 bits.
    pub fn rests(&self) -> impl Iterator<Item = &[FloatTile]> {
        self.rests.chunks_exact(self.columns.div_ceil(TILE_COLUMNS).max(1))
    }

    /// Bytes of memory that they have taken.
    pub fn bytes(&self) -> usize {
        let tiles = self.eights.capacity().saturating_mul(size_of::<Tile>());
        let lanes = self.lanes.capacity().saturating_mul(size_of::<Lanes>());
        let floats = self.floats.capacity().saturating_add(self.rests.capacity());
        [
            self.values.bytes(),
            self.quants.bytes(),
            self.scales.bytes(),
            self.sums.bytes(),
            self.half_sums.bytes(),
            tiles,
            lanes,
            floats.saturating_mul(size_of::<FloatTile>()),
        ]
        .into_iter()
        .fold(0, usize::saturating_add)
    }

    /// Values in a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.columns).unwrap_or(0)
    }

    /// The numbers of all rows.
    pub fn values_mut(&mut self) -> &mut [f32] {
        self.forget();
        &mut self.values
    }

    /// A row; one that is not there has no values.
    #[inline]
    pub fn row(&self, index: usize) -> Row<'_> {
        fn slice<T>(all: &[T], index: usize, length: usize) -> &[T] {
            let start = index.saturating_mul(length);
            all.get(start..start.saturating_add(length)).unwrap_or(&[])
        }
        let groups = self.padded / GROUP;
        Row {
            values: slice(&self.values, index, self.columns),
            quants: slice(&self.quants, index, self.padded),
            scales: slice(&self.scales, index, groups),
            sums: slice(&self.sums, index, groups),
            half_sums: slice(&self.half_sums, index, groups.saturating_mul(2)),
        }
    }
}
