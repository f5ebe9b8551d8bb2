//! Standard output and standard error: to the launcher's target, else to the log, line by line.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use capos_ring::Asked;
use capos_schema::kernel::DebugLogClient;
use capos_schema::system::{LogLevel, LoggerClient};

use crate::guest::errno::{Errno, Result};
use crate::guest::files::stream::{Output, Size};
use crate::guest::grants::{cap, wait};
use crate::guest::threads::lock::Mutex;

/// Bytes of one line of the log at most: a longer one is several, each but the last without its end.
const LONGEST_LINE: usize = 1024;

/// Which of the two streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    Output,
    Error,
}

impl Stream {
    /// Whether output goes to the log.
    pub fn goes_to_log(self) -> bool {
        self.given().is_none()
    }

    /// The launcher's grant for it, if any.
    fn given(self) -> Option<Output> {
        match self {
            Self::Output => Output::granted("out", "err"),
            Self::Error => Output::granted("err", "out"),
        }
    }
}

/// The held-back part of a stream that goes to the log: the start of a line.
struct Held {
    output: Vec<u8>,
    error: Vec<u8>,
}

static HELD: Mutex<Held> = Mutex::new(Held { output: Vec::new(), error: Vec::new() });

/// An open standard stream to write to. Dropping it signals the end of the stream to its reader.
#[derive(Debug)]
pub struct Writer(pub Stream);

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(given) = self.0.given() {
            given.close();
        }
    }
}

impl Writer {
    /// Writes all, or as much as there is room for if it may not block.
    pub fn write(&self, bytes: &[u8], blocks: bool) -> Result<usize> {
        match self.0.given() {
            Some(given) => given.write(bytes, blocks),
            None => write_lines(self.0, bytes).map(|()| bytes.len()),
        }
    }

    pub fn events(&self) -> i16 {
        self.0.given().map_or(libc::POLLOUT, |given| given.events())
    }

    /// To learn when it can be written.
    pub fn asked(&self) -> Option<Asked> {
        self.0.given()?.asked()
    }

    /// The terminal's size, if it is one.
    pub fn terminal(&self) -> Option<Size> {
        self.0.given()?.terminal()
    }
}

/// Writes to the log what of it is whole lines.
fn write_lines(stream: Stream, bytes: &[u8]) -> Result<()> {
    let mut held = HELD.lock();
    let held = match stream {
        Stream::Output => &mut held.output,
        Stream::Error => &mut held.error,
    };
    held.extend_from_slice(bytes);
    let end = held.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at.saturating_add(1));
    let end = if end == 0 && held.len() >= LONGEST_LINE { held.len() } else { end };
    let rest = held.split_off(end);
    let ready = core::mem::replace(held, rest);
    let lines = ready.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut written = Ok(());
    for line in lines {
        // An error with one line does not keep the others from the log.
        written = written.and(log(stream, &String::from_utf8_lossy(line)));
    }
    written
}

/// Writes a line to the log, or the lines that a long one is cut into.
fn log(stream: Stream, mut line: &str) -> Result<()> {
    let mut written = Ok(());
    while line.len() > LONGEST_LINE {
        let (piece, rest) = line.split_at(line.floor_char_boundary(LONGEST_LINE));
        written = written.and(log_line(stream, piece));
        line = rest;
    }
    written.and(log_line(stream, line))
}

fn log_line(stream: Stream, line: &str) -> Result<()> {
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

/// Writes the text that is still held back.
pub fn flush() {
    for stream in [Stream::Output, Stream::Error] {
        let rest = {
            let Some(mut held) = HELD.try_lock() else { return };
            core::mem::take(if stream == Stream::Output { &mut held.output } else { &mut held.error })
        };
        if !rest.is_empty() {
            // The process ends, so there is no caller to report an error to.
            let _ = log(stream, &String::from_utf8_lossy(&rest));
        }
    }
}

/// A line of the library's own, for a program that is about to end.
pub fn error_line(line: fmt::Arguments<'_>) {
    // As in `flush`.
    let _ = log(Stream::Error, &alloc::fmt::format(line));
}
