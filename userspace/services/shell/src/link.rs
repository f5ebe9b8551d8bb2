//! The shell's session with the terminal, opened again when the terminal has restarted.

use alloc::rc::Rc;
use core::cell::RefCell;
use core::future::Future;

use capos_schema::cap::CallError;
use capos_schema::terminal::{TerminalClient, TerminalSessionClient};

/// What the terminal calls the session.
const LABEL: &str = "shell";

/// The link to the terminal.
pub struct Link {
    terminal: TerminalClient,
    session: RefCell<TerminalSessionClient>,
}

impl Link {
    /// Opens a session.
    ///
    /// # Errors
    /// The terminal is gone for good.
    pub async fn open(terminal: TerminalClient) -> Result<Rc<Self>, CallError> {
        let session = terminal.open(LABEL).await?;
        Ok(Rc::new(Self { terminal, session: RefCell::new(session) }))
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
        {
            self.again(&session).await?;
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

    /// Calls the terminal for what can wait for as long as a person likes, as often as it restarts meanwhile: how
    /// often it may is the supervisor's to say.
    ///
    /// # Errors
    /// The terminal's.
    pub async fn wait<T, F: Future<Output = Result<T, CallError>>>(
        &self,
        call: impl Fn(TerminalSessionClient) -> F,
    ) -> Result<T, CallError> {
        loop {
            let session = self.session.borrow().clone();
            match call(session.clone()).await {
                // A terminal that has failed for good opens no session.
                Err(error) if error.is_disconnected() => self.again(&session).await?,
                result => return result,
            }
        }
    }

    /// Opens a session in the place of a broken one, unless that was done already.
    async fn again(&self, broken: &TerminalSessionClient) -> Result<(), CallError> {
        if *self.session.borrow() != *broken {
            return Ok(());
        }
        let session = self.terminal.open(LABEL).await?;
        *self.session.borrow_mut() = session;
        Ok(())
    }
}
