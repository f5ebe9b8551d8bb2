//! Waiting for others on a machine whose clock leaps over time in which nothing is done.

use core::future::Future;

use capos_rt::{Either, Env, Error, select, yield_now};
use capos_schema::kernel::{ProcessClient, ThreadClient};

/// The kernel's highest priority: a thread that has it runs when it means to.
const HIGHEST: i8 = 2;
/// Its lowest one: such a thread runs while no other can.
const BACKGROUND: i8 = -1;

/// The campaign's thread.
pub struct Patience(ThreadClient);

impl Patience {
    /// The thread, which runs when it means to from now on.
    ///
    /// # Errors
    /// The manifest does not let it.
    pub async fn new(env: &Env) -> Result<Self, Error> {
        let thread = env.cap::<ProcessClient>("process")?.current_thread().await?;
        thread.set_priority(HIGHEST).await?;
        Ok(Self(thread))
    }

    /// Waits for a future by running at the lowest priority. So time passes only with work done, and a request to a
    /// disk ages no faster than the host's own disk permits.
    ///
    /// # Errors
    /// The thread's priority cannot be set.
    pub async fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, Error> {
        self.0.set_priority(BACKGROUND).await?;
        let idle = async {
            loop {
                yield_now().await;
            }
        };
        let (Either::First(value) | Either::Second(value)) = select(future, idle).await;
        self.0.set_priority(HIGHEST).await?;
        Ok(value)
    }
}
