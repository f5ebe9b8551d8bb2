//! WAIT_WORD and WAKE_WORD: waiting for a word of memory that the threads of a process share.

use alloc::sync::Arc;

use capos_abi::bootstrap::{USER_END, USER_START};
use capos_abi::{CapId, Status};
use capos_sync::Waited;

use crate::object::address_space::Unreachable;
use crate::object::memory::user_memory::Absent;
use crate::object::operation::{Kind, OperationRef, Outcome};
use crate::object::thread::Thread;

/// Why a wait did not begin.
enum Refusal {
    Memory(Unreachable),
    /// The thread has no place for it.
    NoPlace,
}

/// WAIT_WORD.
///
/// # Errors
/// The word lies in paged memory and must come in first; nothing has happened then.
pub fn wait(thread: &Arc<Thread>, tag: u64, address: u64, expected: u32) -> Result<(), Absent> {
    let process = &thread.process;
    let waited = process.words.wait(
        address,
        || process.space.read_word(address).map(|word| word == expected).map_err(Refusal::Memory),
        || {
            let kind = || Kind::Word { address, key: None };
            let ticket = thread.begin(tag, CapId::NULL, kind).ok_or(Refusal::NoPlace)?;
            Ok(OperationRef { thread: Arc::clone(thread), ticket })
        },
        |waiter, place| waiter.thread.update(waiter.ticket, |kind| *kind = Kind::Word { address, key: Some(place) }),
    );
    let status = match waited {
        Ok(Waited::Queued) => return Ok(()),
        Ok(Waited::Changed) => Status::Changed,
        Ok(Waited::NoMemory(_)) => Status::OutOfMemory,
        Err(Refusal::Memory(Unreachable::Absent(address))) => return Err(Absent(address)),
        Err(Refusal::Memory(Unreachable::Forbidden)) => Status::BadAddress,
        Err(Refusal::NoPlace) => Status::Overloaded,
    };
    thread.post(tag, status);
    Ok(())
}

/// WAKE_WORD. The memory need not be there any more: who frees a lock may find that its last user has
/// freed the memory.
pub fn wake(thread: &Arc<Thread>, tag: u64, address: u64, count: u32) {
    if !(USER_START..USER_END).contains(&address) {
        return thread.post(tag, Status::BadAddress);
    }
    let woken = thread.process.words.wake(address, count);
    thread.post(tag, Outcome { value: woken.into(), ..Outcome::default() });
}
