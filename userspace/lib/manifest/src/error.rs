//! An error in a manifest, and its place.

use std::fmt;

/// An error with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    file: String,
    place: String,
    reason: String,
}

impl ManifestError {
    /// An error at a place of a file.
    pub(crate) fn new(file: &str, place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { file: file.into(), place: place.into(), reason: reason.into() }
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.file, self.place, self.reason)
    }
}

impl std::error::Error for ManifestError {}
