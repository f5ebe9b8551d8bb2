//! From owned values to messages and back.
//!
//! Generated code reads by [`crate::reader`] and writes by [`crate::builder`]. Code that knows its types only at run
//! time, or writes messages that no client would, uses capnp's own readers and builders, with [`encode`] and
//! [`decode`].

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use capnp::capability::FromClientHook;
use capnp::message::{self, HeapAllocator, ReaderOptions, SegmentArray};
use capnp::private::capability::ClientHook;
use capnp::private::layout::CapTable;
use capnp::traits::{FromPointerBuilder, Imbue, ImbueMut, Owned};
use capnp::{Word, any_pointer};
use capos_abi::entry::MAX_MESSAGE;

use crate::builder::{Builder, Place};
use crate::cap::{Cap, CapArg, IncomingMessage, Message, MessageView};
use crate::hook::Slot;
use crate::reader::{Segment, StructReader};

/// Deepest nesting of a message that is read.
pub const MAX_DEPTH: i32 = 64;
/// Longest message that is made for storage, in 8-byte words: 64 MiB.
pub const MAX_WORDS: usize = 8 << 20;
/// Longest message that is sent, in bytes. Anything larger travels as memory.
pub const MAX_SENT: usize = MAX_MESSAGE as usize;

/// capnp's type of a capability inside a message.
pub type Hook = Box<dyn ClientHook>;

/// A message that does not conform to the schema, or a value that no message can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    path: &'static str,
    reason: Reason,
}

/// The error: as large as its text alone, since it is part of how each call can end.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    Words(Cow<'static, str>),
    /// It needs a longer message than this many words.
    TooLong(usize),
}

const _: () = assert!(size_of::<Reason>() == size_of::<Cow<'static, str>>(), "words leave a number free");

impl WireError {
    /// The error, and its field.
    pub fn new(path: &'static str, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { path, reason: Reason::Words(reason.into()) }
    }

    /// A value that needs a longer message than `words` words.
    #[must_use]
    #[cold]
    pub fn too_long(words: usize) -> Self {
        Self { path: "message", reason: Reason::TooLong(words) }
    }

    /// Whether it is a value for which no message is long enough.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        matches!(self.reason, Reason::TooLong(_))
    }

    /// An ordinal that the schema does not have.
    #[must_use]
    #[cold]
    pub fn unknown(path: &'static str, found: u16) -> Self {
        Self::new(path, alloc::format!("value {found} is not in the schema"))
    }

    fn capnp(path: &'static str, error: &capnp::Error) -> Self {
        Self::new(path, alloc::format!("{error}"))
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed message at {}: ", self.path)?;
        match &self.reason {
            Reason::Words(words) => f.write_str(words),
            Reason::TooLong(words) => {
                write!(f, "it is longer than {} MiB; send it as memory", words.saturating_mul(8) >> 20)
            }
        }
    }
}

impl core::error::Error for WireError {}

/// An owned type with a form in messages.
pub trait Wire: Sized {
    /// capnpc's type of it.
    type Capnp: Owned;
    /// Words of the struct's data section.
    const DATA: u16;
    /// Pointers after them.
    const POINTERS: u16;

    /// Reads it.
    ///
    /// # Errors
    /// The message is malformed, or contains fields that the schema does not know.
    fn read(reader: StructReader<'_>) -> Result<Self, WireError>;

    /// Writes it to its place, which is all zero.
    ///
    /// # Errors
    /// It is too large.
    fn write(&self, builder: &mut Builder, place: Place) -> Result<(), WireError>;
}

/// The capabilities of a message that is read.
pub struct CapReader<'a> {
    caps: &'a [Cap],
}

impl CapReader<'_> {
    /// The capability in a field.
    ///
    /// # Errors
    /// There is none, or the message has no capability with its index.
    pub fn take<C: FromClientHook>(&self, path: &'static str, client: capnp::Result<C>) -> Result<Cap, WireError> {
        let hook = client.map_err(|_| WireError::new(path, "the capability is missing"))?.into_client_hook();
        self.caps
            .get(hook.get_ptr())
            .cloned()
            .ok_or_else(|| WireError::new(path, "the message has no capability with this index"))
    }
}

/// The capabilities of a message that is written, in the order of their indexes.
#[derive(Default)]
pub struct CapWriter {
    caps: Vec<CapArg>,
}

impl CapWriter {
    /// Appends a capability; its index must be set into the message at once.
    pub fn put<C: FromClientHook>(&mut self, cap: &Cap) -> C {
        let slot = Slot(self.caps.len());
        self.caps.push(cap.to_arg());
        C::new(Box::new(slot))
    }
}

