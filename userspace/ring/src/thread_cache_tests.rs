use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use proptest::prelude::*;

use super::*;

/// The host's allocator, counting allocated blocks and how often it was called.
#[derive(Default)]
struct Counted {
    blocks: AtomicUsize,
    bytes: AtomicUsize,
    visits: AtomicUsize,
    /// Bytes that may be out at once; 0 for any number.
    limit: usize,
}

impl BlockSource for Counted {
    fn take(&self, layout: Layout, count: usize, mut each: impl FnMut(NonNull<u8>)) {
        self.visits.fetch_add(1, Ordering::Relaxed);
        for _ in 0..count {
            let bytes = self.bytes.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
            if self.limit > 0 && bytes > self.limit {
                self.bytes.fetch_sub(layout.size(), Ordering::Relaxed);
                return;
            }
            self.blocks.fetch_add(1, Ordering::Relaxed);
            // SAFETY: no size is 0.
            each(NonNull::new(unsafe { std::alloc::alloc(layout) }).unwrap());
        }
    }

    unsafe fn give(&self, layout: Layout, mut next: impl FnMut() -> Option<NonNull<u8>>) {
        self.visits.fetch_add(1, Ordering::Relaxed);
        while let Some(block) = next() {
            self.blocks.fetch_sub(1, Ordering::Relaxed);
            self.bytes.fetch_sub(layout.size(), Ordering::Relaxed);
            // SAFETY: it came from `take` with this layout.
            unsafe { std::alloc::dealloc(block.as_ptr(), layout) };
        }
    }
}

impl Counted {
    fn out(&self) -> (usize, usize) {
        (self.blocks.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 8).unwrap()
}

/// A block that is filled with a number of its own.
#[derive(Debug)]
struct Block {
    at: NonNull<u8>,
    bytes: usize,
    mark: u8,
}

// SAFETY: the holder of the block is its only user.
unsafe impl Send for Block {}

impl Block {
    fn new(cache: &ThreadCache, source: &Counted, bytes: usize, mark: u8) -> Option<Self> {
        let at = cache.allocate(source, layout(bytes))?;
        assert!(at.as_ptr().addr().is_multiple_of(16));
        // SAFETY: the block is new and has this many bytes.
        unsafe { at.write_bytes(mark, bytes) };
        Some(Self { at, bytes, mark })
    }

    fn release(self, cache: &ThreadCache, source: &Counted) {
        // SAFETY: made by `new`.
        let content = unsafe { core::slice::from_raw_parts(self.at.as_ptr(), self.bytes) };
        assert!(content.iter().all(|byte| *byte == self.mark), "somebody else wrote into the block");
        // SAFETY: as above; it is not used any more.
        unsafe { cache.release(source, self.at, layout(self.bytes)) };
    }
}

#[test]
fn each_length_gets_the_smallest_size_that_holds_it() {
    let sizes: Vec<usize> = (0..SIZES).map(size_bytes).collect();
    assert!(sizes.iter().all(|size| size.is_multiple_of(ALIGN)) && sizes.is_sorted());
    assert_eq!(sizes.last(), Some(&LARGEST));
    for bytes in 0..=LARGEST {
        let smallest = sizes.iter().position(|size| *size >= bytes).unwrap();
        assert_eq!(size_number(bytes), smallest, "{bytes} bytes");
    }
    assert!(!ThreadCache::keeps(layout(LARGEST + 1)));
    assert!(!ThreadCache::keeps(Layout::from_size_align(64, 32).unwrap()));
    assert!(ThreadCache::same_size(layout(33), layout(48)) && !ThreadCache::same_size(layout(32), layout(33)));
}

#[test]
fn what_a_thread_keeps_is_bounded_and_goes_back() {
    let (cache, source) = (ThreadCache::new(), Counted::default());
    for number in 0..SIZES {
        let blocks: Vec<Block> =
            (0..200).map(|mark| Block::new(&cache, &source, size_bytes(number), mark).unwrap()).collect();
        blocks.into_iter().for_each(|block| block.release(&cache, &source));
    }
    let (_, kept) = source.out();
    assert!(kept > most_kept() / 2 && kept <= most_kept(), "{kept} of {} bytes", most_kept());
    cache.give_back(&source);
    assert_eq!(source.out(), (0, 0));
}

#[test]
fn most_allocations_need_nobody_else() {
    let (cache, source) = (ThreadCache::new(), Counted::default());
    for round in 0..1000_usize {
        let blocks: Vec<Block> =
            (0..8).map(|at| Block::new(&cache, &source, 24 + at * 8 % 64, round as u8).unwrap()).collect();
        blocks.into_iter().for_each(|block| block.release(&cache, &source));
    }
    assert!(source.visits.load(Ordering::Relaxed) < 10);
    cache.give_back(&source);
}

#[test]
fn where_there_is_no_memory_what_is_kept_goes_first() {
    let (cache, source) = (ThreadCache::new(), Counted { limit: 4096, ..Counted::default() });
    let small: Vec<Block> = (0..64).map(|mark| Block::new(&cache, &source, 64, mark).unwrap()).collect();
    assert!(Block::new(&cache, &source, 1024, 0).is_none());
    small.into_iter().for_each(|block| block.release(&cache, &source));
    // 64 blocks of 64 bytes are in the stock and there are no others.
    let large: Vec<Block> = (0..4).map(|mark| Block::new(&cache, &source, 1024, mark).unwrap()).collect();
    assert!(Block::new(&cache, &source, 1024, 0).is_none());
    large.into_iter().for_each(|block| block.release(&cache, &source));
    cache.give_back(&source);
    assert_eq!(source.out(), (0, 0));
}

/// Threads in a ring: each releases what the one before it has allocated.
#[test]
fn blocks_of_other_threads_are_taken_back() {
    const THREADS: usize = 4;
    const BLOCKS: usize = 5000;
    let source = Counted::default();
    let (mut senders, mut receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel::<Block>()).unzip();
    senders.rotate_left(1);
    thread::scope(|scope| {
        for (number, (sender, receiver)) in senders.drain(..).zip(receivers.drain(..)).enumerate() {
            let source = &source;
            scope.spawn(move || {
                let cache = ThreadCache::new();
                for round in 0..BLOCKS {
                    let bytes = 1 + (round * 37 + number * 11) % LARGEST;
                    sender.send(Block::new(&cache, source, bytes, number as u8).unwrap()).unwrap();
                    receiver.try_iter().for_each(|block| block.release(&cache, source));
                }
                drop(sender);
                receiver.iter().for_each(|block| block.release(&cache, source));
                cache.give_back(source);
            });
        }
    });
    assert_eq!(source.out(), (0, 0));
}

proptest! {
    #[test]
    fn blocks_never_overlap_and_all_go_back(steps in prop::collection::vec((0..64_usize, 1..=LARGEST), 1..400)) {
        let (cache, source) = (ThreadCache::new(), Counted::default());
        let mut held: Vec<Option<Block>> = (0..64).map(|_| None).collect();
        for (mark, (place, bytes)) in steps.into_iter().enumerate() {
            match held[place].take() {
                Some(block) => block.release(&cache, &source),
                None => held[place] = Block::new(&cache, &source, bytes, mark as u8),
            }
        }
        for block in held.into_iter().flatten() {
            block.release(&cache, &source);
        }
        cache.give_back(&source);
        prop_assert_eq!(source.out(), (0, 0));
    }
}
