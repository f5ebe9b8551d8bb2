//! Messages as entries carry them: the one way to make a CALL of a message, and to read its result.

use alloc::string::String;
use alloc::vec::Vec;

use capnp::Word;
use capos_abi::entry::{Buffer, CapArray, MAX_CAPS, MAX_MESSAGE, Operation};
use capos_abi::{CapSlot, Completion, ExceptionKind, MessageHeader, Status, TransferMode};
use capos_schema::cap::{CallError, Cap, CapArg, Exception, Message};

/// Words of an array with room for as many capabilities as a message may have.
pub const CAP_WORDS: usize = 2 * MAX_CAPS as usize;

/// The memory that an operation lends to the kernel until it has ended.
#[derive(Debug, Default)]
pub struct Lent {
    /// Message that is sent; only kept here while the kernel may read it.
    pub sent: Vec<Word>,
    /// Capabilities that are sent, kept alive until the kernel has taken them.
    pub sent_caps: Vec<CapArg>,
    /// Buffer that is received into.
    pub received: Vec<Word>,
    /// The capability array.
    pub caps: Vec<Word>,
}

/// The address of a buffer, for an entry: from here on the kernel may use it.
#[inline]
pub fn address(buffer: &mut [Word]) -> u64 {
    if buffer.is_empty() { 0 } else { buffer.as_mut_ptr().expose_provenance() as u64 }
}

/// The number of words in a message of `bytes` bytes. A partial last word does not count: its rest is left over in the
/// buffer from other messages.
#[inline]
#[must_use]
pub const fn whole_words(bytes: usize) -> usize {
    bytes / 8
}

/// Turns a completion's status into a result.
///
/// # Errors
/// The status, if it is a transport error; exceptions count as success here.
#[inline]
pub fn transport(completion: &Completion) -> Result<(), Status> {
    if completion.status < 0 {
        return Err(Status::from_raw(completion.status).unwrap_or(Status::InvalidArgument));
    }
    Ok(())
}

/// The bytes of a message of permitted size.
///
/// # Errors
/// It is larger.
#[inline]
pub fn fitting(message: &Message) -> Result<u32, CallError> {
    let length = u32::try_from(message.words.len().saturating_mul(8)).unwrap_or(u32::MAX);
    if length > MAX_MESSAGE || message.caps.len() > usize::from(MAX_CAPS) {
        return Err(CallError::Transport(Status::TooLarge));
    }
    Ok(length)
}

/// A CALL of a method of the capability with this identifier, with room for `capacity` bytes of results: `lent.received`,
/// which is shorter if there is no memory. The buffers of the operation are in `lent`.
///
/// # Errors
/// The message is too large; there is no memory for the results.
#[inline]
pub fn call(
    cap: u64,
    (interface, method): (u64, u16),
    message: Message,
    capacity: u32,
    lent: &mut Lent,
) -> Result<Operation, CallError> {
    let length = fitting(&message)?;
    let capacity = capacity.min(MAX_MESSAGE);
    if lent.received.len() < usize::try_from(capacity / 8).unwrap_or(usize::MAX) {
        return Err(CallError::Transport(Status::OutOfMemory));
    }
    Ok(lent.call(cap, (interface, method), message, (length, capacity)))
}

impl Lent {
    /// A CALL of a method with a message of `length` bytes, and room for `capacity` bytes of results: it was checked
    /// that both are permitted and that the buffer has that room.
    #[inline(always)]
    pub fn call(
        &mut self,
        cap: u64,
        (interface, method): (u64, u16),
        message: Message,
        (length, capacity): (u32, u32),
    ) -> Operation {
        debug_assert!(self.received.len().saturating_mul(8) >= usize::try_from(capacity).unwrap_or(usize::MAX));
        (self.sent, self.sent_caps) = (message.words, message.caps);
        let caps = self.array(MAX_CAPS);
        // Of no bytes the kernel takes no address.
        let results = if capacity == 0 { 0 } else { address(&mut self.received) };
        Operation::Call {
            cap,
            interface,
            method,
            params: Buffer { address: address(&mut self.sent), length },
            results: Buffer { address: results, length: capacity },
            caps,
        }
    }

