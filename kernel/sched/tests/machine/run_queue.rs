//! A queue alone.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use capos_sched::{Dead, HIGHEST, LOWEST, RunQueue, Waiting};
use proptest::prelude::*;

use crate::machine::Task;

fn task(priority: i8) -> Arc<Task> {
    Arc::new(Task::new(0, priority))
}

/// A queue, and the count of those that wait in it.
fn queue() -> (RunQueue<Task>, &'static Waiting) {
    let waiting: &'static Waiting = Box::leak(Box::default());
    (RunQueue::new(waiting).expect("there is memory"), waiting)
}

/// One that may not run on the processor is passed over, and keeps its place.
#[test]
fn higher_priorities_go_first() {
    let tasks = [0, 2, -1, 0, 1, 2].map(task);
    let (mut queue, waiting) = queue();
    tasks.iter().for_each(|task| queue.push(Arc::clone(task)));
    assert_eq!((queue.highest(), queue.is_free_for(2)), (Some(2), false));
    let place = |task: &Arc<Task>| tasks.iter().position(|other| Arc::ptr_eq(other, task)).expect("it waits");
    let (first, slice) = queue.pop(0).expect("it waits");
    assert_eq!((place(&first), slice), (1, None));
    queue.push_front(first, 77);
    assert_eq!(queue.pop(0).map(|(task, slice)| (place(&task), slice)), Some((1, Some(77))));
    tasks[5].mask.store(2, Ordering::Relaxed);
    assert_eq!((queue.highest(), queue.highest_for(0), queue.highest_for(1)), (Some(2), Some(1), Some(2)));
    let order: Vec<usize> = std::iter::from_fn(|| queue.pop(0)).map(|(task, _)| place(&task)).collect();
    assert_eq!((order, queue.len()), (vec![4, 0, 3, 2], 1));
    assert_eq!(queue.pop(1).map(|(task, _)| place(&task)), Some(5));
    assert_eq!((queue.highest(), queue.is_free_for(-1), waiting.is_any()), (None, true, false));
}

#[test]
fn dead_threads_are_taken_out_in_portions() {
    let (alive, dead) = (task(0), task(0));
    let (mut queue, _) = queue();
    queue.push(Arc::clone(&alive));
    (0..20).for_each(|_| queue.push(Arc::clone(&dead)));
    dead.is_dead.store(true, Ordering::Relaxed);
    let taken = |queue: &mut RunQueue<Task>| {
        let mut found = Dead::default();
        queue.take_dead(&mut found);
        (found.iter().count(), found.is_full())
    };
    assert_eq!([taken(&mut queue), taken(&mut queue), taken(&mut queue)], [(16, true), (4, false), (0, false)]);
    assert!(Arc::ptr_eq(&queue.pop(0).expect("it waits").0, &alive));
}

/// What is done to a queue.
#[derive(Clone, Copy, Debug)]
enum Step {
    Push(usize),
    PushFront(usize, u64),
    Pop(u32),
    Remove(usize),
    Shrink,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6usize).prop_map(Step::Push),
        2 => (0..6usize, 1..9u64).prop_map(|(task, slice)| Step::PushFront(task, slice)),
        4 => (0..2u32).prop_map(Step::Pop),
        1 => (0..6usize).prop_map(Step::Remove),
        1 => Just(Step::Shrink),
    ]
}

proptest! {
    /// A list, whose first of the highest priority is next.
    #[test]
    fn agrees_with_a_list(priorities in prop::array::uniform6(LOWEST..=HIGHEST), masks in prop::array::uniform6(1..4u32),
        steps in prop::collection::vec(step(), 0..80)) {
        let tasks = priorities.map(task);
        tasks.iter().zip(masks).for_each(|(task, mask)| task.mask.store(mask, Ordering::Relaxed));
        let (mut queue, waiting) = queue();
        // Those that wait, in their turns within a priority, and what an interruption left of a slice.
        let mut list: Vec<(usize, Option<u64>)> = Vec::new();
        for step in steps {
            match step {
                Step::Push(at) if list.iter().all(|(other, _)| *other != at) => {
                    queue.push(Arc::clone(&tasks[at]));
                    list.push((at, None));
                }
                Step::PushFront(at, slice) if list.iter().all(|(other, _)| *other != at) => {
                    queue.push_front(Arc::clone(&tasks[at]), slice);
                    // Only the first of a priority keeps what is left.
                    list.iter_mut().filter(|(other, _)| priorities[*other] == priorities[at]).for_each(|one| one.1 = None);
                    list.insert(0, (at, Some(slice)));
                }
                Step::Pop(processor) => {
                    let may = |at: usize| masks[at] >> processor & 1 == 1;
                    let top = list.iter().filter(|(at, _)| may(*at)).map(|(at, _)| priorities[*at]).max();
                    let place = list.iter().position(|(at, _)| may(*at) && Some(priorities[*at]) == top);
                    let wanted = place.map(|place| list.remove(place));
                    let found = queue.pop(processor);
                    let found = found.map(|(task, slice)| (tasks.iter().position(|other| Arc::ptr_eq(other, &task)).expect("it waits"), slice));
                    prop_assert_eq!(found, wanted);
                }
                Step::Remove(at) => {
                    let place = list.iter().position(|(other, _)| *other == at);
                    prop_assert_eq!(queue.remove(&tasks[at]).is_some(), place.is_some());
                    place.map(|place| list.remove(place));
                }
                Step::Shrink => queue.shrink(0),
                Step::Push(_) | Step::PushFront(..) => {}
            }
            prop_assert_eq!((queue.len(), waiting.count()), (list.len(), list.len()));
            prop_assert_eq!(queue.highest(), list.iter().map(|(at, _)| priorities[*at]).max());
            for priority in LOWEST..=HIGHEST {
                prop_assert_eq!(waiting.outranks(priority), queue.highest().is_some_and(|highest| highest > priority));
            }
        }
    }
}