/// Makes a message whose root `write` fills; `size` is how many words it probably takes.
///
/// # Errors
/// The message is longer than [`MAX_WORDS`], or `write` fails.
pub fn encode<T: Owned>(
    size: usize,
    write: impl for<'a> Fn(T::Builder<'a>, &mut CapWriter) -> Result<(), WireError>,
) -> Result<Message, WireError> {
    encode_root(size, &|root, caps| write(T::Builder::init_pointer_of(root), caps))
}

/// Fills the root of a message.
type WriteRoot<'w> = &'w dyn for<'a> Fn(any_pointer::Builder<'a>, &mut CapWriter) -> Result<(), WireError>;

/// The part that is the same for every type, so that a program has it once and not for each method.
fn encode_root(mut size: usize, write: WriteRoot<'_>) -> Result<Message, WireError> {
    loop {
        let first = u32::try_from(size.clamp(1, MAX_WORDS)).map_err(|_| WireError::new("message", "it is too long"))?;
        let mut builder = message::Builder::new(HeapAllocator::new().first_segment_words(first));
        let mut caps = CapWriter::default();
        let mut table: CapTable = Vec::new();
        let mut root: any_pointer::Builder<'_> = builder.init_root();
        root.imbue_mut(&mut table);
        write(root, &mut caps)?;
        let segments = builder.get_segments_for_output();
        match &*segments {
            [one] => return Ok(Message { words: copy(one), caps: caps.caps }),
            // It spilled over: a second try with as much room as the first one took.
            many => {
                let total = many.iter().map(|segment| segment.len() / 8).sum::<usize>();
                if total > MAX_WORDS || total <= size {
                    return Err(WireError::new("message", "it is longer than 64 MiB; send it as memory"));
                }
                size = total;
            }
        }
    }
}

/// `init_as` by another name, so that the builder's type follows from the owned type.
trait InitPointerOf<'a> {
    fn init_pointer_of(root: any_pointer::Builder<'a>) -> Self;
}

impl<'a, B: FromPointerBuilder<'a>> InitPointerOf<'a> for B {
    fn init_pointer_of(root: any_pointer::Builder<'a>) -> Self {
        root.init_as()
    }
}

fn copy(bytes: &[u8]) -> Vec<Word> {
    let mut words = Word::allocate_zeroed_vec(bytes.len() / 8);
    let target = Word::words_to_bytes_mut(&mut words);
    if target.len() == bytes.len() {
        target.copy_from_slice(bytes);
    }
    words
}

/// Makes a message of an owned value, to be sent.
///
/// # Errors
/// It is longer than [`MAX_SENT`].
pub fn encode_value<T: Wire>(value: &T) -> Result<Message, WireError> {
    fill(value, Builder::new(words_of::<T>(), T::DATA, T::POINTERS))
}

/// Words that a message of such a value takes at least, and some for the targets of its pointers.
fn words_of<T: Wire>() -> usize {
    usize::from(T::DATA).saturating_add(usize::from(T::POINTERS)).saturating_add(64)
}

fn fill<T: Wire>(value: &T, (mut builder, root): (Builder, Place)) -> Result<Message, WireError> {
    value.write(&mut builder, root)?;
    Ok(builder.finish())
}

/// Makes a message whose root is a struct of these sizes, words of data and pointers, which `write` fills; `words` is how
/// many it probably takes.
///
/// # Errors
/// The message is longer than [`MAX_SENT`].
#[inline]
pub fn compose(
    words: usize,
    (data, pointers): (u16, u16),
    write: impl FnOnce(&mut Builder, Place) -> Result<(), WireError>,
) -> Result<Message, WireError> {
    let (mut builder, root) = Builder::new(words, data, pointers);
    write(&mut builder, root)?;
    Ok(builder.finish())
}

/// Reads a message's root as the struct that it is.
///
/// # Errors
/// The message is malformed, or `read` fails.
#[inline]
pub fn read<'m, R>(
    message: impl Into<MessageView<'m>>,
    read: impl FnOnce(StructReader<'_>) -> Result<R, WireError>,
) -> Result<R, WireError> {
    let message = message.into();
    read(Segment::new(message.words, message.caps).root()?)
}

/// Reads a message's root.
///
/// # Errors
/// The message is malformed, or `read` fails.
pub fn decode<T: Owned, R>(
    message: &IncomingMessage,
    read: impl for<'a> FnOnce(T::Reader<'a>, &CapReader<'_>) -> Result<R, WireError>,
) -> Result<R, WireError> {
    decode_parts::<T, R>(&message.words, &message.caps, read)
}

