//! Requests for pages of paged memory.
//!
//! The kernel makes a window of zeroed frames, sends it to the pager's endpoint, and threads and copies wait for the pages. When the call
//! is answered, the window is revoked and its frames become the page cache's.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use capnp::Word;
use capos_abi::entry::{Buffer, CapArray};
use capos_abi::{CapSlot, Rights, Status};
use capos_captable::{ListKey, NodeId};
use capos_paging::{PAGE, PageState};
use capos_schema::{kernel_capnp, kernel_dispatch, sync};
use spin::Mutex;

use super::partial_copy::{self, Copying};
use super::{MemoryObject, cache};
use crate::cpu::budget::{Budget, cost};
use crate::cpu::kernel_lock::Exclusive;
use crate::object::address_space::Mapping;
use crate::object::capability::Object;
use crate::object::derivation::{self, Holder};
use crate::object::endpoint::Client;
use crate::object::operation::{Call, OperationRef};
use crate::object::process::{Cause, End, Process};
use crate::object::report;
use crate::object::thread::{State, Thread};

/// Pages that are asked for together at most.
pub const WINDOW: u64 = 32;

/// A request for pages.
pub struct PageIn {
    memory: Arc<MemoryObject>,
    first: u64,
    count: u64,
    window: Arc<MemoryObject>,
    /// What all capabilities to the window derive from.
    node: NodeId,
    params: Vec<Word>,
    state: Mutex<PageInState>,
}

#[derive(Default)]
struct PageInState {
    ended: bool,
    waiting: Waiting,
    /// Its place among the calls of the pager's endpoint.
    key: Option<ListKey>,
}

/// Who waits for pages.
#[derive(Default)]
struct Waiting {
    threads: Vec<Arc<Thread>>,
    /// Calls that copy the pages.
    copies: Vec<OperationRef>,
}

impl Waiting {
    /// The pages are in, or are to be asked for in another way.
    fn go_on(self, lock: &mut Exclusive) {
        for thread in self.threads {
            thread.wake(lock);
        }
        for copy in self.copies {
            partial_copy::go_on(lock, &copy);
        }
    }
}

impl core::fmt::Debug for PageIn {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "pages {}..{} of memory object {}", self.first, self.first.saturating_add(self.count), self.memory.id)
    }
}

impl PageIn {
    /// Badge and call as the pager gets them.
    pub fn message(&self) -> (u64, Call) {
        let badge = self.memory.paged_content().map_or(0, |content| content.pager.badge);
        let params = Buffer { address: 0, length: (self.params.len().saturating_mul(8)) as u32 };
        // The results are empty: a root pointer and nothing else.
        let results = Buffer { address: 0, length: 64 };
        let caps = CapArray { address: 0, sent: 1, accepted: 0 };
        (
            badge,
            Call { interface: kernel_dispatch::PAGER, method: kernel_dispatch::PAGER_PAGE_IN, params, results, caps },
        )
    }

    /// The message's bytes.
    pub fn params(&self) -> &[u8] {
        Word::words_to_bytes(&self.params)
    }

    /// Notes where it waits.
    pub fn queued_at(&self, key: ListKey) {
        self.state.lock().key = Some(key);
    }

    /// Takes it out of the calls that wait at the pager's endpoint. False where it is not among them any more.
    fn withdraw(&self, pager: &Client) -> bool {
        let key = self.state.lock().key.take();
        key.is_some_and(|key| pager.endpoint.forget_call(key))
    }

    /// Ends it where no thread waits for it any more and the pager has not taken it: no account would pay for its window. One that
    /// the pager has taken holds places in the pager's table until it is answered.
    fn end_unwanted(&self, lock: &mut Exclusive) {
        let is_wanted = {
            let state = self.state.lock();
            state.ended || !state.waiting.threads.is_empty() || !state.waiting.copies.is_empty()
        };
        if !is_wanted
            && let Some(content) = self.memory.paged_content()
            && self.withdraw(&content.pager)
            && self.end(lock).is_some()
        {
            cache::take_back(self.count);
            self.forget_request(true);
        }
    }

    /// Gives the pager the window.
    ///
    /// # Errors
    /// The pager cannot pay for the slot.
    pub fn hand_window(&self, pager: &Process) -> Result<CapSlot, Status> {
        let object = Object::Memory(Arc::clone(&self.window));
        let rights = Rights::READ.union(Rights::WRITE).union(Rights::GRANT).union(Rights::CALL);
        let id = pager.insert(object, rights, Some(self.node))?;
        Ok(CapSlot { word0: id.0, word1: kernel_dispatch::MEMORY_OBJECT })
    }

