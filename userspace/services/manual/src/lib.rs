//! The manual of a machine: the pages of `docs/` that help somebody who uses it, and a search in them.
//!
//! A page is split at its headings, and a long section into parts: these are the [passages](Passage). A search compares
//! words and needs no model, so each answer is a text of the manual and the same each time.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod pages;
mod passage;
mod search;
mod words;

use alloc::vec::Vec;

use crate::words::{asked, only_common, words};

pub use pages::{LEFT_OUT, PAGES, Page};
pub use passage::Passage;

/// Pages in passages, with the words of each.
#[derive(Debug)]
pub struct Manual {
    passages: Vec<Passage>,
    index: search::Index,
}

impl Manual {
    /// Splits pages into passages.
    #[must_use]
    pub fn new(pages: &[Page]) -> Self {
        let passages: Vec<Passage> = pages.iter().flat_map(passage::of_page).collect();
        let index = search::Index::new(&passages);
        Self { passages, index }
    }

    /// All passages, in the order of the pages.
    #[must_use]
    pub fn passages(&self) -> &[Passage] {
        &self.passages
    }

    /// The passages that say most about a query, the best first, and at most `max`. If no word of it occurs, there are none.
    /// With each is how much of the query it has: per cent of the weight of its words, where rare words weigh more. That is 0 if the
    /// query has only common words, or one other word that is not in the passage's heading: then the passage is about something else.
    #[must_use]
    pub fn search(&self, query: &str, max: usize) -> Vec<(&Passage, u8)> {
        let asked = asked(query);
        let is_about = |passage: &Passage| match asked.as_slice() {
            _ if only_common(query) => false,
            [asked] => words(&passage.heading).any(|word| word == asked.word || Some(&word) == asked.same.as_ref()),
            _ => true,
        };
        let found = self.index.search(query, max).filter_map(|(at, has)| Some((self.passages.get(at)?, has)));
        found.map(|(passage, has)| (passage, if is_about(passage) { has } else { 0 })).collect()
    }
}
