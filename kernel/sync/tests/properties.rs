//! Invariants of the indices of rings: `docs/properties.md` lists it.
#![cfg(not(loom))]

use std::collections::VecDeque;

use capos_sync::primitives::{AtomicU32, Ordering};
use capos_sync::ring::{Consumer, Producer, SharedConsumer, SharedProducer};
use proptest::prelude::*;

proptest! {
    /// Either side fills and takes when it may; both always agree with a queue on the content of the ring.
    #[test]
    fn a_submission_ring_is_a_queue(
        start in prop_oneof![any::<u32>(), u32::MAX - 40..=u32::MAX],
        bits in 1_u32..5,
        operations in prop::collection::vec(any::<bool>(), 0..200),
    ) {
        let entries = 1_u32 << bits;
        let (head, tail) = (AtomicU32::new(start), AtomicU32::new(start));
        let process = SharedProducer { head: &head, tail: &tail };
        let mut kernel = Consumer::new(start);
        let mut model = VecDeque::new();
        for fills in operations {
            if fills && process.queued() < entries {
                model.push_back(process.index());
                process.publish();
            } else if !fills && kernel.pending(&tail, entries) != Ok(0) {
                prop_assert_eq!(model.pop_front(), Some(kernel.index()));
                kernel.advance(&head);
            }
            prop_assert_eq!(process.queued() as usize, model.len());
            prop_assert_eq!(kernel.pending(&tail, entries), Ok(process.queued()));
        }
    }

    #[test]
    fn a_completion_ring_is_a_queue(
        start in prop_oneof![any::<u32>(), u32::MAX - 40..=u32::MAX],
        bits in 1_u32..5,
        operations in prop::collection::vec(any::<bool>(), 0..200),
    ) {
        let entries = 1_u32 << bits;
        let (head, tail) = (AtomicU32::new(start), AtomicU32::new(start));
        let process = SharedConsumer { head: &head, tail: &tail };
        let mut kernel = Producer::new(start);
        let mut model = VecDeque::new();
        for fills in operations {
            if fills && kernel.unread(&head, entries) != Ok(entries) {
                model.push_back(kernel.index());
                kernel.publish(&tail);
            } else if !fills && process.unread(entries) > 0 {
                prop_assert_eq!(model.pop_front(), Some(process.index()));
                process.advance();
            }
            prop_assert_eq!(process.unread(entries) as usize, model.len());
            prop_assert_eq!(kernel.unread(&head, entries), Ok(process.unread(entries)));
        }
    }

    /// Whatever a process writes into all four indices, the kernel accepts no more than the ring can hold, names the
    /// implausible index, and continues from its own.
    #[test]
    fn any_indices_are_believed_within_the_ring_or_corrupt(
        own in any::<u32>(),
        written in any::<u32>(),
        near in 0_u32..40,
        bits in 1_u32..5,
    ) {
        let entries = 1_u32 << bits;
        for other in [written, own.wrapping_add(near), own.wrapping_sub(near)] {
            let (theirs, ours) = (AtomicU32::new(other), AtomicU32::new(written));
            let (mut consumer, mut producer) = (Consumer::new(own), Producer::new(own));
            let (ahead, behind) = (other.wrapping_sub(own), own.wrapping_sub(other));
            prop_assert_eq!(consumer.pending(&theirs, entries), if ahead <= entries { Ok(ahead) } else { Err(other) });
            prop_assert_eq!(producer.unread(&theirs, entries), if behind <= entries { Ok(behind) } else { Err(other) });
            consumer.advance(&ours);
            prop_assert_eq!((consumer.index(), ours.load(Ordering::Relaxed)), (own.wrapping_add(1), own.wrapping_add(1)));
            ours.store(written, Ordering::Relaxed);
            producer.publish(&ours);
            prop_assert_eq!((producer.index(), ours.load(Ordering::Relaxed)), (own.wrapping_add(1), own.wrapping_add(1)));
        }
    }
}
