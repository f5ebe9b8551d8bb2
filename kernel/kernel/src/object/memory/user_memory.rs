//! Reaching user memory: by walking its page tables in software and going through the direct map.
//!
//! The kernel never uses a user address as a pointer, so a bad one is an answer and never a fault.
//! This module holds all unsafe code that touches what a process can see, except the rings.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use capos_paging::PAGE;

use crate::cpu::kernel_lock::{self, Exclusive, Held, Shared};
use crate::memory::frames::Frame;
use crate::memory::page_table::PageTable;
use crate::object::address_space::{AddressSpace, Unreachable};
use crate::object::memory::MemoryObject;

/// Copies words between two places in the direct map. Both may be seen and written by running threads, so each access is
/// volatile.
///
/// # Safety
/// This many words at both places must lie aligned in one RAM frame each.
#[inline(always)]
unsafe fn copy_words(source: *const u64, target: *mut u64, words: usize) {
    let mut at = 0_usize;
    // Four at a time, with one check.
    let fours = words & !3;
    while at < fours {
        for step in 0..4 {
            let index = at.wrapping_add(step);
            // SAFETY: `index` is below `words`, and both places are aligned.
            unsafe { target.wrapping_add(index).write_volatile(source.wrapping_add(index).read_volatile()) };
        }
        at = at.wrapping_add(4);
    }
    while at < words {
        // SAFETY: as above.
        unsafe { target.wrapping_add(at).write_volatile(source.wrapping_add(at).read_volatile()) };
        at = at.wrapping_add(1);
    }
}

/// Copies bytes between two places in the direct map, as [`copy_words`] where both sides are aligned.
///
/// # Safety
/// `length` bytes at both places must lie in one RAM frame each.
unsafe fn copy_bytes(from: *const u8, to: *mut u8, length: usize) {
    let mut done = 0_usize;
    if (from as usize | to as usize).is_multiple_of(8) {
        let words = length / 8;
        // SAFETY: that many words are in both, aligned.
        unsafe { copy_words(from.cast(), to.cast(), words) };
        done = words.wrapping_mul(8);
    }
    while done < length {
        // SAFETY: within `length`.
        unsafe { to.wrapping_add(done).write_volatile(from.wrapping_add(done).read_volatile()) };
        done = done.wrapping_add(1);
    }
}

/// Least number of words for which `rep movsq` is used. It takes longer to begin than a loop does.
const MANY: usize = 64;

/// Copies bytes as [`copy_bytes`] does, which is faster for short ranges.
///
/// # Safety
/// As for [`copy_bytes`].
unsafe fn copy_many(from: *const u8, to: *mut u8, length: usize) {
    let words = length / 8;
    let mut done = 0;
    if words >= MANY && (from as usize | to as usize).is_multiple_of(8) {
        // SAFETY: that many words are in both, aligned. The direction flag is clear in the kernel.
        unsafe {
            core::arch::asm!(
                "rep movsq",
                inout("rcx") words => _,
                inout("rsi") from => _,
                inout("rdi") to => _,
                options(nostack, preserves_flags),
            );
        }
        done = words.wrapping_mul(8);
    }
    // SAFETY: the rest of both.
    unsafe { copy_bytes(from.wrapping_add(done), to.wrapping_add(done), length.wrapping_sub(done)) }
}

/// The bytes of a range up to the end of its first page.
fn chunk(address: u64, left: usize) -> usize {
    usize::try_from(room(address)).map_or(left, |room| room.min(left))
}

/// The bytes from an address up to the end of its page.
#[inline]
const fn room(address: u64) -> u64 {
    PAGE.wrapping_sub(address % PAGE)
}

type IsPaged<'a> = &'a dyn Fn(u64) -> bool;

/// Where a user byte lies, if it may be read, or written.
fn translate(table: &PageTable, is_paged: IsPaged<'_>, address: u64, write: bool) -> Result<u64, Unreachable> {
    table.find(address, write).map_err(|mapped| {
        if !mapped && !write && is_paged(address) { Unreachable::Absent(address) } else { Unreachable::Forbidden }
    })
}

