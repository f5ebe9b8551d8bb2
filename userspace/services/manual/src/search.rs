//! The ranking of passages, by Okapi BM25 in whole numbers: a word counts more if fewer passages have it, and less each time it
//! recurs. A word of a heading counts as several of the text.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::passage::{BELOW, Passage};
use crate::words::{asked, words};

/// How many words of the text one word of the nearest heading counts as, and one of those above it.
const HEADING: u16 = 4;
const ABOVE: u16 = 2;
/// In hundredths: how soon a word that recurs counts no more, and how much a long passage is held against it.
const SATURATION: u64 = 120;
const LENGTH: u64 = 50;
/// In hundredths: what the manual's word for a word of the query counts, and what a passage of a guide counts.
const SAME: u64 = 90;
const GUIDE: u64 = 130;

/// The words of all passages.
#[derive(Debug, Default)]
pub struct Index {
    /// Of each word, the passages that have it and how often, in their order.
    found: BTreeMap<String, Vec<(u16, u16)>>,
    /// How many words each passage has, and whether it is of a guide.
    passages: Vec<(u64, bool)>,
}

impl Index {
    pub fn new(passages: &[Passage]) -> Self {
        let mut index = Self::default();
        for (number, passage) in (0_u16..).zip(passages) {
            let (above, nearest) = passage.heading.rsplit_once(BELOW).unwrap_or(("", &passage.heading));
            index.count(number, nearest, HEADING);
            index.count(number, above, ABOVE);
            let words = index.count(number, &passage.text, 1);
            index.passages.push((words, passage.is_guide));
        }
        index
    }

    /// Counts the words of a text; how many there are.
    fn count(&mut self, passage: u16, text: &str, worth: u16) -> u64 {
        let mut all = 0_u64;
        for word in words(text) {
            all = all.saturating_add(1);
            let found = self.found.entry(word).or_default();
            match found.last_mut() {
                Some((last, times)) if *last == passage => *times = times.saturating_add(worth),
                _ => found.push((passage, worth)),
            }
        }
        all
    }

    /// The numbers of the passages that say most about a query, the best first, and how much of the query each
    /// [has](crate::Manual::search).
    pub fn search(&self, query: &str, max: usize) -> impl Iterator<Item = (usize, u8)> {
        let all = self.passages.len() as u64;
        let total: u64 = self.passages.iter().map(|(words, _)| words).sum();
        let mean = total.checked_div(all).unwrap_or_default().max(1);
        // Of each passage: its score so far, and how rare the words are together that it has.
        let mut scores: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
        let mut rarities = 0_u64;
        for asked in asked(query) {
            // Of a passage that has both words, both count.
            let mut times: BTreeMap<u16, u64> = BTreeMap::new();
            for (word, worth) in [(Some(&asked.word), 100), (asked.same.as_ref(), SAME)] {
                for (passage, count) in word.and_then(|word| self.found.get(word)).into_iter().flatten() {
                    let times = times.entry(*passage).or_default();
                    *times = times.saturating_add(u64::from(*count).saturating_mul(worth));
                }
            }
            let rarity = rarity(all, times.len() as u64);
            rarities = rarities.saturating_add(rarity);
            for (passage, times) in times {
                let words = self.passages.get(usize::from(passage)).map_or(0, |(words, _)| *words);
                let length = LENGTH.saturating_mul(words).checked_div(mean).unwrap_or_default();
                let length = (100 - LENGTH).saturating_add(length);
                let over = times.saturating_add(SATURATION.saturating_mul(length).saturating_div(100));
                let part = times.saturating_mul(100 + SATURATION).saturating_mul(rarity).checked_div(over);
                let (score, together) = scores.entry(passage).or_default();
                *score = score.saturating_add(part.unwrap_or_default());
                *together = together.saturating_add(rarity);
            }
        }
        // A passage with all words is better than one with a part of them that recurs.
        let rank = |(passage, (score, together)): (u16, (u64, u64))| {
            let whole = score.saturating_mul(together).checked_div(rarities.max(1)).unwrap_or_default();
            let is_guide = self.passages.get(usize::from(passage)).is_some_and(|(_, is_guide)| *is_guide);
            let has = together.saturating_mul(100).checked_div(rarities).unwrap_or_default();
            (
                Reverse(whole.saturating_mul(if is_guide { GUIDE } else { 100 })),
                passage,
                u8::try_from(has).unwrap_or(100),
            )
        };
        let mut ranked: Vec<_> = scores.into_iter().map(rank).collect();
        ranked.sort_unstable();
        ranked.into_iter().take(max).map(|(_, passage, has)| (passage.into(), has))
    }
}

/// How much a word counts: 64 times the binary logarithm of the share of passages that have it.
fn rarity(all: u64, with: u64) -> u64 {
    let share = all.saturating_add(1).saturating_mul(1024).checked_div(with.max(1)).unwrap_or_default();
    logarithm(share).saturating_sub(logarithm(1024)).max(1)
}

/// 64 times the binary logarithm, between powers of two by a straight line.
fn logarithm(number: u64) -> u64 {
    let number = number.max(1);
    let whole = u64::from(number.ilog2());
    let rest = number.saturating_sub(1 << whole);
    whole.saturating_mul(64).saturating_add(rest.saturating_mul(64) >> whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(heading: &str, text: &str) -> Passage {
        Passage { page: "page", heading: heading.into(), text: text.into(), is_guide: false }
    }

    fn best<'a>(passages: &'a [Passage], query: &str) -> Vec<&'a str> {
        Index::new(passages).search(query, 9).map(|(passage, _)| passages[passage].heading.as_str()).collect()
    }

    #[test]
    fn rare_words_and_headings_count_more() {
        let all = [
            passage("One", "the disk and the disk and the disk"),
            passage("Two", "a disk with a key"),
            passage("Page > Key", "something else"),
            passage("Page > Other", "nothing"),
        ];
        assert_eq!(best(&all, "the key of a disk"), ["Two", "Page > Key", "One"]);
        assert_eq!(best(&all, "keys"), ["Page > Key", "Two"]);
        assert_eq!(best(&all, "elephants"), [""; 0]);
        assert_eq!(best(&all, ""), [""; 0]);
        assert_eq!(best(&[], "key"), [""; 0]);
        assert_eq!(Index::new(&all).search("disk key", 1).count(), 1);
        let has = |query: &str| Index::new(&all).search(query, 1).map(|(_, has)| has).collect::<Vec<_>>();
        assert_eq!((has("disk key"), has("disk elephants")), (vec![100], vec![35]));
    }

    #[test]
    fn the_manuals_own_word_is_found() {
        let all = [passage("Change a passphrase", "It takes two entries."), passage("Users", "A user has a name.")];
        assert_eq!(best(&all, "how do I change my password"), ["Change a passphrase"]);
    }

    #[test]
    fn logarithms() {
        assert_eq!((logarithm(0), logarithm(1), logarithm(2), logarithm(3), logarithm(1 << 20)), (0, 0, 64, 96, 1280));
    }
}
