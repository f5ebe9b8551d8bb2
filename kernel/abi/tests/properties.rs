//! Invariants of every ring, entry and identifier: `docs/properties.md` lists it.
#![allow(clippy::expect_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use capos_abi::completion::COMPLETION_SIZE;
use capos_abi::entry::ENTRY_SIZE;
use capos_abi::ring::{
    COMPLETION_ENTRIES, COMPLETION_HEAD, COMPLETION_TAIL, ENTRIES, MAX_ENTRIES, SUBMISSION_ENTRIES, SUBMISSION_HEAD,
    SUBMISSION_TAIL, distance,
};
use capos_abi::{CapId, Completion, Entry, RingLayout};
use proptest::prelude::*;

const PAGE: usize = capos_abi::PAGE as usize;

/// Every layout that there can be.
fn layouts() -> impl Strategy<Value = RingLayout> {
    (1_u32..=12).prop_flat_map(|completion| (1..=completion, Just(completion))).prop_map(|(submission, completion)| {
        RingLayout::new(1 << submission, 1 << completion).expect("powers of two from 2 to 4096")
    })
}

proptest! {
    #[test]
    fn only_powers_of_two_in_bounds_are_sizes(submission in 0..2 * MAX_ENTRIES, completion in 0..2 * MAX_ENTRIES) {
        let sizes = [submission, completion];
        let possible = sizes.iter().all(|size| (2..=MAX_ENTRIES).contains(size) && size.count_ones() == 1)
            && submission <= completion;
        prop_assert_eq!(RingLayout::new(submission, completion).is_ok(), possible);
    }

    #[test]
    fn a_submission_slot_is_aligned_and_inside_its_part(layout in layouts(), index in any::<u32>()) {
        let at = layout.submission_offset(index);
        prop_assert_eq!(at % ENTRY_SIZE, 0);
        prop_assert!(at >= ENTRIES && at + ENTRY_SIZE <= layout.completions_offset());
        prop_assert_eq!(at / PAGE, (at + ENTRY_SIZE - 1) / PAGE, "it crosses a page");
    }

    #[test]
    fn a_completion_slot_is_aligned_and_inside_its_part(layout in layouts(), index in any::<u32>()) {
        let at = layout.completion_offset(index);
        prop_assert_eq!(at % COMPLETION_SIZE, 0);
        prop_assert!(at >= layout.completions_offset() && at + COMPLETION_SIZE <= layout.bytes());
        prop_assert_eq!(at / PAGE, (at + COMPLETION_SIZE - 1) / PAGE, "it crosses a page");
    }

    /// As many slots as the ring has follow each other without a common byte, also across the wrap of the index.
    #[test]
    fn slots_that_can_be_in_use_at_once_are_apart(layout in layouts(), index in any::<u32>(), step in any::<u32>()) {
        let at = |size: u32| (index, index.wrapping_add(1 + step % (size - 1)));
        let (one, other) = at(layout.submission_entries());
        prop_assert!(layout.submission_offset(one).abs_diff(layout.submission_offset(other)) >= ENTRY_SIZE);
        let (one, other) = at(layout.completion_entries());
        prop_assert!(layout.completion_offset(one).abs_diff(layout.completion_offset(other)) >= COMPLETION_SIZE);
    }

    #[test]
    fn an_index_a_ring_later_has_the_same_slot(layout in layouts(), index in any::<u32>()) {
        let later = |entries: u32| index.wrapping_add(entries);
        prop_assert_eq!(
            layout.submission_offset(index),
            layout.submission_offset(later(layout.submission_entries()))
        );
        prop_assert_eq!(
            layout.completion_offset(index),
            layout.completion_offset(later(layout.completion_entries()))
        );
    }

    #[test]
    fn the_header_lies_before_the_entries_and_all_of_it_in_whole_pages(layout in layouts()) {
        prop_assert_eq!((layout.completions_offset() % PAGE, layout.bytes() % PAGE), (0, 0));
        let indices = [SUBMISSION_HEAD, SUBMISSION_TAIL, COMPLETION_HEAD, COMPLETION_TAIL];
        for (at, one) in indices.iter().enumerate() {
            prop_assert!(one + 4 <= ENTRIES && one % 4 == 0);
            prop_assert!(indices.iter().skip(at + 1).all(|other| one.abs_diff(*other) >= 64), "on one cache line");
        }
        prop_assert!(SUBMISSION_ENTRIES.max(COMPLETION_ENTRIES) + 4 <= ENTRIES);
    }

    #[test]
    fn a_distance_is_what_was_published_or_corruption(
        head in any::<u32>(),
        published in any::<u32>(),
        bits in 1_u32..=12,
    ) {
        let entries = 1 << bits;
        let expected = (published <= entries).then_some(published);
        prop_assert_eq!(distance(head, head.wrapping_add(published), entries), expected);
    }

    /// Near the edge, which a random number seldom reaches.
    #[test]
    fn a_full_ring_is_not_corrupt_and_one_more_is(head in any::<u32>(), bits in 1_u32..=12) {
        let entries = 1_u32 << bits;
        prop_assert_eq!(distance(head, head.wrapping_add(entries), entries), Some(entries));
        prop_assert_eq!(distance(head, head.wrapping_add(entries + 1), entries), None);
        prop_assert_eq!(distance(head, head.wrapping_sub(1), entries), None);
    }

    /// Bytes that are mostly zero, since others are seldom an entry.
    #[test]
    fn what_is_taken_for_an_entry_is_written_as_it_was_read(
        opcode in 0_u8..16,
        changes in prop::collection::vec((1_usize..ENTRY_SIZE, any::<u8>()), 0..12),
    ) {
        let mut raw = [0; ENTRY_SIZE];
        raw[0] = opcode;
        for (at, value) in changes {
            raw[at] = value;
        }
        if let Ok(entry) = Entry::decode(&raw) {
            prop_assert_eq!(entry.encode(), raw);
        }
    }

    #[test]
    fn a_completion_arrives_as_it_was_posted(
        user_data in any::<u64>(),
        status in any::<i32>(),
        length in any::<u32>(),
        value in any::<u64>(),
        caps in any::<u8>(),
    ) {
        let completion = Completion { user_data, status, length, value, caps, ..Completion::default() };
        prop_assert_eq!(Completion::decode(&completion.encode()), completion);
    }

    #[test]
    fn an_identifier_keeps_its_slot_and_its_generation_apart(index in any::<u32>(), generation in any::<u32>()) {
        let id = CapId::new(index, generation);
        prop_assert_eq!((id.index(), id.generation()), (index, generation));
        prop_assert_eq!(CapId(id.0), id);
        prop_assert_eq!(id.is_null(), index == 0 && generation == 0);
    }
}
