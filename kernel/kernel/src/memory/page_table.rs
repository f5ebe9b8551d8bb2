//! The user half of one address space.
//!
//! Four levels of 4 KiB tables. User memory is mapped in pages of 4 KiB, and of 2 MiB where address and frames are aligned
//! for it. A large page that must go in part becomes 512 small ones; the table for them was put aside when it was mapped, so
//! this takes no memory and cannot fail. The kernel half of the top table is a copy of the kernel's own, which is complete
//! before the first process exists and never changes at that level.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

use capos_machine::page_entry::{Flags, LARGE_PAGE, PAGE, PageEntry, USER_END, index};

use super::frames::{self, Frame};
use super::shootdown::{self, ExclusiveGuard};
use super::{hhdm, kernel_space};
use crate::arch::percpu::{self, PerCpu};

/// What may be done with a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// Every mapped page can be read; false maps it read-only all the same.
    pub read: bool,
    pub write: bool,
    pub execute: bool,
    /// Device memory: uncached.
    pub device: bool,
}

/// Why a page was not mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapError {
    /// Something is mapped there.
    Occupied,
    /// No frame for a page table.
    NoFrame,
    /// Not the start of a page of the user half, or a physical address that is no page's start.
    BadAddress,
}

/// What entries of tables have: rights are those of the page.
const TABLE: Flags = Flags::PRESENT.union(Flags::WRITE).union(Flags::USER);
/// What the processor notes in an entry.
const USED: Flags = Flags::ACCESSED.union(Flags::DIRTY);

/// One table of any level: 512 entries. Atomic, since the processor sets bits in them.
type Table = [AtomicU64; 512];

/// The table in a frame.
pub(super) fn table(physical: u64) -> &'static Table {
    // SAFETY: the callers pass frames that were allocated as page tables, which lie in the direct
    // map, are 4 KiB long and aligned, and are accessed through atomics only. They live until
    // `PageTable::destroy`, which takes the address space out of use first.
    unsafe { &*hhdm::pointer::<Table>(physical) }
}

