//! Entries of the common forms, read from their words at once instead of field by field: without an exception and without
//! capabilities that are sent. What is read here is what [`Entry::decode`](crate::Entry::decode) reads; `None` refuses nothing,
//! but says that it is to judge.

use crate::entry::{Buffer, CapArray, EntryWords, MAX_CAPS, MAX_MESSAGE, Opcode};

/// A well-formed CALL that sends no capabilities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlainCall {
    pub user_data: u64,
    pub cap: u64,
    pub interface: u64,
    pub method: u16,
    pub params: Buffer,
    pub results: Buffer,
    pub caps: CapArray,
}

/// A well-formed RECV.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlainRecv {
    pub user_data: u64,
    pub endpoint: u64,
    pub buffer: Buffer,
    pub caps: CapArray,
}

/// A well-formed RETURN without an exception that sends no capabilities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlainReturn {
    pub user_data: u64,
    pub reply: u64,
    pub results: Buffer,
}

/// A well-formed RETURN_RECV without an exception that sends no capabilities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlainReturnRecv {
    pub user_data: u64,
    pub reply: u64,
    pub results: Buffer,
    pub endpoint: u64,
    pub buffer: Buffer,
    pub caps: CapArray,
}

/// A buffer, where its shape is good.
#[inline(always)]
fn buffer(address: u64, length: u64) -> Option<Buffer> {
    let fits = length <= MAX_MESSAGE as u64 && address & 7 == 0 && (address == 0) == (length == 0);
    // It is less than that.
    fits.then_some(Buffer { address, length: length as u32 })
}

/// The array that an entry's last two words name, where it sends nothing and its shape is good.
#[inline(always)]
fn accepted(address: u64, last: u64) -> Option<CapArray> {
    // Above the buffer's length: how many are sent, how many accepted, and what is reserved.
    let counts = last >> 32;
    let count = (counts >> 8) as u8;
    let fits = counts & !0xff00 == 0 && count <= MAX_CAPS && address & 7 == 0 && (address == 0) == (count == 0);
    fits.then_some(CapArray { address, sent: 0, accepted: count })
}

/// The lower half of a word.
#[inline(always)]
const fn low(word: u64) -> u64 {
    word & 0xffff_ffff
}

impl PlainCall {
    /// Reads one.
    #[inline(always)]
    #[must_use]
    pub fn read(words: &EntryWords) -> Option<Self> {
        let [first, user_data, cap, interface, params, results, caps, last] = *words;
        if first & 0xffff != Opcode::Call as u64 {
            return None;
        }
        Some(Self {
            user_data,
            cap,
            interface,
            method: (first >> 16) as u16,
            params: buffer(params, first >> 32)?,
            results: buffer(results, low(last))?,
            caps: accepted(caps, last)?,
        })
    }
}

impl PlainRecv {
    /// Reads one.
    #[inline(always)]
    #[must_use]
    pub fn read(words: &EntryWords) -> Option<Self> {
        let [first, user_data, endpoint, zero, address, none, caps, last] = *words;
        if low(first) != Opcode::Recv as u64 || zero | none | low(last) != 0 {
            return None;
        }
        Some(Self { user_data, endpoint, buffer: buffer(address, first >> 32)?, caps: accepted(caps, last)? })
    }
}

impl PlainReturn {
    /// Reads one.
    #[inline(always)]
    #[must_use]
    pub fn read(words: &EntryWords) -> Option<Self> {
        let [first, user_data, reply, zero, results, none, caps, last] = *words;
        if low(first) != Opcode::Return as u64 || zero | none | caps | last != 0 {
            return None;
        }
        Some(Self { user_data, reply, results: buffer(results, first >> 32)? })
    }
}

