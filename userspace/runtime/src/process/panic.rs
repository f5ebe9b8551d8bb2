//! The panic handler: it logs what happened and where, and ends the process. If an allocation fails, which the
//! language's library takes for a panic too, no place in the program is to blame: it says how much was needed.

use core::fmt::Write;
use core::panic::PanicInfo;

use capos_ring::{MAX_TEXT, write_line};

use super::heap;
use crate::{exit_code, runtime};

/// Text on the stack; the part that does not fit is cut off.
struct Line {
    bytes: [u8; MAX_TEXT],
    length: usize,
}

impl Line {
    fn new() -> Self {
        Self { bytes: [0; MAX_TEXT], length: 0 }
    }

    fn text(&self) -> Option<&str> {
        core::str::from_utf8(self.bytes.get(..self.length)?).ok()
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for letter in text.chars() {
            let mut encoded = [0; 4];
            let encoded = letter.encode_utf8(&mut encoded).as_bytes();
            let end = self.length.saturating_add(encoded.len());
            let Some(place) = self.bytes.get_mut(self.length..end) else { return Ok(()) };
            place.copy_from_slice(encoded);
            self.length = end;
        }
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let mut line = Line::new();
    let lacking = lacking(info);
    // Writing to a line never fails.
    let _ = match (lacking, info.location()) {
        (Some(bytes), _) => write!(
            line,
            "out of memory: {bytes} bytes are needed, and the account's limit does not cover them, or the machine has no more"
        ),
        (None, Some(place)) => write!(line, "panicked at {}:{}: {}", place.file(), place.line(), info.message()),
        (None, None) => write!(line, "panicked: {}", info.message()),
    };
    let text = line.text().unwrap_or("panicked");
    runtime::with(|rt| {
        use capos_schema::cap::AsCap;
        // Borrowed by the panicking code: then there is nothing to write to.
        let Ok(facts) = rt.facts.try_borrow() else { return };
        let debug = facts.log.debug.as_ref().map(|log| log.as_cap().id()).or(facts.last_words.debug);
        let logger = facts.log.logger.as_ref().map(|log| log.as_cap().id()).or(facts.last_words.logger);
        // The log service gets the line at once or not at all: one that is busy or dead must not
        // delay the end.
        write_line(rt.ring(), debug, logger, text, 0);
    });
    capos_ring::exit(if lacking.is_some() { exit_code::OUT_OF_MEMORY } else { exit_code::PANIC })
}

/// The bytes that an allocation needed, if the panic is that of an allocation that could not fail gracefully. Only its
/// message distinguishes it from others: it names the bytes that the allocator has just refused.
fn lacking(info: &PanicInfo<'_>) -> Option<usize> {
    let bytes = heap::refused()?;
    let (mut words, mut expected) = (Line::new(), Line::new());
    let written =
        write!(words, "{}", info.message()).and(write!(expected, "memory allocation of {bytes} bytes failed"));
    (written.is_ok() && words.text() == expected.text()).then_some(bytes)
}

/// Named by the prebuilt `core`, never called: a panic ends the process without unwinding.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// As [`rust_eh_personality`].
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    capos_ring::exit(exit_code::PANIC)
}
