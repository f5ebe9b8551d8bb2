//! Tests that start the kernel again and again on one machine, with `test=refusals` on its command line: the first request
//! for memory is refused, then the second, and so on, until there is all that the first process needs. Each time the start ends as text
//! that say what it lacks, or continues with fewer processors and says so.

use core::fmt::{self, Write};
use core::sync::atomic::Ordering;

use super::PASSED;
use super::restart::{self, Kept};
use crate::arch::{exit, processors};
use crate::cpu::boot::{self, Handover};
use crate::cpu::log;
use crate::cpu::panic;
use crate::log;
use crate::memory::{frames, heap};

/// The word on the kernel's command line.
const WORD: &str = "test=refusals";
/// What the kernel's words for a lack of memory have in common: its own, and those of the language's library.
const LACKS: [&str; 3] = ["no memory", "out of memory", "memory allocation of"];
/// What it says where it continues with fewer processors.
const WITHOUT: &[u8] = b"is not used: no memory is left";
/// Requests that a start does not have.
const MANY: usize = 10_000;

/// The tests, in their order.
const TESTS: [&str; 2] = ["each-frame-of-the-start-is-refused", "each-allocation-of-the-start-is-refused"];

/// What is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Frames,
    Heap,
}

impl Kept {
    fn phase(&self) -> Phase {
        if self.words[0].load(Ordering::Relaxed) == 0 { Phase::Frames } else { Phase::Heap }
    }

    /// Refuses nothing any more; whether something was refused this time.
    fn end_refusal(&self) -> bool {
        match self.phase() {
            Phase::Frames => frames::refuse_none(),
            Phase::Heap => heap::refuse_none(),
        }
    }

    /// Continues with the next phase.
    fn advance(&self) {
        self.words[0].fetch_add(1, Ordering::Relaxed);
        self.words[1..].iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Requests that are granted this time.
    pub fn granted(&self) -> usize {
        self.words[1].load(Ordering::Relaxed)
    }

    /// Grants one more the next time. A refusal of one of two kinds is counted.
    pub fn count(&self, kind: usize) {
        self.words[1].fetch_add(1, Ordering::Relaxed);
        self.words[2 + kind].fetch_add(1, Ordering::Relaxed);
    }

    /// How many refusals there were of either kind.
    pub fn counts(&self) -> [usize; 2] {
        [2, 3].map(|word| self.words[word].load(Ordering::Relaxed))
    }
}

/// The start ended as text.
const ENDED: usize = 0;
/// It went on without a processor.
const WENT_ON: usize = 1;

/// At each start of the kernel, before it has asked for any memory.
pub fn begin(handover: &Handover) {
    panic::on_end(ended);
    if restart::kept().is_none() && boot::is_asked_for(WORD) {
        assert!(restart::keep(handover), "there is no memory below 1 MiB");
    }
    let Some(kept) = restart::kept() else { return };
    match kept.phase() {
        Phase::Frames => frames::refuse_after(kept.granted()),
        Phase::Heap => heap::refuse_after(kept.granted()),
    }
}

/// Whether what the loader has left is needed once more.
pub fn needs_loader() -> bool {
    restart::kept().is_some()
}

/// The kernel ends with these words. Where it does since something was refused, it is started again.
fn ended(words: fmt::Arguments<'_>) {
    let Some(kept) = restart::kept() else { return };
    if !kept.end_refusal() {
        return;
    }
    let mut text = Text { bytes: [0; 160], length: 0 };
    // What is too long is cut.
    let _ = text.write_fmt(words);
    let text = core::str::from_utf8(&text.bytes[..text.length]).unwrap_or_default();
    if !LACKS.iter().any(|lacks| text.contains(lacks)) {
        log!("request {} of the start was refused, and it ends with `{text}`", kept.granted());
        return;
    }
    kept.count(ENDED);
    restart::again(kept)
}

/// The kernel has started, and there is no process yet. Where this is a test, it continues from the start.
pub fn run() {
    let Some(kept) = restart::kept() else { return };
    if kept.end_refusal() {
        assert_eq!(processors::count(), 1, "request {} was refused, and nothing is missing", kept.granted());
        assert!(log_holds(WITHOUT), "request {} was refused, and nobody says so", kept.granted());
        kept.count(WENT_ON);
        assert!(kept.granted() < MANY);
        restart::again(kept)
    }
    let [ended, went_on] = kept.counts();
    assert_eq!(processors::count(), 2, "the machine has two processors");
    assert!(ended > 0 && went_on > 0, "{ended} ended, {went_on} went on");
    log!(
        "{} requests were refused in turn: {ended} starts ended, {went_on} went on without a processor",
        kept.granted()
    );
    match kept.phase() {
        Phase::Frames => log!("ok {}", TESTS[0]),
        Phase::Heap => {
            log!("ok {}", TESTS[1]);
            log!("{} passed, 0 failed", TESTS.len());
            exit::debug_exit(PASSED)
        }
    }
    kept.advance();
    restart::again(kept)
}

/// Whether the log holds these bytes.
fn log_holds(wanted: &[u8]) -> bool {
    let mut part = [0; 4096];
    let mut position = 0;
    loop {
        let read = log::read_from(position, &mut part);
        if part[..read.length].windows(wanted.len()).any(|bytes| bytes == wanted) {
            return true;
        }
        if read.length < part.len() {
            return false;
        }
        // A part begins with the end of the one before it.
        position = read.start + (read.length - wanted.len()) as u64;
    }
}

/// The beginning of what is said, without memory.
struct Text {
    bytes: [u8; 160],
    length: usize,
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for (slot, byte) in self.bytes[self.length..].iter_mut().zip(text.bytes()) {
            *slot = byte;
            self.length += 1;
        }
        Ok(())
    }
}
