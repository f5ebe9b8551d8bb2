//! The entries of a handbook, and which one is nearest to a question.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

/// A tool call that an answer makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The tool's name.
    pub tool: String,
    /// A JSON object.
    pub arguments: String,
}

/// A question, in one form or several, and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// At least one.
    pub questions: Vec<String>,
    /// The text.
    pub text: String,
    /// The calls after it.
    pub calls: Vec<Call>,
}

/// Entries, in the order in which they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handbook {
    pub(crate) entries: Vec<Entry>,
    /// The words of each entry's questions.
    words: Vec<BTreeSet<String>>,
    /// In how many entries a word is found.
    spread: BTreeMap<String, u64>,
}

/// The words of a text: runs of letters and digits, in small letters.
fn words(text: &str) -> BTreeSet<String> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| word.chars().flat_map(char::to_lowercase).collect())
        .collect()
}

impl Handbook {
    /// A handbook of these entries.
    #[must_use]
    pub fn new(entries: Vec<Entry>) -> Self {
        let words: Vec<BTreeSet<String>> =
            entries.iter().map(|entry| entry.questions.iter().flat_map(|text| words(text)).collect()).collect();
        let mut spread = BTreeMap::new();
        for word in words.iter().flatten() {
            let count: &mut u64 = spread.entry(word.clone()).or_default();
            *count = count.saturating_add(1);
        }
        Self { entries, words, spread }
    }

    /// The entries.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether any answer calls a tool.
    #[must_use]
    pub fn calls_tools(&self) -> bool {
        self.entries.iter().any(|entry| !entry.calls.is_empty())
    }

    /// The entry nearest to a question, among those whose tools are all offered. A word in common counts more if fewer
    /// entries have it; of two equally near ones the first wins. `None` if no entry has a word in common.
    pub fn nearest(&self, question: &str, offered: impl Fn(&str) -> bool) -> Option<&Entry> {
        let asked = words(question);
        let all = self.entries.len() as u64;
        let weight = |word: &String| {
            let in_entries = self.spread.get(word).copied().unwrap_or(all);
            all.saturating_mul(64).checked_div(in_entries).unwrap_or_default()
        };
        let mut best = None;
        for (entry, words) in self.entries.iter().zip(&self.words) {
            let score = words.intersection(&asked).map(weight).fold(0_u64, u64::saturating_add);
            let nearer = best.is_none_or(|(most, _)| score > most);
            if score > 0 && nearer && entry.calls.iter().all(|call| offered(&call.tool)) {
                best = Some((score, entry));
            }
        }
        best.map(|(_, entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(question: &str, text: &str, tool: Option<&str>) -> Entry {
        let calls = tool.map(|tool| Call { tool: tool.into(), arguments: "{}".into() });
        Entry { questions: vec![question.into()], text: text.into(), calls: calls.into_iter().collect() }
    }

    fn book() -> Handbook {
        Handbook::new(vec![
            entry("Is there a lamp in the room?", "Yes.", Some("lamp")),
            entry("Is there a lamp in the room?", "No.", None),
            entry("Where are the notes?", "In notes.txt.", None),
        ])
    }

    fn answer(question: &str, tools: &[&str]) -> Option<String> {
        book().nearest(question, |name| tools.contains(&name)).map(|entry| entry.text.clone())
    }

    #[test]
    fn the_nearest_entry_answers() {
        assert_eq!(answer("WHERE did I put my notes", &[]).unwrap(), "In notes.txt.");
        assert_eq!(answer("lamp", &[]).unwrap(), "No.", "its tool is not offered, so the first does not answer");
        assert_eq!(answer("lamp", &["lamp"]).unwrap(), "Yes.", "of two that are as near the first counts");
        assert_eq!(answer("lamps", &["lamp"]), None, "words are compared whole");
        assert_eq!(answer("", &["lamp"]), None);
        assert_eq!(Handbook::default().nearest("anything", |_| true), None);
    }

    #[test]
    fn rare_words_count_more() {
        assert_eq!(answer("in the the the notes", &[]).unwrap(), "In notes.txt.");
        let many = Handbook::new(vec![entry("what is the time", "1", None), entry("what is the weather", "2", None)]);
        assert_eq!(many.nearest("what is the the the weather", |_| true).unwrap().text, "2");
    }
}
