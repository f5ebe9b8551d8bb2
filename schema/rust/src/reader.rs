//! Reading a message in place: one segment, nothing trusted.
//!
//! Generated code reads with this. Offsets and sizes come from the schema, and everything else from the message. A
//! pointer is followed if all that it points to is inside the message, if it is not too deep, and if the message has
//! not been read four times over already. Fields that a message of another schema version lacks read as their defaults;
//! additional ones are skipped, lists included.
//!
//! The sender chooses the size of a list's elements in the message, but not their size in memory. So lists, texts and
//! bytes are charged to the bytes that [`memory_for`] allows the whole message before memory is allocated.

use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;

use capnp::Word;

use crate::cap::Cap;
use crate::wire::{ALLOCATION, MAX_DEPTH, MEMORY_FACTOR, WireError, enumerant, memory_for, words_to_read};

/// Bytes of a word.
const WORD: usize = 8;
/// Kinds of pointers, in their lowest two bits.
const STRUCT: u64 = 0;
const LIST: u64 = 1;
/// The lower half of a pointer to a capability.
const CAPABILITY: u64 = 3;
/// Sizes of lists' elements, as pointers name them.
const BITS: u64 = 1;
const BYTES: u64 = 2;
const POINTERS: u64 = 6;
const COMPOSITE: u64 = 7;

/// Bytes of a long text: a shorter one has more overhead than content.
const LONG: usize = 64;

/// A number of the data section, of a fixed size.
pub trait Number: Copy + Default {
    /// Its bytes.
    const SIZE: usize;

    /// Takes it from the start of these bytes; if they are too few, as an older schema's may be, it is its default.
    fn from_start(bytes: &[u8]) -> Self;

    /// The same, with every bit inverted that is set in the other: values are stored in messages relative to their
    /// default.
    #[must_use]
    fn relative_to(self, default: Self) -> Self;

    /// Puts it where these bytes start, if it fits.
    fn put(self, bytes: &mut [u8]);
}

macro_rules! numbers {
    ($($number:ty, $bits:expr, $from_bits:expr;)*) => {$(
        impl Number for $number {
            const SIZE: usize = size_of::<$number>();

            #[inline]
            fn from_start(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or(Self::default(), |bytes| Self::from_le_bytes(*bytes))
            }

            #[inline]
            fn relative_to(self, default: Self) -> Self {
                $from_bits($bits(self) ^ $bits(default))
            }

            #[inline]
            fn put(self, bytes: &mut [u8]) {
                if let Some(place) = bytes.first_chunk_mut() {
                    *place = self.to_le_bytes();
                }
            }
        }
    )*};
}

numbers! {
    u8, core::convert::identity, core::convert::identity;
    u16, core::convert::identity, core::convert::identity;
    u32, core::convert::identity, core::convert::identity;
    u64, core::convert::identity, core::convert::identity;
    i8, core::convert::identity, core::convert::identity;
    i16, core::convert::identity, core::convert::identity;
    i32, core::convert::identity, core::convert::identity;
    i64, core::convert::identity, core::convert::identity;
    f32, f32::to_bits, f32::from_bits;
    f64, f64::to_bits, f64::from_bits;
}

/// A message that is read.
#[derive(Debug)]
pub struct Segment<'a> {
    words: &'a [[u8; WORD]],
    caps: &'a [Cap],
    /// Words that pointers may still lead to.
    left: Cell<usize>,
    /// Bytes of memory that further values may take.
    memory: Cell<usize>,
}

impl<'a> Segment<'a> {
    /// A message's words, and the capabilities that came with it.
    #[inline]
    #[must_use]
    pub fn new(words: &'a [Word], caps: &'a [Cap]) -> Self {
        let (words, _) = Word::words_to_bytes(words).as_chunks();
        let memory = Cell::new(memory_for(words.len().saturating_mul(WORD)));
        Self { words, caps, left: Cell::new(words_to_read(words.len())), memory }
    }

