//! The words with which people ask for a tool.
//!
//! A small model takes a request that it does not understand for another one. So its file can list, for a tool that
//! destroys or ends something, the words with which people ask for it. If the person has said none of them, the model
//! cannot call that tool. This rejects no request: the model calls another tool, or says that none fits.
//!
//! - A word after a negation asks for nothing: "please don't turn the machine off". Others ask only after one: "I don't
//!   need notes.txt anymore". The list has those as `not-need` and `not-anymore`.
//! - Such a tool cannot be called if nothing was named that it could take: "just delete it" as the first words. The file
//!   lists the words that name nothing, too.
//! - A tool that takes nothing, such as the one that turns the machine off, is not asked for by words about a named thing: "switch the
//!   fax service off".
//! - No tool can be called if the latest request says not to do what its name begins with: "do not restart it".
//!
//! All this is about plain forms. A person is asked before such a call runs, whatever the words were.

use capos_gguf::Header;
use serde_json::Value;

use crate::Tool;

/// The file's list: a text for each such tool, with its name and then the words in small ASCII letters.
pub const ASKED_WITH: &str = "capos.asked_with";
/// The file's list of words that name nothing, in small ASCII letters: one text.
pub const NOT_NAMES: &str = "capos.not_names";
/// The file's list of words that give a sentence its form, such as "a" and "is", in small ASCII letters: one text. Alone they
/// name nothing.
pub const FUNCTION_WORDS: &str = "capos.function_words";
/// What precedes a listed word that asks only after a negation.
const NOT: &str = "not-";

/// What makes the rest of its clause say the opposite. Apostrophes are left out.
const NEGATIONS: [&str; 9] = ["dont", "donot", "not", "never", "nobody", "mustnt", "shouldnt", "without", "avoid"];
/// What else does so for the words that ask only after a negation. "No, delete it" is no negation, and "can't you
/// delete it" is a request.
const WEAK_NEGATIONS: [&str; 9] = ["no", "isnt", "arent", "wasnt", "doesnt", "didnt", "wont", "cant", "nothing"];
/// What is one together: "hands off ahci".
const HANDS_OFF: (&str, &str) = ("hands", "off");
/// What makes a request of the negation after it: "why don't you delete it".
const WHY: &str = "why";
/// What takes a negation back: "don't forget to delete it", "not only this".
const TAKES_BACK: [&str; 4] = ["forget", "only", "mind", "hesitate"];
/// What begins a clause without a mark before it.
const BEGINS: [&str; 3] = ["but", "so", "then"];
/// What takes over the negation of the clause before: "do not move, copy or delete it".
const JOINS: [&str; 2] = ["or", "nor"];
/// "No need to delete it" is a negation, and "I don't need it" asks for that.
const NEED: [&str; 2] = ["need", "needed"];
const TO: &str = "to";
/// What orders something not to happen, if nobody is said to do so: "don't restart it".
const ORDERS_NOT: [&str; 3] = ["dont", "donot", "never"];
const PRONOUNS: [&str; 7] = ["i", "we", "you", "they", "he", "she", "it"];
/// What says that something of the kind is to be done all the same: "don't list everything, only photos".
const ALL_THE_SAME: [&str; 5] = ["but", "only", "except", "instead", "rather"];
/// What keeps things as they are.
const KEEPS: [&str; 2] = ["leave", "keep"];
/// What tells that something was done, if a word that asks follows: "I have deleted it by mistake", "I almost deleted it".
const TELLS: [&str; 8] = ["have", "has", "had", "ive", "weve", "almost", "nearly", "accidentally"];
/// Those of them that are a pronoun, too.
const WE_HAVE: [&str; 2] = ["ive", "weve"];
/// What tells of a way or of an end, if a word that asks is next to it: "going down to look", "the power went off".
const MOVES: [&str; 4] = ["goes", "going", "went", "gone"];
/// The words that such a way or end is of. "Gone" before "stop ahci" is none.
const MOVED: [&str; 5] = ["off", "down", "out", "away", "power"];
/// How verbs end that tell of the past.
const PAST: &str = "ed";
/// What begins a supposition, and about whom: "if I turn it off". "If you could turn it off" is a request.
const IF: &str = "if";
const SUPPOSED: [&str; 7] = ["i", "we", "they", "somebody", "someone", "anybody", "anyone"];
/// What begins the text of a reminder: "remind me to stop at the shop".
const REMIND: &str = "remind";
const REMINDED: [&str; 2] = ["me", "us"];
/// What takes back what was asked before in the same text: "delete it... no wait, leave it".
const TAKEN_BACK: [(&str, &str); 3] = [("no", "wait"), ("wait", "no"), ("scratch", "that")];
/// What does so at the end of a clause: "never mind the cost" is about the cost.
const NEVER_MIND: [&str; 2] = ["nevermind", "nvm"];
const NEVER_MIND_TOGETHER: (&str, &str) = ("never", "mind");
/// What the next word is the name of.
const NAMES: [&str; 8] = ["file", "folder", "directory", "service", "program", "called", "named", "document"];