fn pointer(physical: u64) -> *mut u8 {
    let frame = Frame::from_address(physical);
    frame.pointer().wrapping_add((physical % PAGE) as usize)
}

/// Visits the pages of a user range: offset in the range, bytes in this page, physical address.
fn walk(
    table: &PageTable,
    is_paged: IsPaged<'_>,
    (address, length): (u64, usize),
    write: bool,
    mut visit: impl FnMut(usize, usize, u64),
) -> Result<(), Unreachable> {
    let mut done: usize = 0;
    while done < length {
        let here = address.checked_add(done as u64).ok_or(Unreachable::Forbidden)?;
        // `done` is less.
        let count = chunk(here, length.wrapping_sub(done));
        visit(done, count, translate(table, is_paged, here, write)?);
        done = done.saturating_add(count);
    }
    Ok(())
}

impl AddressSpace {
    /// Copies user memory into the kernel.
    ///
    /// # Errors
    /// Not all of the range is readable user memory, or resident.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Unreachable> {
        let target = into.as_mut_ptr();
        let range = (address, into.len());
        self.with_table(|table, is_paged| {
            walk(table, is_paged, range, false, |at, count, physical| {
                // SAFETY: `walk` gives parts that lie in one user frame each; `at + count` is at
                // most the length of `into`.
                unsafe { copy_bytes(pointer(physical), target.add(at), count) }
            })
        })
        .unwrap_or(Err(Unreachable::Forbidden))
    }

    /// Reads an aligned word of user memory, in one piece.
    ///
    /// # Errors
    /// It is not readable user memory, or not resident.
    pub fn read_word(&self, address: u64) -> Result<u32, Unreachable> {
        if !address.is_multiple_of(4) {
            return Err(Unreachable::Forbidden);
        }
        self.with_table(|table, is_paged| {
            let physical = translate(table, is_paged, address, false)?;
            // SAFETY: an aligned word in a user frame, which the space's lock keeps mapped; atomics
            // tolerate what the process's threads do meanwhile.
            Ok(unsafe { AtomicU32::from_ptr(pointer(physical).cast()) }.load(Ordering::SeqCst))
        })
        .unwrap_or(Err(Unreachable::Forbidden))
    }

    /// The words at `from`. `None` where they do not lie aligned in one page that is resident, or where the space is locked.
    #[inline(always)]
    pub fn peek<const COUNT: usize>(&self, _: Held<'_>, from: u64) -> Option<[u64; COUNT]> {
        if !from.is_multiple_of(8) || room(from) < const { 8 * COUNT as u64 } {
            return None;
        }
        let read = self.reach(from, false)?.cast::<[u64; COUNT]>();
        // SAFETY: the words lie aligned in one page, a RAM frame; nothing is unmapped while this runs, as in `copy_short`.
        Some(unsafe { read.read_volatile() })
    }

    /// Where words can be written for as long as the kernel lock is held. `None` as for [`AddressSpace::peek`].
    #[inline(always)]
    pub fn place<'lock, const COUNT: usize>(
        &'lock self,
        _: Held<'lock>,
        to: u64,
    ) -> Option<WritableWords<'lock, COUNT>> {
        if !to.is_multiple_of(8) || room(to) < const { 8 * COUNT as u64 } {
            return None;
        }
        Some(WritableWords { words: self.reach(to, true)?.cast(), of: PhantomData })
    }

    /// Reads the word at `from`, and writes what `answer` makes of it at `to`, where that is words. `None`, and nothing has
    /// happened, where both do not lie aligned in a page each that is resident, where the space is locked, or where
    /// `answer` says so.
    #[inline(always)]
    pub fn exchange<const COUNT: usize>(
        &self,
        lock: Held<'_>,
        from: u64,
        to: u64,
        answer: impl FnOnce(u64) -> Option<[u64; COUNT]>,
    ) -> Option<()> {
        let [word] = self.peek(lock, from)?;
        let place = self.place(lock, to)?;
        place.write(answer(word)?);
        Some(())
    }

    /// Copies kernel bytes into user memory.
    ///
    /// # Errors
    /// Not all of the range is writable user memory.
    pub fn write(&self, lock: &mut Exclusive, address: u64, from: &[u8]) -> Result<(), Unreachable> {
        self.owning(lock, (address, from.len()), || self.write_unshared(address, from))
    }

    /// The same, where the writer shares no page of the range.
    ///
    /// # Errors
    /// As for [`Self::write`]; a page is shared.
    pub fn write_unshared(&self, address: u64, from: &[u8]) -> Result<(), Unreachable> {
        let source = from.as_ptr();
        self.with_table(|table, is_paged| {
            walk(table, is_paged, (address, from.len()), true, |at, count, physical| {
                // SAFETY: as in `read`.
                unsafe { copy_bytes(source.add(at), pointer(physical), count) }
            })
        })
        .unwrap_or(Err(Unreachable::Forbidden))
    }

    /// Writes to a range by `act`; once more where that was refused and pages of the range were shared, which are the writer's
    /// own then.
    #[inline(always)]
    fn owning<E>(
        &self,
        lock: &mut Exclusive,
        (address, length): (u64, usize),
        act: impl Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        // One place where it is called, so that it is there once.
        loop {
            match act() {
                // The second time there is nothing left to be made the writer's own.
                Err(_) if self.make_own(lock, address, length as u64) => {}
                done => return done,
            }
        }
    }

    /// Judges a range without touching it.
    ///
    /// # Errors
    /// Not all of it is user memory for this.
    pub fn check(&self, lock: &mut Exclusive, address: u64, length: usize, write: bool) -> Result<(), Unreachable> {
        let judge = || {
            self.with_table(|table, is_paged| walk(table, is_paged, (address, length), write, |_, _, _| ()))
                .unwrap_or(Err(Unreachable::Forbidden))
        };
        if write { self.owning(lock, (address, length), judge) } else { judge() }
    }
}

