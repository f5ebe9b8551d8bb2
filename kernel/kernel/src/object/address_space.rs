//! AddressSpace: what a process sees at which address.

mod mapping;
mod showing;
mod unmapping;

pub use mapping::{Backing, Mapping};
pub use showing::Showing;
pub use unmapping::Remains;

use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU64, Ordering};

use capos_abi::Status;
use capos_abi::bootstrap::{USER_END, USER_START};
use capos_paging::{LARGE_PAGE, PAGE, RangeError, Region, Regions};
use spin::Mutex;

use crate::arch::percpu::PerCpu;
use crate::cpu::budget::Budget;
use crate::cpu::kernel_lock::Exclusive;
use crate::memory::frames::{self, Frame};
use crate::memory::page_table::{Access, MapError, PageTable, Root, Run};
use crate::object::account::{Account, Resource};
use crate::object::memory::cache;

/// Regions whose bookkeeping in the kernel's heap is paid for as one frame: each has its entries in two
/// trees, and at most a mapping of its own, with a node of the derivation forest and a note at its object.
const REGIONS_PER_FRAME: usize = 12;

#[derive(Debug)]
struct Inner {
    table: PageTable,
    regions: Regions<Arc<Mapping>>,
    /// How often a region has gone, wholly or in part.
    changes: u64,
    /// Frames charged for the regions' bookkeeping.
    bookkeeping: u64,
}

impl Inner {
    /// Pays for the bookkeeping of this many regions.
    fn budget(&mut self, account: &Account, regions: usize) -> Result<(), Status> {
        let wanted = regions.div_ceil(REGIONS_PER_FRAME) as u64;
        if wanted > self.bookkeeping {
            account.charge(Resource::Frames, wanted.saturating_sub(self.bookkeeping))?;
        } else {
            account.refund(Resource::Frames, self.bookkeeping.saturating_sub(wanted));
        }
        self.bookkeeping = wanted;
        Ok(())
    }

    /// How many pages are shown from a place on by the mapping that it is a place of, where that still shows it.
    fn still_shown(&self, place: &MissingPage) -> Option<u64> {
        if self.changes == place.changes {
            return Some(place.pages);
        }
        let region = self.regions.find(place.address)?;
        let end = Arc::ptr_eq(&region.content, &place.mapping).then(|| region.end())?;
        Some(end.saturating_sub(place.address) / PAGE)
    }

    /// The length of what one table is for, where a range of `length` bytes is removed.
    fn span(&self, address: u64, length: u64) -> u64 {
        if length <= LARGE_PAGE { LARGE_PAGE } else { self.table.span(address) }
    }

    /// Pays for what there is: never more than was paid for before.
    fn settle(&mut self, account: &Account) {
        // Less than before costs nothing, so nothing can fail.
        let _ = self.budget(account, self.regions.len());
    }
}

/// An address space. It ends with its process.
#[derive(Debug)]
pub struct AddressSpace {
    account: Arc<Account>,
    inner: Mutex<Option<Inner>>,
    /// Table frames charged.
    tables: AtomicU64,
    /// Its top table, so that a switch of threads takes no lock.
    root: Root,
    itself: Weak<AddressSpace>,
}

/// A page that a mapping shows and that is not entered, and how far the mapping continues showing what lies behind it.
#[derive(Debug)]
pub struct MissingPage {
    pub mapping: Arc<Mapping>,
    /// The page's offset in the object.
    pub offset: u64,
    address: u64,
    /// Pages that are shown from this one on.
    pages: u64,
    /// [`Inner::changes`] when that was so.
    changes: u64,
}

/// What a fault's address means.
pub enum Fault {
    /// Nothing is mapped there.
    Unmapped,
    /// It is mapped, but not for this.
    Forbidden(Arc<Mapping>, u64),
    /// A page that is not entered.
    Missing(MissingPage),
    /// A page that may be written, but not as long as its frame may be shared.
    Shared(Arc<Mapping>, u64),
    /// It is mapped by now.
    Spurious,
}

