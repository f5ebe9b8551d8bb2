//! Paths: what a client may name below the directory that it holds. That directory is the root, so that a leading `/` says
//! nothing more, as for the rules of a policy and on a medium.

use alloc::string::String;
use alloc::vec::Vec;

/// Longest path, in bytes.
pub const MAX_PATH: usize = 4096;
/// Longest component, in bytes.
pub const MAX_NAME: usize = 255;
/// Most components.
pub const MAX_DEPTH: usize = 64;

/// Why a path is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PathError {
    /// Its `..` would leave the directory.
    Escapes,
    /// It is longer than [`MAX_PATH`], or has more than [`MAX_DEPTH`] components.
    TooLong,
    /// A component is longer than [`MAX_NAME`].
    NameTooLong(String),
    /// A component holds a NUL or another control character.
    BadCharacter,
    /// Nothing is left of it where a name is needed.
    NoName,
}

impl core::fmt::Display for PathError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Escapes => f.write_str("the path leads out of this directory by `..`"),
            Self::TooLong => write!(f, "the path is longer than {MAX_PATH} bytes or {MAX_DEPTH} components"),
            Self::NameTooLong(name) => {
                let start: String = name.chars().take(24).collect();
                write!(f, "the name `{start}…` is longer than {MAX_NAME} bytes")
            }
            Self::BadCharacter => f.write_str("the path holds a control character"),
            Self::NoName => f.write_str("the path names the directory itself; a name is needed"),
        }
    }
}

impl core::error::Error for PathError {}

/// The components of a path, `.` and `..` resolved by name.
///
/// # Errors
/// [`PathError`], all but `NoName`.
pub fn components(path: &str) -> Result<Vec<&str>, PathError> {
    if path.len() > MAX_PATH {
        return Err(PathError::TooLong);
    }
    if path.chars().any(char::is_control) {
        return Err(PathError::BadCharacter);
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or(PathError::Escapes)?;
            }
            name if name.len() > MAX_NAME => return Err(PathError::NameTooLong(name.into())),
            name => parts.push(name),
        }
        if parts.len() > MAX_DEPTH {
            return Err(PathError::TooLong);
        }
    }
    Ok(parts)
}

/// The directory components and the last name of a path.
///
/// # Errors
/// [`PathError`].
pub fn parent_and_name(path: &str) -> Result<(Vec<&str>, &str), PathError> {
    let mut parts = components(path)?;
    let name = parts.pop().ok_or(PathError::NoName)?;
    Ok((parts, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_judged() {
        assert_eq!(components("a/./b//c").unwrap(), ["a", "b", "c"]);
        assert_eq!(components("a/../b").unwrap(), ["b"]);
        assert_eq!(components(".").unwrap(), Vec::<&str>::new());
        assert_eq!(components("").unwrap(), Vec::<&str>::new());
        assert_eq!(components("/etc/./hosts").unwrap(), ["etc", "hosts"]);
        assert_eq!(components("/").unwrap(), Vec::<&str>::new());
        assert_eq!(components("/.."), Err(PathError::Escapes));
        assert_eq!(components("a/../../b"), Err(PathError::Escapes));
        assert_eq!(components(".."), Err(PathError::Escapes));
        assert_eq!(components("a\0b"), Err(PathError::BadCharacter));
        assert_eq!(components(&"x".repeat(256)), Err(PathError::NameTooLong("x".repeat(256))));
        assert_eq!(components(&"x/".repeat(65)), Err(PathError::TooLong));
        assert_eq!(parent_and_name("a/b").unwrap(), (vec!["a"], "b"));
        assert_eq!(parent_and_name("a/.."), Err(PathError::NoName));
    }

    proptest! {
        #[test]
        fn no_component_is_special(path in "[a-z./]{0,40}") {
            if let Ok(parts) = components(&path) {
                for part in parts {
                    prop_assert!(!part.is_empty() && part != "." && part != ".." && !part.contains('/'));
                }
            }
        }
    }
}
