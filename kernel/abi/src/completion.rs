//! Completions: how the kernel answers an entry. 32 bytes, little-endian.
//!
//! | offset | field |
//! |---|---|
//! | 0 (u64) | user data of the entry |
//! | 8 (i32) | 0, a negative [`crate::Status`], or a positive [`crate::ExceptionKind`] |
//! | 12 (u32) | length of what was written to the buffer, in bytes |
//! | 16 (u64) | value: notification bits of a WAIT, how many a WAKE_WORD woke, otherwise 0 |
//! | 24 (u8) | how many capabilities were received |
//! | 25 (u8) | [`CompletionKind`] |
//! | 26.. | 0 |

/// A completion's size in the ring, in bytes.
pub const COMPLETION_SIZE: usize = 32;

/// The result of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum CompletionKind {
    /// The entry with this user data has ended.
    #[default]
    Done = 0,
}

/// The answer to an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Completion {
    /// The entry's tag.
    pub user_data: u64,
    /// 0, a negative [`crate::Status`] or a positive [`crate::ExceptionKind`].
    pub status: i32,
    /// Bytes written to the entry's buffer (for RECV with the [`crate::MessageHeader`]).
    pub length: u32,
    /// Bits taken by a WAIT; waits ended by a WAKE_WORD.
    pub value: u64,
    /// Capabilities written to the entry's array.
    pub caps: u8,
    /// The outcome.
    pub kind: CompletionKind,
}

impl Completion {
    /// The bytes for the ring.
    #[must_use]
    pub fn encode(&self) -> [u8; COMPLETION_SIZE] {
        let mut raw = [0_u8; COMPLETION_SIZE];
        let mut put = |at: usize, bytes: &[u8]| {
            for (slot, byte) in raw.iter_mut().skip(at).zip(bytes) {
                *slot = *byte;
            }
        };
        put(0, &self.user_data.to_le_bytes());
        put(8, &self.status.to_le_bytes());
        put(12, &self.length.to_le_bytes());
        put(16, &self.value.to_le_bytes());
        put(24, &[self.caps, self.kind as u8]);
        raw
    }

    /// Reads a completion.
    #[inline]
    #[must_use]
    pub fn decode(raw: &[u8; COMPLETION_SIZE]) -> Self {
        let (words, _) = raw.as_chunks();
        let word = |at: usize| words.get(at).map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let second = word(1);
        Self {
            user_data: word(0),
            // Its lower and its upper half.
            status: (second as u32).cast_signed(),
            length: (second >> 32) as u32,
            value: word(2),
            caps: word(3) as u8,
            kind: CompletionKind::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_round_trip() {
        let completion = Completion {
            user_data: u64::MAX,
            status: -7,
            length: 1024,
            value: 1 << 63,
            caps: 3,
            kind: CompletionKind::Done,
        };
        assert_eq!(Completion::decode(&completion.encode()), completion);
    }
}
