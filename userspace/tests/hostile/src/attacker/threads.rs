//! Attacks by and on threads of one process.

use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use capos_abi::Entry;
use capos_abi::Status;
use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::syscall::NO_DEADLINE;
use capos_ring::{Ring, exit_thread};
use capos_rt::memory::PAGE;
use capos_rt::{Context, Error, log, raw};
use capos_schema::kernel::{AddressSpaceAccess, CapabilityTableClient, ProcessClient, ThreadClient};

use crate::kit::{self, Kit};
use crate::random;

/// Where the rings of the first started thread are.
const RINGS: u64 = 0x5200_0000_0000;
const RING_STEP: u64 = 0x100_0000;
const STACK: usize = 16 << 10;
/// Waits that a thread has in flight at once.
const WAITS: u32 = 1024;
/// Entries that keep the kernel busy for longer than a thread's turn.
const NOPS: u32 = 2048;

/// The word's value that ends [`Part::Revoke`].
const OVER: u32 = u32::MAX;
/// Its words after that: the capability to revoke through, what it revokes, how many were revoked, its messages.
const TABLE: u64 = 16;
const REVOKED: u64 = 24;
const WENT: u64 = 32;
const PARAMS: u64 = 64;
const RESULTS: u64 = 128;

/// The part of a started thread.
#[derive(Clone, Copy)]
#[repr(u64)]
enum Part {
    /// Ends with code 7.
    Leave,
    /// Waits for words until all are woken; ends with how many those were.
    Wait,
    /// Ends while it waits for words.
    Abandon,
    /// Waits for the word to change, then looks at its rings.
    Look,
    /// Uses the first thread's rings through the runtime. Ends with the result.
    Meddle,
    /// Counts the word up until it is stopped.
    Count,
    /// Keeps the kernel busy for long until the word changes.
    Busy,
    /// Revokes the capability in its word, each time the word changes, until it is [`OVER`].
    Revoke,
    /// Overwrites the submission entries of the first thread until it is stopped.
    Scribble,
}

fn counter(address: u64) -> &'static AtomicU32 {
    // SAFETY: attacks pass addresses inside their own leaked pages, 4-byte aligned.
    unsafe { AtomicU32::from_ptr(kit::pointer(address).cast()) }
}

/// The word that wait number `at` is for: every other wait has one of its own.
fn address(word: u64, at: u32) -> u64 {
    if at.is_multiple_of(2) { word } else { word + 64 + u64::from(at / 2 * 4) }
}

fn push(ring: &Ring, user_data: u64, operation: Operation) -> bool {
    // SAFETY: the operations here name no memory that the kernel writes.
    unsafe { ring.push(&Entry { user_data, operation }) }
}

/// The first function of a started thread. It gets nothing of the runtime but its own rings.
extern "C" fn work(part: u64, word: u64, rings: u64) -> ! {
    // SAFETY: the rings that this thread was started with.
    let Ok(ring) = (unsafe { Ring::at(rings) }) else { exit_thread(-1) };
    if part == Part::Leave as u64 {
        exit_thread(7);
    }
    if part == Part::Meddle as u64 {
        // SAFETY: NOP names no memory.
        let pushed = unsafe { raw::push(&kit::encode(1, Operation::Nop)) };
        exit_thread(i32::from(pushed) + i32::from(raw::pop().is_some()));
    }
    if part == Part::Count as u64 {
        loop {
            counter(word).fetch_add(1, Ordering::Release);
        }
    }
    if part == Part::Busy as u64 {
        counter(word + 8).fetch_add(1, Ordering::Release);
        while counter(word).load(Ordering::Acquire) == 0 {
            while push(&ring, 0, Operation::Nop) {}
            ring.enter(0, 0);
            while ring.pop().is_some() {}
        }
        exit_thread(0);
    }
    if part == Part::Revoke as u64 {
        revoke_when_told(&ring, word);
    }
    if part == Part::Scribble as u64 {
        counter(word).store(1, Ordering::Release);
        random::scribble();
    }
    if part == Part::Look as u64 {
        counter(word + 8).fetch_add(1, Ordering::Release);
        push(&ring, 0, Operation::WakeWord { address: word + 8, count: 1 });
        ring.enter(0, 0);
        while counter(word).load(Ordering::Acquire) == 0 {
            core::hint::spin_loop();
        }
        let _ = ring.pop();
        exit_thread(0);
    }
    for at in 0..WAITS {
        push(&ring, at.into(), Operation::WaitWord { address: address(word, at), expected: 0 });
    }
    ring.enter(0, 0);
    counter(word + 8).fetch_add(1, Ordering::Release);
    push(&ring, WAITS.into(), Operation::WakeWord { address: word + 8, count: 1 });
    ring.enter(0, 0);
    let mut woken = 0;
    while part == Part::Wait as u64 && woken < WAITS {
        ring.enter(1, NO_DEADLINE);
        while let Some(done) = ring.pop() {
            woken += u32::from(done.status == 0 && done.user_data < WAITS.into());
        }
    }
    exit_thread(woken.cast_signed())
}

