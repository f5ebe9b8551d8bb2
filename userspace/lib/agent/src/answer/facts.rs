//! Whether an answer states something that no result says.
//!
//! An answer is text of the model. Three kinds of statements can be compared with the results of its turn: numbers, names, and the
//! states of things that a result lists. The comparison does not object to right answers. What can be computed from a result
//! counts as said, and so do words that may be ordinary ones and all that the conversation has said before.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_schema::system::ServiceState;
use serde_json::Value;

use crate::snapshot::quote;

/// Bytes of an answer and of the conversation that are compared. Of longer ones, nothing is.
const MOST: usize = 256 << 10;
/// Most numbers of a result of which differences and sums count as said.
const NUMBERS: usize = 64;
/// Numbers that results have and that follow from them, at most. With more, each number counts as known.
const ALL_NUMBERS: usize = 4096;
/// What a number may be divided by to be told in another unit.
const UNITS: [f64; 9] = [1e3, 1e6, 1e9, 1024.0, 1_048_576.0, 1_073_741_824.0, 60.0, 3600.0, 86_400.0];
/// Words before a verb that are no names.
const NO_NAMES: [&str; 14] = [
    "it",
    "this",
    "that",
    "there",
    "everything",
    "all",
    "nothing",
    "none",
    "which",
    "what",
    "and",
    "but",
    "who",
    "one",
];
/// Words that may stand between a verb and a state.
const BETWEEN: [&str; 5] = ["now", "still", "currently", "again", "already"];

/// The first statement of an answer that neither the results of its turn nor the conversation before it support, as what comes
/// behind "the answer says". `results` are those of the turn, in their order, as the model has read them. `before` is all else that the
/// conversation says before the answer.
#[must_use]
pub fn unsupported(answer: &str, results: &[&str], before: &[&str]) -> Option<String> {
    let size = results.iter().chain(before).fold(answer.len(), |size, text| size.saturating_add(text.len()));
    if results.is_empty() || size > MOST {
        return None;
    }
    let said = Said::of(results, before);
    clauses(answer).iter().find_map(|words| said.objection(words))
}

/// What is said before an answer.
#[derive(Default)]
struct Said {
    /// All of it in lower case.
    text: String,
    numbers: BTreeSet<u64>,
    /// States that results give things, by their names.
    states: BTreeMap<String, BTreeSet<String>>,
    /// A result has a list.
    has_list: bool,
}

impl Said {
    fn of(results: &[&str], before: &[&str]) -> Self {
        let mut said = Self::default();
        for text in results.iter().chain(before) {
            said.text.push_str(&text.to_lowercase());
            said.text.push('\n');
            said.numbers.extend(numbers(text));
        }
        for text in results {
            let counts = [text.lines().count(), text.split_whitespace().count(), text.chars().count(), text.len()];
            said.numbers.extend(counts.iter().map(|count| *count as u64));
            if let Ok(value) = serde_json::from_str::<Value>(text) {
                said.value(&value);
            }
        }
        said
    }

