//! The page cache: frames that hold pages of paged memory, shared by all who map them, and given
//! up when memory runs short.
//!
//! Pages that a mapping could show as one large page come into a block of frames in a row, as long as memory is
//! plentiful: its frames are held until the pages are asked for. They are the first to go when it is not.
//!
//! Locks are taken in this order: the clock, an object's pages, its mappings, an address space; [`HOLDERS`] last.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use capos_abi::Status;

use capos_captable::NodeId;
use capos_paging::{BLOCK_PAGES, Block, Clock, PAGE, PageState, Pages, Slot};
use spin::Mutex;

use crate::arch::processors;
use crate::cpu::budget::{Budget, cost};
use crate::cpu::kernel_lock::Exclusive;
use crate::memory::frames::{self, Frame};
use crate::memory::reserve;
use crate::object::endpoint::Client;
use crate::object::memory::page_request::PageIn;
use crate::object::memory::{MemoryObject, emptying};

/// Frames that the cache leaves free: what is kept for the kernel's heap, and some for page tables.
pub const RESERVE: usize = reserve::FRAMES + 512;

/// The page cache gives way before entries could not take the fast path for lack of memory.
const _: () = assert!(reserve::FRAMES + (processors::MOST - 1) * reserve::SHORT <= RESERVE);

/// Frames that are free besides where a block is kept for pages to come.
const PLENTY: usize = RESERVE + 4 * frames::BLOCK;

/// Objects looked at for one page that is to go. The page after the last of them goes, used or not.
const LOOKED_AT: usize = 32;

/// Which page an entry of the clock is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Page {
    object: u64,
    page: u64,
}

static CLOCK: Mutex<Clock<Page>> = Mutex::new(Clock::new());

/// Objects for whose pages frames are held, by number.
static HOLDERS: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
/// Frames that are held for pages to come.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Faults on a page that was in the cache.
pub static HITS: AtomicU64 = AtomicU64::new(0);
/// Faults that went to a pager.
pub static MISSES: AtomicU64 = AtomicU64::new(0);
/// Pages given up because memory ran short.
pub static EVICTIONS: AtomicU64 = AtomicU64::new(0);

/// A page in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Resident {
    pub frame: Frame,
    slot: Slot,
}

/// Which pages of an object are in, and what is under way.
#[derive(Debug)]
pub struct PagedContent {
    pub pager: Client,
    /// Its place in the forest: below the capability that the pager was named by.
    pub node: Mutex<Option<NodeId>>,
    pub state: Mutex<PagedState>,
}

/// The first of the pages that lie in a block with a page.
fn first_in_block(page: u64) -> u64 {
    page & !(BLOCK_PAGES - 1)
}

/// The changing part of it.
#[derive(Debug)]
pub struct PagedState {
    pub pages: Pages<u64, Resident>,
    /// Blocks that pages come into, with their first frames, by the first of [`BLOCK_PAGES`] pages.
    blocks: BTreeMap<u64, (Frame, Block)>,
    /// Requests by their first page.
    pub requests: BTreeMap<u64, Arc<PageIn>>,
    /// First page and length of the last request for several pages that failed: its pages are asked
    /// for one by one, so that a bad page does not take its neighbours with it.
    pub failed: Option<(u64, u64)>,
    /// The capability to its pager was revoked: no page comes in any more.
    pub abandoned: bool,
}

impl PagedState {
    /// The first frame of the block that holds [`BLOCK_PAGES`] pages from `first` on, where all of them are in, in their
    /// places.
    pub fn whole_block(&self, first: u64) -> Option<Frame> {
        self.blocks.get(&first).filter(|(_, block)| block.is_whole()).map(|(frame, _)| *frame)
    }

    /// Keeps a block for the pages from `first` on, where none of them is in or on its way and memory is plentiful.
    fn keep_block(&mut self, object: u64, first: u64) {
        if !self.blocks.contains_key(&first)
            && frames::free_count() >= PLENTY
            && self.pages.run_of_absent(first, BLOCK_PAGES) == BLOCK_PAGES
            && let Some(frame) = frames::allocate_block_dirty()
        {
            self.blocks.insert(first, (frame, Block::new()));
            HELD.fetch_add(frames::BLOCK, Ordering::Relaxed);
            HOLDERS.lock().insert(object);
        }
    }

