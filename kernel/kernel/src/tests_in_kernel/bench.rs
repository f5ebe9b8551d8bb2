//! What the tests of objects work with: processes that no instruction of theirs ever runs. The test
//! writes their entries into their rings and makes their system calls.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use capnp::Word;
use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::ring::{self, RingLayout};
use capos_abi::{CapId, CapSlot, Completion, Entry, Rights, Status, TransferMode, syscall as number};
use capos_schema::sync;

use crate::cpu::kernel_lock::{self, Entered, Exclusive, Shared};
use crate::events::reap;
use crate::memory::frames::{self, Frame};
use crate::memory::page_table::Access;
use crate::memory::reserve;
use crate::object::account::{Account, Resource};
use crate::object::address_space::Backing;
use crate::object::capability::{Capability, Object};
use crate::object::memory::{MemoryObject, cache, user_memory};
use crate::object::process::{Cause, End, Process};
use crate::object::reaper;
use crate::object::thread::{Start, State, Thread};
use crate::sched::scheduler;
use crate::syscall::methods::table::AT_ONCE;
use crate::syscall::{self, Handled};

/// Where a process's scratch memory is mapped.
pub const SCRATCH: u64 = 0x10_0000;
/// Its length in bytes.
pub const SCRATCH_BYTES: u64 = 0x1_0000;
const RING: u64 = 0x20_0000;
/// Bytes between the rings of one process's threads.
const RING_STEP: u64 = 0x1_0000;
/// Frames that a process of the tests may use.
const LIMITS: [u64; 5] = [256, 64, 8, 4, 32];

/// A process with one thread, scratch memory and rings of 8 and 16 entries.
pub struct Actor {
    pub process: Arc<Process>,
    pub thread: Arc<Thread>,
    /// Where its rings are.
    pub ring: u64,
    /// The process ends with this value.
    owner: bool,
    layout: RingLayout,
    submitted: u32,
    read: u32,
}

impl Actor {
    /// A process that `account` pays for.
    pub fn new(account: &Arc<Account>, name: &str) -> Self {
        Self::with_rings(account, name, 8, 16)
    }

    /// One with rings of these sizes.
    pub fn with_rings(account: &Arc<Account>, name: &str, submission: u32, completion: u32) -> Self {
        Self::with_limits(account, name, LIMITS, RingLayout::new(submission, completion).unwrap())
    }

    /// The same, of a process that may hold so much.
    pub fn with_limits(account: &Arc<Account>, name: &str, limits: [u64; 5], layout: RingLayout) -> Self {
        let own = account.carve(limits, 0).unwrap();
        let process = Process::new(&mut alone(), String::from(name), own, None).unwrap();
        let scratch = MemoryObject::anonymous(&mut alone(), &process.account, SCRATCH_BYTES).unwrap();
        let access = Access { read: true, write: true, ..Access::default() };
        process.space.map(&mut alone(), Backing::Memory(scratch), (SCRATCH, SCRATCH_BYTES), 0, access, None).unwrap();
        Self::begin(process, RING, true, layout)
    }

    /// A process that `account` has a charge for, as one that is made by a call.
    pub fn orphan(account: &Arc<Account>, name: &str) -> Self {
        let charge = account.hold(Resource::Processes, 1).unwrap();
        let process =
            Process::new(&mut alone(), String::from(name), account.carve([64, 8, 1, 0, 8], 0).unwrap(), Some(charge))
                .unwrap();
        Self::begin(process, RING, true, RingLayout::new(8, 16).unwrap())
    }

    /// One more thread of the process, with rings of its own; it ends before the process does.
    pub fn sibling(&self, number: u64) -> Self {
        Self::begin(Arc::clone(&self.process), RING + number * RING_STEP, false, RingLayout::new(8, 16).unwrap())
    }

    fn begin(process: Arc<Process>, ring: u64, owner: bool, layout: RingLayout) -> Self {
        let start = Start { entry: SCRATCH, stack: SCRATCH, arguments: [0, 0], ring, layout, thread_pointer: 0 };
        let thread = scheduler::new_thread(&mut alone(), &process, start).unwrap();
        Self { process, thread, ring, owner, layout, submitted: 0, read: 0 }
    }

    /// Writes into its memory as the process itself would. The kernel lock stays shared where it is, except for a page that a copy shares.
    pub fn write(&self, address: u64, bytes: &[u8]) {
        let space = &self.process.space;
        space.write_unshared(address, bytes).or_else(|_| space.write(&mut alone(), address, bytes)).unwrap();
    }

    /// Reads its memory.
    pub fn read(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = alloc::vec![0; length];
        self.process.space.read(address, &mut bytes).unwrap();
        bytes
    }

    /// Writes an index of its rings.
    pub fn set_index(&self, offset: usize, value: u32) {
        self.write(self.ring + offset as u64, &value.to_le_bytes());
    }

    /// Puts an entry into its ring.
    pub fn push_raw(&mut self, raw: &[u8]) {
        self.write(self.ring + self.layout.submission_offset(self.submitted) as u64, raw);
        self.submitted = self.submitted.wrapping_add(1);
        self.set_index(ring::SUBMISSION_TAIL, self.submitted);
    }