    /// What follows from a structured result: how many things of a kind there are, sums, differences, and states.
    fn value(&mut self, value: &Value) {
        match value {
            Value::Array(items) => {
                self.has_list = true;
                self.numbers.insert(items.len() as u64);
                let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
                let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
                for (name, member) in items.iter().filter_map(Value::as_object).flatten() {
                    let kind = kinds.entry(format!("{name} {member}")).or_default();
                    *kind = kind.saturating_add(1);
                    let sum = sums.entry(name).or_default();
                    *sum = sum.saturating_add(member.as_u64().unwrap_or(0));
                }
                self.numbers.extend(kinds.into_values().chain(sums.into_values()));
                items.iter().for_each(|item| self.value(item));
            }
            Value::Object(members) => {
                let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_lowercase);
                if let (Some(name), Some(state)) = (text("name"), text("state")) {
                    self.states.entry(name).or_default().insert(state);
                }
                let numbers: Vec<u64> = members.values().filter_map(Value::as_u64).take(NUMBERS).collect();
                for one in &numbers {
                    if self.numbers.len() > ALL_NUMBERS {
                        break;
                    }
                    self.numbers.extend(numbers.iter().map(|other| one.saturating_sub(*other)));
                }
                members.values().for_each(|member| self.value(member));
            }
            _ => {}
        }
    }

    fn objection(&self, words: &[&str]) -> Option<String> {
        let told = |word: &str| format!("{}, which neither a result nor the conversation has", quote(word));
        let first = words.first().copied().unwrap_or_default();
        if let Some(state) = self.state(words) {
            return Some(state);
        }
        if is_name_at_start(words) && !self.has(bare(first)) {
            return Some(told(bare(first)));
        }
        for (at, word) in words.iter().enumerate() {
            // The number of a point in a list.
            let is_point = at == 0 && word.ends_with(['.', ')']);
            let word = bare(word);
            let is_known = match number(word) {
                Some(number) => is_point || self.has_number(number),
                None => !is_name(word) || self.has(word),
            };
            if !is_known {
                return Some(told(word));
            }
        }
        self.listed(words).find(|word| !self.has(word)).map(told)
    }

    fn has(&self, word: &str) -> bool {
        self.text.contains(&word.to_lowercase())
    }

    /// Whether a number is said, if need be in another unit and rounded to what is written of it.
    fn has_number(&self, (written, places): (f64, u32)) -> bool {
        if self.numbers.len() > ALL_NUMBERS {
            return true;
        }
        let mut tolerance = 1.0;
        for _ in 0..places {
            tolerance /= 10.0;
        }
        self.numbers.iter().any(|number| {
            let number = *number as f64;
            written == number
                || UNITS.iter().any(|unit| is_near(number / unit, written, tolerance))
                || is_near(number * 4096.0 / 1024.0, written, tolerance)
                || is_near(number * 4096.0 / 1_048_576.0, written, tolerance)
                || self.is_share(number, written, tolerance)
        })
    }

    /// Whether it is the share of one number in another, in percent. Few numbers are tried.
    fn is_share(&self, number: f64, written: f64, tolerance: f64) -> bool {
        self.numbers.len() <= NUMBERS
            && (1.0..=100.0).contains(&written)
            && self
                .numbers
                .iter()
                .any(|whole| *whole > 1000 && is_near(number * 100.0 / *whole as f64, written, tolerance))
    }

    /// That something has a state that its result does not give it.
    fn state(&self, words: &[&str]) -> Option<String> {
        for (at, verb) in words.iter().enumerate() {
            if !matches!(*verb, "is" | "are" | "was" | "were") {
                continue;
            }
            let subject = bare(words.get(at.checked_sub(1)?)?).to_lowercase();
            let mut behind = words.get(at.saturating_add(1)..).unwrap_or_default().iter().map(|word| bare(word));
            let state = behind.find(|word| !BETWEEN.contains(word))?.to_lowercase();
            let is_state = ServiceState::ALL.iter().any(|known| known.name() == state);
            if let Some(states) = self.states.get(&subject)
                && is_state
                && !states.contains(&state)
                // A log line may say so of an earlier time.
                && !self.has(&format!("{verb} {state}"))
            {
                let known: Vec<&str> = states.iter().map(String::as_str).collect();
                return Some(format!("that {subject} is {state}, and the result says {}", known.join(" and ")));
            }
        }
        None
    }

    /// The names of an enumeration behind a colon, if there is a result with a list.
    fn listed<'a>(&self, words: &[&'a str]) -> impl Iterator<Item = &'a str> + use<'a> {
        let colon = words.iter().position(|word| word.ends_with(':')).filter(|_| self.has_list);
        let mut items: Vec<&str> = colon.and_then(|at| words.get(at.saturating_add(1)..)).unwrap_or_default().to_vec();
        if items.ends_with(&["and", "more."]) || items.ends_with(&["and", "more"]) {
            items.truncate(items.len().saturating_sub(2));
        }
        // Each item is one word, and there is a comma behind each but the last.
        let last = items.len().saturating_sub(1);
        let is_list = items.len() > 1 && items.iter().take(last).all(|item| item.ends_with(','));
        items.retain(|_| is_list);
        items.into_iter().map(bare).filter(|item| !item.is_empty())
    }
}

fn is_near(one: f64, other: f64, tolerance: f64) -> bool {
    (one - other).abs() < tolerance
}

