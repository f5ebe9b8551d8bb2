//! Invariants of page-table entries, addresses and ranges of memory: `docs/properties.md` lists it.

use std::collections::BTreeSet;

use capos_machine::bitmap::{BLOCK, Bitmap, words_for};
use capos_machine::page_entry::{
    ADDRESS_MASK, Flags, HUGE_PAGE, LARGE_PAGE, PAGE, PageEntry, USER_END, index, is_canonical, step,
};
use capos_machine::range::Range;
use proptest::prelude::*;

/// Addresses that the processor accepts.
fn canonical() -> impl Strategy<Value = u64> {
    any::<u64>().prop_map(|bits| ((bits << 16).cast_signed() >> 16).cast_unsigned())
}

/// Addresses, many of them aligned for large pages.
fn aligned() -> impl Strategy<Value = u64> {
    (0_u64..1 << 22, prop::sample::select(vec![PAGE, LARGE_PAGE, HUGE_PAGE]))
        .prop_map(|(at, size)| (at * size) % (1 << 46))
}

proptest! {
    #[test]
    fn indices_and_offset_make_up_the_address(address in canonical()) {
        let parts = [(4, 39), (3, 30), (2, 21), (1, 12)].map(|(level, shift)| (index(address, level) as u64) << shift);
        let low = parts.iter().sum::<u64>() + address % PAGE;
        prop_assert_eq!(((low << 16).cast_signed() >> 16).cast_unsigned(), address);
        prop_assert!((1..=4).all(|level| index(address, level) < 512));
    }

    #[test]
    fn addresses_share_their_entries_where_they_share_their_page(one in canonical(), distance in 0_u64..1 << 31) {
        let other = ((one.wrapping_add(distance) << 16).cast_signed() >> 16).cast_unsigned();
        for (level, size) in [(1, PAGE), (2, LARGE_PAGE), (3, HUGE_PAGE)] {
            let same = (level..=4).all(|level| index(one, level) == index(other, level));
            prop_assert_eq!(same, one / size == other / size, "level {}", level);
        }
    }

    #[test]
    fn an_address_is_canonical_where_its_sign_is_extended(
        // Many have all of the upper bits equal, and many are at either edge of the non-canonical range.
        address in prop_oneof![
            (any::<i64>(), 0_u32..17).prop_map(|(bits, shift)| (bits >> shift).cast_unsigned()),
            USER_END - 4..USER_END + 4,
            !USER_END - 4..!USER_END + 4,
        ],
    ) {
        let extended = ((address << 16).cast_signed() >> 16).cast_unsigned();
        prop_assert_eq!(is_canonical(address), address == extended);
        prop_assert_eq!(is_canonical(address) && address >> 63 == 0, address < USER_END);
    }

    #[test]
    fn an_entry_keeps_any_address_and_flags_apart(physical in any::<u64>(), bits in any::<u64>()) {
        let flags = Flags::from_bits_truncate(bits);
        let entry = PageEntry::new(physical, flags);
        prop_assert_eq!(entry.physical(), physical & ADDRESS_MASK);
        prop_assert_eq!(entry.0 & !ADDRESS_MASK, flags.bits());
        for (_, flag) in Flags::all().iter_names() {
            prop_assert_eq!(entry.has(flag), flags.contains(flag));
        }
        prop_assert_eq!(entry.is_present(), flags.contains(Flags::PRESENT));
    }

    #[test]
    fn a_step_is_the_largest_that_fits(
        address in aligned(),
        physical in aligned(),
        pages in 1_u64..1 << 20,
        huge in any::<bool>(),
    ) {
        let length = pages * PAGE;
        let fits = |size: u64| size <= length && address % size == 0 && physical % size == 0;
        let sizes = [HUGE_PAGE, LARGE_PAGE, PAGE];
        let expected = sizes.into_iter().filter(|size| huge || *size < HUGE_PAGE).find(|size| fits(*size));
        prop_assert_eq!(Some(step(address, physical, length, huge)), expected);
    }

    #[test]
    fn steps_cover_a_range_and_nothing_else(start in aligned(), physical in aligned(), pages in 1_u64..5000) {
        let end = start + pages * PAGE;
        let mut at = start;
        while at < end {
            at += step(at, physical + (at - start), end - at, true);
        }
        prop_assert_eq!(at, end);
    }

    #[test]
    fn inner_pages_lie_inside_and_outer_pages_around(start in 0_u64..1 << 40, length in 0_u64..1 << 16) {
        let range = Range::new(start, length);
        let (inner, outer) = (range.inner_pages(), range.outer_pages());
        for edge in [inner.start, inner.end, outer.start, outer.end] {
            prop_assert_eq!(edge % PAGE, 0);
        }
        // Less than a page is left out, or added, on either side.
        prop_assert!((range.start..range.start + PAGE).contains(&inner.start));
        prop_assert!((range.end - range.end.min(PAGE - 1)..=range.end).contains(&inner.end));
        prop_assert!(outer.start <= range.start && range.start - outer.start < PAGE);
        prop_assert!(outer.end >= range.end && outer.end - range.end < PAGE);
    }

    #[test]
    fn a_hole_takes_its_own_bytes_and_no_others(
        start in 0_u64..100,
        length in 0_u64..100,
        hole in 0_u64..200,
        bytes in 0_u64..100,
    ) {
        let (range, hole) = (Range::new(start, length), Range::new(hole, bytes));
        let inside = |range: Range, at: u64| range.start <= at && at < range.end;
        let parts = range.without(hole);
        for at in 0..300 {
            let times = parts.iter().filter(|part| inside(**part, at)).count();
            prop_assert_eq!(times == 1, inside(range, at) && !inside(hole, at), "byte {}", at);
            prop_assert!(times <= 1);
        }
        let common = (0..300).any(|at| inside(range, at) && inside(hole, at));
        prop_assert_eq!(range.overlaps(hole), common);
    }

    /// Frames, compared with a set that may give out one more than it contains.
    #[test]
    fn frames_come_out_as_a_set_has_them(
        frames in 1_usize..300,
        operations in prop::collection::vec((0_u8..4, any::<u16>(), 1_usize..9), 0..200),
    ) {
        let mut words = vec![0; words_for(frames)];
        let mut bitmap = Bitmap::new(&mut words, frames);
        let mut model = BTreeSet::new();
        for (operation, number, count) in operations {
            let at = usize::from(number) % (frames + 8);
            match operation {
                0 => prop_assert_eq!(bitmap.release(at), at < frames && model.insert(at)),
                1 => {
                    bitmap.release_range(at, at + count);
                    model.extend((at..at + count).filter(|frame| *frame < frames));
                }
                2 => prop_assert_eq!(bitmap.take(), model.pop_first()),
                _ => {
                    let run = |first: &usize| (*first..first + count).all(|frame| model.contains(&frame));
                    let highest = (0..frames).rev().find(run);
                    prop_assert_eq!(bitmap.take_run(count), highest);
                    if let Some(first) = highest {
                        model.retain(|frame| !(first..first + count).contains(frame));
                    }
                }
            }
            prop_assert_eq!(bitmap.free_count(), model.len());
            prop_assert_eq!(bitmap.is_free(at), model.contains(&at));
        }
    }

    #[test]
    fn blocks_come_out_whole_and_aligned(
        frames in 1_usize..2200,
        operations in prop::collection::vec((0_u8..5, any::<u16>()), 0..40),
    ) {
        let mut words = vec![0; words_for(frames)];
        let mut bitmap = Bitmap::new(&mut words, frames);
        bitmap.release_range(0, frames);
        let mut model: BTreeSet<usize> = (0..frames).collect();
        for (operation, number) in operations {
            let at = usize::from(number) % (frames + BLOCK);
            match operation {
                0 => prop_assert_eq!(bitmap.release(at), at < frames && model.insert(at)),
                1 => prop_assert_eq!(bitmap.take(), model.pop_first()),
                2 => {
                    let whole = |first: &usize| (*first..first + BLOCK).all(|frame| model.contains(&frame));
                    let highest = (0..frames / BLOCK).rev().map(|block| block * BLOCK).find(whole);
                    prop_assert_eq!(bitmap.take_block(), highest);
                    model.retain(|frame| highest.is_none_or(|first| !(first..first + BLOCK).contains(frame)));
                }
                _ => {
                    // Most often where one begins.
                    let first = if operation == 3 { at } else { at / BLOCK * BLOCK };
                    let block = first..first + BLOCK;
                    let taken = first % BLOCK == 0 && block.end <= frames && block.clone().all(|one| !model.contains(&one));
                    prop_assert_eq!(bitmap.release_block(first), taken);
                    model.extend(block.filter(|_| taken));
                }
            }
            prop_assert_eq!(bitmap.free_count(), model.len());
        }
        prop_assert!((0..frames + 8).all(|frame| bitmap.is_free(frame) == model.contains(&frame)));
    }
}
