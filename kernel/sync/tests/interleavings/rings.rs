//! The indices of rings between a process and the kernel.

use capos_sync::primitives::{AtomicU32, Ordering};
use capos_sync::ring::{Consumer, Producer, SharedConsumer, SharedProducer};

use crate::model::{Arc, explore, thread};

const SLOTS: u32 = 2;
/// The indices wrap on the way.
const START: u32 = u32::MAX - 1;

/// One ring: its indices, and slots that hold a number each.
struct Ring {
    head: AtomicU32,
    tail: AtomicU32,
    slots: [AtomicU32; SLOTS as usize],
}

impl Ring {
    fn new() -> Self {
        let index = || AtomicU32::new(START);
        Self { head: index(), tail: index(), slots: [AtomicU32::new(0), AtomicU32::new(0)] }
    }

    fn slot(&self, index: u32) -> &AtomicU32 {
        &self.slots[(index % SLOTS) as usize]
    }

    fn producer(&self) -> SharedProducer<'_> {
        SharedProducer { head: &self.head, tail: &self.tail }
    }

    fn consumer(&self) -> SharedConsumer<'_> {
        SharedConsumer { head: &self.head, tail: &self.tail }
    }

    /// Fills the next slot, as the process does.
    fn push(&self, number: u32) {
        let producer = self.producer();
        while producer.queued() >= SLOTS {
            thread::yield_now();
        }
        self.slot(producer.index()).store(number, Ordering::Relaxed);
        producer.publish();
    }

    /// Reads the next slot, as the process does.
    fn pop(&self) -> u32 {
        let consumer = self.consumer();
        while consumer.unread(SLOTS) == 0 {
            thread::yield_now();
        }
        let number = self.slot(consumer.index()).load(Ordering::Relaxed);
        consumer.advance();
        number
    }
}

#[test]
fn what_the_process_submits_arrives_once_and_in_order() {
    explore(3, || {
        let ring = Arc::new(Ring::new());
        let process = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || (1..=4).for_each(|number| ring.push(number)))
        };
        let mut kernel = Consumer::new(START);
        for expected in 1..=4 {
            while kernel.pending(&ring.tail, SLOTS).unwrap() == 0 {
                thread::yield_now();
            }
            assert_eq!(ring.slot(kernel.index()).load(Ordering::Relaxed), expected);
            kernel.advance(&ring.head);
        }
        process.join().unwrap();
        assert_eq!(kernel.pending(&ring.tail, SLOTS), Ok(0));
    });
}

#[test]
fn what_the_kernel_completes_arrives_once_and_in_order() {
    explore(3, || {
        let ring = Arc::new(Ring::new());
        let process = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || (1..=4).for_each(|expected| assert_eq!(ring.pop(), expected)))
        };
        let mut kernel = Producer::new(START);
        for number in 1..=4 {
            while kernel.unread(&ring.head, SLOTS).unwrap() == SLOTS {
                thread::yield_now();
            }
            ring.slot(kernel.index()).store(number, Ordering::Relaxed);
            kernel.publish(&ring.tail);
        }
        process.join().unwrap();
        assert_eq!(kernel.unread(&ring.head, SLOTS), Ok(0));
    });
}

/// Another thread of the process overwrites all four indices at any time. The kernel rejects an impossible index, or
/// accepts a possible one; its own advance by one each time, whatever the ring contains.
#[test]
fn overwritten_indices_are_possible_or_corrupt() {
    explore(3, || {
        let rings = Arc::new((Ring::new(), Ring::new()));
        let attacker = {
            let rings = Arc::clone(&rings);
            thread::spawn(move || {
                let (submissions, completions) = &*rings;
                submissions.tail.store(START.wrapping_add(1), Ordering::Relaxed);
                completions.head.store(START.wrapping_sub(2), Ordering::Relaxed);
                submissions.head.store(7, Ordering::Relaxed);
                completions.tail.store(7, Ordering::Relaxed);
                submissions.tail.store(START.wrapping_add(SLOTS + 1), Ordering::Relaxed);
            })
        };
        let (submissions, completions) = &*rings;
        let (mut consumer, mut producer) = (Consumer::new(START), Producer::new(START));
        let possible = |index: u32, from: u32| (0..=SLOTS).any(|step| from.wrapping_add(step) == index);
        for step in 0..3_u32 {
            assert_eq!(consumer.index(), START.wrapping_add(step.min(1)));
            match consumer.pending(&submissions.tail, SLOTS) {
                Ok(count) => assert!(count <= SLOTS),
                Err(tail) => assert!(!possible(tail, consumer.index()), "{tail} could be"),
            }
            match producer.unread(&completions.head, SLOTS) {
                Ok(count) => assert!(count <= SLOTS),
                Err(head) => assert!(!possible(producer.index(), head), "{head} could be"),
            }
            if step == 0 {
                consumer.advance(&submissions.head);
                producer.publish(&completions.tail);
            }
        }
        attacker.join().unwrap();
        assert_eq!((consumer.index(), producer.index()), (START.wrapping_add(1), START.wrapping_add(1)));
        let corrupt = START.wrapping_add(SLOTS + 1);
        // By now three ahead of where the kernel began, and two of where it is.
        assert_eq!(consumer.pending(&submissions.tail, SLOTS), Ok(SLOTS));
        assert_eq!(Consumer::new(START).pending(&submissions.tail, SLOTS), Err(corrupt));
        // The process's side stays within its rings as well.
        assert!(completions.consumer().unread(SLOTS) <= SLOTS);
    });
}
