//! The shell's session with the terminal, opened again when the terminal has restarted.

use alloc::rc::Rc;
use core::cell::RefCell;
use core::future::Future;

use capos_rt::{Clock, log};
use capos_schema::cap::{CallError, Status};
use capos_schema::terminal::{TerminalClient, TerminalSessionClient};

/// What the terminal calls the session.
const LABEL: &str = "shell";
/// Bytes of results that a call accepts: a line of the terminal's longest, and what stands around it.
const RESULTS: u32 = 128 << 10;
/// Between two looks at a terminal that does not run, in nanoseconds. A restart by hand is not announced.
const PAUSE: u64 = 1_000_000_000;

/// The link to the terminal.
pub struct Link {
    terminal: TerminalClient,
    session: RefCell<TerminalSessionClient>,
    clock: Clock,
}

impl Link {
    /// Opens a session, when there is a terminal.
    pub async fn open(terminal: TerminalClient, clock: Clock) -> Rc<Self> {
        let session = RefCell::new(patiently(&terminal, &clock).await);
        Rc::new(Self { terminal, session, clock })
    }

    /// Calls the terminal once; where it has restarted, the next call finds it.
    ///
    /// # Errors
    /// The terminal's.
    pub async fn once<T, F: Future<Output = Result<T, CallError>>>(
        &self,
        call: impl FnOnce(TerminalSessionClient) -> F,
    ) -> Result<T, CallError> {
        let session = self.session.borrow().clone();
        let result = call(session.clone()).await;
        if let Err(error) = &result
            && error.is_disconnected()
            && *self.session.borrow() == session
        {
            let opened = open(&self.terminal).await?;
            *self.session.borrow_mut() = opened;
        }
        result
    }

    /// Calls the terminal, and once more where it restarted meanwhile.
    ///
    /// # Errors
    /// The terminal's.
    pub async fn call<T, F: Future<Output = Result<T, CallError>>>(
        &self,
        call: impl Fn(TerminalSessionClient) -> F,
    ) -> Result<T, CallError> {
        match self.once(&call).await {
            Err(error) if error.is_disconnected() => self.once(&call).await,
            result => result,
        }
    }

    /// Calls the terminal for what can wait for as long as a person likes: over its restarts, and where it is not started
    /// again, until somebody does that. What the shell holds is not given up for the want of a screen.
    ///
    /// # Errors
    /// [`TooLong`]: the answer has no room; the terminal is there.
    pub async fn wait<T, F: Future<Output = Result<T, CallError>>>(
        &self,
        call: impl Fn(TerminalSessionClient) -> F,
    ) -> Result<T, TooLong> {
        loop {
            let session = self.session.borrow().clone();
            let error = match call(session.clone()).await {
                Ok(answer) => return Ok(answer),
                // The same call would end the same way again.
                Err(CallError::Transport(Status::TooLarge)) => return Err(TooLong),
                Err(error) => error,
            };
            if !error.is_disconnected() {
                log::warning!("the terminal did not answer: {error}");
                self.clock.sleep(PAUSE).await;
            }
            if *self.session.borrow() == session {
                let opened = patiently(&self.terminal, &self.clock).await;
                *self.session.borrow_mut() = opened;
            }
        }
    }
}

impl Link {
    /// Waits until nothing was typed for this many milliseconds. A terminal that does not answer counts as one that is used.
    pub async fn idle(&self, milliseconds: u64) {
        loop {
            let idle = self.once(|terminal| async move { terminal.idle().await }).await.unwrap_or(0);
            let left = milliseconds.saturating_sub(idle);
            if left == 0 {
                return;
            }
            self.clock.sleep(left.saturating_mul(1_000_000).max(PAUSE)).await;
        }
    }
}

/// An answer of the terminal that is longer than what is accepted. A terminal refuses such lines itself, with a message. One
/// that gives more is not asked again for the same line, which is lost, and the shell continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

async fn open(terminal: &TerminalClient) -> Result<TerminalSessionClient, CallError> {
    Ok(capos_rt::with_results(&terminal.open(LABEL).await?, RESULTS))
}

/// Opens a session, however long that takes.
async fn patiently(terminal: &TerminalClient, clock: &Clock) -> TerminalSessionClient {
    let mut told = false;
    loop {
        match open(terminal).await {
            Ok(session) => return session,
            // It restarts; the next call waits for it.
            Err(error) if error.is_disconnected() => {}
            Err(error) => {
                if !core::mem::replace(&mut told, true) {
                    log::error!("there is no terminal; the shell waits for one: {error}");
                }
                clock.sleep(PAUSE).await;
            }
        }
    }
}
