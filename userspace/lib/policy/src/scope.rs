//! The permitted arguments of a tool.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_plural::count;

use crate::arguments;
use crate::path::PathRules;

/// Why arguments are out of scope.
pub type ScopeError = String;

/// Bounds on the arguments of one tool. Without any, everything that its schema allows is in scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Arguments that are paths, by name, and where they may be.
    pub paths: Vec<(String, PathRules)>,
    /// The longest arguments, in bytes of their JSON text.
    pub max_bytes: Option<usize>,
}

impl Scope {
    /// Whether arguments, the JSON text of an object, are in scope. An argument that a rule names and that is absent is
    /// not checked; one that is not text is out of scope.
    ///
    /// # Errors
    /// What is out of scope.
    pub fn check(&self, arguments: &str) -> Result<(), ScopeError> {
        if let Some(max) = self.max_bytes.filter(|max| arguments.len() > *max) {
            return Err(format!("the arguments are {} long, and {max} are allowed", count(arguments.len(), "byte")));
        }
        if self.paths.is_empty() {
            return Ok(());
        }
        let arguments = arguments::texts(arguments, |member| self.paths.iter().any(|(name, _)| name == member))
            .map_err(|bad| format!("the arguments are not JSON: {bad}"))?;
        for (name, rules) in &self.paths {
            match arguments.get(name) {
                None => {}
                Some(Some(path)) => rules.check(path).map_err(|why| format!("{name} {path:?}: {why}"))?,
                Some(None) => return Err(format!("{name} is not a text")),
            }
        }
        Ok(())
    }
}
