//! What Tab makes of the beginning of a line.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

/// What may stand at the beginning of a line, whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Completions(pub(crate) Vec<String>);

/// What there is to do about a beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// Nothing continues it.
    Nothing,
    /// This continues it, whatever is meant.
    With(String),
    /// Several things continue it, and share no more: their last words.
    Choice(Vec<String>),
}

impl Completions {
    /// Completes the word that `before` ends in. If no word has begun, there is nothing to complete, because every word
    /// would match.
    pub(crate) fn complete(&self, before: &str) -> Completed {
        if before.is_empty() {
            return Completed::Nothing;
        }
        // One word at a time: of what follows, up to the space behind the word.
        let rests: BTreeSet<&str> = self
            .0
            .iter()
            .filter_map(|line| line.strip_prefix(before))
            .map(|rest| rest.split_inclusive(' ').next().unwrap_or_default())
            .filter(|rest| !rest.is_empty())
            .collect();
        let Some(first) = rests.first() else { return Completed::Nothing };
        let shared = rests.iter().fold(*first, |shared, rest| common(shared, rest));
        if !shared.is_empty() {
            return Completed::With(String::from(shared));
        }
        let begun = before.rsplit(' ').next().unwrap_or_default();
        Completed::Choice(rests.iter().map(|rest| [begun, rest.trim_end()].concat()).collect())
    }
}

/// What two texts begin with.
fn common<'a>(one: &'a str, other: &str) -> &'a str {
    let end = one.char_indices().zip(other.chars()).find(|((_, left), right)| left != right).map(|((at, _), _)| at);
    let end = end.unwrap_or(one.len().min(other.len()));
    one.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(before: &str) -> Completed {
        let lines = ["/run", "/run cat ", "/run cksum ", "/run größe ", "/run grün ", "/run ls ", "/stop", "/status"];
        Completions(lines.map(String::from).into()).complete(before)
    }

    #[test]
    fn a_word_goes_on_as_far_as_it_is_clear() {
        assert_eq!(completed("/r"), Completed::With("un".into()));
        assert_eq!(completed("/run"), Completed::With(" ".into()));
        assert_eq!(completed("/run ca"), Completed::With("t ".into()));
        assert_eq!(completed("/s"), Completed::With("t".into()));
        assert_eq!(completed("/run g"), Completed::With("r".into()), "never within a letter");
    }

    #[test]
    fn where_it_is_not_clear_the_choice_is_told() {
        let choice = |words: &[&str]| Completed::Choice(words.iter().copied().map(String::from).collect());
        assert_eq!(completed("/st"), choice(&["/status", "/stop"]));
        assert_eq!(completed("/run c"), choice(&["cat", "cksum"]));
        assert_eq!(completed("/run "), choice(&["cat", "cksum", "größe", "grün", "ls"]));
    }

    #[test]
    fn what_nothing_goes_on_from_stays() {
        for before in ["", "/stop", "/x", "run", "/run cat ", "/run cat x"] {
            assert_eq!(completed(before), Completed::Nothing, "{before}");
        }
    }
}
