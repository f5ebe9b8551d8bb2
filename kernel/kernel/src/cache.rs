//! The page cache: frames that hold pages of paged memory, shared by all who map them, and given
//! up when memory runs short.
//!
//! Locks are taken in this order: the clock, an object's pages, its mappings, an address space.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use capos_captable::NodeId;
use capos_paging::{Clock, PAGE, PageState, Pages, Slot};
use spin::Mutex;

use crate::memory::frames::{self, Frame};
use crate::memory::reserve;
use crate::object::endpoint::Client;
use crate::object::memory::MemoryObject;
use crate::pager::PageIn;

/// Frames that the cache leaves free: what is kept for the kernel's heap, and some for page tables.
pub const RESERVE: usize = reserve::FRAMES + 512;

/// Objects looked at for one page that is to go. The page after the last of them goes, used or not.
const LOOKED_AT: usize = 32;

/// Which page an entry of the clock is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Page {
    object: u64,
    page: u64,
}

static CLOCK: Mutex<Clock<Page>> = Mutex::new(Clock::new());

/// Faults on a page that was in the cache.
pub static HITS: AtomicU64 = AtomicU64::new(0);
/// Faults that went to a pager.
pub static MISSES: AtomicU64 = AtomicU64::new(0);
/// Pages given up because memory ran short.
pub static EVICTIONS: AtomicU64 = AtomicU64::new(0);

/// A page in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

/// The changing part of it.
#[derive(Debug)]
pub struct PagedState {
    pub pages: Pages<u64, Resident>,
    /// Requests by their first page.
    pub requests: BTreeMap<u64, Arc<PageIn>>,
    /// First page and length of the last request for several pages that failed: its pages are asked
    /// for one by one, so that a bad page does not take its neighbours with it.
    pub failed: Option<(u64, u64)>,
    /// The capability to its pager was revoked: no page comes in any more.
    pub abandoned: bool,
}

impl PagedContent {
    /// `pages` pages, none of them in.
    pub fn new(pages: u64, pager: Client) -> Self {
        Self {
            pager,
            node: Mutex::new(None),
            state: Mutex::new(PagedState {
                pages: Pages::new(pages),
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
pub fn expect(count: u64) -> bool {
    let room = || CLOCK.lock().expect(count as usize);
    room() || ((0..count).all(|_| evict_one()) && room())
}

/// So many of the pages that were asked for do not come.
pub fn take_back(count: u64) {
    CLOCK.lock().take_back(count as usize);
}

/// How many frames the cache holds.
pub fn frames_held() -> usize {
    CLOCK.lock().len()
}

/// Puts a page that a pager has supplied into the cache.
pub fn insert(memory: &MemoryObject, page: u64, frame: Frame) {
    let Some(content) = memory.paged_content() else { return frames::free(frame) };
    let mut clock = CLOCK.lock();
    let slot = clock.insert(Page { object: memory.id, page });
    content.state.lock().pages.complete(page, Resident { frame, slot });
}

/// Gives back what is in of an object that is no more.
pub fn forget(content: &PagedContent) {
    let mut clock = CLOCK.lock();
    let state = content.state.lock();
    for (_, resident) in state.pages.iter_resident() {
        clock.remove(resident.slot);
        frames::free(resident.frame);
    }
}

/// Makes `count` frames free beyond the reserve, as far as giving pages up helps. Whether `count`
/// frames are free now, and what is kept for the heap.
pub fn make_room(count: usize) -> bool {
    while frames::free_count() < count.saturating_add(RESERVE) {
        if !evict_one() {
            break;
        }
    }
    frames::free_count() >= count.saturating_add(reserve::kept())
}

/// Gives up the page that was not used for longest, roughly. False where there is none.
fn evict_one() -> bool {
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
                let next = if latest.is_none() { count } else { count + 1 };
                let Some(place) = looked_at.get_mut(next) else { return false };
                *place = Some(object);
                count = next;
            }
            let latest = looked_at.get(count).and_then(Option::as_ref);
            latest.filter(|object| object.id == page.object).is_some_and(|object| accessed(object, page.page))
        });
        if let Some((slot, _)) = victim {
            clock.remove(slot);
        }
        victim
    };
    let Some((_, page)) = victim else { return false };
    if let Some(object) = MemoryObject::find_paged(page.object)
        && drop_page(&object, page.page)
    {
        EVICTIONS.fetch_add(1, Ordering::Relaxed);
    }
    true
}

/// Whether a page was used through any mapping since the last look.
fn accessed(object: &MemoryObject, page: u64) -> bool {
    let mut accessed = false;
    object.for_each_mapping(|mapping| {
        if let Some(space) = mapping.space.upgrade() {
            accessed |= space.take_accessed(mapping, page * PAGE);
        }
    });
    accessed
}

/// Unmaps a page everywhere and frees its frame. Its clock entry is gone already.
fn drop_page(object: &MemoryObject, page: u64) -> bool {
    let Some(content) = object.paged_content() else { return false };
    let mut state = content.state.lock();
    let Some(PageState::Resident(resident)) = state.pages.get(page) else { return false };
    state.pages.remove(page);
    object.for_each_mapping(|mapping| {
        if let Some(space) = mapping.space.upgrade() {
            space.drop_paged(mapping, page * PAGE);
        }
    });
    frames::free(resident.frame);
    true
}

/// Gives up every page of one object; how many that were.
pub fn evict_object(object: &MemoryObject) -> u64 {
    let Some(content) = object.paged_content() else { return 0 };
    let (mut count, mut from) = (0, 0);
    loop {
        let next = content.state.lock().pages.next_resident(from);
        let Some((page, resident)) = next else { return count };
        from = page + 1;
        let removed = CLOCK.lock().remove(resident.slot);
        if removed.is_some() && drop_page(object, page) {
            count += 1;
        }
    }
}