/// Why user memory could not be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreachable {
    /// It is not the process's, or not for this.
    Forbidden,
    /// It is paged memory and not resident; the address can be paged in.
    Absent(u64),
}

impl From<Unreachable> for Status {
    fn from(_: Unreachable) -> Self {
        Self::BadAddress
    }
}

impl AddressSpace {
    /// An empty address space whose tables `account` pays for.
    ///
    /// # Errors
    /// Quota; no memory.
    pub fn new(lock: &mut Exclusive, account: &Arc<Account>) -> Result<Arc<Self>, Status> {
        cache::gives_way(lock, 1);
        let mut failure = Status::OutOfMemory;
        let mut taken = 0;
        let table = PageTable::new(&mut || table_frame(account, &mut taken, &mut failure)).ok_or(failure)?;
        let root = Root::of(&table);
        let inner = Some(Inner { table, regions: Regions::new(USER_START, USER_END), changes: 0, bookkeeping: 0 });
        Ok(Arc::new_cyclic(|itself| Self {
            account: Arc::clone(account),
            inner: Mutex::new(inner),
            tables: AtomicU64::new(taken),
            root,
            itself: itself.clone(),
        }))
    }

    /// Enters pages from `address` on, as `put` says; what is mapped there stays.
    fn enter(
        &self,
        inner: &mut Inner,
        address: u64,
        access: Access,
        put: impl FnOnce(&mut Run<'_>) -> Result<(), MapError>,
    ) -> Result<(), Status> {
        let mut failure = Status::OutOfMemory;
        let mut taken = 0;
        let mut source = || table_frame(&self.account, &mut taken, &mut failure);
        let result = put(&mut inner.table.run(address, access, &mut source));
        self.tables.fetch_add(taken, Ordering::Relaxed);
        match result {
            Ok(()) | Err(MapError::Occupied) => Ok(()),
            Err(MapError::NoFrame) => Err(failure),
            Err(MapError::BadAddress) => Err(Status::InvalidArgument),
        }
    }

    /// What to make of a fault at an address; `present` says that the processor found a page there.
    pub fn judge(&self, address: u64, write: bool, execute: bool, present: bool) -> Fault {
        let mut guard = self.inner.lock();
        let Some(inner) = guard.as_mut() else { return Fault::Unmapped };
        let Some(region) = inner.regions.find_again(address) else { return Fault::Unmapped };
        let mapping = Arc::clone(&region.content);
        let offset = region.offset_of(address) & !(PAGE - 1);
        let allowed = if write {
            mapping.access.write
        } else if execute {
            mapping.access.execute
        } else {
            mapping.access.read
        };
        if !allowed {
            return Fault::Forbidden(mapping, offset);
        }
        let end = region.end();
        // Where the processor found nothing, another thread may have entered it meanwhile: entering it again changes nothing.
        if present && inner.table.is_mapped(address) {
            let is_shared = write && inner.table.is_protected(address);
            return if is_shared { Fault::Shared(mapping, offset) } else { Fault::Spurious };
        }
        let address = address & !(PAGE - 1);
        let pages = end.saturating_sub(address) / PAGE;
        Fault::Missing(MissingPage { mapping, offset, address, pages, changes: inner.changes })
    }

    /// Enters frames of paged memory from a place on, as `put` says, which must stop at the address that it is given: as far
    /// as the place's mapping still shows them.
    ///
    /// # Errors
    /// Quota or memory for page tables.
    #[inline]
    pub fn enter_paged(
        &self,
        _: &mut Exclusive,
        place: &MissingPage,
        put: impl FnOnce(&mut Run<'_>, u64) -> Result<(), MapError>,
    ) -> Result<(), Status> {
        let mut guard = self.inner.lock();
        let Some(inner) = guard.as_mut() else { return Ok(()) };
        let Some(pages) = inner.still_shown(place) else { return Ok(()) };
        let end = place.address.saturating_add(pages.saturating_mul(PAGE));
        self.enter(inner, place.address, place.mapping.access, |run| put(run, end))
    }

    /// Enters 2 MiB of paged memory as one page: `place` is a mapping and an offset in its object. False where the mapping does not
    /// show all of it any more.
    ///
    /// # Errors
    /// Quota or memory for page tables.
    pub fn enter_large(&self, lock: &mut Exclusive, place: (&Arc<Mapping>, u64), first: Frame) -> Result<bool, Status> {
        let (mapping, offset) = place;
        let Some(address) = mapping.address_of(offset) else { return Ok(false) };
        let mut guard = self.inner.lock();
        let Some(inner) = guard.as_mut() else { return Ok(false) };
        let is_shown = |region: &Region<Arc<Mapping>>| {
            Arc::ptr_eq(&region.content, mapping) && region.end().saturating_sub(address) >= LARGE_PAGE
        };
        if !inner.regions.find(address).is_some_and(is_shown) {
            return Ok(false);
        }
        let mut entered = false;
        self.enter(inner, address, mapping.access, |run| {
            entered = run.put_large(lock, first.address())?;
            Ok(())
        })?;
        Ok(entered)
    }

    /// Removes one page of paged memory that a mapping shows.
    pub fn drop_paged(&self, lock: &mut Exclusive, mapping: &Arc<Mapping>, offset: u64) {
        self.with_shown(mapping, offset, |table, address| {
            table.unmap(lock, address);
        });
    }

    /// Enters another frame for a page of the object that a mapping shows.
    pub fn replace(&self, lock: &mut Exclusive, mapping: &Arc<Mapping>, offset: u64, frame: Frame) {
        self.with_shown(mapping, offset, |table, address| table.replace(lock, address, frame, mapping.access));
    }

    /// Lets a page that a mapping shows be written.
    pub fn allow_write(&self, lock: &mut Exclusive, mapping: &Arc<Mapping>, offset: u64) {
        self.with_shown(mapping, offset, |table, address| table.allow_write(lock, address));
    }

    /// Takes the right to write from what a mapping shows of a range of its object. Once this returns nothing writes there
    /// through it.
    pub fn protect(&self, lock: &mut Exclusive, mapping: &Arc<Mapping>, offset: u64, length: u64) {
        let from = offset.max(mapping.offset);
        let to = offset.saturating_add(length).min(mapping.offset.saturating_add(mapping.length));
        let Some(mut at) = mapping.address_of(from).filter(|_| mapping.access.write && from < to) else { return };
        let end = at.saturating_add(to.saturating_sub(from));
        let mut guard = self.inner.lock();
        let Some(inner) = guard.as_mut() else { return };
        // Pieces of it may be gone, and others' mappings in their place.
        while at < end {
            let Some(region) = inner.regions.at_or_behind(at) else { return };
            at = at.max(region.start);
            let next = region.end().min(end);
            if Arc::ptr_eq(&region.content, mapping) && at < next {
                inner.table.protect_range(lock, at, next.saturating_sub(at));
            }
            at = at.max(next);
        }
    }

    /// Whether a page of paged memory was used through a mapping since the last call.
    pub fn take_accessed(&self, lock: &mut Exclusive, mapping: &Arc<Mapping>, offset: u64) -> bool {
        let mut accessed = false;
        self.with_shown(mapping, offset, |table, address| accessed = table.take_accessed(lock, address));
        accessed
    }

    fn with_shown(&self, mapping: &Arc<Mapping>, offset: u64, act: impl FnOnce(&mut PageTable, u64)) {
        let Some(address) = mapping.address_of(offset) else { return };
        if let Some(inner) = self.inner.lock().as_mut()
            && inner.regions.find(address).is_some_and(|region| Arc::ptr_eq(&region.content, mapping))
        {
            act(&mut inner.table, address);
        }
    }

    /// Makes this the processor's address space, where it is not gone: then no thread of it runs.
    #[inline(always)]
    pub fn activate(&self, cpu: &PerCpu) {
        self.root.activate(cpu);
    }

    /// Runs `act` with the page tables, for [`crate::object::memory::user_memory`].
    pub(crate) fn with_table<R>(&self, act: impl FnOnce(&PageTable, &dyn Fn(u64) -> bool) -> R) -> Option<R> {
        let guard = self.inner.lock();
        let inner = guard.as_ref()?;
        let paged = |address: u64| inner.regions.find(address).is_some_and(|region| region.content.backing.is_paged());
        Some(act(&inner.table, &paged))
    }

    /// Makes the pages of a range the writer's own, where they may be written and only sharing forbids it. Whether there were
    /// such, and all of them are.
    #[cold]
    #[inline(never)]
    pub fn make_own(&self, lock: &mut Exclusive, address: u64, length: u64) -> bool {
        let end = address.saturating_add(length);
        let mut at = address & !(PAGE - 1);
        let mut any = false;
        while at < end {
            match self.judge(at, true, false, true) {
                Fault::Spurious => {}
                Fault::Shared(mapping, offset) => {
                    let Backing::Memory(memory) = &mapping.backing else { return false };
                    if memory.make_own(lock, offset / PAGE, Some(&mapping)).is_err() {
                        return false;
                    }
                    any = true;
                }
                Fault::Unmapped | Fault::Forbidden(..) | Fault::Missing(_) => return false,
            }
            at = at.saturating_add(PAGE);
        }
        any
    }

    /// Where a user byte lies in the direct map, if its page is mapped memory that may be read, or written, no other processor has
    /// locked the page tables, and the space is not gone. It lies there until something is unmapped.
    #[inline(always)]
    pub(crate) fn reach(&self, address: u64, write: bool) -> Option<*mut u8> {
        self.inner.try_lock()?.as_ref()?.table.reach(address, write)
    }

    /// Ends the address space: no processor uses it from now on, and nothing can be mapped in it any more. What is left is
    /// [given back](Remains::give_back); there is nothing where it has ended before.
    pub fn end(&self, _: &mut Exclusive) -> Option<Remains> {
        self.take_remains()
    }

    /// The same for a drop, which has no guard.
    fn take_remains(&self) -> Option<Remains> {
        let mut inner = self.inner.lock().take()?;
        self.root.end();
        inner.table.leave();
        let regions = inner.regions.clear();
        inner.settle(&self.account);
        Some(Remains::new(regions, inner.table))
    }
}

impl Drop for AddressSpace {
    fn drop(&mut self) {
        if let Some(mut remains) = self.take_remains() {
            while !remains.give_back(self, &mut Budget::new()) {}
        }
    }
}

fn table_frame(account: &Arc<Account>, taken: &mut u64, failure: &mut Status) -> Option<Frame> {
    if let Err(status) = account.charge(Resource::Frames, 1) {
        *failure = status;
        return None;
    }
    let frame = frames::allocate();
    match frame {
        Some(_) => *taken = taken.saturating_add(1),
        None => {
            account.refund(Resource::Frames, 1);
            *failure = Status::OutOfMemory;
        }
    }
    frame
}

/// Why nothing was mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapFailure {
    WritableCode,
    PagedIsReadOnly,
    OutsideObject,
    /// A part of it was unmapped before all of it was shown.
    Gone,
    Range(RangeError),
    Status(Status),
}

impl From<RangeError> for MapFailure {
    fn from(error: RangeError) -> Self {
        match error {
            // No fault of the caller's.
            RangeError::NoMemory => Self::Status(Status::OutOfMemory),
            other => Self::Range(other),
        }
    }
}

impl From<Status> for MapFailure {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl MapFailure {
    /// The reason, as text.
    pub fn words(self) -> &'static str {
        match self {
            Self::WritableCode => "memory cannot be mapped writable and executable at once",
            Self::PagedIsReadOnly => "paged memory cannot be mapped writable",
            Self::OutsideObject => "offset and length must be whole pages inside the object",
            Self::Gone => "a part of the range was unmapped before all of it was mapped",
            Self::Range(RangeError::Malformed) => "address and length must be positive multiples of 4096",
            Self::Range(RangeError::OutOfBounds) => "the range is not user memory",
            Self::Range(RangeError::Overlap) => "something is mapped in the range",
            Self::Range(RangeError::NoMemory) => Status::OutOfMemory.words(),
            Self::Status(status) => status.words(),
        }
    }
}
