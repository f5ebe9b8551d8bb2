//! The output of a program that is collected: always ready, never a screen.

use alloc::string::String;
use alloc::vec::Vec;

use capos_schema::cap::{CallContext, CallError};
use capos_schema::system::{StandardReadyResults, StandardScreenResults, StandardServer, StandardWriteBytesResults};

/// Takes the output of a program, in order.
#[allow(async_fn_in_trait, reason = "served on the thread that made it")]
pub trait Sink {
    /// Takes these bytes; they may end within a letter.
    ///
    /// # Errors
    /// The program's write fails.
    async fn take(&self, bytes: &[u8]) -> Result<(), CallError>;
}

/// Serves `Standard` for a program, and hands what it writes to a sink.
#[derive(Debug, Default)]
pub struct Collector<S>(pub S);

impl<S: Sink + 'static> StandardServer for Collector<S> {
    async fn write(&self, _cx: &CallContext, text: String) -> Result<(), CallError> {
        self.0.take(text.as_bytes()).await
    }

    async fn write_bytes(
        &self,
        _cx: &CallContext,
        data: Vec<u8>,
        _wait: bool,
    ) -> Result<StandardWriteBytesResults, CallError> {
        self.0.take(&data).await?;
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
