//! Pages of paged memory that threads touch, and that the kernel reads for them: mapped where they are in, requested from their
//! pager where they are not.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use capos_abi::Status;
use capos_paging::PAGE;

use crate::cpu::kernel_lock::Exclusive;
use crate::object::address_space::{AddressSpace, Backing, Fault, MissingPage};
use crate::object::memory::MemoryObject;
use crate::object::memory::cache::{self, Resident};
use crate::object::memory::page_request::{self, PageIn, WINDOW};
use crate::object::process::{Cause, End};
use crate::object::report;
use crate::object::thread::{State, Thread};

/// Resident pages that are mapped together at most.
const AROUND: u64 = 16;
/// Page tables that mapping them may need: those of three levels, and one more behind the border of the lowest.
const TABLES: usize = 6;

/// Lets a thread have a page of paged memory that its address space shows: it is mapped now, or the thread is
/// blocked until it can be, or its process is doomed.
pub fn require(lock: &mut Exclusive, thread: &Arc<Thread>, place: &MissingPage, memory: &Arc<MemoryObject>) {
    let Some(content) = memory.paged_content() else { return };
    let MissingPage { mapping, offset, .. } = place;
    let offset = *offset;
    let page = offset / PAGE;
    let state = content.state.lock();
    let run = state.pages.run_of_resident(page, AROUND);
    if !run.is_empty() {
        cache::HITS.fetch_add(1, Ordering::Relaxed);
        let result = map_around(lock, &thread.process.space, place, &state, page, run);
        drop(state);
        if let Err(status) = result {
            // The cache gives way to page tables too: the thread touches the page again then.
            if status == Status::OutOfMemory && cache::gives_way(lock, TABLES) {
                return;
            }
            let report = report::no_page_table(thread, memory.id, offset, status);
            thread.process.doom(lock, End { cause: Cause::Fault, code: 0, report });
        }
        return;
    }
    drop(state);
    let join = |request: &Arc<PageIn>| {
        // Where the request has just ended, the thread touches the page again.
        request.join(thread);
        Ok(true)
    };
    if let Err(status) = page_request::ask(lock, memory, page, WINDOW, Some(mapping), join) {
        let report = report::page_in_failed(thread, memory.id, offset, status.words());
        thread.process.doom(lock, End { cause: Cause::Fault, code: 0, report });
    }
}

/// Maps a resident page: as a part of a large page, where all of that is in and the mapping can show it, else with those
/// after it that are resident too.
fn map_around<'a>(
    lock: &mut Exclusive,
    space: &AddressSpace,
    place: &MissingPage,
    state: &'a cache::PagedState,
    mut page: u64,
    mut run: &'a [Resident],
) -> Result<(), Status> {
    let mapping = &place.mapping;
    if let Some(first) = mapping.large_around(page.saturating_mul(PAGE))
        && let Some(frame) = state.whole_block(first / PAGE)
        && space.enter_large(lock, (mapping, first), frame)?
    {
        return Ok(());
    }
    let end = page.saturating_add(AROUND);
    space.enter_paged(lock, place, |entered, to| {
        loop {
            entered.put_all(run, |resident| resident.frame, to)?;
            page = page.saturating_add(run.len() as u64);
            if !state.pages.goes_on(page) || page >= end {
                return Ok(());
            }
            run = state.pages.run_of_resident(page, end.saturating_sub(page));
            if run.is_empty() {
                return Ok(());
            }
        }
    })
}

/// What became of an attempt to read paged memory.
pub enum Brought {
    /// It is mapped now: try again.
    Now,
    /// The thread waits for it, or its process is doomed.
    Later,
    /// It is not there to be had.
    Never,
}

/// Brings in the page of paged memory at an address that the kernel must read for a thread.
pub fn bring_in(lock: &mut Exclusive, thread: &Arc<Thread>, address: u64) -> Brought {
    match thread.process.space.judge(address, false, false, true) {
        Fault::Missing(place) => {
            let Backing::Memory(memory) = &place.mapping.backing else { return Brought::Never };
            require(lock, thread, &place, memory);
            if thread.state() == State::Running { Brought::Now } else { Brought::Later }
        }
        Fault::Spurious => Brought::Now,
        Fault::Unmapped | Fault::Forbidden(..) | Fault::Shared(..) => Brought::Never,
    }
}