/// Words of user memory that can be written.
#[derive(Debug)]
pub struct WritableWords<'lock, const COUNT: usize> {
    words: *mut [u64; COUNT],
    of: PhantomData<(Held<'lock>, &'lock AddressSpace)>,
}

impl<const COUNT: usize> WritableWords<'_, COUNT> {
    /// Writes them.
    #[inline(always)]
    pub fn write(self, words: [u64; COUNT]) {
        // SAFETY: they lie aligned in one page, a RAM frame; nothing is unmapped while this runs, as in `copy_short`.
        unsafe { self.words.write_volatile(words) };
    }
}

/// Which side of a copy could not be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyFailure {
    Source(Unreachable),
    Target(Unreachable),
}

/// Writes kernel bytes to user memory and, right behind them, `length` bytes from an address space.
///
/// # Errors
/// Which side is not accessible; a part may have been written then.
pub fn copy_behind(
    lock: &mut Exclusive,
    (source, from): (&AddressSpace, u64),
    (target, to): (&AddressSpace, u64),
    first: &[u8],
    length: usize,
) -> Result<(), CopyFailure> {
    let gone = Unreachable::Forbidden;
    let body = to.checked_add(first.len() as u64).ok_or(CopyFailure::Target(gone))?;
    let run = |s: &PageTable, s_paged: IsPaged<'_>, t: &PageTable, t_paged: IsPaged<'_>| {
        walk(t, t_paged, (to, first.len()), true, |at, count, physical| {
            // SAFETY: `walk` gives parts that lie in one user frame each; `at + count` is at most
            // the length of `first`.
            unsafe { copy_bytes(first.as_ptr().add(at), pointer(physical), count) }
        })
        .map_err(CopyFailure::Target)?;
        copy_pages((s, s_paged, from), (t, t_paged, body), length)
    };
    target.owning(lock, (to, first.len().saturating_add(length)), || {
        if core::ptr::eq(source, target) {
            return source
                .with_table(|table, is_paged| run(table, is_paged, table, is_paged))
                .unwrap_or(Err(CopyFailure::Source(gone)));
        }
        // Two address spaces are always locked in the order of their addresses.
        let result = if core::ptr::from_ref(source) < core::ptr::from_ref(target) {
            source.with_table(|s, s_paged| target.with_table(|t, t_paged| run(s, s_paged, t, t_paged)))
        } else {
            target.with_table(|t, t_paged| source.with_table(|s, s_paged| run(s, s_paged, t, t_paged)))
        };
        result.flatten().unwrap_or(Err(CopyFailure::Target(gone)))
    })
}

