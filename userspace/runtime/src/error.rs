//! The error of a program.

use alloc::borrow::Cow;
use alloc::format;
use core::fmt;

use capos_schema::cap::CallError;

/// An error message for people: what, where, what to do.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    words: Cow<'static, str>,
}

impl Error {
    /// An error with these words.
    pub fn new(words: impl Into<Cow<'static, str>>) -> Self {
        Self { words: words.into() }
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &str {
        &self.words
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// The same text: a `main` on `std` that ends with an error has it shown like this.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Error {}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        Self::new(format!("{error}"))
    }
}

impl From<capos_abi::Status> for Error {
    fn from(status: capos_abi::Status) -> Self {
        Self::new(status.words())
    }
}

impl From<capos_schema::wire::WireError> for Error {
    fn from(error: capos_schema::wire::WireError) -> Self {
        Self::new(format!("{error}"))
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> Self {
        Self::failed(error.words)
    }
}

/// Adds to an error which operation failed.
pub trait Context<T> {
    /// Puts words before the error's own.
    ///
    /// # Errors
    /// The same, with more words.
    fn context(self, words: &str) -> Result<T, Error>;

    /// The same with words that are made only when needed.
    ///
    /// # Errors
    /// The same, with more words.
    fn with_context<S: AsRef<str>>(self, words: impl FnOnce() -> S) -> Result<T, Error>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context(self, words: &str) -> Result<T, Error> {
        self.map_err(|error| Error::new(format!("{words}: {error}")))
    }

    fn with_context<S: AsRef<str>>(self, words: impl FnOnce() -> S) -> Result<T, Error> {
        self.map_err(|error| Error::new(format!("{}: {error}", words().as_ref())))
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, words: &str) -> Result<T, Error> {
        self.ok_or_else(|| Error::new(Cow::Owned(words.into())))
    }

    fn with_context<S: AsRef<str>>(self, words: impl FnOnce() -> S) -> Result<T, Error> {
        self.ok_or_else(|| Error::new(Cow::Owned(words().as_ref().into())))
    }
}
