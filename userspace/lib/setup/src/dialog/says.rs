//! What the dialog says, and how it asks.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_schema::terminal::Style;

use super::{Next, Step};

/// What to do with a recovery code.
pub const KEEP_THE_CODE: &str = "Write it on paper and keep it away from the machine. It is not shown again. Without \
                                 passphrase and code nobody can read the disk.";

/// A step under construction.
pub(super) struct Says(Vec<(Style, String)>);

impl Says {
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    pub(super) fn error(why: &str) -> Self {
        Self::none().add(Style::Error, why)
    }

    pub(super) fn add(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }

    /// A recovery code, which is shown once.
    pub(super) fn code(self, code: &str) -> Self {
        self.add(Style::Plain, "This is your recovery code. It opens the disk if the passphrase is forgotten:")
            .add(Style::Bold, format!("  {code}"))
            .add(Style::Plain, KEEP_THE_CODE)
    }

    pub(super) fn then(self, next: Next) -> Step {
        Step { says: self.0, next }
    }
}

/// Asks for a line.
pub(super) fn ask(prompt: &str) -> Next {
    Next::Ask { prompt: prompt.to_owned(), secret: false, completions: Vec::new() }
}

/// Asks for a line that is not shown.
pub(super) fn secret(prompt: &str) -> Next {
    Next::Ask { prompt: prompt.to_owned(), secret: true, completions: Vec::new() }
}

/// A text of a service as a sentence.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let mut sentence: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    sentence.push_str(letters.as_str());
    if !sentence.ends_with('.') {
        sentence.push('.');
    }
    sentence
}

/// A time in milliseconds since 1970, as text.
#[must_use]
pub fn moment(milliseconds: u64) -> String {
    let nanoseconds = milliseconds.saturating_mul(1_000_000);
    format!("{} {} UTC", capos_audit::date(nanoseconds), capos_audit::clock(nanoseconds))
}