/// Copies `length` bytes from one address space to another, behind `header`, where they lie in one page on each side, all
/// of it is there and neither is locked. False where that is not so: [`copy_behind`] knows what to do then. All addresses are
/// 8-byte aligned. The two must not be the same.
#[inline(always)]
pub fn copy_short<const HEADER: usize>(
    _: Held<'_>,
    (source, from): (&AddressSpace, u64),
    (target, to): (&AddressSpace, u64),
    header: &[u64; HEADER],
    length: usize,
) -> bool {
    // Where this overflows, `length` alone is too long.
    let behind = const { 8 * HEADER as u64 }.wrapping_add(length as u64);
    if length as u64 > room(from) || behind > room(to) || (from | to) % 8 != 0 {
        return false;
    }
    // Without bytes there may be no address to read from.
    let read = if length == 0 { Some(core::ptr::null_mut()) } else { source.reach(from, false) };
    let (Some(read), Some(written)) = (read, target.reach(to, true)) else { return false };
    let written = written.cast::<u64>();
    // SAFETY: the header lies in one page from `to` on, which is a RAM frame; nothing is unmapped while this runs, since that
    // takes `&mut Exclusive`, which no processor has as long as `Held` is borrowed.
    unsafe { written.cast::<[u64; HEADER]>().write_volatile(*header) };
    let behind = written.wrapping_add(HEADER);
    // SAFETY: both parts lie in one page each, as above, and are aligned; where there are none, nothing is copied.
    unsafe { copy_words(read.cast(), behind, length / 8) };
    let rest = length % 8;
    if rest > 0 {
        let whole = length.wrapping_sub(rest);
        // SAFETY: what is left of them.
        unsafe { copy_bytes(read.wrapping_add(whole), behind.cast::<u8>().wrapping_add(whole), rest) };
    }
    compiler_fence(Ordering::Release);
    true
}

/// A place in user memory that messages come from, or go to, again and again: where it lies in the direct map, as long as nobody has
/// held the kernel lock exclusively.
#[derive(Debug)]
pub struct Spot<const WRITTEN: bool> {
    address: u64,
    words: *mut u64,
    /// Bytes from there to the end of its page.
    room: u32,
    /// Bytes that a message has at least: without any, it has no address.
    least: u32,
    /// How often somebody held the kernel lock exclusively when it was found.
    since: u64,
}

// SAFETY: the direct map is the same for all processors.
unsafe impl<const WRITTEN: bool> Send for Spot<WRITTEN> {}

impl<const WRITTEN: bool> Spot<WRITTEN> {
    /// The place at an address. `None` where it is not aligned, not there, or the space is locked. Not for the exclusive holder of the
    /// kernel lock, which could unmap the place without acquiring the lock again.
    pub fn find(_: &Shared, space: &AddressSpace, address: u64) -> Option<Self> {
        let (words, room, least) = match address {
            0 => (core::ptr::null_mut(), 0, 0),
            _ if !address.is_multiple_of(8) => return None,
            _ => (space.reach(address, WRITTEN)?.cast(), room(address), 1),
        };
        // It is a page at most.
        Some(Self { address, words, room: room as u32, least, since: kernel_lock::times_exclusive() })
    }

    /// Its address.
    #[inline(always)]
    pub fn address(&self) -> u64 {
        self.address
    }
}

