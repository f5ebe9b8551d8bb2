//! MemoryObject: memory that can be mapped. Anonymous, from the boot package, or paged.

pub mod cache;
pub mod emptying;
pub mod page_request;
pub mod partial_copy;
pub mod user_memory;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use capos_abi::Status;
use capos_captable::NodeId;
use capos_paging::{BLOCK_PAGES, PAGE, pages_for};
use spin::Mutex;

use crate::cpu::budget::{Budget, cost};
use crate::cpu::kernel_lock::Exclusive;
use crate::memory::frames::{self, Frame};
use crate::object::account::{Account, Charge, Resource};
use crate::object::address_space::Mapping;
use crate::object::derivation::{self, Holder};
use crate::object::endpoint::Client;
use crate::object::memory::cache::PagedContent;
use crate::object::memory::emptying::Remains;

/// Frames that are taken at once.
const FEW: usize = 16;

/// The largest memory object, in bytes: what a 47-bit address space could map.
const MAX_BYTES: u64 = 1 << 46;

static NEXT: AtomicU64 = AtomicU64::new(1);
/// Paged objects by identifier: how the page cache finds the object of a page that must go.
static PAGED: Mutex<BTreeMap<u64, Weak<MemoryObject>>> = Mutex::new(BTreeMap::new());

/// Memory.
#[derive(Debug)]
pub struct MemoryObject {
    /// Number that names it in reports.
    pub id: u64,
    bytes: u64,
    content: Content,
    /// Who shows it where.
    mappings: Mutex<Mappings>,
    /// It was a window, and its pager has answered.
    settled: AtomicBool,
    /// What takes its content once it is gone.
    remains: Option<Box<Remains>>,
    /// Pays for its frames.
    charge: Option<Charge>,
    _object: Option<Charge>,
}

#[derive(Debug)]
enum Content {
    /// Its own frames. None are left after [`MemoryObject::take_frames`].
    Anonymous(Mutex<Owned>),
    /// Frames in a row that are never given back.
    Fixed(Frame),
    /// Frames of the page cache.
    Paged(PagedContent),
}

/// Frames of one object, given back on drop.
#[derive(Debug, Default)]
struct Owned {
    frames: Vec<Frame>,
    /// Of how many times [`frames::BLOCK`] pages, from the first on, the frames are a block.
    blocks: usize,
    /// Other objects may have some of the frames. Then nothing may write them.
    shared: bool,
    /// A device may know the frames, so they stay this object's alone.
    pinned: bool,
    /// Of how many frames, from the first on, the content is known: the others hold what was in them before.
    known: usize,
}

/// The mappings that show an object: those that could write, and the others.
#[derive(Debug, Default)]
struct Mappings {
    writers: Numbered,
    readers: Numbered,
}

impl Mappings {
    fn insert(&mut self, mapping: &Arc<Mapping>) {
        let kind = if mapping.access.write { &mut self.writers } else { &mut self.readers };
        kind.insert(mapping);
    }

    fn remove(&mut self, id: u64) {
        self.writers.remove(id);
        self.readers.remove(id);
    }
}

/// Mappings by their numbers. Most objects have one.
#[derive(Debug, Default)]
struct Numbered {
    one: Option<(u64, Weak<Mapping>)>,
    others: BTreeMap<u64, Weak<Mapping>>,
}

impl Numbered {
    fn insert(&mut self, mapping: &Arc<Mapping>) {
        if self.one.is_none() {
            self.one = Some((mapping.id, Arc::downgrade(mapping)));
        } else {
            self.others.insert(mapping.id, Arc::downgrade(mapping));
        }
    }

    fn remove(&mut self, id: u64) {
        if self.one.take_if(|(one, _)| *one == id).is_none() {
            self.others.remove(&id);
        }
    }

    fn len(&self) -> usize {
        self.others.len().saturating_add(usize::from(self.one.is_some()))
    }

    /// The first with this number or one behind it.
    fn next(&self, from: u64) -> Option<(u64, Option<Arc<Mapping>>)> {
        // Most objects have one or none.
        let other = if self.others.is_empty() { None } else { self.others.range(from..).next() };
        let one = self.one.as_ref().filter(|(one, _)| *one >= from).map(|(one, mapping)| (one, mapping));
        let (id, mapping) = one.into_iter().chain(other).min_by_key(|(id, _)| **id)?;
        Some((*id, mapping.upgrade()))
    }
}