/// Reads an owned value from a message.
///
/// # Errors
/// The message is malformed.
pub fn decode_value<'m, T: Wire>(message: impl Into<MessageView<'m>>) -> Result<T, WireError> {
    let message = message.into();
    T::read(Segment::new(message.words, message.caps).root()?)
}

/// Reads an owned value from stored bytes: one segment, no capabilities.
///
/// # Errors
/// The bytes are malformed.
pub fn from_bytes<T: Wire>(bytes: &[u8]) -> Result<T, WireError> {
    decode_value(&IncomingMessage::from_bytes(bytes, Vec::new()))
}

/// The bytes of an owned value without capabilities, for keeping.
///
/// # Errors
/// It is too large, or holds a capability.
pub fn to_bytes<T: Wire>(value: &T) -> Result<Vec<u8>, WireError> {
    let message = fill(value, Builder::kept(words_of::<T>(), T::DATA, T::POINTERS))?;
    if message.caps.is_empty() {
        Ok(message.bytes().to_vec())
    } else {
        Err(WireError::new("message", "a capability cannot be kept as bytes"))
    }
}

fn decode_parts<T: Owned, R>(
    words: &[Word],
    caps: &[Cap],
    read: impl for<'a> FnOnce(T::Reader<'a>, &CapReader<'_>) -> Result<R, WireError>,
) -> Result<R, WireError> {
    let mut read = Some(read);
    let mut result = None;
    with_root(words, caps, &mut |root, caps| {
        let reader: T::Reader<'_> = root.get_as().map_err(|error| WireError::capnp("message", &error))?;
        result = read.take().map(|read| read(reader, caps));
        Ok(())
    })?;
    result.unwrap_or_else(|| Err(WireError::new("message", "it has no root")))
}

/// Looks at the root of a message.
type ReadRoot<'w> = &'w mut dyn for<'a> FnMut(any_pointer::Reader<'a>, &CapReader<'_>) -> Result<(), WireError>;

/// As [`encode_root`].
fn with_root(words: &[Word], caps: &[Cap], read: ReadRoot<'_>) -> Result<(), WireError> {
    let segments = [Word::words_to_bytes(words)];
    let message = message::Reader::new(SegmentArray::new(&segments), reader_options(words.len()));
    let table: CapTable = (0..caps.len()).map(|index| Some(Box::new(Slot(index)) as Hook)).collect();
    let mut root: any_pointer::Reader<'_> = message.get_root().map_err(|error| WireError::capnp("message", &error))?;
    root.imbue(&table);
    read(root, &CapReader { caps })
}

/// Limits for reading a message of this many words: a message that points to the same place many
/// times is refused before it is larger than four times itself.
#[must_use]
pub fn reader_options(words: usize) -> ReaderOptions {
    let mut options = ReaderOptions::new();
    options.traversal_limit_in_words(Some(words_to_read(words)));
    options.nesting_limit(MAX_DEPTH);
    options
}

/// Words that may be read of a message of `words` words, counting repeated reads.
pub(crate) fn words_to_read(words: usize) -> usize {
    words.saturating_mul(4).saturating_add(128)
}

/// Bytes of memory that the values read from a message may take, for each byte of the message.
pub const MEMORY_FACTOR: usize = 4;
/// Bytes that it may take besides: no short message is refused, whatever its lists hold.
pub const MEMORY_BESIDES: usize = 4 << 10;
/// Bytes that are counted for each allocation besides its own: rounding, and the heap's overhead.
pub const ALLOCATION: usize = 32;

/// Bytes of memory that the values read from a message of `bytes` bytes may take: lists by the size that their elements
/// have in Rust, texts and data by their length.
#[must_use]
pub const fn memory_for(bytes: usize) -> usize {
    bytes.saturating_mul(MEMORY_FACTOR).saturating_add(MEMORY_BESIDES)
}

/// A list length as capnp wants it.
///
/// # Errors
/// More than 2^29 - 1 elements.
#[inline]
pub fn length(path: &'static str, length: usize) -> Result<u32, WireError> {
    u32::try_from(length)
        .ok()
        .filter(|length| *length < 1 << 29)
        .ok_or_else(|| WireError::new(path, "the list has too many elements"))
}

/// The value of an enum with this ordinal.
///
/// # Errors
/// The schema does not have it.
#[inline]
pub fn enumerant<T: Copy>(path: &'static str, ordinal: u16, all: &[T]) -> Result<T, WireError> {
    all.get(usize::from(ordinal)).copied().ok_or_else(|| WireError::unknown(path, ordinal))
}
