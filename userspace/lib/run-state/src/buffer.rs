//! Events on their way to a reader that may be slow or gone.

use alloc::collections::VecDeque;
use core::cell::{Cell, RefCell};

use capos_async_lock::Waiters;

use crate::event::{Record, Sink};

/// Keeps the newest events for one reader. It is bounded by records and by bytes: what has no room takes the place of the
/// oldest, and what was dropped is counted. So a reader that stalls costs bounded memory and delays nobody.
#[derive(Debug)]
pub struct Buffer {
    records: RefCell<VecDeque<Record>>,
    bytes: Cell<usize>,
    dropped: Cell<u64>,
    closed: Cell<bool>,
    most: usize,
    most_bytes: usize,
    waiting: Waiters,
}

impl Default for Buffer {
    /// Room for 256 records with 64 KiB.
    fn default() -> Self {
        Self::new(256, 64 << 10)
    }
}

impl Buffer {
    /// A buffer for at most this many records and bytes.
    #[must_use]
    pub fn new(most: usize, most_bytes: usize) -> Self {
        Self {
            records: RefCell::default(),
            bytes: Cell::new(0),
            dropped: Cell::new(0),
            closed: Cell::new(false),
            most,
            most_bytes,
            waiting: Waiters::default(),
        }
    }

    /// The oldest record, if there is one.
    pub fn pop(&self) -> Option<Record> {
        let record = self.records.borrow_mut().pop_front()?;
        self.bytes.set(self.bytes.get().saturating_sub(record.size()));
        Some(record)
    }

    /// The oldest record; waits for one if there is none. Nothing comes after the last one of a buffer that is closed.
    pub async fn next(&self) -> Option<Record> {
        let look = || self.pop().map(Some).or_else(|| self.closed.get().then_some(None));
        self.waiting.until(look).await
    }

    /// No record comes any more.
    pub fn close(&self) {
        self.closed.set(true);
        self.waiting.wake();
    }

    /// How many records were dropped since this was last asked.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.take()
    }

    /// Records that wait for the reader.
    pub fn len(&self) -> usize {
        self.records.borrow().len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the records that wait.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    fn is_full_for(&self, size: usize) -> bool {
        self.len() >= self.most || self.bytes.get().saturating_add(size) > self.most_bytes
    }
}

impl Sink for Buffer {
    fn emit(&self, record: Record) {
        let size = record.size();
        let mut dropped: u64 = 0;
        while self.is_full_for(size) && self.pop().is_some() {
            dropped = dropped.saturating_add(1);
        }
        if self.is_full_for(size) {
            // It has no room even alone.
            dropped = dropped.saturating_add(1);
        } else {
            self.bytes.set(self.bytes.get().saturating_add(size));
            self.records.borrow_mut().push_back(record);
        }
        self.dropped.set(self.dropped.get().saturating_add(dropped));
        self.waiting.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Ids};
    use alloc::string::String;
    use alloc::vec::Vec;
    use core::pin::pin;
    use core::task::{Context, Waker};
    use proptest::prelude::*;

    fn record(at: u64, bytes: usize) -> Record {
        Record { at, ids: Ids::default(), event: Event::TextChunk { text: "x".repeat(bytes) } }
    }

    fn drain(buffer: &Buffer) -> Vec<u64> {
        core::iter::from_fn(|| buffer.pop()).map(|record| record.at).collect()
    }

    #[test]
    fn e09_a_reader_that_stalls_loses_the_oldest_and_is_told_how_many() {
        let buffer = Buffer::new(3, usize::MAX);
        for at in 0..10 {
            buffer.emit(record(at, 1));
        }
        assert_eq!((buffer.len(), buffer.take_dropped(), buffer.take_dropped()), (3, 7, 0));
        assert_eq!(drain(&buffer), [7, 8, 9]);
        assert_eq!((buffer.bytes(), buffer.is_empty()), (0, true));
    }

    #[test]
    fn what_has_no_room_alone_is_dropped_with_all_before_it() {
        let buffer = Buffer::new(10, 1000);
        buffer.emit(record(1, 1));
        buffer.emit(record(2, 2000));
        assert_eq!((buffer.len(), buffer.bytes(), buffer.take_dropped()), (0, 0, 2));
        buffer.emit(record(3, 1));
        assert_eq!(drain(&buffer), [3]);
    }

    #[test]
    fn what_fits_exactly_is_kept() {
        let size = record(1, 5).size();
        let buffer = Buffer::new(2, size.checked_mul(2).unwrap());
        assert!(buffer.is_empty());
        for at in 0..2 {
            buffer.emit(record(at, 5));
        }
        assert_eq!((buffer.is_empty(), buffer.len(), buffer.take_dropped()), (false, 2, 0));
        assert_eq!(buffer.bytes(), size.checked_mul(2).unwrap());
    }

    #[test]
    fn a_reader_waits_for_the_next() {
        let buffer = Buffer::default();
        let cx = &mut Context::from_waker(Waker::noop());
        let mut next = pin!(buffer.next());
        assert!(next.as_mut().poll(cx).is_pending());
        buffer.emit(record(1, 1));
        assert!(next.as_mut().poll(cx).is_ready());
        let mut last = pin!(buffer.next());
        assert!(last.as_mut().poll(cx).is_pending());
        buffer.close();
        assert_eq!(last.as_mut().poll(cx), core::task::Poll::Ready(None));
    }

    proptest! {
        /// Whatever comes, and whenever it is read: the bounds hold, the order stays, and each record is either read or counted.
        #[test]
        fn bounds_hold_and_nothing_is_lost_uncounted(
            sizes in prop::collection::vec((0_usize..400, prop::bool::weighted(0.3)), 0..60),
            most in 1_usize..8,
            most_bytes in 100_usize..2000,
        ) {
            let buffer = Buffer::new(most, most_bytes);
            let mut read: Vec<u64> = Vec::new();
            for (at, (bytes, is_read)) in sizes.iter().enumerate() {
                buffer.emit(record(at as u64, *bytes));
                prop_assert!(buffer.len() <= most && buffer.bytes() <= most_bytes);
                if *is_read {
                    read.extend(buffer.pop().map(|record| record.at));
                }
            }
            read.extend(drain(&buffer));
            prop_assert!(read.windows(2).all(|pair| pair[0] < pair[1]), "{}", String::from("in order"));
            let counted = u64::try_from(read.len()).unwrap().saturating_add(buffer.take_dropped());
            prop_assert_eq!(counted, u64::try_from(sizes.len()).unwrap());
        }
    }
}
