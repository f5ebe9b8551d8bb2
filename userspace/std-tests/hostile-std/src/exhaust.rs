//! Asking for more than there is: the answer is an error, the allocations can be freed, and then there is as much as
//! before.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Barrier};
use std::thread;

use crate::{Outcome, c, check, refused, told};

/// How often everything is taken. The first time is not counted: the program's own heap keeps its growth.
const TIMES: usize = 4;
/// Nothing exists that often.
const MOST: usize = 100_000;

/// Takes until it is rejected with this number; returns how many it got, the same each time after all was freed.
fn until_refused<T>(what: &str, number: i32, mut take: impl FnMut() -> io::Result<T>) -> Result<usize, String> {
    let mut counts = Vec::new();
    for _ in 0..TIMES {
        let mut taken = Vec::new();
        let error = loop {
            match take() {
                Ok(one) => taken.push(one),
                Err(error) => break error,
            }
            check(taken.len() < MOST, || format!("there is no end of {what}"))?;
        };
        refused(Err::<(), _>(error), number, &format!("{what} after {}", taken.len()))?;
        counts.push(taken.len());
    }
    let last = counts.last().copied().unwrap_or(0);
    check(last > 0 && counts.iter().skip(1).all(|count| *count == last), || {
        format!("of {what} there were {counts:?}")
    })?;
    Ok(last)
}

/// Descriptors, which need no server.
pub fn descriptors() -> Outcome {
    let (reader, _writer) = io::pipe().map_err(told("making a pipe"))?;
    let pairs = until_refused("pipes", libc::EMFILE, io::pipe)?;
    let copies = until_refused("duplicates", libc::EMFILE, || reader.try_clone())?;
    // Standard streams, and the first pipe.
    check(copies == 1024 - 5, || format!("a process has {copies} descriptors and 5"))?;
    // A pipe whose second end found no free number leaves no first end behind.
    check(pairs == copies / 2, || format!("{pairs} pipes, {copies} duplicates"))?;
    fs::write("/home/mine", "mine").map_err(told("writing"))?;
    let all: Vec<_> = (0..copies).filter_map(|_| reader.try_clone().ok()).collect();
    refused(File::open("/home/mine"), libc::EMFILE, "opening a file")?;
    refused(fs::read_dir("/home"), libc::EMFILE, "listing a directory")?;
    refused(c::dup(0), libc::EMFILE, "duplicating")?;
    refused(c::duplicate_from(0, 100), libc::EMFILE, "duplicating from 100 on")?;
    refused(c::counter(0), libc::EMFILE, "a counter")?;
    // In place of another there is room.
    let last = all.last().map(AsRawFd::as_raw_fd).unwrap_or(-1);
    c::dup2(0, last).map_err(told("duplicating over another"))?;
    drop(all);
    check(fs::read("/home/mine").is_ok_and(|bytes| bytes == b"mine"), || "nothing can be opened any more".into())
}

/// Open files: each is a capability of the process, and one that its server keeps for it.
pub fn open_files() -> Outcome {
    fs::write("/home/mine", "mine").map_err(told("writing"))?;
    let open = until_refused("open files", libc::EMFILE, || File::open("/home/mine"))?;
    check(open > 100, || format!("only {open} files can be open"))?;
    let again = until_refused("open directories", libc::EMFILE, || File::open("/home"))?;
    check(again == open, || format!("{open} files and {again} directories can be open"))?;
    fs::write("/home/mine", "again").map_err(told("writing after that"))
}

/// Memory, by every way of allocation.
pub fn memory() -> Outcome {
    let (both, alone) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let piece = 1 << 20;
    let mapped = until_refused("memory", libc::ENOMEM, || c::map(piece, both, alone, -1, 0).map(Mapped))?;
    check(mapped < 1024, || format!("{mapped} MiB were given"))?;
    for length in [usize::MAX, usize::MAX - 4095, 1 << 63, 1 << 47, 1 << 46, 1 << 40] {
        refused(c::map(length, both, alone, -1, 0), libc::ENOMEM, &format!("mapping {length:#x} bytes"))?;
        refused(c::allocate(length), libc::ENOMEM, &format!("allocating {length:#x} bytes"))?;
        refused(c::allocate_many(length, 2), libc::ENOMEM, &format!("allocating {length:#x} pairs"))?;
        refused(c::allocate_aligned(4096, length), libc::ENOMEM, &format!("{length:#x} bytes at a page"))?;
        let (grown, kept) = c::grow(length);
        refused(grown, libc::ENOMEM, &format!("growing to {length:#x} bytes"))?;
        check(kept, || "what did not grow was lost".into())?;
    }
    for length in [usize::MAX, isize::MAX.unsigned_abs(), 1 << 46] {
        check(Vec::<u8>::new().try_reserve_exact(length).is_err(), || format!("a vector of {length:#x} bytes"))?;
    }
    refused(c::map(0, both, alone, -1, 0), libc::EINVAL, "mapping nothing")?;
    refused(c::allocate_aligned(3, 16), libc::EINVAL, "an alignment of 3")?;
    // No program maps over existing memory, and data never becomes code.
    refused(c::map(4096, both, alone | libc::MAP_FIXED, -1, 0), libc::ENOSYS, "mapping at a place of its own choice")?;
    let own = Mapped(c::map(piece, both, alone, -1, 0).map_err(told("mapping"))?);
    for protection in [libc::PROT_EXEC, libc::PROT_EXEC | libc::PROT_READ, libc::PROT_EXEC | both] {
        refused(c::map(4096, protection, alone, -1, 0), libc::EACCES, "mapping to run")?;
        refused(c::protect(own.0, 4096, protection), libc::EACCES, "making data code")?;
    }
    refused(c::unmap(own.0 + 8, 4096), libc::EINVAL, "unmapping between pages")?;
    for (start, length) in [(1 << 47, 4096), (usize::MAX - 4095, 4096), (1 << 46, 1 << 63)] {
        refused(c::unmap(start, length), libc::EINVAL, &format!("unmapping {length:#x} bytes at {start:#x}"))?;
    }
    Ok(())
}

