//! Threads of the kernel, without a runtime: each has a stack and a ring, and plays one part until it ends.

use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use capos_abi::Entry;
use capos_abi::entry::Operation;
use capos_abi::syscall::NO_DEADLINE;
use capos_measure::{Samples, count, overhead};
use capos_ring::{Ring, exit_thread};
use capos_rt::{Context, Env, Error};
use capos_schema::cap::AsCap;
use capos_schema::kernel::{NotificationClient, ProcessClient, ResourceAccountClient, ThreadClient};

/// Where rings are mapped, and how far apart: addresses that the runtime gives to no mapping.
const RINGS: u64 = 0x5200_0000_0000;
const RING_STEP: u64 = 0x100_0000;
const ENTRIES: u32 = 8;
const STACK: usize = 16 << 10;

/// The part of a thread.
#[derive(Clone, Copy)]
#[repr(u64)]
enum Part {
    /// Ends.
    Nothing,
    /// Gives a word of memory to the other thread, and counts how long it takes to come back.
    GiveAndCount,
    /// Gives it back.
    Give,
    /// Notifies the other thread, and counts how long it takes to be notified.
    NotifyAndCount,
    /// Notifies the thread that notified it.
    Notify,
}

/// The shared state of two threads.
struct Shared {
    /// Whose turn it is.
    turn: AtomicU32,
    /// The notifications of each.
    notifications: [u64; 2],
    /// The counts, round by round.
    counts: Vec<AtomicU64>,
}

impl Shared {
    fn take_turn(&self, ring: &Ring, own: u32) {
        let word = self.turn.as_ptr().expose_provenance() as u64;
        while self.turn.load(Ordering::Acquire) != own {
            ring.wait_word(word, 1 - own, NO_DEADLINE);
        }
        self.turn.store(1 - own, Ordering::Release);
        ring.wake_word(word, 1);
    }
}

/// Does these at once; comes back when all have ended.
fn run(ring: &Ring, operations: &[Operation]) {
    for operation in operations {
        // SAFETY: they name no memory.
        unsafe { ring.push(&Entry { user_data: 0, operation: *operation }) };
    }
    let mut ended = 0;
    while ended < operations.len() {
        ring.enter(1, NO_DEADLINE);
        while ring.pop().is_some() {
            ended += 1;
        }
    }
}

/// The first function of a thread.
extern "C" fn work(part: u64, shared: u64, rings: u64) -> ! {
    // SAFETY: the ring that this thread was started with.
    let Ok(ring) = (unsafe { Ring::at(rings) }) else { exit_thread(-1) };
    if part == Part::Nothing as u64 {
        exit_thread(0);
    }
    let shared = core::ptr::with_exposed_provenance::<Shared>(usize::try_from(shared).unwrap_or(0));
    // SAFETY: the starter of threads keeps their shared data until they have ended.
    let shared = unsafe { &*shared };
    let [first, second] = shared.notifications;
    let mut from = count();
    if part == Part::Notify as u64 {
        run(&ring, &[Operation::Wait { cap: second }]);
    }
    for (round, place) in shared.counts.iter().enumerate() {
        let last = round + 1 == shared.counts.len();
        let answer = [Operation::Notify { notification: first, bits: 1 }, Operation::Wait { cap: second }];
        if part == Part::GiveAndCount as u64 {
            shared.take_turn(&ring, 0);
        } else if part == Part::Give as u64 {
            shared.take_turn(&ring, 1);
            continue;
        } else if part == Part::NotifyAndCount as u64 {
            run(&ring, &[Operation::Notify { notification: second, bits: 1 }, Operation::Wait { cap: first }]);
        } else {
            run(&ring, answer.get(..if last { 1 } else { 2 }).unwrap_or_default());
            continue;
        }
        let to = count();
        place.store(to.saturating_sub(from), Ordering::Relaxed);
        from = to;
    }
    exit_thread(0)
}

/// Starts threads.
pub struct Crew {
    process: ProcessClient,
    account: ResourceAccountClient,
    stacks: [u64; 2],
}

impl Crew {
    pub fn new(env: &Env) -> Result<Self, Error> {
        let stack = |_| {
            let stack = vec![0_u128; STACK / 16].leak();
            // As after a call: the stack is aligned except for a return address.
            stack.as_mut_ptr_range().end.expose_provenance() as u64 - 8
        };
        Ok(Self { process: env.cap("process")?, account: env.cap("account")?, stacks: [0, 1].map(stack) })
    }

    async fn start(&self, at: usize, part: Part, shared: u64) -> Result<ThreadClient, Error> {
        let stack = self.stacks.get(at).copied().context("there are two stacks")?;
        let code = work as extern "C" fn(u64, u64, u64) -> ! as usize as u64;
        let ring = RINGS + at as u64 * RING_STEP;
        let thread = self.process.create_thread(code, stack, part as u64, shared, ring, ENTRIES, ENTRIES, 0).await;
        thread.context("starting a thread")
    }

    /// Starts a thread that ends at once, and waits until it has.
    pub async fn start_and_join(&self) -> Result<(), Error> {
        let thread = self.start(0, Part::Nothing, 0).await?;
        thread.wait().await.context("waiting for a thread")?;
        Ok(())
    }

    /// Has two threads play these parts against each other; returns the counts of the first.
    async fn play(&self, parts: [Part; 2], rounds: usize) -> Result<Samples, Error> {
        let notifications: [NotificationClient; 2] =
            [self.account.create_notification().await?, self.account.create_notification().await?];
        let shared = Shared {
            turn: AtomicU32::new(0),
            notifications: [0, 1].map(|at: usize| notifications.get(at).map_or(0, |one| one.as_cap().id())),
            counts: (0..rounds).map(|_| AtomicU64::new(0)).collect(),
        };
        let mut threads = Vec::new();
        // The counting thread comes last: the other is there already.
        for (at, part) in parts.into_iter().enumerate().rev() {
            threads.push(self.start(at, part, (&raw const shared).expose_provenance() as u64).await?);
        }
        for thread in &threads {
            thread.wait().await.context("waiting for a thread")?;
        }
        let (overhead, mut samples) = (overhead(), Samples::with_room(rounds));
        for counted in &shared.counts {
            samples.add(0, counted.load(Ordering::Relaxed), overhead);
        }
        Ok(samples)
    }

    /// A word that two threads give to each other: round by round.
    pub async fn hand_over(&self, rounds: usize) -> Result<Samples, Error> {
        self.play([Part::GiveAndCount, Part::Give], rounds).await
    }

    /// Two threads that notify each other.
    pub async fn notify(&self, rounds: usize) -> Result<Samples, Error> {
        self.play([Part::NotifyAndCount, Part::Notify], rounds).await
    }
}