    /// The block of a page, where the page is in its place there.
    fn block_of(&mut self, page: u64, frame: Frame) -> Option<&mut Block> {
        let (first, block) = self.blocks.get_mut(&first_in_block(page))?;
        (first.offset((page % BLOCK_PAGES) as usize) == frame).then_some(block)
    }

    /// Notes that a page that was in is not any more.
    fn remove(&mut self, page: u64, resident: Resident) {
        self.pages.remove(page);
        if let Some(block) = self.block_of(page, resident.frame) {
            block.empty();
            if block.is_empty() && block.held() == 0 {
                self.blocks.remove(&first_in_block(page));
            }
        }
    }

    /// Frees the frames that are held for pages to come, as far as the budget allows: a block at a time. Whether none is held.
    fn let_go(&mut self, budget: &mut Budget) -> bool {
        let mut done = true;
        self.blocks.retain(|_, (first, block)| {
            if block.held() > 0 {
                if budget.left() < cost::ALONE {
                    done = false;
                    return true;
                }
                budget.spend(cost::FREE.saturating_mul(free_held(*first, block)));
            }
            !block.is_empty()
        });
        if !done {
            budget.end();
        }
        done
    }
}

/// Frees the frames that a block holds for pages to come; how many.
fn free_held(first: Frame, block: &mut Block) -> u32 {
    let mut count: u32 = 0;
    for page in block.give_up() {
        frames::free(first.offset(page as usize));
        HELD.fetch_sub(1, Ordering::Relaxed);
        count = count.saturating_add(1);
    }
    count
}

impl PagedContent {
    /// `pages` pages, none of them in.
    pub fn new(pages: u64, pager: Client) -> Self {
        Self {
            pager,
            node: Mutex::new(None),
            state: Mutex::new(PagedState {
                pages: Pages::new(pages),
                blocks: BTreeMap::new(),
                requests: BTreeMap::new(),
                failed: None,
                abandoned: false,
            }),
        }
    }

    /// The frame of a page that is in.
    pub fn resident(&self, page: u64) -> Option<Frame> {
        match self.state.lock().pages.get(page) {
            Some(PageState::Resident(resident)) => Some(resident.frame),
            _ => None,
        }
    }

    /// How many pages are in.
    pub fn resident_count(&self) -> u64 {
        self.state.lock().pages.resident()
    }
}

/// Makes room for `count` pages that a pager is asked for: where the clock cannot become larger, pages give way, whose
/// places take no memory. False where there is no memory to keep them.
pub fn expect(lock: &mut Exclusive, count: u64) -> bool {
    let room = || CLOCK.lock().expect(count as usize);
    room() || ((0..count).all(|_| evict_one(lock)) && room())
}

/// This many of the pages that were asked for do not come.
pub fn take_back(count: u64) {
    CLOCK.lock().take_back(count as usize);
}

/// How many frames the cache holds, for pages that are in and for pages to come.
pub fn frames_held() -> usize {
    CLOCK.lock().len().saturating_add(HELD.load(Ordering::Relaxed))
}

/// Zeroed frames for pages from `first` on, which are to come in: those of blocks that are kept for them, and any
/// others. `large` are the pages, by the first of each [`BLOCK_PAGES`], that a block should be kept for.
///
/// # Errors
/// No memory.
pub fn frames_for(
    memory: &MemoryObject,
    (first, count): (u64, u64),
    large: impl Iterator<Item = u64>,
) -> Result<Vec<Frame>, Status> {
    let content = memory.paged_content().ok_or(Status::InvalidArgument)?;
    let mut taken = Vec::new();
    taken.try_reserve_exact(count as usize).map_err(|_| Status::OutOfMemory)?;
    let mut state = content.state.lock();
    large.for_each(|first| state.keep_block(memory.id, first));
    let (mut page, end) = (first, first.saturating_add(count));
    while page < end {
        let stop = end.min(first_in_block(page).saturating_add(BLOCK_PAGES));
        let mut block = state.blocks.get_mut(&first_in_block(page));
        for page in page..stop {
            let held = block.as_mut().and_then(|(frame, block)| {
                block.take(page).then(|| {
                    let held = frame.offset((page % BLOCK_PAGES) as usize);
                    frames::zero(held);
                    HELD.fetch_sub(1, Ordering::Relaxed);
                    held
                })
            });
            let Some(frame) = held.or_else(frames::allocate) else {
                taken.into_iter().for_each(frames::free);
                return Err(Status::OutOfMemory);
            };
            taken.push(frame);
        }
        page = stop;
    }
    Ok(taken)
}