/// The entry of `table` for `address` on `level`.
pub(super) fn slot(table: &'static Table, address: u64, level: u32) -> &'static AtomicU64 {
    // `index` is below 512 by construction, so the other entry is never taken.
    let [first, ..] = table;
    table.get(index(address, level)).unwrap_or(first)
}

/// Where the next part of the user half begins that is this many bytes long, a power of two, and aligned to that. User
/// addresses have 47 bits, so nothing overflows.
fn behind(address: u64, bytes: u64) -> u64 {
    (address | bytes.wrapping_sub(1)).wrapping_add(1)
}

/// Where the way down ends for an address.
enum Lowest {
    /// At a table of small pages.
    Table(&'static Table),
    /// At the entry of a large page.
    Large(&'static AtomicU64),
    /// At an entry that is absent; this many bytes it stands for.
    Absent(u64),
}

/// The small page at an address that is a part of a large one.
fn part_of(large: PageEntry, address: u64) -> PageEntry {
    PageEntry((large.0 & !Flags::LARGE.bits()) | (address & (LARGE_PAGE - PAGE)))
}

/// How many translations [`Known`] has room for: a power of two.
const KNOWN: usize = 8;

/// Where pages lie that were reached before, as the processor's own buffer has it: what makes that forget a translation makes
/// this forget all.
#[derive(Debug, Default)]
struct Known {
    /// A page, with what it was reached for, and its physical address.
    places: [Cell<(u64, u64)>; KNOWN],
    any: Cell<bool>,
}

impl Known {
    /// What stands for a page that is reached to be written or to be read; never 0, and no other page's.
    #[inline(always)]
    fn tag(address: u64, write: bool) -> u64 {
        (address & !(PAGE - 1)) | 2 | u64::from(write)
    }

    #[inline(always)]
    fn place(&self, tag: u64) -> &Cell<(u64, u64)> {
        let [first, ..] = &self.places;
        // Pages side by side, and a page that is read and written, have places of their own.
        let number = (tag / (PAGE / 2)) | (tag & 1);
        self.places.get(number as usize % KNOWN).unwrap_or(first)
    }

    #[inline(always)]
    fn find(&self, tag: u64) -> Option<u64> {
        let (known, physical) = self.place(tag).get();
        (known == tag).then_some(physical)
    }

    fn note(&self, tag: u64, physical: u64) {
        self.place(tag).set((tag, physical));
        self.any.set(true);
    }

    #[inline]
    fn forget(&self) {
        if self.any.replace(false) {
            self.places.iter().for_each(|place| place.set((0, 0)));
        }
    }
}

/// The tables of one address space.
#[derive(Debug)]
pub struct PageTable {
    root: Frame,
    /// How many frames the tables take, the top one and the spare ones included.
    tables: usize,
    /// How many large pages are mapped.
    large: usize,
    /// Tables for the small pages that large ones may have to become: the first, which names the next in its first entry,
    /// and how many. Never fewer than large pages.
    spare: Option<Frame>,
    spares: usize,
    known: Known,
}

impl PageTable {
    /// An empty user half; takes one zeroed frame from `frames`.
    pub fn new(frames: &mut dyn FnMut() -> Option<Frame>) -> Option<Self> {
        let root = frames()?;
        let own = table(root.address());
        let kernel = table(kernel_space::root().address());
        for (entry, shared) in own.iter().zip(kernel).skip(256) {
            entry.store(shared.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        kernel_space::seal();
        Some(Self { root, tables: 1, large: 0, spare: None, spares: 0, known: Known::default() })
    }

    /// Maps one page after the other, from `address` on; takes zeroed frames for missing tables.
    pub fn run<'a>(
        &'a mut self,
        address: u64,
        access: Access,
        frames: &'a mut dyn FnMut() -> Option<Frame>,
    ) -> Run<'a> {
        Run { table: self, frames, address, flags: flags(access), leaves: None }
    }

    /// The lowest table for an address, made where it is not there.
    fn make_tables(
        &mut self,
        address: u64,
        frames: &mut dyn FnMut() -> Option<Frame>,
    ) -> Result<&'static Table, MapError> {
        let entry = self.make_upper_tables(address, frames)?;
        if PageEntry(entry.load(Ordering::Relaxed)).has(Flags::LARGE) {
            return Err(MapError::Occupied);
        }
        self.table_below(entry, frames)
    }

    /// The entry on level 2 for an address, whose tables are made where they are not there.
    #[inline]
    fn make_upper_tables(
        &mut self,
        address: u64,
        frames: &mut dyn FnMut() -> Option<Frame>,
    ) -> Result<&'static AtomicU64, MapError> {
        let mut current = table(self.root.address());
        for level in [4, 3] {
            current = self.table_below(slot(current, address, level), frames)?;
        }
        Ok(slot(current, address, 2))
    }

    /// The table that an entry leads to, made where it is not there.
    #[inline]
    fn table_below(
        &mut self,
        entry: &AtomicU64,
        frames: &mut dyn FnMut() -> Option<Frame>,
    ) -> Result<&'static Table, MapError> {
        let mut value = PageEntry(entry.load(Ordering::Relaxed));
        if !value.is_present() {
            let frame = self.new_table(frames).ok_or(MapError::NoFrame)?;
            value = PageEntry::new(frame.address(), TABLE);
            entry.store(value.0, Ordering::Release);
        }
        Ok(table(value.physical()))
    }

    /// A zeroed frame for a table: a spare one that no large page needs, or a new one.
    #[cold]
    #[inline(never)]
    fn new_table(&mut self, frames: &mut dyn FnMut() -> Option<Frame>) -> Option<Frame> {
        if self.spares > self.large
            && let Some(frame) = self.take_spare()
        {
            frames::zero(frame);
            return Some(frame);
        }
        let frame = frames()?;
        self.tables = self.tables.saturating_add(1);
        Some(frame)
    }

    /// Puts a table aside.
    fn keep_spare(&mut self, frame: Frame) {
        let [next, ..] = table(frame.address());
        next.store(self.spare.map_or(0, Frame::address), Ordering::Relaxed);
        self.spare = Some(frame);
        self.spares = self.spares.saturating_add(1);
    }

    /// A table that was put aside, with whatever is in it.
    fn take_spare(&mut self) -> Option<Frame> {
        let frame = self.spare?;
        let [next, ..] = table(frame.address());
        let next = next.load(Ordering::Relaxed);
        self.spare = (next != 0).then(|| Frame::from_address(next));
        self.spares = self.spares.saturating_sub(1);
        Some(frame)
    }

    /// Maps 2 MiB as one page, where nothing is mapped there but parts of it. False where something else is, which stays.
    fn put_large(
        &mut self,
        lock: &mut impl ExclusiveGuard,
        address: u64,
        page: PageEntry,
        frames: &mut dyn FnMut() -> Option<Frame>,
    ) -> Result<bool, MapError> {
        let entry = self.make_upper_tables(address, frames)?;
        let old = PageEntry(entry.load(Ordering::Relaxed));
        if old.is_present() {
            if old.has(Flags::LARGE) || !holds_parts_of(table(old.physical()), page) {
                return Ok(false);
            }
            // No processor ever finds pages of both sizes, nor a table that is used for something else by then.
            entry.store(0, Ordering::Release);
            self.forget(lock, address);
            self.keep_spare(Frame::from_address(old.physical()));
        } else if self.spares == self.large {
            let frame = frames().ok_or(MapError::NoFrame)?;
            self.tables = self.tables.saturating_add(1);
            self.keep_spare(frame);
        }
        entry.store(page.0, Ordering::Release);
        self.large = self.large.saturating_add(1);
        Ok(true)
    }

    /// Makes 512 small pages of the large one that an entry maps. Takes no memory.
    fn split(&mut self, lock: &mut impl ExclusiveGuard, address: u64, entry: &AtomicU64) -> &'static Table {
        let spare = self.take_spare();
        assert!(spare.is_some(), "a large page without a table put aside");
        let frame = spare.unwrap_or(self.root);
        let large = PageEntry(entry.swap(0, Ordering::AcqRel));
        self.forget(lock, address);
        let leaves = table(frame.address());
        for (leaf, at) in leaves.iter().zip((0..LARGE_PAGE).step_by(PAGE as usize)) {
            leaf.store(part_of(large, at).0, Ordering::Relaxed);
        }
        entry.store(PageEntry::new(frame.address(), TABLE).0, Ordering::Release);
        self.large = self.large.saturating_sub(1);
        leaves
    }

    /// Removes a page; gives the physical address that was mapped.
    pub fn unmap(&mut self, lock: &mut impl ExclusiveGuard, address: u64) -> Option<u64> {
        let entry = self.small(lock, address)?;
        let old = PageEntry(entry.swap(0, Ordering::AcqRel));
        if !old.is_present() {
            return None;
        }
        self.forget(lock, address);
        Some(old.physical())
    }

    /// The length of what the table that is there for an address, or would be, is for: a power of two.
    #[cold]
    #[inline(never)]
    pub fn span(&self, address: u64) -> u64 {
        match self.lowest(address) {
            Lowest::Absent(bytes) => bytes,
            Lowest::Large(_) | Lowest::Table(_) => LARGE_PAGE,
        }
    }

    /// Removes all pages of a range of whole pages. Tables that are not there are passed over as a whole: the work is
    /// bounded by the tables that are, whatever the range. How many entries were looked at.
    pub fn unmap_range(&mut self, lock: &mut impl ExclusiveGuard, start: u64, length: u64) -> u32 {
        let end = start.saturating_add(length).min(USER_END);
        let mut at = start;
        let mut any = false;
        let mut seen: u32 = 0;
        while at < end {
            seen = seen.saturating_add(1);
            match self.lowest(at) {
                Lowest::Absent(bytes) => at = behind(at, bytes),
                Lowest::Large(entry) if at.is_multiple_of(LARGE_PAGE) && end.wrapping_sub(at) >= LARGE_PAGE => {
                    entry.store(0, Ordering::Release);
                    self.large = self.large.saturating_sub(1);
                    self.flush(at);
                    any = true;
                    at = at.wrapping_add(LARGE_PAGE);
                }
                // What is then there is a table.
                Lowest::Large(entry) => drop(self.split(lock, at, entry)),
                Lowest::Table(leaves) => {
                    let stop = end.min(behind(at, LARGE_PAGE));
                    seen = seen.saturating_add((stop.saturating_sub(at) / PAGE) as u32);
                    while at < stop {
                        let old = PageEntry(slot(leaves, at, 1).swap(0, Ordering::AcqRel));
                        if old.is_present() {
                            self.flush(at);
                            any = true;
                        }
                        at = at.wrapping_add(PAGE);
                    }
                }
            }
        }
        if any {
            shootdown::forget(lock, self.root, start, length);
        }
        seen
    }

    /// Takes the right to write from all pages of a range of whole pages; a large page that lies in it in part loses it as a
    /// whole. Once this returns no processor writes there.
    pub fn protect_range(&mut self, lock: &mut impl ExclusiveGuard, start: u64, length: u64) {
        let end = start.saturating_add(length).min(USER_END);
        let mut at = start;
        let mut any = false;
        let mut protect = |entry: &AtomicU64, at: u64| {
            if PageEntry(entry.fetch_and(!Flags::WRITE.bits(), Ordering::AcqRel)).has(Flags::WRITE) {
                self.flush(at);
                any = true;
            }
        };
        while at < end {
            let stop = (at | (LARGE_PAGE - 1)).saturating_add(1);
            match self.lowest(at) {
                Lowest::Absent(bytes) => at = (at | bytes.saturating_sub(1)).saturating_add(1),
                Lowest::Large(entry) => {
                    protect(entry, at);
                    at = stop;
                }
                Lowest::Table(leaves) => {
                    while at < end.min(stop) {
                        protect(slot(leaves, at, 1), at);
                        at = at.saturating_add(PAGE);
                    }
                }
            }
        }
        if any {
            shootdown::forget(lock, self.root, start, length);
        }
    }

    /// Maps another frame where a page is mapped; a large page becomes small ones. Once this returns no processor finds the
    /// one before.
    pub fn replace(&mut self, lock: &mut impl ExclusiveGuard, address: u64, frame: Frame, access: Access) {
        if let Some(entry) = self.small(lock, address)
            && PageEntry(entry.load(Ordering::Relaxed)).is_present()
        {
            entry.store(PageEntry::new(frame.address(), flags(access)).0, Ordering::Release);
            self.forget(lock, address);
        }
    }

    /// Gives a page that is mapped the right to write; a large page becomes small ones. A processor that still knows it
    /// without the right faults, and finds it then.
    pub fn allow_write(&mut self, lock: &mut impl ExclusiveGuard, address: u64) {
        if let Some(entry) = self.small(lock, address)
            && PageEntry(entry.load(Ordering::Relaxed)).is_present()
        {
            entry.fetch_or(Flags::WRITE.bits(), Ordering::AcqRel);
            self.flush(address);
        }
    }

    /// Whether a page is mapped at an address that may not be written.
    pub fn is_protected(&self, address: u64) -> bool {
        self.entry(address).is_some_and(|entry| entry.is_present() && !entry.has(Flags::WRITE))
    }

    /// Where the way down to an address ends.
    #[inline]
    fn lowest(&self, address: u64) -> Lowest {
        let mut current = table(self.root.address());
        for (level, bytes) in [(4, LARGE_PAGE << 18), (3, LARGE_PAGE << 9)] {
            let value = PageEntry(slot(current, address, level).load(Ordering::Acquire));
            if !value.is_present() {
                return Lowest::Absent(bytes);
            }
            current = table(value.physical());
        }
        let entry = slot(current, address, 2);
        let value = PageEntry(entry.load(Ordering::Acquire));
        if value.0 & (Flags::PRESENT | Flags::LARGE).bits() == Flags::PRESENT.bits() {
            Lowest::Table(table(value.physical()))
        } else if value.is_present() {
            Lowest::Large(entry)
        } else {
            Lowest::Absent(LARGE_PAGE)
        }
    }

    /// Whether anything is mapped at an address.
    #[inline]
    pub fn is_mapped(&self, address: u64) -> bool {
        self.entry(address).is_some_and(PageEntry::is_present)
    }

    /// Where the byte at `address` lies and what the page allows; `None` where nothing is mapped.
    #[cfg(feature = "tests")]
    pub fn lookup(&self, address: u64) -> Option<(u64, Access)> {
        let entry = self.entry(address)?;
        if !entry.is_present() || !entry.has(Flags::USER) {
            return None;
        }
        let access = Access {
            read: true,
            write: entry.has(Flags::WRITE),
            execute: !entry.has(Flags::NO_EXECUTE),
            device: entry.has(Flags::DEVICE),
        };
        Some((entry.physical() | (address % PAGE), access))
    }

    /// Where the byte at `address` lies in the direct map, if its page is mapped memory that may be read, or written.
    #[inline(always)]
    pub fn reach(&self, address: u64, write: bool) -> Option<*mut u8> {
        let tag = Known::tag(address, write);
        let physical = match self.known.find(tag) {
            Some(physical) => physical,
            None => self.reach_unknown(address, write)?,
        };
        Some(hhdm::pointer::<u8>(physical).wrapping_add((address % PAGE) as usize))
    }

    /// The physical address of a page, from the tables.
    #[inline(never)]
    fn reach_unknown(&self, address: u64, write: bool) -> Option<u64> {
        let physical = self.entry(address).filter(|entry| allows(*entry, write))?.physical();
        self.known.note(Known::tag(address, write), physical);
        Some(physical)
    }

    /// The physical address of the byte at `address`, if its page is mapped memory that may be read, or written.
    ///
    /// # Errors
    /// It is not; whether something is mapped there.
    #[inline]
    pub fn find(&self, address: u64, write: bool) -> Result<u64, bool> {
        match self.entry(address) {
            Some(entry) if allows(entry, write) => Ok(entry.physical() | (address % PAGE)),
            Some(entry) => Err(entry.is_present()),
            None => Err(false),
        }
    }

    /// Whether the page was used since the last call; clears the mark. Another processor that has its translation
    /// may use the page without marking it again: the page seems unused then, and goes earlier.
    ///
    /// A large page has one mark. One that was used becomes small pages, all of which were: from then on each has its own.
    pub fn take_accessed(&mut self, lock: &mut impl ExclusiveGuard, address: u64) -> bool {
        if let Lowest::Large(entry) = self.lowest(address)
            && !PageEntry(entry.load(Ordering::Acquire)).has(Flags::ACCESSED)
        {
            return false;
        }
        let Some(entry) = self.small(lock, address) else { return false };
        let old = PageEntry(entry.fetch_and(!Flags::ACCESSED.bits(), Ordering::AcqRel));
        let accessed = old.is_present() && old.has(Flags::ACCESSED);
        if accessed {
            self.flush(address);
        }
        accessed
    }

    /// Makes all processors leave the address space, which ends: no translation is looked up in it any more. The kernel lock is held
    /// exclusively; a drop that calls this has no guard.
    pub fn leave(&mut self) {
        if self.is_active() {
            kernel_space::activate(percpu::current());
        }
        shootdown::leave(self.root);
    }

    /// Gives table frames to `free`, at most `most` and those above them. Whether all are given; otherwise it is called again. The mapped frames
    /// are the caller's business. All processors have [left](Self::leave) the address space.
    pub fn destroy(&mut self, mut most: usize, free: &mut dyn FnMut(Frame)) -> bool {
        while most > 0
            && let Some(spare) = self.take_spare()
        {
            most = most.saturating_sub(1);
            free(spare);
        }
        let done = self.spare.is_none() && destroy_below(self.root.address(), 4, &mut most, free);
        if done {
            free(self.root);
        }
        done
    }

    /// How many frames the tables take.
    #[cfg(feature = "tests")]
    pub fn table_frames(&self) -> usize {
        self.tables
    }

    fn is_active(&self) -> bool {
        kernel_space::loaded_root() == self.root
    }

    /// How many large pages are mapped.
    #[cfg(feature = "tests")]
    pub fn large_pages(&self) -> usize {
        self.large
    }

    /// The entry of the small page at an address of the user half, where there are tables: of a large page, the part.
    #[inline]
    fn entry(&self, address: u64) -> Option<PageEntry> {
        if address >= USER_END {
            return None;
        }
        let mut current = table(self.root.address());
        for level in [4, 3] {
            let value = PageEntry(slot(current, address, level).load(Ordering::Acquire));
            if !value.is_present() {
                return None;
            }
            current = table(value.physical());
        }
        let value = PageEntry(slot(current, address, 2).load(Ordering::Acquire));
        // What is absent is zero, so what is large is there.
        if value.has(Flags::LARGE) {
            return Some(part_of(value, address));
        }
        if !value.is_present() {
            return None;
        }
        Some(PageEntry(slot(table(value.physical()), address, 1).load(Ordering::Acquire)))
    }

    /// The place of that entry. A large page becomes small ones.
    fn small(&mut self, lock: &mut impl ExclusiveGuard, address: u64) -> Option<&'static AtomicU64> {
        if address >= USER_END {
            return None;
        }
        let leaves = match self.lowest(address) {
            Lowest::Table(leaves) => leaves,
            Lowest::Large(entry) => self.split(lock, address, entry),
            Lowest::Absent(_) => return None,
        };
        Some(slot(leaves, address, 1))
    }

    /// Makes every processor forget the translation of an address, of whatever size its page was, and the tables that led
    /// to it.
    fn forget(&self, lock: &mut impl ExclusiveGuard, address: u64) {
        self.flush(address);
        shootdown::forget(lock, self.root, address & !(PAGE - 1), PAGE);
    }

    fn flush(&self, address: u64) {
        self.known.forget();
        if self.is_active() {
            kernel_space::flush(address);
        }
    }
}

