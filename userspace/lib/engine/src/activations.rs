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

    /// Quantises all rows, for matrices of quantised types; `columns` must be whole groups.
    pub fn quantise(&mut self, kernels: &dyn Kernels, pool: &dyn Pool) {
        if self.quantised || self.columns == 0 {
            return;
        }
        self.quantised = true;
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