/// Frees the frames that are held for pages to come of one object. False where none are.
fn let_one_go() -> bool {
    let next = HOLDERS.lock().pop_first();
    let Some(object) = next else { return false };
    if let Some(content) = MemoryObject::find_paged(object).as_deref().and_then(MemoryObject::paged_content) {
        while !content.state.lock().let_go(&mut Budget::new()) {}
    }
    true
}

/// Frees all frames that are held for pages to come. Whether there were any. No lock may be held.
pub fn let_go() -> bool {
    let some = HELD.load(Ordering::Relaxed) > 0;
    while let_one_go() {}
    some
}

/// Puts pages that a pager has supplied into the cache, from `first` on.
pub fn insert(_: &mut Exclusive, memory: &MemoryObject, first: u64, frames: Vec<Frame>) {
    let Some(content) = memory.paged_content() else { return frames.into_iter().for_each(frames::free) };
    let mut clock = CLOCK.lock();
    let mut state = content.state.lock();
    let is_plain = state.blocks.is_empty();
    for (page, frame) in (first..).zip(frames) {
        let slot = clock.insert(Page { object: memory.id, page });
        state.pages.complete(page, Resident { frame, slot });
        if !is_plain && let Some(block) = state.block_of(page, frame) {
            block.fill();
        }
    }
}

/// Gives back what is in of an object that is no more, from a page on, and what is held for it, as far as the budget allows. Whether
/// nothing is left; `from` is where to go on otherwise.
pub fn forget(object: u64, content: &PagedContent, from: &mut u64, budget: &mut Budget) -> bool {
    let mut clock = CLOCK.lock();
    let mut state = content.state.lock();
    while let Some(mut first) = state.blocks.first_entry() {
        let (frame, block) = first.get_mut();
        if block.held() > 0 {
            if !budget.is_whole() {
                budget.end();
                return false;
            }
            budget.spend(cost::FREE.saturating_mul(free_held(*frame, block)));
        }
        first.remove();
    }
    HOLDERS.lock().remove(&object);
    while budget.allows() {
        let Some((page, resident)) = state.pages.next_resident(*from) else { return true };
        *from = page.saturating_add(1);
        clock.remove(resident.slot);
        state.pages.remove(page);
        frames::free(resident.frame);
        budget.spend(cost::PAGE);
    }
    false
}

/// Makes `count` frames free beyond the reserve, as far as that is possible. First it gives back what is left of objects that are gone,
/// then what is held for pages to come, then pages. Whether `count` frames are free now, and what is kept for the heap.
pub fn make_room(lock: &mut Exclusive, count: usize) -> bool {
    while frames::free_count() < count.saturating_add(RESERVE) {
        if emptying::is_under_way() {
            emptying::go_on(&mut Budget::new());
        } else if !let_one_go() && !evict_one(lock) {
            break;
        }
    }
    frames::free_count() >= count.saturating_add(reserve::kept())
}

/// Does something for which pages may be evicted, and spends what that took.
pub fn spending<R>(budget: &mut Budget, act: impl FnOnce() -> R) -> R {
    let before = EVICTIONS.load(Ordering::Relaxed);
    let result = act();
    let evicted = EVICTIONS.load(Ordering::Relaxed).wrapping_sub(before);
    budget.spend(cost::EVICT.saturating_mul(u32::try_from(evicted).unwrap_or(u32::MAX)));
    result
}

/// Whether fewer than `count` frames were free, besides what is kept for the heap, and the cache has made them free. No
/// other lock may be held.
pub fn gives_way(lock: &mut Exclusive, count: usize) -> bool {
    frames::free_count() < count.saturating_add(reserve::kept()) && make_room(lock, count)
}