/// Kinds of things that have names. What is said about them is not about the machine.
const KINDS: [&str; 8] = ["service", "services", "daemon", "daemons", "program", "programs", "file", "folder"];
/// What joins two requests in a clause.
const JOINS_REQUESTS: [&str; 4] = ["and", "then", "also", "plus"];

/// Characters that people type for an apostrophe.
const APOSTROPHES: [char; 6] = ['\'', '\u{2019}', '\u{2018}', '\u{b4}', '\u{2bc}', '`'];
/// Marks that end a clause.
const ENDS: [char; 6] = ['.', ',', ';', ':', '!', '?'];
const QUOTES: [char; 5] = ['"', '\u{201c}', '\u{201d}', '(', ')'];
/// Characters within names. What a name says asks for nothing: "read delete.txt".
const WITHIN_NAMES: [char; 3] = ['.', '/', '_'];
/// Letters of the shortest word that is also recognised with two neighbouring letters swapped.
const SWAPPED: usize = 4;
/// Letters of the shortest word that can be another one with one letter too many or too few.
const MISTYPED: usize = 5;
/// English words that differ so little from a word that asks, and are no mistyped one: "what will I lose" closes nothing.
const OTHER_WORDS: [&str; 63] = [
    "asleep", "baring", "bending", "boring", "case", "clan", "close", "closer", "closet", "crease", "crest", "drown",
    "ease", "eased", "easing", "eras", "eraser", "forge", "garage", "hack", "hated", "hats", "knight", "lean",
    "lending", "lock", "loose", "lose", "loser", "mended", "mending", "pending", "powder", "pure", "quilt", "quite",
    "rash", "reset", "ring", "scrape", "seep", "sending", "shared", "shed", "shout", "shrewd", "skill", "skilled",
    "sleepy", "stomp", "stoop", "swipe", "tended", "tending", "topped", "topping", "tops", "urge", "varnish",
    "vending", "weep", "wiper", "witch",
];

