//! Where a test program writes: line by line to the log.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::DebugLogClient;
use capos_schema::system::{StandardReadyResults, StandardScreenResults, StandardServer, StandardWriteBytesResults};

/// Bytes of one line of the log at most; a longer one is cut into several.
const LONGEST: usize = 2000;

/// What a test program writes, and the line that has not ended yet: it may end within a letter.
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

    /// Logs the lines that end in these bytes.
    async fn add(&self, bytes: &[u8]) -> Result<(), CallError> {
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

impl StandardServer for Output {
    async fn write(&self, _cx: &CallContext, text: String) -> Result<(), CallError> {
        self.add(text.as_bytes()).await
    }

    async fn write_bytes(
        &self,
        _cx: &CallContext,
        data: Vec<u8>,
        _wait: bool,
    ) -> Result<StandardWriteBytesResults, CallError> {
        self.add(&data).await?;
        Ok(StandardWriteBytesResults { written: u32::try_from(data.len()).unwrap_or(u32::MAX), open: true })
    }

    async fn ready(&self, _cx: &CallContext, _wait: bool) -> Result<StandardReadyResults, CallError> {
        Ok(StandardReadyResults { ready: true, open: true })
    }

    async fn screen(&self, _cx: &CallContext) -> Result<StandardScreenResults, CallError> {
        Ok(StandardScreenResults { terminal: false, columns: 0, rows: 0 })
    }

    async fn close(&self, _cx: &CallContext) -> Result<(), CallError> {
        Ok(())
    }
}
