//! WAIT_WORD and WAKE_WORD: waiting for a word of memory that the threads of a process share.

use alloc::sync::Arc;

use capos_abi::bootstrap::{USER_END, USER_START};
use capos_abi::{CapId, Status};
use capos_sync::Waited;

use crate::cpu::kernel_lock::Exclusive;
use crate::object::operation::{Kind, OperationRef, Outcome, Progress};
use crate::object::thread::Thread;
use crate::object::transfer::Refusal;

/// WAIT_WORD.
pub fn wait(thread: &Arc<Thread>, tag: u64, address: u64, expected: u32) -> Progress {
    let process = &thread.process;
    let waited = process.words.wait(
        address,
        || process.space.read_word(address).map(|word| word == expected).map_err(Refusal::Memory),
        || {
            let kind = || Kind::Word { address, key: None };
            let ticket = thread.begin(tag, CapId::NULL, kind).ok_or(Status::Overloaded)?;
            Ok(OperationRef { thread: Arc::clone(thread), ticket })
        },
        |waiter, place| waiter.thread.update(waiter.ticket, |kind| *kind = Kind::Word { address, key: Some(place) }),
    );
    match waited {
        Ok(Waited::Queued) => Progress::Pending,
        Ok(Waited::Changed) => Status::Changed.into(),
        Ok(Waited::NoMemory(_)) => Status::OutOfMemory.into(),
        Err(refusal) => refusal.into(),
    }
}

/// WAKE_WORD. The memory need not be there any more: who frees a lock may find that its last user has
/// freed the memory.
pub fn wake(lock: &mut Exclusive, thread: &Thread, address: u64, count: u32) -> Outcome {
    if !(USER_START..USER_END).contains(&address) {
        return Status::BadAddress.into();
    }
    let woken = thread.process.words.wake(lock, address, count);
    Outcome { value: woken.into(), ..Outcome::default() }
}
