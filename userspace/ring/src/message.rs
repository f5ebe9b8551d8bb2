//! Messages as entries carry them: the one way to make a CALL of a message, and to read what became of it.

use alloc::string::String;
use alloc::vec::Vec;

use capnp::Word;
use capos_abi::entry::{Buffer, CapArray, MAX_CAPS, MAX_MESSAGE, Operation};
use capos_abi::{CapSlot, Completion, ExceptionKind, MessageHeader, Status, TransferMode};
use capos_schema::cap::{CallError, Cap, CapArg, Exception, Message};

/// Bytes of results that a call has room for where neither the schema nor its caller says more.
pub const RESULTS: u32 = 64 << 10;

/// What an operation lends to the kernel until it has ended.
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

/// The words of a message of so many bytes. A last word that is not whole is none of its: the rest of it is left over in the
/// buffer from other messages.
#[inline]
#[must_use]
pub const fn whole_words(bytes: usize) -> usize {
    bytes / 8
}

/// An array for the capabilities to send, with room for `accepted` that come back.
#[must_use]
pub fn cap_array(sent: &[CapArg], accepted: u8) -> Vec<Word> {
    let places = sent.len().max(usize::from(accepted));
    let mut words = Word::allocate_zeroed_vec(places.saturating_mul(2));
    let (slots, _) = Word::words_to_bytes_mut(&mut words).as_chunks_mut::<{ CapSlot::SIZE }>();
    for (slot, arg) in slots.iter_mut().zip(sent) {
        *slot = CapSlot::send(arg.cap.id(), arg.rights, arg.mode).encode();
    }
    words
}

/// Turns a completion's status into a result.
///
/// # Errors
/// The status, where it is a transport error; exceptions count as success here.
#[inline]
pub fn transport(completion: &Completion) -> Result<(), Status> {
    if completion.status < 0 {
        return Err(Status::from_raw(completion.status).unwrap_or(Status::InvalidArgument));
    }
    Ok(())
}

/// A CALL of a method of the capability with this identifier, with room for `capacity` bytes of results. `buffer` gives
/// room for as many bytes, or for none where there is no memory. What the operation names lies in what is returned with
/// it.
///
/// # Errors
/// The message is larger than one may be; there is no memory for the results.
#[inline]
pub fn call(
    cap: u64,
    interface: u64,
    method: u16,
    message: Message,
    capacity: u32,
    buffer: impl FnOnce(usize) -> Vec<Word>,
) -> Result<(Operation, Lent), CallError> {
    let Message { words: mut sent, caps: sent_caps } = message;
    let length = u32::try_from(sent.len().saturating_mul(8)).unwrap_or(u32::MAX);
    if length > MAX_MESSAGE || sent_caps.len() > usize::from(MAX_CAPS) {
        return Err(CallError::Transport(Status::TooLarge));
    }
    let capacity = capacity.min(MAX_MESSAGE);
    let mut received = buffer(usize::try_from(capacity).unwrap_or(0));
    if received.len() < usize::try_from(capacity / 8).unwrap_or(usize::MAX) {
        return Err(CallError::Transport(Status::OutOfMemory));
    }
    let mut caps = cap_array(&sent_caps, MAX_CAPS);
    let operation = Operation::Call {
        cap,
        interface,
        method,
        params: Buffer { address: address(&mut sent), length },
        results: Buffer { address: address(&mut received), length: capacity },
        caps: CapArray {
            address: address(&mut caps),
            sent: u8::try_from(sent_caps.len()).unwrap_or(MAX_CAPS),
            accepted: MAX_CAPS,
        },
    };
    Ok((operation, Lent { sent, sent_caps, received, caps }))
}

impl Lent {
    /// How a CALL ended: the bytes of results in `received`, and the capabilities that came with them, of which `own`
    /// makes handles by identifier and interface.
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
        let caps: Vec<Cap> = self.received_caps(completion.caps).map(|(id, interface)| own(id, interface)).collect();
        let length = usize::try_from(completion.length).unwrap_or(0);
        if let Some(kind) = ExceptionKind::from_raw(completion.status) {
            let bytes = Word::words_to_bytes(&self.received);
            let reason = String::from_utf8_lossy(bytes.get(..length).unwrap_or(bytes)).into_owned();
            return Err(CallError::Exception(Exception::new(kind, reason)));
        }
        Ok((length, caps))
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

    /// The header of a received message.
    #[inline]
    #[must_use]
    pub fn header(&self) -> Option<MessageHeader> {
        Word::words_to_bytes(&self.received).first_chunk().map(MessageHeader::decode)
    }
}
