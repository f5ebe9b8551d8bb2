//! The event loop: what happens at each entry into the kernel, and the way out.
//!
//! Each function is called with the kernel lock held: exclusively, except for system calls, which may share it. None returns. An event
//! ends when a thread runs or the processor idles.

pub mod reap;
pub mod trap;

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use crate::arch::context::{self, Context};
use crate::arch::percpu::{self, PerCpu};
use crate::arch::{interrupts, time};
use crate::cpu::kernel_lock;
use crate::log;
use crate::memory::kernel_space;
use crate::object::deadline::{self, Due};
use crate::object::device::interrupt;
use crate::object::thread::{State, Thread};
use crate::object::{invocation, reaper};
use crate::paging::fault;
use crate::sched::scheduler::{self, Choice};
use crate::sched::{self, accounting, switching, timer};
use crate::syscall;
use crate::syscall::bound_call::{self, Watch};

/// Leaves the kernel: the current thread continues if it can, another one otherwise. Values that the
/// caller still has are lost, so it must have none.
pub fn leave() -> ! {
    scheduler::exclude();
    loop {
        reap::reap();
        crate::object::log::serve();
        if reaper::has_work() {
            // A reader of the log that could not be served.
            continue;
        }
        let cpu = percpu::current();
        if cpu.paused.load(Ordering::Relaxed) {
            cpu.paused.store(false, Ordering::Relaxed);
            context::open(leave_user_half, go_on);
        }
        let (choice, left) = scheduler::choose(cpu);
        drop(left);
        match choice {
            // SAFETY: the context is that of the thread that is current from now on, which the
            // scheduler's state keeps alive; its address space is active and its vector registers
            // are loaded. No lock is held.
            Choice::Run(pointer) => unsafe { enter_user(cpu, pointer) },
            Choice::Resume(thread) => syscall::resume(&thread),
            Choice::Again => {}
            Choice::Idle => {
                accounting::begin_idle(cpu);
                context::idle(leave_user_half)
            }
        }
    }
}

/// Lets the thread of `context` run on this processor, which is `cpu`, and releases the kernel lock. A context that the processor
/// would not accept is a general protection fault of its thread.
///
/// # Safety
/// As [`context::enter_user`].
unsafe fn enter_user(cpu: &PerCpu, context: *mut Context) -> ! {
    // SAFETY: the caller's promise.
    unsafe { context::enter_user(cpu, context, kernel_lock::give) };
    context::begin_anew(on_bad_registers)
}

extern "C" fn on_bad_registers() -> ! {
    scheduler::exclude();
    on_exception(13, 0, "an instruction or thread pointer outside the user half")
}

/// Makes this processor, which is `cpu`, leave the user half, and releases the kernel lock.
fn leave_user_half(cpu: &PerCpu) {
    kernel_space::activate();
    kernel_lock::give(cpu);
}

/// Continues after a pause.
extern "C" fn go_on() -> ! {
    kernel_lock::take();
    leave()
}

/// Leaves the kernel where the thread that was current has begun to wait for another one, which it has made go on.
#[inline(always)]
fn hand_over(cpu: &'static PerCpu, next: Arc<Thread>) -> ! {
    match switching::hand_over(cpu, next) {
        // SAFETY: the context is that of the thread that is current from now on, which the scheduler's state keeps alive;
        // its address space is active and its vector registers are loaded. No lock is held.
        Ok(context) => unsafe { enter_user(cpu, context) },
        Err(next) => {
            scheduler::wake(&next);
            drop(next);
            leave()
        }
    }
}

/// Leaves the kernel: to the thread that came in, where nothing has changed for it, or to the one that it made ready, where it
/// waits.
#[inline(always)]
fn return_to_user(cpu: &'static PerCpu) -> ! {
    match switching::stay_or_switch(cpu) {
        // SAFETY: as in `hand_over`: its thread is current from now on, or has been all the time.
        Some(context) => unsafe { enter_user(cpu, context) },
        None => leave(),
    }
}

/// A thread has made a system call. The kernel lock may be shared.
#[inline(always)]
pub fn on_syscall(cpu: &'static PerCpu) -> ! {
    // SAFETY: what it is lent for ends before the kernel is left, and no other thread runs here before that.
    let current = unsafe { sched::lent(cpu) };
    let calls = Watch::of(cpu);
    let next = match current {
        Some(thread) if thread.state() == State::Running => {
            if calls.is_turn_of(&thread)
                && let Some(context) = bound_call::go(cpu, &thread)
            {
                // SAFETY: as in `hand_over`.
                unsafe { enter_user(cpu, context) }
            }
            let next = syscall::handle(cpu, &thread);
            if let Some(next) = &next
                && calls.have_turns(&thread, next)
            {
                bound_call::open(cpu, &thread, next);
            }
            next
        }
        // Another processor has ended it meanwhile.
        _ => None,
    };
    match next {
        Some(next) => hand_over(cpu, next),
        None => return_to_user(cpu),
    }
}

/// Another processor has something for this one.
pub fn on_call() -> ! {
    let cpu = percpu::current();
    accounting::end_idle(cpu);
    accounting::look_at_limit(cpu);
    leave()
}

/// A thread touched an address that is not mapped, or not for that.
pub fn on_page_fault(address: u64, write: bool, execute: bool, present: bool) -> ! {
    if let Some(thread) = sched::current() {
        fault::page_fault(&thread, address, write, execute, present);
    }
    leave()
}

/// A thread did what the processor does not let it.
pub fn on_exception(vector: u8, error_code: u64, name: &'static str) -> ! {
    if let Some(thread) = sched::current() {
        fault::exception(&thread, vector, error_code, name);
    }
    leave()
}

/// The timer has come.
pub fn on_timer() -> ! {
    let cpu = percpu::current();
    accounting::end_idle(cpu);
    scheduler::queue_kept(cpu);
    cpu.timer_interrupts.fetch_add(1, Ordering::Relaxed);
    timer::timer_came(cpu);
    expire();
    scheduler::end_slice(cpu);
    leave()
}

/// A device has raised an interrupt. A thread that waits for it runs at once.
pub fn on_interrupt(vector: u8) -> ! {
    let cpu = percpu::current();
    accounting::end_idle(cpu);
    scheduler::queue_kept(cpu);
    if !interrupt::raise(vector) && interrupts::is_line(vector) {
        interrupts::mask(vector);
        log!("interrupt vector {vector} came, but no capability for it exists; it stays masked");
    }
    scheduler::give_way(cpu);
    leave()
}

/// Tells every waiter whose time has come.
fn expire() {
    let now = time::now();
    while let Some((key, due)) = deadline::take_due(now) {
        match due {
            Due::Thread(thread) => thread.wait_timed_out(key),
            Due::Sleep(operation) => invocation::answer_empty(&operation),
            Due::Free(region) => drop(region),
        }
    }
}
