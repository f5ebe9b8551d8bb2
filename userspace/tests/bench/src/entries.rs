//! Entries made by hand, so that a measurement holds the kernel's work and no client's.

use alloc::boxed::Box;
use alloc::format;

use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::syscall::NO_DEADLINE;
use capos_abi::{Entry, RawEntry};
use capos_ring::Ring;
use capos_rt::{Error, raw};

/// Bytes of a message and of its answer.
pub const MESSAGE: u32 = 64;
/// The interface of the endpoint that answers.
pub const INTERFACE: u64 = 0x6265_6e63_6800_0001;
/// Where in a page of [`page`] the results of a call go, and how many bytes there may be.
pub const RESULTS: u64 = 2048;
const RESULT_BYTES: u32 = 1024;
/// Where in a page of [`page`] the capabilities are that a call sends and receives.
pub const CAPS: u64 = 3072;
/// Where in a page of [`page`] the capability is that came with a call.
pub const RECEIVED: u64 = 4000;

/// A page of memory that entries name.
#[repr(C, align(4096))]
struct Page([u64; 512]);

/// The address of a page that lives as long as the process.
pub fn page() -> u64 {
    core::ptr::from_mut(Box::leak(Box::new(Page([0; 512])))).expose_provenance() as u64
}

/// Writes a word of such a page.
pub fn write(address: u64, value: u64) {
    let place = core::ptr::with_exposed_provenance_mut::<u64>(usize::try_from(address).unwrap_or(0));
    // SAFETY: callers pass addresses inside pages of [`page`] or of a mapping that they hold, 8-byte aligned.
    unsafe { place.write_volatile(value) }
}

/// Reads a word of such a page.
pub fn read(address: u64) -> u64 {
    let place = core::ptr::with_exposed_provenance::<u64>(usize::try_from(address).unwrap_or(0));
    // SAFETY: as in `write`.
    unsafe { place.read_volatile() }
}

/// The bytes of an entry with this tag.
pub fn encode(tag: u64, operation: Operation) -> RawEntry {
    Entry { user_data: tag | raw::TAG, operation }.encode()
}

/// NOP.
pub fn nothing() -> RawEntry {
    encode(1, Operation::Nop)
}

/// A CALL with `params` bytes at the start of `memory`, results and capabilities where the constants here say.
pub fn call(cap: u64, method: (u64, u16), params: u32, memory: u64, caps: (u8, u8)) -> RawEntry {
    tagged_call(1, cap, method, params, memory, caps)
}

/// The same with this tag.
pub fn tagged_call(
    tag: u64,
    cap: u64,
    (interface, method): (u64, u16),
    params: u32,
    memory: u64,
    caps: (u8, u8),
) -> RawEntry {
    let results = Buffer { address: memory + RESULTS, length: RESULT_BYTES };
    let params = Buffer { address: memory, length: params };
    let (sent, accepted) = caps;
    let caps = CapArray { address: if caps == (0, 0) { 0 } else { memory + CAPS }, sent, accepted };
    encode(tag, Operation::Call { cap, interface, method, params, results, caps })
}

/// The buffer for messages in `memory`, and the place for one capability at its end.
fn room(memory: u64) -> (Buffer, CapArray) {
    (Buffer { address: memory, length: 1024 }, CapArray { address: memory + RECEIVED, sent: 0, accepted: 1 })
}

/// A RECV into `memory`, with room for one capability at its end.
pub fn receive_entry(tag: u64, endpoint: u64, memory: u64) -> Entry {
    let (buffer, caps) = room(memory);
    Entry { user_data: tag | raw::TAG, operation: Operation::Recv { endpoint, buffer, caps } }
}

/// The same, encoded for the ring.
pub fn receive(tag: u64, endpoint: u64, memory: u64) -> RawEntry {
    receive_entry(tag, endpoint, memory).encode()
}

/// Answers a call with the message that it brought to `memory`, and receives the next one there.
#[inline]
pub fn answer_and_receive(tag: u64, reply: u64, endpoint: u64, memory: u64) -> Entry {
    let (buffer, caps) = room(memory);
    let results = Buffer { address: memory + 40, length: MESSAGE };
    let operation = Operation::ReturnRecv { reply, endpoint, exception: 0, results, buffer, caps };
    Entry { user_data: tag | raw::TAG, operation }
}

/// A RETURN of `length` bytes.
pub fn answer(reply: u64, memory: u64, length: u32) -> RawEntry {
    let results = Buffer { address: if length == 0 { 0 } else { memory }, length };
    encode(3, Operation::Return { reply, exception: 0, results, caps: CapArray::default() })
}

/// RELEASE.
pub fn release_entry(cap: u64) -> Entry {
    Entry { user_data: 4 | raw::TAG, operation: Operation::Release { cap } }
}

/// The same, encoded for the ring.
pub fn release(cap: u64) -> RawEntry {
    release_entry(cap).encode()
}

/// NOTIFY with one bit.
pub fn notify(notification: u64) -> RawEntry {
    encode(5, Operation::Notify { notification, bits: 1 })
}

/// WAIT for a notification.
pub fn wait(notification: u64) -> RawEntry {
    encode(6, Operation::Wait { cap: notification })
}

/// Queues an entry.
pub fn push(entry: &RawEntry) {
    // SAFETY: all entries here name pages of [`page`], which live as long as the process and to
    // which no references exist.
    unsafe { raw::push(entry) };
}

/// The thread's rings, for code that works without the runtime from now on.
pub fn ring() -> Option<Ring> {
    // SAFETY: programs here have one thread, and the caller does nothing but use them.
    unsafe { raw::ring() }
}

/// Queues an entry in a ring, without the runtime.
#[inline]
pub fn queue(ring: &Ring, entry: &Entry) {
    // SAFETY: as in `push`.
    unsafe { ring.push(entry) };
}

/// Reads all completions away; the first status that is not 0, or 0.
pub fn drain() -> i32 {
    let mut status = 0;
    while let Some(completion) = raw::pop() {
        if status == 0 {
            status = completion.status;
        }
    }
    status
}

/// Has all these operations done, and waits for the last one's end.
///
/// # Errors
/// One of them failed.
pub fn run(what: &str, entries: &[RawEntry]) -> Result<(), Error> {
    entries.iter().for_each(push);
    let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    raw::enter(count, count, NO_DEADLINE);
    match drain() {
        0 => Ok(()),
        status => Err(Error::new(format!("{what}: status {status}"))),
    }
}