/// The words with which people ask for some tools.
#[derive(Clone, Debug, Default)]
pub(crate) struct AskedWith {
    tools: Vec<(String, Vec<String>)>,
    not_names: Vec<String>,
    function_words: Vec<String>,
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
        let words = |key| {
            let text = header.get(key).and_then(|value| value.as_text()).unwrap_or_default();
            text.split_ascii_whitespace().map(String::from).collect()
        };
        Self { tools: tools.collect(), not_names: words(NOT_NAMES), function_words: words(FUNCTION_WORDS) }
    }

    /// The words that alone are no name.
    pub fn function_words(&self) -> &[String] {
        &self.function_words
    }

    /// The tools that can be called after what the person said, the latest text last. The latest text that is about a tool
    /// says whether it asks for it. What it takes was named by the person, or in `results` if there are some. Those that
    /// are shown as forbidden stay: the model answers with their lines, too.
    pub fn callable(&self, tools: &[Tool], said: &[String], results: bool) -> Vec<Tool> {
        let said: Vec<Vec<Clause>> = said.iter().map(|text| clauses(text)).collect();
        let is_asked = |tool: &&Tool| {
            let Some((_, words)) = self.tools.iter().find(|(name, _)| *name == tool.name) else {
                return tool.forbidden || !said.last().is_some_and(|text| is_unwanted(tool, text));
            };
            let asks = |text: &Vec<Clause>| {
                if has_no_parameters(tool) { asks(&self.of_machine(text, words), words) } else { asks(text, words) }
            };
            let asked = || said.iter().rev().find_map(|text| asks(text).or_else(|| keeps(text))).unwrap_or(false);
            let named = || results || takes_nothing(tool) || said.iter().any(|text| self.has_name(text, words));
            tool.forbidden || asked() && named()
        };
        tools.iter().filter(is_asked).cloned().collect()
    }

    /// What a text says that is not about a named thing. The words are those that ask for a tool.
    fn of_machine(&self, text: &[Clause], words: &[String]) -> Vec<Clause> {
        let names_thing = |part: &[Word]| {
            let is_joined = |word: &Word| word.is_hyphenated && !words.contains(&word.text);
            let is_of_machine = part.iter().any(|word| word.is_hyphenated && self.not_names.contains(&word.text));
            part.iter()
                .any(|word| word.is_name || KINDS.contains(&word.text.as_str()) || is_joined(word) && !is_of_machine)
        };
        let parts = text.iter().flat_map(|clause| clause.split(|word| JOINS_REQUESTS.contains(&word.text.as_str())));
        parts.filter(|part| !names_thing(part)).map(<[Word]>::to_vec).collect()
    }

    /// Whether a text has something that could be a name, apart from the words that ask.
    fn has_name(&self, text: &[Clause], words: &[String]) -> bool {
        let listed = |word: &str| words.iter().any(|listed| listed.strip_prefix(NOT).unwrap_or(listed) == word);
        text.iter().any(|clause| {
            let before = std::iter::once("").chain(clause.iter().map(|word| word.text.as_str()));
            clause.iter().zip(before).any(|(word, before)| {
                let is_listed = || self.not_names.contains(&word.text) || self.function_words.contains(&word.text);
                let is_word = || is_listed() || listed(&word.text) && !NAMES.contains(&before);
                word.in_quotes || word.is_name || !is_word()
            })
        })
    }
}

/// A word as it was typed, in small letters and without apostrophes.
#[derive(Clone)]
struct Word {
    text: String,
    in_quotes: bool,
    /// Whether a hyphen joins it to another.
    is_hyphenated: bool,
    /// Whether only a name is written so, as `a.txt`.
    is_name: bool,
}

/// The words up to a mark.
type Clause = Vec<Word>;

/// The clauses of a text.
fn clauses(text: &str) -> Vec<Clause> {
    let mut found = Vec::new();
    for line in text.to_ascii_lowercase().lines() {
        let mut clause = Clause::new();
        for typed in line.split_whitespace() {
            let bare = typed.trim_end_matches(ENDS);
            let inside = bare.trim_matches(QUOTES).trim_matches(APOSTROPHES);
            if inside.contains(WITHIN_NAMES) {
                clause.push(Word { text: inside.into(), in_quotes: false, is_hyphenated: false, is_name: true });
            } else {
                let plain = inside.replace(APOSTROPHES, "");
                let words = plain.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
                let in_quotes =
                    inside != bare && bare.starts_with(|first| QUOTES.contains(&first) || APOSTROPHES.contains(&first));
                let is_hyphenated = inside.trim_matches('-').contains('-');
                clause.extend(words.map(|word| Word { text: word.into(), in_quotes, is_hyphenated, is_name: false }));
            }
            // So does a dash on its own. A mark within a word, as in `a.txt`, ends no clause.
            if bare.len() < typed.len() || !typed.contains(char::is_alphanumeric) {
                found.push(std::mem::take(&mut clause));
            }
        }
        found.push(clause);
    }
    found
}

