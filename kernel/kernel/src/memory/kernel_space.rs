//! The kernel half of all address spaces, built by the kernel itself at the start.
//!
//! The direct map holds RAM, readable and writable and never executable, in the largest pages that
//! fit, without the frames of the kernel image; the image is mapped at its link address, text
//! read-execute, constants read-only, data read-write; kernel stacks lie apart with unmapped pages
//! below them. Nothing else is mapped.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use capos_machine::page_entry::{Flags, PAGE, PageEntry, step};
use capos_machine::range::Range;

use super::frames::{self, Frame};
use super::hhdm;
use super::page_table::{slot, table};
use crate::arch::cpu;
use crate::arch::percpu::PerCpu;

/// Where kernel stacks lie.
const STACKS: u64 = 0xffff_ff00_0000_0000;
/// Address space per stack: the stack and the unmapped room below it.
const STACK_SPACING: u64 = 1 << 20;
/// Bytes of a kernel stack.
pub const STACK_SIZE: u64 = 64 << 10;

static ROOT: AtomicU64 = AtomicU64::new(0);
static SEALED: AtomicBool = AtomicBool::new(false);
static STACK_COUNT: AtomicU64 = AtomicU64::new(0);

/// What the kernel's own map can run into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceError {
    /// No frame for a page table or a stack.
    NoMemory,
    /// The address would need a new entry of the top level after processes copied it.
    Sealed,
}

unsafe extern "C" {
    static kernel_image_start: u8;
    static kernel_text_start: u8;
    static kernel_text_end: u8;
    static kernel_rodata_start: u8;
    static kernel_rodata_end: u8;
    static kernel_data_start: u8;
    static kernel_data_end: u8;
    static kernel_image_end: u8;
}

/// Bytes of the kernel's image in memory.
pub fn image_length() -> u64 {
    (&raw const kernel_image_end as u64).saturating_sub(&raw const kernel_image_start as u64)
}

/// Builds the kernel half and makes it active. `image` is the physical address at which the
/// loader put the kernel, `memory` the RAM that the direct map shall hold.
///
/// # Errors
/// [`SpaceError::NoMemory`].
///
/// # Safety
/// The loader's map must be active, and hold the frames that `frames` hands out. What the caller
/// still uses must lie in `memory` or in the image.
pub unsafe fn initialize(image: u64, memory: impl Iterator<Item = Range>) -> Result<(), SpaceError> {
    let root = frames::allocate().ok_or(SpaceError::NoMemory)?;
    ROOT.store(root.address(), Ordering::Relaxed);
    let read_write = Flags::WRITE | Flags::NO_EXECUTE;
    let image_range = Range::new(image, image_length()).outer_pages();
    for range in memory {
        for part in range.outer_pages().without(image_range) {
            if !part.is_empty() {
                map(hhdm::virtual_address(part.start), part.start, part.length(), read_write)?;
            }
        }
    }
    let start = &raw const kernel_image_start as u64;
    let sections = [
        (&raw const kernel_text_start as u64, &raw const kernel_text_end as u64, Flags::empty()),
        (&raw const kernel_rodata_start as u64, &raw const kernel_rodata_end as u64, Flags::NO_EXECUTE),
        (&raw const kernel_data_start as u64, &raw const kernel_data_end as u64, read_write),
    ];
    for (from, to, flags) in sections {
        map(from, image.saturating_add(from.saturating_sub(start)), to.saturating_sub(from), flags)?;
    }
    // One table below the top level for the stacks, so that later processors' stacks appear in
    // every address space.
    table_below(slot(table(root.address()), STACKS, 4), 4)?;
    // SAFETY: the image, where this code runs, its data and the direct map keep their addresses;
    // the stack in use lies in RAM that the caller vouches for.
    unsafe { load_root(root) };
    Ok(())
}

/// The top table of the kernel alone.
pub fn root() -> Frame {
    Frame::from_address(ROOT.load(Ordering::Relaxed))
}