    /// Its root.
    ///
    /// # Errors
    /// There is none, or it is malformed.
    #[inline]
    pub fn root(&self) -> Result<StructReader<'_>, WireError> {
        if self.words.is_empty() {
            return Err(WireError::new("message", "it has no root"));
        }
        let depth = u32::try_from(MAX_DEPTH).unwrap_or(0);
        PointerReader { segment: self, at: 0, depth }.structure("message")
    }

    #[inline]
    fn pointer(&self, at: usize) -> u64 {
        self.words.get(at).map_or(0, |word| u64::from_le_bytes(*word))
    }

    /// The `length` words from `start` on that a pointer leads to, after checks.
    #[inline]
    fn take(&self, path: &'static str, start: usize, length: usize) -> Result<&[[u8; WORD]], WireError> {
        let found = start.checked_add(length).and_then(|end| self.words.get(start..end));
        let found = found.ok_or_else(|| WireError::new(path, "a pointer leads out of the message"))?;
        self.charge(path, length)?;
        Ok(found)
    }

    #[inline]
    fn charge(&self, path: &'static str, words: usize) -> Result<(), WireError> {
        let left = self.left.get().checked_sub(words);
        self.left.set(left.ok_or_else(|| WireError::new(path, "it is read more than four times over"))?);
        Ok(())
    }

    /// Accounts for bytes that are copied. Long ones count four times, which is the memory that a message has for each
    /// of its own bytes. So texts take no more memory than the message, even if many pointers lead to the same text.
    #[inline]
    fn account_bytes(&self, path: &'static str, bytes: usize) -> Result<(), WireError> {
        let again = bytes.saturating_sub(LONG).wrapping_mul(MEMORY_FACTOR - 1);
        self.account(path, bytes.wrapping_add(again))
    }

    /// Accounts for an allocation of `bytes` bytes, before it is made. Empty ones are free.
    #[inline]
    fn account(&self, path: &'static str, bytes: usize) -> Result<(), WireError> {
        if bytes > 0 {
            let left = self.memory.get().checked_sub(bytes.saturating_add(ALLOCATION));
            self.memory.set(left.ok_or_else(|| too_much(path))?);
        }
        Ok(())
    }
}

/// Where the pointer at this word leads to.
#[inline]
fn target(at: usize, pointer: u64) -> usize {
    // The upper 30 bits of the lower half, with their sign.
    let offset = (pointer as u32).cast_signed() >> 2;
    at.wrapping_add(1).wrapping_add_signed(offset as isize)
}

/// The sizes of a struct's two sections, as a pointer to it says.
#[inline]
fn sections(pointer: u64) -> (usize, usize) {
    (usize::from((pointer >> 32) as u16), usize::from((pointer >> 48) as u16))
}

#[cold]
fn too_much(path: &'static str) -> WireError {
    WireError::new(path, "it takes more memory than a message of this length may")
}

#[cold]
fn unended(path: &'static str) -> WireError {
    WireError::new(path, "the text does not end with a zero")
}

/// A pointer of a message.
#[derive(Clone, Copy, Debug)]
pub struct PointerReader<'a> {
    segment: &'a Segment<'a>,
    /// Its word.
    at: usize,
    depth: u32,
}

impl<'a> PointerReader<'a> {
    #[inline]
    fn raw(self) -> u64 {
        self.segment.pointer(self.at)
    }

    /// Whether it leads nowhere.
    #[inline]
    #[must_use]
    pub fn is_null(self) -> bool {
        self.raw() == 0
    }

    #[inline]
    fn deeper(self, path: &'static str) -> Result<u32, WireError> {
        self.depth.checked_sub(1).ok_or_else(|| WireError::new(path, "it is nested too deeply"))
    }