/// Whether the person's latest text orders not to do what a tool's name begins with.
fn is_unwanted(tool: &Tool, text: &[Clause]) -> bool {
    let Some(verb) = tool.name.split('_').next().map(str::to_ascii_lowercase) else { return false };
    let is_order = |clause: &Clause| {
        let words: Vec<&str> = clause.iter().map(|word| word.text.as_str()).collect();
        words.iter().enumerate().any(|(at, word)| match words.get(..at) {
            Some([before @ .., "do", "not"]) => *word == verb && !ends_with_pronoun(before),
            Some([before @ .., order]) => *word == verb && ORDERS_NOT.contains(order) && !ends_with_pronoun(before),
            _ => false,
        })
    };
    let goes_on = text.iter().flatten().any(|word| ALL_THE_SAME.contains(&word.text.as_str()));
    text.iter().any(is_order) && !goes_on && asks(text, std::slice::from_ref(&verb)) == Some(false)
}

/// Whether somebody is said to do something: "I don't read it" is no order.
fn ends_with_pronoun(words: &[&str]) -> bool {
    words.last().is_some_and(|word| PRONOUNS.contains(word))
}

/// Whether no call of a tool has to name something.
fn takes_nothing(tool: &Tool) -> bool {
    tool.parameters.get("required").and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// Whether a tool is about the whole machine: no call of it names anything.
fn has_no_parameters(tool: &Tool) -> bool {
    tool.parameters.get("properties").and_then(Value::as_object).is_none_or(serde_json::Map::is_empty)
}

/// That a text asks not to do what an earlier one asked for, without a word of it: "no, leave it".
fn keeps(text: &[Clause]) -> Option<bool> {
    let mut words = text.iter().flatten().map(|word| word.text.as_str());
    words.any(|word| KEEPS.contains(&word) || ORDERS_NOT.contains(&word)).then_some(false)
}

/// Whether a text asks with one of these words, or asks not to. None if it has none of them.
fn asks(text: &[Clause], words: &[String]) -> Option<bool> {
    let (mut found, mut before, mut previous) = (None, false, "");
    for (number, clause) in text.iter().enumerate() {
        let mut sense = Sense { before, ..Sense::default() };
        for (at, word) in clause.iter().enumerate() {
            let next = clause.get(at.saturating_add(1)).map(|word| word.text.as_str());
            let others = text.get(number.saturating_add(1)..).unwrap_or_default().iter().flatten();
            let rest = clause.get(at.saturating_add(1)..).unwrap_or_default().iter().chain(others);
            if !word.in_quotes
                && (is_never_mind(previous, &word.text, next) || is_taken_back(previous, &word.text, rest))
            {
                found = Some(false);
            }
            previous = &word.text;
            if !word.is_name && !sense.is_told(&word.text, next) {
                // A part of a name is no mistyped word: "garage-door" has no "garbage".
                let is_meant =
                    |listed: &&String| !word.is_hyphenated || listed.strip_prefix(NOT).unwrap_or(listed) == word.text;
                let here = words.iter().filter(is_meant).filter_map(|listed| sense.asks(&word.text, next, listed));
                found = here.chain(found).max();
            }
            sense.read(&word.text, next);
        }
        before = sense.negated;
    }
    found
}

/// Whether two words take back what was asked before, and the rest does not correct it: "no wait, b.txt" only says which. A comma may
/// be between them.
fn is_taken_back<'w>(previous: &str, word: &str, mut rest: impl Iterator<Item = &'w Word> + Clone) -> bool {
    let keeps = || rest.clone().any(|word| KEEPS.contains(&word.text.as_str()));
    TAKEN_BACK.contains(&(previous, word)) && (keeps() || !rest.any(|word| word.is_name))
}