/// The words of each sentence.
fn clauses(answer: &str) -> Vec<Vec<&str>> {
    let mut clauses = Vec::new();
    for line in answer.lines() {
        let mut clause = Vec::new();
        for word in line.split_whitespace() {
            clause.push(word);
            // A point behind the first word is that of a numbered list.
            if word.ends_with(['.', '!', '?', ';']) && clause.len() > 1 {
                clauses.push(core::mem::take(&mut clause));
            }
        }
        clauses.push(clause);
    }
    clauses
}

/// A word without the marks around it.
pub fn bare(word: &str) -> &str {
    word.trim_matches(|mark: char| !mark.is_alphanumeric() && !matches!(mark, '/' | '_' | '-')).trim_end_matches('-')
}

/// Whether a sentence begins with a name: ordinary words have a capital there.
fn is_name_at_start(words: &[&str]) -> bool {
    let (Some(first), Some(verb)) = (words.first(), words.get(1)) else { return false };
    let name = bare(first);
    matches!(*verb, "is" | "was") && name.starts_with(|letter: char| letter.is_lowercase()) && !NO_NAMES.contains(&name)
}

/// Whether a word can only be a name: of a file with an ending, or with an underscore.
pub fn is_name(word: &str) -> bool {
    let has_ending = || {
        // Of "e.g." and "i.e.", no part has more than one letter.
        let Some((stem, ending)) = word.rsplit_once('.') else { return false };
        let is_ending = (1..=4).contains(&ending.len()) && ending.chars().all(|letter| letter.is_ascii_lowercase());
        is_ending && (stem.len() > 1 || ending.len() > 1) && stem.ends_with(char::is_alphanumeric)
    };
    let has_underscore = || word.split('_').filter(|part| !part.is_empty()).count() > 1;
    has_ending() || has_underscore()
}

/// The value of a written number, and how many decimal places it has. Commas may stand between thousands.
fn number(word: &str) -> Option<(f64, u32)> {
    let is_number = word.starts_with(|digit: char| digit.is_ascii_digit())
        && word.chars().all(|letter| letter.is_ascii_digit() || matches!(letter, ',' | '.'));
    let digits: String = word.chars().filter(|letter| *letter != ',').collect();
    let places = digits.rsplit_once('.').map_or(0, |(_, places)| places.len());
    let places = u32::try_from(places).ok()?;
    is_number.then(|| digits.parse().ok()).flatten().map(|number| (number, places))
}

