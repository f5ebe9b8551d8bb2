//! Faults of user mode: pages that must come in, and deaths.

use alloc::sync::Arc;

use capos_machine::page_entry::PAGE;

use crate::cpu::kernel_lock::Exclusive;
use crate::log;
use crate::object::address_space::{Backing, Fault};
use crate::object::process::{Cause, End};
use crate::object::report::{self, Backtrace};
use crate::object::thread::Thread;
use crate::paging::pager;

fn die(lock: &mut Exclusive, thread: &Thread, report: alloc::string::String) {
    log!("{}", Backtrace(thread));
    thread.process.doom(lock, End { cause: Cause::Fault, code: 0, report });
}

/// A thread touched an address that is not mapped, or not for that.
pub fn page_fault(lock: &mut Exclusive, thread: &Arc<Thread>, address: u64, write: bool, execute: bool, present: bool) {
    match thread.process.space.judge(address, write, execute, present) {
        // Another thread's fault mapped it meanwhile: the instruction is tried again.
        Fault::Spurious => {}
        Fault::Missing(place) => match &place.mapping.backing {
            Backing::Memory(memory) if memory.paged_content().is_some() => pager::require(lock, thread, &place, memory),
            _ => die(lock, thread, report::unmapped(thread, address, write, execute)),
        },
        Fault::Shared(mapping, offset) => {
            let Backing::Memory(memory) = &mapping.backing else {
                return die(lock, thread, report::forbidden(thread, address, write, execute, &mapping, offset));
            };
            if let Err(status) = memory.make_own(lock, offset / PAGE, Some(&mapping)) {
                die(lock, thread, report::no_own_frame(thread, memory.id, offset, status));
            }
        }
        Fault::Forbidden(mapping, offset) => {
            die(lock, thread, report::forbidden(thread, address, write, execute, &mapping, offset));
        }
        Fault::Unmapped => die(lock, thread, report::unmapped(thread, address, write, execute)),
    }
}

/// A thread did what the processor does not let it.
pub fn exception(lock: &mut Exclusive, thread: &Thread, vector: u8, error_code: u64, name: &str) {
    die(lock, thread, report::exception(thread, vector, error_code, name));
}