    /// Puts an entry into its ring.
    pub fn push(&mut self, user_data: u64, operation: Operation) {
        self.push_raw(&Entry { user_data, operation }.encode());
    }

    /// Makes the system call ENTER for all that was pushed; it waits for `minimum` completions.
    /// Gives how many entries were taken.
    pub fn enter(&self, minimum: u32) -> u64 {
        self.system_call(number::ENTER, [u64::from(u32::MAX), u64::from(minimum), number::NO_DEADLINE]);
        self.thread.with_context(|context| context.rax)
    }

    /// Makes any system call.
    pub fn system_call(&self, number: u64, [first, second, third]: [u64; 3]) {
        self.thread.change(State::Blocked, State::Running);
        self.thread.change(State::Ready, State::Running);
        self.thread.with_context(|context| {
            (context.rax, context.rdi, context.rsi, context.rdx) = (number, first, second, third);
        });
        let mut rest = None;
        let handled = syscall::handle(&shared(), &self.thread, &mut rest);
        let mut lock = alone();
        if let Handled::Waits(next) = handled {
            scheduler::wake(&mut lock, &next);
        }
        if let Some(mut rest) = rest {
            syscall::go_on(&mut lock, Some(&self.thread), &mut rest);
        }
        settle();
    }

    /// Takes the completions that lie unread.
    pub fn completions(&mut self) -> Vec<Completion> {
        let tail = self.read(self.ring + ring::COMPLETION_TAIL as u64, 4);
        let tail = u32::from_le_bytes(tail.as_slice().try_into().unwrap());
        let mut found = Vec::new();
        while self.read != tail {
            let raw = self.read(self.ring + self.layout.completion_offset(self.read) as u64, 32);
            found.push(Completion::decode(raw.as_slice().try_into().unwrap()));
            self.read = self.read.wrapping_add(1);
        }
        self.set_index(ring::COMPLETION_HEAD, self.read);
        found
    }

    /// Does one operation; what completes, in order.
    pub fn run(&mut self, user_data: u64, operation: Operation) -> Vec<Completion> {
        self.push(user_data, operation);
        assert_eq!(self.enter(0), 1);
        self.completions()
    }

    /// Does one operation that waits for nothing, in as many steps as it takes; its completion.
    pub fn once(&mut self, operation: Operation) -> Completion {
        self.push(99, operation);
        self.enter(0);
        let mut steps = 1;
        while self.thread.has_resume() {
            assert!(steps < 100, "{operation:?} waits");
            syscall::resume(&mut alone(), &self.thread);
            steps += 1;
        }
        let completions = self.completions();
        assert_eq!(completions.len(), 1, "{operation:?} gave {completions:?}");
        completions[0]
    }

    /// Gives it a capability to a new object.
    pub fn give(&self, object: Object) -> CapId {
        self.process.insert(object, Rights::ALL, None).unwrap()
    }