/// The whole numbers in a text.
fn numbers(text: &str) -> impl Iterator<Item = u64> {
    text.split(|letter: char| !letter.is_ascii_digit() && letter != ',').flat_map(|digits| {
        let joined: String = digits.chars().filter(|letter| *letter != ',').collect();
        let parts: Vec<String> = digits.split(',').map(ToString::to_string).collect();
        parts.into_iter().chain([joined]).filter_map(|digits| digits.parse().ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SERVICES: &str = r#"{"services":[{"frames":304,"name":"files","restarts":0,"state":"running"},{"frames":8,"name":"exporter","restarts":3,"state":"failed"}]}"#;

    fn of(answer: &str, result: &str) -> Option<String> {
        unsupported(answer, &[result], &["which services are running?"])
    }

    #[test]
    fn what_no_result_says_is_found() {
        for (answer, said) in [
            ("exporter is running.", "that exporter is running, and the result says failed"),
            (
                "I looked. The exporter is now running, restarted 3 times.",
                "that exporter is running, and the result says failed",
            ),
            ("nginx is running.", "\"nginx\", which neither a result nor the conversation has"),
            ("There are: files, nginx and more.", "\"nginx\", which neither a result nor the conversation has"),
            ("exporter is failed, restarted 7 times.", "\"7\", which neither a result nor the conversation has"),
            ("exporter restarted 7.", "\"7\", which neither a result nor the conversation has"),
            ("It wrote report.txt for you.", "\"report.txt\", which neither a result nor the conversation has"),
            ("The service file_cache failed.", "\"file_cache\", which neither a result nor the conversation has"),
        ] {
            assert_eq!(of(answer, SERVICES).as_deref(), Some(said), "{answer}");
        }
        let status = r#"{"freeBytes":104857600,"memoryBytes":536870912,"uptimeSeconds":185}"#;
        assert!(of("250 MiB are free.", status).is_some());
    }

    #[test]
    fn right_answers_are_supported() {
        for answer in [
            "exporter is failed, restarted 3 times.",
            "There are: files, exporter.",
            "There are: files, exporter and more.",
            "2 services: 1 failed, 1 runs.",
            "It is running. Everything is running, e.g. files.",
            "1. files\n2. exporter",
            "7) files\n9) exporter",
            "Done. /tools lists what I have.",
            "The exporter is not running; is the well-known files/folders pair built-in?",
        ] {
            assert_eq!(of(answer, SERVICES), None, "{answer}");
        }
        let status = r#"{"freeBytes":104857600,"memoryBytes":536870912,"uptimeSeconds":185}"#;
        for answer in [
            "104857600 of 536870912 bytes are free.",
            "100 MiB of 512 MiB are free, 19.5 %.",
            "412 MiB are used; up 3 minutes.",
        ] {
            assert_eq!(of(answer, status), None, "{answer}");
        }
        // Memory in pages of 4 KiB.
        for answer in ["files uses 1216 KiB, exporter 32 KiB.", "files uses 1.2 MiB."] {
            assert_eq!(of(answer, SERVICES), None, "{answer}");
        }
        assert!(of("files uses 308 KiB.", SERVICES).is_some());
        // Two results of one turn: both states were true.
        let later = SERVICES.replace("failed", "running");
        assert_eq!(unsupported("exporter is running.", &[SERVICES, &later], &[]), None);
        assert_eq!(unsupported("It has 7 lines, 9.9 %.", &[], &["hi"]), None);
    }

    #[test]
    fn only_what_can_be_nothing_else_is_a_name() {
        for name in ["a.txt", "notes.md", "a.b.rs", "file_cache", "e.gz", "ab.c"] {
            assert!(is_name(name), "{name}");
        }
        for word in ["e.g", "notes", "done.Then", "it.TXT", "yes.however", "_", "a_", ".txt", "a.", "é-.txt"] {
            assert!(!is_name(word), "{word}");
        }
    }

    /// What is longer is not compared, and what is not longer is.
    #[test]
    fn only_short_texts_are_compared() {
        let answer = "It wrote report.txt.";
        for (more, is_compared) in [(0, true), (1, false), (MOST, false)] {
            let before = " ".repeat(MOST - answer.len() - SERVICES.len() + more);
            assert_eq!(unsupported(answer, &[SERVICES], &[&before]).is_some(), is_compared, "{more}");
        }
    }

    proptest! {
        /// An answer of a result's own words is never objected to.
        #[test]
        fn own_words_are_supported(words in proptest::collection::vec("[a-z]{1,8}(\\.txt|_x)?|[0-9]{1,9}", 1..20), from: prop::sample::Index) {
            let result = words.join(" ");
            let quoted = words.get(from.index(words.len())..).unwrap_or_default().join(" ");
            prop_assert_eq!(unsupported(&format!("It begins: {quoted}"), &[&result], &[]), None);
        }

        /// A number that is far from all others is objected to.
        #[test]
        fn another_number_is_not_supported(number in 2_000_000_000_u64..3_000_000_000) {
            let answer = format!("It has {number} bytes.");
            prop_assert!(of(&answer, SERVICES).is_some());
        }

        /// A result with more numbers than are kept objects to none, in a bounded time.
        #[test]
        fn many_numbers_are_all_known(objects in 60_u64..70) {
            let object = |object: u64| -> Value { (0..64_u64).map(|member| (member.to_string(), Value::from((object << 40) + member * member * 7919))).collect() };
            let result = Value::from((0..objects).map(object).collect::<Vec<_>>()).to_string();
            let said = Said::of(&[&result], &[]);
            prop_assert!(said.numbers.len() <= ALL_NUMBERS + 64 * 64 + 2 * 64 * 70, "{}", said.numbers.len());
            prop_assert_eq!(unsupported("It holds 12345 bytes.", &[&result], &[]), None);
        }

        /// No text makes it fail.
        #[test]
        fn any_text_is_compared(answer in "\\PC{0,80}", result in "\\PC{0,80}") {
            let _ = unsupported(&answer, &[&result], &[]);
        }
    }
}
