//! The required content of a text, and the forbidden one.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Texts that a file must contain, and must not.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Texts {
    /// Each of these is in it.
    pub contains: Vec<String>,
    /// None of these is.
    pub lacks: Vec<String>,
    /// Each of these follows the one before.
    pub in_order: Vec<String>,
    /// How often each of these is in it.
    pub count: BTreeMap<String, usize>,
}

/// Where `wanted` begins in `bytes`, from `from` on.
fn find(bytes: &[u8], wanted: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(wanted.len().max(1)).position(|part| part == wanted).map(|at| at + from)
}

/// How often a text is in bytes, without overlaps.
pub fn occurrences(bytes: &[u8], wanted: &[u8]) -> usize {
    let (mut count, mut from) = (0, 0);
    while let Some(at) = find(bytes, wanted, from) {
        count += 1;
        from = at + wanted.len().max(1);
    }
    count
}

impl Texts {
    /// Adds a sentence to `failures` for each expectation that `bytes`, the content of the file `name`, does not meet.
    pub fn check(&self, name: &str, bytes: &[u8], failures: &mut Vec<String>) {
        for wanted in &self.contains {
            if find(bytes, wanted.as_bytes(), 0).is_none() {
                failures.push(format!("{name} does not contain {wanted:?}"));
            }
        }
        for unwanted in &self.lacks {
            if let Some(at) = find(bytes, unwanted.as_bytes(), 0) {
                failures.push(format!("{name} contains {unwanted:?} at byte {at} and should not"));
            }
        }
        let mut from = 0;
        for (place, wanted) in self.in_order.iter().enumerate() {
            let Some(at) = find(bytes, wanted.as_bytes(), from) else {
                let after = place.checked_sub(1).and_then(|before| self.in_order.get(before));
                let after = after.map_or(String::new(), |before| format!(" after {before:?}"));
                failures.push(format!("{name} does not contain {wanted:?}{after}"));
                break;
            };
            from = at + wanted.len();
        }
        for (wanted, count) in &self.count {
            let found = occurrences(bytes, wanted.as_bytes());
            if found != *count {
                failures.push(format!("{name} contains {wanted:?} {found} times instead of {count}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(toml: &str, text: &str) -> Vec<String> {
        let texts: Texts = toml::from_str(toml).unwrap();
        let mut failures = Vec::new();
        texts.check("x", text.as_bytes(), &mut failures);
        failures
    }

    #[test]
    fn texts_are_found_and_missed() {
        assert!(failures("contains = ['a', 'c']\nlacks = ['d']", "abc").is_empty());
        assert_eq!(failures("contains = ['d']", "abc"), ["x does not contain \"d\""]);
        assert_eq!(failures("lacks = ['b']", "abc"), ["x contains \"b\" at byte 1 and should not"]);
        assert!(failures("in_order = ['a', 'a', 'b']", "a ab").is_empty());
        assert_eq!(failures("in_order = ['a', 'a']", "ba"), ["x does not contain \"a\" after \"a\""]);
        assert!(failures("count = { aa = 2 }", "aaaaa").is_empty());
        assert_eq!(failures("count = { a = 0 }", "a"), ["x contains \"a\" 1 times instead of 0"]);
    }
}