    /// Ends it: no thread waits for it any more, and the window has no user.
    fn end(&self, lock: &mut Exclusive) -> Option<Waiting> {
        let waiting = {
            let mut state = self.state.lock();
            if core::mem::replace(&mut state.ended, true) {
                return None;
            }
            core::mem::take(&mut state.waiting)
        };
        derivation::revoke_at_once(lock, self.node);
        derivation::forget(self.node);
        Some(waiting)
    }

    /// A thread waits for the pages. False where the request has ended, or there is no memory to wait: then it
    /// tries again.
    pub fn join(self: &Arc<Self>, thread: &Arc<Thread>) -> bool {
        let mut state = self.state.lock();
        // Where it cannot wait for want of memory, it touches the page again until it can, or the page is in.
        if state.ended || state.waiting.threads.try_reserve(1).is_err() {
            return false;
        }
        thread.change(State::Running, State::Blocked);
        thread.await_page(self);
        state.waiting.threads.push(Arc::clone(thread));
        true
    }

    /// A copy waits for the pages. False where the request has ended.
    ///
    /// # Errors
    /// No memory to wait.
    fn join_copy(self: &Arc<Self>, operation: &OperationRef, copying: &Copying) -> Result<bool, Status> {
        let mut state = self.state.lock();
        if state.ended {
            return Ok(false);
        }
        state.waiting.copies.try_reserve(1).map_err(|_| Status::OutOfMemory)?;
        copying.await_page(self);
        state.waiting.copies.push(operation.clone());
        Ok(true)
    }

    /// A thread that waited has ended.
    pub fn forget_waiter(&self, lock: &mut Exclusive, thread: &Arc<Thread>) {
        self.state.lock().waiting.threads.retain(|waiter| !Arc::ptr_eq(waiter, thread));
        self.end_unwanted(lock);
    }

    /// The call of a copy that waited has ended.
    pub fn forget_copy(&self, lock: &mut Exclusive, operation: &OperationRef) {
        let is_it =
            |copy: &OperationRef| copy.ticket == operation.ticket && Arc::ptr_eq(&copy.thread, &operation.thread);
        self.state.lock().waiting.copies.retain(|copy| !is_it(copy));
        self.end_unwanted(lock);
    }

    fn forget_request(&self, absent: bool) {
        let Some(content) = self.memory.paged_content() else { return };
        let mut state = content.state.lock();
        state.requests.remove(&self.first);
        for page in self.first..self.first.saturating_add(self.count) {
            if absent && matches!(state.pages.get(page), Some(PageState::Loading(_))) {
                state.pages.remove(page);
            }
        }
    }

    /// The pager has filled the window.
    pub fn finish(&self, lock: &mut Exclusive) {
        self.window.settle();
        let Some(waiting) = self.end(lock) else { return };
        cache::insert(lock, &self.memory, self.first, self.window.take_frames());
        self.forget_request(false);
        waiting.go_on(lock);
    }

    /// The pager cannot, or is gone: who waits dies of its touch, and what copies is answered. Where several pages were
    /// asked for, it touches again first, and the page is asked for alone.
    pub fn fail(&self, lock: &mut Exclusive, reason: &str) {
        let Some(waiting) = self.end(lock) else { return };
        cache::take_back(self.count);
        self.forget_request(true);
        if self.count > 1
            && let Some(content) = self.memory.paged_content()
        {
            content.state.lock().failed = Some((self.first, self.count));
            return waiting.go_on(lock);
        }
        for copy in waiting.copies {
            partial_copy::fail(lock, &copy, self.first, reason);
        }
        for waiter in waiting.threads {
            let report = report::page_in_failed(&waiter, self.memory.id, self.first.saturating_mul(PAGE), reason);
            waiter.process.doom(lock, End { cause: Cause::Fault, code: 0, report });
        }
    }
}