/// Whether a word ends a clause and says, with the one before, that something is not to be done after all.
fn is_never_mind(previous: &str, word: &str, next: Option<&str>) -> bool {
    next.is_none() && (NEVER_MIND.contains(&word) || (previous, word) == NEVER_MIND_TOGETHER)
}

/// What the words of a clause so far make of the next one.
#[derive(Default)]
struct Sense<'w> {
    negated: bool,
    weakly: bool,
    /// Whether the clause before was negated.
    before: bool,
    /// Whether what follows is only supposed, up to another wish.
    supposes: bool,
    /// Whether the rest of the clause is about a reminder, and whether it is its text.
    reminds: bool,
    is_reminder: bool,
    latest: &'w str,
    /// Whether that stands behind a pronoun: "I have".
    is_behind_pronoun: bool,
}

impl<'w> Sense<'w> {
    fn read(&mut self, word: &'w str, next: Option<&str>) {
        if BEGINS.contains(&word) {
            *self = Self { before: self.before, ..Self::default() };
        }
        let is_hands_off = || word == HANDS_OFF.0 && next == Some(HANDS_OFF.1);
        if NEGATIONS.contains(&word) && self.latest != WHY || is_hands_off() {
            self.negated = true;
        } else if JOINS.contains(&word) {
            self.negated |= self.before;
        } else if TAKES_BACK.contains(&word) {
            self.negated = false;
        } else if NEED.contains(&word) && next == Some(TO) {
            self.negated |= self.weakly;
        }
        self.weakly |= WEAK_NEGATIONS.contains(&word);
        if JOINS_REQUESTS.contains(&word) && !next.is_some_and(|next| PRONOUNS.contains(&next)) {
            (self.supposes, self.reminds) = (false, false);
        }
        self.supposes |= word == IF && next.is_some_and(|next| SUPPOSED.contains(&next));
        self.reminds |= word == REMIND && next.is_some_and(|next| REMINDED.contains(&next));
        self.is_reminder |= self.reminds && word == TO;
        self.is_behind_pronoun = PRONOUNS.contains(&self.latest);
        self.latest = word;
    }

    /// Whether a word only tells of something, or supposes it.
    fn is_told(&self, word: &str, next: Option<&str>) -> bool {
        let moves = || MOVES.contains(&self.latest) || next.is_some_and(|next| MOVES.contains(&next));
        let is_past = || self.is_behind_pronoun || WE_HAVE.contains(&self.latest) || word.ends_with(PAST);
        let is_done = || TELLS.contains(&self.latest) && is_past();
        self.supposes || self.reminds || self.is_reminder || is_done() || MOVED.contains(&word) && moves()
    }

    /// Whether a word asks, or asks not to, if it is the listed one.
    fn asks(&self, word: &str, next: Option<&str>, listed: &str) -> Option<bool> {
        let (listed, asks) = match listed.strip_prefix(NOT) {
            Some(listed) if NEED.contains(&word) && next == Some(TO) && is_like(word, listed) => return None,
            Some(listed) => (listed, self.negated || self.weakly),
            None => (listed, !self.negated),
        };
        is_like(word, listed).then_some(asks)
    }
}

/// Whether a word is the listed one, as people may type it.
fn is_like(word: &str, listed: &str) -> bool {
    let (typed, right) = (word.as_bytes(), listed.as_bytes());
    let same = |(one, other): &(&u8, &u8)| one == other;
    let first = typed.iter().zip(right).take_while(same).count();
    let last = typed.iter().rev().zip(right.iter().rev()).take_while(same).count();
    let alike = first.saturating_add(last);
    if typed != right && OTHER_WORDS.contains(&word) {
        return false;
    }
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
mod tests;