/// From now on the top level of the kernel half does not change any more.
pub fn seal() {
    SEALED.store(true, Ordering::Relaxed);
}

/// This processor, whose data these are, leaves the current address space for one without a user half.
pub fn activate(own: &PerCpu) {
    own.set_root(root().address());
    // SAFETY: the kernel half is the same in all of them.
    unsafe { load_root(root()) };
}

/// Forgets all translations of the user half on this processor.
pub fn flush_user() {
    // SAFETY: what is loaded stays loaded.
    unsafe { load_root(loaded_root()) };
}

/// Loads CR3, which also forgets all translations of the user half.
///
/// # Safety
/// The kernel half of `root` must be the kernel's.
pub unsafe fn load_root(root: Frame) {
    // SAFETY: the caller's promise.
    unsafe { core::arch::asm!("mov cr3, {}", in(reg) root.address(), options(nostack, preserves_flags)) };
}

/// The top table in use.
pub fn loaded_root() -> Frame {
    let value: u64;
    // SAFETY: reading CR3 has no effect.
    unsafe { core::arch::asm!("mov {}, cr3", out(reg) value, options(nostack, nomem, preserves_flags)) };
    Frame::from_address(PageEntry(value).physical())
}

/// Forgets the translation of one address on this processor.
pub fn flush(address: u64) {
    // SAFETY: forgetting a translation is always allowed.
    unsafe { core::arch::asm!("invlpg [{}]", in(reg) address, options(nostack, preserves_flags)) };
}

/// Maps device registers into the direct map, uncached, and gives their address.
///
/// # Errors
/// See [`SpaceError`].
pub fn map_device(physical: u64, length: u64) -> Result<*mut u8, SpaceError> {
    let flags = Flags::WRITE | Flags::NO_EXECUTE | Flags::CACHE_DISABLE | Flags::WRITE_THROUGH;
    map_around(physical, length, flags)
}

/// Maps memory that the firmware left, for reading only, and gives its address.
///
/// # Errors
/// See [`SpaceError`].
pub fn map_firmware(physical: u64, length: u64) -> Result<*const u8, SpaceError> {
    map_around(physical, length, Flags::NO_EXECUTE).map(|p| p.cast_const())
}

/// A kernel stack that nothing has used yet. Its memory is given back where nothing keeps it.
#[derive(Debug)]
pub struct Stack {
    number: u64,
}

impl Stack {
    /// A new one. The page below it is not mapped.
    ///
    /// # Errors
    /// [`SpaceError::NoMemory`].
    pub fn new() -> Result<Self, SpaceError> {
        let stack = Self { number: STACK_COUNT.fetch_add(1, Ordering::Relaxed) };
        for address in stack.pages() {
            let frame = frames::allocate().ok_or(SpaceError::NoMemory)?;
            let mapped = map(address, frame.address(), PAGE, Flags::WRITE | Flags::NO_EXECUTE);
            mapped.inspect_err(|_| frames::free(frame))?;
        }
        Ok(stack)
    }

    /// Its top, aligned to 16.
    pub fn top(&self) -> u64 {
        stacks_end(self.number.saturating_add(1))
    }

    fn pages(&self) -> impl Iterator<Item = u64> + use<> {
        (self.top().saturating_sub(STACK_SIZE)..self.top()).step_by(PAGE as usize)
    }

