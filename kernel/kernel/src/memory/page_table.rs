//! The user half of one address space.
//!
//! Four levels of 4 KiB tables; user memory is mapped in 4 KiB pages only. The kernel half of the
//! top table is a copy of the kernel's own, which is complete before the first process exists and
//! never changes at that level.

use core::sync::atomic::{AtomicU64, Ordering};

use capos_machine::page_entry::{Flags, PAGE, PageEntry, USER_END, index};

use super::frames::Frame;
use super::{hhdm, kernel_space};
use crate::{percpu, processors};

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

/// Bytes that one lowest-level table maps.
const LEAF_SPAN: u64 = PAGE << 9;

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

/// The tables of one address space.
#[derive(Debug)]
pub struct PageTable {
    root: Frame,
    /// How many frames the tables take, the top one included.
    tables: usize,
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
        Some(Self { root, tables: 1 })
    }

    /// Maps the 4 KiB at `physical` at `address`; takes zeroed frames for missing tables.
    ///
    /// # Errors
    /// See [`MapError`]. Tables made before a failure stay and are used by later calls.
    pub fn map(
        &mut self,
        address: u64,
        physical: u64,
        access: Access,
        frames: &mut dyn FnMut() -> Option<Frame>,
    ) -> Result<(), MapError> {
        let mut run = self.run(address, access, frames);
        if run.put(physical)? { Ok(()) } else { Err(MapError::Occupied) }
    }

    /// Maps one page after the other, from `address` on; takes zeroed frames for missing tables.
    pub fn run<'a>(
        &'a mut self,
        address: u64,
        access: Access,
        frames: &'a mut dyn FnMut() -> Option<Frame>,
    ) -> Run<'a> {
        let mut flags = Flags::PRESENT | Flags::USER;
        flags.set(Flags::WRITE, access.write);
        flags.set(Flags::NO_EXECUTE, !access.execute);
        flags.set(Flags::CACHE_DISABLE | Flags::WRITE_THROUGH | Flags::DEVICE, access.device);
        Run { table: self, frames, address, flags, leaves: None }
    }

    /// The lowest table for an address, made where it is not there.
    fn make_tables(
        &mut self,
        address: u64,
        frames: &mut dyn FnMut() -> Option<Frame>,
    ) -> Result<&'static Table, MapError> {
        let mut current = table(self.root.address());
        for level in [4, 3, 2] {
            let entry = slot(current, address, level);
            let mut value = PageEntry(entry.load(Ordering::Relaxed));
            if !value.is_present() {
                let frame = frames().ok_or(MapError::NoFrame)?;
                self.tables += 1;
                value = PageEntry::new(frame.address(), Flags::PRESENT | Flags::WRITE | Flags::USER);
                entry.store(value.0, Ordering::Release);
            }
            current = table(value.physical());
        }
        Ok(current)
    }

    /// Removes a page; gives the physical address that was mapped.
    pub fn unmap(&mut self, address: u64) -> Option<u64> {
        let entry = self.leaf(address)?;
        let old = PageEntry(entry.swap(0, Ordering::AcqRel));
        if !old.is_present() {
            return None;
        }
        self.flush(address);
        processors::forget(self.root, address, PAGE);
        Some(old.physical())
    }

    /// Removes all pages of a range of whole pages. Tables that are not there are passed over as a whole: the work is
    /// bounded by the tables that are, whatever the range.
    pub fn unmap_range(&mut self, start: u64, length: u64) {
        let end = start.saturating_add(length).min(USER_END);
        let mut at = start;
        let mut any = false;
        while at < end {
            match self.tables_of(at) {
                Err(absent) => at = (at | (absent - 1)) + 1,
                Ok(leaves) => {
                    let stop = end.min((at | (LEAF_SPAN - 1)) + 1);
                    while at < stop {
                        let old = PageEntry(slot(leaves, at, 1).swap(0, Ordering::AcqRel));
                        if old.is_present() {
                            self.flush(at);
                            any = true;
                        }
                        at += PAGE;
                    }
                }
            }
        }
        if any {
            processors::forget(self.root, start, length);
        }
    }

    /// The lowest table for an address; where one is missing, how many bytes the absent entry stands for.
    fn tables_of(&self, address: u64) -> Result<&'static Table, u64> {
        let mut current = table(self.root.address());
        for level in [4, 3, 2] {
            let value = PageEntry(slot(current, address, level).load(Ordering::Acquire));
            if !value.is_present() {
                return Err(PAGE << (9 * (level - 1)));
            }
            current = table(value.physical());
        }
        Ok(current)
    }

    /// Where the byte at `address` lies and what the page allows; `None` where nothing is mapped.
    pub fn lookup(&self, address: u64) -> Option<(u64, Access)> {
        let entry = PageEntry(self.leaf(address)?.load(Ordering::Acquire));
        if !entry.is_present() || !entry.has(Flags::USER) {
            return None;
        }
        let access = Access {
            read: true,
            write: entry.has(Flags::WRITE),
            execute: !entry.has(Flags::NO_EXECUTE),
            device: entry.has(Flags::DEVICE),
        };
        Some((entry.physical() + address % PAGE, access))
    }

    /// Where the byte at `address` lies in the direct map, if its page is mapped memory that may be read, or written.
    #[inline]
    pub fn reach(&self, address: u64, write: bool) -> Option<*mut u8> {
        let entry = PageEntry(self.leaf(address)?.load(Ordering::Acquire));
        let mut needed = Flags::PRESENT | Flags::USER;
        needed.set(Flags::WRITE, write);
        let judged = needed | Flags::DEVICE;
        (entry.0 & judged.bits() == needed.bits())
            .then(|| hhdm::pointer::<u8>(entry.physical()).wrapping_add((address % PAGE) as usize))
    }

    /// Whether the page was used since the last call; clears the mark. Another processor that has its translation
    /// may use the page without marking it again: the page seems unused then, and goes earlier.
    pub fn take_accessed(&mut self, address: u64) -> bool {
        let Some(entry) = self.leaf(address) else { return false };
        let old = PageEntry(entry.fetch_and(!Flags::ACCESSED.bits(), Ordering::AcqRel));
        let accessed = old.is_present() && old.has(Flags::ACCESSED);
        if accessed {
            self.flush(address);
        }
        accessed
    }

    /// Gives all table frames to `free`. The mapped frames are the caller's business.
    pub fn destroy(self, free: &mut dyn FnMut(Frame)) {
        if self.is_active() {
            kernel_space::activate();
        }
        processors::leave(self.root);
        destroy_level(self.root.address(), 4, free);
    }

    /// Makes this the processor's address space.
    pub fn activate(&self) {
        if !self.is_active() {
            percpu::current().set_root(self.root.address());
            // SAFETY: the kernel half of this table equals the one in use, so the code that runs
            // and all kernel data stay where they are; the user half is of no concern to Rust.
            unsafe { kernel_space::load_root(self.root) };
        }
    }

    /// How many frames the tables take.
    pub fn table_frames(&self) -> usize {
        self.tables
    }

    fn is_active(&self) -> bool {
        kernel_space::loaded_root() == self.root
    }

    /// The lowest-level entry for an address of the user half, where its tables exist.
    fn leaf(&self, address: u64) -> Option<&'static AtomicU64> {
        if address >= USER_END {
            return None;
        }
        self.tables_of(address).ok().map(|leaves| slot(leaves, address, 1))
    }

    fn flush(&self, address: u64) {
        if self.is_active() {
            kernel_space::flush(address);
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
    /// Maps the 4 KiB at `physical` behind the page before. False where something is mapped there, which stays.
    ///
    /// # Errors
    /// See [`MapError`]. Tables made before a failure stay and are used by later calls.
    #[inline]
    pub fn put(&mut self, physical: u64) -> Result<bool, MapError> {
        let address = self.address;
        let leaves = match self.leaves {
            Some(leaves) if !address.is_multiple_of(LEAF_SPAN) => leaves,
            _ => self.next_table()?,
        };
        // The last page of the user half stays free: a system call in its last bytes would leave
        // an instruction pointer that the processor does not accept.
        if !physical.is_multiple_of(PAGE) || address >= USER_END - PAGE {
            return Err(MapError::BadAddress);
        }
        self.address = address + PAGE;
        let entry = slot(leaves, address, 1);
        if PageEntry(entry.load(Ordering::Relaxed)).is_present() {
            return Ok(false);
        }
        entry.store(PageEntry::new(physical, self.flags).0, Ordering::Release);
        Ok(true)
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

/// Frees a table and those below it; of the top level only the user half.
fn destroy_level(physical: u64, level: u32, free: &mut dyn FnMut(Frame)) {
    if level > 1 {
        let entries = if level == 4 { 256 } else { 512 };
        for entry in table(physical).iter().take(entries) {
            let value = PageEntry(entry.load(Ordering::Relaxed));
            if value.is_present() {
                destroy_level(value.physical(), level - 1, free);
            }
        }
    }
    free(Frame::from_address(physical));
}
