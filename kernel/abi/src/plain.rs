//! Entries of the common forms, read from their words at once instead of field by field: without an exception, and with one
//! capability that is sent at most. The readers here read exactly what [`Entry::decode`](crate::Entry::decode) reads;
//! `None` refuses nothing, but says that it is to judge.

use crate::entry::{Buffer, CapArray, EntryWords, MAX_CAPS, MAX_MESSAGE, Opcode};

/// Capabilities that entries of these forms send at most: all bits that their count can have.
pub const MAX_SENT: u8 = 1;
const _: () = assert!((MAX_SENT + 1).is_power_of_two());

/// A well-formed CALL.
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

/// A well-formed RETURN without an exception.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlainReturn {
    pub user_data: u64,
    pub reply: u64,
    pub results: Buffer,
    pub caps: CapArray,
}

/// A well-formed RETURN_RECV without an exception.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlainReturnRecv {
    pub user_data: u64,
    pub reply: u64,
    pub results: Buffer,
    pub endpoint: u64,
    pub buffer: Buffer,
    pub caps: CapArray,
}

/// A buffer, if its shape is good.
#[inline(always)]
fn buffer(address: u64, length: u64) -> Option<Buffer> {
    let fits = length <= MAX_MESSAGE as u64 && address & 7 == 0 && (address == 0) == (length == 0);
    // It is less than that.
    fits.then_some(Buffer { address, length: length as u32 })
}

/// The bits that a count of capabilities can have: the most is a power of two.
const COUNT: u64 = 2 * MAX_CAPS as u64 - 1;
const _: () = assert!(MAX_CAPS.is_power_of_two());

/// The array that an entry's last two words name, if its shape is good and it sends no more than `most`: all bits that
/// the count can have.
#[inline(always)]
fn array(address: u64, last: u64, most: u8) -> Option<CapArray> {
    // Above the buffer's length: the numbers of sent and accepted capabilities, and reserved bytes.
    let counts = last >> 32;
    let accepted = (counts >> 8) as u8;
    let fits = counts & !(COUNT << 8 | u64::from(most)) == 0
        && accepted <= MAX_CAPS
        && address & 7 == 0
        && (address == 0) == (counts == 0);
    fits.then_some(CapArray { address, sent: counts as u8, accepted })
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
            caps: array(caps, last, MAX_SENT)?,
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
        Some(Self { user_data, endpoint, buffer: buffer(address, first >> 32)?, caps: array(caps, last, 0)? })
    }
}

impl PlainReturn {
    /// Reads one.
    #[inline(always)]
    #[must_use]
    pub fn read(words: &EntryWords) -> Option<Self> {
        let [first, user_data, reply, zero, results, none, caps, last] = *words;
        // It accepts none.
        if low(first) != Opcode::Return as u64 || zero | none | low(last) != 0 || last >> 40 != 0 {
            return None;
        }
        Some(Self { user_data, reply, results: buffer(results, first >> 32)?, caps: array(caps, last, MAX_SENT)? })
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
            caps: array(caps, last, MAX_SENT)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Entry;
    use crate::entry::{Operation, bytes_of};

    /// An entry as the readers here see it, as an operation.
    fn read(words: &EntryWords) -> Option<Entry> {
        let call = PlainCall::read(words).map(|plain| {
            let PlainCall { user_data, cap, interface, method, params, results, caps } = plain;
            Entry { user_data, operation: Operation::Call { cap, interface, method, params, results, caps } }
        });
        let receive = PlainRecv::read(words).map(|PlainRecv { user_data, endpoint, buffer, caps }| Entry {
            user_data,
            operation: Operation::Recv { endpoint, buffer, caps },
        });
        let answer = PlainReturn::read(words).map(|PlainReturn { user_data, reply, results, caps }| Entry {
            user_data,
            operation: Operation::Return { reply, exception: 0, results, caps },
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
            Operation::Call { caps, .. } => caps.sent <= MAX_SENT,
            Operation::Recv { .. } => true,
            Operation::Return { exception, caps, .. } | Operation::ReturnRecv { exception, caps, .. } => {
                exception == 0 && caps.sent <= MAX_SENT
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

    /// The last word, as entries have it and nearly so: a length, the numbers of sent and accepted capabilities, and
    /// reserved bytes.
    fn last() -> impl Strategy<Value = u64> {
        let length = prop_oneof![Just(0_u64), (0_u64..9).prop_map(|number| number * 8), 0_u64..1 << 32];
        let accepted =
            prop_oneof![3 => Just(0_u64), 3 => Just(1_u64), 1 => 2_u64..20, 1 => 30_u64..34, 1 => 0_u64..256];
        let reserved = prop_oneof![9 => Just(0_u64), 1 => 0_u64..1 << 16];
        (length, 0_u64..4, accepted, reserved)
            .prop_map(|(length, sent, accepted, reserved)| length | sent << 32 | accepted << 40 | reserved << 48)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// The same of words that are nearly of a common form, so that every bound is met.
        #[test]
        fn agrees_with_the_judge_at_the_bounds(
            opcode in prop::sample::select(vec![Opcode::Call, Opcode::Recv, Opcode::Return, Opcode::ReturnRecv]),
            length in prop_oneof![2 => Just(0_u64), 2 => (0_u64..9).prop_map(|number| number * 8)],
            cap in 0_u64..3,
            third in prop_oneof![3 => Just(0_u64), 1 => Just(8_u64)],
            addresses in prop::array::uniform2(prop_oneof![2 => Just(0_u64), 3 => Just(0x1000_u64), 1 => Just(0x1004_u64)]),
            caps in prop_oneof![2 => Just(0_u64), 3 => Just(0x2000_u64), 1 => Just(0x2001_u64)],
            last in last(),
        ) {
            let [params, results] = addresses;
            let words = [opcode as u64 | length << 32, 42, cap, third, params, results, caps, last];
            let judged = Entry::decode(&bytes_of(&words)).ok().filter(is_plain);
            prop_assert_eq!(read(&words), judged);
        }

        /// The readers and the validator agree on every entry: each entry that is read is valid, and each valid entry
        /// of a common form is read.
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
        let sends = CapArray { sent: 1, ..caps };
        for operation in [
            Operation::Call { cap: 7, interface: 9, method: 3, params: buffer, results: buffer, caps: sends },
            Operation::Return { reply: 8, exception: 0, results: buffer, caps: CapArray { accepted: 0, ..sends } },
            Operation::ReturnRecv { reply: 8, endpoint: 5, exception: 0, results: buffer, buffer, caps: sends },
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
