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
/// What tells of a way or of an end, if a word that asks stands beside it: "going down to look", "the power went off".
const MOVES: [&str; 4] = ["goes", "going", "went", "gone"];
/// What begins a supposition, and about whom: "if I turn it off". "If you could turn it off" is a request.
const IF: &str = "if";
const SUPPOSED: [&str; 7] = ["i", "we", "they", "somebody", "someone", "anybody", "anyone"];
/// What begins the text of a reminder: "remind me to stop at the shop".
const REMIND: &str = "remind";
const REMINDED: [&str; 2] = ["me", "us"];
/// What takes back what was asked before in the same text: "delete it... no wait, leave it".
const TAKEN_BACK: [&str; 2] = ["nevermind", "nvm"];
const TAKEN_BACK_TOGETHER: [(&str, &str); 4] = [("no", "wait"), ("wait", "no"), ("never", "mind"), ("scratch", "that")];
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
    let (mut found, mut before) = (None, false);
    for clause in text {
        let mut sense = Sense { before, ..Sense::default() };
        for (at, word) in clause.iter().enumerate() {
            let next = clause.get(at.saturating_add(1)).map(|word| word.text.as_str());
            if is_taken_back(&word.text, next) {
                found = Some(false);
            }
            if !word.is_name {
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

/// Whether a word, with the next one, takes back what was asked before.
fn is_taken_back(word: &str, next: Option<&str>) -> bool {
    let together = || TAKEN_BACK_TOGETHER.iter().any(|(first, second)| *first == word && Some(*second) == next);
    TAKEN_BACK.contains(&word) || together()
}

/// What the words of a clause so far make of the next one.
#[derive(Default)]
struct Sense<'w> {
    negated: bool,
    weakly: bool,
    /// Whether the clause before was negated.
    before: bool,
    /// Whether the rest of the clause asks for nothing: it supposes something, or is the text of a reminder.
    is_told: bool,
    latest: &'w str,
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
        self.is_told |= match next {
            Some(next) if word == IF => SUPPOSED.contains(&next),
            Some(next) if word == REMIND => REMINDED.contains(&next),
            _ => false,
        };
        self.latest = word;
    }

    /// Whether a word asks, or asks not to, if it is the listed one.
    fn asks(&self, word: &str, next: Option<&str>, listed: &str) -> Option<bool> {
        let moves = || MOVES.contains(&self.latest) || next.is_some_and(|next| MOVES.contains(&next));
        if self.is_told || TELLS.contains(&self.latest) || moves() {
            return None;
        }
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
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    /// What is told, supposed, or the text of a reminder is no request. What stands beside it is one.
    #[test]
    fn what_is_told_or_supposed_is_not_asked_for() {
        let listed = words("stop delete deleted off down power close not-run");
        for text in [
            "I have deleted my thesis by mistake",
            "she has deleted it",
            "yesterday I almost deleted everything!",
            "the power went off at 2:50 in the whole wing",
            "going down to look",
            "If I turn off the power, what is lost?",
            "what happens if somebody turns it off",
            "remind me in three hours to close the shutters",
        ] {
            assert_eq!(asks(&clauses(text), &listed), None, "{text}");
        }
        for text in [
            "I have to delete it",
            "I have two of them, delete one",
            "if you could turn it off",
            "if it is idle, turn it off",
            "if I am late then stop it",
            "remind me to eat, and stop the radio",
            "she went home, so power off",
            "turn it off and go home",
            "the machine can go off now",
        ] {
            assert_eq!(asks(&clauses(text), &listed), Some(true), "{text}");
        }
        for (text, asked) in [
            ("rm tmp/a.lo... no wait leave it", false),
            ("delete it. never mind", false),
            ("stop ahci - nvm", false),
            ("delete a, no wait, delete b", true),
            ("scratch that, stop it", true),
        ] {
            assert_eq!(asks(&clauses(text), &words("rm delete stop")), Some(asked), "{text}");
        }
        // Other words are no mistyped ones.
        let listed = words("lose end ending block power kill");
        for text in ["close it", "is it pending?", "lock the door", "powder for 3 cakes", "a rare skill"] {
            assert_eq!(asks(&clauses(text), &listed), None, "{text}");
        }
        assert_eq!(asks(&clauses("pwoer it down, kil it"), &listed), Some(true));
        let listed = words("stop delete deleted off down power close not-run");
        assert_eq!(asks(&clauses("I have never deleted it, don't delete it"), &listed), Some(false));
    }

    #[test]
    fn words_are_recognised_as_people_type_them() {
        let listed = words("stop delete rm");
        for text in [
            "Delete it",
            "now: STOP.",
            "e-stop it",
            "please sotp it",
            "dleete a.txt",
            "delet x",
            "deleete x",
            "sttop",
            "rm a",
        ] {
            assert_eq!(asks(&clauses(text), &listed), Some(true), "{text}");
        }
        for text in [
            "display a.txt",
            "top",
            "stopping",
            "spot it",
            "post it",
            "deadline",
            "mr",
            "form",
            "deletable",
            "read delete.txt",
            "restart the delet-door service",
            "",
        ] {
            assert_eq!(asks(&clauses(text), &listed), None, "{text}");
        }
    }

    #[test]
    fn negations_ask_for_nothing() {
        let listed = words("off delete stop not-need not-anymore");
        for text in [
            "Please don't turn the machine off yet",
            "do not delete a.txt",
            "don\u{2019}t stop it",
            "never delete a.txt!",
            "nobody should stop ahci",
            "I need you to read a.txt",
            "wait, dont delete it",
            "don\u{b4}t delete it",
            "do not edit, move or delete a.txt",
            "no need to delete a.txt",
            "tell me why it is slow and don't stop it",
            "go on without stop",
            "hands off ahci tonight",
        ] {
            assert_eq!(asks(&clauses(text), &listed), Some(false), "{text}");
        }
        for text in [
            "I don't need a.txt anymore",
            "a.txt isn't needed, delete it",
            "no, delete it",
            "my hands are wet, turn it off",
            "not b.txt, delete a.txt",
            "why don't you delete a.txt",
            "can't you stop it?",
            "do not read it. delete it",
            "nobody needs it\ndelete it",
            "don't delete a.txt but delete b.txt",
            "don't forget to delete a.txt",
            "not only delete a.txt but also b.txt",
            "I don't use a.txt so delete it",
            "if you don't mind delete a.txt",
            "don't stop ahci - stop net",
        ] {
            assert_eq!(asks(&clauses(text), &listed), Some(true), "{text}");
        }
    }

    fn tool(name: &str, required: &[&str]) -> Tool {
        Tool {
            name: name.into(),
            description: String::new(),
            parameters: serde_json::json!({
                "properties": required.iter().map(|name| (*name, serde_json::json!({}))).collect::<std::collections::BTreeMap<_, _>>(),
                "required": required,
            }),
            handle: String::new(),
            forbidden: false,
        }
    }

    fn may_delete(said: &[&str], results: bool) -> bool {
        let asked_with = AskedWith {
            tools: vec![("delete_file".into(), words("delete kill out not-need"))],
            not_names: words("file stupid here"),
            function_words: words("a it just the please i do dont that of"),
        };
        let said: Vec<String> = said.iter().map(|text| (*text).into()).collect();
        asked_with.callable(&[tool("delete_file", &["path"])], &said, results).len() == 1
    }

    #[test]
    fn the_latest_text_about_a_tool_decides() {
        assert!(may_delete(&["delete a.txt", "yes, do it"], false));
        assert!(!may_delete(&["delete a.txt", "no, don't delete it"], false));
        assert!(may_delete(&["don't delete a.txt", "delete b.txt"], false));
        for text in ["no, leave it", "don't do it", "keep it please"] {
            assert!(!may_delete(&["delete a.txt", text], false), "{text}");
        }
    }

    #[test]
    fn what_goes_was_named() {
        for said in ["delete it", "Just kill it!", "please delete that stupid file", "I don't need it", "delete"] {
            assert!(!may_delete(&[said], false), "{said}");
            assert!(may_delete(&[said], true), "{said}");
            assert!(may_delete(&["show me a.txt", said], false), "{said}");
        }
        for said in [
            "delete a.out",
            "delete the file notes",
            "delete it: ./file",
            "delete 'file'",
            "delete the file out",
            "kill 7",
        ] {
            assert!(may_delete(&[said], false), "{said}");
        }
        let restarts = |said: &str| {
            AskedWith::default().callable(&[tool("restart_service", &["name"])], &[said.into()], false).len() == 1
        };
        assert!(restarts("don't restart ahci but the exporter") && restarts("don't restart all, only web"));
        assert!(!restarts("do NOT restart the web service, i am in the middle of something"));
        for said in
            ["do not stop web, restart it", "is web not up?", "I did not restart web", "don't forget to restart web"]
        {
            assert!(restarts(said), "{said}");
        }
        let asked_with = AskedWith {
            tools: vec![("power_off".into(), words("off shut power down"))],
            not_names: words("turn it machine"),
            ..AskedWith::default()
        };
        let may_end = |said: &str| asked_with.callable(&[tool("power_off", &[])], &[said.into()], false).len() == 1;
        for said in [
            "turn it off",
            "power-off now",
            "stop the web service and shut down",
            "stop oil-pump, then power off",
            "shut down the lab-machine",
        ] {
            assert!(may_end(said), "{said}");
        }
        for said in
            ["switch the fax service off", "Shut oil-pump off.", "turn off a.txt", "shut the oil-pump down and wait"]
        {
            assert!(!may_end(said), "{said}");
        }
    }
}