/// The top table of a [`PageTable`], for who makes it the processor's and needs nothing else of it. Whoever destroys the
/// tables ends it first.
#[derive(Debug)]
pub struct Root(AtomicU64);

impl Root {
    /// That of these tables.
    pub fn of(table: &PageTable) -> Self {
        Self(AtomicU64::new(table.root.address()))
    }

    /// The tables are about to go.
    pub fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Makes the tables those of this processor, where they are not gone.
    #[inline(always)]
    pub fn activate(&self, cpu: &PerCpu) {
        let address = self.0.load(Ordering::Relaxed);
        if address != 0 && cpu.root() != address {
            cpu.set_root(address);
            // SAFETY: the kernel half of these tables equals the one in use, so the code that runs and all kernel data stay
            // where they are; the user half is of no concern to Rust.
            unsafe { kernel_space::load_root(Frame::from_address(address)) };
        }
    }
}

/// Pages that are mapped one after the other.
pub struct Run<'a> {
    table: &'a mut PageTable,
    frames: &'a mut dyn FnMut() -> Option<Frame>,
    /// Where the next one goes.
    address: u64,
    flags: Flags,
    /// The lowest table for it, where that is the one of the page before.
    leaves: Option<&'static Table>,
}

impl Run<'_> {
    /// Maps the 2 MiB at `physical` behind the page before as one page, where nothing is mapped there but parts of it.
    /// False where something else is, which stays.
    ///
    /// # Errors
    /// See [`MapError`]. Tables made before a failure stay and are used by later calls.
    pub fn put_large(&mut self, lock: &mut impl ExclusiveGuard, physical: u64) -> Result<bool, MapError> {
        let address = self.address;
        // The last page of the user half stays free, see `put`.
        if !(address | physical).is_multiple_of(LARGE_PAGE) || address >= USER_END - LARGE_PAGE {
            return Err(MapError::BadAddress);
        }
        self.address = address.wrapping_add(LARGE_PAGE);
        self.leaves = None;
        self.table.put_large(lock, address, PageEntry::new(physical, self.flags | Flags::LARGE), self.frames)
    }

    /// Maps the 4 KiB at `physical` behind the page before. False where something is mapped there, which stays.
    ///
    /// # Errors
    /// See [`MapError`]. Tables made before a failure stay and are used by later calls.
    #[inline]
    pub fn put(&mut self, physical: u64) -> Result<bool, MapError> {
        let address = self.address;
        let leaves = match self.leaves {
            Some(leaves) if !address.is_multiple_of(LARGE_PAGE) => leaves,
            _ => self.next_table()?,
        };
        // The last page of the user half stays free: a system call in its last bytes would leave
        // an instruction pointer that the processor does not accept.
        if !physical.is_multiple_of(PAGE) || address >= USER_END - PAGE {
            return Err(MapError::BadAddress);
        }
        self.address = address.wrapping_add(PAGE);
        let entry = slot(leaves, address, 1);
        if PageEntry(entry.load(Ordering::Relaxed)).is_present() {
            return Ok(false);
        }
        entry.store(PageEntry::new(physical, self.flags).0, Ordering::Release);
        Ok(true)
    }

    /// Maps one frame after the other behind the page before, up to the last or to the address `end`. What is mapped in their
    /// places stays.
    ///
    /// # Errors
    /// See [`MapError`].
    #[inline]
    pub fn put_all<T>(&mut self, mut run: &[T], frame: impl Fn(&T) -> Frame, end: u64) -> Result<(), MapError> {
        // The last page of the user half stays free, see `put`.
        let end = end.min(USER_END - PAGE);
        let flags = self.flags;
        while self.address < end && !run.is_empty() {
            let leaves = match self.leaves {
                Some(leaves) if !self.address.is_multiple_of(LARGE_PAGE) => leaves,
                _ => self.next_table()?,
            };
            let places = leaves.get(index(self.address, 1)..).unwrap_or_default();
            let count = places.len().min(run.len()).min((end.wrapping_sub(self.address) / PAGE) as usize);
            let (now, later) = run.split_at_checked(count).unwrap_or((run, &[]));
            for (entry, next) in places.iter().zip(now) {
                if !PageEntry(entry.load(Ordering::Relaxed)).is_present() {
                    entry.store(PageEntry::new(frame(next).entered(), flags).0, Ordering::Release);
                }
            }
            // Not past `end`.
            self.address = self.address.wrapping_add((count as u64).wrapping_mul(PAGE));
            run = later;
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn next_table(&mut self) -> Result<&'static Table, MapError> {
        if !self.address.is_multiple_of(PAGE) || self.address >= USER_END - PAGE {
            return Err(MapError::BadAddress);
        }
        let leaves = self.table.make_tables(self.address, self.frames)?;
        self.leaves = Some(leaves);
        Ok(leaves)
    }
}

