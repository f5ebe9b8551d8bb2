//! Tensors: an entry of the table for each.

use alloc::string::ToString;

use crate::{GgufError, limits};

/// How the numbers of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorType {
    code: u32,
    name: &'static str,
    block_values: u64,
    block_bytes: u64,
}

/// Code, name, numbers per block, bytes per block.
const TYPES: [(u32, &str, u64, u64); 33] = [
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 36),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (29, "IQ1_M", 256, 56),
    (30, "BF16", 1, 2),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
];

impl TensorType {
    /// Floating point, 32 bits.
    pub const F32: Self = Self { code: 0, name: "F32", block_values: 1, block_bytes: 4 };
    /// Floating point, 16 bits.
    pub const F16: Self = Self { code: 1, name: "F16", block_values: 1, block_bytes: 2 };
    /// Blocks of 32 signed bytes with one scale.
    pub const Q8_0: Self = Self { code: 8, name: "Q8_0", block_values: 32, block_bytes: 34 };
    /// Signed bytes.
    pub const I8: Self = Self { code: 24, name: "I8", block_values: 1, block_bytes: 1 };

    /// The type that a code names.
    pub fn from_code(code: u32) -> Option<Self> {
        let known = TYPES.iter().find(|(known, ..)| *known == code);
        known.map(|&(code, name, block_values, block_bytes)| Self { code, name, block_values, block_bytes })
    }

    /// The code in the file.
    pub fn code(&self) -> u32 {
        self.code
    }

    /// The name that engines print.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Numbers in a block.
    pub fn block_values(&self) -> u64 {
        self.block_values
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }
}

/// A tensor as the table describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorInfo<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: TensorType,
    pub(crate) dimensions: [u64; limits::DIMENSIONS as usize],
    pub(crate) rank: usize,
    /// From the start of the tensor data.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl<'a> TensorInfo<'a> {
    /// Checks the shape and works out the size.
    pub(crate) fn new(name: &'a str, kind: TensorType, dimensions: &[u64], offset: u64) -> Result<Self, GgufError> {
        let wrong = |why| GgufError::Tensor { name: name.to_string(), why };
        let mut all = [1; limits::DIMENSIONS as usize];
        if dimensions.is_empty() || dimensions.len() > all.len() {
            return Err(wrong("has no dimensions, or more than four"));
        }
        for (to, from) in all.iter_mut().zip(dimensions) {
            *to = *from;
        }
        let values = all
            .iter()
            .try_fold(1u64, |product, dimension| product.checked_mul(*dimension))
            .filter(|values| i64::try_from(*values).is_ok());
        let values = match values {
            None => return Err(wrong("has more values than can be counted")),
            Some(0) => return Err(wrong("has a dimension of zero")),
            Some(values) => values,
        };
        let [row, ..] = all;
        if !row.is_multiple_of(kind.block_values) {
            return Err(wrong("has rows that are no whole number of its type's blocks"));
        }
        let blocks = values.checked_div(kind.block_values).unwrap_or(values);
        let bytes = blocks.checked_mul(kind.block_bytes).ok_or_else(|| wrong("has more bytes than can be counted"))?;
        Ok(Self { name, kind, dimensions: all, rank: dimensions.len(), offset, bytes })
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// How its numbers are stored.
    pub fn kind(&self) -> TensorType {
        self.kind
    }

    /// Its dimensions, the one whose values are next to one another first.
    pub fn dimensions(&self) -> &[u64] {
        self.dimensions.get(..self.rank).unwrap_or(&[])
    }

    /// Where its data begins, in bytes from the start of the tensor data ([`crate::Header::data_offset`]).
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Size of its data in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
