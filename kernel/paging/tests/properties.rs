//! Invariants of the page cache's bookkeeping: `docs/properties.md` lists it.
#![allow(clippy::expect_used)] // Helpers of tests count as tests.

use std::collections::{BTreeMap, BTreeSet};

use capos_paging::{Block, Clock, PageState, Pages};
use proptest::prelude::*;

proptest! {
    /// Against a map by page.
    #[test]
    fn pages_are_what_was_said_of_each_last(
        count in 0_u64..40,
        operations in prop::collection::vec((0_u8..3, 0_u64..48, 0_u64..8), 0..100),
    ) {
        let mut pages = Pages::new(count);
        let mut model = BTreeMap::new();
        for (number, (operation, page, length)) in operations.into_iter().enumerate() {
            match operation {
                0 => {
                    pages.begin(page, length, number);
                    model.extend((page..page + length).filter(|at| *at < count).map(|at| (at, PageState::Loading(number))));
                }
                1 => {
                    pages.complete(page, number);
                    model.extend((page < count).then_some((page, PageState::Resident(number))));
                }
                _ => prop_assert_eq!(pages.remove(page), model.remove(&page)),
            }
            let resident = |page: &u64| matches!(model.get(page), Some(PageState::Resident(_)));
            prop_assert_eq!(pages.resident() as usize, model.keys().filter(|page| resident(page)).count());
            let next = (page..count).find(resident);
            prop_assert_eq!(pages.next_resident(page).map(|(page, _)| page), next);
            let run = (page..count).take(length as usize).take_while(|at| !model.contains_key(at)).count();
            prop_assert_eq!(pages.run_of_absent(page, length) as usize, run);
            for at in 0..50 {
                prop_assert_eq!(pages.get(at), model.get(&at).copied());
            }
        }
    }

    /// Against sets of frames: held, in use and released.
    #[test]
    fn each_frame_of_a_block_has_one_use(operations in prop::collection::vec((0_u8..8, 0_u64..1024), 0..600)) {
        let mut block = Block::new();
        let mut held: BTreeSet<u64> = (0..512).collect();
        let mut filled = 0;
        for (operation, page) in operations {
            match operation {
                0..6 => {
                    let taken = block.take(page);
                    prop_assert_eq!(taken, held.remove(&(page % 512)));
                    if taken {
                        block.fill();
                        filled += 1;
                    }
                }
                6 if filled > 0 => {
                    block.empty();
                    filled -= 1;
                }
                7 if page == 0 => {
                    prop_assert_eq!(block.give_up().collect::<BTreeSet<u64>>(), core::mem::take(&mut held));
                }
                _ => {}
            }
            prop_assert_eq!(block.held(), held.len() as u64);
            prop_assert_eq!((block.is_empty(), block.is_whole()), (filled == 0, filled == 512));
        }
    }

    /// The evicted entry is in the clock and was not used since the hand last passed, as long as there is such an
    /// entry.
    #[test]
    fn a_used_entry_goes_only_where_all_are_used(
        operations in prop::collection::vec((0_u8..4, any::<u16>()), 0..200),
    ) {
        let mut clock = Clock::new();
        let mut slots = BTreeMap::new();
        let mut used = BTreeSet::new();
        for (key, (operation, number)) in operations.into_iter().enumerate() {
            let some = slots.keys().copied().nth(usize::from(number) % slots.len().max(1));
            match (operation, some) {
                (0, _) | (_, None) => drop(slots.insert(key, clock.insert(key))),
                (1, Some(some)) => drop(used.insert(some)),
                (2, Some(some)) => {
                    used.remove(&some);
                    prop_assert_eq!(slots.remove(&some).and_then(|slot| clock.remove(slot)), Some(some));
                }
                _ => {
                    let before = used.clone();
                    let (slot, victim) = clock.victim(|key| used.remove(key)).expect("there is one");
                    prop_assert_eq!(slots.remove(&victim), Some(slot));
                    prop_assert!(!before.contains(&victim) || before.len() == slots.len() + 1, "{} was used", victim);
                    prop_assert_eq!(clock.remove(slot), Some(victim));
                    used.remove(&victim);
                }
            }
            prop_assert_eq!(clock.len(), slots.len());
        }
    }
}
