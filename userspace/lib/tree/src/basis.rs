//! What a file has to hold before it is changed.

use sha2::{Digest, Sha256};

use crate::MAX_TEXT;

/// What a file has to hold before it is changed, so that a person who was shown the change gets exactly that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis<'a> {
    /// Anything, or nothing.
    Any,
    /// Content with this SHA-256, in hexadecimal digits. Empty: there must be no file.
    Hash(&'a str),
}

impl Basis<'_> {
    /// Bytes of a file that are compared. A file whose change was shown is shorter.
    pub const BYTES: usize = MAX_TEXT + 1;

    /// Whether there may be what was found: the first [`BYTES`](Self::BYTES) of a file, or none.
    #[must_use]
    pub fn admits(self, found: Option<&[u8]>) -> bool {
        match self {
            Self::Any => true,
            Self::Hash(hash) => found.map(|bytes| hex::encode(Sha256::digest(bytes))).unwrap_or_default() == hash,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::cell::RefCell;

    use crate::{Tree, suite};

    /// Requirement C38.
    #[test]
    fn c38_only_the_change_that_was_shown_is_made() {
        suite::only_the_change_that_was_shown_is_made(&RefCell::new(Tree::new(suite::BUDGET)));
    }
}
