//! Submission entries: one layout per opcode, all 64 bytes, little-endian.
//!
//! | offset | CALL | RECV | RETURN | RELEASE | CANCEL | NOTIFY | WAIT | NOP |
//! |---|---|---|---|---|---|---|---|---|
//! | 0 (u8) | opcode | opcode | opcode | opcode | opcode | opcode | opcode | opcode |
//! | 1 (u8) | 0 | 0 | exception kind or 0 | 0 | 0 | 0 | 0 | 0 |
//! | 2 (u16) | method | 0 | 0 | 0 | 0 | 0 | 0 | 0 |
//! | 4 (u32) | params length | buffer length | results length | 0 | 0 | 0 | 0 | 0 |
//! | 8 (u64) | user data | user data | user data | user data | user data | user data | user data | user data |
//! | 16 (u64) | capability | endpoint | reply | capability | 0 | notification | notification or reply | 0 |
//! | 24 (u64) | interface | 0 | 0 | 0 | target's user data | bits | 0 | 0 |
//! | 32 (u64) | params address | buffer address | results address | 0 | 0 | 0 | 0 | 0 |
//! | 40 (u64) | results address | 0 | 0 | 0 | 0 | 0 | 0 | 0 |
//! | 48 (u64) | caps address | caps address | caps address | 0 | 0 | 0 | 0 | 0 |
//! | 56 (u32) | results capacity | 0 | 0 | 0 | 0 | 0 | 0 | 0 |
//! | 60 (u8) | caps sent | 0 | caps sent | 0 | 0 | 0 | 0 | 0 |
//! | 61 (u8) | caps accepted | caps accepted | 0 | 0 | 0 | 0 | 0 | 0 |
//! | 62 (u16) | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |
//!
//! The other opcodes work on words of the process's own memory and on the thread itself. The last is a RETURN and a
//! RECV in one:
//!
//! | offset | WAIT_WORD | WAKE_WORD | THREAD_POINTER | RETURN_RECV |
//! |---|---|---|---|---|
//! | 0 (u8) | opcode | opcode | opcode | opcode |
//! | 1 (u8) | 0 | 0 | 0 | exception kind or 0 |
//! | 4 (u32) | expected value | how many to wake | 0 | results length |
//! | 8 (u64) | user data | user data | user data | user data |
//! | 16 (u64) | 0 | 0 | 0 | reply |
//! | 24 (u64) | 0 | 0 | 0 | endpoint |
//! | 32 (u64) | word's address | word's address | thread pointer | results address |
//! | 40 (u64) | 0 | 0 | 0 | buffer address |
//! | 48 (u64) | 0 | 0 | 0 | caps address |
//! | 56 (u32) | 0 | 0 | 0 | buffer length |
//! | 60 (u8) | 0 | 0 | 0 | caps sent |
//! | 61 (u8) | 0 | 0 | 0 | caps accepted |
//!
//! All their other fields are zero. A word's address is 4-byte aligned and not 0.
//!
//! Lengths are in bytes. All other addresses are 8-byte aligned, or 0 if the length or count is 0.
//! Fields marked 0 must be zero. A caps address points to an array of [`crate::CapSlot`], as long as
//! the larger of the two counts: sent capabilities are read from it, received ones are written to
//! it.

/// The largest message, in bytes, that a CALL or RETURN carries inline. Bulk data travels as
/// MemoryObjects.
pub const MAX_MESSAGE: u32 = 1 << 20;

/// The largest number of capabilities in one message.
pub const MAX_CAPS: u8 = 16;

/// An entry's size in the ring, in bytes.
pub const ENTRY_SIZE: usize = 64;

/// The operation of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// Nothing; completes at once.
    Nop = 0,
    /// Invoke a method of a capability.
    Call = 1,
    /// Offer a buffer for the next message of an endpoint.
    Recv = 2,
    /// Answer a received call.
    Return = 3,
    /// Release a capability.
    Release = 4,
    /// Cancel an operation of this thread that is in flight.
    Cancel = 5,
    /// Set bits of a notification.
    Notify = 6,
    /// Wait until a notification (or interrupt) has bits set, and take and clear them. On the reply
    /// to a received call: wait until the caller no longer waits for the answer.
    Wait = 7,
    /// Wait until a word of memory is woken, if it holds an expected value.
    WaitWord = 8,
    /// Wake threads that wait for a word of memory.
    WakeWord = 9,
    /// Set the thread's own thread pointer (FS base).
    ThreadPointer = 10,
    /// Answer a received call, then offer a buffer for the next message of an endpoint; one completion, that of the RECV.
    ReturnRecv = 11,
}

