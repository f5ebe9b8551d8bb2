//! The event loop: what happens at each entry into the kernel, and the way out.
//!
//! Each function is called with the kernel lock held, and takes the guard that says how ([`kernel_lock`]). Those that do not return
//! release it. An event ends when a thread runs or the processor idles.

pub mod reap;
pub mod trap;

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use crate::arch::context::{self, Context};
use crate::arch::percpu::PerCpu;
use crate::arch::{interrupts, time};
use crate::cpu::kernel_lock::{self, Exclusive, Shared};
use crate::log;
use crate::memory::kernel_space;
use crate::object::deadline::{self, Due};
use crate::object::device::interrupt;
use crate::object::thread::{State, Thread};
use crate::object::{invocation, reaper};
use crate::paging::fault;
use crate::sched::scheduler::{self, Choice};
use crate::sched::{self, accounting, switching, timer};
use crate::syscall::bound_call::{self, RecentCalls};
use crate::syscall::{self, Handled};

/// Leaves the kernel: the current thread continues if it can, another one otherwise. Values that the
/// caller still has are lost, so it must have none.
pub fn leave(mut lock: Exclusive) -> ! {
    let cpu = lock.cpu();
    loop {
        reap::reap(&mut lock);
        crate::object::log::serve(&mut lock);
        if reaper::has_work() {
            // A reader of the log that could not be served.
            continue;
        }
        if cpu.paused.load(Ordering::Relaxed) {
            cpu.paused.store(false, Ordering::Relaxed);
            context::open(cpu, || leave_user_half(lock), go_on);
        }
        let (choice, left) = scheduler::choose(&mut lock);
        drop(left);
        match choice {
            Choice::Run(pointer) => enter_user(lock, pointer),
            Choice::Resume(thread) => syscall::resume(&mut lock, &thread),
            Choice::Again => {}
            Choice::Idle if reaper::has_rest() && reaper::claim(cpu.index) => {
                reap::step(&mut lock);
                context::open(cpu, || leave_user_half(lock), go_on);
            }
            Choice::Idle => {
                accounting::begin_idle(&lock);
                context::idle(cpu, || leave_user_half(lock))
            }
        }
    }
}

/// Lets the thread of `context` run on this processor, and releases the kernel lock. The scheduler has made that thread current, and has
/// given its context.
fn enter_user(lock: Exclusive, context: *mut Context) -> ! {
    // SAFETY: the context is that of the thread that is current from now on, which the scheduler's state keeps alive; its address space
    // is active and its vector registers are loaded. No lock is held.
    let lock = unsafe { context::enter_user(lock.cpu(), context, lock, Exclusive::release) };
    begin_anew(lock)
}

/// The same where this processor shares the kernel lock.
#[inline(always)]
fn enter_user_from_shared(lock: Shared, context: *mut Context) -> ! {
    // SAFETY: as in `enter_user`.
    let lock = unsafe { context::enter_user(lock.cpu(), context, lock, Shared::release) };
    begin_anew(scheduler::upgrade(lock))
}

/// The processor would not accept a context: that is a general protection fault of its thread.
#[cold]
#[inline(never)]
fn begin_anew(lock: Exclusive) -> ! {
    context::begin_anew(lock.cpu(), on_bad_registers)
}

extern "C" fn on_bad_registers(cpu: &'static PerCpu) -> ! {
    // SAFETY: `begin_anew` had the guard, and has called this on the same processor.
    let lock = unsafe { Exclusive::assume(cpu) };
    on_exception(lock, 13, 0, "an instruction or thread pointer outside the user half")
}

/// Makes this processor leave the user half, and releases the kernel lock.
fn leave_user_half(lock: Exclusive) {
    kernel_space::activate(lock.cpu());
    lock.release();
}

/// Continues after a pause.
extern "C" fn go_on(cpu: &'static PerCpu) -> ! {
    leave(kernel_lock::acquire(cpu))
}

/// Leaves the kernel where the thread that was current has begun to wait for another one, which it has made go on.
#[inline(always)]
fn hand_over(lock: Shared, next: Arc<Thread>) -> ! {
    match switching::hand_over(&lock, next) {
        Ok(context) => enter_user_from_shared(lock, context),
        Err(next) => {
            let mut lock = scheduler::upgrade(lock);
            scheduler::wake(&mut lock, &next);
            drop(next);
            leave(lock)
        }
    }
}

