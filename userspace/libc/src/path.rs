//! Paths: whole names from the top of what the process was granted, checked before a server is called.
//!
//! `.` and `..` are resolved by name, as in Plan 9 and WASI: `a/..` is where `a` is, whether `a` exists or not and
//! whatever it is. So a path never leaves a granted directory by the names after it.

use alloc::string::String;
use alloc::vec::Vec;

/// Longest path, in bytes, with the zero at its end.
pub const MAX_PATH: usize = 4096;
/// Longest name, in bytes.
pub const MAX_NAME: usize = 255;

/// Why a path is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathError {
    /// It has no bytes.
    Empty,
    /// It, or a name in it, is too long.
    TooLong,
}

/// A path from the top, without `.`, `..` and doubled slashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path {
    text: String,
    /// It was written as a directory's: with a slash, `.` or `..` at its end.
    pub directory: bool,
}

impl Path {
    /// The top.
    pub const fn top() -> Self {
        Self { text: String::new(), directory: true }
    }

    /// A path as it was written, from the top or from a base.
    pub fn new(base: &str, written: &str) -> Result<Self, PathError> {
        if written.is_empty() {
            return Err(PathError::Empty);
        }
        if written.len() >= MAX_PATH {
            return Err(PathError::TooLong);
        }
        let base = if written.starts_with('/') { "" } else { base };
        let mut names: Vec<&str> = Vec::new();
        for name in base.split('/').chain(written.split('/')) {
            match name {
                "" | "." => {}
                ".." => {
                    names.pop();
                }
                name if name.len() > MAX_NAME => return Err(PathError::TooLong),
                name => names.push(name),
            }
        }
        let last = written.rsplit('/').next().unwrap_or_default();
        let directory = names.is_empty() || matches!(last, "" | "." | "..");
        let mut text = String::new();
        for name in names {
            text.push('/');
            text.push_str(name);
        }
        if text.len() >= MAX_PATH {
            return Err(PathError::TooLong);
        }
        Ok(Self { text, directory })
    }

    /// As a program sees it.
    pub fn as_str(&self) -> &str {
        if self.text.is_empty() { "/" } else { &self.text }
    }

    /// The first name, and the rest after it; `None` for the top.
    pub fn split(&self) -> Option<(&str, &str)> {
        let text = self.text.strip_prefix('/')?;
        Some(text.split_once('/').unwrap_or((text, "")))
    }
}

/// The target of a path inside a directory that was opened: its names, or `None` if it leaves it or starts at the top.
pub fn inside(written: &str) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    if written.starts_with('/') {
        return None;
    }
    for name in written.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop()?;
            }
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

/// Whether a name can be part of a path, so that a server's names can be passed to the program.
pub fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.len() <= MAX_NAME && !name.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use proptest::prelude::*;

    fn path(base: &str, written: &str) -> String {
        Path::new(base, written).unwrap().as_str().into()
    }

    #[test]
    fn names_are_whole() {
        assert_eq!(path("/", "home/a"), "/home/a");
        assert_eq!(path("/home", "a//./b/"), "/home/a/b");
        assert_eq!(path("/home/a", "../b"), "/home/b");
        assert_eq!(path("/home", "../../../model"), "/model");
        assert_eq!(path("/home", "/"), "/");
        assert_eq!(path("/home", "..a"), "/home/..a");
        assert_eq!(Path::new("/home", ".."), Ok(Path::top()));
        assert_eq!(Path::new("/", ""), Err(PathError::Empty));
        assert_eq!(Path::new("/", &"a".repeat(256)), Err(PathError::TooLong));
        assert_eq!(Path::new("/", &"a/".repeat(2048)), Err(PathError::TooLong));
        assert_eq!(Path::new(&"/a".repeat(2047), "b/c"), Err(PathError::TooLong));
    }

    #[test]
    fn roots_are_first_names() {
        assert_eq!(Path::new("/", "/").unwrap().split(), None);
        assert_eq!(Path::new("/", "/home").unwrap().split(), Some(("home", "")));
        assert_eq!(Path::new("/", "/home/").unwrap().split(), Some(("home", "")));
        assert_eq!(Path::new("/", "/home/a/b").unwrap().split(), Some(("home", "a/b")));
    }

    #[test]
    fn directories_are_written_as_such() {
        for (written, directory) in
            [("a", false), ("a/", true), ("a/.", true), ("a/b/..", true), ("/", true), ("..", true)]
        {
            assert_eq!(Path::new("/home", written).unwrap().directory, directory, "{written}");
        }
    }

    #[test]
    fn an_opened_directory_is_not_left() {
        assert_eq!(inside("a/./b"), Some("a/b".into()));
        assert_eq!(inside("a/../b"), Some("b".into()));
        assert_eq!(inside("."), Some(String::new()));
        assert_eq!(inside(".."), None);
        assert_eq!(inside("a/../../b"), None);
        assert_eq!(inside("/a"), None);
    }

    proptest! {
        #[test]
        fn nothing_stands_behind_a_root_that_leaves_it(base in "(/[a-c.]{1,3}){0,4}", written in "[a-c./]{1,30}") {
            let path = Path::new(&base, &written).unwrap();
            if let Some((root, inside)) = path.split() {
                prop_assert!(is_name(root));
                prop_assert!(inside.is_empty() || inside.split('/').all(is_name));
            }
            // A path is its own, from wherever it is looked at.
            prop_assert_eq!(self::path(&written, path.as_str()), path.as_str());
            // Only the written bytes matter, not its start.
            let whole = if written.starts_with('/') { written.clone() } else { format!("{base}/{written}") };
            prop_assert_eq!(self::path("/", &whole), path.as_str());
        }

        #[test]
        fn inside_agrees_with_the_whole_path(written in "[a-c./]{1,30}") {
            if let Some(inside) = inside(&written) {
                let whole = format!("/root/{inside}");
                prop_assert_eq!(path("/root", &written), path("/", &whole));
            }
        }
    }
}
