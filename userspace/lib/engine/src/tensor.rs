//! A matrix or vector of the file, in place.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ops::Range;

use capos_gguf::Header;

use crate::EngineError;
use crate::block::{Kind, dequantise_row};

/// Rows of numbers that are in the file's mapping and are never copied.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    kind: Kind,
    rows: usize,
    columns: usize,
    row_bytes: usize,
    bytes: &'a [u8],
}

/// The tensors of a file, by name.
pub(crate) struct Tensors<'h, 'a> {
    header: &'h Header<'a>,
    file: &'a [u8],
    /// Places in the header's table, sorted by name.
    by_name: Vec<(&'a str, usize)>,
    /// Which of them a model has been made of.
    used: RefCell<Vec<bool>>,
}

impl<'h, 'a> Tensors<'h, 'a> {
    pub fn new(header: &'h Header<'a>, file: &'a [u8]) -> Self {
        let names = header.tensors().iter().map(|tensor| tensor.name());
        let mut by_name: Vec<_> = names.zip(0..).collect();
        by_name.sort_unstable();
        let used = RefCell::new(alloc::vec![false; by_name.len()]);
        Self { header, file, by_name, used }
    }

    /// The names of those that no model has been made of.
    pub fn unused(&self) -> impl Iterator<Item = &'a str> {
        let used = self.used.borrow().clone();
        self.by_name.iter().map(|(name, _)| *name).zip(used).filter(|(_, used)| !used).map(|(name, _)| name)
    }

    /// The matrices of this name, one after another in the file: `count` of `rows` × `columns`.
    pub fn stack(
        &self,
        name: &str,
        columns: usize,
        rows: usize,
        count: usize,
    ) -> Result<Option<Vec<Tensor<'a>>>, EngineError> {
        let Some(whole) = self.find(name, &[columns, rows, count])? else { return Ok(None) };
        let matrix_bytes = whole.row_bytes.checked_mul(rows).unwrap_or(0).max(1);
        let parts = whole.bytes.chunks_exact(matrix_bytes).map(|bytes| Tensor { rows, bytes, ..whole });
        Ok(Some(parts.collect()))
    }

    /// The matrix of this name, whose rows have `columns` values.
    pub fn matrix(&self, name: &str, columns: usize, rows: usize) -> Result<Option<Tensor<'a>>, EngineError> {
        self.find(name, &[columns, rows])
    }

    /// The values of the vector of this name.
    pub fn vector(&self, name: &str, length: usize) -> Result<Option<Vec<f32>>, EngineError> {
        let Some(tensor) = self.find(name, &[length])? else { return Ok(None) };
        if !tensor.kind.is_float() {
            return Err(EngineError::tensor(name, "is quantised, which vectors are not"));
        }
        let mut values = alloc::vec![0.0; length];
        tensor.dequantise_row(0, &mut values);
        Ok(Some(values))
    }

    /// The number of rows of the matrix of this name, if there is one.
    pub fn rows(&self, name: &str) -> Option<u64> {
        self.dimensions(name)?.get(1).copied()
    }

    /// The sizes of the tensor of this name, if there is one, from the innermost on.
    pub fn dimensions(&self, name: &str) -> Option<&[u64]> {
        Some(self.info(name)?.dimensions())
    }

    fn info(&self, name: &str) -> Option<&'h capos_gguf::TensorInfo<'a>> {
        self.header.tensors().get(self.by_name.get(self.place(name)?)?.1)
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.by_name.binary_search_by_key(&name, |(name, _)| name).ok()
    }

    fn find(&self, name: &str, shape: &[usize]) -> Result<Option<Tensor<'a>>, EngineError> {
        let Some(info) = self.info(name) else { return Ok(None) };
        if let Some(place) = self.place(name)
            && let Some(used) = self.used.borrow_mut().get_mut(place)
        {
            *used = true;
        }
        let wanted: Vec<u64> = shape.iter().map(|dimension| *dimension as u64).collect();
        // A matrix of one row may be written as a vector, and the other way round.
        let core = |dimensions: &[u64]| {
            let ones = dimensions.iter().rev().take_while(|dimension| **dimension == 1).count();
            dimensions.get(..dimensions.len().saturating_sub(ones)).map(<[u64]>::to_vec)
        };
        if core(info.dimensions()) != core(&wanted) {
            return Err(EngineError::tensor(
                name,
                format!("is {:?}, where the hyperparameters say {:?}", info.dimensions(), wanted),
            ));
        }
        let Some(kind) = Kind::of(info.kind()) else {
            let why = format!("is of the type {}, which the engine does not compute with", info.kind().name());
            return Err(EngineError::tensor(name, why));
        };
        let offset = self.header.data_offset().checked_add(info.offset());
        let range = offset.and_then(|start| {
            let end = start.checked_add(info.bytes())?;
            Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
        });
        let Some(bytes) = range.and_then(|range| self.file.get(range)) else {
            return Err(EngineError::tensor(name, "reaches over the end of the file"));
        };
        let columns = shape.first().copied().unwrap_or(1);
        let rows = shape.iter().skip(1).try_fold(1usize, |product, dimension| product.checked_mul(*dimension));
        let rows = rows.filter(|rows| *rows > 0);
        let row_bytes = rows.and_then(|rows| bytes.len().checked_div(rows));
        let (Some(rows), Some(row_bytes)) = (rows, row_bytes) else {
            return Err(EngineError::Tensor { name: name.to_string(), why: "has no rows".to_string() });
        };
        Ok(Some(Tensor { kind, rows, columns, row_bytes, bytes }))
    }
}

impl<'a> Tensor<'a> {
    /// A tensor over `bytes`, which hold `rows` whole rows of `columns` values.
    pub fn new(kind: Kind, rows: usize, columns: usize, bytes: &'a [u8]) -> Option<Self> {
        let row_bytes = bytes.len().checked_div(rows)?;
        Some(Self { kind, rows, columns, row_bytes, bytes })
    }

    /// How the numbers are stored.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values in a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// All its bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Some of its rows; those that it does not have are not there.
    pub fn part(&self, rows: Range<usize>) -> Self {
        let range = rows.start.saturating_mul(self.row_bytes)..rows.end.saturating_mul(self.row_bytes);
        match self.bytes.get(range) {
            Some(bytes) => Self { rows: rows.len(), bytes, ..*self },
            None => Self { rows: 0, bytes: &[], ..*self },
        }
    }

    /// Writes the values of a row.
    pub fn dequantise_row(&self, row: usize, out: &mut [f32]) {
        dequantise_row(self.kind, self.part(row..row.saturating_add(1)).bytes, out);
    }
}
