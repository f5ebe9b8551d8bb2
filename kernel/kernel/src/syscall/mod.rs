//! ENTER and EXIT.

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
use capos_abi::entry::{EntryWords, Operation as Request, bytes_of};
use capos_abi::{CapId, Entry, Status, syscall as number};

use crate::arch::percpu::PerCpu;
use crate::arch::time;
use crate::ipc;
use crate::ipc::word;
use crate::log;
use crate::object::operation::{Call, Enter, Progress};
use crate::object::process::{Cause, End};
use crate::object::report;
use crate::object::thread::{State, Taken, Thread};
use crate::paging::pager::{self, Brought};
use crate::sched::scheduler;
use crate::syscall::bound_call::Watch;
use crate::syscall::fast_path::Step;

/// Does what the thread's registers ask for. Where that makes another thread go on, and this one waits, it is the other one
/// that is given: [`switching::hand_over`] lets it run.
#[inline(always)]
pub fn handle(cpu: &PerCpu, thread: &Arc<Thread>) -> Option<Arc<Thread>> {
    let (number, first, second, third) = thread.with_context(|c| (c.rax, c.rdi, c.rsi, c.rdx));
    if number != number::ENTER {
        leave(thread, number, first, second);
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the arguments are 32 bits wide")]
    match (first as u32, second as u32) {
        (0, minimum) => finish(thread, 0, (minimum, third), None),
        (entries, minimum) => enter(cpu, thread, (entries, minimum, third)),
    }
}

/// Does what ends the thread or the process, and what is no system call.
#[cold]
#[inline(never)]
fn leave(thread: &Arc<Thread>, number: u64, first: u64, second: u64) {
    if number == number::INVOKE {
        // It came here since its thread is traced, see the entry code.
        return thread.with_context(|context| {
            context.rax = number::INVOKE_NOT;
            (context.rdx, context.rdi, context.rsi) = (0, 0, 0);
            (context.r8, context.r9, context.r10) = (0, 0, 0);
        });
    }
    scheduler::exclude();
    if thread.state() != State::Running {
        return;
    }
    match number {
        #[expect(clippy::cast_possible_truncation, reason = "the code is 32 bits wide")]
        number::EXIT => {
            let code = (first as u32).cast_signed();
            match second {
                number::EXIT_PROCESS => {
                    thread.process.doom(End { cause: Cause::Exited, code, report: String::new() });
                }
                number::EXIT_THREAD => scheduler::exit(thread, code),
                scope => {
                    let report = report::bad_exit_scope(thread, scope);
                    thread.process.doom(End { cause: Cause::Fault, code: 0, report });
                }
            }
        }
        other => {
            log!("{}", report::Backtrace(thread));
            let report = report::bad_system_call(thread, other);
            thread.process.doom(End { cause: Cause::Fault, code: 0, report });
        }
    }
}

/// Entries that took the slow path, for tests: where both paths do the same, nothing else tells them apart.
#[cfg(feature = "tests")]
pub static LONG_ENTRIES: AtomicU64 = AtomicU64::new(0);

/// Entries that are processed on the fast path before the clock is looked at: none of them copies more than a page.
const SHORT: u32 = 32;

/// Processes entries on the fast path as long as they can take it, and waits.
#[inline(always)]
fn enter(cpu: &PerCpu, thread: &Arc<Thread>, (entries, minimum, deadline): (u32, u32, u64)) -> Option<Arc<Thread>> {
    // `taken` is `entries` at most, and an entry has few completions: nothing overflows.
    let (mut taken, mut answered) = (0_u32, 0_u32);
    // What is told that it continues: the last one is handed over to where this thread waits.
    let mut next = None;
    let short = entries.min(SHORT);
    // Where an entry needed the kernel lock exclusively, this thread may have ended since. It has no rings then: nothing is taken out
    // of them any more, and it does not wait.
    loop {
        let mut own = thread.lock();
        let Taken { words, more } = match own.take_entry() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(corrupt) => {
                drop(own);
                thread.die_of(corrupt);
                return take_long_way(thread, next, None);
            }
        };
        match fast_path::entry(thread, own, &words) {
            Step::Done(completions) => answered = answered.wrapping_add(completions as u32),
            Step::Met(other) => {
                Watch::of(cpu).met(&words);
                if let Some(earlier) = next.replace(other)
                    && !go_on_behind(thread, &earlier)
                {
                    return take_long_way(thread, next, None);
                }
            }
            Step::Long => {
                let left = entries.wrapping_sub(taken);
                let rest = Enter { left, taken: u64::from(taken), minimum, deadline, waiting: None };
                return take_long_way(thread, next, Some((rest, Some(&words))));
            }
        }
        taken = taken.wrapping_add(1);
        if !more || taken == entries {
            break;
        }
        if taken == short {
            let left = entries.wrapping_sub(taken);
            let rest = Enter { left, taken: u64::from(taken), minimum, deadline, waiting: None };
            return take_long_way(thread, next, Some((rest, None)));
        }
    }
    // What was answered just now has not been read, as far as its own thread goes.
    let wanted = if answered < minimum { minimum } else { 0 };
    finish(thread, u64::from(taken), (wanted, deadline), next)
}

/// Lets one that was told to go on do so, where another one was as well. Whether this thread still runs.
#[cold]
#[inline(never)]
fn go_on_behind(thread: &Thread, earlier: &Arc<Thread>) -> bool {
    scheduler::wake(earlier);
    thread.state() == State::Running
}

