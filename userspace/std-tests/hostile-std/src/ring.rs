//! Below C's functions: the thread's ring, the instruction that enters the kernel, and memory that is not for writing.

use std::arch::asm;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::ring::{COMPLETION_HEAD, COMPLETION_TAIL, SUBMISSION_HEAD, SUBMISSION_TAIL};
use capos_abi::syscall::NO_DEADLINE;
use capos_abi::{CapId, Completion, Entry, RawEntry, Status};
use capos_ring::{BlockingCap, Ring, wait};
use capos_schema::cap::CallError;
use capos_schema::storage::DirectoryClient;

use crate::{Outcome, c, check, told};

#[cfg(capos_guest)]
unsafe extern "C" {
    /// Where the calling thread's ring is mapped.
    safe fn capos_thread_ring() -> u64;
    /// Where the launch record is mapped. Its length is written to `length`.
    fn capos_launch_record(length: *mut usize) -> *const u8;
}

/// Elsewhere there is no such library, and no ring.
#[cfg(not(capos_guest))]
fn capos_thread_ring() -> u64 {
    0
}

#[cfg(not(capos_guest))]
unsafe fn capos_launch_record(_length: *mut usize) -> *const u8 {
    std::ptr::null()
}

/// The tag of the one operation that the library has in flight on a ring.
const LIBRARY_TAG: u64 = u64::MAX;
const TAG: u64 = 7;

fn here() -> u64 {
    capos_thread_ring()
}

fn ring() -> Result<Ring, String> {
    // SAFETY: the library returns the thread's own ring.
    unsafe { Ring::at(here()) }.map_err(|status| format!("the ring: {}", status.words()))
}

/// One of the ring's indices.
fn index(ring: &Ring, offset: usize) -> &AtomicU32 {
    let address = usize::try_from(ring.address()).unwrap_or(0).wrapping_add(offset);
    // SAFETY: an aligned word of the ring's header page, which is mapped for as long as the thread runs.
    unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address)) }
}

/// Queues an unchecked entry, submits it to the kernel, and waits for its answer.
fn answered(ring: &Ring, entry: &RawEntry) -> Result<Completion, String> {
    // SAFETY: the entries name memory that nothing relies on, or that is not this process's: then the kernel rejects
    // them.
    let queued = unsafe { ring.push_raw(entry) };
    check(queued, || "the ring is full".into())?;
    ring.enter(1, NO_DEADLINE);
    ring.take(TAG).ok_or_else(|| "an entry was not answered".to_owned())
}

fn expect(ring: &Ring, what: &str, operation: Operation, wanted: &[Status]) -> Outcome {
    let completion = answered(ring, &Entry { user_data: TAG, operation }.encode())?;
    let status = Status::from_raw(completion.status);
    check(status.is_some_and(|status| wanted.contains(&status)), || format!("{what}: {completion:?}"))
}

/// Lists a directory through a capability that the program was not given under a name.
fn listed(id: u64) -> Result<Option<Vec<String>>, String> {
    // SAFETY: `here` is correct on each thread.
    let guessed: DirectoryClient = unsafe { BlockingCap::borrowed(here, id) };
    match wait(guessed.list(".")) {
        Ok(listed) => Ok(Some(listed.entries.into_iter().map(|entry| entry.name).collect())),
        Err(CallError::Transport(Status::BadCapability | Status::StaleCapability | Status::WrongInterface)) => Ok(None),
        Err(error) => Err(format!("capability {id:#x} answered: {error}")),
    }
}

/// Identifiers of capabilities, by guessing: those that are directories are the granted ones.
fn directories() -> Result<Vec<u64>, String> {
    let mut found = Vec::new();
    for generation in 0..8 {
        for index in 0..128 {
            let id = CapId::new(index, generation).0;
            if let Some(names) = listed(id)? {
                check(!names.iter().any(|name| name == "diary" || name == "other"), || format!("{id:#x}: {names:?}"))?;
                found.push(id);
            }
        }
    }
    Ok(found)
}

