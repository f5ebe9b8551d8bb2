//! Metadata values.

use crate::cursor::Cursor;
use crate::{GgufError, limits};

/// The type of a metadata value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// 8 bits, unsigned.
    U8,
    /// 8 bits, signed.
    I8,
    /// 16 bits, unsigned.
    U16,
    /// 16 bits, signed.
    I16,
    /// 32 bits, unsigned.
    U32,
    /// 32 bits, signed.
    I32,
    /// Floating point, 32 bits.
    F32,
    /// 0 or 1 in a byte.
    Bool,
    /// Text.
    Text,
    /// Values of one type.
    Array,
    /// 64 bits, unsigned.
    U64,
    /// 64 bits, signed.
    I64,
    /// Floating point, 64 bits.
    F64,
}

impl ValueType {
    /// The type that a code names.
    pub fn from_code(code: u32) -> Option<Self> {
        use ValueType::*;
        let all = [U8, I8, U16, I16, U32, I32, F32, Bool, Text, Array, U64, I64, F64];
        all.get(usize::try_from(code).ok()?).copied()
    }

    /// The code in the file.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// Bytes of a value, if they are always the same.
    fn size(self) -> Option<u64> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::Text | Self::Array => None,
        }
    }

    /// Bytes that a value takes at least.
    fn least(self) -> u64 {
        match self {
            Self::Text => 8,
            Self::Array => 12,
            _ => self.size().unwrap_or(1),
        }
    }
}

/// A metadata value; text and arrays borrow the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// 8 bits, unsigned.
    U8(u8),
    /// 8 bits, signed.
    I8(i8),
    /// 16 bits, unsigned.
    U16(u16),
    /// 16 bits, signed.
    I16(i16),
    /// 32 bits, unsigned.
    U32(u32),
    /// 32 bits, signed.
    I32(i32),
    /// Floating point, 32 bits.
    F32(f32),
    /// A truth value.
    Bool(bool),
    /// Text.
    Text(&'a str),
    /// Text that is not UTF-8. A file may describe itself in such; no entry that is needed has any
    /// ([`Header::parse`](crate::Header::parse)).
    Bytes(&'a [u8]),
    /// Values of one type.
    Array(Array<'a>),
    /// 64 bits, unsigned.
    U64(u64),
    /// 64 bits, signed.
    I64(i64),
    /// Floating point, 64 bits.
    F64(f64),
}

impl<'a> Value<'a> {
    /// Reads a value of this type; arrays `nesting` levels deep at most.
    pub(crate) fn read(cursor: &mut Cursor<'a>, kind: ValueType, nesting: u32) -> Result<Self, GgufError> {
        let what = "a metadata value";
        let mut bytes = [0u8; 8];
        let offset = cursor.offset();
        if let Some(size) = kind.size() {
            for (to, from) in bytes.iter_mut().zip(cursor.take(size, what)?) {
                *to = *from;
            }
        }
        let [a, b, c, d, ..] = bytes;
        Ok(match kind {
            ValueType::U8 => Self::U8(a),
            ValueType::I8 => Self::I8(a.cast_signed()),
            ValueType::U16 => Self::U16(u16::from_le_bytes([a, b])),
            ValueType::I16 => Self::I16(i16::from_le_bytes([a, b])),
            ValueType::U32 => Self::U32(u32::from_le_bytes([a, b, c, d])),
            ValueType::I32 => Self::I32(i32::from_le_bytes([a, b, c, d])),
            ValueType::F32 => Self::F32(f32::from_le_bytes([a, b, c, d])),
            ValueType::U64 => Self::U64(u64::from_le_bytes(bytes)),
            ValueType::I64 => Self::I64(i64::from_le_bytes(bytes)),
            ValueType::F64 => Self::F64(f64::from_le_bytes(bytes)),
            ValueType::Bool if a > 1 => return Err(GgufError::NotBool { offset }),
            ValueType::Bool => Self::Bool(a == 1),
            ValueType::Text => {
                let bytes = cursor.bytes_with_length("a text", limits::METADATA_BYTES)?;
                core::str::from_utf8(bytes).map_or(Self::Bytes(bytes), Self::Text)
            }
            ValueType::Array => Self::Array(Array::read(cursor, nesting)?),
        })
    }

    /// Whether all text in it is UTF-8.
    pub(crate) fn is_utf8(&self) -> bool {
        match self {
            Self::Bytes(_) => false,
            Self::Array(array) => array.utf8,
            _ => true,
        }
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is a whole one and not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::U8(value) => Some(value.into()),
            Self::U16(value) => Some(value.into()),
            Self::U32(value) => Some(value.into()),
            Self::U64(value) => Some(value),
            Self::I8(value) => value.try_into().ok(),
            Self::I16(value) => value.try_into().ok(),
            Self::I32(value) => value.try_into().ok(),
            Self::I64(value) => value.try_into().ok(),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::F32(value) => Some(value.into()),
            Self::F64(value) => Some(value),
            _ => None,
        }
    }

    /// The truth value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The array, if it is one.
    pub fn as_array(&self) -> Option<Array<'a>> {
        match *self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }
}

/// An array in the metadata. All of its values were checked when the file was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Array<'a> {
    kind: ValueType,
    length: u64,
    bytes: &'a [u8],
    /// Whether all text in it is UTF-8.
    utf8: bool,
}

impl<'a> Array<'a> {
    fn read(cursor: &mut Cursor<'a>, nesting: u32) -> Result<Self, GgufError> {
        let offset = cursor.offset();
        let left = nesting.checked_sub(1).ok_or(GgufError::TooLarge {
            what: "the nesting of arrays",
            offset,
            found: u64::from(limits::NESTING).saturating_add(1),
            limit: limits::NESTING.into(),
        })?;
        let code = cursor.u32("an array's type")?;
        let kind = ValueType::from_code(code).ok_or(GgufError::UnknownType {
            what: "an array's values",
            offset,
            found: code,
        })?;
        let what = "an array";
        let length = cursor.count("an array's length", limits::METADATA_BYTES)?;
        // Checked first, so that an impossible length costs nothing.
        cursor.must_exist(length.saturating_mul(kind.least()), what)?;
        let mut rest = *cursor;
        let mut utf8 = true;
        match kind.size() {
            Some(size) if kind != ValueType::Bool => {
                rest.take(length.saturating_mul(size), what)?;
            }
            _ => {
                for _ in 0..length {
                    utf8 &= Value::read(&mut rest, kind, left)?.is_utf8();
                }
            }
        }
        let bytes = cursor.take(rest.offset().saturating_sub(cursor.offset()), what)?;
        Ok(Self { kind, length, bytes, utf8 })
    }

    /// Type of the values.
    pub fn kind(&self) -> ValueType {
        self.kind
    }

    /// Number of values.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The values in order.
    pub fn iter(&self) -> Elements<'a> {
        let size = self.bytes.len() as u64;
        Elements { kind: self.kind, left: self.length, cursor: Cursor::new(self.bytes, size) }
    }
}

impl<'a> IntoIterator for Array<'a> {
    type Item = Value<'a>;
    type IntoIter = Elements<'a>;

    fn into_iter(self) -> Elements<'a> {
        self.iter()
    }
}

/// The values of an array.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    kind: ValueType,
    left: u64,
    cursor: Cursor<'a>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        Value::read(&mut self.cursor, self.kind, limits::NESTING).ok()
    }
}
