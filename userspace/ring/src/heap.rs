//! The process's one heap. It begins with an arena inside the program and grows by memory objects that the
//! process's account pays for.
//!
//! Growing calls the kernel while the allocator is locked, so it must not allocate. `raw_calls`
//! makes its messages on the stack, and it takes its completions from the ring among those of
//! others.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;

use capos_abi::bootstrap::{HEAP_START, MAP_START};
use lock_api::RawMutex;
use talc::TalcLock;
use talc::base::Talc;
use talc::base::binning::Binning;
use talc::source::Source;

use crate::addresses::PAGE;
use crate::blocking::Here;
use crate::raw_calls;
use crate::ring::Ring;
use crate::thread_cache::BlockSource;

/// Bytes of the arena that the heap begins with.
const ARENA: usize = 48 << 10;
/// The first growth, in bytes; the next ones are half of the heap so far.
const FIRST_GROWTH: u64 = 64 << 10;
/// The largest growth of a small heap that is not asked for by a single allocation.
const LARGEST_GROWTH: u64 = 1 << 20;
/// The part of a large heap that it grows by at least. Each growth is an object of the account, which has few: 60 of
/// them are a gigabyte.
const GROWTH_PART: u64 = 8;
/// Room for the allocator's own accounts of an allocation, in bytes.
const OVERHEAD: u64 = 128;

/// The process's allocator, protected by a lock of this kind.
pub struct Heap<L: RawMutex>(TalcLock<L, Growth>);

impl<L: RawMutex> Heap<L> {
    /// The arena alone.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "there is one, in a static")]
    pub const fn new() -> Self {
        Self(TalcLock::new(Growth { begun: false, end: HEAP_START, heap_end: None, means: None }))
    }

    /// Lets it grow at the expense of an account, into an address space.
    ///
    /// # Safety
    /// `here` is correct ([`Here`]). Nothing else of the process maps anything from
    /// [`HEAP_START`](capos_abi::bootstrap::HEAP_START) to [`MAP_START`](capos_abi::bootstrap::MAP_START).
    pub unsafe fn use_kernel_memory(&self, account: u64, space: u64, here: Here) {
        self.0.lock().source.means = Some(Means { account, space, here });
    }
}

// SAFETY: all of it is the inner allocator's.
unsafe impl<L: RawMutex> GlobalAlloc for Heap<L> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's allocation.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's allocation.
        unsafe { self.0.realloc(pointer, layout, size) }
    }
}

impl<L: RawMutex> BlockSource for Heap<L> {
    fn take(&self, layout: Layout, count: usize, mut each: impl FnMut(NonNull<u8>)) {
        let mut heap = self.0.lock();
        for _ in 0..count {
            // SAFETY: the layout is not empty: no size of a block is.
            let Some(block) = (unsafe { heap.allocate(layout) }) else { return };
            each(block);
        }
    }

    unsafe fn give(&self, layout: Layout, mut next: impl FnMut() -> Option<NonNull<u8>>) {
        let mut heap = self.0.lock();
        while let Some(block) = next() {
            // SAFETY: the caller's block, allocated with this layout.
            unsafe { heap.deallocate(block.as_ptr(), layout) };
        }
    }
}

/// How it grows: the process's account and address space, and the ring of the thread that needs memory.
#[derive(Clone, Copy, Debug)]
struct Means {
    account: u64,
    space: u64,
    here: Here,
}

impl Means {
    /// Makes memory and maps it at `start`, readable and writable.
    fn grow(&self, start: u64, bytes: u64) -> bool {
        // SAFETY: the caller that gave the means vouches for `here`.
        unsafe { Ring::at((self.here)()) }
            .is_ok_and(|ring| raw_calls::grow(&ring, self.account, self.space, start, bytes))
    }
}

/// Where the heap gets memory from.
#[derive(Debug)]
struct Growth {
    /// Whether the arena was claimed.
    begun: bool,
    /// Where the last claimed range ends.
    end: u64,
    /// Its end as the allocator names it.
    heap_end: Option<NonNull<u8>>,
    means: Option<Means>,
}

// SAFETY: `heap_end` is an address inside memory that only the allocator uses, under its lock.
unsafe impl Send for Growth {}

#[repr(C, align(16))]
struct Arena(core::cell::UnsafeCell<[u8; ARENA]>);

// SAFETY: only its address is taken, once, by the allocator.
unsafe impl Sync for Arena {}

static START: Arena = Arena(core::cell::UnsafeCell::new([0; ARENA]));

// SAFETY: `acquire` gives the allocator memory that nothing else uses and does not allocate.
unsafe impl Source for Growth {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        if !talc.source.begun {
            talc.source.begun = true;
            // SAFETY: the arena is used by nothing else, and claimed only here.
            unsafe { talc.claim(START.0.get().cast(), ARENA) };
            return Ok(());
        }
        let means = talc.source.means.ok_or(())?;
        let wanted = u64::try_from(layout.size().saturating_add(layout.align())).map_err(|_| ())?;
        let so_far = talc.source.end.saturating_sub(HEAP_START);
        let least = wanted.saturating_add(OVERHEAD).checked_next_multiple_of(PAGE).ok_or(())?;
        let step = (so_far / 2).clamp(FIRST_GROWTH, LARGEST_GROWTH).max(so_far / GROWTH_PART);
        let page_of = |bytes: u64| bytes & !(PAGE - 1);
        let mut bytes = least.max(page_of(step));
        let start = talc.source.end;
        start.checked_add(bytes).filter(|end| *end <= MAP_START).ok_or(())?;
        // Near the account's limit it takes almost all that is left: single small requests would each take an object.
        while !means.grow(start, bytes) {
            if bytes == least {
                return Err(());
            }
            bytes = least.max(page_of(bytes / 2));
        }
        let end = start.saturating_add(bytes);
        talc.source.end = end;
        let pointer =
            |address: u64| -> *mut u8 { core::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0)) };
        talc.source.heap_end = match talc.source.heap_end {
            // SAFETY: the kernel has just mapped the range after the heap; nothing else uses it.
            Some(heap_end) => Some(unsafe { talc.extend(heap_end, pointer(end)) }),
            // SAFETY: the same, as a heap of its own.
            None => unsafe { talc.claim(pointer(start), usize::try_from(bytes).map_err(|_| ())?) },
        };
        if talc.source.heap_end.is_some() { Ok(()) } else { Err(()) }
    }
}
