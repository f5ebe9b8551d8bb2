//! Time. It takes a `timer` capability: a process without one cannot read the time.

use capos_schema::cap::CallError;
use capos_schema::kernel::TimerClient;

use crate::call::wait_for;
use crate::error::Error;
use crate::runtime;

/// The clock of a process that holds a timer.
#[derive(Clone, Debug)]
pub struct Clock {
    timer: TimerClient,
}

impl Clock {
    /// The clock of a timer capability.
    #[must_use]
    pub fn new(timer: TimerClient) -> Self {
        Self { timer }
    }

    /// Nanoseconds since boot; never goes back. 0 if the timer was revoked.
    #[must_use]
    pub fn now(&self) -> u64 {
        wait_for(self.timer.now()).unwrap_or(0)
    }

    /// Milliseconds since 1970, as the machine's clock says.
    ///
    /// # Errors
    /// The timer was revoked.
    pub fn wall_clock(&self) -> Result<u64, CallError> {
        wait_for(self.timer.wall_clock())
    }

    /// Sets the wall clock, in milliseconds since 1970.
    ///
    /// # Errors
    /// The timer does not permit that, or the machine's clock does not hold the time.
    pub async fn set_wall_clock(&self, milliseconds: u64) -> Result<(), CallError> {
        self.timer.set_wall_clock(milliseconds).await
    }

    /// Waits until this time. Ends at once if the timer was revoked.
    pub async fn sleep_until(&self, nanoseconds: u64) {
        drop(self.timer.sleep_until(nanoseconds).await);
    }

    /// Waits this long.
    pub async fn sleep(&self, nanoseconds: u64) {
        self.sleep_until(self.now().saturating_add(nanoseconds)).await;
    }
}

/// The process's clock.
///
/// # Errors
/// The process was given no `timer`.
pub(crate) fn clock() -> Result<Clock, Error> {
    let timer = runtime::with(|rt| rt.facts.borrow().timer.clone()).flatten();
    timer.map(Clock::new).ok_or_else(|| {
        Error::new("this process was given no `timer`; grant it one in the manifest to let it read the time")
    })
}

/// Nanoseconds since boot.
///
/// # Errors
/// The process was given no `timer`.
pub fn now() -> Result<u64, Error> {
    Ok(clock()?.now())
}

/// Waits until this time, in nanoseconds since boot.
///
/// # Errors
/// The process was given no `timer`.
pub async fn sleep_until(nanoseconds: u64) -> Result<(), Error> {
    clock()?.sleep_until(nanoseconds).await;
    Ok(())
}

/// Waits this many nanoseconds.
///
/// # Errors
/// The process was given no `timer`.
pub async fn sleep(nanoseconds: u64) -> Result<(), Error> {
    clock()?.sleep(nanoseconds).await;
    Ok(())
}
