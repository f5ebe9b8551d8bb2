//! ENTER and EXIT.
//!
//! [`handle`] does the part of a system call for which this processor shares the kernel lock. It returns what is left, and [`go_on`] does that
//! under the exclusive lock. The two have in common the fast path of entries, and [`post`], by which an entry's own completion is written.

pub mod admission;
pub mod bound_call;
pub mod fast_path;
pub mod invoke;
pub mod kernel_call;
pub mod methods;

use alloc::string::String;
use alloc::sync::Arc;
#[cfg(feature = "tests")]
use core::sync::atomic::{AtomicU64, Ordering};

use capos_abi::bootstrap::USER_END;
use capos_abi::entry::{EntryWords, Operation, bytes_of};
use capos_abi::{CapId, Entry, Status, syscall as number};
use spin::MutexGuard;

use crate::arch::time;
use crate::cpu::budget::{Budget, cost};
use crate::cpu::kernel_lock::{Exclusive, Held, Shared};
use crate::ipc;
use crate::ipc::word;
use crate::log;
use crate::object::operation::{Call, Enter, Outcome, Progress};
use crate::object::process::{Cause, End};
use crate::object::report;
use crate::object::thread::{Inner, State, Taken, Thread};
use crate::paging::pager::{self, Brought};
use crate::sched::scheduler;
use crate::syscall::bound_call::RecentCalls;
use crate::syscall::fast_path::{Step, Woken};

/// What has become of a system call, as far as it needs the kernel lock shared.
#[derive(Debug)]
pub enum Handled {
    /// The thread continues, or waits.
    Done,
    /// The thread waits, and this other one continues: [`switching::hand_over`](crate::sched::switching::hand_over) lets it run.
    Waits(Arc<Thread>),
    /// The rest, which was noted, needs the kernel lock exclusively: [`go_on`] does it.
    Left,
}

/// What is left of a system call.
#[derive(Debug)]
pub struct Rest {
    /// Threads that go on.
    woken: [Option<Arc<Thread>>; 2],
    /// A thread whose rings are corrupt.
    corrupt: Option<Arc<Thread>>,
    work: Work,
}

/// What the thread itself still has to do.
#[derive(Debug)]
enum Work {
    Nothing,
    Enter(Enter),
    /// What ends the thread or the process, and what is no system call: the number and two arguments.
    Leave(u64, u64, u64),
}

impl Rest {
    /// Notes in `rest` that this work is left, and a thread continues. It is no result, because that is moved even where nothing is left.
    #[inline(always)]
    fn note(rest: &mut Option<Self>, next: Option<Arc<Thread>>, work: Work) -> Handled {
        *rest = Some(Self { woken: [next, None], corrupt: None, work });
        Handled::Left
    }
}

/// Does what the thread's registers ask for, as far as the kernel lock need not be held exclusively. What is left is noted in `rest`.
#[inline(always)]
pub fn handle(lock: &Shared, thread: &Arc<Thread>, rest: &mut Option<Rest>) -> Handled {
    let (number, first, second, third) = thread.with_context(|c| (c.rax, c.rdi, c.rsi, c.rdx));
    if number != number::ENTER {
        return Rest::note(rest, None, Work::Leave(number, first, second));
    }
    #[expect(clippy::cast_possible_truncation, reason = "the arguments are 32 bits wide")]
    match (first as u32, second as u32) {
        (0, minimum) => finish(thread, 0, (minimum, third), None, rest),
        (entries, minimum) => enter(lock, thread, (entries, minimum, third), rest),
    }
}

/// Does what the thread's registers ask for, where this processor holds the kernel lock exclusively from the beginning.
pub fn handle_alone(lock: &mut Exclusive, thread: &Arc<Thread>) {
    let (number, first, second, deadline) = thread.with_context(|c| (c.rax, c.rdi, c.rsi, c.rdx));
    if number != number::ENTER {
        return leave(lock, thread, number, first, second);
    }
    #[expect(clippy::cast_possible_truncation, reason = "the arguments are 32 bits wide")]
    let (left, minimum) = (first as u32, second as u32);
    run(lock, thread, &mut Enter { left, taken: 0, minimum, deadline, waiting: None, steps: false });
}