/// See [`Part::Revoke`].
fn revoke_when_told(ring: &Ring, word: u64) -> ! {
    const REVOKE: u16 = 3;
    let mut done = 0;
    loop {
        let round = counter(word).load(Ordering::Acquire);
        if round == OVER {
            exit_thread(0);
        }
        if round == done {
            core::hint::spin_loop();
            continue;
        }
        done = round;
        // A struct of one word: the capability.
        kit::write(word + PARAMS, 1 << 32);
        kit::write(word + PARAMS + 8, kit::read(word + REVOKED));
        let (params, results) = (word + PARAMS, word + RESULTS);
        let call = Operation::Call {
            cap: kit::read(word + TABLE),
            interface: CapabilityTableClient::INTERFACE_ID,
            method: REVOKE,
            params: Buffer { address: params, length: 16 },
            results: Buffer { address: results, length: 64 },
            caps: CapArray::default(),
        };
        // SAFETY: the messages are in the word's page, which is leaked and to which no reference exists.
        if !unsafe { ring.push(&Entry { user_data: 1, operation: call }) } {
            exit_thread(-2);
        }
        ring.enter(1, NO_DEADLINE);
        let answered = ring.pop().is_some_and(|completion| completion.status == 0);
        kit::write(word + WENT, if answered { kit::read(word + RESULTS + 8) } else { 0 });
        counter(word + 8).store(round, Ordering::Release);
    }
}

