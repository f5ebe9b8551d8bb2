//! The parts of a message besides its words: the header for the receiver, and capability slots.

/// A received message starts with this header; its parameters follow at [`MessageHeader::SIZE`].
///
/// | offset | field |
/// |---|---|
/// | 0 (u64) | badge of the capability that was invoked |
/// | 8 (u64) | interface |
/// | 16 (u64) | reply capability, for one RETURN; null for a kernel message that wants none |
/// | 24 (u16) | method |
/// | 26 (u8) | capabilities received |
/// | 27 (u8) | 0 |
/// | 28 (u32) | length of the parameters, in bytes |
/// | 32 (u32) | results that the caller accepts, in bytes |
/// | 36 (u8) | capabilities that the caller accepts |
/// | 37.. | 0 |
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageHeader {
    /// Badge of the invoked capability.
    pub badge: u64,
    /// Interface identifier.
    pub interface: u64,
    /// The reply capability.
    pub reply: u64,
    /// Method ordinal.
    pub method: u16,
    /// Capabilities received with the message.
    pub caps: u8,
    /// Parameter bytes after the header.
    pub length: u32,
    /// Result bytes that the caller accepts.
    pub results_capacity: u32,
    /// Capabilities that the caller accepts.
    pub caps_accepted: u8,
}

impl MessageHeader {
    /// The header's size in bytes; the parameters follow, 8-byte aligned.
    pub const SIZE: usize = 40;

    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut raw = [0_u8; Self::SIZE];
        for (bytes, word) in raw.chunks_exact_mut(8).zip(self.words()) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        raw
    }

    /// The header's words, each as the machine has it.
    #[must_use]
    #[inline]
    pub const fn words(&self) -> [u64; Self::SIZE / 8] {
        [
            self.badge,
            self.interface,
            self.reply,
            self.method as u64 | (self.caps as u64) << 16 | (self.length as u64) << 32,
            self.results_capacity as u64 | (self.caps_accepted as u64) << 32,
        ]
    }

    /// Reads a header.
    #[must_use]
    pub fn decode(raw: &[u8; Self::SIZE]) -> Self {
        let word = |at: usize| -> u64 {
            raw.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let half = |at: usize| -> u32 {
            raw.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        let byte = |at: usize| raw.get(at).copied().unwrap_or(0);
        Self {
            badge: word(0),
            interface: word(8),
            reply: word(16),
            method: u16::from_le_bytes([byte(24), byte(25)]),
            caps: byte(26),
            length: half(28),
            results_capacity: half(32),
            caps_accepted: byte(36),
        }
    }
}

/// How a capability is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum TransferMode {
    /// The sender keeps its capability; the receiver's derives from it.
    #[default]
    Copy = 0,
    /// The sender loses its capability.
    Move = 1,
}

/// One place of a capability array: 16 bytes.
///
/// Sent: `word0` is the capability; `word1` is the rights mask in its low 32 bits
/// ([`crate::Rights::ALL`] keeps what there is) and the [`TransferMode`] in bits 32..40, the rest 0.
/// Received: `word0` is the new capability, `word1` its interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CapSlot {
    /// The capability.
    pub word0: u64,
    /// Rights and mode when sent; interface when received.
    pub word1: u64,
}

impl CapSlot {
    /// A slot's size in bytes.
    pub const SIZE: usize = 16;

    /// A slot to send.
    #[must_use]
    pub const fn send(cap: u64, rights: crate::Rights, mode: TransferMode) -> Self {
        Self { word0: cap, word1: rights.0 as u64 | ((mode as u64) << 32) }
    }

    /// The sender's request: capability, rights mask, mode.
    ///
    /// # Errors
    /// [`crate::Status::InvalidArgument`] if reserved bits or an unknown mode are set.
    pub const fn sent(self) -> Result<(u64, crate::Rights, TransferMode), crate::Status> {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is the mask")]
        let rights = crate::Rights(self.word1 as u32);
        match self.word1 >> 32 {
            0 => Ok((self.word0, rights, TransferMode::Copy)),
            1 => Ok((self.word0, rights, TransferMode::Move)),
            _ => Err(crate::Status::InvalidArgument),
        }
    }

    /// The slot's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut raw = [0_u8; Self::SIZE];
        let (low, high) = raw.split_at_mut(8);
        low.copy_from_slice(&self.word0.to_le_bytes());
        high.copy_from_slice(&self.word1.to_le_bytes());
        raw
    }

    /// Reads a slot.
    #[must_use]
    pub fn decode(raw: &[u8; Self::SIZE]) -> Self {
        let word = |at: usize| -> u64 {
            raw.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        Self { word0: word(0), word1: word(8) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rights;

    #[test]
    fn headers_and_slots_round_trip() {
        let header = MessageHeader {
            badge: 1,
            interface: 2,
            reply: 3,
            method: 4,
            caps: 5,
            length: 6,
            results_capacity: 7,
            caps_accepted: 8,
        };
        assert_eq!(MessageHeader::decode(&header.encode()), header);
        let slot = CapSlot::send(9, Rights::READ, TransferMode::Move);
        assert_eq!(CapSlot::decode(&slot.encode()).sent(), Ok((9, Rights::READ, TransferMode::Move)));
        assert!(CapSlot { word0: 1, word1: 2 << 32 }.sent().is_err());
    }
}