/// Leaves the kernel: to the thread that came in, where nothing has changed for it, or to the one that it made ready, where it
/// waits.
#[inline(always)]
fn return_to_user(lock: Shared) -> ! {
    match switching::stay_or_switch(lock.cpu(), lock.held()) {
        Some(context) => enter_user_from_shared(lock, context),
        None => leave(scheduler::upgrade(lock)),
    }
}

/// A thread has made a system call.
#[inline(always)]
pub fn on_syscall(lock: Shared) -> ! {
    let calls = RecentCalls::of(lock.cpu());
    let mut rest = None;
    let handled = match sched::lent(&lock) {
        Some(thread) if thread.state() == State::Running => {
            if calls.is_turn_of(&thread)
                && let Some(context) = bound_call::go(&lock, &thread)
            {
                enter_user_from_shared(lock, context)
            }
            let handled = syscall::handle(&lock, &thread, &mut rest);
            if let Handled::Waits(next) = &handled
                && calls.have_turns(&thread, next)
            {
                bound_call::open(&lock, &thread, next);
            }
            handled
        }
        // Another processor has ended it meanwhile.
        _ => Handled::Done,
    };
    match handled {
        Handled::Done => return_to_user(lock),
        Handled::Waits(next) => hand_over(lock, next),
        Handled::Left => go_on_alone(lock, &mut rest),
    }
}

/// Does what is left of a system call, which needs the kernel lock exclusively.
#[cold]
#[inline(never)]
fn go_on_alone(lock: Shared, rest: &mut Option<syscall::Rest>) -> ! {
    let mut lock = scheduler::upgrade(lock);
    let thread = sched::current(&lock);
    if let Some(rest) = rest {
        syscall::go_on(&mut lock, thread.as_ref(), rest);
    }
    drop(thread);
    return_alone(lock)
}

/// The same as `return_to_user` where this processor holds the kernel lock exclusively.
#[inline(always)]
fn return_alone(lock: Exclusive) -> ! {
    match switching::stay_or_switch(lock.cpu(), lock.held()) {
        Some(context) => enter_user(lock, context),
        None => leave(lock),
    }
}

/// A thread has made a system call. This processor waited for its turn, and holds the kernel lock exclusively.
#[cold]
#[inline(never)]
pub fn on_late_syscall(mut lock: Exclusive) -> ! {
    if let Some(thread) = sched::current(&lock) {
        syscall::handle_alone(&mut lock, &thread);
    }
    return_alone(lock)
}

/// Another processor has something for this one.
pub fn on_call(lock: Exclusive) -> ! {
    accounting::end_idle(&lock);
    accounting::look_at_limit(&lock);
    leave(lock)
}

/// A thread touched an address that is not mapped, or not for that.
pub fn on_page_fault(mut lock: Exclusive, address: u64, write: bool, execute: bool, present: bool) -> ! {
    if let Some(thread) = sched::current(&lock) {
        fault::page_fault(&mut lock, &thread, address, write, execute, present);
    }
    leave(lock)
}

/// A thread did what the processor does not let it.
pub fn on_exception(mut lock: Exclusive, vector: u8, error_code: u64, name: &'static str) -> ! {
    if let Some(thread) = sched::current(&lock) {
        fault::exception(&mut lock, &thread, vector, error_code, name);
    }
    leave(lock)
}

/// The timer has come.
pub fn on_timer(mut lock: Exclusive) -> ! {
    accounting::end_idle(&lock);
    scheduler::queue_kept(&mut lock);
    lock.cpu().timer_interrupts.fetch_add(1, Ordering::Relaxed);
    timer::timer_came(&lock);
    expire(&mut lock);
    scheduler::end_slice(&mut lock);
    leave(lock)
}

/// A device has raised an interrupt. A thread that waits for it runs at once.
pub fn on_interrupt(mut lock: Exclusive, vector: u8) -> ! {
    accounting::end_idle(&lock);
    scheduler::queue_kept(&mut lock);
    if !interrupt::raise(&mut lock, vector) && interrupts::is_line(vector) {
        interrupts::mask(vector);
        log!("interrupt vector {vector} came, but no capability for it exists; it stays masked");
    }
    scheduler::give_way(&mut lock);
    leave(lock)
}

/// Tells every waiter whose time has come.
fn expire(lock: &mut Exclusive) {
    let now = time::now();
    while let Some((key, due)) = deadline::take_due(now) {
        match due {
            Due::Thread(thread) => thread.wait_timed_out(lock, key),
            Due::Sleep(operation) => invocation::answer_empty(lock, &operation),
            Due::Free(region) => drop(region),
            Due::Reap => reap::go_on(lock),
        }
    }
}
