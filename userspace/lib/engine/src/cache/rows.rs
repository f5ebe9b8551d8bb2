//! Keys or values of one layer: for each token those of all heads.

use alloc::vec::Vec;
use core::ops::Range;

use half::f16;

use super::CacheType;
use crate::EngineError;
use crate::block::Q8_0;
use crate::kernel::{Kernels, Parts};

/// Values of a block.
const BLOCK: usize = <Q8_0 as crate::block::Block>::VALUES;

/// Rows of numbers, one for each token, one head after another.
#[derive(Clone, Debug)]
pub struct Rows {
    heads: usize,
    /// Values of a head.
    size: usize,
    numbers: Numbers,
}

#[derive(Clone, Debug)]
enum Numbers {
    F16(Vec<u16>),
    /// Each head begins with a block of its own, which zeros fill up.
    Q8_0(Vec<Q8_0>),
}

impl Rows {
    pub fn new(kind: CacheType, heads: usize, size: usize) -> Self {
        let numbers = match kind {
            CacheType::F16 => Numbers::F16(Vec::new()),
            CacheType::Q8_0 => Numbers::Q8_0(Vec::new()),
        };
        Self { heads, size, numbers }
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        let bytes = match self.numbers {
            Numbers::F16(_) => size_of::<u16>(),
            Numbers::Q8_0(_) => size_of::<Q8_0>(),
        };
        self.row().saturating_mul(bytes)
    }

    /// Bytes of memory that it has taken.
    pub fn bytes(&self) -> usize {
        match &self.numbers {
            Numbers::F16(numbers) => numbers.capacity().saturating_mul(size_of::<u16>()),
            Numbers::Q8_0(blocks) => blocks.capacity().saturating_mul(size_of::<Q8_0>()),
        }
    }

    /// Whether rows are of this shape.
    pub fn fits(&self, heads: usize, size: usize) -> bool {
        (self.heads, self.size) == (heads, size)
    }

    /// Makes it at least this many rows.
    pub fn grow(&mut self, rows: usize) -> Result<(), EngineError> {
        let wanted = self.row().checked_mul(rows).ok_or_else(none_left)?;
        match &mut self.numbers {
            Numbers::F16(numbers) => grow(numbers, wanted),
            Numbers::Q8_0(blocks) => grow(blocks, wanted),
        }
    }

    /// Frees the memory of all but the first rows.
    pub fn shrink(&mut self, rows: usize) {
        let wanted = self.row().saturating_mul(rows);
        match &mut self.numbers {
            Numbers::F16(numbers) => shrink(numbers, wanted),
            Numbers::Q8_0(blocks) => shrink(blocks, wanted),
        }
    }

    /// The first rows.
    pub fn copy(&self, rows: usize) -> Result<Self, EngineError> {
        let wanted = self.row().saturating_mul(rows);
        let numbers = match &self.numbers {
            Numbers::F16(numbers) => Numbers::F16(copy(numbers, wanted)?),
            Numbers::Q8_0(blocks) => Numbers::Q8_0(copy(blocks, wanted)?),
        };
        Ok(Self { numbers, ..*self })
    }

    /// Numbers of a row, without what fills up blocks.
    pub fn numbers(&self) -> usize {
        self.heads.saturating_mul(self.size)
    }

    /// The first rows as numbers of 16 bits; none if they are kept as bytes.
    pub fn floats(&self, rows: usize) -> Option<&[u16]> {
        match &self.numbers {
            Numbers::F16(numbers) => numbers.get(..self.row().checked_mul(rows)?),
            Numbers::Q8_0(_) => None,
        }
    }

    /// Writes a row of numbers of 16 bits.
    pub fn put_floats(&mut self, kernels: &dyn Kernels, row: usize, values: &[u16]) {
        let width = self.row().max(1);
        match &mut self.numbers {
            Numbers::F16(numbers) => {
                if let Some(row) = numbers.chunks_exact_mut(width).nth(row).filter(|row| row.len() == values.len()) {
                    row.copy_from_slice(values);
                }
            }
            Numbers::Q8_0(_) => {
                let wide: Vec<f32> = values.iter().map(|value| f16::from_bits(*value).to_f32()).collect();
                self.put(kernels, row, &wide);
            }
        }
    }

