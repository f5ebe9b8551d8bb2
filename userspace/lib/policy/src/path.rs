//! Paths in rules: normal form, whole components, block before allow.

#![deny(clippy::arithmetic_side_effects)]

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A path that no rule can allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// `..` leads above the root.
    AboveRoot,
    /// It holds a NUL or another control character.
    Control,
    /// A rule blocks its place.
    Blocked,
    /// No rule allows it.
    NotAllowed,
}

impl fmt::Display for PathError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::AboveRoot => "the path leads above the root",
            Self::Control => "the path holds a control character",
            Self::Blocked => "the path is blocked",
            Self::NotAllowed => "the path is outside what is allowed",
        })
    }
}

impl core::error::Error for PathError {}

/// A path's components with `.`, empty ones and `..` worked out. A path with and without a leading `/` means the same,
/// for there is one root: the directory that the session holds. Links have to be resolved before.
///
/// # Errors
/// `AboveRoot` and `Control`.
pub fn normalise(path: &str) -> Result<Vec<&str>, PathError> {
    if path.chars().any(char::is_control) {
        return Err(PathError::Control);
    }
    let mut components = Vec::new();
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." => {
                components.pop().ok_or(PathError::AboveRoot)?;
            }
            _ => components.push(component),
        }
    }
    Ok(components)
}

/// Where paths may be. A rule is a path; it covers itself and everything below it, by whole components.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathRules {
    pub allow: Vec<String>,
    /// Beats `allow`, however long either is.
    pub block: Vec<String>,
}

impl PathRules {
    /// Whether a path is allowed.
    ///
    /// # Errors
    /// Why not. A rule of `block` that is not a path itself blocks everything.
    pub fn check(&self, path: &str) -> Result<(), PathError> {
        let path = normalise(path)?;
        let covers = |rule: &String, broken: bool| {
            normalise(rule).map_or(broken, |rule| path.get(..rule.len()).is_some_and(|start| start == rule))
        };
        if self.block.iter().any(|rule| covers(rule, true)) {
            return Err(PathError::Blocked);
        }
        if self.allow.iter().any(|rule| covers(rule, false)) { Ok(()) } else { Err(PathError::NotAllowed) }
    }
}