/// Revokes the root of a chain of capabilities on one processor, and its middle on another, while calls are in flight
/// through them and more are derived. Each is revoked once, and nothing of them is left.
pub async fn revoke_elsewhere(kit: &Kit) -> Result<(), Error> {
    const CHAIN: u32 = 16;
    const ROUNDS: u32 = 300;
    let mut crew = Crew::new(kit)?;
    let word = crew.word;
    kit::write(word + TABLE, kit::id(&kit.table));
    let other = crew.start(0, Part::Revoke).await?;
    let mut first = 0;
    for round in 1..=ROUNDS {
        let root = kit.table.derive(kit::id(&kit.client), u32::MAX).await.context("deriving the root")?;
        let mut chain = Vec::new();
        let mut last = root;
        for _ in 0..CHAIN {
            last = kit.table.derive(last, u32::MAX).await.context("deriving a chain")?;
            chain.push(last);
        }
        let mut answers = kit::Answers::new();
        let calls: Vec<(u64, u64)> = (100..).zip(chain.iter().copied().step_by(4)).collect();
        for (tag, cap) in &calls {
            let none = (Buffer::default(), Buffer::default(), CapArray::default());
            answers.send(&[kit::call(*tag, *cap, kit::INTERFACE, 0, none.0, none.1, none.2)]);
        }
        kit::write(word + REVOKED, root);
        counter(word).store(round, Ordering::Release);
        // So that now this one is earlier, now the other.
        for _ in 0..round % 64 * 16 {
            core::hint::spin_loop();
        }
        let middle = chain.get((round % CHAIN) as usize).copied().unwrap_or(root);
        let own = kit.table.revoke(middle).await;
        let more = kit.table.derive(middle, u32::MAX).await;
        while counter(word + 8).load(Ordering::Acquire) != round {
            core::hint::spin_loop();
        }
        first += u32::from(own.is_ok());
        let went = u64::from(own.unwrap_or(0)) + (kit::read(word + WENT) & u64::from(u32::MAX));
        let made = u64::from(CHAIN) + u64::from(more.is_ok());
        kit::ensure(went == made, || format!("{went} of {made} capabilities were revoked in round {round}"))?;
        for (tag, _) in &calls {
            answers.expect(*tag, Status::Cancelled).context("a call through what was revoked")?;
        }
        for cap in chain.into_iter().chain(more) {
            kit::expect(&kit::release(5, cap), Status::StaleCapability).context("what was revoked")?;
        }
        kit::expect(&kit::release(5, root), Status::Ok).context("the root")?;
    }
    counter(word).store(OVER, Ordering::Release);
    kit::ensure(crew.code(&other).await? == 0, || "the other thread was lost".into())?;
    log::info!("the middle was revoked before the root in {first} of {ROUNDS} rounds");
    kit.still_served()
}

struct Crew<'a> {
    kit: &'a Kit,
    process: ProcessClient,
    word: u64,
    stacks: Vec<u64>,
}

impl<'a> Crew<'a> {
    fn new(kit: &'a Kit) -> Result<Self, Error> {
        let process = kit.env.cap("process").context("the own process")?;
        Ok(Self { kit, process, word: kit.message, stacks: Vec::new() })
    }

    /// Starts thread number `at`.
    async fn start(&mut self, at: usize, part: Part) -> Result<ThreadClient, Error> {
        self.start_with(at, part, self.word).await
    }

    /// The same, with a word of its own.
    async fn start_with(&mut self, at: usize, part: Part, word: u64) -> Result<ThreadClient, Error> {
        while self.stacks.len() <= at {
            let stack = alloc::vec![0_u128; STACK / 16].leak();
            // As after a call: the stack is aligned except for a return address.
            self.stacks.push(stack.as_mut_ptr_range().end.expose_provenance() as u64 - 8);
        }
        let stack = self.stacks.get(at).copied().unwrap_or(0);
        let code = work as extern "C" fn(u64, u64, u64) -> ! as usize as u64;
        let ring = RINGS + at as u64 * RING_STEP;
        let entries = match part {
            Part::Wait | Part::Abandon => WAITS,
            Part::Busy => NOPS,
            _ => 2,
        };
        let thread = self.process.create_thread(code, stack, part as u64, word, ring, entries, 2 * entries, 0).await;
        thread.with_context(|| format!("thread {at}"))
    }

    async fn code(&self, thread: &ThreadClient) -> Result<i32, Error> {
        Ok(thread.wait().await.context("waiting for a thread")?.code)
    }

    /// Waits until `count` threads wait for words.
    fn gather(&self, count: u32) -> Result<(), Error> {
        loop {
            let here = counter(self.word + 8).load(Ordering::Acquire);
            if here == count {
                return Ok(());
            }
            let status =
                kit::status_of(&kit::encode(1, Operation::WaitWord { address: self.word + 8, expected: here }))?;
            kit::ensure(status == 0 || status == Status::Changed as i32, || kit::words(status))?;
        }
    }

    fn wake(&self, address: u64) -> Result<u64, Error> {
        let mut answers = kit::Answers::new();
        answers.send(&[kit::encode(2, Operation::WakeWord { address, count: u32::MAX })]);
        Ok(answers.expect(2, Status::Ok)?.value)
    }
}