    /// Writes a row.
    pub fn put(&mut self, kernels: &dyn Kernels, row: usize, values: &[f32]) {
        let (width, head) = (self.row().max(1), self.head().max(1));
        match &mut self.numbers {
            Numbers::F16(numbers) => {
                if let Some(row) = numbers.chunks_exact_mut(width).nth(row) {
                    kernels.narrow(values, row);
                }
            }
            Numbers::Q8_0(blocks) => {
                let Some(row) = blocks.chunks_exact_mut(width).nth(row) else { return };
                for (head, values) in row.chunks_exact_mut(head).zip(values.chunks_exact(self.size.max(1))) {
                    kernels.quantise_q8_0(values, head);
                }
            }
        }
    }

    /// Writes for each of some vectors the sums of its products with a head of each of some rows.
    pub fn dot(&self, kernels: &dyn Kernels, rows: &Range<usize>, head: usize, vectors: &[f32], out: &mut [f32]) {
        let (vectors, out) = (vectors.chunks_exact(self.size.max(1)), out.chunks_exact_mut(rows.len().max(1)));
        match &self.numbers {
            Numbers::F16(numbers) => kernels.dots_f16(vectors, self.heads_of(numbers, rows, head), out),
            Numbers::Q8_0(blocks) => kernels.dot_q8_0(vectors, self.heads_of(blocks, rows, head), out),
        }
    }

    /// Writes for each of some vectors of weights the sum of a head of each of some rows, multiplied with its weight.
    pub fn add(&self, kernels: &dyn Kernels, rows: &Range<usize>, head: usize, weights: &[f32], out: &mut [f32]) {
        out.fill(0.0);
        let (weights, out) = (weights.chunks_exact(rows.len().max(1)), out.chunks_exact_mut(self.size.max(1)));
        match &self.numbers {
            Numbers::F16(numbers) => kernels.adds_f16(weights, self.heads_of(numbers, rows, head), out),
            Numbers::Q8_0(blocks) => kernels.add_q8_0(weights, self.heads_of(blocks, rows, head), out),
        }
    }

    /// Numbers or blocks of a head.
    fn head(&self) -> usize {
        match self.numbers {
            Numbers::F16(_) => self.size,
            Numbers::Q8_0(_) => self.size.div_ceil(BLOCK),
        }
    }

    /// Numbers or blocks of a row.
    fn row(&self) -> usize {
        self.heads.saturating_mul(self.head())
    }

    /// One head's part of some rows.
    fn heads_of<'n, T>(&self, all: &'n [T], rows: &Range<usize>, head: usize) -> Parts<'n, T> {
        let width = self.row();
        let range = rows.start.saturating_mul(width)..rows.end.saturating_mul(width);
        Parts::new(all.get(range).unwrap_or(&[]), width, head.saturating_mul(self.head()), self.head())
    }
}

fn none_left() -> EngineError {
    EngineError::Memory { what: "keys and values of more tokens" }
}

fn grow<T: bytemuck::Zeroable + Clone>(all: &mut Vec<T>, wanted: usize) -> Result<(), EngineError> {
    if let Some(more) = wanted.checked_sub(all.len()) {
        all.try_reserve_exact(more).map_err(|_| none_left())?;
        all.resize(wanted, T::zeroed());
    }
    Ok(())
}

fn shrink<T>(all: &mut Vec<T>, wanted: usize) {
    all.truncate(wanted);
    all.shrink_to_fit();
}

fn copy<T: Clone>(all: &[T], count: usize) -> Result<Vec<T>, EngineError> {
    let mut copied = Vec::new();
    copied.try_reserve_exact(count).map_err(|_| none_left())?;
    copied.extend_from_slice(all.get(..count).unwrap_or(all));
    Ok(copied)
}
