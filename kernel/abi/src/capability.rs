//! Capability identifiers.

/// Names one slot of the process's own capability table, and which use of that slot.
///
/// The low 32 bits are the slot's index, the high 32 bits its generation, which grows each time the
/// slot is emptied. So an identifier kept past its capability's life is answered with
/// [`crate::Status::StaleCapability`]. Generations start at 1: zero is never valid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct CapId(pub u64);

impl CapId {
    /// No capability.
    pub const NULL: CapId = CapId(0);

    /// Makes an identifier from a slot index and a generation.
    #[must_use]
    pub const fn new(index: u32, generation: u32) -> Self {
        Self(((generation as u64) << 32) | index as u64)
    }

    /// The slot's index.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the low half is the index")]
    pub const fn index(self) -> u32 {
        self.0 as u32
    }

    /// The slot's generation; 0 only in an identifier that was never valid.
    #[must_use]
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Whether this is [`CapId::NULL`].
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}

impl core::fmt::Debug for CapId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "cap {}.{}", self.index(), self.generation())
    }
}