    /// Writes the parameters of a call to where its scratch memory begins.
    pub fn params(&self, write: impl FnOnce(capnp::any_pointer::Builder<'_>)) -> Buffer {
        let answer = sync::results(|builder| {
            write(builder);
            Ok(sync::Completion::Done)
        });
        let words = answer.unwrap().words;
        let bytes = Word::words_to_bytes(&words);
        self.write(SCRATCH, bytes);
        Buffer { address: SCRATCH, length: bytes.len() as u32 }
    }

    /// Reads the results of a call, which have `length` bytes.
    pub fn results<R>(&self, from: Buffer, length: u32, read: impl FnOnce(capnp::any_pointer::Reader<'_>) -> R) -> R {
        let bytes = self.read(from.address, length as usize);
        let mut words = Word::allocate_zeroed_vec(bytes.len() / 8);
        Word::words_to_bytes_mut(&mut words).copy_from_slice(&bytes);
        let segments = [Word::words_to_bytes(&words)];
        let message = capnp::message::Reader::new(capnp::message::SegmentArray::new(&segments), Default::default());
        read(message.get_root().unwrap())
    }

    /// Calls a method of a kernel object with parameters that `write` makes; the status, and the
    /// capabilities received.
    pub fn call_kernel(
        &mut self,
        cap: CapId,
        interface: u64,
        method: u16,
        caps: &[CapId],
        write: impl FnOnce(capnp::any_pointer::Builder<'_>),
    ) -> (i32, Vec<CapId>) {
        let params = self.params(write);
        self.send_caps(SCRATCH + 0x2000, caps, TransferMode::Copy);
        let completion = self.once(Operation::Call {
            cap: cap.0,
            interface,
            method,
            params,
            results: Buffer { address: SCRATCH + 0x1000, length: 0x1000 },
            caps: CapArray { address: SCRATCH + 0x2000, sent: caps.len() as u8, accepted: 4 },
        });
        let received = self.received_caps(SCRATCH + 0x2000, completion.caps);
        (completion.status, received)
    }

    /// Writes capabilities to send into an array.
    pub fn send_caps(&self, address: u64, caps: &[CapId], mode: TransferMode) {
        for (index, cap) in caps.iter().enumerate() {
            let slot = CapSlot::send(cap.0, Rights::ALL, mode);
            self.write(address + 16 * index as u64, &slot.encode());
        }
    }

    /// Reads received capabilities from an array.
    pub fn received_caps(&self, address: u64, count: u8) -> Vec<CapId> {
        (0..count)
            .map(|index| {
                let raw = self.read(address + 16 * u64::from(index), 16);
                CapId(CapSlot::decode(raw.as_slice().try_into().unwrap()).word0)
            })
            .collect()
    }

    /// How it died, if it has.
    pub fn report(&self) -> Option<String> {
        self.process.ending.get().map(|end| end.report.clone())
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        if !self.owner {
            return;
        }
        self.process.doom(&mut alone(), End { cause: Cause::Exited, code: 0, report: String::new() });
        settle();
    }
}

/// Blocks of small sizes that the heap can have free in frames that it holds, at most.
const FREE_BLOCKS: usize = 1 << 14;

/// Frames and blocks that nothing else can have until this is dropped.
pub struct Hog {
    frames: Vec<Frame>,
    blocks: Vec<Vec<u8>>,
}

impl Hog {
    /// Takes every frame but those that are kept for the heap, and all that is free in the heap's frames.
    pub fn new() -> Self {
        let mut hog = Self { frames: Vec::with_capacity(frames::total()), blocks: Vec::with_capacity(FREE_BLOCKS) };
        hog.refill();
        hog
    }

    /// Takes all that has come to be free.
    pub fn refill(&mut self) {
        while let Some(frame) = frames::allocate_dirty() {
            self.frames.push(frame);
        }
        for size in (16..4096).rev().step_by(16) {
            loop {
                let free = frames::free_count();
                let mut block = Vec::new();
                // Where nothing is kept there is an end; where something is, a block of a frame that was kept.
                if block.try_reserve_exact(size).is_err() || frames::free_count() < free {
                    break;
                }
                assert!(self.blocks.len() < FREE_BLOCKS);
                self.blocks.push(block);
            }
        }
        assert_eq!(frames::free_count(), reserve::kept());
    }

    /// Lets go of this many frames.
    pub fn spare(&mut self, count: usize) {
        self.frames.drain(..count).for_each(frames::free);
    }

    /// Lets go of as many frames as the reserve lacks.
    pub fn fill_reserve(&mut self) {
        while !cache::is_reserve_whole(&mut alone()) {
            frames::free(self.frames.pop().unwrap());
        }
    }

    /// Takes of the reserve, as the heap can, until this many frames are left.
    pub fn leave(&mut self, count: usize) {
        while frames::free_count() > count {
            let mut block = Vec::new();
            block.try_reserve_exact(4096).unwrap();
            self.blocks.push(block);
        }
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.frames.drain(..).for_each(frames::free);
    }
}

/// Runs `act` while no frame is free and the heap has no block of any size. Nothing is kept for the heap, so that
/// what can be refused for want of memory is refused where it asks for that.
pub fn starved<R>(act: impl FnOnce() -> R) -> R {
    let kept = reserve::keep(0);
    let hog = Hog::new();
    let result = act();
    drop(hog);
    reserve::keep(kept);
    result
}

/// Does what the kernel does on its way out.
pub fn settle() {
    let mut lock = alone();
    while reaper::has_work() || reaper::has_rest() {
        reap::step(&mut lock);
    }
    crate::object::log::serve(&mut lock);
    scheduler::forget_dead(&mut lock);
}

/// The kernel lock, which this processor holds exclusively from here on.
pub fn alone() -> Exclusive {
    match kernel_lock::of_tests() {
        Entered::Shared(lock) => scheduler::upgrade(lock),
        Entered::Exclusive(lock) => lock,
    }
}

/// The kernel lock, which this processor shares from here on, as in a system call.
pub fn shared() -> Shared {
    match kernel_lock::of_tests() {
        Entered::Shared(lock) => lock,
        Entered::Exclusive(lock) => {
            let cpu = lock.cpu();
            lock.release();
            kernel_lock::try_enter(cpu).unwrap()
        }
    }
}

/// All capabilities of a process.
pub fn capabilities(process: &Process) -> Vec<(CapId, Capability)> {
    let (mut all, mut next) = (Vec::new(), Some(0));
    while let Some(first) = next {
        let part = process.capabilities(first, AT_ONCE).unwrap();
        all.extend(part.capabilities);
        next = part.next;
    }
    all
}

/// A buffer in scratch memory.
pub fn buffer(offset: u64, length: u32) -> Buffer {
    Buffer { address: SCRATCH + offset, length }
}

/// A status as a completion has it.
pub fn status(status: Status) -> i32 {
    status as i32
}

/// Memory with known contents.
pub fn memory(account: &Arc<Account>, pages: u64, mark: u8) -> Arc<MemoryObject> {
    let memory = MemoryObject::anonymous(&mut alone(), account, pages * 4096).unwrap();
    assert!(user_memory::fill(&memory, 0, &[mark; 64]));
    memory
}
