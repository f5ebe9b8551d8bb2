//! What a panic does: it says what happened and where, and ends the process.

use core::fmt::Write;
use core::panic::PanicInfo;

use capos_ring::{MAX_TEXT, write_line};

use super::PANIC_CODE;
use crate::runtime;

/// Text on the stack; what does not fit is cut off.
struct Line {
    bytes: [u8; MAX_TEXT],
    length: usize,
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
    let mut line = Line { bytes: [0; MAX_TEXT], length: 0 };
    // Writing to a line never fails.
    let _ = match info.location() {
        Some(place) => write!(line, "panicked at {}:{}: {}", place.file(), place.line(), info.message()),
        None => write!(line, "panicked: {}", info.message()),
    };
    let text = line.bytes.get(..line.length).and_then(|bytes| core::str::from_utf8(bytes).ok()).unwrap_or("panicked");
    runtime::with(|rt| {
        use capos_schema::cap::AsCap;
        // Borrowed by whoever panicked: then there is nothing to write to.
        let Ok(facts) = rt.facts.try_borrow() else { return };
        let debug = facts.log.debug.as_ref().map(|log| log.as_cap().id());
        let logger = facts.log.logger.as_ref().map(|log| log.as_cap().id());
        // The log service gets the line at once or not at all: one that is busy or dead must not
        // hold up the end.
        write_line(rt.ring(), debug, logger, text, 0);
    });
    capos_ring::exit(PANIC_CODE)
}

/// Named by the prebuilt `core`, never called: a panic ends the process without unwinding.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// As [`rust_eh_personality`].
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    capos_ring::exit(PANIC_CODE)
}