/// Every identifier that could be one, called as a directory.
pub fn guessed_capabilities() -> Outcome {
    fs::write("/home/mine", "mine").map_err(told("writing"))?;
    let found = directories()?;
    check(found.len() == 2, || format!("{} directories answer, 2 were granted", found.len()))?;
    let mut guess = 1_u64;
    for _ in 0..500 {
        guess = guess.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) ^ 0x5bd1_e995;
        check(listed(guess)?.is_none(), || format!("a guess of {guess:#x} answers"))?;
    }
    Ok(())
}

/// Entries that name capabilities and memory of others: each is rejected, and the library continues to work.
pub fn forged_entries() -> Outcome {
    fs::write("/home/mine", "mine").map_err(told("writing"))?;
    let ring = &ring()?;
    let cap = directories()?.first().copied().ok_or("no directory answers")?;
    let mut record = 0;
    // SAFETY: a place for the length.
    let launch_record = unsafe { capos_launch_record(&raw mut record) }.addr() as u64;
    let own = vec![0_u64; 32].leak();
    // Larger than every answer, or its size would be what is rejected.
    let good = Buffer { address: own.as_mut_ptr().expose_provenance() as u64, length: 256 };
    let none = CapArray::default();
    let interface = DirectoryClient::INTERFACE_ID;
    let bad_address = &[Status::BadAddress];
    for address in
        [0, 8, 1 << 46, 1 << 47, 0xffff_8000_0000_0000, 0xffff_ffff_8000_0000, u64::MAX - 7, good.address | 1]
    {
        let bad = Buffer { address, length: 256 };
        let what = format!("a buffer at {address:#x}");
        let call = |params, results| Operation::Call { cap, interface, method: 0, params, results, caps: none };
        expect(ring, &what, call(bad, good), bad_address)?;
        expect(ring, &what, call(good, bad), bad_address)?;
        let caps = CapArray { address, sent: 1, accepted: 0 };
        expect(
            ring,
            &what,
            Operation::Call { cap, interface, method: 0, params: good, results: good, caps },
            bad_address,
        )?;
    }
    let read_only = Buffer { address: launch_record, length: 256 };
    let call = Operation::Call { cap, interface, method: 0, params: good, results: read_only, caps: none };
    expect(ring, "results over the launch record", call, bad_address)?;
    for address in [1 << 47, 0xffff_8000_0000_0000, u64::MAX] {
        expect(ring, "another's thread pointer", Operation::ThreadPointer { address }, bad_address)?;
        expect(ring, "another's word", Operation::WaitWord { address, expected: 0 }, bad_address)?;
    }
    let unknown = &[Status::BadCapability, Status::StaleCapability];
    for guess in [0, u64::MAX, CapId::new(500, 1).0, CapId::new(1, 77).0] {
        let call = Operation::Call { cap: guess, interface, method: 0, params: good, results: good, caps: none };
        expect(ring, "a call of nothing", call, unknown)?;
        expect(ring, "a receive from nothing", Operation::Recv { endpoint: guess, buffer: good, caps: none }, unknown)?;
        let answer = Operation::Return { reply: guess, exception: 0, results: good, caps: none };
        expect(ring, "an answer to nothing", answer, unknown)?;
        expect(ring, "a release of nothing", Operation::Release { cap: guess }, unknown)?;
        expect(ring, "a notification of nothing", Operation::Notify { notification: guess, bits: 1 }, unknown)?;
    }
    let wrong = &[Status::WrongInterface];
    expect(ring, "receiving another's calls", Operation::Recv { endpoint: cap, buffer: good, caps: none }, wrong)?;
    expect(ring, "notifying a directory", Operation::Notify { notification: cap, bits: 1 }, wrong)?;
    let mut entry = Entry { user_data: TAG, operation: Operation::Nop }.encode();
    for opcode in [12, 100, 200, 255] {
        entry[0] = opcode;
        let completion = answered(ring, &entry)?;
        check(completion.status == Status::BadOpcode as i32, || format!("operation {opcode}: {completion:?}"))?;
    }
    check(fs::read("/home/mine").is_ok_and(|bytes| bytes == b"mine"), || "the library lost its way".into())
}

