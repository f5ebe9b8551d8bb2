//! A text that is not shown and not left in memory.

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

/// A passphrase on its way. `Debug` does not show it, and dropping overwrites it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Takes the text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new("correct horse".into());
        assert!(!format!("{secret:?}").contains("horse"));
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"correct horse\"");
    }
}