/// Thousands of waits for words: all are woken, or end with their threads.
pub async fn waiters(kit: &Kit) -> Result<(), Error> {
    const THREADS: usize = 5;
    let mut crew = Crew::new(kit)?;
    for part in [Part::Wait, Part::Abandon, Part::Wait] {
        counter(crew.word + 8).store(0, Ordering::Release);
        let mut threads = Vec::new();
        for at in 0..THREADS {
            threads.push(crew.start(at, part).await?);
        }
        crew.gather(THREADS as u32)?;
        if matches!(part, Part::Abandon) {
            for thread in &threads {
                crew.code(thread).await?;
            }
        }
        let each = if matches!(part, Part::Abandon) { 0 } else { THREADS as u64 };
        let woken = crew.wake(crew.word)?;
        kit::ensure(woken == each * u64::from(WAITS / 2), || format!("{woken} waits for the same word"))?;
        for at in (0..WAITS / 2).rev() {
            let woken = crew.wake(address(crew.word, 2 * at + 1))?;
            kit::ensure(woken == each, || format!("{woken} waits for word {at}"))?;
        }
        for thread in &threads {
            let code = crew.code(thread).await?;
            kit::ensure(each == 0 || code == WAITS.cast_signed(), || format!("a thread saw {code} wakes"))?;
        }
    }
    crew.kit.still_served()
}

/// Threads that come and go, and many at once. How many there may be is `exhaust-threads`' question.
pub async fn storm(kit: &Kit) -> Result<(), Error> {
    let mut crew = Crew::new(kit)?;
    for _ in 0..200 {
        let thread = crew.start(0, Part::Leave).await?;
        let code = crew.code(&thread).await?;
        kit::ensure(code == 7, || format!("a thread ended with {code}"))?;
    }
    let mut threads = Vec::new();
    for at in 0..24 {
        threads.push(crew.start(at, Part::Look).await?);
    }
    counter(crew.word).store(1, Ordering::Release);
    for thread in &threads {
        kit::ensure(crew.code(thread).await? == 0, || "a thread was lost".into())?;
    }
    crew.kit.still_served()
}

/// Operations that a thread must not do to itself or get from its process's capability.
pub async fn own(kit: &Kit) -> Result<(), Error> {
    let mut crew = Crew::new(kit)?;
    let own = crew.process.current_thread().await?;
    kit::ensure(own.wait().await.is_err(), || "a thread waits for itself".into())?;
    for priority in [-128, -2, 1, 2, 3, 127] {
        let set = own.set_priority(priority).await;
        kit::ensure(set.is_err(), || format!("priority {priority} was given"))?;
    }
    own.set_priority(-1).await?;
    own.set_priority(0).await?;
    kit::ensure(crew.process.kill("myself").await.is_err(), || "its capability ends it".into())?;
    kit::ensure(crew.process.table().await.is_err(), || "its capability gives its table".into())?;
    kit::ensure(crew.process.account().await.is_err(), || "its capability gives its account".into())?;
    kit::ensure(crew.process.address_space().await.is_err(), || "its capability gives its space".into())?;
    kit::ensure(crew.process.grant(&kit.notification, u32::MAX).await.is_err(), || "it grants".into())?;
    for address in [0x8000_0000_0000, 0xffff_8000_0000_0000, u64::MAX] {
        kit::expect(&kit::encode(3, Operation::ThreadPointer { address }), Status::BadAddress)?;
        for operation in [Operation::WaitWord { address, expected: 0 }, Operation::WakeWord { address, count: 1 }] {
            kit::expect(&kit::encode(3, operation), Status::BadAddress)?;
        }
    }
    for name in ["", "\u{1b}[2J", "a\nb", "a name that is longer than any name may be"] {
        kit::ensure(own.set_name(name).await.is_err(), || format!("a thread is named {name:?}"))?;
    }
    for processors in [0, 1 << 63] {
        kit::ensure(own.set_affinity(processors).await.is_err(), || "it runs on no processor".into())?;
    }
    let there = u64::MAX.unbounded_shr(64_u32.saturating_sub(capos_rt::processors()));
    for processors in [1, there, 1 << (capos_rt::processors() - 1), u64::MAX] {
        own.set_affinity(processors).await?;
    }
    let thread = crew.start(0, Part::Meddle).await?;
    kit::ensure(crew.code(&thread).await? == 0, || "a thread has the first one's runtime".into())?;
    // A thread whose rings are gone, and with something else in their place.
    let thread = crew.start(0, Part::Look).await?;
    // It has found its rings.
    crew.gather(1)?;
    kit.space.unmap(RINGS, 3 * PAGE).await.context("unmapping rings")?;
    thread.kill().await?;
    thread.kill().await?;
    kit::ensure(crew.code(&thread).await? == 0, || "it was not ended".into())?;
    crew.kit.still_served()
}

