//! Errors, and the path to the rejected value.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};

/// Characters of a name that an error quotes.
const MAX_NAME: usize = 64;
/// Bytes of a path, or a step more.
const MAX_PATH: usize = 256;

/// Why JSON or a message is refused, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReflectError {
    path: String,
    reason: Cow<'static, str>,
}

impl ReflectError {
    /// A refusal of the whole.
    pub fn whole(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { path: String::from("$"), reason: reason.into() }
    }

    /// Where, such as `$.items[3].name`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Why, as text.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for ReflectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

impl core::error::Error for ReflectError {}

/// One step of a path.
#[derive(Clone, Debug)]
enum Step {
    Name(String),
    Index(usize),
}

/// Where a walk is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    steps: Vec<Step>,
}

impl Path {
    /// Runs `inside` one step further in, by name.
    pub(crate) fn name<T>(
        &mut self,
        name: &str,
        inside: impl FnOnce(&mut Self) -> Result<T, ReflectError>,
    ) -> Result<T, ReflectError> {
        self.step(Step::Name(String::from(name)), inside)
    }

    /// Runs `inside` one step further in, by index.
    pub(crate) fn index<T>(
        &mut self,
        index: usize,
        inside: impl FnOnce(&mut Self) -> Result<T, ReflectError>,
    ) -> Result<T, ReflectError> {
        self.step(Step::Index(index), inside)
    }

    fn step<T>(
        &mut self,
        step: Step,
        inside: impl FnOnce(&mut Self) -> Result<T, ReflectError>,
    ) -> Result<T, ReflectError> {
        if self.steps.len() >= crate::MAX_DEPTH {
            return Err(self.error("nested deeper than 64 levels"));
        }
        self.steps.push(step);
        let result = inside(self);
        self.steps.pop();
        result
    }

    /// An error in the value here.
    pub(crate) fn error(&self, reason: impl Into<Cow<'static, str>>) -> ReflectError {
        let mut path = String::from("$");
        for step in &self.steps {
            // Writing to a string cannot fail.
            let _ = match step {
                Step::Name(name) if is_plain(name) => write!(path, ".{name}"),
                Step::Name(name) => write!(path, "[{:?}]", short(name)),
                Step::Index(index) => write!(path, "[{index}]"),
            };
            if path.len() > MAX_PATH {
                path.push('…');
                break;
            }
        }
        ReflectError { path, reason: reason.into() }
    }

    /// A refusal because capnp refuses.
    pub(crate) fn capnp(&self, error: &capnp::Error) -> ReflectError {
        self.error(alloc::format!("{error}"))
    }
}

/// A name from the JSON, shortened: an error's quotation of its input is bounded.
pub(crate) fn short(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(MAX_NAME) {
        Some((end, _)) => Cow::Owned(alloc::format!("{}…", name.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(name),
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_like_json_path() {
        let mut path = Path::default();
        let error = path
            .name("items", |path| path.index(3, |path| path.name("a b", |path| Err::<(), _>(path.error("no")))))
            .unwrap_err();
        assert_eq!(error.to_string(), "$.items[3][\"a b\"]: no");
        assert_eq!(path.error("here").path(), "$");
    }

    #[test]
    fn what_is_quoted_of_the_input_is_bounded() {
        for name in ["x".repeat(5000), "é\"".repeat(5000), "\u{1f512}".repeat(5000)] {
            let mut path = Path::default();
            let error = path.name(&name, |path| Err::<(), _>(path.error("no"))).unwrap_err().to_string();
            assert!(error.len() < 600 && error.contains('…') && error.ends_with(": no"), "{error}");
            let text = alloc::format!("{{{0:?}:1,{0:?}:2}}", "x".repeat(5000));
            assert!(crate::parse(&text).unwrap_err().to_string().len() < 200);
        }
        let mut path = Path::default();
        fn deep(path: &mut Path, left: usize) -> Result<(), ReflectError> {
            if left == 0 { Err(path.error("no")) } else { path.name(&"y".repeat(60), |path| deep(path, left - 1)) }
        }
        let error = deep(&mut path, 60).unwrap_err().to_string();
        assert!(error.len() < 400 && error.ends_with("…: no"), "{error}");
    }
}
