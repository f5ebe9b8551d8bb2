//! Strings of calls that repeat what was said.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::paths::File;
use crate::said::{Place, Said};

/// The strings that a call has so far, which keep its next ones from being taken from the same words.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// Where no string may begin, and none may go on.
    origins: BTreeSet<usize>,
    /// What no later string may be.
    others: Vec<Vec<u32>>,
}

impl Taken {
    /// A string of the call. What was said once is said for it; if it is `distinct`, no later string may be the same, however
    /// often that was said.
    pub fn push(&mut self, said: &Said, tokens: &[u32], distinct: bool) {
        if distinct {
            self.others.push(tokens.to_vec());
        }
        if tokens.is_empty() || said.dot.is_some_and(|dot| tokens == [dot]) {
            return;
        }
        let origins = said.origins(tokens);
        if origins.len() == 1 || distinct {
            self.origins.extend(origins);
        }
    }
}

/// What a string has to be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Whether it is a name, and so more than function words.
    pub is_name: bool,
    /// Whether it is in the folder that one is in, and not that folder: neither a dot nor empty.
    pub is_below: bool,
    /// Which of the files that the request names it probably is, if that names any.
    pub is_file: OfFiles,
    /// Whether it is one word, unless it is in quotes.
    pub is_word: bool,
}

/// Which files of the request a string is one of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OfFiles {
    /// None of them rather than something else.
    #[default]
    None,
    /// Any of them.
    Any,
    /// One that nothing is to become: "copy it to b.txt" does not say what.
    Source,
}

/// A string that repeats the conversation, or joins two parts of it with a slash; or is empty, or a dot.
#[derive(Clone, Debug)]
pub struct Repetition {
    said: Arc<Said>,
    /// What the call's earlier strings were taken from.
    taken: Taken,
    limits: Limits,
    /// Its tokens so far.
    tokens: Vec<u32>,
    /// The positions in the conversation's texts where it can be.
    first: BTreeSet<Place>,
    /// The positions in the conversation's texts where its second part can be.
    second: BTreeSet<Place>,
    /// Whether its second part can begin now.
    joined: bool,
    /// Whether its first part is a folder that another string has.
    again: bool,
    dot: bool,
}

impl Repetition {
    /// The beginning of a string of a call.
    pub fn new(said: &Arc<Said>, taken: &Taken, limits: Limits) -> Self {
        let (said, taken, tokens) = (Arc::clone(said), taken.clone(), Vec::new());
        let (first, second) = (BTreeSet::new(), BTreeSet::new());
        Self { said, taken, limits, tokens, first, second, joined: false, again: false, dot: false }
    }

    /// The tokens with which it can go on.
    pub fn tokens(&self) -> impl Iterator<Item = u32> {
        let places = self.first_places().chain(self.second_places());
        let slash = self.said.slash.filter(|_| self.may_join());
        let dot = self.said.dot.filter(|dot| self.may_be_dot(*dot));
        places.filter_map(|at| self.said.token(at)).chain(slash).chain(dot)
    }

    /// Takes a token; returns whether the string can continue with it.
    pub fn accept(&mut self, token: u32) -> bool {
        let said = &self.said;
        let joined = Some(token) == said.slash && self.may_join();
        let (first, second) = (said.step(self.first_places(), token), said.step(self.second_places(), token));
        self.dot = Some(token) == said.dot && self.may_be_dot(token);
        self.again = joined && self.is_again();
        (self.first, self.second, self.joined) = (first, second, joined);
        self.tokens.push(token);
        self.dot || self.joined || !self.first.is_empty() || !self.second.is_empty()
    }

    /// Whether it may end here. If it cannot go on, it may, too: so an answer comes to no dead end where the words that
    /// would make a name of it are taken.
    pub fn may_end(&self) -> bool {
        let is_other = || self.taken.others.contains(&self.tokens);
        let ends = || (self.part_ends(&self.first) || self.part_ends(&self.second)) && !is_other();
        self.tokens.is_empty() && !self.limits.is_below || self.dot || ends() || self.tokens().next().is_none()
    }