    /// The struct that it leads to; one of defaults if it leads nowhere.
    ///
    /// # Errors
    /// It leads out of the message, or to something else.
    pub fn structure(self, path: &'static str) -> Result<StructReader<'a>, WireError> {
        let (segment, pointer) = (self.segment, self.raw());
        if pointer == 0 {
            return Ok(StructReader { segment, data: &[], first: 0, pointers: 0, depth: 0 });
        }
        if pointer & 3 != STRUCT {
            return Err(WireError::new(path, "a pointer leads to no struct"));
        }
        let depth = self.deeper(path)?;
        let (start, (data, pointers)) = (target(self.at, pointer), sections(pointer));
        let words = segment.take(path, start, data.saturating_add(pointers))?;
        let found = words.get(..data).unwrap_or_default().as_flattened();
        Ok(StructReader { segment, data: found, first: start.wrapping_add(data), pointers, depth })
    }

    /// The words and number of its bytes; none if it leads nowhere.
    #[inline]
    fn words_of_bytes(self, path: &'static str) -> Result<(&'a [u8], usize), WireError> {
        let pointer = self.raw();
        if pointer == 0 {
            return Ok((&[], 0));
        }
        if pointer & 3 != LIST || (pointer >> 32) & 7 != BYTES {
            return Err(WireError::new(path, "a pointer leads to no bytes"));
        }
        let length = (pointer >> 35) as usize;
        let words = self.segment.take(path, target(self.at, pointer), length.div_ceil(WORD))?;
        Ok((words.as_flattened(), length))
    }

    /// The bytes that it leads to, none if it leads nowhere.
    ///
    /// # Errors
    /// It leads out of the message, or to something else.
    pub fn bytes(self, path: &'static str) -> Result<&'a [u8], WireError> {
        let (words, length) = self.words_of_bytes(path)?;
        Ok(words.get(..length).unwrap_or_default())
    }

    /// A copy of the bytes that it leads to.
    ///
    /// # Errors
    /// As [`PointerReader::bytes`]; it takes too much memory.
    pub fn data(self, path: &'static str) -> Result<Vec<u8>, WireError> {
        let bytes = self.bytes(path)?;
        self.segment.account_bytes(path, bytes.len())?;
        Ok(Vec::from(bytes))
    }

    /// A copy of the bytes that a field has which is not there.
    ///
    /// # Errors
    /// It takes too much memory.
    pub fn default_data(self, path: &'static str, default: &[u8]) -> Result<Vec<u8>, WireError> {
        self.segment.account(path, default.len())?;
        Ok(Vec::from(default))
    }

    /// A copy of the text that a field has which is not there.
    ///
    /// # Errors
    /// It takes too much memory.
    pub fn default_text(self, path: &'static str, default: &str) -> Result<String, WireError> {
        self.segment.account(path, default.len())?;
        Ok(String::from(default))
    }

    /// Accounts for a value in an allocation of its own.
    ///
    /// # Errors
    /// It takes too much memory.
    pub fn account<T>(self, path: &'static str) -> Result<(), WireError> {
        self.segment.account(path, size_of::<T>())
    }

    /// The text that it leads to.
    ///
    /// # Errors
    /// As [`PointerReader::data`]; it does not end as text does, or is not UTF-8.
    pub fn text(self, path: &'static str) -> Result<String, WireError> {
        let (words, length) = self.words_of_bytes(path)?;
        let Some(end) = length.checked_sub(1) else {
            return if self.is_null() { Ok(String::new()) } else { Err(unended(path)) };
        };
        if words.get(end) != Some(&0) {
            return Err(unended(path));
        }
        self.segment.account_bytes(path, end)?;
        // Whole words are looked at faster than bytes; after the text there are mostly zeros.
        let found = core::str::from_utf8(words).ok().and_then(|text| text.get(..end));
        let found = match found {
            Some(text) => Ok(text),
            None => core::str::from_utf8(words.get(..end).unwrap_or_default()),
        };
        found.map(String::from).map_err(|_| WireError::new(path, "the text is not UTF-8"))
    }

    /// The list that it leads to, an empty one if it leads nowhere.
    fn list(self, path: &'static str) -> Result<ListReader<'a>, WireError> {
        let (segment, pointer) = (self.segment, self.raw());
        if pointer == 0 {
            let none: &[u8] = &[];
            return Ok(ListReader {
                segment,
                bytes: none,
                start: 0,
                length: 0,
                step: 0,
                data: 0,
                pointers: 0,
                depth: 0,
            });
        }
        if pointer & 3 != LIST {
            return Err(WireError::new(path, "a pointer leads to no list"));
        }
        let depth = self.deeper(path)?;
        let (start, size, count) = (target(self.at, pointer), (pointer >> 32) & 7, (pointer >> 35) as usize);
        let (step, data, pointers) = match size {
            COMPOSITE => return self.composite(path, start, count, depth),
            POINTERS => (WORD * 8, 0, 1),
            BITS => (1, 1, 0),
            // None, or 1, 2, 4 or 8 bytes.
            0 => (0, 0, 0),
            wider => (4 << (wider - 1), 4 << (wider - 1), 0),
        };
        let bits = count.saturating_mul(step);
        let words = segment.take(path, start, bits.div_ceil(WORD * 8))?;
        if step == 0 {
            // Elements of no size are read, too.
            segment.charge(path, count)?;
        }
        Ok(ListReader { segment, bytes: words.as_flattened(), start, length: count, step, data, pointers, depth })
    }

    /// A list whose elements are structs; a word before the first says how many and how large they are.
    fn composite(
        self,
        path: &'static str,
        start: usize,
        words: usize,
        depth: u32,
    ) -> Result<ListReader<'a>, WireError> {
        let segment = self.segment;
        let all = segment.take(path, start, words.saturating_add(1))?;
        let tag = all.first().map_or(0, |word| u64::from_le_bytes(*word));
        if tag & 3 != STRUCT {
            return Err(WireError::new(path, "a list's elements are no structs"));
        }
        let (length, (data, pointers)) = ((tag as u32 >> 2) as usize, sections(tag));
        let each = data.saturating_add(pointers);
        if length.saturating_mul(each) > words {
            return Err(WireError::new(path, "a list is shorter than its elements"));
        }
        if each == 0 {
            segment.charge(path, length)?;
        }
        let bytes = all.get(1..).unwrap_or_default().as_flattened();
        let bits = |words: usize| words.saturating_mul(WORD * 8);
        let (start, step, data) = (start.wrapping_add(1), bits(each), bits(data));
        Ok(ListReader { segment, bytes, start, length, step, data, pointers, depth })
    }

    /// The structs that it leads to, or an older schema's form: lists of their first fields.
    ///
    /// # Errors
    /// It leads out of the message, or to something else.
    pub fn structs(self, path: &'static str) -> Result<ListReader<'a>, WireError> {
        let list = self.list(path)?;
        if list.step == 1 {
            return Err(WireError::new(path, "a list's elements are no structs"));
        }
        Ok(list)
    }

    /// The list of pointers that it leads to, to lists, texts or capabilities.
    ///
    /// # Errors
    /// It leads out of the message, or to something else.
    pub fn pointers(self, path: &'static str) -> Result<ListReader<'a>, WireError> {
        let list = self.list(path)?;
        if list.pointers == 0 && list.length > 0 {
            return Err(WireError::new(path, "a list's elements are no pointers"));
        }
        Ok(list)
    }

    /// The numbers that it leads to.
    ///
    /// # Errors
    /// It leads out of the message, or to something else; they take too much memory.
    pub fn numbers<N: Number>(self, path: &'static str) -> Result<Vec<N>, WireError> {
        let list = self.list(path)?;
        if list.length == 0 {
            return Ok(Vec::new());
        }
        if list.data < N::SIZE.saturating_mul(8) {
            return Err(WireError::new(path, "a list's elements are too small for its numbers"));
        }
        self.segment.account(path, list.length.saturating_mul(N::SIZE))?;
        // All but single bits are whole bytes.
        Ok(list.bytes.chunks(list.step / 8).take(list.length).map(N::from_start).collect())
    }

    /// The values of an enum list; these are all known values.
    ///
    /// # Errors
    /// As [`PointerReader::numbers`]; there are others among them.
    pub fn enumerants<T: Copy>(self, path: &'static str, all: &[T]) -> Result<Vec<T>, WireError> {
        let numbers = self.numbers::<u16>(path)?;
        self.segment.account(path, numbers.len().saturating_mul(size_of::<T>()))?;
        let mut values = Vec::with_capacity(numbers.len());
        for number in numbers {
            values.push(enumerant(path, number, all)?);
        }
        Ok(values)
    }

    /// The flags that it leads to.
    ///
    /// # Errors
    /// As [`PointerReader::numbers`].
    pub fn flags(self, path: &'static str) -> Result<Vec<bool>, WireError> {
        let list = self.list(path)?;
        if list.length > 0 && list.step != 1 {
            return Err(WireError::new(path, "a list's elements are no flags"));
        }
        self.segment.account(path, list.length)?;
        let bits = list.bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 != 0));
        let mut flags = Vec::with_capacity(list.length);
        flags.extend(bits.take(list.length));
        Ok(flags)
    }

    /// The number of elements in the list, whose content is not checked.
    ///
    /// # Errors
    /// It leads out of the message, or to no list.
    pub fn length(self, path: &'static str) -> Result<usize, WireError> {
        self.list(path).map(|list| list.length)
    }

    /// The capability that it designates.
    ///
    /// # Errors
    /// It designates none, or none that came with the message.
    pub fn cap(self, path: &'static str) -> Result<Cap, WireError> {
        let pointer = self.raw();
        if pointer & 0xffff_ffff != CAPABILITY {
            return Err(WireError::new(path, "the capability is missing"));
        }
        let found = self.segment.caps.get((pointer >> 32) as usize);
        found.cloned().ok_or_else(|| WireError::new(path, "the message has no capability with this index"))
    }
}

/// A struct of a message.
#[derive(Clone, Copy, Debug)]
pub struct StructReader<'a> {
    segment: &'a Segment<'a>,
    data: &'a [u8],
    /// The word of its first pointer.
    first: usize,
    pointers: usize,
    depth: u32,
}

impl<'a> StructReader<'a> {
    /// The number at this place, in units of its size.
    #[inline]
    #[must_use]
    pub fn number<N: Number>(self, at: usize) -> N {
        self.data.get(at.saturating_mul(N::SIZE)..).map_or(N::default(), N::from_start)
    }

