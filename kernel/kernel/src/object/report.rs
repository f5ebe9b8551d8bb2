//! Deaths as text.

use alloc::format;
use alloc::string::String;
use core::fmt;

use capos_abi::Status;
use capos_machine::page_entry::PAGE;

use crate::object::address_space::{Backing, Mapping};
use crate::object::process::Process;
use crate::object::ring::Corrupt;
use crate::object::thread::Thread;

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

/// Callers that are told of a thread at most.
const MOST_CALLERS: usize = 32;

/// Where a thread is, and through which functions it came there, for the log.
pub struct Backtrace<'a>(pub &'a Thread);

impl fmt::Display for Backtrace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(thread) = self;
        let (rip, frame) = thread.with_context(|context| (context.rip, context.rbp));
        write!(f, "{:?} was at {rip:#x} in {:?}", thread.process, thread.handle)?;
        let mut word = ", called from";
        for caller in callers(thread, frame).take(MOST_CALLERS) {
            write!(f, "{word} {caller:#x}")?;
            word = ",";
        }
        Ok(())
    }
}

/// Where the functions that a thread is in return to, the innermost first: programs keep frame pointers. A frame is two
/// words, its caller's frame and where it returns to, and lies below its caller's. The first that is no frame ends it.
fn callers(thread: &Thread, mut frame: u64) -> impl Iterator<Item = u64> {
    core::iter::from_fn(move || {
        let mut words = [[0; 8]; 2];
        if frame == 0 || !frame.is_multiple_of(8) {
            return None;
        }
        thread.process.space.read(frame, words.as_flattened_mut()).ok()?;
        let [above, caller] = words.map(u64::from_le_bytes);
        frame = if above > frame { above } else { 0 };
        (caller != 0).then_some(caller)
    })
}

fn verb(write: bool, execute: bool) -> &'static str {
    match (write, execute) {
        (true, _) => "wrote to",
        (_, true) => "jumped to",
        _ => "read from",
    }
}

/// Whether an address is the stack pointer or within a page below: functions with more on the stack touch each page of it.
fn is_below_stack(thread: &Thread, address: u64) -> bool {
    let rsp = thread.with_context(|context| context.rsp);
    rsp.checked_sub(address).is_some_and(|below| below <= PAGE)
}

/// It touched an address where nothing is mapped.
pub fn unmapped(thread: &Thread, address: u64, write: bool, execute: bool) -> String {
    let hint = if address < capos_abi::bootstrap::USER_START {
        ", a null pointer"
    } else if address >= capos_abi::bootstrap::USER_END {
        ", which is not user memory"
    } else if is_below_stack(thread, address) {
        ", where nothing is mapped, just below its stack, which is full"
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

/// It wrote to a page whose frame others have, and there was none for a copy.
pub fn no_own_frame(thread: &Thread, memory: u64, offset: u64, status: Status) -> String {
    format!(
        "wrote to memory object {memory} at offset {offset:#x}, whose page it shares, but there was no frame for its own \
         copy: {status}; {:?}",
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
