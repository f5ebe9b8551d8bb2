//! Tests that run on the machine: the kernel's command line says `test=kernel`. One line each, a
//! sum, and the machine ends with status 33 where all passed. A test that fails panics, which ends it
//! with the panic's status.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "these are tests")]

mod accounts;
mod bench;
mod bound_calls;
mod bounds;
mod bounds_of_memory;
mod calls;
mod copies;
mod copies_of_absent_pages;
mod cpu_time;
mod exhaustion;
mod full_heap;
mod large_pages;
mod machine;
mod one_capability;
mod processes;
mod refusals;
mod restart;
mod revocation;
mod start;
mod threads;
mod words;

pub use start::{begin, needs_loader};

use alloc::sync::Arc;

use crate::arch::exit;
use crate::log;
use crate::object::account::Account;

/// Status for the debug-exit device where all passed: the emulator ends with 33.
pub const PASSED: u8 = 0x10;

type Test = fn(&Arc<Account>);

/// The tests of objects by name.
const OBJECTS: [(&str, Test); 93] = [
    ("calls-meet-receivers", calls::calls_meet_receivers),
    ("messages-arrive-whole", calls::messages_arrive_whole),
    ("answers-receive-the-next", calls::answers_receive_the_next),
    ("known-pages-are-forgotten", calls::known_pages_are_forgotten),
    ("calls-are-refused", calls::calls_are_refused),
    ("calls-always-end", calls::calls_always_end),
    ("capabilities-travel", calls::capabilities_travel),
    ("one-capability-travels", one_capability::one_capability_travels),
    ("revocation-ends-calls", calls::revocation_ends_calls),
    ("revocation-ends-waits", calls::revocation_ends_waits),
    ("operations-are-found-by-capability", calls::operations_are_found_by_capability),
    ("log-readers-are-served", calls::log_readers_are_served),
    ("long-entries-give-way", calls::long_entries_give_way),
    ("bad-pointers-are-answers", calls::bad_pointers_are_answers),
    ("notifications-signal", calls::notifications_signal),
    ("waits-for-callers-end", calls::waits_for_callers_end),
    ("waits-end-with-replies", calls::waits_end_with_replies),
    ("replies-keep-no-caller", calls::replies_keep_no_caller),
    ("calls-are-not-lost", exhaustion::calls_are_not_lost),
    ("places-in-queues-are-kept", exhaustion::places_in_queues_are_kept),
    ("capabilities-arrive-or-stay", exhaustion::capabilities_arrive_or_stay),
    ("memory-is-given-back-at-the-limit", exhaustion::memory_is_given_back_at_the_limit),
    ("one-operation-fits-the-reserve", full_heap::one_operation_fits_the_reserve),
    ("a-full-heap-is-an-answer", full_heap::a_full_heap_is_an_answer),
    ("ends-need-little", full_heap::ends_need_little),
    ("tickets-are-never-given-out-twice", exhaustion::tickets_are_never_given_out_twice),
    ("the-start-says-what-it-lacks", refusals::the_start_says_what_it_lacks),
    ("refused-frames-are-answers", refusals::refused_frames_are_answers),
    ("memory-may-end-anywhere", refusals::memory_may_end_anywhere),
    ("chains-of-accounts-end", accounts::chains_of_accounts_end),
    ("chains-of-accounts-retire", accounts::chains_of_accounts_retire),
    ("retired-accounts-are-passed-by", accounts::retired_accounts_are_passed_by),
    ("a-late-shortening-makes-no-circle", accounts::a_late_shortening_makes_no_circle),
    ("objects-outlast-their-accounts", accounts::objects_outlast_their_accounts),
    ("cpu-time-is-carved", cpu_time::cpu_time_is_carved),
    ("cpu-time-ends-with-its-limit", cpu_time::cpu_time_ends_with_its_limit),
    ("accounts-are-cut", cpu_time::accounts_are_cut),
    ("priorities-hold-at-once", cpu_time::priorities_hold_at_once),
    ("orphans-go-on", cpu_time::orphans_go_on),
    ("corrupt-rings-kill", processes::corrupt_rings_kill),
    ("callers-are-told", processes::callers_are_told),
    ("any-bytes-are-survived", processes::any_bytes_are_survived),
    ("deaths-give-everything-back", processes::deaths_give_everything_back),
    ("accounts-limit", processes::accounts_limit),
    ("mappings-obey", processes::mappings_obey),
    ("large-pages-are-shown", large_pages::large_pages_are_shown),
    ("large-pages-need-blocks", large_pages::large_pages_need_blocks),
    ("cached-pages-become-large", large_pages::cached_pages_become_large),
    ("held-frames-go-first", large_pages::held_frames_go_first),
    ("copies-stay-apart", copies::copies_stay_apart),
    ("cached-pages-are-copied", copies::cached_pages_are_copied),
    ("copies-are-paid-for", copies::copies_are_paid_for),
    ("absent-pages-are-copied", copies_of_absent_pages::absent_pages_are_copied),
    ("copies-of-absent-pages-end", copies_of_absent_pages::copies_of_absent_pages_end),
    ("copies-wait-without-memory", copies_of_absent_pages::copies_wait_without_memory),
    ("unwanted-requests-end", copies_of_absent_pages::unwanted_requests_end),
    ("large-rings-end", revocation::large_rings_end),
    ("many-mappings-cost-as-few", revocation::many_mappings_cost_as_few),
    ("ends-are-bounded", bounds::ends_are_bounded),
    ("small-ends-are-bounded", bounds::small_ends_are_bounded),
    ("revocations-are-bounded", bounds::revocations_are_bounded),
    ("large-memory-is-bounded", bounds_of_memory::large_memory_is_bounded),
    ("mappings-are-bounded", bounds_of_memory::mappings_are_bounded),
    ("copies-are-bounded", bounds_of_memory::copies_are_bounded),
    ("long-rings-are-bounded", bounds_of_memory::long_rings_are_bounded),
    ("device-memory-is-bounded", bounds_of_memory::device_memory_is_bounded),
    ("ends-are-ends-between-steps", bounds::ends_are_ends_between_steps),
    ("entries-share-a-budget", bounds::entries_share_a_budget),
    ("lists-are-bounded", bounds::lists_are_bounded),
    ("rights-only-shrink", processes::rights_only_shrink),
    ("pages-come-in", processes::pages_come_in),
    ("bad-pages-kill-alone", processes::bad_pages_kill_alone),
    ("parameters-come-in", processes::parameters_come_in),
    ("dead-pagers-are-told", processes::dead_pagers_are_told),
    ("revoked-pagers-are-told", processes::revoked_pagers_are_told),
    ("the-cache-gives-way", processes::the_cache_gives_way),
    ("the-cache-gives-way-to-tables", processes::the_cache_gives_way_to_tables),
    ("threads-end-alone", threads::threads_end_alone),
    ("threads-give-everything-back", threads::threads_give_everything_back),
    ("threads-run-once-they-are-known", threads::threads_run_once_they_are_known),
    ("threads-are-waited-for", threads::threads_are_waited_for),
    ("threads-wait-in-every-way", threads::threads_wait_in_every_way),
    ("priorities-are-bounded", threads::priorities_are_bounded),
    ("threads-are-put-down-first", threads::threads_are_put_down_first),
    ("who-waits-is-laid-down", threads::who_waits_is_laid_down),
    ("system-calls-share-the-lock", threads::system_calls_share_the_lock),
    ("threads-share-pages", threads::threads_share_pages),
    ("words-are-woken", words::words_are_woken),
    ("words-are-checked", words::words_are_checked),
    ("waits-for-words-end", words::waits_for_words_end),
    ("thread-pointers-are-set", threads::thread_pointers_are_set),
    // It ends many processes, which fills the log.
    ("bound-calls-are-calls", bound_calls::bound_calls_are_calls),
    ("nothing-is-left", nothing_is_left),
];

