//! Where a test program writes: line by line to the log.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_process::Sink;
use capos_schema::cap::CallError;
use capos_schema::kernel::DebugLogClient;

/// Bytes of one line of the log at most; a longer one is cut into several.
const LONGEST: usize = 2000;

/// The output of a test program, and the line that has not ended yet: it may end within a letter.
pub struct Output {
    log: DebugLogClient,
    line: RefCell<Vec<u8>>,
}

impl Output {
    /// Nothing was written yet.
    pub fn new(log: DebugLogClient) -> Self {
        Self { log, line: RefCell::default() }
    }

    /// Logs what the program left without a line's end.
    ///
    /// # Errors
    /// The log is gone.
    pub async fn finish(&self) -> Result<(), CallError> {
        let rest = self.line.take();
        if rest.is_empty() { Ok(()) } else { self.log(&String::from_utf8_lossy(&rest)).await }
    }

    async fn log(&self, mut line: &str) -> Result<(), CallError> {
        while line.len() > LONGEST {
            let (piece, rest) = line.split_at(line.floor_char_boundary(LONGEST));
            self.log.write(&format!("said {piece}")).await?;
            line = rest;
        }
        self.log.write(&format!("said {line}")).await
    }
}

/// Logs the lines that have ended.
impl Sink for Output {
    async fn take(&self, bytes: &[u8]) -> Result<(), CallError> {
        let mut whole = self.line.take();
        whole.extend_from_slice(bytes);
        let end = whole.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at.saturating_add(1));
        *self.line.borrow_mut() = whole.split_off(end);
        for line in String::from_utf8_lossy(&whole).lines() {
            self.log(line).await?;
        }
        Ok(())
    }
}
