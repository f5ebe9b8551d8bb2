//! The actions of a response besides output.

use capos_rt::CancelToken;
use capos_schema::cap::CallError;
use capos_schema::kernel::CapabilityTableClient;
use capos_script::{ErrorKind, Event, weights_text};

use crate::misbehave;
use crate::weights::Weights;

/// A millisecond in nanoseconds.
const MILLISECOND: u64 = 1_000_000;
/// Steps of a computation between two checks of the clock and of cancellation.
const SLICE: u32 = 50_000;

/// The objects that the events of a response act on.
pub struct Stage {
    /// The model's file.
    pub weights: Weights,
    /// The process's own capabilities.
    pub table: CapabilityTableClient,
    /// The same as text.
    pub held: String,
}

impl Stage {
    /// Carries out an event, and returns its output. Once cancelled it waits for nothing.
    pub async fn play(&self, event: Event, cancelled: &CancelToken) -> Result<Option<Event>, CallError> {
        match event {
            Event::Weights { offset, bytes } => {
                Ok(Some(Event::Text(weights_text(self.weights.bytes(), offset, bytes))))
            }
            Event::Capabilities => Ok(Some(Event::Text(self.held.clone()))),
            Event::Reach => Ok(Some(Event::Text(misbehave::reach(&self.table).await?))),
            Event::Delay(milliseconds) => {
                let wait = capos_rt::sleep(u64::from(milliseconds).saturating_mul(MILLISECOND));
                // Whether cancelled or not, the next event reports it.
                let _ended = capos_rt::or_cancelled(cancelled, wait).await;
                Ok(None)
            }
            Event::Compute(milliseconds) => {
                compute(u64::from(milliseconds).saturating_mul(MILLISECOND), cancelled).await?;
                Ok(None)
            }
            Event::Hang => {
                cancelled.cancelled().await;
                Ok(None)
            }
            Event::Error { kind, message } => Err(exception(kind, message)),
            Event::Deaf => misbehave::deaf(),
            Event::Exit(code) => misbehave::exit(code),
            Event::Crash(crash) => misbehave::crash(crash),
            said @ (Event::Text(_)
            | Event::TextBytes(_)
            | Event::Call(_)
            | Event::Loose { .. }
            | Event::Finish { .. }) => Ok(Some(said)),
        }
    }
}

/// Computes for this many nanoseconds, or until it is cancelled.
async fn compute(nanoseconds: u64, cancelled: &CancelToken) -> Result<(), CallError> {
    let end = capos_rt::now()?.saturating_add(nanoseconds);
    let mut state = 1_u64;
    while !cancelled.is_cancelled() && capos_rt::now()? < end {
        for _ in 0..SLICE {
            state = std::hint::black_box(state.wrapping_mul(0x5851_f42d_4c95_7f2d).rotate_left(17));
        }
        // Others are served, and cancellations are heard.
        capos_rt::yield_now().await;
    }
    Ok(())
}

/// The exception that a script asks for.
fn exception(kind: ErrorKind, message: String) -> CallError {
    match kind {
        ErrorKind::Failed => CallError::failed(message),
        ErrorKind::Overloaded => CallError::overloaded(message),
        ErrorKind::Disconnected => CallError::disconnected(message),
        ErrorKind::Unimplemented => CallError::unimplemented(message),
        ErrorKind::InvalidArgument => CallError::invalid_argument(message),
    }
}