/// An encoded entry of the ring, not validated.
pub type RawEntry = [u8; ENTRY_SIZE];

/// The same as little-endian words.
pub type EntryWords = [u64; ENTRY_SIZE / 8];

/// The bytes of an entry's words.
#[inline]
#[must_use]
pub fn bytes_of(words: &EntryWords) -> RawEntry {
    let mut raw = [0_u8; ENTRY_SIZE];
    for (bytes, word) in raw.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    raw
}

/// A user memory range that an entry names: shape checked, address not yet believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Buffer {
    /// First byte; 8-byte aligned.
    pub address: u64,
    /// Length in bytes.
    pub length: u32,
}

/// A capability array that an entry names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CapArray {
    /// First slot; 8-byte aligned, 0 if both counts are 0.
    pub address: u64,
    /// How many slots are sent.
    pub sent: u8,
    /// How many may be received.
    pub accepted: u8,
}

/// A well-formed entry. Its capability and addresses are still the caller's claims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// See [`Opcode::Nop`].
    Nop,
    /// See [`Opcode::Call`].
    Call { cap: u64, interface: u64, method: u16, params: Buffer, results: Buffer, caps: CapArray },
    /// See [`Opcode::Recv`].
    Recv { endpoint: u64, buffer: Buffer, caps: CapArray },
    /// See [`Opcode::Return`]. `exception` is 0 or an [`crate::ExceptionKind`].
    Return { reply: u64, exception: u8, results: Buffer, caps: CapArray },
    /// See [`Opcode::Release`].
    Release { cap: u64 },
    /// See [`Opcode::Cancel`].
    Cancel { target: u64 },
    /// See [`Opcode::Notify`].
    Notify { notification: u64, bits: u64 },
    /// See [`Opcode::Wait`].
    Wait { cap: u64 },
    /// See [`Opcode::WaitWord`]. Ends at once with [`crate::Status::Changed`] if the 32-bit word at
    /// `address` does not hold `expected`; comparing and beginning to wait are one step for every wake.
    WaitWord { address: u64, expected: u32 },
    /// See [`Opcode::WakeWord`]. The oldest waits of the process for this word end, `count` at most; the
    /// completion's value says how many.
    WakeWord { address: u64, count: u32 },
    /// See [`Opcode::ThreadPointer`].
    ThreadPointer { address: u64 },
    /// See [`Opcode::ReturnRecv`]. The endpoint and the buffer's length are judged first; then the answer is given as by
    /// RETURN. If one of the two is refused, that is the completion, and nothing is received. Capabilities that come
    /// with the next call are written where those of the answer were read.
    ReturnRecv { reply: u64, endpoint: u64, exception: u8, results: Buffer, buffer: Buffer, caps: CapArray },
}

/// An entry: the operation and the caller's tag, which its completion repeats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The caller's tag.
    pub user_data: u64,
    /// The operation.
    pub operation: Operation,
}

/// Why an entry is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryError {
    /// The tag, so that the rejection can be reported.
    pub user_data: u64,
    /// The reason.
    pub status: crate::Status,
}

#[inline]
fn u16_at(raw: &RawEntry, at: usize) -> u16 {
    match raw.get(at..).and_then(<[u8]>::first_chunk) {
        Some(bytes) => u16::from_le_bytes(*bytes),
        None => 0,
    }
}

#[inline]
fn u32_at(raw: &RawEntry, at: usize) -> u32 {
    match raw.get(at..).and_then(<[u8]>::first_chunk) {
        Some(bytes) => u32::from_le_bytes(*bytes),
        None => 0,
    }
}

#[inline]
fn u64_at(raw: &RawEntry, at: usize) -> u64 {
    match raw.get(at..).and_then(<[u8]>::first_chunk) {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => 0,
    }
}

#[inline]
fn u8_at(raw: &RawEntry, at: usize) -> u8 {
    raw.get(at).copied().unwrap_or(0)
}

/// The fields of an entry, before any of them is judged.
struct Fields {
    byte1: u8,
    method: u16,
    length: u32,
    user_data: u64,
    word2: u64,
    word3: u64,
    word4: u64,
    word5: u64,
    word6: u64,
    capacity: u32,
    caps_sent: u8,
    caps_accepted: u8,
    tail: u16,
}

