//! Rows that are multiplied with matrices, as numbers and as signed bytes.

use alloc::vec::Vec;

use crate::kernel::Kernels;
use crate::pool::{Pool, part_size, share};

/// Values of a row that share a scale when they are quantised.
pub const GROUP: usize = 32;

/// Quantised rows are filled up with zeros to a multiple of this, so that kernels need no case for what is left over.
pub const CHUNK: usize = 256;

/// Values whose sum is kept; half a group.
pub const HALF_GROUP: usize = GROUP / 2;

/// Rows of a tile.
pub const TILE_ROWS: usize = 8;

/// [`CHUNK`] columns of eight quantised rows, laid out so that what meets the same weights lies together. Rows that
/// are not there have scales and sums of zero.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// For every four columns the quants of each row, 128 added to each.
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
    const EMPTY: Self = Self {
        quants: [[[0; 4]; TILE_ROWS]; CHUNK / 4],
        scales: [[0.0; TILE_ROWS]; CHUNK / GROUP],
        sums: [[0.0; TILE_ROWS]; CHUNK / GROUP],
        half_sums: [[0.0; TILE_ROWS]; CHUNK / HALF_GROUP],
    };

    /// Lays out the columns of one row that begin with group `group`.
    fn put(&mut self, place: usize, row: Row<'_>, group: usize) {
        let quants = row.quants.as_chunks::<4>().0.iter().skip(group.saturating_mul(GROUP / 4));
        for (to, quants) in self.quants.iter_mut().zip(quants) {
            if let Some(to) = to.get_mut(place) {
                *to = quants.map(|quant| quant.cast_unsigned() ^ 0x80);
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

/// Rows of equal length.
#[derive(Clone, Debug, Default)]
pub struct Activations {
    columns: usize,
    /// Columns with the zeros that follow them.
    padded: usize,
    quantised: bool,
    values: Vec<f32>,
    quants: Vec<i8>,
    wide: Vec<i16>,
    scales: Vec<f32>,
    sums: Vec<f32>,
    half_sums: Vec<f32>,
    /// For eight rows after the other, all their chunks.
    tiles: Vec<Tile>,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The numbers.
    pub values: &'a [f32],
    /// Quants, of which a group's scale makes the numbers again, nearly.
    pub quants: &'a [i8],
    /// The same with 16 bits.
    pub wide: &'a [i16],
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
    /// See [`Row::wide`].
    pub wide: &'a mut [i16],
    /// See [`Row::scales`].
    pub scales: &'a mut [f32],
    /// See [`Row::sums`].
    pub sums: &'a mut [f32],
    /// See [`Row::half_sums`].
    pub half_sums: &'a mut [f32],
}

impl Activations {
    /// Makes it `rows` rows of `columns` numbers, whose values are the caller's to write.
    pub fn resize(&mut self, rows: usize, columns: usize) -> &mut [f32] {
        self.columns = columns;
        self.padded = columns.next_multiple_of(CHUNK);
        self.quantised = false;
        self.values.resize(rows.saturating_mul(columns), 0.0);
        &mut self.values
    }

    /// Quantises all rows, for matrices of quantised types, and lays them out as the kernels want them; `columns` must
    /// be whole groups. What is done already is left as it is.
    pub fn quantise(&mut self, kernels: &dyn Kernels, pool: &dyn Pool) {
        if self.columns == 0 {
            return;
        }
        if !self.quantised {
            self.quantised = true;
            self.tiles.clear();
            self.quantise_rows(kernels, pool);
        }
        if self.tiles.is_empty() && kernels.tiled(self.rows()) {
            self.lay_out(pool);
        }
    }

    fn quantise_rows(&mut self, kernels: &dyn Kernels, pool: &dyn Pool) {
        let (padded, count) = (self.padded.max(CHUNK), self.rows());
        let groups = padded / GROUP;
        // What is behind the columns has to be zero, and may be left of other rows.
        refill(&mut self.quants, padded.saturating_mul(count));
        refill(&mut self.wide, padded.saturating_mul(count));
        refill(&mut self.scales, groups.saturating_mul(count));
        refill(&mut self.sums, groups.saturating_mul(count));
        refill(&mut self.half_sums, groups.saturating_mul(count).saturating_mul(2));
        let values = self.values.chunks_exact(self.columns);
        let quants = self.quants.chunks_exact_mut(padded).zip(self.wide.chunks_exact_mut(padded));
        let scales = self.scales.chunks_exact_mut(groups);
        let sums = self.sums.chunks_exact_mut(groups);
        let half_sums = self.half_sums.chunks_exact_mut(groups.saturating_mul(2));
        let rows = values.zip(quants).zip(scales).zip(sums.zip(half_sums)).map(
            |(((values, (quants, wide)), scales), (sums, half_sums))| RowMut {
                values,
                quants,
                wide,
                scales,
                sums,
                half_sums,
            },
        );
        // One row is done sooner than it is handed over.
        if count == 1 {
            rows.for_each(|row| kernels.quantise(row));
            return;
        }
        let size = part_size(pool, count, 1);
        let mut parts = Vec::new();
        for (index, row) in rows.enumerate() {
            if index.is_multiple_of(size) {
                parts.push(Vec::new());
            }
            if let Some(part) = parts.last_mut() {
                part.push(row);
            }
        }
        share(pool, parts, |part: Vec<RowMut<'_>>| part.into_iter().for_each(|row| kernels.quantise(row)));
    }

    /// Makes tiles of the quantised rows.
    fn lay_out(&mut self, pool: &dyn Pool) {
        let mut tiles = core::mem::take(&mut self.tiles);
        let chunks = self.padded.checked_div(CHUNK).unwrap_or(0).max(1);
        tiles.resize(self.rows().div_ceil(TILE_ROWS).saturating_mul(chunks), Tile::EMPTY);
        let parts = tiles.chunks_exact_mut(chunks).enumerate().collect();
        share(pool, parts, |(index, tiles): (usize, &mut [Tile])| {
            for (chunk, tile) in tiles.iter_mut().enumerate() {
                *tile = Tile::EMPTY;
                for place in 0..TILE_ROWS {
                    let row = self.row(index.saturating_mul(TILE_ROWS).saturating_add(place));
                    tile.put(place, row, chunk.saturating_mul(CHUNK / GROUP));
                }
            }
        });
        self.tiles = tiles;
    }

    /// The tiles of eight rows after the other, a slice of chunks for each, where [`crate::kernel::Kernels::tiled`]
    /// wants them.
    pub fn tiles(&self) -> impl Iterator<Item = &[Tile]> {
        self.tiles.chunks_exact(self.padded.checked_div(CHUNK).unwrap_or(0).max(1))
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
        self.quantised = false;
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
            wide: slice(&self.wide, index, self.padded),
            scales: slice(&self.scales, index, groups),
            sums: slice(&self.sums, index, groups),
            half_sums: slice(&self.half_sums, index, groups.saturating_mul(2)),
        }
    }
}

/// Makes all of `length` elements zero.
fn refill<T: Clone + Default>(all: &mut Vec<T>, length: usize) {
    all.clear();
    all.resize(length, T::default());
}
