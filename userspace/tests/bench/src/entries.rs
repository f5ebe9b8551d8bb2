//! Entries made by hand, so that a measurement holds the kernel's work and no client's.

use alloc::boxed::Box;

use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::{Entry, RawEntry};
use capos_rt::raw;

/// Bytes of a message and of its answer.
pub const MESSAGE: u32 = 64;
/// The interface of the endpoint that answers.
pub const INTERFACE: u64 = 0x6265_6e63_6800_0001;

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
    // SAFETY: callers pass addresses inside pages of [`page`], 8-byte aligned.
    unsafe { place.write_volatile(value) }
}

/// Reads a word of such a page.
pub fn read(address: u64) -> u64 {
    let place = core::ptr::with_exposed_provenance::<u64>(usize::try_from(address).unwrap_or(0));
    // SAFETY: as in `write`.
    unsafe { place.read_volatile() }
}

fn encode(tag: u64, operation: Operation) -> RawEntry {
    Entry { user_data: tag | raw::TAG, operation }.encode()
}

/// NOP.
pub fn nothing() -> RawEntry {
    encode(1, Operation::Nop)
}

/// A CALL with `params` bytes at the start of `memory` and results in its second half.
pub fn call(cap: u64, interface: u64, method: u16, params: u32, memory: u64) -> RawEntry {
    let results = Buffer { address: memory + 2048, length: 1024 };
    let params = Buffer { address: memory, length: params };
    encode(1, Operation::Call { cap, interface, method, params, results, caps: CapArray::default() })
}

/// A RECV into `memory`, with room for one capability at its end.
pub fn receive(endpoint: u64, memory: u64) -> RawEntry {
    let buffer = Buffer { address: memory, length: 1024 };
    let caps = CapArray { address: memory + 4000, sent: 0, accepted: 1 };
    encode(2, Operation::Recv { endpoint, buffer, caps })
}

/// A RETURN of `length` bytes.
pub fn answer(reply: u64, memory: u64, length: u32) -> RawEntry {
    let results = Buffer { address: if length == 0 { 0 } else { memory }, length };
    encode(3, Operation::Return { reply, exception: 0, results, caps: CapArray::default() })
}

/// Queues an entry.
pub fn push(entry: &RawEntry) {
    // SAFETY: all entries here name pages of [`page`], which live as long as the process and to
    // which no references exist.
    unsafe { raw::push(entry) };
}

/// Reads all completions away; the last one's status.
pub fn drain() -> i32 {
    let mut status = 0;
    while let Some(completion) = raw::pop() {
        status = completion.status;
    }
    status
}
