//! Machines that are made up: processors that decide by [`capos_sched`], and threads that begin, wait, end and change.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)] // Helpers of tests count as tests.

mod machine;
mod run_queue;

use capos_sched::{HIGHEST, LOWEST};
use machine::Machine;
use proptest::prelude::*;

/// Something that happens on a processor.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Its current thread wakes another one.
    Wake { processor: usize, task: usize },
    /// Its current thread waits.
    Block { processor: usize },
    /// The slice of its current thread is over.
    SliceEnd { processor: usize },
    /// It looks what to run, for another reason.
    Look { processor: usize },
    /// A thread has another priority.
    Rank { processor: usize, task: usize, priority: i8 },
    /// A thread may run on these processors.
    Settle { processor: usize, task: usize, mask: u32 },
    /// A thread ends.
    Kill { processor: usize, task: usize },
}

const PROCESSORS: usize = 3;
const TASKS: usize = 9;

fn event() -> impl Strategy<Value = Event> {
    let (processor, task) = (0..PROCESSORS, 0..TASKS);
    prop_oneof![
        6 => (processor.clone(), task.clone()).prop_map(|(processor, task)| Event::Wake { processor, task }),
        4 => processor.clone().prop_map(|processor| Event::Block { processor }),
        4 => processor.clone().prop_map(|processor| Event::SliceEnd { processor }),
        1 => processor.clone().prop_map(|processor| Event::Look { processor }),
        2 => (processor.clone(), task.clone(), LOWEST..=HIGHEST)
            .prop_map(|(processor, task, priority)| Event::Rank { processor, task, priority }),
        2 => (processor.clone(), task.clone(), 1..1u32 << PROCESSORS)
            .prop_map(|(processor, task, mask)| Event::Settle { processor, task, mask }),
        1 => (processor, task).prop_map(|(processor, task)| Event::Kill { processor, task }),
    ]
}

fn happen(machine: &Machine, event: Event) {
    let on = |processor: usize| processor % machine.count();
    match event {
        Event::Wake { processor, task } => machine.wake(on(processor), task),
        Event::Block { processor } => machine.block(on(processor)),
        Event::SliceEnd { processor } => machine.end_slice(on(processor)),
        Event::Look { processor } => machine.decide(on(processor)),
        Event::Rank { processor, task, priority } => machine.rank(on(processor), task, priority),
        Event::Settle { processor, task, mask } => {
            // At least one of those that there are.
            let mask = mask & ((1 << machine.count()) - 1);
            machine.settle(on(processor), task, if mask == 0 { 1 } else { mask });
        }
        Event::Kill { processor, task } => machine.kill(on(processor), task),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Each thread that can run runs or waits, at one place, and where it may.
    #[test]
    fn no_thread_is_lost_or_in_two_places(count in 1..=PROCESSORS, events in prop::collection::vec(event(), 1..60)) {
        let machine = Machine::new(count, TASKS);
        for event in events {
            happen(&machine, event);
            machine.deliver_calls();
            machine.check_places();
        }
    }

    /// Once all that was asked for is done, no processor idles or runs something less urgent while a thread waits that may run there.
    #[test]
    fn no_thread_waits_for_a_less_urgent_one(count in 1..=PROCESSORS, events in prop::collection::vec(event(), 1..60)) {
        let machine = Machine::new(count, TASKS);
        for event in events {
            happen(&machine, event);
            machine.deliver_calls();
            machine.check_urgency();
        }
    }

    /// Threads of one priority that never wait have about the same share of the processors.
    #[test]
    fn equal_threads_have_equal_shares(count in 1..=PROCESSORS, tasks in 1..=TASKS, first in 0..PROCESSORS) {
        let machine = Machine::new(count, tasks);
        (0..tasks).for_each(|task| machine.wake(first % count, task));
        machine.deliver_calls();
        let rounds = 60 * tasks;
        for _ in 0..rounds {
            machine.run_slices();
        }
        let shares: Vec<u64> = machine.tasks().map(|task| task.slices()).collect();
        let (least, most) = (shares.iter().min().copied().unwrap_or(0), shares.iter().max().copied().unwrap_or(0));
        // A share, if there are more threads than processors.
        let fair = rounds as u64 * count.min(tasks) as u64 / tasks as u64;
        prop_assert!(least * 10 >= fair * 8 && most * 10 <= fair * 12, "{shares:?}, where {fair} is fair");
    }
}

/// A thread that is woken runs next when its waker waits, before those that waited longer.
#[test]
fn the_thread_that_was_made_ready_runs_next() {
    let machine = Machine::new(1, 3);
    machine.wake(0, 0);
    machine.wake(0, 1);
    machine.make_ready(0, 2);
    machine.block(0);
    assert_eq!(machine.current(0).map(|task| task.number()), Some(2));
}