/// A thread whose rings another one unmaps: its next look at them ends the process, in its name.
pub async fn unmapped_rings(kit: &Kit) -> Result<(), Error> {
    let mut crew = Crew::new(kit)?;
    let thread = crew.start(0, Part::Look).await?;
    thread.set_name("victim").await?;
    crew.gather(1)?;
    kit.space.unmap(RINGS, 3 * PAGE).await.context("unmapping rings")?;
    counter(crew.word).store(1, Ordering::Release);
    crew.code(&thread).await.map(drop)
}

/// Waits until a thread counts.
fn see_counting(word: u64) {
    let before = counter(word).load(Ordering::Acquire);
    while counter(word).load(Ordering::Acquire) == before {
        core::hint::spin_loop();
    }
}

/// Threads that count without ever entering the kernel, on other processors if there are any: once one is ended it does
/// nothing more, not even for a moment.
pub async fn ended(kit: &Kit) -> Result<(), Error> {
    const THREADS: u64 = 3;
    let mut crew = Crew::new(kit)?;
    for round in 0..40 {
        let words = crew.word + 64..;
        let words: Vec<u64> = words.step_by(64).take(THREADS as usize).collect();
        let mut threads = Vec::new();
        for (at, word) in words.iter().enumerate() {
            threads.push(crew.start_with(at, Part::Count, *word).await?);
        }
        words.iter().copied().for_each(see_counting);
        for (at, (thread, word)) in threads.iter().zip(&words).enumerate() {
            thread.kill().await?;
            let left = counter(*word).load(Ordering::Acquire);
            // Time passes in which those that are left go on.
            words.iter().skip(at + 1).copied().for_each(see_counting);
            for _ in 0..1000 {
                core::hint::spin_loop();
            }
            let now = counter(*word).load(Ordering::Acquire);
            kit::ensure(now == left, || format!("round {round}: thread {at} counted on, from {left} to {now}"))?;
            crew.code(thread).await?;
        }
    }
    crew.kit.still_served()
}

/// A thread counts in memory that is mapped at two places, and another thread unmaps the place it uses. After that the
/// word must not change. The next write ends the process.
pub async fn stale_translation(kit: &Kit) -> Result<(), Error> {
    const PLACES: [u64; 2] = [0x5300_0000_0000, 0x5400_0000_0000];
    let mut crew = Crew::new(kit)?;
    let memory = kit.account.create_memory(PAGE).await?;
    let access = AddressSpaceAccess { read: true, write: true, execute: false };
    for place in PLACES {
        kit.space.map(&memory, place, 0, PAGE, &access).await.context("mapping a page")?;
    }
    let [first, second] = PLACES;
    let thread = crew.start_with(0, Part::Count, first).await?;
    thread.set_name("counter").await?;
    see_counting(second);
    kit.space.unmap(first, PAGE).await.context("unmapping a page")?;
    let left = counter(second).load(Ordering::Acquire);
    for _ in 0..10_000_000 {
        let now = counter(second).load(Ordering::Acquire);
        kit::ensure(now == left, || format!("unmapped memory was written, from {left} to {now}"))?;
        core::hint::spin_loop();
    }
    crew.code(&thread).await.map(drop)
}

