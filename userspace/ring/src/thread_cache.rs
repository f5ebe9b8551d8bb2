//! A thread's own stock of free blocks, from which most allocations are served without a lock.
//!
//! Blocks of up to [`LARGEST`] bytes are sorted by size. An empty list is filled from the process's heap, several
//! blocks under one lock, and a list that grows too long gives as many back. So the lock is taken once for many
//! allocations, however many threads there are. A stock is bounded, and returns to the heap when its thread ends.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

/// The largest block that is kept, in bytes. Others are the heap's at once.
pub const LARGEST: usize = 2048;
/// Alignment of all blocks.
const ALIGN: usize = 16;
/// Sizes up to this are multiples of [`ALIGN`]; above it there are four to each doubling.
const FINE: usize = 128;
const FINE_SIZES: usize = FINE / ALIGN;
const SIZES: usize = FINE_SIZES + 4 * (LARGEST / FINE).ilog2() as usize;
/// Bytes of the blocks of one size that come or go at a time, and between how many of them that is.
const BATCH_BYTES: usize = 2048;
const LEAST_BATCH: usize = 2;
const LARGEST_BATCH: usize = 32;

/// Where blocks come from. It serves all threads.
pub trait BlockSource {
    /// Gives up to `count` blocks, each to `each`; fewer if memory runs out.
    fn take(&self, layout: Layout, count: usize, each: impl FnMut(NonNull<u8>));

    /// Takes blocks back for as long as `next` has one.
    ///
    /// # Safety
    /// Each came from [`take`](BlockSource::take) with this layout, and is no longer used.
    unsafe fn give(&self, layout: Layout, next: impl FnMut() -> Option<NonNull<u8>>);
}

/// The start of a free block.
struct Free {
    next: Option<NonNull<Free>>,
}

/// The free blocks of one size.
#[derive(Debug)]
struct List {
    first: Cell<Option<NonNull<Free>>>,
    length: Cell<usize>,
}

impl List {
    const fn new() -> Self {
        Self { first: Cell::new(None), length: Cell::new(0) }
    }

    #[inline]
    fn pop(&self) -> Option<NonNull<u8>> {
        let first = self.first.get()?;
        // SAFETY: the block is free and its first bytes are ours, written by `push`.
        self.first.set(unsafe { first.read() }.next);
        // It counts this one.
        self.length.set(self.length.get().wrapping_sub(1));
        Some(first.cast())
    }

    /// # Safety
    /// An unused block of this list's size.
    #[inline]
    unsafe fn push(&self, block: NonNull<u8>) {
        let block = block.cast::<Free>();
        // SAFETY: the caller's; every size has room for it, and alignment.
        unsafe { block.write(Free { next: self.first.get() }) };
        self.first.set(Some(block));
        self.length.set(self.length.get().wrapping_add(1));
    }
}

/// The number of the smallest size that holds `bytes` bytes, at most [`LARGEST`].
#[inline]
fn size_number(bytes: usize) -> usize {
    let last = bytes.saturating_sub(1);
    if last < FINE {
        return last / ALIGN;
    }
    let doubling = last.ilog2() as usize;
    FINE_SIZES + (doubling - FINE.ilog2() as usize) * 4 + (last >> (doubling - 2)) % 4
}

/// Its bytes.
const fn size_bytes(number: usize) -> usize {
    match number.checked_sub(FINE_SIZES) {
        None => (number + 1) * ALIGN,
        Some(above) => (FINE << (above / 4)) / 4 * (5 + above % 4),
    }
}

/// How many blocks of a size come or go at a time.
const fn batch(number: usize) -> usize {
    match BATCH_BYTES / size_bytes(number) {
        ..LEAST_BATCH => LEAST_BATCH,
        count @ LEAST_BATCH..LARGEST_BATCH => count,
        LARGEST_BATCH.. => LARGEST_BATCH,
    }
}

/// How many blocks of each size are kept at most.
#[expect(clippy::indexing_slicing, reason = "an index beyond the end would not compile")]
const MOST: [usize; SIZES] = {
    let (mut most, mut number) = ([0; SIZES], 0);
    while number < SIZES {
        most[number] = 2 * batch(number);
        number += 1;
    }
    most
};

/// The most bytes that all lists of a thread hold together.
#[expect(clippy::indexing_slicing, reason = "only a constant is made of it: an index beyond the end would not compile")]
const fn most_kept() -> usize {
    let (mut number, mut bytes) = (0, 0);
    while number < SIZES {
        bytes += MOST[number] * size_bytes(number);
        number += 1;
    }
    bytes
}