impl PlainReturnRecv {
    /// Reads one.
    #[inline(always)]
    #[must_use]
    pub fn read(words: &EntryWords) -> Option<Self> {
        let [first, user_data, reply, endpoint, results, address, caps, last] = *words;
        if low(first) != Opcode::ReturnRecv as u64 {
            return None;
        }
        Some(Self {
            user_data,
            reply,
            results: buffer(results, first >> 32)?,
            endpoint,
            buffer: buffer(address, low(last))?,
            caps: accepted(caps, last)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Entry;
    use crate::entry::{Operation, bytes_of};

    /// What the readers here say of an entry, as the operation that it is.
    fn read(words: &EntryWords) -> Option<Entry> {
        let call = PlainCall::read(words).map(|plain| {
            let PlainCall { user_data, cap, interface, method, params, results, caps } = plain;
            Entry { user_data, operation: Operation::Call { cap, interface, method, params, results, caps } }
        });
        let receive = PlainRecv::read(words).map(|PlainRecv { user_data, endpoint, buffer, caps }| Entry {
            user_data,
            operation: Operation::Recv { endpoint, buffer, caps },
        });
        let answer = PlainReturn::read(words).map(|PlainReturn { user_data, reply, results }| Entry {
            user_data,
            operation: Operation::Return { reply, exception: 0, results, caps: CapArray::default() },
        });
        let both = PlainReturnRecv::read(words).map(|plain| {
            let PlainReturnRecv { user_data, reply, results, endpoint, buffer, caps } = plain;
            let operation = Operation::ReturnRecv { reply, endpoint, exception: 0, results, buffer, caps };
            Entry { user_data, operation }
        });
        call.or(receive).or(answer).or(both)
    }

    fn is_plain(entry: &Entry) -> bool {
        match entry.operation {
            Operation::Call { caps, .. } => caps.sent == 0,
            Operation::Recv { .. } => true,
            Operation::Return { exception, caps, .. } | Operation::ReturnRecv { exception, caps, .. } => {
                exception == 0 && caps.sent == 0
            }
            _ => false,
        }
    }

    /// A word as entries have them: mostly small, aligned or zero, with a bit changed here and there.
    fn word() -> impl Strategy<Value = u64> {
        prop_oneof![
            4 => Just(0_u64),
            2 => (1_u64..64).prop_map(|number| number * 8),
            1 => any::<u64>(),
            1 => (0_u32..64).prop_map(|bit| 1_u64 << bit),
            1 => (0_u64..40, 0_u64..20, 0_u64..20).prop_map(|(low, sent, accepted)| low | sent << 32 | accepted << 40),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// The readers and the judge agree on every entry: what is read is what is judged, and what is judged to be of a
        /// common form is read.
        #[test]
        fn agrees_with_the_judge(
            opcode in prop_oneof![0_u64..12, any::<u8>().prop_map(u64::from)],
            byte1 in prop_oneof![8 => Just(0_u64), 1 => 0_u64..256],
            method in prop_oneof![3 => Just(0_u64), 1 => 0_u64..65536],
            length in prop_oneof![2 => Just(0_u64), 2 => (0_u64..64).prop_map(|n| n * 8), 1 => 0_u64..1 << 32],
            words in prop::array::uniform7(word()),
        ) {
            let [a, b, c, d, e, f, g] = words;
            let words = [opcode | byte1 << 8 | method << 16 | length << 32, a, b, c, d, e, f, g];
            let judged = Entry::decode(&bytes_of(&words)).ok().filter(is_plain);
            prop_assert_eq!(read(&words), judged);
        }
    }

    #[test]
    fn common_entries_are_read() {
        let buffer = Buffer { address: 0x1000, length: 64 };
        let caps = CapArray { address: 0x2000, sent: 0, accepted: 1 };
        for operation in [
            Operation::Call { cap: 7, interface: 9, method: 3, params: buffer, results: buffer, caps },
            Operation::Call {
                cap: 7,
                interface: 9,
                method: 3,
                params: Buffer::default(),
                results: buffer,
                caps: CapArray::default(),
            },
            Operation::Recv { endpoint: 5, buffer, caps },
            Operation::Return { reply: 8, exception: 0, results: buffer, caps: CapArray::default() },
            Operation::ReturnRecv { reply: 8, endpoint: 5, exception: 0, results: buffer, buffer, caps },
        ] {
            let entry = Entry { user_data: 42, operation };
            let raw = entry.encode();
            let mut words = EntryWords::default();
            for (word, bytes) in words.iter_mut().zip(raw.as_chunks().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            assert_eq!(read(&words), Some(entry));
        }
    }
}
