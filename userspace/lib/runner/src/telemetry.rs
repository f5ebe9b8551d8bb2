//! The events of a session's runs, as lines of the system log.

use alloc::rc::Rc;

use capos_agent::redact;
use capos_rt::{Clock, log};
use capos_run_state::{Buffer, Record, Sink, line};

/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// Writes events to the system log, one line of JSON for each. The loop does not wait for the log: what it cannot take in time
/// is dropped, oldest first, and counted.
pub struct ToLog(Rc<Buffer>);

impl ToLog {
    /// Begins to write. It ends when this is dropped and all is written.
    #[must_use]
    pub fn begin(clock: Clock) -> Self {
        let buffer = Rc::<Buffer>::default();
        let read = buffer.clone();
        capos_rt::spawn(async move {
            while let Some(record) = read.next().await {
                let dropped = read.take_dropped();
                if dropped > 0 {
                    log::warning!("telemetry: {dropped} events were dropped, which the log could not take in time");
                }
                let age = clock.now().saturating_sub(record.at) / MILLISECOND;
                let wall = clock.wall_clock().unwrap_or_default().saturating_sub(age);
                log::info!("{}", line(&record, wall, |text| redact(text).0));
                // Others run before the next line.
                capos_rt::yield_now().await;
            }
        });
        Self(buffer)
    }
}

impl Drop for ToLog {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Sink for ToLog {
    fn emit(&self, record: Record) {
        self.0.emit(record);
    }
}
