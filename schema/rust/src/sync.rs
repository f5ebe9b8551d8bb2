//! The basis of synchronous dispatch: the kernel's side of calls.

use alloc::boxed::Box;
use alloc::vec::Vec;

use capnp::capability::FromClientHook;
use capnp::message::{self, Allocator, HeapAllocator, ReaderOptions, ScratchSpaceHeapAllocator, SegmentArray};
use capnp::private::layout::CapTable;
use capnp::traits::{FromPointerReader, Imbue, ImbueMut};
use capnp::{Word, any_pointer};

pub use crate::exception::{Exception, ExceptionKind};
use crate::hook::Slot;

/// Words that a result gets before it needs a second segment: 2 KiB.
const FIRST_WORDS: u32 = 256;

/// Whether a method has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The results are written.
    Done,
    /// The answer comes later, from the keeper of the call.
    Pending,
}

/// The result of a call.
#[derive(Debug)]
pub struct Answer {
    /// Whether the results are there.
    pub completion: Completion,
    /// The results: one segment. Empty if they are pending.
    pub words: Vec<Word>,
    /// Capability `n` of the message is the one for which the `order[n]`th [`capability`] was written.
    pub order: Vec<usize>,
}

/// The results of [`call_in`], if they are small: in the caller's own memory.
#[derive(Debug)]
pub struct Output<'a> {
    /// Whether the results are there.
    pub completion: Completion,
    /// The results: one segment. Empty if they are pending.
    pub bytes: &'a [u8],
    /// As [`Answer::order`].
    pub order: Vec<usize>,
}

/// Runs a dispatch function as [`call`] does, and `finish` with its result. Results that fit
/// `scratch` are made there and allocate nothing.
///
/// `scratch` is aligned to 8 bytes.
pub fn call_in<R>(
    params: &[Word],
    scratch: &mut [Word],
    dispatch: impl FnOnce(any_pointer::Reader<'_>, any_pointer::Builder<'_>) -> Result<Completion, Exception>,
    finish: impl FnOnce(Result<Output<'_>, Exception>) -> R,
) -> R {
    let segments = [Word::words_to_bytes(params)];
    let mut options = ReaderOptions::new();
    options.traversal_limit_in_words(Some(params.len().saturating_mul(4).saturating_add(128)));
    let message = message::Reader::new(SegmentArray::new(&segments), options);
    let Ok(reader) = message.get_root::<any_pointer::Reader<'_>>() else { return finish(Err(malformed())) };
    let allocator = ScratchSpaceHeapAllocator::new(Word::words_to_bytes_mut(scratch)).second_segment_words(FIRST_WORDS);
    let mut builder = message::Builder::new(allocator);
    let mut table: CapTable = Vec::new();
    let mut root: any_pointer::Builder<'_> = builder.init_root();
    root.imbue_mut(&mut table);
    let completion = match dispatch(reader, root) {
        Ok(Completion::Done) => Completion::Done,
        Ok(Completion::Pending) => {
            return finish(Ok(Output { completion: Completion::Pending, bytes: &[], order: Vec::new() }));
        }
        Err(exception) => return finish(Err(exception)),
    };
    if let [one] = &*builder.get_segments_for_output() {
        return finish(Ok(Output { completion, bytes: one, order: (0..table.len()).collect() }));
    }
    match flatten(&builder, &mut table) {
        Ok((words, order)) => finish(Ok(Output { completion, bytes: Word::words_to_bytes(&words), order })),
        Err(exception) => finish(Err(exception)),
    }
}

/// Runs a dispatch function on a message of one segment.
///
/// # Errors
/// The function's errors; malformed parameters; results that no message can hold.
pub fn call(
    params: &[Word],
    dispatch: impl FnOnce(any_pointer::Reader<'_>, any_pointer::Builder<'_>) -> Result<Completion, Exception>,
) -> Result<Answer, Exception> {
    let segments = [Word::words_to_bytes(params)];
    let mut options = ReaderOptions::new();
    options.traversal_limit_in_words(Some(params.len().saturating_mul(4).saturating_add(128)));
    let message = message::Reader::new(SegmentArray::new(&segments), options);
    let reader: any_pointer::Reader<'_> = message.get_root().map_err(|_| malformed())?;
    results(|builder| dispatch(reader, builder))
}

/// Writes results that were pending, or any other message, with `write`.
///
/// # Errors
/// The errors of `write`; results that no message can hold.
pub fn results(
    write: impl FnOnce(any_pointer::Builder<'_>) -> Result<Completion, Exception>,
) -> Result<Answer, Exception> {
    let mut builder = message::Builder::new(HeapAllocator::new().first_segment_words(FIRST_WORDS));
    let mut table: CapTable = Vec::new();
    let mut root: any_pointer::Builder<'_> = builder.init_root();
    root.imbue_mut(&mut table);
    let completion = write(root)?;
    if completion == Completion::Pending {
        return Ok(Answer { completion, words: Vec::new(), order: Vec::new() });
    }
    if let [one] = &*builder.get_segments_for_output() {
        let order = (0..table.len()).collect();
        return Ok(Answer { completion, words: copy(one), order });
    }
    flatten(&builder, &mut table).map(|(words, order)| Answer { completion, words, order })
}

/// Copies a message of several segments into one. Its capabilities are then in the copy's order.
fn flatten<A: Allocator>(
    builder: &message::Builder<A>,
    table: &mut CapTable,
) -> Result<(Vec<Word>, Vec<usize>), Exception> {
    for (index, slot) in table.iter_mut().enumerate() {
        *slot = Some(Box::new(Slot(index)));
    }
    let too_large = |_| Exception::failed("the results do not fit a message");
    let mut source: any_pointer::Reader<'_> = builder.get_root_as_reader().map_err(too_large)?;
    source.imbue(table);
    let total = builder.size_in_words().saturating_add(1);
    let first = u32::try_from(total).map_err(|_| Exception::failed("the results do not fit a message"))?;
    let mut target = message::Builder::new(HeapAllocator::new().first_segment_words(first));
    let mut order: CapTable = Vec::new();
    let mut root: any_pointer::Builder<'_> = target.init_root();
    root.imbue_mut(&mut order);
    root.set_as(source).map_err(too_large)?;
    match &*target.get_segments_for_output() {
        [one] => {
            let order = order.iter().flatten().map(|hook| hook.get_ptr()).collect();
            Ok((copy(one), order))
        }
        _ => Err(Exception::failed("the results do not fit a message")),
    }
}

/// A capability for a field of the results; the next one of those that the call returns.
#[must_use]
pub fn capability<C: FromClientHook>() -> C {
    C::new(Box::new(Slot(0)))
}

/// The parameters as their type.
///
/// # Errors
/// They are malformed.
pub fn params<'a, T: FromPointerReader<'a>>(params: any_pointer::Reader<'a>) -> Result<T, Exception> {
    params.get_as().map_err(|_| malformed())
}

/// The interface has no method with this number.
#[must_use]
pub fn no_such_method(interface: &'static str, method: u16) -> Exception {
    Exception::unimplemented(alloc::format!("{interface} has no method {method}"))
}

/// The parameters are malformed.
#[must_use]
pub fn malformed() -> Exception {
    Exception::invalid_argument("the parameters are no Cap'n Proto message of one segment")
}

impl From<capnp::Error> for Exception {
    fn from(error: capnp::Error) -> Self {
        Self::invalid_argument(alloc::format!("{error}"))
    }
}

impl From<capnp::NotInSchema> for Exception {
    fn from(error: capnp::NotInSchema) -> Self {
        Self::invalid_argument(alloc::format!("{error}"))
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