/// An impossible end of the queue: the library's next call ends the process.
pub fn forged_tail() -> Outcome {
    let ring = ring()?;
    let head = index(&ring, SUBMISSION_HEAD).load(Ordering::Acquire);
    index(&ring, SUBMISSION_TAIL).store(head.wrapping_add(0x8000_0000), Ordering::Release);
    let found = fs::metadata("/home").map(|found| found.is_dir());
    Err(format!("the library went on: {found:?}"))
}

/// Answers that were read before they came.
pub fn forged_head() -> Outcome {
    let ring = ring()?;
    let tail = index(&ring, COMPLETION_TAIL).load(Ordering::Acquire);
    index(&ring, COMPLETION_HEAD).store(tail.wrapping_add(1000), Ordering::Release);
    let found = fs::metadata("/home").map(|found| found.is_dir());
    Err(format!("the library went on: {found:?}"))
}

/// Answers that the library takes for those of its own calls: it gets wrong results, and may fail because of them.
pub fn stolen_answers() -> Outcome {
    let ring = ring()?;
    for round in 0..50 {
        let entry = Entry { user_data: LIBRARY_TAG, operation: Operation::Nop };
        // SAFETY: it names no memory. The library's reaction harms this program only.
        if unsafe { ring.push(&entry) } {
            ring.enter(0, 0);
        }
        // Each may succeed, fail, or get the answer of another.
        drop(fs::write(format!("/home/stolen-{round}"), "stolen"));
        drop(fs::read("/other/diary"));
        drop(fs::read_dir("/books"));
    }
    Ok(())
}

/// Entries of random bytes between the library's own.
pub fn random_entries(seed: &str) -> Outcome {
    let ring = ring()?;
    let mut state: u64 = seed.parse().map_err(told("the seed"))?;
    for round in 0..300_u32 {
        for _ in 0..8 {
            let mut entry: RawEntry = [0; 64];
            for piece in entry.chunks_mut(8) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                piece.copy_from_slice(&(state >> (state % 61)).to_le_bytes());
            }
            if let Some(opcode) = entry.first_mut() {
                *opcode %= 13;
            }
            // Not the library's: those are for `stolen_answers`.
            if let Some(tag) = entry.get_mut(15) {
                *tag = 0;
            }
            // SAFETY: the kernel may write where the bytes say; that harms this program only.
            unsafe { ring.push_raw(&entry) };
        }
        ring.enter(0, 0);
        while ring.pop().is_some() {}
        if round % 10 == 0 {
            drop(fs::metadata("/home"));
        }
    }
    Ok(())
}

/// The instruction itself, with the number and arguments of a system call of Linux.
pub fn system_call_instruction(number: &str) -> Outcome {
    let number = u64::from_str_radix(number, 16).map_err(told("the number"))?;
    let mut text = *b"text\n";
    let mut answer = number;
    // SAFETY: the kernel takes numbers, and ends the process if it does not know the call. If it reads a count of
    // completions and a time in the past, it accesses no memory.
    unsafe {
        asm!(
            "syscall",
            inout("rax") answer,
            in("rdi") 1_u64,
            in("rsi") text.as_mut_ptr(),
            in("rdx") 5_u64,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    // Linux' `read` is the entry to the kernel here: nothing was queued, and it reads nothing.
    check(number == 0 && answer == 0 && text == *b"text\n", || format!("system call {number:#x} gave {answer:#x}"))
}

/// Runs bytes that were written as data.
pub fn code_in_data() -> Outcome {
    let (both, alone) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let start = c::map(4096, both, alone, -1, 0).map_err(told("mapping"))?;
    let place: *mut u8 = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: `ret`, written to memory that was just mapped. The caller returns at once, or dies.
    unsafe {
        place.write_volatile(0xc3);
        asm!("call {}", in(reg) place, clobber_abi("C"));
    }
    Err("data was run".into())
}

/// Overwrites the launcher's record.
pub fn write_launch_record() -> Outcome {
    let mut length = 0;
    // SAFETY: a place for the length; the record is read-only, so that this ends the process.
    unsafe {
        let record = capos_launch_record(&raw mut length).cast_mut();
        record.write_volatile(0);
    }
    Err("the launch record was written".into())
}