/// The word on the kernel's command line.
const WORD: &str = "test=kernel";

fn is_asked_for(command_line: &str) -> bool {
    command_line.split_whitespace().any(|word| word == WORD)
}

/// How many processors the tests of this command line permit: those of objects look at one alone.
pub fn processors(command_line: &str) -> Option<usize> {
    is_asked_for(command_line).then_some(1)
}

/// The machine has started, and there is no process yet: runs the tests that the command line asks for.
pub fn run(command_line: &str, account: &Arc<Account>) {
    if is_asked_for(command_line) {
        run_all(account);
    }
    start::run();
}

/// Runs all tests and ends the machine.
fn run_all(account: &Arc<Account>) -> ! {
    let mut passed = 0;
    for (name, test) in machine::TESTS {
        test();
        log!("ok {name}");
        passed += 1;
    }
    for (name, test) in OBJECTS {
        test(account);
        bench::settle();
        log!("ok {name}");
        passed += 1;
    }
    log!("{passed} passed, 0 failed");
    exit::debug_exit(PASSED)
}

/// What the tests before have made is gone.
fn nothing_is_left(account: &Arc<Account>) {
    assert_eq!(account.usage(), [0; 5]);
    assert_eq!(crate::object::derivation::count(), 0);
    assert_eq!(crate::object::process::ALIVE.load(core::sync::atomic::Ordering::Relaxed), 0);
}