/// Lets threads that were woken run, and processes what is left of an ENTER on the slow path, an entry before it that was taken
/// already.
#[cold]
#[inline(never)]
fn take_long_way(
    thread: &Arc<Thread>,
    next: Option<Arc<Thread>>,
    rest: Option<(Enter, Option<&EntryWords>)>,
) -> Option<Arc<Thread>> {
    if let Some(next) = next {
        scheduler::wake(&next);
    }
    scheduler::exclude();
    if let Some((enter, waiting)) = rest.filter(|_| thread.state() == State::Running) {
        #[cfg(feature = "tests")]
        LONG_ENTRIES.fetch_add(1, Ordering::Relaxed);
        run(thread, Enter { waiting: waiting.copied(), ..enter });
    }
    None
}

/// Says how many entries were taken, and waits where that is asked for. `next` continues: at once where this thread does not
/// wait, otherwise it is given back, to be handed over to.
#[inline(always)]
fn finish(
    thread: &Arc<Thread>,
    taken: u64,
    (minimum, deadline): (u32, u64),
    next: Option<Arc<Thread>>,
) -> Option<Arc<Thread>> {
    thread.with_context(|context| context.rax = taken);
    if minimum > 0 && deadline > 0 && (deadline == number::NO_DEADLINE || deadline > time::now()) {
        match thread.wait(minimum, deadline) {
            Ok(true) => return next,
            Ok(false) => {}
            Err(corrupt) => thread.die_of(corrupt),
        }
    }
    if let Some(next) = next {
        scheduler::wake(&next);
    }
    None
}

/// How long one thread's entries are worked on before others have their turn, nanoseconds.
const TURN: u64 = 1_000_000;

/// Continues with an ENTER that waited for a page, or for its turn.
pub fn resume(thread: &Arc<Thread>) {
    if let Some(enter) = thread.take_resume() {
        run(thread, enter);
    }
}

#[inline(never)]
fn run(thread: &Arc<Thread>, mut enter: Enter) {
    let mut turn = None;
    let mut fresh = true;
    let mut more = true;
    while enter.left > 0 && (more || enter.waiting.is_some()) {
        // Looked at between entries, so that one alone costs nothing more.
        if !core::mem::take(&mut fresh) {
            let now = time::now();
            if now >= *turn.get_or_insert(now.saturating_add(TURN)) {
                thread.resume_later(enter);
                return scheduler::pause();
            }
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
                    return thread.die_of(corrupt);
                }
            };
            more = taken.more;
            let step = fast_path::entry(thread, own, &taken.words);
            if let Step::Met(other) = &step {
                scheduler::wake(other);
            }
            if !matches!(step, Step::Long) {
                enter.left = enter.left.saturating_sub(1);
                enter.taken = enter.taken.saturating_add(1);
                continue;
            }
            taken.words
        };
        let mut progress = execute(thread, &words);
        if let Progress::Absent(address) = progress {
            enter.waiting = Some(words);
            match pager::bring_in(thread, address) {
                Brought::Now => continue,
                Brought::Later => return thread.resume_later(enter),
                Brought::Never => progress = Status::BadAddress.into(),
            }
            enter.waiting = None;
        }
        if let Progress::Done(outcome) = progress {
            let [_, tag, ..] = words;
            thread.post(tag, outcome);
        }
        enter.left = enter.left.saturating_sub(1);
        enter.taken = enter.taken.saturating_add(1);
    }
    finish(thread, enter.taken, (enter.minimum, enter.deadline), None);
}

/// Does what an entry says, on the slow path.
#[inline(never)]
fn execute(thread: &Arc<Thread>, words: &EntryWords) -> Progress {
    let Entry { user_data: tag, operation } = match Entry::decode(&bytes_of(words)) {
        Ok(entry) => entry,
        Err(refusal) => return refusal.status.into(),
    };
    if admission::refuses(&thread.process, &operation) {
        return Status::OutOfMemory.into();
    }
    match operation {
        Request::Nop => Status::Ok.into(),
        Request::Call { cap, interface, method, params, results, caps } => {
            kernel_call::call(thread, tag, CapId(cap), Call { interface, method, params, results, caps })
        }
        Request::Recv { endpoint, buffer, caps } => ipc::receive(thread, tag, CapId(endpoint), buffer, caps),
        Request::Return { reply, exception, results, caps } => {
            ipc::answer(thread, CapId(reply), exception, results, caps)
        }
        Request::ReturnRecv { reply, endpoint, exception, results, buffer, caps } => {
            let (answer, offer) = ((CapId(reply), exception, results), (CapId(endpoint), buffer));
            ipc::answer_and_receive(thread, tag, answer, offer, caps)
        }
        Request::Release { cap } => thread.process.release(CapId(cap)).err().unwrap_or(Status::Ok).into(),
        Request::Cancel { target } => thread.cancel(target).into(),
        Request::Notify { notification, bits } => ipc::notify(thread, CapId(notification), bits).into(),
        Request::Wait { cap } => ipc::wait(thread, tag, CapId(cap)),
        Request::WaitWord { address, expected } => word::wait(thread, tag, address, expected),
        Request::WakeWord { address, count } => word::wake(thread, address, count).into(),
        Request::ThreadPointer { address } if address < USER_END => {
            thread.with_context(|context| context.set_thread_pointer(address));
            Status::Ok.into()
        }
        Request::ThreadPointer { .. } => Status::BadAddress.into(),
    }
}