/// Whether all of the kernel heap's reserve is free, where pages of the cache have given way. No other lock may be held.
pub fn is_reserve_whole(lock: &mut Exclusive) -> bool {
    refill_reserve(lock);
    frames::free_count() >= reserve::kept()
}

/// Gives pages up where the kernel heap's reserve is not whole. No other lock may be held.
pub fn refill_reserve(lock: &mut Exclusive) {
    if frames::free_count() < reserve::kept() {
        make_room(lock, 0);
    }
}

/// Gives up the page that was not used for longest, roughly. False where there is none.
fn evict_one(lock: &mut Exclusive) -> bool {
    // So each page in the clock is that of an object that there is.
    emptying::finish();
    // Objects looked at are let go after the clock's lock, since one's end takes it.
    let mut looked_at: [Option<Arc<MemoryObject>>; LOOKED_AT] = [const { None }; LOOKED_AT];
    let mut count = 0;
    let victim = {
        let mut clock = CLOCK.lock();
        let victim = clock.victim(|page| {
            let latest = looked_at.get(count).and_then(Option::as_ref);
            if latest.is_none_or(|object| object.id != page.object)
                && let Some(object) = MemoryObject::find_paged(page.object)
            {
                let next = if latest.is_none() { count } else { count.saturating_add(1) };
                let Some(place) = looked_at.get_mut(next) else { return false };
                *place = Some(object);
                count = next;
            }
            let latest = looked_at.get(count).and_then(Option::as_ref);
            latest.filter(|object| object.id == page.object).is_some_and(|object| accessed(lock, object, page.page))
        });
        if let Some((slot, _)) = victim {
            clock.remove(slot);
        }
        victim
    };
    let Some((_, page)) = victim else { return false };
    if let Some(object) = MemoryObject::find_paged(page.object)
        && drop_page(lock, &object, page.page)
    {
        EVICTIONS.fetch_add(1, Ordering::Relaxed);
    }
    true
}

/// Whether a page was used through any mapping since the last look.
fn accessed(lock: &mut Exclusive, object: &MemoryObject, page: u64) -> bool {
    let mut accessed = false;
    object.for_each_mapping(|mapping| {
        if let Some(space) = mapping.space.upgrade() {
            accessed |= space.take_accessed(lock, mapping, page.saturating_mul(PAGE));
        }
    });
    accessed
}

/// Unmaps a page everywhere and frees its frame. Its clock entry is gone already.
fn drop_page(lock: &mut Exclusive, object: &MemoryObject, page: u64) -> bool {
    let Some(content) = object.paged_content() else { return false };
    let mut state = content.state.lock();
    let Some(PageState::Resident(resident)) = state.pages.get(page) else { return false };
    state.remove(page, resident);
    object.for_each_mapping(|mapping| {
        if let Some(space) = mapping.space.upgrade() {
            space.drop_paged(lock, mapping, page.saturating_mul(PAGE));
        }
    });
    frames::free(resident.frame);
    true
}

/// How far the pages of an object are given up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Eviction {
    /// The page to go on from.
    from: u64,
    /// How many were given up.
    pub count: u64,
}

impl Eviction {
    /// Gives up pages of an object, as far as the budget allows. Whether all have gone that were there.
    pub fn go_on(&mut self, lock: &mut Exclusive, object: &MemoryObject, budget: &mut Budget) -> bool {
        let Some(content) = object.paged_content() else { return true };
        let mappings = u32::try_from(object.mapping_count()).unwrap_or(u32::MAX);
        while budget.allows() {
            let next = content.state.lock().pages.next_resident(self.from);
            let Some((page, resident)) = next else { return content.state.lock().let_go(budget) };
            self.from = page.saturating_add(1);
            let removed = CLOCK.lock().remove(resident.slot);
            if removed.is_some() && drop_page(lock, object, page) {
                self.count = self.count.saturating_add(1);
            }
            budget.spend(cost::EVICT.saturating_add(cost::MAPPING.saturating_mul(mappings)));
        }
        false
    }
}

/// Gives up every page of an object, however long it takes; how many that were.
#[cfg(feature = "tests")]
pub fn evict_object(lock: &mut Exclusive, object: &MemoryObject) -> u64 {
    let mut eviction = Eviction::default();
    while !eviction.go_on(lock, object, &mut Budget::new()) {}
    eviction.count
}
