//! Text whose characters keep who wrote them.

use std::fmt;
use std::sync::Arc;

/// Marks a foreign character.
const FOREIGN: u32 = 1 << 31;

/// A character, and whether the template wrote it or somebody else. Comparisons see the character only.
#[derive(Clone, Copy)]
pub struct Char(u32);

impl Char {
    /// A character of the template.
    pub const fn own(character: char) -> Self {
        Self(character as u32)
    }

    /// A character of somebody else.
    pub const fn foreign(character: char) -> Self {
        Self(character as u32 | FOREIGN)
    }

    /// The character.
    pub fn get(self) -> char {
        char::from_u32(self.0 & !FOREIGN).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    /// Whether somebody else than the template wrote it.
    pub fn is_foreign(self) -> bool {
        self.0 & FOREIGN != 0
    }

    /// Another character by the same writer.
    pub fn with(self, character: char) -> Self {
        Self(character as u32 | self.0 & FOREIGN)
    }

    /// Whether Python counts it as white space.
    pub fn is_space(self) -> bool {
        let character = self.get();
        character.is_whitespace() || ('\x1c'..='\x1f').contains(&character)
    }
}

impl PartialEq for Char {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Char {}

impl PartialOrd for Char {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Char {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.get().cmp(&other.get())
    }
}

impl PartialEq<char> for Char {
    fn eq(&self, other: &char) -> bool {
        self.get() == *other
    }
}

impl fmt::Debug for Char {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// A text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(Arc<[Char]>);

impl Text {
    /// A text of the template.
    pub fn own(text: &str) -> Self {
        text.chars().map(Char::own).collect()
    }

    /// A text of somebody else.
    pub fn foreign(text: &str) -> Self {
        text.chars().map(Char::foreign).collect()
    }

    /// Its characters.
    pub fn chars(&self) -> &[Char] {
        &self.0
    }

    /// Whether it is this text.
    pub fn is(&self, text: &str) -> bool {
        self.0.iter().map(|c| c.get()).eq(text.chars())
    }
}

impl FromIterator<Char> for Text {
    fn from_iter<I: IntoIterator<Item = Char>>(characters: I) -> Self {
        Self(characters.into_iter().collect())
    }
}

impl From<Vec<Char>> for Text {
    fn from(characters: Vec<Char>) -> Self {
        Self(characters.into())
    }
}

impl From<&[Char]> for Text {
    fn from(characters: &[Char]) -> Self {
        Self(characters.into())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|c| fmt::Write::write_char(f, c.get()))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_string().fmt(f)
    }
}

/// Adds text of the template.
pub fn push_own(out: &mut Vec<Char>, text: &str) {
    out.extend(text.chars().map(Char::own));
}

/// Text without the white space (or the characters in `set`) at its ends.
pub fn trimmed<'t>(text: &'t [Char], set: Option<&[Char]>, start: bool, end: bool) -> &'t [Char] {
    let goes = |c: &Char| set.map_or_else(|| c.is_space(), |set| set.contains(c));
    let from = if start { text.iter().take_while(|c| goes(c)).count() } else { 0 };
    let rest = text.get(from..).unwrap_or_default();
    let behind = if end { rest.iter().rev().take_while(|c| goes(c)).count() } else { 0 };
    rest.get(..rest.len().saturating_sub(behind)).unwrap_or_default()
}

/// Where `part` first lies in `text` from `from` on.
pub fn find(text: &[Char], part: &[Char], from: usize) -> Option<usize> {
    let text = text.get(from..).filter(|text| text.len() >= part.len())?;
    first_place(text.iter().copied(), part)?.checked_add(from)
}

/// Where `part` last lies in `text`.
pub fn find_last(text: &[Char], part: &[Char]) -> Option<usize> {
    if part.len() > text.len() {
        return None;
    }
    let behind = first_place(text.iter().rev().copied(), &part.iter().rev().copied().collect::<Vec<_>>())?;
    text.len().checked_sub(behind)?.checked_sub(part.len())
}

/// Where `part` first lies, in time that grows with the text only.
fn first_place(text: impl Iterator<Item = Char>, part: &[Char]) -> Option<usize> {
    // How much of `part`'s beginning ends with its character at each place, at most.
    let mut borders: Vec<usize> = Vec::with_capacity(part.len());
    let mut border = 0;
    for (at, c) in part.iter().enumerate() {
        border = grown(part, &borders, if at == 0 { None } else { Some(border) }, *c);
        borders.push(border);
    }
    let mut matched = 0;
    if part.is_empty() {
        return Some(0);
    }
    for (at, c) in text.enumerate() {
        matched = grown(part, &borders, Some(matched), c);
        if matched == part.len() {
            return at.checked_add(1)?.checked_sub(matched);
        }
    }
    None
}

/// How much of `part`'s beginning a text ends with after one more character.
fn grown(part: &[Char], borders: &[usize], matched: Option<usize>, c: Char) -> usize {
    let Some(mut matched) = matched else { return 0 };
    loop {
        if part.get(matched) == Some(&c) {
            return matched.saturating_add(1);
        }
        let Some(shorter) = matched.checked_sub(1).and_then(|last| borders.get(last)) else { return 0 };
        matched = *shorter;
    }
}
