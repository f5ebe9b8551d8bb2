//! Thread: registers, rings, and what it waits for.

mod end;
mod inner;
mod rings;

pub use end::Stopping;
use inner::Body;
pub use inner::{Awake, Inner, Taken, Unfinished};
pub use rings::Rings;

use alloc::sync::{Arc, Weak};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use capos_abi::entry::{Buffer, CapArray};
use capos_abi::ring::RingLayout;
use capos_abi::{CapId, Status};
use capos_captable::NodeId;
use spin::{Mutex, MutexGuard};

use crate::arch::context::{Context, Fpu};
use crate::arch::processors;
use crate::cpu::budget::{Budget, cost};
use crate::cpu::kernel_lock::Exclusive;
use crate::memory::page_table::Access;
use crate::memory::reserve;
use crate::object::account::{Charge, Resource};
use crate::object::address_space::{Backing, MapFailure};
use crate::object::derivation::{self, Holder};
use crate::object::memory::page_request::PageIn;
use crate::object::operation::{
    Call, Ended, Enter, Kind, Operation, OperationRef, Operations, Outcome, Progress, Ticket,
};
use crate::object::priority;
use crate::object::process::{Cause, End, Process};
use crate::object::reply::Origin;
use crate::object::ring::{Corrupt, Ring};
use crate::object::thread_handle::ThreadHandle;
use crate::object::{deadline, reaper, report};
use crate::sched::scheduler::wake;

/// Threads that are alive.
pub static ALIVE: AtomicU64 = AtomicU64::new(0);

/// Frames charged for what the kernel keeps of a thread beside its operations: its registers, with
/// the largest vector state there is.
const KERNEL_FRAMES: u64 = 3;

/// What a thread is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// In a run queue, or beside the thread that runs.
    Ready,
    /// On a processor.
    Running,
    /// Waits for completions or for a page, or has what it waited for and is about to be woken.
    Blocked,
    /// Never runs again.
    Dead,
}

/// What a thread is made with.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub entry: u64,
    pub stack: u64,
    pub arguments: [u64; 2],
    pub ring: u64,
    pub layout: RingLayout,
    pub thread_pointer: u64,
}

struct Registers {
    context: Context,
    fpu: Fpu,
}

/// A thread.
pub struct Thread {
    pub handle: Arc<ThreadHandle>,
    /// Where replies to its calls find it.
    pub origin: Arc<Origin>,
    pub process: Arc<Process>,
    state: AtomicU8,
    /// The processor on which it is current, plus one; 0 where it is on none.
    processor: AtomicU32,
    /// The processor that ran it last, plus one.
    last: AtomicU32,
    registers: UnsafeCell<Registers>,
    inner: Mutex<Inner>,
    /// Whether an ENTER continues when it next runs, so that looking takes no lock.
    resumes: AtomicBool,
    /// The budget of the step in which the kernel works on its entries.
    budget: AtomicU32,
    ring_address: u64,
    ring_bytes: u64,
    _registers_charge: Charge,
    _room: reaper::QueuePlace,
}

// SAFETY: `registers` is used only by the processor on which the thread is current, or by the one
// that makes it; its state lets one processor at a time switch it in, once it has been switched out. All else is `Sync`.
unsafe impl Sync for Thread {}
// SAFETY: nothing in it belongs to a particular processor.
unsafe impl Send for Thread {}

impl core::fmt::Debug for Thread {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?} of {:?}", self.handle, self.process)
    }
}