/// Lets a copy wait for a page of paged memory that is not in. False where it should look again. It asks for `most` pages at
/// most, for which the copy has paid: no account pays for a window.
///
/// # Errors
/// The pager is gone; no memory.
pub fn bring_for_copy(
    lock: &mut Exclusive,
    operation: &OperationRef,
    copying: &Copying,
    memory: &Arc<MemoryObject>,
    page: u64,
    most: u64,
) -> Result<bool, Status> {
    ask(lock, memory, page, most.min(WINDOW), None, |request| request.join_copy(operation, copying))
}

/// Finds or makes the request for a page that is not in, and lets `join` wait for that: what it says.
pub fn ask(
    lock: &mut Exclusive,
    memory: &Arc<MemoryObject>,
    page: u64,
    most: u64,
    mapping: Option<&Mapping>,
    join: impl FnOnce(&Arc<PageIn>) -> Result<bool, Status>,
) -> Result<bool, Status> {
    let content = memory.paged_content().ok_or(Status::InvalidArgument)?;
    let state = content.state.lock();
    if let Some(PageState::Loading(first)) = state.pages.get(page) {
        let request = state.requests.get(&first).cloned();
        drop(state);
        return request.map_or(Ok(false), |request| join(&request));
    }
    if state.abandoned {
        return Err(Status::Disconnected);
    }
    let alone = state.failed.is_some_and(|(first, count)| page.checked_sub(first).is_some_and(|at| at < count));
    let count = if alone { 1 } else { state.pages.run_of_absent(page, most) };
    drop(state);
    cache::MISSES.fetch_add(1, Ordering::Relaxed);
    start(lock, mapping, memory, page, count.max(1), join)
}

/// The capability to its pager was revoked. What is in stays; who waits for the rest, and who touches
/// it later, is told that the pager is gone: as far as the budget allows. Whether all are told.
pub fn lose(lock: &mut Exclusive, memory: &Arc<MemoryObject>, budget: &mut Budget) -> bool {
    let Some(content) = memory.paged_content() else { return true };
    content.state.lock().abandoned = true;
    while budget.allows() {
        let request = content.state.lock().requests.pop_first();
        let Some((_, request)) = request else { return true };
        request.withdraw(&content.pager);
        request.fail(lock, Status::Disconnected.words());
        budget.spend(cost::ANSWER);
    }
    false
}

fn start(
    lock: &mut Exclusive,
    mapping: Option<&Mapping>,
    memory: &Arc<MemoryObject>,
    first: u64,
    wanted: u64,
    join: impl FnOnce(&Arc<PageIn>) -> Result<bool, Status>,
) -> Result<bool, Status> {
    let content = memory.paged_content().ok_or(Status::InvalidArgument)?;
    // A full window where there is room; the one page that is needed in any case.
    let count = if cache::make_room(lock, (wanted as usize).saturating_mul(2)) { wanted } else { 1 };
    if !cache::is_reserve_whole(lock) {
        return Err(Status::OutOfMemory);
    }
    // The request may go on into the next block.
    let ends = [first, first.saturating_add(count.saturating_sub(1))].into_iter().filter(|_| count > 1);
    let large = ends.filter_map(|page| mapping?.large_around(page.saturating_mul(PAGE))).map(|offset| offset / PAGE);
    let window = MemoryObject::window(cache::frames_for(memory, (first, count), large)?);
    let node = derivation::add(None, Holder::Kernel)?;
    let params = sync::results(|builder| {
        let mut params: kernel_capnp::pager::page_in_params::Builder<'_> = builder.init_as();
        params.set_offset(first.saturating_mul(PAGE));
        params.set_bytes(count.saturating_mul(PAGE));
        params.set_window(sync::capability());
        Ok(sync::Completion::Done)
    })
    .map_err(|_| Status::OutOfMemory)?
    .words;
    let state = Mutex::default();
    let request = Arc::new(PageIn { memory: Arc::clone(memory), first, count, window, node, params, state });
    if !cache::expect(lock, count) {
        derivation::forget(node);
        return Err(Status::OutOfMemory);
    }
    {
        let mut pages = content.state.lock();
        if pages.pages.run_of_absent(first, count) < count {
            // Another was faster: who wanted the page looks again and finds what that began.
            drop(pages);
            cache::take_back(count);
            derivation::forget(node);
            return Ok(false);
        }
        pages.pages.begin(first, count, first);
        pages.requests.insert(first, Arc::clone(&request));
    }
    let joined = join(&request);
    content.pager.send_page_in(lock, &request);
    if joined.is_err() {
        request.end_unwanted(lock);
    }
    joined
}