const _: () = assert!(most_kept() <= 128 << 10, "a thread is to keep no more than 128 KiB");

/// A thread's stock. All bytes zero is an empty one.
#[derive(Debug)]
pub struct ThreadCache([List; SIZES]);

impl Default for ThreadCache {
    fn default() -> Self {
        Self::new()
    }
}

impl ThreadCache {
    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        Self([const { List::new() }; SIZES])
    }

    /// Which size serves a layout, if any does.
    #[inline]
    fn size_for(layout: Layout) -> Option<usize> {
        (layout.size() <= LARGEST && layout.align() <= ALIGN).then(|| size_number(layout.size()))
    }

    /// Whether blocks of this layout are kept. All others are the source's own matter.
    #[inline]
    #[must_use]
    pub fn keeps(layout: Layout) -> bool {
        Self::size_for(layout).is_some()
    }

    /// The layout of the blocks that serve a layout which [is kept](ThreadCache::keeps): with it they come from the source,
    /// and go back to it.
    #[inline]
    #[must_use]
    pub fn block_layout(layout: Layout) -> Option<Layout> {
        Self::size_for(layout).and_then(Self::layout)
    }

    /// Whether a block of one layout serves as one of the other.
    #[inline]
    #[must_use]
    pub fn same_size(one: Layout, other: Layout) -> bool {
        Self::size_for(one).is_some_and(|size| Self::size_for(other) == Some(size))
    }

    /// A block for a layout, if one is in stock.
    #[inline]
    pub fn take(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.0.get(Self::size_for(layout)?)?.pop()
    }

    /// Takes a block back, if there is room for it; whether there was.
    ///
    /// # Safety
    /// As [`ThreadCache::release`].
    #[inline]
    pub unsafe fn keep(&self, block: NonNull<u8>, layout: Layout) -> bool {
        let size = Self::size_for(layout).and_then(|number| Some((self.0.get(number)?, MOST.get(number)?)));
        let Some((list, _)) = size.filter(|(list, most)| list.length.get() < **most) else { return false };
        // SAFETY: the caller's.
        unsafe { list.push(block) };
        true
    }

    /// A block for a layout that [is kept](ThreadCache::keeps); `None` if there is no memory for one.
    #[inline]
    pub fn allocate(&self, source: &impl BlockSource, layout: Layout) -> Option<NonNull<u8>> {
        let number = Self::size_for(layout)?;
        let list = self.0.get(number)?;
        list.pop().or_else(|| {
            self.fill(source, number, list);
            list.pop()
        })
    }

    #[cold]
    fn fill(&self, source: &impl BlockSource, number: usize, list: &List) {
        let Some(layout) = Self::layout(number) else { return };
        // SAFETY: the block is new and has the list's size.
        source.take(layout, batch(number), |block| unsafe { list.push(block) });
        if list.length.get() == 0 {
            // Blocks of other sizes may be the memory that the source lacks.
            self.give_back(source);
            // SAFETY: as above.
            source.take(layout, 1, |block| unsafe { list.push(block) });
        }
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// It was allocated with this layout, by this thread or another one from the same source, and is no longer used.
    #[inline]
    pub unsafe fn release(&self, source: &impl BlockSource, block: NonNull<u8>, layout: Layout) {
        let size = Self::size_for(layout).and_then(|number| Some((number, self.0.get(number)?, MOST.get(number)?)));
        let Some((number, list, most)) = size else { return };
        if list.length.get() >= *most {
            Self::empty(source, number, list, batch(number));
        }
        // SAFETY: the caller's.
        unsafe { list.push(block) };
    }

    /// Gives blocks of a size back until `left` remain.
    #[cold]
    fn empty(source: &impl BlockSource, number: usize, list: &List, left: usize) {
        let Some(layout) = Self::layout(number) else { return };
        // SAFETY: the blocks of a list came from the source with its size's layout.
        unsafe { source.give(layout, || if list.length.get() > left { list.pop() } else { None }) };
    }

    /// Gives all back, as when the thread ends.
    pub fn give_back(&self, source: &impl BlockSource) {
        for (number, list) in self.0.iter().enumerate().filter(|(_, list)| list.length.get() > 0) {
            Self::empty(source, number, list, 0);
        }
    }

    fn layout(number: usize) -> Option<Layout> {
        Layout::from_size_align(size_bytes(number), ALIGN).ok()
    }
}

#[cfg(test)]
#[path = "thread_cache_tests.rs"]
mod tests;