    /// The array as an entry names it: with the capabilities that are sent, and room for `accepted` ones. Leftovers of
    /// earlier messages in it are never read, since each side learns how many places were written.
    #[inline(always)]
    pub fn array(&mut self, accepted: u8) -> CapArray {
        let sent = u8::try_from(self.sent_caps.len()).unwrap_or(MAX_CAPS);
        if sent == 0 && accepted == 0 {
            return CapArray::default();
        }
        if sent > 0 || self.caps.len() < CAP_WORDS {
            self.fill_array();
        }
        CapArray { address: address(&mut self.caps), sent, accepted }
    }

    /// Makes the array, if there is none, and puts into it what is sent.
    #[inline(never)]
    fn fill_array(&mut self) {
        if self.caps.len() < CAP_WORDS {
            self.caps = Word::allocate_zeroed_vec(CAP_WORDS);
        }
        let (slots, _) = Word::words_to_bytes_mut(&mut self.caps).as_chunks_mut::<{ CapSlot::SIZE }>();
        for (slot, arg) in slots.iter_mut().zip(&self.sent_caps) {
            *slot = CapSlot::send(arg.cap.id(), arg.rights, arg.mode).encode();
        }
    }

    /// How a CALL ended: the bytes of results in `received`, and the capabilities that came with them, which `own`
    /// turns into handles by identifier and interface.
    ///
    /// # Errors
    /// It did not get through, or the other side refused.
    #[inline]
    pub fn answer(
        &self,
        completion: &Completion,
        own: impl Fn(u64, u64) -> Cap,
    ) -> Result<(usize, Vec<Cap>), CallError> {
        transport(completion)?;
        self.moved_away();
        let caps = self.handles(completion, own);
        let length = usize::try_from(completion.length).unwrap_or(0);
        if let Some(kind) = ExceptionKind::from_raw(completion.status) {
            let bytes = Word::words_to_bytes(&self.received);
            let reason = String::from_utf8_lossy(bytes.get(..length).unwrap_or(bytes)).into_owned();
            return Err(CallError::Exception(Exception::new(kind, reason)));
        }
        Ok((length, caps))
    }

    /// Handles of the capabilities that came, which `own` makes by identifier and interface.
    #[inline]
    pub fn handles(&self, completion: &Completion, own: impl Fn(u64, u64) -> Cap) -> Vec<Cap> {
        // Mostly none came.
        if completion.caps == 0 {
            return Vec::new();
        }
        self.received_caps(completion.caps).map(|(id, interface)| own(id, interface)).collect()
    }

    /// The capabilities that this message gave away are no longer in the table: nothing to release.
    #[inline]
    pub fn moved_away(&self) {
        for arg in self.sent_caps.iter().filter(|arg| arg.mode == TransferMode::Move) {
            arg.cap.transport().forget();
        }
    }

    /// The capabilities that came, `count` of them: identifier and interface.
    #[inline]
    pub fn received_caps(&self, count: u8) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (slots, _) = Word::words_to_bytes(&self.caps).as_chunks::<{ CapSlot::SIZE }>();
        slots.iter().take(usize::from(count)).map(|raw| {
            let slot = CapSlot::decode(raw);
            (slot.word0, slot.word1)
        })
    }

    /// The words of a received message with this header.
    #[inline]
    #[must_use]
    pub fn message(&self, header: &MessageHeader) -> &[Word] {
        let start = MessageHeader::SIZE / 8;
        let words = whole_words(usize::try_from(header.length).unwrap_or(0));
        self.received.get(start..start.saturating_add(words)).unwrap_or_default()
    }

    /// The header of a received message.
    #[inline]
    #[must_use]
    pub fn header(&self) -> Option<MessageHeader> {
        Word::words_to_bytes(&self.received).first_chunk().map(MessageHeader::decode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_word_is_none() {
        assert_eq!([0, 1, 7, 8, 9, 15, 16, 17].map(whole_words), [0, 0, 0, 1, 1, 1, 2, 2]);
    }

    /// A kept buffer is named in an entry only if results may come into it.
    #[test]
    fn without_room_for_results_an_entry_names_no_buffer() {
        let mut lent = Lent { received: Word::allocate_zeroed_vec(128), ..Lent::default() };
        for (capacity, named) in [(1024, true), (8, true), (0, false)] {
            let message = Message { words: Vec::new(), caps: Vec::new() };
            let Operation::Call { results, .. } = lent.call(1, (2, 3), message, (0, capacity)) else {
                panic!("no call")
            };
            assert_eq!((results.address != 0, results.length), (named, capacity));
        }
    }
}