    /// Its tokens, as it ends.
    pub fn take_tokens(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.tokens)
    }

    /// The files of which it is one, more likely than something else.
    fn files(&self) -> impl Iterator<Item = &File> {
        let is_one = |file: &&File| match self.limits.is_file {
            OfFiles::None => false,
            OfFiles::Any => true,
            OfFiles::Source => !file.is_target,
        };
        // A file that was taken for an earlier string is none for this one.
        let is_free = |file: &&File| !self.said.enters(Place::at(file.start), &self.taken.origins);
        self.said.files.iter().filter(is_one).filter(is_free)
    }

    /// The tokens that are unlikely as its beginning: those that begin neither a file that the request names, nor a folder that one
    /// of these can be in.
    pub fn unlikely(&self) -> BTreeSet<u32> {
        // Most tokens of a string are behind its beginning.
        if !self.tokens.is_empty() || self.files().next().is_none() {
            return BTreeSet::new();
        }
        let is_plain = |file: &File| !(file.start..file.end).any(|border| self.said.is_at_slash(border));
        let may_be_within = self.files().any(is_plain);
        let is_likely = |start: &Place| {
            self.files().any(|file| file.start == start.border) || may_be_within && self.said.is_folder(start.border)
        };
        let (likely, others): (Vec<Place>, Vec<Place>) = self.first_places().partition(is_likely);
        let likely: BTreeSet<u32> = likely.into_iter().filter_map(|place| self.said.token(place)).collect();
        others.into_iter().filter_map(|place| self.said.token(place)).filter(|id| !likely.contains(id)).collect()
    }

    /// Where its first part can go on. "Rename a/b to c" is about `a/c`: the folder of a string that has to be another one is
    /// taken again.
    fn first_places(&self) -> impl Iterator<Item = Place> {
        let is_taken = |place: Place| self.said.enters(place, &self.taken.origins);
        let starts = self.tokens.is_empty().then(|| self.said.starts());
        let starts = starts
            .into_iter()
            .flatten()
            .map(move |place| Place { is_folder: !self.taken.others.is_empty() && is_taken(place), ..place });
        let is_open =
            move |place: Place| if place.is_folder { self.said.is_in_folder(place) } else { !is_taken(place) };
        let places = starts.chain(self.first.iter().copied());
        places.filter(move |place| is_open(*place) && self.may_be_at(*place))
    }

    /// Where its second part can. It may be taken from what was said for another string.
    fn second_places(&self) -> impl Iterator<Item = Place> {
        let before = self.tokens.split_last().filter(|_| self.joined).map(|(_, before)| before);
        let starts = before.map(|before| self.second_starts(before, self.again));
        let places = starts.into_iter().flatten().chain(self.second.iter().copied());
        places.filter(|place| self.may_be_at(*place))
    }

    /// Where a second part begins after a first one. It does not repeat that, and makes no string of what must be another.
    fn second_starts(&self, first: &[u32], is_again: bool) -> impl Iterator<Item = Place> {
        let rests = self.taken.others.iter().filter_map(move |other| {
            let (slash, rest) = other.strip_prefix(first)?.split_first()?;
            (Some(*slash) == self.said.slash).then_some(rest)
        });
        let others: Vec<&[u32]> = rests.collect();
        self.said.starts().filter(move |start| {
            // Behind a folder that is taken again comes another name.
            let is_taken = || is_again && self.said.enters(*start, &self.taken.origins);
            let repeats = || self.said.says(*start, first) || others.iter().any(|rest| self.said.says(*start, rest));
            self.may_be_at(*start) && !repeats() && !is_taken()
        })
    }

    /// Whether the first part can only be a folder that is taken again.
    fn is_again(&self) -> bool {
        let mut ends = self.first.iter().filter(|place| self.is_end(**place)).peekable();
        ends.peek().is_some() && ends.all(|place| place.is_folder)
    }

    fn may_be_dot(&self, dot: u32) -> bool {
        !self.limits.is_below && self.tokens.is_empty() && !self.taken.others.iter().any(|other| *other == [dot])
    }

    /// Whether a part can be at a place.
    fn may_be_at(&self, place: Place) -> bool {
        let is_word = self.limits.is_word && !self.said.may_have_spaces(place.start);
        let is_name = || !self.limits.is_name || self.said.leads_to_name(place, is_word);
        !(is_word && self.said.is_behind_word(place)) && is_name()
    }

    /// Whether a part that is at one of these places may end.
    fn part_ends(&self, places: &BTreeSet<Place>) -> bool {
        places.iter().any(|place| self.is_end(*place) && !place.is_folder)
    }

    fn is_end(&self, place: Place) -> bool {
        self.said.ends(place) && (!self.limits.is_name || place.is_name)
    }

    /// Whether its first part may end, and something is said that can be its second.
    fn may_join(&self) -> bool {
        let ends = |place: &Place| self.is_end(*place) && (!place.is_folder || self.said.is_at_slash(place.border));
        self.first.iter().any(ends) && self.second_starts(&self.tokens, self.is_again()).next().is_some()
    }
}
