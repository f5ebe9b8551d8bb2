//! Reading the beginning of a file.

use alloc::string::ToString;
use alloc::vec::Vec;

use crate::cursor::Cursor;
use crate::facts::{CHAT_TEMPLATE, TOOL_TEMPLATE};
use crate::{DEFAULT_ALIGNMENT, Facts, GgufError, MAGIC, TensorInfo, TensorType, Value, ValueType, limits};

/// Key of the entry with the alignment of tensor data.
const ALIGNMENT: &str = "general.alignment";
/// Key of the entry with the number of files that a model was split into.
const PARTS: &str = "split.count";

/// Key of the entry with the kind of model.
const ARCHITECTURE: &str = "general.architecture";
/// The prefixes of the keys of vocabularies, and of the system's own entries.
const NEEDED: [&str; 2] = ["tokenizer.ggml.", "capos."];

/// Everything before the tensor data of a file; borrows the bytes it was read from.
#[derive(Clone, Debug)]
pub struct Header<'a> {
    version: u32,
    entries: Vec<(&'a str, Value<'a>)>,
    /// Indices of `entries`, sorted by key.
    by_key: Vec<usize>,
    tensors: Vec<TensorInfo<'a>>,
    alignment: u32,
    metadata_bytes: u64,
    data_offset: u64,
    file_size: u64,
}

impl<'a> Header<'a> {
    /// Reads the beginning of a file of `file_size` bytes. `prefix` is as much of the file, from
    /// its start, as is at hand.
    ///
    /// # Errors
    /// [`GgufError::NeedMore`] if `prefix` is too short; every other error means that the file is
    /// malformed or not supported.
    pub fn parse(prefix: &'a [u8], file_size: u64) -> Result<Self, GgufError> {
        let mut cursor = Cursor::new(prefix, file_size);
        let found = cursor.magic()?;
        if found != MAGIC {
            return Err(GgufError::Magic { found });
        }
        let version = cursor.u32("the version")?;
        if !matches!(version, 2 | 3) {
            return Err(GgufError::Version { found: version });
        }
        let tensor_count = cursor.count("the number of tensors", limits::TENSORS)?;
        let entry_count = cursor.count("the number of metadata entries", limits::ENTRIES)?;
        // A key with its length, a type and a value of one byte; a name with its length, one
        // dimension with their number, a type and an offset.
        let least = entry_count.saturating_mul(13).saturating_add(tensor_count.saturating_mul(32));
        cursor.must_exist(least, "the metadata and the table of tensors")?;
        let (entries, by_key) = read_entries(&mut cursor, entry_count)?;
        let mut header = Self {
            version,
            entries,
            by_key,
            tensors: Vec::new(),
            alignment: DEFAULT_ALIGNMENT,
            metadata_bytes: 0,
            data_offset: 0,
            file_size,
        };
        header.check_texts()?;
        header.alignment = header.read_alignment()?;
        header.check_parts()?;
        header.tensors = read_tensors(&mut cursor, tensor_count, header.alignment)?;
        header.metadata_bytes = cursor.offset();
        header.data_offset = header
            .metadata_bytes
            .checked_next_multiple_of(header.alignment.into())
            .ok_or(GgufError::CutOff { what: "the tensor data", offset: header.metadata_bytes, bytes: 0 })?;
        header.check_tensors()?;
        Ok(header)
    }

    fn read_alignment(&self) -> Result<u32, GgufError> {
        let Some(value) = self.get(ALIGNMENT) else {
            return Ok(DEFAULT_ALIGNMENT);
        };
        let Value::U32(alignment) = value else {
            return Err(GgufError::Entry { key: ALIGNMENT, why: "is not a number of 32 bits" });
        };
        if !alignment.is_power_of_two() || !(8..=limits::ALIGNMENT).contains(&alignment) {
            let why = "is not a power of two from 8 to 65536";
            return Err(GgufError::Entry { key: ALIGNMENT, why });
        }
        Ok(alignment)
    }

    /// Entries that running a model needs must be UTF-8. Descriptions and unknown entries may be in any encoding.
    fn check_texts(&self) -> Result<(), GgufError> {
        let architecture = self.get(ARCHITECTURE).and_then(|value| value.as_text());
        let of_architecture =
            |key: &str| architecture.and_then(|name| key.strip_prefix(name)).is_some_and(|rest| rest.starts_with('.'));
        let needed = |key: &str| {
            [ARCHITECTURE, CHAT_TEMPLATE, TOOL_TEMPLATE].contains(&key)
                || NEEDED.iter().any(|beginning| key.starts_with(beginning))
                || of_architecture(key)
        };
        let wrong = self.entries.iter().find(|(key, value)| !value.is_utf8() && needed(key));
        wrong.map_or(Ok(()), |(key, _)| Err(GgufError::NotUtf8 { key: key.to_string() }))
    }

    /// A part of a model lacks the others' tensors: an error that says so is better than the name of the first missing
    /// one.
    fn check_parts(&self) -> Result<(), GgufError> {
        match self.get(PARTS).and_then(|value| value.as_u64()) {
            Some(2..) => Err(GgufError::Entry {
                key: PARTS,
                why: "says that this is one part of a model that was split into several files; \
                      join them first (llama-gguf-split --merge)",
            }),
            _ => Ok(()),
        }
    }