/// What the entry of a page with this access has.
fn flags(access: Access) -> Flags {
    let mut flags = Flags::PRESENT | Flags::USER;
    flags.set(Flags::WRITE, access.write);
    flags.set(Flags::NO_EXECUTE, !access.execute);
    flags.set(Flags::CACHE_DISABLE | Flags::WRITE_THROUGH | Flags::DEVICE, access.device);
    flags
}

/// Whether an entry is that of a user's page of memory that may be read, or written.
#[inline]
fn allows(entry: PageEntry, write: bool) -> bool {
    let mut needed = Flags::PRESENT | Flags::USER;
    needed.set(Flags::WRITE, write);
    entry.0 & (needed | Flags::DEVICE).bits() == needed.bits()
}

/// Whether every page that a table maps is the part of a large page that lies there.
fn holds_parts_of(leaves: &Table, large: PageEntry) -> bool {
    leaves.iter().zip((0..LARGE_PAGE).step_by(PAGE as usize)).all(|(leaf, at)| {
        let entry = PageEntry(leaf.load(Ordering::Relaxed));
        !entry.is_present() || entry.0 & !USED.bits() == part_of(large, at).0
    })
}

/// Frees the tables below one, at most `most` of those with pages; of the top level only the user half. Whether none is left.
fn destroy_below(physical: u64, level: u32, most: &mut usize, free: &mut dyn FnMut(Frame)) -> bool {
    let entries = if level == 4 { 256 } else { 512 };
    if level == 2 {
        // Looking at all entries of a table takes about as long as freeing 56. One is freed in any case.
        *most = most.saturating_sub(56).max(1);
    }
    for entry in table(physical).iter().take(entries) {
        let value = PageEntry(entry.load(Ordering::Relaxed));
        if !value.is_present() || value.has(Flags::LARGE) {
            continue;
        }
        if *most == 0 {
            return false;
        }
        if level > 2 && !destroy_below(value.physical(), level.saturating_sub(1), most, free) {
            return false;
        }
        *most = most.saturating_sub(1);
        entry.store(0, Ordering::Relaxed);
        free(Frame::from_address(value.physical()));
    }
    true
}
