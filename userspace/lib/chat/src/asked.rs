//! The words with which people ask for a tool.
//!
//! A small model takes a request that it does not understand for another one. So its file can list, for a tool that
//! destroys or ends something, the words with which people ask for it. If the person has said none of them, the model
//! cannot call that tool. This rejects no request: the model calls another tool, or says that none fits.

use capos_gguf::Header;

use crate::Tool;

/// The file's list: a text for each such tool, with its name and then the words in small ASCII letters.
pub const ASKED_WITH: &str = "capos.asked_with";
/// Letters of the shortest word that is also recognised with two neighbouring letters swapped.
const SWAPPED: usize = 4;
/// Letters of the shortest word that can be another one with one letter too many or too few.
const MISTYPED: usize = 5;

/// The words with which people ask for some tools.
#[derive(Clone, Debug, Default)]
pub(crate) struct AskedWith {
    tools: Vec<(String, Vec<String>)>,
}

impl AskedWith {
    /// The list of a file; empty if it has none.
    pub fn of(header: &Header<'_>) -> Self {
        let texts = header.get(ASKED_WITH).and_then(|value| value.as_array());
        let texts = texts.into_iter().flat_map(|array| array.iter());
        let tools = texts.filter_map(|text| {
            let mut words = text.as_text()?.split_ascii_whitespace().map(String::from);
            Some((words.next()?, words.collect()))
        });
        Self { tools: tools.collect() }
    }

    /// The tools that can be called after what the person said. Those that are shown as forbidden stay: the model
    /// answers with their lines, too.
    pub fn callable(&self, tools: &[Tool], said: &[String]) -> Vec<Tool> {
        let is_asked = |tool: &&Tool| {
            let listed = self.tools.iter().find(|(name, _)| *name == tool.name);
            tool.forbidden || listed.is_none_or(|(_, words)| said.iter().any(|text| has_one(text, words)))
        };
        tools.iter().filter(is_asked).cloned().collect()
    }
}

/// Whether one of these words is in a text.
fn has_one(text: &str, words: &[String]) -> bool {
    let lower = text.to_ascii_lowercase();
    let mut found = lower.split(|letter: char| !letter.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    found.any(|word| words.iter().any(|listed| is_like(word, listed)))
}

/// Whether a word is the listed one, as people may type it.
fn is_like(word: &str, listed: &str) -> bool {
    let (typed, right) = (word.as_bytes(), listed.as_bytes());
    let same = |(one, other): &(&u8, &u8)| one == other;
    let first = typed.iter().zip(right).take_while(same).count();
    let last = typed.iter().rev().zip(right.iter().rev()).take_while(same).count();
    let alike = first.saturating_add(last);
    match (typed.len(), right.len()) {
        (length, other) if length == other => {
            let swapped = || {
                typed.get(first) == right.get(first.saturating_add(1))
                    && typed.get(first.saturating_add(1)) == right.get(first)
            };
            first == length || length >= SWAPPED && alike.saturating_add(2) == length && swapped()
        }
        (length, other) => length.max(other) >= MISTYPED && length.abs_diff(other) == 1 && alike >= length.min(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    #[test]
    fn words_are_recognised_as_people_type_them() {
        let listed = words("stop delete rm");
        for text in
            ["Delete it", "now: STOP.", "please sotp it", "dleete a.txt", "delet x", "deleete x", "sttop", "rm a"]
        {
            assert!(has_one(text, &listed), "{text}");
        }
        for text in
            ["display a.txt", "top", "stopping", "spot it", "post it", "deadline", "mr", "form", "deletable", ""]
        {
            assert!(!has_one(text, &listed), "{text}");
        }
    }
}