#[inline]
fn aligned(address: u64, empty: bool) -> Result<(), crate::Status> {
    if (empty && address != 0) || (!empty && address == 0) || address & 7 != 0 {
        return Err(crate::Status::BadAddress);
    }
    Ok(())
}

/// The address of a 32-bit word.
#[inline]
fn word(address: u64) -> Result<u64, crate::Status> {
    if address == 0 || address & 3 != 0 { Err(crate::Status::BadAddress) } else { Ok(address) }
}

impl Fields {
    #[inline(always)]
    fn read(raw: &RawEntry) -> Self {
        Self {
            byte1: u8_at(raw, 1),
            method: u16_at(raw, 2),
            length: u32_at(raw, 4),
            user_data: u64_at(raw, 8),
            word2: u64_at(raw, 16),
            word3: u64_at(raw, 24),
            word4: u64_at(raw, 32),
            word5: u64_at(raw, 40),
            word6: u64_at(raw, 48),
            capacity: u32_at(raw, 56),
            caps_sent: u8_at(raw, 60),
            caps_accepted: u8_at(raw, 61),
            tail: u16_at(raw, 62),
        }
    }

    #[inline(always)]
    fn zero<const COUNT: usize>(values: [u64; COUNT]) -> Result<(), crate::Status> {
        if values.into_iter().fold(0, |all, value| all | value) != 0 {
            return Err(crate::Status::ReservedField);
        }
        Ok(())
    }

    #[inline(always)]
    fn buffer(address: u64, length: u32) -> Result<Buffer, crate::Status> {
        if length > MAX_MESSAGE {
            return Err(crate::Status::TooLarge);
        }
        aligned(address, length == 0)?;
        Ok(Buffer { address, length })
    }

    #[inline(always)]
    fn caps(&self) -> Result<CapArray, crate::Status> {
        if self.caps_sent > MAX_CAPS || self.caps_accepted > MAX_CAPS {
            return Err(crate::Status::TooLarge);
        }
        aligned(self.word6, self.caps_sent == 0 && self.caps_accepted == 0)?;
        Ok(CapArray { address: self.word6, sent: self.caps_sent, accepted: self.caps_accepted })
    }

    /// The exception kind of an answer, or 0.
    #[inline(always)]
    fn exception(&self) -> Result<u8, crate::Status> {
        if self.byte1 != 0 && crate::ExceptionKind::from_raw(i32::from(self.byte1)).is_none() {
            return Err(crate::Status::InvalidArgument);
        }
        Ok(self.byte1)
    }