/// A mapping of 1 MiB.
struct Mapped(usize);

impl Drop for Mapped {
    fn drop(&mut self) {
        // If it does not return, the count of the next round shows that.
        let _ = c::unmap(self.0, 1 << 20);
    }
}

/// Threads.
pub fn threads() -> Outcome {
    /// A thread that waits for the others.
    struct Waiting(Option<thread::JoinHandle<()>>, Arc<Barrier>);
    impl Drop for Waiting {
        fn drop(&mut self) {
            self.1.wait();
            if let Some(thread) = self.0.take() {
                // Its panic is visible in the report.
                let _ = thread.join();
            }
        }
    }
    let start = |stack: usize| {
        let barrier = Arc::new(Barrier::new(2));
        let other = Arc::clone(&barrier);
        let waits = move || {
            other.wait();
        };
        thread::Builder::new().stack_size(stack).spawn(waits).map(|thread| Waiting(Some(thread), barrier))
    };
    let made = until_refused("threads", libc::EAGAIN, || start(16 << 10))?;
    check((4..1000).contains(&made), || format!("{made} threads were given"))?;
    // Stacks that take all memory first: then the library's own needs are rejected in the same way.
    for _ in 0..TIMES {
        let (mut threads, mut refusal) = (Vec::with_capacity(made), None);
        while refusal.is_none() && threads.len() < made {
            match start(2 << 20) {
                Ok(thread) => threads.push(thread),
                Err(error) => refusal = Some(error),
            }
        }
        refused(refusal.map_or(Ok(()), Err), libc::EAGAIN, &format!("a stack after {}", threads.len()))?;
    }
    for bytes in [1 << 30, 1 << 40, 1 << 46] {
        let large = thread::Builder::new().stack_size(bytes).spawn(|| ());
        refused(large, libc::EAGAIN, &format!("a stack of {bytes:#x} bytes"))?;
    }
    // Detached threads that have ended do not count either.
    for _ in 0..200 {
        let (over, ended) = std::sync::mpsc::channel();
        drop(thread::Builder::new().stack_size(64 << 10).spawn(move || over.send(())).map_err(told("a thread"))?);
        ended.recv().map_err(told("a thread that nobody joins"))?;
    }
    Ok(())
}

/// Takes memory without asking whether there is any: ends the process.
pub fn no_memory_left() -> Outcome {
    let mut all = Vec::new();
    loop {
        all.push(vec![1_u8; 1 << 20]);
        check(all.len() < MOST, || "there is no end of memory".into())?;
    }
}

#[inline(never)]
#[allow(unconditional_recursion, reason = "that is what it is for")]
fn deep(number: u64) -> u64 {
    let place = std::hint::black_box([number; 64]);
    deep(place.iter().copied().fold(0, u64::wrapping_add)).wrapping_add(std::hint::black_box(number))
}

/// Uses up the first thread's stack.
pub fn deep_recursion() -> Outcome {
    Err(format!("the stack has no end: {}", deep(1)))
}

/// Uses up another thread's stack, next to which there are others.
pub fn deep_recursion_of_a_thread() -> Outcome {
    let neighbours = Arc::new(Barrier::new(3));
    for _ in 0..2 {
        let neighbours = Arc::clone(&neighbours);
        thread::spawn(move || neighbours.wait());
    }
    let ended = thread::Builder::new().name("deep".into()).spawn(|| deep(1)).map_err(told("a thread"))?.join();
    Err(format!("the stack has no end: {ended:?}"))
}
