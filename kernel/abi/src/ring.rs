//! Where the rings of a thread lie.
//!
//! One region holds a header page with the four indices, each on its own cache line, then the
//! submission entries, then the completions:
//!
//! | offset | what | written by |
//! |---|---|---|
//! | 0 (u32) | submission head: next entry that the kernel takes | kernel |
//! | 64 (u32) | submission tail: next entry that the process fills | process |
//! | 128 (u32) | completion head: next completion that the process reads | process |
//! | 192 (u32) | completion tail: next completion that the kernel fills | kernel |
//! | 256 (u32) | submission entries | kernel, for information |
//! | 260 (u32) | completion entries | kernel, for information |
//! | 4096 | submission entries, 64 bytes each | process |
//! | [`RingLayout::completions_offset`] | completions, 32 bytes each | kernel |
//!
//! Indices run freely and wrap at 2³²; a slot is the index modulo the ring's size. A writer
//! publishes with release order, a reader takes with acquire order. The kernel keeps its own two
//! indices and the sizes in its own memory and never believes the ring's copies of them. A tail
//! further ahead of the head than the ring is long, or a head past its tail, is corruption: the
//! kernel ends the process.

/// Offset of the submission head.
pub const SUBMISSION_HEAD: usize = 0;
/// Offset of the submission tail.
pub const SUBMISSION_TAIL: usize = 64;
/// Offset of the completion head.
pub const COMPLETION_HEAD: usize = 128;
/// Offset of the completion tail.
pub const COMPLETION_TAIL: usize = 192;
/// Offset of the submission ring's size.
pub const SUBMISSION_ENTRIES: usize = 256;
/// Offset of the completion ring's size.
pub const COMPLETION_ENTRIES: usize = 260;
/// Offset of the first submission entry.
pub const ENTRIES: usize = 4096;
/// The most entries that a ring may have.
pub const MAX_ENTRIES: u32 = 4096;

const PAGE: usize = crate::PAGE as usize;

/// The sizes of a thread's two rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingLayout {
    submission: u32,
    completion: u32,
}

impl RingLayout {
    /// Rings of these sizes.
    ///
    /// # Errors
    /// [`crate::Status::InvalidArgument`] unless both are powers of two from 2 to [`MAX_ENTRIES`] and the
    /// completion ring is at least as long as the submission ring.
    pub const fn new(submission: u32, completion: u32) -> Result<Self, crate::Status> {
        let fits = submission >= 2
            && completion <= MAX_ENTRIES
            && submission <= completion
            && submission.is_power_of_two()
            && completion.is_power_of_two();
        if fits { Ok(Self { submission, completion }) } else { Err(crate::Status::InvalidArgument) }
    }

    /// Entries of the submission ring.
    #[inline]
    #[must_use]
    pub const fn submission_entries(self) -> u32 {
        self.submission
    }

    /// Entries of the completion ring.
    #[inline]
    #[must_use]
    pub const fn completion_entries(self) -> u32 {
        self.completion
    }

    /// Offset of the submission entry at a free-running index.
    #[inline]
    #[must_use]
    #[expect(clippy::arithmetic_side_effects, reason = "sizes are at most 4096 by construction")]
    pub const fn submission_offset(self, index: u32) -> usize {
        ENTRIES + (index & (self.submission - 1)) as usize * crate::entry::ENTRY_SIZE
    }

    /// Offset of the first completion.
    #[inline]
    #[must_use]
    #[expect(clippy::arithmetic_side_effects, reason = "sizes are at most 4096 by construction")]
    pub const fn completions_offset(self) -> usize {
        ENTRIES + (self.submission as usize * crate::entry::ENTRY_SIZE).next_multiple_of(PAGE)
    }

    /// Offset of the completion at a free-running index.
    #[inline]
    #[must_use]
    #[expect(clippy::arithmetic_side_effects, reason = "sizes are at most 4096 by construction")]
    pub const fn completion_offset(self, index: u32) -> usize {
        self.completions_offset() + (index & (self.completion - 1)) as usize * crate::completion::COMPLETION_SIZE
    }

    /// The region's size in bytes, a whole number of pages.
    #[inline]
    #[must_use]
    #[expect(clippy::arithmetic_side_effects, reason = "sizes are at most 4096 by construction")]
    pub const fn bytes(self) -> usize {
        self.completions_offset()
            + (self.completion as usize * crate::completion::COMPLETION_SIZE).next_multiple_of(PAGE)
    }
}

/// How many entries are between a reader's own index and the writer's published one.
///
/// # Errors
/// `Err(())`-like `None` if the distance is more than the ring holds: the other side's index is corrupt.
#[inline]
#[must_use]
pub const fn distance(head: u32, tail: u32, entries: u32) -> Option<u32> {
    let distance = tail.wrapping_sub(head);
    if distance > entries { None } else { Some(distance) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_keeps_regions_apart() {
        let layout = RingLayout::new(64, 128).unwrap();
        assert_eq!(layout.submission_offset(0), 4096);
        assert_eq!(layout.submission_offset(63), 4096 + 63 * 64);
        assert_eq!(layout.submission_offset(64), layout.submission_offset(0));
        assert_eq!(layout.completions_offset(), 8192);
        assert_eq!(layout.bytes(), 8192 + 4096);
        assert!(RingLayout::new(3, 8).is_err());
        assert!(RingLayout::new(8, 4).is_err());
        assert!(RingLayout::new(8, 8192).is_err());
    }

    #[test]
    fn distance_wraps_and_refuses() {
        assert_eq!(distance(u32::MAX, 1, 8), Some(2));
        assert_eq!(distance(5, 4, 8), None);
        assert_eq!(distance(0, 9, 8), None);
        assert_eq!(distance(0, 8, 8), Some(8));
    }
}
