//! Admission control: which operations begin while memory is short.

use capos_abi::CapId;
use capos_abi::entry::Operation;
use capos_schema::kernel_dispatch::{CAPABILITY_TABLE, CAPABILITY_TABLE_REVOKE, PROCESS, PROCESS_KILL};

use crate::cpu::kernel_lock::Exclusive;
use crate::memory::frames;
use crate::memory::reserve::{self, OPERATION, kept};
use crate::object::capability::{Capability, Object};
use crate::object::memory::cache;
use crate::object::process::Process;

/// Whether an entry may take the fast path while others do: the reserve stays whole, whatever other processors take meanwhile the same
/// way. Where there is no more than for one of them, it takes the slow path, which begins with [`allows_alone`].
#[inline(always)]
pub fn allows_shared() -> bool {
    frames::free_count() >= reserve::kept_beside_others()
}

/// Whether an entry may take the fast path while no other processor does.
#[inline(always)]
pub fn allows_alone() -> bool {
    frames::free_count() >= kept()
}

/// Whether an operation of a process has to be refused, for want of memory that it might need.
#[inline]
pub fn refuses(lock: &mut Exclusive, process: &Process, operation: &Operation) -> bool {
    frames::free_count() < kept() && {
        cache::refill_reserve(lock);
        frames::free_count() < needed(process, operation)
    }
}

/// Frames that must be free for an operation to begin.
#[cold]
fn needed(process: &Process, operation: &Operation) -> usize {
    match *operation {
        Operation::Call { cap, interface, method, .. } if gives_back(process, CapId(cap), interface, method) => 0,
        Operation::Call { .. } => kept(),
        Operation::Return { caps, .. } | Operation::ReturnRecv { caps, .. } if caps.sent > 0 => kept(),
        // A place in a queue, which may have to grow.
        Operation::Recv { .. } | Operation::ReturnRecv { .. } | Operation::Wait { .. } | Operation::WaitWord { .. } => {
            kept().saturating_sub(OPERATION)
        }
        // These give back, or take nothing.
        Operation::Nop
        | Operation::Return { .. }
        | Operation::Release { .. }
        | Operation::Cancel { .. }
        | Operation::Notify { .. }
        | Operation::WakeWord { .. }
        | Operation::ThreadPointer { .. } => 0,
    }
}

/// Whether a call is one of those that must be possible. The object counts, not what the entry calls it: a server's
/// client may bear any interface's number.
fn gives_back(process: &Process, cap: CapId, interface: u64, method: u16) -> bool {
    let is_one = |capability: &Capability| match capability.object {
        Object::Process(_) => (interface, method) == (PROCESS, PROCESS_KILL),
        Object::Table(_) => (interface, method) == (CAPABILITY_TABLE, CAPABILITY_TABLE_REVOKE),
        _ => false,
    };
    process.with(cap, is_one).unwrap_or(false)
}
