//! Calls that are made without allocating: the heap's growth, giving memory back, and the last words of a panic.
//!
//! The messages are laid out by hand; the tests compare them with those of the generated clients.

use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::syscall::NO_DEADLINE;
use capos_abi::{CapSlot, Completion, Rights, TransferMode};
use capos_schema::kernel::{AddressSpaceClient, DebugLogClient, ResourceAccountClient};
use capos_schema::system::LoggerClient;

use crate::ring::Ring;

/// A struct pointer to the struct that follows it at once.
const fn struct_pointer(data_words: u64, pointers: u64) -> u64 {
    (data_words << 32) | (pointers << 48)
}

/// Parameters of `ResourceAccount.createMemory`.
fn create_memory(bytes: u64) -> [u64; 2] {
    [struct_pointer(1, 0), bytes]
}

/// Parameters of `AddressSpace.map`: readable and writable, the memory at index 0.
fn map(address: u64, offset: u64, length: u64) -> [u64; 7] {
    // A capability pointer with index 0, then the access struct right after the two pointers.
    [struct_pointer(3, 2), address, offset, length, 3, struct_pointer(1, 0), 0b011]
}

/// Parameters of `AddressSpace.unmap`.
fn unmapped(address: u64, length: u64) -> [u64; 3] {
    [struct_pointer(2, 0), address, length]
}

/// Longest text of [`write_line`], in bytes; the rest is cut.
pub const MAX_TEXT: usize = 480;
const TEXT_WORDS: usize = MAX_TEXT / 8 + 1;

/// Parameters of `DebugLog.write`: how many words are used.
fn write_text(text: &str, words: &mut [u64; TEXT_WORDS + 2]) -> usize {
    let bytes = text.as_bytes().get(..MAX_TEXT).unwrap_or(text.as_bytes());
    let length = u64::try_from(bytes.len()).unwrap_or(0).saturating_add(1);
    let mut raw = [0_u8; TEXT_WORDS * 8];
    for (to, from) in raw.iter_mut().zip(bytes) {
        *to = *from;
    }
    let head = [struct_pointer(0, 1), 1 | (2 << 32) | (length << 35)];
    let (chunks, _) = raw.as_chunks::<8>();
    let tail = chunks.iter().map(|chunk| u64::from_le_bytes(*chunk));
    for (to, from) in words.iter_mut().zip(head.into_iter().chain(tail)) {
        *to = from;
    }
    bytes.len().saturating_add(1).div_ceil(8).saturating_add(2)
}

/// Parameters of `Logger.write` at level `error`: how many words are used.
fn write_leveled(text: &str, words: &mut [u64; TEXT_WORDS + 2]) -> usize {
    let mut plain = [0_u64; TEXT_WORDS + 2];
    let used = write_text(text, &mut plain);
    let [_, list, rest @ ..] = &plain;
    let head = [struct_pointer(1, 1), 3, *list];
    for (to, from) in words.iter_mut().zip(head.into_iter().chain(rest.iter().copied())) {
        *to = from;
    }
    used.saturating_add(1).min(words.len())
}

/// Where a raw call's buffers are: on the caller's stack.
struct RawCall<'a> {
    cap: u64,
    interface: u64,
    method: u16,
    params: &'a [u64],
    results: &'a mut [u64],
    caps: &'a mut [[u8; CapSlot::SIZE]],
    sent: u8,
    accepted: u8,
}

impl RawCall<'_> {
    /// Makes the call, or cancels it at the deadline.
    fn run(self, ring: &Ring, deadline: u64) -> Completion {
        let bytes = |words: usize| u32::try_from(words.saturating_mul(8)).unwrap_or(0);
        let at = |empty: bool, address: usize| if empty { 0 } else { address as u64 };
        let operation = Operation::Call {
            cap: self.cap,
            interface: self.interface,
            method: self.method,
            params: Buffer {
                address: at(self.params.is_empty(), self.params.as_ptr().expose_provenance()),
                length: bytes(self.params.len()),
            },
            results: Buffer {
                address: at(self.results.is_empty(), self.results.as_mut_ptr().expose_provenance()),
                length: bytes(self.results.len()),
            },
            caps: CapArray {
                address: at(self.caps.is_empty(), self.caps.as_mut_ptr().expose_provenance()),
                sent: self.sent,
                accepted: self.accepted,
            },
        };
        // SAFETY: the buffers are borrowed until the operation has ended.
        unsafe { ring.run(operation, deadline) }
    }
}

/// A place for capabilities, aligned as the kernel wants it.
#[repr(align(8))]
struct Slots([[u8; CapSlot::SIZE]; 1]);