    #[inline(always)]
    fn operation(&self, opcode: u8) -> Result<Operation, crate::Status> {
        let m = u64::from(self.method);
        let len = u64::from(self.length);
        let byte1 = u64::from(self.byte1);
        let capacity = u64::from(self.capacity);
        let sent = u64::from(self.caps_sent);
        let accepted = u64::from(self.caps_accepted);
        Self::zero([u64::from(self.tail)])?;
        match opcode {
            0 => {
                Self::zero([byte1, m, len, self.word2, self.word3, self.word4, self.word5])?;
                Self::zero([self.word6, capacity, sent, accepted])?;
                Ok(Operation::Nop)
            }
            1 => {
                Self::zero([byte1])?;
                Ok(Operation::Call {
                    cap: self.word2,
                    interface: self.word3,
                    method: self.method,
                    params: Self::buffer(self.word4, self.length)?,
                    results: Self::buffer(self.word5, self.capacity)?,
                    caps: self.caps()?,
                })
            }
            2 => {
                Self::zero([byte1, m, self.word3, self.word5, capacity, sent])?;
                Ok(Operation::Recv {
                    endpoint: self.word2,
                    buffer: Self::buffer(self.word4, self.length)?,
                    caps: self.caps()?,
                })
            }
            3 => {
                Self::zero([m, self.word3, self.word5, capacity, accepted])?;
                Ok(Operation::Return {
                    reply: self.word2,
                    exception: self.exception()?,
                    results: Self::buffer(self.word4, self.length)?,
                    caps: self.caps()?,
                })
            }
            4 => {
                Self::zero([byte1, m, len, self.word3, self.word4, self.word5, self.word6])?;
                Self::zero([capacity, sent, accepted])?;
                Ok(Operation::Release { cap: self.word2 })
            }
            5 => {
                Self::zero([byte1, m, len, self.word2, self.word4, self.word5, self.word6])?;
                Self::zero([capacity, sent, accepted])?;
                Ok(Operation::Cancel { target: self.word3 })
            }
            6 => {
                Self::zero([byte1, m, len, self.word4, self.word5, self.word6])?;
                Self::zero([capacity, sent, accepted])?;
                Ok(Operation::Notify { notification: self.word2, bits: self.word3 })
            }
            7 => {
                Self::zero([byte1, m, len, self.word3, self.word4, self.word5, self.word6])?;
                Self::zero([capacity, sent, accepted])?;
                Ok(Operation::Wait { cap: self.word2 })
            }
            8 | 9 => {
                Self::zero([byte1, m, self.word2, self.word3, self.word5, self.word6])?;
                Self::zero([capacity, sent, accepted])?;
                let address = word(self.word4)?;
                Ok(if opcode == 8 {
                    Operation::WaitWord { address, expected: self.length }
                } else {
                    Operation::WakeWord { address, count: self.length }
                })
            }
            10 => {
                Self::zero([byte1, m, len, self.word2, self.word3, self.word5, self.word6])?;
                Self::zero([capacity, sent, accepted])?;
                Ok(Operation::ThreadPointer { address: self.word4 })
            }
            11 => {
                Self::zero([m])?;
                Ok(Operation::ReturnRecv {
                    reply: self.word2,
                    endpoint: self.word3,
                    exception: self.exception()?,
                    results: Self::buffer(self.word4, self.length)?,
                    buffer: Self::buffer(self.word5, self.capacity)?,
                    caps: self.caps()?,
                })
            }
            _ => Err(crate::Status::BadOpcode),
        }
    }
}

impl Entry {
    /// Judges an entry. The bytes must be the judge's own copy: ring memory can change meanwhile.
    ///
    /// # Errors
    /// The tag and the reason, if the entry is not well formed.
    #[inline]
    pub fn decode(raw: &RawEntry) -> Result<Self, EntryError> {
        Self::decode_as(raw, u8_at(raw, 0))
    }

    /// The same for an entry whose first byte is `opcode`: if that is a constant, only the work for such an entry is
    /// done.
    ///
    /// # Errors
    /// As [`Entry::decode`].
    #[inline(always)]
    pub fn decode_as(raw: &RawEntry, opcode: u8) -> Result<Self, EntryError> {
        let fields = Fields::read(raw);
        match fields.operation(opcode) {
            Ok(operation) => Ok(Self { user_data: fields.user_data, operation }),
            Err(status) => Err(EntryError { user_data: fields.user_data, status }),
        }
    }

    /// The entry's bytes for the ring.
    #[inline]
    #[must_use]
    pub fn encode(&self) -> RawEntry {
        bytes_of(&self.words())
    }

