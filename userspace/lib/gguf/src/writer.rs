//! Making the beginning of a file.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::{DEFAULT_ALIGNMENT, GgufError, MAGIC, TensorInfo, TensorType, VERSION, ValueType};

/// A metadata value to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum WriterValue {
    /// 32 bits, unsigned.
    U32(u32),
    /// 64 bits, unsigned.
    U64(u64),
    /// Floating point, 32 bits.
    F32(f32),
    /// A truth value.
    Bool(bool),
    /// Text.
    Text(String),
    /// Texts.
    Texts(Vec<String>),
    /// Numbers of 32 bits, signed.
    I32s(Vec<i32>),
    /// Floating point numbers of 32 bits.
    F32s(Vec<f32>),
}

struct Tensor {
    name: String,
    kind: TensorType,
    dimensions: Vec<u64>,
    offset: u64,
    bytes: u64,
}

/// Collects metadata and tensors; [`Writer::header`] is what comes before the tensor data.
/// Tensors get their places in the order they are added, one after another, each at a multiple
/// of [`DEFAULT_ALIGNMENT`].
#[derive(Default)]
pub struct Writer {
    entries: Vec<(String, WriterValue)>,
    tensors: Vec<Tensor>,
    data_bytes: u64,
}

impl Writer {
    /// A writer with neither metadata nor tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a metadata entry.
    pub fn entry(&mut self, key: &str, value: WriterValue) {
        self.entries.push((key.to_string(), value));
    }

    /// Adds a metadata entry of text.
    pub fn text(&mut self, key: &str, value: &str) {
        self.entry(key, WriterValue::Text(value.to_string()));
    }

    /// Adds a tensor and returns where its data will be, from the start of the tensor data, and how
    /// many bytes it has.
    ///
    /// # Errors
    /// [`GgufError::Tensor`] for impossible shapes.
    pub fn tensor(&mut self, name: &str, kind: TensorType, dimensions: &[u64]) -> Result<(u64, u64), GgufError> {
        let why = "is further away than an offset can express";
        let too_far = || GgufError::Tensor { name: name.to_string(), why };
        let offset = align(self.data_bytes).ok_or_else(too_far)?;
        let bytes = TensorInfo::new(name, kind, dimensions, offset)?.bytes();
        self.data_bytes = offset.checked_add(bytes).ok_or_else(too_far)?;
        let (name, dimensions) = (name.to_string(), dimensions.to_vec());
        self.tensors.push(Tensor { name, kind, dimensions, offset, bytes });
        Ok((offset, bytes))
    }

    /// Bytes of tensor data so far.
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// The tensors so far: where each begins from the start of the tensor data, its bytes, its type.
    pub fn places(&self) -> impl Iterator<Item = (u64, u64, TensorType)> + '_ {
        self.tensors.iter().map(|tensor| (tensor.offset, tensor.bytes, tensor.kind))
    }

    /// Everything before the tensor data, padded so that the data can follow.
    pub fn header(&self) -> Vec<u8> {
        let mut out = Vec::from(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(self.tensors.len() as u64).to_le_bytes());
        out.extend_from_slice(&(self.entries.len() as u64).to_le_bytes());
        for (key, value) in &self.entries {
            put_text(&mut out, key);
            put_value(&mut out, value);
        }
        for tensor in &self.tensors {
            put_text(&mut out, &tensor.name);
            out.extend_from_slice(&u32::try_from(tensor.dimensions.len()).unwrap_or(0).to_le_bytes());
            for dimension in &tensor.dimensions {
                out.extend_from_slice(&dimension.to_le_bytes());
            }
            out.extend_from_slice(&tensor.kind.code().to_le_bytes());
            out.extend_from_slice(&tensor.offset.to_le_bytes());
        }
        let padded = out.len().checked_next_multiple_of(DEFAULT_ALIGNMENT as usize);
        out.resize(padded.unwrap_or(out.len()), 0);
        out
    }
}

/// The next multiple of the alignment.
pub(crate) fn align(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(DEFAULT_ALIGNMENT.into())
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &WriterValue) {
    let head = |out: &mut Vec<u8>, kind: ValueType| out.extend_from_slice(&kind.code().to_le_bytes());
    let array = |out: &mut Vec<u8>, kind: ValueType, length: usize| {
        head(out, ValueType::Array);
        head(out, kind);
        out.extend_from_slice(&(length as u64).to_le_bytes());
    };
    match value {
        WriterValue::U32(value) => {
            head(out, ValueType::U32);
            out.extend_from_slice(&value.to_le_bytes());
        }
        WriterValue::U64(value) => {
            head(out, ValueType::U64);
            out.extend_from_slice(&value.to_le_bytes());
        }
        WriterValue::F32(value) => {
            head(out, ValueType::F32);
            out.extend_from_slice(&value.to_le_bytes());
        }
        WriterValue::Bool(value) => {
            head(out, ValueType::Bool);
            out.push(u8::from(*value));
        }
        WriterValue::Text(value) => {
            head(out, ValueType::Text);
            put_text(out, value);
        }
        WriterValue::Texts(values) => {
            array(out, ValueType::Text, values.len());
            values.iter().for_each(|value| put_text(out, value));
        }
        WriterValue::I32s(values) => {
            array(out, ValueType::I32, values.len());
            values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
        }
        WriterValue::F32s(values) => {
            array(out, ValueType::F32, values.len());
            values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
        }
    }
}