/// Makes memory and maps it at `start`, readable and writable.
pub(crate) fn grow(ring: &Ring, account: u64, space: u64, start: u64, bytes: u64) -> bool {
    let mut slots = Slots([[0; CapSlot::SIZE]]);
    let mut results = [0_u64; 8];
    let created = RawCall {
        cap: account,
        interface: ResourceAccountClient::INTERFACE_ID,
        method: ResourceAccountClient::CREATE_MEMORY_METHOD,
        params: &create_memory(bytes),
        results: &mut results,
        caps: &mut slots.0,
        sent: 0,
        accepted: 1,
    }
    .run(ring, NO_DEADLINE);
    if created.status != 0 || created.caps != 1 {
        return false;
    }
    let [slot] = &slots.0;
    let memory = CapSlot::decode(slot).word0;
    slots.0 = [CapSlot::send(memory, Rights::ALL, TransferMode::Copy).encode()];
    let mapped = RawCall {
        cap: space,
        interface: AddressSpaceClient::INTERFACE_ID,
        method: AddressSpaceClient::MAP_METHOD,
        params: &map(start, 0, bytes),
        results: &mut results,
        caps: &mut slots.0,
        sent: 1,
        accepted: 0,
    }
    .run(ring, NO_DEADLINE);
    // The mapping keeps the memory.
    ring.release(memory);
    mapped.status == 0
}

/// Ends what a space maps in a range. Whether it did.
#[must_use]
pub fn unmap(ring: &Ring, space: u64, address: u64, length: u64) -> bool {
    let done = RawCall {
        cap: space,
        interface: AddressSpaceClient::INTERFACE_ID,
        method: AddressSpaceClient::UNMAP_METHOD,
        params: &unmapped(address, length),
        results: &mut [0; 8],
        caps: &mut [],
        sent: 0,
        accepted: 0,
    };
    done.run(ring, NO_DEADLINE).status == 0
}

/// Writes a line to the kernel's log, or else to the log service, without allocating. Waits for the latter until
/// `deadline`.
pub fn write_line(ring: &Ring, debug: Option<u64>, logger: Option<u64>, text: &str, deadline: u64) {
    let mut words = [0_u64; TEXT_WORDS + 2];
    let mut results = [0_u64; 64];
    let (cap, interface, method, used) = match (debug, logger) {
        (Some(cap), _) => {
            (cap, DebugLogClient::INTERFACE_ID, DebugLogClient::WRITE_METHOD, write_text(text, &mut words))
        }
        (None, Some(cap)) => {
            (cap, LoggerClient::INTERFACE_ID, LoggerClient::WRITE_METHOD, write_leveled(text, &mut words))
        }
        (None, None) => return,
    };
    let params = words.get(..used).unwrap_or_default();
    RawCall { cap, interface, method, params, results: &mut results, caps: &mut [], sent: 0, accepted: 0 }
        .run(ring, deadline);
}

#[cfg(test)]
mod tests {
    use alloc::rc::Rc;
    use alloc::vec::Vec;
    use core::any::Any;
    use core::cell::RefCell;
    use core::task::Context;

    use capos_schema::cap::{Begun, CallError, Cap, CapTransport, Client, Message, ReadResult};
    use capos_schema::kernel::{AddressSpaceAccess, AddressSpaceClient, DebugLogClient, ResourceAccountClient};
    use capos_schema::system::{LogLevel, LoggerClient};

    use super::*;

    /// Keeps the generated client's message.
    struct Recorder(Rc<RefCell<Vec<u64>>>);

    impl CapTransport for Recorder {
        fn begin(&self, _: (u64, u16), params: Message, _: u32, _: &mut Context<'_>, _: ReadResult<'_>) -> Begun {
            let (words, _) = params.bytes().as_chunks::<8>();
            *self.0.borrow_mut() = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
            Begun::Ended(Err(CallError::failed("recorded")))
        }

        fn id(&self) -> u64 {
            1
        }

        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    fn recorder<C: Client>() -> (C, Rc<RefCell<Vec<u64>>>) {
        let words = Rc::default();
        (C::from_cap(Cap::new(Recorder(Rc::clone(&words)))), words)
    }

    #[test]
    fn hand_made_messages_are_what_the_clients_send() {
        let (account, words) = recorder::<ResourceAccountClient>();
        let _ = capos_schema::local::run(account.create_memory(0x1234_5000));
        assert_eq!(*words.borrow(), create_memory(0x1234_5000));

        let (space, words) = recorder::<AddressSpaceClient>();
        let access = AddressSpaceAccess { read: true, write: true, execute: false };
        let _ = capos_schema::local::run(space.map(&account, 0x1000, 0x2000, 0x3000, &access));
        assert_eq!(*words.borrow(), map(0x1000, 0x2000, 0x3000));
        let _ = capos_schema::local::run(space.unmap(0x1000, 0x3000));
        assert_eq!(*words.borrow(), unmapped(0x1000, 0x3000));

        let (debug, words) = recorder::<DebugLogClient>();
        let (logger, leveled) = recorder::<LoggerClient>();
        for text in ["", "seven77", "eight888", "a line that is longer than a word"] {
            let mut raw = [0; TEXT_WORDS + 2];
            let _ = capos_schema::local::run(debug.write(text));
            let used = write_text(text, &mut raw);
            assert_eq!(*words.borrow(), raw[..used]);
            let _ = capos_schema::local::run(logger.write(LogLevel::Error, text));
            let used = write_leveled(text, &mut raw);
            assert_eq!(*leveled.borrow(), raw[..used]);
        }
    }

    #[test]
    fn long_text_is_cut() {
        let long = "x".repeat(MAX_TEXT + 100);
        let mut raw = [0; TEXT_WORDS + 2];
        assert_eq!(write_text(&long, &mut raw), TEXT_WORDS + 2);
        assert!(write_leveled(&long, &mut raw) <= TEXT_WORDS + 2);
    }
}