    /// Tensors must be in the file, apart from one another, and have names of their own.
    fn check_tensors(&self) -> Result<(), GgufError> {
        let mut sorted: Vec<&TensorInfo<'_>> = self.tensors.iter().collect();
        sorted.sort_unstable_by_key(|tensor| tensor.name);
        for (one, next) in sorted.iter().zip(sorted.iter().skip(1)) {
            if one.name == next.name {
                let name = one.name.to_string();
                return Err(GgufError::Duplicate { what: "the tensor", name });
            }
        }
        sorted.sort_unstable_by_key(|tensor| tensor.offset);
        for tensor in &sorted {
            let end = tensor
                .offset
                .checked_add(tensor.bytes)
                .and_then(|end| end.checked_add(self.data_offset))
                .filter(|end| *end <= self.file_size);
            if end.is_none() {
                let (name, why) = (tensor.name.to_string(), "reaches over the end of the file");
                return Err(GgufError::Tensor { name, why });
            }
        }
        for (one, next) in sorted.iter().zip(sorted.iter().skip(1)) {
            if one.offset.saturating_add(one.bytes) > next.offset {
                let (first, second) = (one.name.to_string(), next.name.to_string());
                return Err(GgufError::Overlap { first, second });
            }
        }
        Ok(())
    }

    /// The file's version.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The metadata entries in the file's order.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> + '_ {
        self.entries.iter().copied()
    }

    /// The metadata entry of this key.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        let entry = |index: &usize| self.entries.get(*index).copied();
        let found = self.by_key.binary_search_by(|index| entry(index).map_or("", |(key, _)| key).cmp(key));
        found.ok().and_then(|at| self.by_key.get(at)).and_then(entry).map(|(_, value)| value)
    }

    /// The tensors in the file's order.
    pub fn tensors(&self) -> &[TensorInfo<'a>] {
        &self.tensors
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo<'a>> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// Alignment of tensor data in bytes.
    pub fn alignment(&self) -> u32 {
        self.alignment
    }

    /// Bytes from the start of the file that had to be read.
    pub fn metadata_bytes(&self) -> u64 {
        self.metadata_bytes
    }

    /// Where tensor data begins, in bytes from the start of the file.
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// A catalogue's facts about the model.
    pub fn facts(&self) -> Facts<'a> {
        Facts::of(self)
    }
}

type Entries<'a> = (Vec<(&'a str, Value<'a>)>, Vec<usize>);

fn read_entries<'a>(cursor: &mut Cursor<'a>, count: u64) -> Result<Entries<'a>, GgufError> {
    let mut entries = Vec::new();
    for _ in 0..count {
        let key = cursor.text("a metadata key", limits::NAME_BYTES)?;
        let offset = cursor.offset();
        let code = cursor.u32("the type of a metadata value")?;
        let kind = ValueType::from_code(code).ok_or(GgufError::UnknownType {
            what: "a metadata value",
            offset,
            found: code,
        })?;
        entries.push((key, Value::read(cursor, kind, limits::NESTING)?));
    }
    let key_of = |index: usize| entries.get(index).map_or("", |(key, _)| *key);
    let mut by_key: Vec<usize> = (0..entries.len()).collect();
    by_key.sort_unstable_by_key(|index| key_of(*index));
    for (one, next) in by_key.iter().zip(by_key.iter().skip(1)) {
        if key_of(*one) == key_of(*next) {
            let name = key_of(*one).to_string();
            return Err(GgufError::Duplicate { what: "the metadata key", name });
        }
    }
    Ok((entries, by_key))
}

fn read_tensors<'a>(cursor: &mut Cursor<'a>, count: u64, alignment: u32) -> Result<Vec<TensorInfo<'a>>, GgufError> {
    let mut tensors = Vec::new();
    for _ in 0..count {
        let name = cursor.text("a tensor's name", limits::NAME_BYTES)?;
        let offset = cursor.offset();
        let rank = cursor.u32("a tensor's number of dimensions")?;
        if rank > limits::DIMENSIONS {
            return Err(GgufError::TooLarge {
                what: "a tensor's number of dimensions",
                offset,
                found: rank.into(),
                limit: limits::DIMENSIONS.into(),
            });
        }
        let mut dimensions = [0; limits::DIMENSIONS as usize];
        let rank = usize::try_from(rank).unwrap_or(0);
        for dimension in dimensions.iter_mut().take(rank) {
            *dimension = cursor.u64("a tensor's dimension")?;
        }
        let offset = cursor.offset();
        let code = cursor.u32("a tensor's type")?;
        let kind =
            TensorType::from_code(code).ok_or(GgufError::UnknownType { what: "a tensor", offset, found: code })?;
        let offset = cursor.u64("a tensor's offset")?;
        if !offset.is_multiple_of(alignment.into()) {
            let (name, why) = (name.to_string(), "does not begin at a multiple of the alignment");
            return Err(GgufError::Tensor { name, why });
        }
        tensors.push(TensorInfo::new(name, kind, dimensions.get(..rank).unwrap_or(&[]), offset)?);
    }
    Ok(tensors)
}