impl Thread {
    /// A thread that is ready but in no queue yet. Its rings have been filled, and are mapped. The scheduler makes it, which has room for it
    /// in its queues.
    ///
    /// # Errors
    /// Quota; no memory; rings of other sizes; the ring's address is taken or no user memory; the process is dead.
    pub fn new(lock: &mut Exclusive, process: &Arc<Process>, start: Start, rings: Rings) -> Result<Arc<Self>, Status> {
        let Rings { layout, memory, operations, bookkeeping } = rings;
        if layout != start.layout {
            return Err(Status::InvalidArgument);
        }
        let charge = process.account.hold(Resource::Threads, 1)?;
        let bytes = layout.bytes() as u64;
        let registers_charge = process.account.hold(Resource::Frames, KERNEL_FRAMES)?;
        let handle_charge = process.account.hold(Resource::Objects, 1)?;
        let room = reaper::QueuePlace::new()?;
        let ring = Ring::new(Arc::clone(&memory), layout)?;
        let ring_memory = Arc::clone(&memory);
        let fpu = Fpu::new().ok_or(Status::OutOfMemory)?;
        let access = Access { read: true, write: true, ..Access::default() };
        process.space.map(lock, Backing::Memory(memory), (start.ring, bytes), 0, access, None).map_err(|failure| {
            match failure {
                MapFailure::Status(status) => status,
                _ => Status::InvalidArgument,
            }
        })?;
        let [first, second] = start.arguments;
        let context = Context::new(start.entry, start.stack, [first, second, start.ring], start.thread_pointer);
        let body = Body { ring, ring_memory, operations, _charge: charge, _bookkeeping: bookkeeping };
        let (page, unfinished, stopping) = (Weak::new(), None, Stopping::default());
        let inner = Inner { body: Some(body), page, wanted: 0, deadline: None, resume: None, unfinished, stopping };
        let priority = process.account.priority().min(priority::ORDINARY);
        let thread = Arc::new_cyclic(|itself| Self {
            handle: ThreadHandle::new(itself.clone(), priority, handle_charge),
            origin: Origin::new(itself.clone()),
            process: Arc::clone(process),
            state: AtomicU8::new(State::Blocked as u8),
            processor: AtomicU32::new(0),
            last: AtomicU32::new(0),
            registers: UnsafeCell::new(Registers { context, fpu }),
            inner: Mutex::new(inner),
            resumes: AtomicBool::new(false),
            budget: AtomicU32::new(0),
            ring_address: start.ring,
            ring_bytes: bytes,
            _registers_charge: registers_charge,
            _room: room,
        });
        if let Err(status) = process.add_thread(Arc::clone(&thread)) {
            let body = thread.inner.lock().body.take();
            if let Some(Body { ring_memory, .. }) = &body {
                while !thread.unmap_ring(lock, ring_memory, &mut Budget::new()) {}
            }
            return Err(status);
        }
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Ok(thread)
    }

    /// Which threads it goes before.
    pub fn priority(&self) -> i8 {
        self.handle.priority()
    }

    /// Where its registers are saved.
    pub fn context(&self) -> *mut Context {
        // SAFETY: makes a pointer to a field, no reference.
        unsafe { &raw mut (*self.registers.get()).context }
    }

    /// Reads or changes the saved registers. Only for the current thread, while it is in the kernel.
    pub fn with_context<R>(&self, act: impl FnOnce(&mut Context) -> R) -> R {
        // SAFETY: the thread is current on this processor and in the kernel, so nothing else uses
        // its registers; `act` cannot reach them another way.
        act(unsafe { &mut *self.context() })
    }

    /// The processor that is to run it has found it; whether that ran it last.
    pub fn take_up(&self, processor: u32) -> bool {
        let number = processor.wrapping_add(1);
        self.processor.store(number, Ordering::Relaxed);
        self.last.swap(number, Ordering::Relaxed) == number
    }

    /// The processor that ran it stops doing so: stores the vector registers, which are this thread's.
    pub fn put_down(&self) {
        // SAFETY: called by the processor that ran the thread, and no other processor runs it before it is said to be on none.
        unsafe { (*self.registers.get()).fpu.save() }
        self.processor.store(0, Ordering::Release);
    }

    /// Makes it ready where it is blocked.
    pub fn wake(self: &Arc<Self>, lock: &mut Exclusive) {
        wake(lock, self);
    }

    /// The number of the processor on which it is current.
    pub fn processor(&self) -> Option<u32> {
        self.processor.load(Ordering::Acquire).checked_sub(1)
    }

