//! Deaths in words.

use alloc::format;
use alloc::string::String;

use capos_abi::Status;

use crate::object::address_space::{Backing, Mapping};
use crate::object::process::Process;
use crate::object::thread::Thread;
use crate::ring::Corrupt;

/// What a mapping shows, for people.
pub fn mapped(mapping: &Mapping, offset: u64) -> String {
    match &mapping.backing {
        Backing::Memory(memory) => {
            let kind = if memory.paged_content().is_some() { "paged memory object" } else { "memory object" };
            format!("{kind} {} at offset {offset:#x}", memory.id)
        }
        Backing::Mmio(mmio) => format!("device memory at {:#x}", mmio.address.saturating_add(offset)),
        Backing::Dma(_) => format!("a DMA region at offset {offset:#x}"),
    }
}

fn place(thread: &Thread) -> String {
    let (rip, rsp) = thread.with_context(|context| (context.rip, context.rsp));
    format!("instruction {rip:#x}, stack {rsp:#x}, {:?}", thread.handle)
}

fn verb(write: bool, execute: bool) -> &'static str {
    match (write, execute) {
        (true, _) => "wrote to",
        (_, true) => "jumped to",
        _ => "read from",
    }
}

/// It touched an address where nothing is mapped.
pub fn unmapped(thread: &Thread, address: u64, write: bool, execute: bool) -> String {
    let hint = if address < capos_abi::bootstrap::USER_START {
        ", a null pointer"
    } else if address >= capos_abi::bootstrap::USER_END {
        ", which is not user memory"
    } else {
        ", where nothing is mapped"
    };
    format!("{} address {address:#x}{hint}; {}", verb(write, execute), place(thread))
}

/// It touched mapped memory in a way that the mapping does not allow.
pub fn forbidden(thread: &Thread, address: u64, write: bool, execute: bool, mapping: &Mapping, offset: u64) -> String {
    let kind = match (write, execute) {
        (true, _) => "read-only",
        (_, true) => "non-executable",
        _ => "unreadable",
    };
    format!("{} {kind} memory at {address:#x} ({}); {}", verb(write, execute), mapped(mapping, offset), place(thread))
}

/// It did what the processor does not allow.
pub fn exception(thread: &Thread, vector: u8, error_code: u64, name: &str) -> String {
    format!("{name} (exception {vector}, code {error_code:#x}); {}", place(thread))
}

/// It wrote an impossible index into its rings.
pub fn corrupt_ring(thread: &Thread, corrupt: Corrupt) -> String {
    match corrupt {
        Corrupt::SubmissionTail(tail) => {
            format!(
                "corrupted its rings: submission tail {tail} is further ahead than the ring is long; {:?}",
                thread.handle
            )
        }
        Corrupt::CompletionHead(head) => {
            format!(
                "corrupted its rings: completion head {head} is not among the completions written; {:?}",
                thread.handle
            )
        }
    }
}

/// It asked to end something that is neither its process nor itself.
pub fn bad_exit_scope(thread: &Thread, scope: u64) -> String {
    format!("made system call EXIT with scope {scope:#x}, which does not exist; {}", place(thread))
}

/// A thread was ended by a holder of its capability.
pub fn thread_killed(thread: &Thread, killer: &Process) -> String {
    format!("{:?} was ended by `{}`", thread.handle, killer.name)
}

/// It made a system call that does not exist.
pub fn bad_system_call(thread: &Thread, number: u64) -> String {
    format!("made system call {number:#x}, which does not exist; {}", place(thread))
}

/// A page that it touched could not be brought in. The reason may be a pager's own words.
pub fn page_in_failed(thread: &Thread, memory: u64, offset: u64, reason: &str) -> String {
    let reason: String = reason.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    format!(
        "touched paged memory object {memory} at offset {offset:#x}, whose pager failed: {reason}; {:?}",
        thread.handle
    )
}

/// There was no page table for a page that it touched.
pub fn no_page_table(thread: &Thread, memory: u64, offset: u64, status: Status) -> String {
    format!(
        "touched paged memory object {memory} at offset {offset:#x}, but its page table could not grow: {status}; {:?}",
        thread.handle
    )
}
