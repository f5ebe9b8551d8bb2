//! Counters of `eventfd`, which wake executors of other crates.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;
use std::path::Path;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};

use crate::{Outcome, Test, check, told};

pub const TESTS: &[(&str, Test)] = &[("counters count", counters_count)];

fn made(value: u32, flags: i32) -> Result<File, String> {
    // SAFETY: numbers; no other code uses the descriptor.
    let counter = unsafe {
        let number = libc::eventfd(value, flags);
        if number < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from_raw_fd(number)) }
    };
    counter.map_err(told("making"))
}

/// The value of an `eventfd` counter, or the number of its error.
fn taken(counter: &mut File) -> Result<u64, i32> {
    let mut value = [0; 8];
    counter.read_exact(&mut value).map_err(|error| error.raw_os_error().unwrap_or(0))?;
    Ok(u64::from_ne_bytes(value))
}

fn counters_count(_: &Path) -> Outcome {
    const NOT_NOW: i32 = 11;
    let mut counter = made(3, libc::EFD_NONBLOCK)?;
    counter.write_all(&4_u64.to_ne_bytes()).map_err(told("adding"))?;
    let both = (taken(&mut counter), taken(&mut counter));
    check(both == (Ok(7), Err(NOT_NOW)), &format!("it gave {both:?}"))?;
    counter.write_all(&(u64::MAX - 1).to_ne_bytes()).map_err(told("adding all there can be"))?;
    let full = counter.write(&1_u64.to_ne_bytes()).err().and_then(|error| error.raw_os_error());
    check(full == Some(NOT_NOW), &format!("one more: {full:?}"))?;
    check(taken(&mut counter) == Ok(u64::MAX - 1), "it gave another number")?;
    let mut ones = made(2, libc::EFD_NONBLOCK | libc::EFD_SEMAPHORE)?;
    let three = (taken(&mut ones), taken(&mut ones), taken(&mut ones));
    check(three == (Ok(1), Ok(1), Err(NOT_NOW)), &format!("it gave {three:?}"))?;
    // A reader waits for a writer in another thread, with and without `poll`.
    let mut waits = made(0, 0)?;
    let mut adds = waits.try_clone().map_err(told("cloning"))?;
    let thread =
        thread::spawn(move || adds.write_all(&5_u64.to_ne_bytes()).and_then(|()| adds.write_all(&6_u64.to_ne_bytes())));
    let mut sum = 0;
    while sum < 11 {
        let mut watched = [PollFd::new(&waits, PollFlags::IN)];
        let ready = poll(&mut watched, None).map_err(told("polling"))?;
        check(ready == 1, "it was woken for nothing")?;
        sum += taken(&mut waits).map_err(|number| format!("reading failed by {number}"))?;
    }
    thread.join().map_err(|_| "a thread panicked".to_owned())?.map_err(told("adding in a thread"))?;
    check(sum == 11, "more was taken than was added")
}
