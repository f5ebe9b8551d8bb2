//! Standard output and standard error: what the launcher keeps of a program, else the log, line by line.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use capos_schema::kernel::DebugLogClient;
use capos_schema::system::{LogLevel, LoggerClient, StandardClient};

use crate::guest::errno::{Errno, Result};
use crate::guest::grants::{cap, wait};
use crate::guest::lock::Mutex;

/// Bytes of a line that are kept before it goes to the log without its end.
const LONGEST_LINE: usize = 1024;
/// Bytes of one write to the launcher.
const LONGEST_WRITE: usize = 32 << 10;

/// Which of the two streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    Output,
    Error,
}

/// What is held back of a stream: the start of a letter, or of a line.
struct Held {
    output: Vec<u8>,
    error: Vec<u8>,
}

static HELD: Mutex<Held> = Mutex::new(Held { output: Vec::new(), error: Vec::new() });

/// How many bytes at the end are the start of a letter that is not whole.
fn unfinished(bytes: &[u8]) -> usize {
    match core::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.len().saturating_sub(error.valid_up_to()),
        _ => 0,
    }
}

/// Writes to a stream: all of it, or an error.
pub fn write(stream: Stream, bytes: &[u8]) -> Result<()> {
    let mut held = HELD.lock();
    let held = match stream {
        Stream::Output => &mut held.output,
        Stream::Error => &mut held.error,
    };
    held.extend_from_slice(bytes);
    let ready = match cap::<StandardClient>("out") {
        Some(out) => {
            let keep = unfinished(held);
            let rest = held.split_off(held.len().saturating_sub(keep));
            let ready = core::mem::replace(held, rest);
            for piece in ready.chunks(LONGEST_WRITE) {
                wait(out.write(&String::from_utf8_lossy(piece)))?;
            }
            return Ok(());
        }
        None => {
            let end = held.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at.saturating_add(1));
            let end = if end == 0 && held.len() >= LONGEST_LINE { held.len() } else { end };
            let rest = held.split_off(end);
            core::mem::replace(held, rest)
        }
    };
    for line in ready.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        log(stream, &String::from_utf8_lossy(line))?;
    }
    Ok(())
}

fn log(stream: Stream, line: &str) -> Result<()> {
    let level = if stream == Stream::Output { LogLevel::Info } else { LogLevel::Error };
    if let Some(logger) = cap::<LoggerClient>("logger") {
        wait(logger.write(level, line))?;
    } else if let Some(log) = cap::<DebugLogClient>("log") {
        wait(log.write(line))?;
    } else {
        return Err(Errno(libc::EBADF));
    }
    Ok(())
}

/// Hands on what is still held back.
pub fn flush() {
    for stream in [Stream::Output, Stream::Error] {
        let rest = {
            let Some(mut held) = HELD.try_lock() else { return };
            core::mem::take(if stream == Stream::Output { &mut held.output } else { &mut held.error })
        };
        if !rest.is_empty() {
            let text = String::from_utf8_lossy(&rest);
            // The process ends: nobody is left to be told.
            let _ = match cap::<StandardClient>("out") {
                Some(out) => wait(out.write(&text)).map_err(Errno::from),
                None => log(stream, &text),
            };
        }
    }
}

/// A line of the library's own, for a program that is about to end.
pub fn error_line(line: fmt::Arguments<'_>) {
    // As in `flush`.
    let _ = log(Stream::Error, &alloc::fmt::format(line));
}