/// Does what is left of a system call of the current thread. There is none where another processor has ended it meanwhile.
pub fn go_on(lock: &mut Exclusive, thread: Option<&Arc<Thread>>, rest: &mut Rest) {
    for woken in &mut rest.woken {
        if let Some(woken) = woken.take() {
            scheduler::wake(lock, &woken);
        }
    }
    if let Some(thread) = rest.corrupt.take() {
        thread.look_again(lock);
    }
    let Some(thread) = thread.filter(|thread| thread.state() == State::Running) else { return };
    match &mut rest.work {
        Work::Nothing => {}
        Work::Enter(enter) => {
            #[cfg(feature = "tests")]
            LONG_ENTRIES.fetch_add(u64::from(enter.waiting.is_some()), Ordering::Relaxed);
            run(lock, thread, enter);
        }
        Work::Leave(number, first, second) => leave(lock, thread, *number, *first, *second),
    }
}

/// Does what ends the thread or the process, and what is no system call.
#[cold]
#[inline(never)]
fn leave(lock: &mut Exclusive, thread: &Arc<Thread>, number: u64, first: u64, second: u64) {
    match number {
        // It came here since its thread is traced, see the entry code.
        number::INVOKE => thread.with_context(|context| {
            context.rax = number::INVOKE_NOT;
            (context.rdx, context.rdi, context.rsi) = (0, 0, 0);
            (context.r8, context.r9, context.r10) = (0, 0, 0);
        }),
        #[expect(clippy::cast_possible_truncation, reason = "the code is 32 bits wide")]
        number::EXIT => {
            let code = (first as u32).cast_signed();
            match second {
                number::EXIT_PROCESS => {
                    thread.process.doom(lock, End { cause: Cause::Exited, code, report: String::new() });
                }
                number::EXIT_THREAD => scheduler::exit(lock, thread, code),
                scope => {
                    let report = report::bad_exit_scope(thread, scope);
                    thread.process.doom(lock, End { cause: Cause::Fault, code: 0, report });
                }
            }
        }
        other => {
            log!("{}", report::Backtrace(thread));
            let report = report::bad_system_call(thread, other);
            thread.process.doom(lock, End { cause: Cause::Fault, code: 0, report });
        }
    }
}

/// Entries that took the slow path, for tests: where both paths do the same, nothing else tells them apart.
#[cfg(feature = "tests")]
pub static LONG_ENTRIES: AtomicU64 = AtomicU64::new(0);

/// Entries of one call that are processed while this processor shares the kernel lock; none of them copies more than a page. Those behind them
/// are processed under the exclusive lock, where the call pauses by its [budget](crate::cpu::budget).
const SHORT: u32 = 32;

/// Processes entries on the fast path as long as they can take it, and waits.
#[inline(always)]
fn enter(
    lock: &Shared,
    thread: &Arc<Thread>,
    (entries, minimum, deadline): (u32, u32, u64),
    rest: &mut Option<Rest>,
) -> Handled {
    // `taken` is `entries` at most, and an entry has few completions: nothing overflows.
    let (mut taken, mut answered) = (0_u32, 0_u32);
    // What is told that it continues: it is handed over to where this thread waits.
    let mut next = None;
    let short = entries.min(SHORT);
    let work = |taken: u32, waiting| {
        let left = entries.wrapping_sub(taken);
        Work::Enter(Enter { left, taken: u64::from(taken), minimum, deadline, waiting, steps: false })
    };
    loop {
        let mut own = thread.lock();
        let Taken { words, more } = match own.take_entry() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            // The slow path finds the same, and ends the process.
            Err(_) => return Rest::note(rest, next, work(taken, None)),
        };
        // Where memory is short, the slow path decides what may still be done.
        let done = match admission::allows_shared() {
            true => try_fast(lock.held(), thread, own, &words),
            false => None,
        };
        let Some((ended, woken)) = done else { return Rest::note(rest, next, work(taken, Some(words))) };
        taken = taken.wrapping_add(1);
        answered = answered.wrapping_add(u32::from(ended));
        match woken {
            Woken::Nobody => {}
            Woken::GoesOn(other) => {
                if !ended {
                    RecentCalls::of(lock.cpu()).met(&words);
                }
                if ended || next.is_some() {
                    // It continues although this thread does not wait, or next to another one.
                    let woken = [next, Some(other)];
                    *rest = Some(Rest { woken, corrupt: None, work: work(taken, None) });
                    return Handled::Left;
                }
                next = Some(other);
            }
            Woken::Corrupt(other) => {
                *rest = Some(Rest { woken: [next, None], corrupt: Some(other), work: work(taken, None) });
                return Handled::Left;
            }
        }
        if !more || taken == entries {
            break;
        }
        if taken == short {
            return Rest::note(rest, next, work(taken, None));
        }
    }
    // What was answered just now has not been read, as far as its own thread goes.
    let wanted = if answered < minimum { minimum } else { 0 };
    finish(thread, u64::from(taken), (wanted, deadline), next, rest)
}

