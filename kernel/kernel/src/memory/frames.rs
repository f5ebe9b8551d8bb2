//! The frames of physical memory.
//!
//! One bitmap for the whole machine, behind one lock. The bitmap covers all RAM; what the loader,
//! the firmware or the kernel image occupy is never marked free. The first MiB is left alone:
//! firmware uses it, and processors are started from there.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

pub use capos_machine::bitmap::BLOCK;
use capos_machine::bitmap::{self, Bitmap};
use capos_machine::page_entry::PAGE;
use capos_machine::range::Range;
use spin::Mutex;

use super::{hhdm, reserve};

/// Memory below this address is not handed out.
const LOWEST: u64 = 0x10_0000;

/// A 4 KiB physical frame, by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Frame(u64);

impl Frame {
    /// The first of memory, which is left alone.
    pub const FIRST: Frame = Frame(0);

    /// Physical address of its first byte. Addresses have 52 bits at most, so nothing overflows.
    pub fn address(self) -> u64 {
        self.0.wrapping_mul(PAGE)
    }

    /// The same, as it is entered into a page table. The frame has come from the pool, so nothing is lost.
    #[inline]
    pub(super) fn entered(self) -> u64 {
        self.0.wrapping_mul(PAGE)
    }

    /// The frame that holds this physical address.
    pub fn from_address(address: u64) -> Frame {
        Frame(address / PAGE)
    }

    /// Its first byte in the direct map. Valid while the frame is RAM.
    pub fn pointer(self) -> *mut u8 {
        hhdm::pointer(self.address())
    }

    /// The frame `n` places further.
    pub fn offset(self, n: usize) -> Frame {
        Frame(self.0.wrapping_add(n as u64))
    }
}

struct Pool {
    bitmap: Bitmap<'static>,
    /// How many objects have each frame besides the first.
    shares: &'static [AtomicU8],
    /// Frames that were ever given to the pool.
    total: usize,
}

static POOL: Mutex<Option<Pool>> = Mutex::new(None);
/// How many frames are free, so that looking takes no lock.
static FREE: AtomicUsize = AtomicUsize::new(0);

/// Requests that are granted before one is refused; [`usize::MAX`] where none is.
#[cfg(feature = "tests")]
static GRANTED: AtomicUsize = AtomicUsize::new(usize::MAX);

/// For tests: grants this many more requests that may be refused, and refuses the one behind them.
#[cfg(feature = "tests")]
pub fn refuse_after(requests: usize) {
    GRANTED.store(requests, Ordering::Relaxed);
}

/// Refuses nothing any more. Whether one has been refused since [`refuse_after`].
#[cfg(feature = "tests")]
pub fn refuse_none() -> bool {
    GRANTED.swap(usize::MAX, Ordering::Relaxed) == usize::MAX
}

/// Whether this request is the one that a test wants refused.
#[cfg(feature = "tests")]
fn is_refused() -> bool {
    let granted = GRANTED.load(Ordering::Relaxed);
    if granted == usize::MAX {
        return false;
    }
    // Tests have one processor. Behind the last one granted comes "none", which is the largest number.
    GRANTED.store(granted.wrapping_sub(1), Ordering::Relaxed);
    granted == 0
}

#[cfg(not(feature = "tests"))]
const fn is_refused() -> bool {
    false
}

impl Pool {
    /// The first of `count` frames in a row, where `kept` frames stay free.
    fn take(&mut self, count: usize, kept: usize) -> Option<Frame> {
        if self.bitmap.free_count() < count.saturating_add(kept) {
            return None;
        }
        let index = match count {
            1 => self.bitmap.take()?,
            _ => self.bitmap.take_run(count)?,
        };
        self.note_free();
        Some(Frame(index as u64))
    }

    /// The first frame of a block, where `kept` frames stay free.
    fn take_block(&mut self, kept: usize) -> Option<Frame> {
        if self.bitmap.free_count() < BLOCK.saturating_add(kept) {
            return None;
        }
        let index = self.bitmap.take_block()?;
        self.note_free();
        Some(Frame(index as u64))
    }

    /// One of several objects that have a frame lets go of it. False where it is the only one.
    #[inline]
    fn unshare(&self, frame: Frame) -> bool {
        let shares = self.shares.get(frame.0 as usize);
        shares.is_some_and(|shares| {
            let less = shares.load(Ordering::Relaxed).checked_sub(1);
            less.into_iter().for_each(|less| shares.store(less, Ordering::Relaxed));
            less.is_some()
        })
    }

    fn note_free(&self) {
        FREE.store(self.bitmap.free_count(), Ordering::Relaxed);
    }
}

/// A zeroed frame, or `None` where none is left but those kept for the heap.
pub fn allocate() -> Option<Frame> {
    let frame = allocate_dirty()?;
    zero(frame);
    Some(frame)
}

/// A frame with whatever was in it before. For callers that overwrite all of it.
pub fn allocate_dirty() -> Option<Frame> {
    if is_refused() {
        return None;
    }
    POOL.lock().as_mut()?.take(1, reserve::kept())
}

/// A frame for the heap, which may have the last one.
pub fn allocate_for_heap() -> Option<Frame> {
    POOL.lock().as_mut()?.take(1, 0)
}

/// `count` frames in a row, with whatever was in them before; gives the first. `None` where no such run is left.
pub fn allocate_contiguous_dirty(count: usize) -> Option<Frame> {
    if is_refused() {
        return None;
    }
    POOL.lock().as_mut()?.take(count, reserve::kept())
}

/// [`BLOCK`] frames in a row, of which a large page can be made, with whatever was in them before; gives the first. Who gets none takes
/// single frames: this is never one of the requests that a test wants refused.
pub fn allocate_block_dirty() -> Option<Frame> {
    POOL.lock().as_mut()?.take_block(reserve::kept())
}