/// A thread counts in memory while it is copied. The content of a copy does not change, a write to the copy does not
/// reach the thread, and the thread continues. Each copy is as large as the memory, whose other pages are never
/// touched.
pub async fn copies_elsewhere(kit: &Kit) -> Result<(), Error> {
    const PLACE: u64 = 0x5300_0000_0000;
    const COPY: u64 = 0x5400_0000_0000;
    const BYTES: u64 = 16 * PAGE;
    let mut crew = Crew::new(kit)?;
    let memory = kit.account.create_memory(BYTES).await?;
    let access = AddressSpaceAccess { read: true, write: true, execute: false };
    kit.space.map(&memory, PLACE, 0, BYTES, &access).await.context("mapping the memory")?;
    crew.start_with(0, Part::Count, PLACE).await?;
    for round in 0..200 {
        let copy = memory.copy(&kit.account, 0, BYTES).await.context("copying the memory")?;
        kit.space.map(&copy, COPY, 0, BYTES, &access).await.context("mapping the copy")?;
        let copied = counter(COPY).load(Ordering::Acquire);
        see_counting(PLACE);
        let now = counter(COPY).load(Ordering::Acquire);
        kit::ensure(now == copied, || format!("round {round}: a copy was written, from {copied} to {now}"))?;
        counter(COPY).store(0x8000_0000, Ordering::Release);
        see_counting(PLACE);
        let (counted, now) = (counter(PLACE).load(Ordering::Acquire), counter(COPY).load(Ordering::Acquire));
        kit::ensure((copied..0x8000_0000).contains(&counted) && now == 0x8000_0000, || {
            format!("round {round}: the source went from {copied} to {counted}, its copy is {now}")
        })?;
        kit.space.unmap(COPY, BYTES).await.context("unmapping the copy")?;
    }
    crew.kit.still_served()
}

/// Threads that keep the kernel busy for so long that other threads get in, while their mappings are removed.
pub async fn busy_elsewhere(kit: &Kit) -> Result<(), Error> {
    const THREADS: usize = 2;
    const PLACE: u64 = 0x5300_0000_0000;
    let mut crew = Crew::new(kit)?;
    let memory = kit.account.create_memory(PAGE).await?;
    let access = AddressSpaceAccess { read: true, write: true, execute: false };
    let mut threads = Vec::new();
    for at in 0..THREADS {
        threads.push(crew.start(at, Part::Busy).await?);
    }
    while counter(crew.word + 8).load(Ordering::Acquire) < THREADS as u32 {
        core::hint::spin_loop();
    }
    for round in 0..1000_u32 {
        kit.space.map(&memory, PLACE, 0, PAGE, &access).await.context("mapping a page")?;
        counter(PLACE).store(round, Ordering::Release);
        kit.space.unmap(PLACE, PAGE).await.context("unmapping a page")?;
    }
    counter(crew.word).store(1, Ordering::Release);
    for thread in &threads {
        kit::ensure(crew.code(thread).await? == 0, || "a thread was lost".into())?;
    }
    crew.kit.still_served()
}

/// A thread writes over another one's entries while the kernel reads them.
pub async fn changing_entries(kit: &Kit) -> Result<(), Error> {
    let mut crew = Crew::new(kit)?;
    crew.start(0, Part::Scribble).await?;
    while counter(crew.word).load(Ordering::Acquire) == 0 {
        core::hint::spin_loop();
    }
    random::submit_changing()
}

/// EXIT with an invalid scope.
pub fn exit_scope(scope: u64) -> Result<(), Error> {
    // SAFETY: the kernel ends the process.
    unsafe {
        core::arch::asm!("syscall", inout("rax") 1_u64 => _, in("rdi") 0_u64, in("rsi") scope, lateout("rcx") _, lateout("r11") _);
    }
    Err(Error::new(format!("EXIT with scope {scope:#x} did no harm")))
}