/// Does what an entry says on the fast path: whether it has ended, and what thread that wakes. `None` where it has to take the slow path,
/// and nothing has happened.
#[inline(always)]
fn try_fast(
    lock: Held<'_>,
    thread: &Arc<Thread>,
    own: MutexGuard<'_, Inner>,
    words: &EntryWords,
) -> Option<(bool, Woken)> {
    if fast_path::is_nop(words) {
        post(own, words, Outcome::default());
        return Some((true, Woken::Nobody));
    }
    match fast_path::entry(lock, thread, own, words)? {
        Step::Ended(own, outcome, woken) => {
            post(own, words, outcome);
            Some((true, woken))
        }
        Step::Begun(woken) => Some((false, woken)),
    }
}

/// Writes the completion of an entry that has ended into the ring of its thread, which is locked.
#[inline(always)]
fn post(mut own: MutexGuard<'_, Inner>, words: &EntryWords, outcome: Outcome) {
    let [_, tag, ..] = *words;
    own.post(tag, outcome);
}

/// Whether a thread is to wait for completions until a deadline.
#[inline(always)]
fn wants(minimum: u32, deadline: u64) -> bool {
    minimum > 0 && deadline > 0 && (deadline == number::NO_DEADLINE || deadline > time::now())
}

/// Says how many entries were taken, and waits where that is asked for. `next` continues: by a hand-over where this thread waits.
#[inline(always)]
fn finish(
    thread: &Arc<Thread>,
    taken: u64,
    (minimum, deadline): (u32, u64),
    next: Option<Arc<Thread>>,
    rest: &mut Option<Rest>,
) -> Handled {
    thread.with_context(|context| context.rax = taken);
    if wants(minimum, deadline) {
        match thread.wait(minimum, deadline) {
            Ok(true) => return next.map_or(Handled::Done, Handled::Waits),
            Ok(false) => {}
            // The slow path finds the same, and ends the process.
            Err(_) => {
                return Rest::note(
                    rest,
                    next,
                    Work::Enter(Enter { left: 0, taken, minimum, deadline, waiting: None, steps: false }),
                );
            }
        }
    }
    match next {
        None => Handled::Done,
        next => Rest::note(rest, next, Work::Nothing),
    }
}

/// Continues with an ENTER that waited for a page, or for its turn.
pub fn resume(lock: &mut Exclusive, thread: &Arc<Thread>) {
    if let Some(mut enter) = thread.take_resume() {
        run(lock, thread, &mut enter);
    }
}

