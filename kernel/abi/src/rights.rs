//! The operations that a capability permits.

/// A set of rights. Rights only shrink: a copy holds a subset of its source's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(transparent)]
pub struct Rights(pub u32);

impl Rights {
    /// No right at all.
    pub const NONE: Rights = Rights(0);
    /// Every right, also those that no kernel defines yet.
    pub const ALL: Rights = Rights(u32::MAX);
    /// MemoryObject: map readable. IoPorts: input.
    pub const READ: Rights = Rights(1 << 0);
    /// MemoryObject: map writable. IoPorts: output.
    pub const WRITE: Rights = Rights(1 << 1);
    /// MemoryObject: map executable. Process: start threads in it.
    pub const EXECUTE: Rights = Rights(1 << 2);
    /// The capability may be passed on: in a message or a grant.
    pub const GRANT: Rights = Rights(1 << 3);
    /// Invoke by CALL, signal by NOTIFY.
    pub const CALL: Rights = Rights(1 << 4);
    /// Receive from an endpoint, wait on a notification or an interrupt.
    pub const RECEIVE: Rights = Rights(1 << 5);
    /// Manage the object: mint, bind, carve, kill.
    pub const MANAGE: Rights = Rights(1 << 6);

    /// Whether every right of `other` is held.
    #[must_use]
    pub const fn contains(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }

    /// The rights in both.
    #[must_use]
    pub const fn intersection(self, other: Rights) -> Rights {
        Rights(self.0 & other.0)
    }

    /// The rights in either.
    #[must_use]
    pub const fn union(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}