/// Copies a message of this many bytes from one place to another, behind a header. False, and nothing is copied, where either has no
/// room for it, there are no bytes where there is an address, or what is known of the places may not be so any more.
#[inline(always)]
pub fn copy_between<const HEADER: usize>(
    _: &Shared,
    source: &Spot<false>,
    target: &Spot<true>,
    header: &[u64; HEADER],
    length: u32,
) -> bool {
    let now = kernel_lock::times_exclusive();
    // None of these is more than a page, so nothing overflows where the length is not either.
    let behind = length.wrapping_add(const { 8 * HEADER as u32 });
    if length < source.least
        || length > source.room
        || behind > target.room
        || source.since != now
        || target.since != now
    {
        return false;
    }
    for (place, word) in (0..).zip(header) {
        // SAFETY: both places were found where user memory is mapped, in a page each, aligned, and are used up to its end at most;
        // nothing was unmapped since, since that needs the kernel lock exclusively, and this processor shares it.
        unsafe { target.words.wrapping_add(place).write_volatile(*word) };
    }
    let behind = target.words.wrapping_add(HEADER);
    let (words, rest) = (length as usize / 8, length as usize % 8);
    // SAFETY: as above.
    unsafe { copy_words(source.words, behind, words) };
    if rest > 0 {
        // SAFETY: as above.
        unsafe { copy_bytes(source.words.wrapping_add(words).cast(), behind.wrapping_add(words).cast(), rest) };
    }
    compiler_fence(Ordering::Release);
    true
}

/// Copies `length` bytes from one address space to another, or within one.
///
/// # Errors
/// As [`copy_behind`].
pub fn copy(
    lock: &mut Exclusive,
    source: (&AddressSpace, u64),
    target: (&AddressSpace, u64),
    length: usize,
) -> Result<(), CopyFailure> {
    copy_behind(lock, source, target, &[], length)
}

fn copy_pages(
    (source, source_paged, from): (&PageTable, IsPaged<'_>, u64),
    (target, target_paged, to): (&PageTable, IsPaged<'_>, u64),
    length: usize,
) -> Result<(), CopyFailure> {
    let overflow = Unreachable::Forbidden;
    let mut done: usize = 0;
    while done < length {
        let here = from.checked_add(done as u64).ok_or(CopyFailure::Source(overflow))?;
        let there = to.checked_add(done as u64).ok_or(CopyFailure::Target(overflow))?;
        // `done` is less.
        let left = length.wrapping_sub(done);
        let count = chunk(here, left).min(chunk(there, left));
        let read = translate(source, source_paged, here, false).map_err(CopyFailure::Source)?;
        let write = translate(target, target_paged, there, true).map_err(CopyFailure::Target)?;
        // SAFETY: both parts end at most at the end of their pages, which are RAM frames.
        unsafe { copy_many(pointer(read), pointer(write), count) };
        done = done.saturating_add(count);
    }
    compiler_fence(Ordering::Release);
    Ok(())
}

/// Copies a frame into one that nothing else uses. Only a device may write the first one meanwhile.
pub fn copy_frame(from: Frame, to: Frame) {
    // SAFETY: both are whole RAM frames in the direct map.
    unsafe { copy_bytes(from.pointer(), to.pointer(), PAGE as usize) };
}

/// Writes kernel bytes into a memory object whose frames are there for good, before anybody sees it.
/// False where they do not fit.
pub fn fill(memory: &MemoryObject, offset: u64, from: &[u8]) -> bool {
    let mut done: usize = 0;
    while done < from.len() {
        let at = offset.saturating_add(done as u64);
        let Some(frame) = memory.stable_frame(at / PAGE) else { return false };
        let count = chunk(at, from.len().saturating_sub(done));
        // SAFETY: the part ends at most at the end of the frame, which the object keeps.
        unsafe { copy_bytes(from.as_ptr().add(done), pointer(frame.address() | (at % PAGE)), count) };
        done = done.saturating_add(count);
    }
    true
}
