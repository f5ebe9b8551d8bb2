//! What is kept of a budget over a restart.

use alloc::vec::Vec;

use crate::amounts::Amounts;

/// The version of the bytes.
const VERSION: u8 = 1;

/// What is kept of a budget over a restart: a reservation that was not settled counts as used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub used: Amounts,
    /// What was added to the limits.
    pub granted: Amounts,
}

impl Kept {
    /// In bytes: the version, what was used, what was granted.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::from([VERSION]);
        bytes.extend_from_slice(&self.used.to_bytes());
        bytes.extend_from_slice(&self.granted.to_bytes());
        bytes
    }

    /// Reads the bytes, and returns those behind them; none if they are of another version or cut.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (version, rest) = bytes.split_first()?;
        let (used, rest) = Amounts::from_bytes(rest)?;
        let (granted, rest) = Amounts::from_bytes(rest)?;
        (*version == VERSION).then_some((Self { used, granted }, rest))
    }

    /// The larger of two counts of the same budget. Neither can be too large.
    #[must_use]
    pub fn most(self, other: Self) -> Self {
        Self { used: self.used.most(other.used), granted: self.granted.most(other.granted) }
    }
}