    /// The entry's words for the ring; the tag is the second.
    #[inline(always)]
    #[must_use]
    pub fn words(&self) -> EntryWords {
        let first = |opcode: Opcode, byte1: u8, method: u16, length: u32| {
            opcode as u64 | u64::from(byte1) << 8 | u64::from(method) << 16 | u64::from(length) << 32
        };
        let last = |capacity: u32, caps: CapArray| {
            u64::from(capacity) | u64::from(caps.sent) << 32 | u64::from(caps.accepted) << 40
        };
        let tag = self.user_data;
        match self.operation {
            Operation::Nop => [first(Opcode::Nop, 0, 0, 0), tag, 0, 0, 0, 0, 0, 0],
            Operation::Call { cap, interface, method, params, results, caps } => {
                let first = first(Opcode::Call, 0, method, params.length);
                let last = last(results.length, caps);
                [first, tag, cap, interface, params.address, results.address, caps.address, last]
            }
            Operation::Recv { endpoint, buffer, caps } => {
                let first = first(Opcode::Recv, 0, 0, buffer.length);
                [first, tag, endpoint, 0, buffer.address, 0, caps.address, last(0, caps)]
            }
            Operation::Return { reply, exception, results, caps } => {
                let first = first(Opcode::Return, exception, 0, results.length);
                [first, tag, reply, 0, results.address, 0, caps.address, last(0, caps)]
            }
            Operation::Release { cap } => [first(Opcode::Release, 0, 0, 0), tag, cap, 0, 0, 0, 0, 0],
            Operation::Cancel { target } => [first(Opcode::Cancel, 0, 0, 0), tag, 0, target, 0, 0, 0, 0],
            Operation::Notify { notification, bits } => {
                [first(Opcode::Notify, 0, 0, 0), tag, notification, bits, 0, 0, 0, 0]
            }
            Operation::Wait { cap } => [first(Opcode::Wait, 0, 0, 0), tag, cap, 0, 0, 0, 0, 0],
            Operation::WaitWord { address, expected } => {
                [first(Opcode::WaitWord, 0, 0, expected), tag, 0, 0, address, 0, 0, 0]
            }
            Operation::WakeWord { address, count } => {
                [first(Opcode::WakeWord, 0, 0, count), tag, 0, 0, address, 0, 0, 0]
            }
            Operation::ThreadPointer { address } => {
                [first(Opcode::ThreadPointer, 0, 0, 0), tag, 0, 0, address, 0, 0, 0]
            }
            Operation::ReturnRecv { reply, endpoint, exception, results, buffer, caps } => {
                let first = first(Opcode::ReturnRecv, exception, 0, results.length);
                let last = last(buffer.length, caps);
                [first, tag, reply, endpoint, results.address, buffer.address, caps.address, last]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Status;

    fn samples() -> [Entry; 12] {
        let buffer = Buffer { address: 0x1000, length: 64 };
        let empty = Buffer::default();
        let both = CapArray { address: 0x2000, sent: 1, accepted: 2 };
        [
            Operation::Nop,
            Operation::Call { cap: 7, interface: 9, method: 3, params: buffer, results: buffer, caps: both },
            Operation::Recv { endpoint: 5, buffer, caps: CapArray { sent: 0, ..both } },
            Operation::Return { reply: 8, exception: 5, results: empty, caps: CapArray { accepted: 0, ..both } },
            Operation::Release { cap: 4 },
            Operation::Cancel { target: 77 },
            Operation::Notify { notification: 3, bits: 1 << 40 },
            Operation::Wait { cap: 3 },
            Operation::WaitWord { address: 0x1004, expected: 5 },
            Operation::WakeWord { address: 0x1004, count: 2 },
            Operation::ThreadPointer { address: 0x7001 },
            Operation::ReturnRecv { reply: 8, endpoint: 5, exception: 5, results: empty, buffer, caps: both },
        ]
        .map(|operation| Entry { user_data: 42, operation })
    }

    #[test]
    fn entries_round_trip() {
        for entry in samples() {
            assert_eq!(Entry::decode(&entry.encode()), Ok(entry));
        }
    }

    /// A field that an opcode does not use must be zero: setting any single byte either changes
    /// the decoded entry or is refused, never passes unseen.
    #[test]
    fn no_byte_is_ignored() {
        for entry in samples() {
            let raw = entry.encode();
            for at in 0..ENTRY_SIZE {
                let mut changed = raw;
                changed[at] ^= 0x08;
                assert_ne!(Entry::decode(&changed), Ok(entry), "byte {at} of {entry:?}");
            }
        }
    }

    #[test]
    fn refusals_say_why() {
        let mut raw = samples()[1].encode();
        raw[0] = 200;
        assert_eq!(Entry::decode(&raw), Err(EntryError { user_data: 42, status: Status::BadOpcode }));
        let mut raw = samples()[1].encode();
        raw[32] = 1;
        assert_eq!(Entry::decode(&raw).map_err(|e| e.status), Err(Status::BadAddress));
        let mut raw = samples()[1].encode();
        raw[7] = 0xff;
        assert_eq!(Entry::decode(&raw).map_err(|e| e.status), Err(Status::TooLarge));
        for address in [0, 1, 2, 6, u64::MAX] {
            for operation in [Operation::WaitWord { address, expected: 0 }, Operation::WakeWord { address, count: 1 }] {
                let refused = Entry::decode(&Entry { user_data: 1, operation }.encode());
                assert_eq!(refused.map_err(|e| e.status), Err(Status::BadAddress), "{operation:?}");
            }
        }
        let mut raw = samples()[0].encode();
        raw[62] = 1;
        assert_eq!(Entry::decode(&raw).map_err(|e| e.status), Err(Status::ReservedField));
    }
}
