//! Writing a message where it is sent from: one segment that grows.
//!
//! This is what generated code writes with. Structs, lists and texts are laid out in the order in which they are begun, as
//! capnp's own builders do.

use alloc::vec::Vec;

use capnp::Word;

use crate::cap::{Cap, CapArg, Message};
use crate::reader::Number;
use crate::wire::{MAX_SENT, MAX_WORDS, WireError, length};

/// Bytes of a word.
const WORD: usize = 8;
const ZERO: Word = capnp::word(0, 0, 0, 0, 0, 0, 0, 0);
/// Elements of lists, as pointers name them.
const BITS: u64 = 1;
const BYTES: u64 = 2;
const POINTERS: u64 = 6;
const COMPOSITE: u64 = 7;

/// Where a struct of a message is: its first word, and that of its pointers.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    data: usize,
    pointers: usize,
}

impl Place {
    /// The word of the pointer with this number.
    #[inline]
    #[must_use]
    pub fn pointer(self, number: usize) -> usize {
        self.pointers.wrapping_add(number)
    }
}

/// A message that is written.
#[derive(Debug)]
pub struct Builder {
    words: Vec<Word>,
    caps: Vec<CapArg>,
    /// Words that it may have.
    most: usize,
}

#[inline]
fn word(value: u64) -> Word {
    let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
    capnp::word(a, b, c, d, e, f, g, h)
}

impl Builder {
    /// A message to send, whose root is a struct of these sizes, and which probably takes `words` words.
    #[inline]
    #[must_use]
    pub fn new(words: usize, data: u16, pointers: u16) -> (Self, Place) {
        Self::at_most(MAX_SENT / WORD, words, data, pointers)
    }

    /// The same, of a message that is kept.
    #[must_use]
    pub fn kept(words: usize, data: u16, pointers: u16) -> (Self, Place) {
        Self::at_most(MAX_WORDS, words, data, pointers)
    }

    #[inline]
    fn at_most(most: usize, words: usize, data: u16, pointers: u16) -> (Self, Place) {
        let sections = usize::from(data).wrapping_add(usize::from(pointers));
        let used = sections.wrapping_add(1);
        let mut all = Vec::with_capacity(words.min(most).max(used));
        all.resize(used, ZERO);
        let mut builder = Self { words: all, caps: Vec::new(), most };
        // As in `structure`: right after its pointer, or at it.
        let distance = if sections == 0 { u64::from(u32::MAX << 2) } else { 0 };
        builder.put(0, distance | u64::from(data) << 32 | u64::from(pointers) << 48);
        (builder, Place { data: 1, pointers: usize::from(data).wrapping_add(1) })
    }

    /// The message, as it was written.
    #[inline]
    #[must_use]
    pub fn finish(self) -> Message {
        Message { words: self.words, caps: self.caps }
    }

    /// Appends `words` zero words; returns the index of the first.
    #[inline]
    fn grow(&mut self, words: usize) -> Result<usize, WireError> {
        let start = self.words.len();
        let end = start.saturating_add(words);
        if end > self.words.capacity() {
            self.extend_to(end)?;
        }
        self.words.resize(end, ZERO);
        Ok(start)
    }

    /// Room for `end` words in all. The capacity at least doubles, up to the permitted length.
    #[cold]
    fn extend_to(&mut self, end: usize) -> Result<(), WireError> {
        if end > self.most {
            return Err(WireError::too_long(self.most));
        }
        let room = self.words.capacity().saturating_mul(2).min(self.most).max(end);
        self.words.reserve_exact(room.saturating_sub(self.words.len()));
        Ok(())
    }

    #[inline]
    fn put(&mut self, at: usize, value: u64) {
        if let Some(place) = self.words.get_mut(at) {
            *place = word(value);
        }
    }

    /// The part of a pointer at this word that says where it leads to.
    #[inline]
    fn offset(at: usize, target: usize) -> u64 {
        // It points backwards by one word at most, to a struct of no size, and is shorter than the longest message.
        let distance = target.wrapping_sub(at).wrapping_sub(1);
        u64::from((distance as u32) << 2)
    }

    /// A new struct of these sizes, that the pointer at this word leads to.
    ///
    /// # Errors
    /// The message becomes longer than one may be.
    pub fn structure(&mut self, at: usize, data: u16, pointers: u16) -> Result<Place, WireError> {
        let start = self.grow(usize::from(data).wrapping_add(usize::from(pointers)))?;
        // A struct of no size is placed at its own pointer, whose offset would be zero otherwise.
        let target = if data == 0 && pointers == 0 { at } else { start };
        self.put(at, Self::offset(at, target) | u64::from(data) << 32 | u64::from(pointers) << 48);
        Ok(Place { data: start, pointers: start.wrapping_add(usize::from(data)) })
    }

    /// Sets the number at this place of a struct, in units of its size.
    #[inline]
    pub fn number<N: Number>(&mut self, place: Place, at: usize, value: N) {
        let from = place.data.wrapping_mul(WORD).wrapping_add(at.wrapping_mul(N::SIZE));
        if let Some(bytes) = Word::words_to_bytes_mut(&mut self.words).get_mut(from..) {
            value.put(bytes);
        }
    }

    /// The same with a default.
    #[inline]
    pub fn number_or<N: Number>(&mut self, place: Place, at: usize, value: N, default: N) {
        self.number(place, at, value.relative_to(default));
    }

    /// Sets the flag at this place of a struct.
    #[inline]
    pub fn flag(&mut self, place: Place, at: usize, value: bool) {
        let from = place.data.wrapping_mul(WORD).wrapping_add(at / 8);
        if let Some(byte) = Word::words_to_bytes_mut(&mut self.words).get_mut(from) {
            *byte = *byte & !(1 << (at % 8)) | u8::from(value) << (at % 8);
        }
    }

