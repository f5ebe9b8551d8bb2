//! INVOKE: a call in registers of a method that has no parameters and answers with one number.
//!
//! The way in and out keeps none of the thread's registers ([`crate::arch::entry`]), so nothing is done here that waits, wakes,
//! ends or allocates, or that needs the kernel's lock alone: what may be done is what [`crate::syscall::fast_path`] says. Where more
//! were needed nothing has happened, and the thread is told to make the call by its rings, where every case is known.

use alloc::sync::Arc;

use capos_abi::syscall::{INVOKE_DONE, INVOKE_NOT};
use capos_abi::{CapId, Rights};

use crate::arch::percpu;
use crate::cpu::kernel_lock;
use crate::object::thread::Thread;
use crate::sched;
use crate::syscall::kernel_call;

/// What the thread finds in its registers.
#[derive(Debug)]
#[repr(C)]
struct Invoked {
    /// `rax`.
    outcome: u64,
    /// `rdx`.
    number: u64,
}

/// Does what a thread asks for by INVOKE.
#[unsafe(no_mangle)]
extern "C" fn kernel_invoke(cap: u64, interface: u64, method: u64) -> Invoked {
    let cpu = percpu::current();
    let mut number = None;
    if kernel_lock::try_enter(cpu) {
        // SAFETY: no other thread runs here before the kernel is left.
        if let Some(thread) = unsafe { sched::lent(cpu) } {
            number = answer(&thread, CapId(cap), interface, method);
        }
        kernel_lock::give_shared(cpu);
    }
    match number {
        Some(number) => Invoked { outcome: INVOKE_DONE, number },
        None => Invoked { outcome: INVOKE_NOT, number: 0 },
    }
}

/// The number that a method answers with. `None` where it has to be called by an entry, and nothing has happened.
#[inline(always)]
fn answer(thread: &Arc<Thread>, cap: CapId, interface: u64, method: u64) -> Option<u64> {
    let table = thread.process.try_capability_table()?;
    let capability = table.get(cap).ok()?;
    if !capability.rights.contains(Rights::CALL) {
        return None;
    }
    kernel_call::number(thread, cap, capability, (interface, u16::try_from(method).ok()?))
}