#[inline(never)]
fn run(lock: &mut Exclusive, thread: &Arc<Thread>, enter: &mut Enter) {
    let mut budget = Budget::new();
    let mut more = true;
    while enter.left > 0 && (more || enter.waiting.is_some()) {
        if !budget.allows() {
            return pause(lock, thread, enter);
        }
        let words = if let Some(waiting) = enter.waiting.take() {
            // It could not take the fast path.
            waiting
        } else {
            let mut own = thread.lock();
            let taken = match own.take_entry() {
                Ok(Some(taken)) => taken,
                Ok(None) => break,
                Err(corrupt) => {
                    drop(own);
                    return thread.die_of(lock, corrupt);
                }
            };
            more = taken.more;
            let done = match admission::allows_alone() {
                true => try_fast(lock.held(), thread, own, &taken.words),
                false => {
                    drop(own);
                    None
                }
            };
            if let Some((_, woken)) = done {
                match woken {
                    Woken::Nobody => {}
                    Woken::GoesOn(other) => scheduler::wake(lock, &other),
                    Woken::Corrupt(other) => other.look_again(lock),
                }
                enter.left = enter.left.saturating_sub(1);
                enter.taken = enter.taken.saturating_add(1);
                budget.spend(cost::SHORT_ENTRY);
                continue;
            }
            taken.words
        };
        budget.spend(cost::ENTRY);
        thread.set_budget(budget);
        let mut progress = execute(lock, thread, &words, enter.steps);
        budget = thread.budget();
        if let Progress::Absent(address) = progress {
            enter.waiting = Some(words);
            match pager::bring_in(lock, thread, address) {
                Brought::Now => continue,
                Brought::Later => return thread.resume_later(*enter),
                Brought::Never => progress = Status::BadAddress.into(),
            }
            enter.waiting = None;
        }
        if matches!(progress, Progress::Unfinished) {
            enter.waiting = Some(words);
            enter.steps = true;
            return pause(lock, thread, enter);
        }
        if enter.steps {
            // It may have failed before what was begun was done. Then that goes, if need be in steps, in which it fails again.
            if !thread.drop_unfinished(lock, &mut budget) {
                enter.waiting = Some(words);
                return pause(lock, thread, enter);
            }
            enter.steps = false;
        }
        if let Progress::Done(outcome) = progress {
            post(thread.lock(), &words, outcome);
        }
        enter.left = enter.left.saturating_sub(1);
        enter.taken = enter.taken.saturating_add(1);
    }
    thread.with_context(|context| context.rax = enter.taken);
    if wants(enter.minimum, enter.deadline)
        && let Err(corrupt) = thread.wait(enter.minimum, enter.deadline)
    {
        thread.die_of(lock, corrupt);
    }
}

/// Lets others have their turn. ENTER continues afterwards.
#[cold]
#[inline(never)]
fn pause(lock: &mut Exclusive, thread: &Arc<Thread>, enter: &Enter) {
    thread.resume_later(*enter);
    scheduler::pause(lock);
}

/// Does what an entry says, on the slow path.
#[inline(never)]
fn execute(lock: &mut Exclusive, thread: &Arc<Thread>, words: &EntryWords, is_begun: bool) -> Progress {
    let Entry { user_data: tag, operation } = match Entry::decode(&bytes_of(words)) {
        Ok(entry) => entry,
        Err(refusal) => return refusal.status.into(),
    };
    if !is_begun && admission::refuses(lock, &thread.process, &operation) {
        return Status::OutOfMemory.into();
    }
    match operation {
        Operation::Nop => Status::Ok.into(),
        Operation::Call { cap, interface, method, params, results, caps } => {
            kernel_call::call(lock, thread, tag, CapId(cap), Call { interface, method, params, results, caps })
        }
        Operation::Recv { endpoint, buffer, caps } => ipc::receive(lock, thread, tag, CapId(endpoint), buffer, caps),
        Operation::Return { reply, exception, results, caps } => {
            ipc::answer(lock, thread, CapId(reply), exception, results, caps)
        }
        Operation::ReturnRecv { reply, endpoint, exception, results, buffer, caps } => {
            let (answer, offer) = ((CapId(reply), exception, results), (CapId(endpoint), buffer));
            ipc::answer_and_receive(lock, thread, tag, answer, offer, caps)
        }
        Operation::Release { cap } => thread.process.release(lock, CapId(cap)).err().unwrap_or(Status::Ok).into(),
        Operation::Cancel { target } => thread.cancel(lock, target).into(),
        Operation::Notify { notification, bits } => ipc::notify(lock, thread, CapId(notification), bits).into(),
        Operation::Wait { cap } => ipc::wait(lock, thread, tag, CapId(cap)),
        Operation::WaitWord { address, expected } => word::wait(thread, tag, address, expected),
        Operation::WakeWord { address, count } => word::wake(lock, thread, address, count).into(),
        Operation::ThreadPointer { address } if address < USER_END => {
            thread.with_context(|context| context.set_thread_pointer(address));
            Status::Ok.into()
        }
        Operation::ThreadPointer { .. } => Status::BadAddress.into(),
    }
}