/// Gives a whole block back, by its first frame.
pub fn free_block(first: Frame) {
    let freed = POOL.lock().as_mut().is_some_and(|pool| {
        let freed = pool.bitmap.release_block(first.0 as usize);
        pool.note_free();
        freed
    });
    assert!(freed, "a frame of the block at {:#x} was freed twice, or is no RAM", first.address());
}

/// One more object has a frame that came from here, and gives it back by [`free`] as the others do. False where there are too
/// many, or it did not come from here.
pub fn share(frame: Frame) -> bool {
    POOL.lock().as_ref().is_some_and(|pool| {
        let index = frame.0 as usize;
        let Some(shares) = pool.shares.get(index).filter(|_| !pool.bitmap.is_free(index)) else { return false };
        let more = shares.load(Ordering::Relaxed).checked_add(1);
        more.map(|more| shares.store(more, Ordering::Relaxed)).is_some()
    })
}

/// Whether more than one object has a frame.
pub fn is_shared(frame: Frame) -> bool {
    let pool = POOL.lock();
    let shares = pool.as_ref().and_then(|pool| pool.shares.get(frame.0 as usize));
    shares.is_some_and(|shares| shares.load(Ordering::Relaxed) > 0)
}

/// Gives a frame back. It must have come from here, and whoever gives it may not use it any more. Where others have it, it stays
/// theirs.
pub fn free(frame: Frame) {
    let freed = POOL.lock().as_mut().is_some_and(|pool| {
        if pool.unshare(frame) {
            return true;
        }
        let freed = pool.bitmap.release(frame.0 as usize);
        pool.note_free();
        freed
    });
    assert!(freed, "frame {:#x} was freed twice, or is no RAM", frame.address());
}

/// How many frames are free now.
pub fn free_count() -> usize {
    FREE.load(Ordering::Relaxed)
}

/// How many frames there are for the kernel and all processes, used or free.
pub fn total() -> usize {
    POOL.lock().as_ref().map_or(0, |pool| pool.total)
}

/// Fills a frame with zeros.
pub fn zero(frame: Frame) {
    // SAFETY: a frame lies in the direct map, is 4 KiB long and page aligned, and its owner, who
    // calls this, is the only one to use it. The loop writes exactly 64 times 64 bytes. Plain
    // stores are used because an emulator runs string instructions byte by byte.
    unsafe {
        core::arch::asm!(
            "2:",
            "mov [{p}], {z}", "mov [{p} + 8], {z}", "mov [{p} + 16], {z}", "mov [{p} + 24], {z}",
            "mov [{p} + 32], {z}", "mov [{p} + 40], {z}", "mov [{p} + 48], {z}", "mov [{p} + 56], {z}",
            "add {p}, 64",
            "dec {n:e}",
            "jnz 2b",
            p = inout(reg) frame.pointer() => _,
            n = inout(reg) 64u64 => _,
            z = in(reg) 0u64,
            options(nostack)
        );
    }
}

/// Sets the pool up over RAM that ends at `end`, with the usable ranges `usable`. False where no
/// range has room for the bitmap.
///
/// # Safety
/// The ranges must be RAM that nothing uses, mapped in the direct map.
pub unsafe fn initialize(end: u64, usable: impl Iterator<Item = Range> + Clone) -> bool {
    let frames = (end / PAGE) as usize;
    let words = bitmap::words_for(frames);
    let shares = frames.saturating_mul(size_of::<AtomicU8>());
    let bytes = (words.saturating_mul(8).saturating_add(shares) as u64).next_multiple_of(PAGE);
    let home = usable.clone().filter_map(handed_out).find(|range| range.length() >= bytes);
    let Some(home) = home else { return false };
    let own = Range::new(home.start, bytes);
    let counts = own.start.saturating_add(words.saturating_mul(8) as u64);
    (counts / PAGE..own.end / PAGE).for_each(|page| zero(Frame(page)));
    // SAFETY: `own` lies in a usable range, so it is RAM that nothing else uses, and it is taken
    // out of what the pool hands out below. Every bit pattern is a valid u64; `Bitmap::new`
    // clears them.
    let words = unsafe { core::slice::from_raw_parts_mut(hhdm::pointer::<u64>(own.start), words) };
    // SAFETY: the part of `own` behind the words, which has room for this many; zeros were written there.
    let shares = unsafe { core::slice::from_raw_parts(hhdm::pointer::<AtomicU8>(counts), frames) };
    let mut pool = Pool { bitmap: Bitmap::new(words, frames), shares, total: 0 };
    for range in usable.filter_map(handed_out) {
        for part in range.without(own) {
            give(&mut pool, part);
        }
    }
    *POOL.lock() = Some(pool);
    true
}

/// Adds RAM that was in use until now, such as what the loader left behind.
///
/// # Safety
/// Nothing may use the range any more, and it must be RAM in the direct map below the pool's end.
pub unsafe fn add(range: Range) {
    if let (Some(pool), Some(range)) = (POOL.lock().as_mut(), handed_out(range)) {
        give(pool, range);
    }
}

fn give(pool: &mut Pool, range: Range) {
    if !range.is_empty() {
        let before = pool.bitmap.free_count();
        pool.bitmap.release_range((range.start / PAGE) as usize, (range.end / PAGE) as usize);
        pool.total = pool.total.saturating_add(pool.bitmap.free_count().saturating_sub(before));
        pool.note_free();
    }
}

/// The whole pages of a range that the pool may hand out.
fn handed_out(range: Range) -> Option<Range> {
    let pages = Range { start: range.start.max(LOWEST), end: range.end }.inner_pages();
    (!pages.is_empty()).then_some(pages)
}
