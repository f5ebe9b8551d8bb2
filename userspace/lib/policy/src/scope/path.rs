//! Paths in rules: normal form, whole components, block before allow.

#![deny(clippy::arithmetic_side_effects)]

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use hashbrown::HashMap;

/// A path that no rule can allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// `..` leads above the root.
    AboveRoot,
    /// It holds a NUL or another control character.
    Control,
    /// A rule blocks its place.
    Blocked,
    /// A rule blocks a place below it, and everything below it is asked for.
    BlockedBelow,
    /// No rule allows it.
    NotAllowed,
}

impl fmt::Display for PathError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::AboveRoot => "the path leads above the root",
            Self::Control => "the path holds a control character",
            Self::Blocked => "the path is blocked",
            Self::BlockedBelow => "a path below it is blocked; name a folder without a blocked one",
            Self::NotAllowed => "the path is outside what is allowed",
        })
    }
}

impl core::error::Error for PathError {}

/// A path's components with `.`, empty ones and `..` worked out. A path with and without a leading `/` means the same,
/// for there is one root: the directory that the session holds. No tree that a session holds has links, so a path is what
/// its names say.
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
    /// The rules in the form in which paths are checked. A rule of `block` that is not a path itself blocks everything, and
    /// one of `allow` allows nothing.
    #[must_use]
    pub fn compile(&self) -> PathIndex {
        let mut index = PathIndex { places: HashMap::new(), marks: Vec::from([Mark::default()]) };
        for rule in &self.block {
            let rule = normalise(rule).unwrap_or_default();
            let place = index.add(&rule, |mark| mark.block_below = true);
            index.mark(place, |mark| mark.block = true);
        }
        for rule in &self.allow {
            if let Ok(rule) = normalise(rule) {
                let place = index.add(&rule, |_| {});
                index.mark(place, |mark| mark.allow = true);
            }
        }
        index
    }

    /// Whether a path is allowed.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, path: &str) -> Result<(), PathError> {
        self.compile().check(path, &mut 0)
    }

    /// Whether a path and everything below it are allowed.
    ///
    /// # Errors
    /// Why not.
    pub fn check_tree(&self, path: &str) -> Result<(), PathError> {
        self.compile().check_tree(path, &mut 0)
    }
}

/// What the rules say of one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    allow: bool,
    block: bool,
    /// A place below it is blocked.
    block_below: bool,
}

/// Path rules as a tree by components. A check takes at most one look-up for each component of the path, however many
/// rules there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathIndex {
    /// The place of each component in a place. The root is place 0.
    places: HashMap<(usize, String), usize>,
    /// What is said of each place.
    marks: Vec<Mark>,
}

impl PathIndex {
    fn mark(&mut self, place: usize, change: impl FnOnce(&mut Mark)) {
        if let Some(mark) = self.marks.get_mut(place) {
            change(mark);
        }
    }

    /// The place of a rule; changes what is said of each place above it.
    fn add(&mut self, rule: &[&str], above: impl Fn(&mut Mark)) -> usize {
        let mut place = 0;
        for component in rule {
            self.mark(place, &above);
            let next = self.marks.len();
            place = *self.places.entry((place, String::from(*component))).or_insert(next);
            if place == next {
                self.marks.push(Mark::default());
            }
        }
        place
    }

    /// Whether a path is allowed. `lookups` counts those that it took.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, path: &str, lookups: &mut u64) -> Result<(), PathError> {
        self.mark_of(path, lookups).map(drop)
    }

    /// Whether a path and everything below it are allowed. `lookups` counts those that it took.
    ///
    /// # Errors
    /// Why not.
    pub fn check_tree(&self, path: &str, lookups: &mut u64) -> Result<(), PathError> {
        if self.mark_of(path, lookups)?.block_below { Err(PathError::BlockedBelow) } else { Ok(()) }
    }

    /// What is said of an allowed path itself.
    fn mark_of(&self, path: &str, lookups: &mut u64) -> Result<Mark, PathError> {
        let mut seen = Mark::default();
        let mut place = Some(0);
        let path = normalise(path)?;
        let mut components = path.iter();
        while let Some(mark) = place.and_then(|place: usize| self.marks.get(place)) {
            if mark.block {
                return Err(PathError::Blocked);
            }
            seen.allow |= mark.allow;
            let Some(component) = components.next() else {
                seen.block_below = mark.block_below;
                break;
            };
            *lookups = lookups.saturating_add(1);
            let at = place.unwrap_or_default();
            place = self.places.get(&Step(at, component)).copied();
        }
        if seen.allow { Ok(seen) } else { Err(PathError::NotAllowed) }
    }
}

/// A component in a place, as it is looked up.
#[derive(Hash)]
struct Step<'a>(usize, &'a str);

impl hashbrown::Equivalent<(usize, String)> for Step<'_> {
    fn equivalent(&self, key: &(usize, String)) -> bool {
        self.0 == key.0 && self.1 == key.1
    }
}