impl Owned {
    /// Frames that are no blocks.
    fn single(frames: Vec<Frame>) -> Self {
        Self { known: frames.len(), frames, ..Self::default() }
    }

    /// Room for that many frames.
    fn with_room(pages: u64) -> Result<Self, Status> {
        let count = usize::try_from(pages).map_err(|_| Status::OutOfMemory)?;
        let mut taken = Self::default();
        taken.frames.try_reserve_exact(count).map_err(|_| Status::OutOfMemory)?;
        Ok(taken)
    }

    /// Takes zeroed frames until there are `count`, as far as the budget allows; blocks of them as long as there are such. Whether
    /// it has them. What the page cache holds gives way where there are none.
    fn fill(&mut self, lock: &mut Exclusive, count: usize, budget: &mut Budget) -> Result<bool, Status> {
        loop {
            let zeroed = self.known;
            for frame in self.frames.iter().skip(zeroed) {
                if !budget.allows() {
                    return Ok(false);
                }
                frames::zero(*frame);
                self.known = self.known.saturating_add(1);
                budget.spend(cost::ZERO);
            }
            let missing = count.saturating_sub(self.frames.len());
            if missing == 0 {
                return Ok(true);
            }
            if !budget.allows() {
                return Ok(false);
            }
            if !cache::spending(budget, || cache::make_room(lock, missing.min(FEW))) {
                return Err(Status::OutOfMemory);
            }
            if missing >= frames::BLOCK
                && let Some(first) = frames::allocate_block_dirty()
            {
                self.frames.extend((0..frames::BLOCK).map(|n| first.offset(n)));
                self.blocks = self.blocks.saturating_add(1);
                continue;
            }
            for _ in 0..missing.min(FEW) {
                self.frames.push(frames::allocate_dirty().ok_or(Status::OutOfMemory)?);
            }
        }
    }

    /// Gives frames back, as far as the budget allows. Whether none is left.
    fn give_back(&mut self, budget: &mut Budget) -> bool {
        while budget.allows() {
            let single = self.blocks.saturating_mul(frames::BLOCK);
            if self.frames.len() > single {
                // Of a copy that ended in the middle, the first frame of memory stands for those that are missing.
                self.frames.pop().into_iter().filter(|frame| *frame != Frame::FIRST).for_each(frames::free);
                budget.spend(cost::FREE);
            } else if let Some(first) = self.frames.get(single.saturating_sub(frames::BLOCK)).copied() {
                frames::free_block(first);
                self.frames.truncate(single.saturating_sub(frames::BLOCK));
                self.blocks = self.blocks.saturating_sub(1);
                budget.spend(cost::BLOCK);
            } else {
                return true;
            }
        }
        self.frames.is_empty()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        while !self.give_back(&mut Budget::new()) {}
    }
}

/// Why memory was not copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyError {
    /// This page of paged memory is not in.
    Absent(u64),
    Status(Status),
}