    /// The same with a default.
    #[inline]
    #[must_use]
    pub fn number_or<N: Number>(self, at: usize, default: N) -> N {
        self.number::<N>(at).relative_to(default)
    }

    /// The flag at this place.
    #[inline]
    #[must_use]
    pub fn flag(self, at: usize) -> bool {
        self.number::<u8>(at / 8) >> (at % 8) & 1 != 0
    }

    /// The pointer with this number.
    #[inline]
    #[must_use]
    pub fn pointer(self, number: usize) -> PointerReader<'a> {
        // No word has the last number of all: it reads as a pointer that leads nowhere.
        let at = if number < self.pointers { self.first.wrapping_add(number) } else { usize::MAX };
        PointerReader { segment: self.segment, at, depth: self.depth }
    }
}

/// A list of structs or pointers of a message.
#[derive(Clone, Copy, Debug)]
pub struct ListReader<'a> {
    segment: &'a Segment<'a>,
    bytes: &'a [u8],
    /// The word that the first element begins with.
    start: usize,
    length: usize,
    /// Bits from one element to the next; 1, or whole bytes.
    step: usize,
    /// Bits of each element's data.
    data: usize,
    /// Pointers of each element.
    pointers: usize,
    depth: u32,
}

impl<'a> ListReader<'a> {
    /// Room for its decoded elements.
    ///
    /// # Errors
    /// It takes too much memory.
    #[inline]
    pub fn room<T>(&self, path: &'static str) -> Result<Vec<T>, WireError> {
        self.segment.account(path, self.length.saturating_mul(size_of::<T>()))?;
        Ok(Vec::with_capacity(self.length))
    }

    /// Its elements as structs.
    pub fn structures(self) -> impl ExactSizeIterator<Item = StructReader<'a>> {
        (0..self.length).map(move |number| self.structure(number))
    }

    fn structure(&self, number: usize) -> StructReader<'a> {
        let from = number.saturating_mul(self.step / 8);
        let data = self.bytes.get(from..from.saturating_add(self.data / 8)).unwrap_or_default();
        let first = self.start.wrapping_add(from.saturating_add(self.data / 8) / WORD);
        StructReader { segment: self.segment, data, first, pointers: self.pointers, depth: self.depth }
    }

    /// The first pointers of its elements.
    pub fn elements(self) -> impl ExactSizeIterator<Item = PointerReader<'a>> {
        (0..self.length).map(move |number| self.structure(number).pointer(0))
    }
}