    /// Loads its vector registers.
    pub fn restore_fpu(&self) {
        // SAFETY: called by the processor that is about to run the thread.
        unsafe { (*self.registers.get()).fpu.restore() }
    }

    /// What it is doing.
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Ready,
            1 => State::Running,
            2 => State::Blocked,
            _ => State::Dead,
        }
    }

    /// Goes from one state to another. False where it was in a third.
    pub fn change(&self, from: State, to: State) -> bool {
        self.state.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// It never runs again: where another processor runs it, that one stops before this returns.
    pub fn halt(&self, lock: &mut Exclusive) {
        self.state.store(State::Dead as u8, Ordering::Release);
        if let Some(processor) = self.processor().filter(|processor| *processor != lock.cpu().index) {
            processors::interrupt(processor);
        }
    }

    /// Starts to wait for `minimum` unread completions until `deadline`. False where they are there.
    ///
    /// # Errors
    /// An index is corrupt.
    #[inline(always)]
    pub fn wait(self: &Arc<Self>, minimum: u32, until: u64) -> Result<bool, Corrupt> {
        let mut inner = self.inner.lock();
        if !inner.begin_wait(minimum)? {
            return Ok(false);
        }
        if until != capos_abi::syscall::NO_DEADLINE {
            inner.deadline = Some(deadline::add(until, deadline::Due::Thread(Arc::clone(self))));
        }
        self.change(State::Running, State::Blocked);
        Ok(true)
    }

    /// The deadline of its wait has passed.
    pub fn wait_timed_out(self: &Arc<Self>, lock: &mut Exclusive, key: (u64, u64)) {
        {
            let mut inner = self.inner.lock();
            if inner.deadline != Some(key) {
                return;
            }
            inner.deadline = None;
            inner.wanted = 0;
        }
        wake(lock, self);
    }

    /// The budget of the step in which the kernel works on its entries.
    #[inline]
    pub fn budget(&self) -> Budget {
        Budget::of(self.budget.load(Ordering::Relaxed))
    }

    /// Sets it.
    #[inline]
    pub fn set_budget(&self, budget: Budget) {
        self.budget.store(budget.left(), Ordering::Relaxed);
    }

    /// Notes what is done of the entry that it works on.
    pub fn keep(&self, unfinished: Unfinished) {
        self.inner.lock().unfinished = Some(unfinished);
    }

    /// Takes what is done of that entry.
    #[inline]
    pub fn take_unfinished(&self) -> Option<Unfinished> {
        let mut inner = self.inner.lock();
        // Mostly there is nothing, of which nothing is moved.
        if inner.unfinished.is_none() { None } else { inner.unfinished.take() }
    }

    /// Notes an ENTER that continues when the thread next runs.
    pub fn resume_later(&self, enter: Enter) {
        self.inner.lock().resume = Some(enter);
        self.resumes.store(true, Ordering::Relaxed);
    }

    /// How many operations it has in flight.
    pub fn in_flight(&self) -> u32 {
        self.with_operations(|operations| operations.len()).unwrap_or(0)
    }

    /// For how many completions it waits.
    pub fn wanted(&self) -> u32 {
        self.lock().wanted
    }

    /// Whether there is one.
    pub fn has_resume(&self) -> bool {
        self.resumes.load(Ordering::Relaxed)
    }

    /// Takes that ENTER.
    pub fn take_resume(&self) -> Option<Enter> {
        self.resumes.store(false, Ordering::Relaxed);
        self.inner.lock().resume.take()
    }

    /// Notes an operation in flight: its tag, the capability that it goes through, what it waits for. There is a place, since
    /// each entry taken has one reserved.
    #[inline]
    pub fn begin(&self, user_data: u64, cap: CapId, kind: impl FnOnce() -> Kind) -> Option<Ticket> {
        self.inner.lock().begin(user_data, cap, kind)
    }

    fn with_operations<R>(&self, act: impl FnOnce(&mut Operations) -> R) -> Option<R> {
        self.inner.lock().body.as_mut().map(|body| act(&mut body.operations))
    }

    /// A copy of an operation in flight.
    pub fn peek(&self, ticket: Ticket) -> Option<Operation> {
        self.with_operations(|operations| operations.get_mut(ticket).cloned()).flatten()
    }

    /// The call that an operation is, while it is in flight.
    pub fn peek_call(&self, ticket: Ticket) -> Option<Call> {
        self.with_operations(|operations| operations.get_mut(ticket).and_then(|operation| operation.kind.call()))
            .flatten()
    }

    /// The buffer that an operation offers to an endpoint, while it is in flight.
    pub fn peek_receive(&self, ticket: Ticket) -> Option<(Buffer, CapArray)> {
        self.with_operations(|operations| match operations.get_mut(ticket)?.kind {
            Kind::Receive { buffer, caps, .. } => Some((buffer, caps)),
            _ => None,
        })
        .flatten()
    }

    /// Changes what an operation waits for.
    pub fn update(&self, ticket: Ticket, change: impl FnOnce(&mut Kind)) {
        self.with_operations(|operations| {
            if let Some(operation) = operations.get_mut(ticket) {
                change(&mut operation.kind);
            }
        });
    }

    /// Ends an operation without an answer.
    pub fn drop_operation(&self, ticket: Ticket) -> Option<Ended> {
        self.with_operations(|operations| operations.end(ticket)).flatten()
    }

    /// Ends an operation that began with the entry that is worked on: the entry ends with this outcome.
    pub fn end_begun(&self, lock: &mut Exclusive, ticket: Ticket, outcome: impl Into<Outcome>) -> Progress {
        let Some(Ended { attachment, watcher, .. }) = self.drop_operation(ticket) else { return Progress::Pending };
        if let Some(node) = attachment {
            derivation::forget(node);
        }
        if let Some(watcher) = watcher {
            watcher.complete(lock, Status::StaleCapability);
        }
        outcome.into().into()
    }

    /// Ends an operation with an answer. False where it had ended before.
    pub fn complete(self: &Arc<Self>, lock: &mut Exclusive, ticket: Ticket, outcome: Outcome) -> bool {
        let Some(ended) = self.end_operation(lock, ticket, outcome) else { return false };
        if let Some(watcher) = ended.watcher {
            // The call was answered, so the reply is used up.
            watcher.complete(lock, Status::StaleCapability);
        }
        true
    }

    /// Locks what it has in flight and what it waits for.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// The same, where no other processor has locked it.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Inner>> {
        self.inner.try_lock()
    }

    /// Lets it go on where what it waits for is there. Nothing of it is locked.
    #[inline]
    pub fn tell(self: &Arc<Self>, lock: &mut Exclusive, awake: Result<Awake, Corrupt>) {
        match self.settle_wait(awake) {
            Ok(true) => wake(lock, self),
            Ok(false) => {}
            Err(corrupt) => self.die_of(lock, corrupt),
        }
    }

    /// Looks again whether what it waits for is there, where its rings were found corrupt without the lock for what follows.
    pub fn look_again(self: &Arc<Self>, lock: &mut Exclusive) {
        let awake = self.lock().enough();
        self.tell(lock, awake);
    }

    /// Whether it continues, which [`wake`] lets it: what it waits for is there.
    ///
    /// # Errors
    /// Its rings are corrupt: it is to [die of that](Self::die_of).
    #[inline(always)]
    pub fn settle_wait(&self, awake: Result<Awake, Corrupt>) -> Result<bool, Corrupt> {
        let Some(deadline) = awake? else { return Ok(false) };
        if let Some(key) = deadline {
            deadline::remove(key);
        }
        Ok(true)
    }

    /// Ends an operation and tells its thread.
    #[inline]
    fn end_operation(self: &Arc<Self>, lock: &mut Exclusive, ticket: Ticket, outcome: Outcome) -> Option<Ended> {
        let (ended, awake) = {
            let mut inner = self.inner.lock();
            let body = inner.body.as_mut()?;
            let ended = body.operations.end(ticket)?;
            body.ring.post(&outcome.completion(ended.user_data));
            (ended, inner.enough())
        };
        if let Some(node) = ended.attachment {
            derivation::forget(node);
        }
        self.tell(lock, awake);
        Some(ended)
    }

    /// Lets `watcher` wait for the end of a call of this thread. How its wait ends at once, where it does:
    /// the call has ended, or somebody waits for that already.
    pub fn watch(&self, ticket: Ticket, watcher: OperationRef) -> Option<Status> {
        let mut inner = self.inner.lock();
        let call = inner.body.as_mut().and_then(|body| body.operations.get_mut(ticket));
        let Some(call) = call else { return Some(Status::Ok) };
        if call.watcher.is_some() {
            return Some(Status::Overloaded);
        }
        call.watcher = Some(watcher);
        None
    }

    /// Takes the wait for the end of a call away from the call, where it is the one that is meant.
    pub fn take_watcher(&self, ticket: Ticket, is_meant: impl FnOnce(&OperationRef) -> bool) -> Option<OperationRef> {
        let mut inner = self.inner.lock();
        inner.body.as_mut()?.operations.get_mut(ticket)?.watcher.take_if(|watcher| is_meant(watcher))
    }

    /// Ends the process, whose rings are corrupt. It looks at the process and at the thread's handle, whose
    /// locks come before the thread's own.
    #[cold]
    pub fn die_of(&self, lock: &mut Exclusive, corrupt: Corrupt) {
        self.process.doom(lock, End { cause: Cause::Fault, code: 0, report: report::corrupt_ring(self, corrupt) });
    }

    /// Cancels the operation with this tag.
    pub fn cancel(self: &Arc<Self>, lock: &mut Exclusive, user_data: u64) -> Status {
        let ticket = self.find(|operation| operation.user_data == user_data);
        match ticket {
            Some(ticket) if self.cancel_ticket(lock, ticket) => Status::Ok,
            _ => Status::NotFound,
        }
    }

    fn find(&self, matches: impl FnMut(&Operation) -> bool) -> Option<Ticket> {
        self.with_operations(|operations| operations.find(matches)).flatten()
    }

    /// Cancels an operation. False where it had ended before.
    pub fn cancel_ticket(self: &Arc<Self>, lock: &mut Exclusive, ticket: Ticket) -> bool {
        let Some(ended) = self.end_operation(lock, ticket, Status::Cancelled.into()) else { return false };
        self.withdraw(lock, ticket, ended);
        true
    }

    /// Keeps revocable what is in flight through a capability that goes from the table; with `calls`, that
    /// can only be calls. False where some could not be kept so: they are to be cancelled.
    pub fn detach(self: &Arc<Self>, cap: CapId, calls: bool, node: NodeId) -> bool {
        let attach = |ticket| {
            let holder = Holder::Call(Arc::downgrade(self), ticket);
            if reserve::covers_ends() { derivation::attach(node, holder).ok() } else { None }
        };
        self.with_operations(|operations| operations.detach(cap, calls, attach)).unwrap_or(true)
    }

    /// Cancels the operations that go through a capability and are not kept revocable by a place of their own, as far as the budget
    /// allows. Whether none is left.
    pub fn cancel_through(self: &Arc<Self>, lock: &mut Exclusive, cap: CapId, budget: &mut Budget) -> bool {
        while let Some(ticket) = self.with_operations(|operations| operations.through(cap)).flatten() {
            if !budget.allows() {
                return false;
            }
            self.cancel_ticket(lock, ticket);
            budget.spend(cost::OPERATION);
        }
        true
    }

    /// It waits for the pages that a request is for.
    pub fn await_page(&self, request: &Arc<PageIn>) {
        self.inner.lock().page = Arc::downgrade(request);
    }
}