    /// It is used from now on, and for good; gives its top, aligned to 16.
    pub fn keep(self) -> u64 {
        let top = self.top();
        core::mem::forget(self);
        top
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        for address in self.pages() {
            let frame = unmap(address);
            // Nothing has touched it, so no other processor has a translation.
            flush(address);
            frame.into_iter().for_each(frames::free);
        }
        // Processors are prepared one after another: the next stack lies in the same place, whose tables stay.
        let count = self.number.saturating_add(1);
        let _ = STACK_COUNT.compare_exchange(count, self.number, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The end of the room of this many stacks.
fn stacks_end(count: u64) -> u64 {
    STACKS.saturating_add(count.saturating_mul(STACK_SPACING))
}

/// Whether an address lies in the unmapped room below a kernel stack.
pub fn is_stack_guard(address: u64) -> bool {
    let end = stacks_end(STACK_COUNT.load(Ordering::Relaxed));
    (STACKS..end).contains(&address) && address.saturating_sub(STACKS) % STACK_SPACING < STACK_SPACING - STACK_SIZE
}

fn map_around(physical: u64, length: u64, flags: Flags) -> Result<*mut u8, SpaceError> {
    let pages = Range::new(physical, length).outer_pages();
    map(hhdm::virtual_address(pages.start), pages.start, pages.length(), flags)?;
    Ok(hhdm::pointer(physical))
}

/// Maps a range; what is mapped already stays unchanged.
fn map(address: u64, physical: u64, length: u64, flags: Flags) -> Result<(), SpaceError> {
    let flags = flags | Flags::PRESENT | Flags::GLOBAL;
    let huge = cpu::features().huge_pages;
    let mut done: u64 = 0;
    while done < length {
        let (virtual_now, physical_now) = (address.saturating_add(done), physical.saturating_add(done));
        let size = step(virtual_now, physical_now, length.saturating_sub(done), huge);
        done = done.saturating_add(map_one(virtual_now, physical_now, size, flags)?);
    }
    Ok(())
}

/// Maps one page of `size` bytes, or finds out that a smaller or larger page lies there already;
/// gives how many bytes are settled.
fn map_one(address: u64, physical: u64, size: u64, flags: Flags) -> Result<u64, SpaceError> {
    let level = match size {
        PAGE => 1,
        capos_machine::page_entry::LARGE_PAGE => 2,
        _ => 3,
    };
    let mut current = table(root().address());
    for here in [4, 3, 2] {
        if here == level {
            break;
        }
        let entry = slot(current, address, here);
        let value = PageEntry(entry.load(Ordering::Relaxed));
        if value.is_present() && value.has(Flags::LARGE) {
            return Ok(PAGE);
        }
        current = table(table_below(entry, here)?);
    }
    let entry = slot(current, address, level);
    let old = PageEntry(entry.load(Ordering::Relaxed));
    if old.is_present() {
        if level > 1 && !old.has(Flags::LARGE) {
            // Smaller pages lie there: fill what they leave.
            return map_one(address, physical, PAGE, flags);
        }
        return Ok(size);
    }
    let large = if level > 1 { Flags::LARGE } else { Flags::empty() };
    entry.store(PageEntry::new(physical, flags | large).0, Ordering::Release);
    Ok(size)
}

/// Takes a page of 4 KiB out of the map, where one is there; the caller makes the processors forget it.
fn unmap(address: u64) -> Option<Frame> {
    let mut current = table(root().address());
    for level in [4, 3, 2] {
        let value = PageEntry(slot(current, address, level).load(Ordering::Relaxed));
        if !value.is_present() || (level < 4 && value.has(Flags::LARGE)) {
            return None;
        }
        current = table(value.physical());
    }
    let value = PageEntry(slot(current, address, 1).swap(0, Ordering::Relaxed));
    value.is_present().then(|| Frame::from_address(value.physical()))
}

/// The table that an entry on `level` points to, made where it is missing.
fn table_below(entry: &AtomicU64, level: u32) -> Result<u64, SpaceError> {
    let mut value = PageEntry(entry.load(Ordering::Relaxed));
    if !value.is_present() {
        if level == 4 && SEALED.load(Ordering::Relaxed) {
            return Err(SpaceError::Sealed);
        }
        let frame = frames::allocate().ok_or(SpaceError::NoMemory)?;
        value = PageEntry::new(frame.address(), Flags::PRESENT | Flags::WRITE);
        entry.store(value.0, Ordering::Release);
    }
    Ok(value.physical())
}

impl core::fmt::Display for SpaceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            SpaceError::NoMemory => "no memory is left for the kernel's own page tables and stacks",
            SpaceError::Sealed => "a device lies where the kernel's map has no room any more",
        })
    }
}
