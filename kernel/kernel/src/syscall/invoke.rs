//! INVOKE: a call in registers of a method that has no parameters and answers with one number.
//!
//! The entry code saves none of the thread's registers in its context ([`crate::arch::entry`]). So code here must not wait, wake or end
//! threads, allocate, or acquire the kernel lock exclusively; the rules of [`crate::syscall::fast_path`] hold. If a call needs more,
//! INVOKE reports that nothing has happened, and the thread makes the call by its ring, which handles every case.

use alloc::sync::Arc;

use capos_abi::syscall::{INVOKE_DONE, INVOKE_NOT};
use capos_abi::{CapId, Rights};

use crate::arch::percpu;
use crate::cpu::kernel_lock::{self, Held};
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
    let mut number = None;
    if let Some(lock) = kernel_lock::try_enter(percpu::current()) {
        if let Some(thread) = sched::lent(&lock) {
            number = answer(lock.held(), &thread, CapId(cap), interface, method);
        }
        lock.release();
    }
    match number {
        Some(number) => Invoked { outcome: INVOKE_DONE, number },
        None => Invoked { outcome: INVOKE_NOT, number: 0 },
    }
}

/// The number that a method answers with. `None` where it has to be called by an entry, and nothing has happened.
#[inline(always)]
fn answer(lock: Held<'_>, thread: &Arc<Thread>, cap: CapId, interface: u64, method: u64) -> Option<u64> {
    let table = thread.process.try_capability_table()?;
    let capability = table.get(cap).ok()?;
    if !capability.rights.contains(Rights::CALL) {
        return None;
    }
    kernel_call::number(lock, thread, cap, capability, (interface, u16::try_from(method).ok()?))
}