    /// A new list of `count` elements in `words` words, for the pointer at word `at`. Returns the index of its first
    /// word.
    #[inline]
    fn list(
        &mut self,
        path: &'static str,
        at: usize,
        size: u64,
        count: usize,
        words: usize,
    ) -> Result<usize, WireError> {
        let count = length(path, count)?;
        let start = self.grow(words)?;
        self.put(at, Self::offset(at, start) | 1 | size << 32 | u64::from(count) << 35);
        Ok(start)
    }

    /// Bytes, followed by this many zeros, for the pointer at word `at`.
    fn list_of_bytes(&mut self, path: &'static str, at: usize, bytes: &[u8], zeros: usize) -> Result<(), WireError> {
        let count = length(path, bytes.len().saturating_add(zeros))?;
        let start = self.words.len();
        let end = start.saturating_add((count as usize).div_ceil(WORD));
        if end > self.words.capacity() {
            self.extend_to(end)?;
        }
        self.put(at, Self::offset(at, start) | 1 | BYTES << 32 | u64::from(count) << 35);
        let (whole, rest) = bytes.as_chunks::<WORD>();
        self.words.extend(whole.iter().map(|bytes| word(u64::from_le_bytes(*bytes))));
        if count as usize > whole.len().wrapping_mul(WORD) {
            let rest = match bytes.last_chunk() {
                // The last word, without those of its bytes that are in place already.
                Some(last) => u64::from_le_bytes(*last).checked_shr(64 - 8 * (rest.len() as u32)).unwrap_or(0),
                None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
            };
            self.words.push(word(rest));
        }
        Ok(())
    }

    /// Bytes that the pointer at this word leads to.
    ///
    /// # Errors
    /// The message becomes longer than one may be.
    pub fn data(&mut self, path: &'static str, at: usize, bytes: &[u8]) -> Result<(), WireError> {
        self.list_of_bytes(path, at, bytes, 0)
    }

    /// A text that the pointer at this word leads to.
    ///
    /// # Errors
    /// The message becomes longer than one may be.
    pub fn text(&mut self, path: &'static str, at: usize, text: &str) -> Result<(), WireError> {
        self.list_of_bytes(path, at, text.as_bytes(), 1)
    }

    /// A list of nothings that the pointer at this word leads to.
    ///
    /// # Errors
    /// They are more than a list may have.
    pub fn nothings(&mut self, path: &'static str, at: usize, count: usize) -> Result<(), WireError> {
        self.list(path, at, 0, count, 0).map(drop)
    }

    /// A list of flags that the pointer at this word leads to.
    ///
    /// # Errors
    /// The message becomes longer than one may be.
    pub fn flags(&mut self, path: &'static str, at: usize, flags: &[bool]) -> Result<(), WireError> {
        let start = self.list(path, at, BITS, flags.len(), flags.len().div_ceil(WORD * 8))?;
        let place = Place { data: start, pointers: start };
        for (number, flag) in flags.iter().enumerate() {
            self.flag(place, number, *flag);
        }
        Ok(())
    }

    /// A list of numbers that the pointer at this word leads to.
    ///
    /// # Errors
    /// The message becomes longer than one may be.
    pub fn numbers<N: Number>(
        &mut self,
        path: &'static str,
        at: usize,
        numbers: impl ExactSizeIterator<Item = N>,
    ) -> Result<(), WireError> {
        let words = numbers.len().saturating_mul(N::SIZE).div_ceil(WORD);
        // Bytes are 2, then come 2, 4 and 8 of them.
        let size = BYTES + u64::from(N::SIZE.trailing_zeros());
        let start = self.list(path, at, size, numbers.len(), words)?;
        let bytes = Word::words_to_bytes_mut(self.words.get_mut(start..).unwrap_or_default());
        for (place, number) in bytes.chunks_exact_mut(N::SIZE).zip(numbers) {
            number.put(place);
        }
        Ok(())
    }

    /// A list of `count` pointers, for the pointer at word `at`: returns the index of the first.
    ///
    /// # Errors
    /// The message becomes longer than one may be.
    pub fn pointers(&mut self, path: &'static str, at: usize, count: usize) -> Result<usize, WireError> {
        self.list(path, at, POINTERS, count, count)
    }

    /// A list of `count` structs of these sizes, for the pointer at word `at`: returns where each of them is.
    ///
    /// # Errors
    /// The message becomes longer than one may be.
    pub fn structures(
        &mut self,
        path: &'static str,
        at: usize,
        count: usize,
        (data, pointers): (u16, u16),
    ) -> Result<impl Iterator<Item = Place> + use<>, WireError> {
        let each = usize::from(data).wrapping_add(usize::from(pointers));
        let words = count.saturating_mul(each);
        let tag = self.list(path, at, COMPOSITE, words, words.saturating_add(1))?;
        let elements = u64::from(length(path, count)?) << 2;
        self.put(tag, elements | u64::from(data) << 32 | u64::from(pointers) << 48);
        Ok((0..count).map(move |number| {
            let start = tag.wrapping_add(1).wrapping_add(number.wrapping_mul(each));
            Place { data: start, pointers: start.wrapping_add(usize::from(data)) }
        }))
    }

    /// A capability that the pointer at this word designates; it travels with the message.
    pub fn cap(&mut self, at: usize, cap: &Cap) {
        let index = self.caps.len() as u64;
        self.caps.push(cap.to_arg());
        self.put(at, index << 32 | 3);
    }
}