impl From<Status> for CopyError {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl MemoryObject {
    fn new(bytes: u64, content: Content, charge: Option<Charge>, object: Option<Charge>) -> Arc<Self> {
        let remains = if matches!(content, Content::Fixed(_)) { None } else { emptying::prepare(bytes / PAGE) };
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            bytes,
            content,
            mappings: Mutex::default(),
            settled: AtomicBool::new(false),
            remains,
            charge,
            _object: object,
        })
    }

    /// Zeroed memory, paid for by `account`; `bytes` is rounded up to whole pages.
    ///
    /// # Errors
    /// No bytes or too many; quota; no memory.
    pub fn anonymous(lock: &mut Exclusive, account: &Arc<Account>, bytes: u64) -> Result<Arc<Self>, Status> {
        let memory = Self::without_frames(account, bytes)?;
        while !memory.fill(lock, &mut Budget::new())? {}
        Ok(memory)
    }

    /// The same, to be [filled](Self::fill) before anything else.
    ///
    /// # Errors
    /// As for [`Self::anonymous`].
    pub fn without_frames(account: &Arc<Account>, bytes: u64) -> Result<Arc<Self>, Status> {
        let pages = Self::size(bytes)?;
        let object = account.hold(Resource::Objects, 1)?;
        let (charge, owned) = match Self::paid_room(account, pages) {
            // What it has given up may not be given back yet.
            Err(_) if emptying::is_under_way() => {
                emptying::finish();
                Self::paid_room(account, pages)?
            }
            found => found?,
        };
        Ok(Self::new(pages.saturating_mul(PAGE), Content::Anonymous(Mutex::new(owned)), Some(charge), Some(object)))
    }

    fn paid_room(account: &Arc<Account>, pages: u64) -> Result<(Charge, Owned), Status> {
        Ok((account.hold(Resource::Frames, pages)?, Owned::with_room(pages)?))
    }

    /// Takes zeroed frames for all its pages, as far as the budget allows. Whether it has them.
    ///
    /// # Errors
    /// No memory.
    pub fn fill(&self, lock: &mut Exclusive, budget: &mut Budget) -> Result<bool, Status> {
        let Content::Anonymous(owned) = &self.content else { return Ok(true) };
        let pages = usize::try_from(self.bytes / PAGE).map_err(|_| Status::OutOfMemory)?;
        owned.lock().fill(lock, pages, budget)
    }

    /// Memory of these frames that no account pays for: the window of a page-in.
    pub fn window(frames: Vec<Frame>) -> Arc<Self> {
        let bytes = (frames.len() as u64).saturating_mul(PAGE);
        Self::new(bytes, Content::Anonymous(Mutex::new(Owned::single(frames))), None, None)
    }

    /// Memory that was there before the kernel: whole frames from `first` on.
    pub fn fixed(first: Frame, bytes: u64) -> Arc<Self> {
        Self::new(pages_for(bytes).saturating_mul(PAGE), Content::Fixed(first), None, None)
    }

    /// Physically contiguous memory, paid for by `account`, to be [filled](Self::fill) with zeros before anything else.
    ///
    /// # Errors
    /// No bytes or too many; quota; no run of free frames that long.
    pub fn contiguous(lock: &mut Exclusive, account: &Arc<Account>, bytes: u64) -> Result<Arc<Self>, Status> {
        let pages = Self::size(bytes)?;
        let object = account.hold(Resource::Objects, 1)?;
        let charge = account.hold(Resource::Frames, pages)?;
        let count = usize::try_from(pages).map_err(|_| Status::InvalidArgument)?;
        if !cache::make_room(lock, count) {
            return Err(Status::OutOfMemory);
        }
        let first = frames::allocate_contiguous_dirty(count).or_else(|| {
            // Frames that the cache holds for pages to come may break up what is free.
            if cache::let_go() { frames::allocate_contiguous_dirty(count) } else { None }
        });
        let first = first.ok_or(Status::OutOfMemory)?;
        let mut frames = Vec::new();
        if frames.try_reserve_exact(count).is_err() {
            (0..count).for_each(|n| frames::free(first.offset(n)));
            return Err(Status::OutOfMemory);
        }
        frames.extend((0..count).map(|n| first.offset(n)));
        let owned = Mutex::new(Owned { frames, ..Owned::default() });
        Ok(Self::new(pages.saturating_mul(PAGE), Content::Anonymous(owned), Some(charge), Some(object)))
    }

    /// Whether other objects can have frames of this one.
    fn can_share(&self) -> bool {
        match &self.content {
            Content::Anonymous(owned) => !owned.lock().pinned,
            // These are no frames of the pool.
            Content::Fixed(_) => false,
            Content::Paged(_) => true,
        }
    }

    /// Whether other objects may have frames of this one, so that nothing may write them.
    pub fn may_be_shared(&self) -> bool {
        matches!(&self.content, Content::Anonymous(owned) if owned.lock().shared)
    }

    /// Other objects have frames of a range of this one, where they can. Once this returns nothing writes there.
    fn share(&self, lock: &mut Exclusive, offset: u64, bytes: u64) {
        let Content::Anonymous(owned) = &self.content else { return };
        {
            let mut owned = owned.lock();
            if owned.pinned {
                return;
            }
            owned.shared = true;
            // From now on each frame goes back by itself.
            owned.blocks = 0;
        }
        self.for_each_writer(|mapping| {
            if let Some(space) = mapping.space.upgrade() {
                space.protect(lock, mapping, offset, bytes);
            }
        });
    }

    /// Makes the frame of a page this object's alone, and lets `writer` write there. The frame that this may take was paid
    /// for when the object was made.
    ///
    /// # Errors
    /// No memory.
    pub fn make_own(&self, lock: &mut Exclusive, page: u64, writer: Option<&Arc<Mapping>>) -> Result<(), Status> {
        let (Content::Anonymous(owned), Ok(index)) = (&self.content, usize::try_from(page)) else { return Ok(()) };
        let Some(frame) = owned.lock().frames.get(index).copied() else { return Ok(()) };
        if frames::is_shared(frame) {
            cache::make_room(lock, 1);
            let own = frames::allocate_dirty().ok_or(Status::OutOfMemory)?;
            user_memory::copy_frame(frame, own);
            owned.lock().frames.get_mut(index).into_iter().for_each(|place| *place = own);
            self.for_each_mapping(|mapping| {
                if let Some(space) = mapping.space.upgrade() {
                    space.replace(lock, mapping, page.saturating_mul(PAGE), own);
                }
            });
            frames::free(frame);
        } else if let Some(writer) = writer
            && let Some(space) = writer.space.upgrade()
        {
            space.allow_write(lock, writer, page.saturating_mul(PAGE));
        }
        Ok(())
    }

    /// Makes the frames of pages this object's alone, for as long as it lives: a device may come to know them.
    ///
    /// # Errors
    /// No memory.
    pub fn pin(&self, lock: &mut Exclusive, first: u64, count: u64) -> Result<(), Status> {
        let Content::Anonymous(owned) = &self.content else { return Ok(()) };
        if self.may_be_shared() {
            (first..first.saturating_add(count)).try_for_each(|page| self.make_own(lock, page, None))?;
        }
        owned.lock().pinned = true;
        Ok(())
    }

    /// Memory whose pages `pager` supplies, until the capability `named_by` is revoked.
    ///
    /// # Errors
    /// No bytes or too many; quota; no memory; the capability is gone.
    pub fn paged(
        account: &Arc<Account>,
        bytes: u64,
        pager: Client,
        named_by: Option<NodeId>,
    ) -> Result<Arc<Self>, Status> {
        let pages = Self::size(bytes)?;
        let object = account.hold(Resource::Objects, 1)?;
        let memory =
            Self::new(pages.saturating_mul(PAGE), Content::Paged(PagedContent::new(pages, pager)), None, Some(object));
        PAGED.lock().insert(memory.id, Arc::downgrade(&memory));
        if let (Some(named_by), Some(content)) = (named_by, memory.paged_content()) {
            let node = derivation::attach(named_by, Holder::Pager(Arc::downgrade(&memory)))?;
            *content.node.lock() = Some(node);
        }
        Ok(memory)
    }

    fn size(bytes: u64) -> Result<u64, Status> {
        if bytes == 0 || bytes > MAX_BYTES { Err(Status::InvalidArgument) } else { Ok(pages_for(bytes)) }
    }

    /// The paged object with this number, if it still exists.
    pub fn find_paged(id: u64) -> Option<Arc<Self>> {
        PAGED.lock().get(&id).and_then(Weak::upgrade)
    }

    /// Size in bytes, whole pages.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What there is to know where a pager supplies the pages.
    pub fn paged_content(&self) -> Option<&PagedContent> {
        match &self.content {
            Content::Paged(content) => Some(content),
            _ => None,
        }
    }

    /// The frame of a page, where it is resident and stays so as long as the object lives. `None`
    /// for paged memory.
    pub fn stable_frame(&self, page: u64) -> Option<Frame> {
        if page >= self.bytes / PAGE {
            return None;
        }
        let index = usize::try_from(page).ok()?;
        match &self.content {
            Content::Anonymous(owned) => owned.lock().frames.get(index).copied(),
            Content::Fixed(first) => Some(first.offset(index)),
            Content::Paged(_) => None,
        }
    }

    /// Calls `visit` with the frames of pages that are resident for as long as the object lives, one after the other, until
    /// one is not.
    ///
    /// # Errors
    /// Those of `visit`.
    pub fn each_stable_frame<E>(
        &self,
        first: u64,
        count: u64,
        mut visit: impl FnMut(Frame) -> Result<(), E>,
    ) -> Result<(), E> {
        let left = (self.bytes / PAGE).saturating_sub(first);
        let (Ok(start), Ok(count)) = (usize::try_from(first), usize::try_from(count.min(left))) else { return Ok(()) };
        match &self.content {
            Content::Anonymous(owned) => {
                owned.lock().frames.iter().skip(start).take(count).copied().try_for_each(visit)
            }
            Content::Fixed(first) => {
                (start..start.saturating_add(count)).try_for_each(|page| visit(first.offset(page)))
            }
            Content::Paged(_) => Ok(()),
        }
    }

    /// The first frame of the block that pages from `page` on lie in for as long as the object lives, where they do and
    /// `page` is its first.
    pub fn stable_block(&self, page: u64) -> Option<Frame> {
        let Content::Anonymous(owned) = &self.content else { return None };
        let owned = owned.lock();
        let index = usize::try_from(page).ok()?;
        let is_first = page.is_multiple_of(BLOCK_PAGES) && index / frames::BLOCK < owned.blocks;
        owned.frames.get(index).copied().filter(|_| is_first)
    }

    /// The frame of a page, where it is resident now.
    pub fn resident_frame(&self, page: u64) -> Option<Frame> {
        match &self.content {
            Content::Paged(content) => content.resident(page),
            _ => self.stable_frame(page),
        }
    }

    /// How many pages are resident.
    pub fn resident_pages(&self) -> u64 {
        match &self.content {
            Content::Anonymous(owned) => owned.lock().frames.len() as u64,
            Content::Fixed(_) => self.bytes / PAGE,
            Content::Paged(content) => content.resident_count(),
        }
    }

    /// Notes that a window's pager has answered: no device works on it any more.
    pub fn settle(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// Whether that is so.
    pub fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed)
    }

    /// Takes the frames away from an anonymous object that no mapping shows any more.
    pub fn take_frames(&self) -> Vec<Frame> {
        match &self.content {
            Content::Anonymous(owned) => {
                let mut owned = owned.lock();
                owned.blocks = 0;
                core::mem::take(&mut owned.frames)
            }
            _ => Vec::new(),
        }
    }

    /// Notes a mapping, so that a page that goes, or gets another frame, does so everywhere.
    pub fn note_mapping(&self, mapping: &Arc<Mapping>) {
        self.mappings.lock().insert(mapping);
    }

    /// A mapping is no more.
    pub fn forget_mapping(&self, id: u64) {
        self.mappings.lock().remove(id);
    }

    /// How many mappings could write it, if it is memory that can be written.
    fn writer_count(&self) -> usize {
        self.mappings.lock().writers.len()
    }

    /// How many mappings there are.
    fn mapping_count(&self) -> usize {
        let mappings = self.mappings.lock();
        mappings.writers.len().saturating_add(mappings.readers.len())
    }

    /// Calls `visit` for each mapping that could write.
    fn for_each_writer(&self, visit: impl FnMut(&Arc<Mapping>)) {
        self.for_each_of(|mappings| &mappings.writers, visit);
    }

    /// Calls `visit` for each mapping, first for those that could write.
    pub fn for_each_mapping(&self, mut visit: impl FnMut(&Arc<Mapping>)) {
        self.for_each_of(|mappings| &mappings.writers, &mut visit);
        self.for_each_of(|mappings| &mappings.readers, &mut visit);
    }

    #[inline]
    fn for_each_of(&self, of: impl Fn(&Mappings) -> &Numbered, mut visit: impl FnMut(&Arc<Mapping>)) {
        let mut from = 0;
        loop {
            // A mapping that ends meanwhile takes itself out of the list, which is not locked then.
            let next = of(&self.mappings.lock()).next(from);
            let Some((id, mapping)) = next else { return };
            from = id.saturating_add(1);
            mapping.iter().for_each(&mut visit);
        }
    }
}

impl Drop for MemoryObject {
    fn drop(&mut self) {
        if let Content::Paged(content) = &self.content {
            PAGED.lock().remove(&self.id);
            if let Some(node) = content.node.lock().take() {
                derivation::forget(node);
            }
        }
        let content = core::mem::replace(&mut self.content, Content::Fixed(Frame::FIRST));
        match (self.remains.take(), content) {
            (Some(remains), content) => emptying::begin(remains, self.id, content, self.charge.take()),
            (None, Content::Paged(content)) => while !cache::forget(self.id, &content, &mut 0, &mut Budget::new()) {},
            (None, _) => {}
        }
    }
}
