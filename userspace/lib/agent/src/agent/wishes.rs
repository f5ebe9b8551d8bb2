//! Requests that hold several wishes, and which of them a turn has made no call for.
//!
//! A wrong split would ask for something that the person did not say. So each part begins with a verb of what tools do, and no part
//! is a text to be written, a question or a condition.

use alloc::string::String;
use alloc::vec::Vec;

use crate::answer::facts::{bare, is_name};

/// What a verb asks for. The first words of tools' names that do it; none if every tool does that only reads.
type Kind = &'static [&'static str];

const READS: Kind = &[];
const WRITES: Kind = &["write", "append", "add", "make", "create"];
const RUNS: Kind = &["run"];
/// Without the tool itself, a model can write the new file, and delete the old one.
const COPIES: Kind = &["copy", "write", "append", "make", "create"];
const MOVES: Kind = &["move", "write", "delete"];

const VERBS: [(&str, Kind); 36] = [
    ("read", READS),
    ("list", READS),
    ("show", READS),
    ("tell", READS),
    ("check", READS),
    ("print", READS),
    ("display", READS),
    ("open", READS),
    ("view", READS),
    ("look", READS),
    ("delete", &["delete", "remove"]),
    ("remove", &["delete", "remove"]),
    ("erase", &["delete", "remove"]),
    ("rm", &["delete", "remove"]),
    ("write", WRITES),
    ("append", WRITES),
    ("save", WRITES),
    ("add", WRITES),
    ("put", WRITES),
    ("store", WRITES),
    ("copy", COPIES),
    ("move", MOVES),
    ("rename", MOVES),
    ("find", READS),
    ("search", READS),
    ("compare", READS),
    ("create", WRITES),
    ("make", WRITES),
    ("mkdir", WRITES),
    ("restart", &["restart"]),
    ("stop", &["stop"]),
    ("halt", &["stop"]),
    ("run", RUNS),
    ("execute", RUNS),
    ("launch", RUNS),
    ("reset", &["reset"]),
];

/// What joins two wishes, the longer ones first, and whether it can also join words of one wish.
const JOINTS: [(&str, bool); 9] = [
    (", and then ", false),
    (" and then ", false),
    (", then ", false),
    ("; then ", false),
    (" then ", false),
    ("; ", false),
    (". ", false),
    (", and ", true),
    (" and ", true),
];
/// Words before a wish's verb.
const POLITE: [&str; 12] =
    ["please", "can", "could", "would", "will", "you", "now", "first", "also", "next", "kindly", "just"];
/// Words by which a part asks something or sets a condition: what follows may belong to that.
const ASKING: [&str; 17] = [
    "how", "whether", "if", "that", "which", "who", "what", "when", "why", "where", "unless", "until", "to", "says",
    "saying", "said", "wrote",
];
/// Words that show that a verb is followed by what it is about.
const DEFINITE: [&str; 12] =
    ["it", "its", "them", "the", "all", "my", "me", "this", "these", "those", "a", "everything"];

/// One wish of a request.
struct Wish<'a> {
    text: &'a str,
    kind: Kind,
}

/// A call of a turn: the name of its tool, whether that only reads, and the arguments.
#[derive(Clone, Copy, Debug)]
pub struct Called<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// Whether it only reads.
    pub reads: bool,
    /// The arguments as JSON.
    pub arguments: &'a str,
}

/// The wishes of a request with several, as their texts; none if it has one, or if that is uncertain.
#[must_use]
pub fn wishes(request: &str) -> Vec<&str> {
    split(request).iter().map(|wish| wish.text).collect()
}

/// The wishes for which a turn made no call, if it made one for another: a tail of the request. Whether a call succeeded is no matter
/// here.
#[must_use]
pub fn undone<'a>(request: &'a str, calls: &[Called<'_>]) -> Vec<&'a str> {
    let wishes = split(request);
    // A program or a child run may have done any of them.
    let programs = wishes.iter().filter(|wish| wish.kind == RUNS).count();
    let of = |tool: &str| calls.iter().filter(|call| call.tool == tool).count();
    if of("delegate") > 0 || of("run_program") > programs {
        return Vec::new();
    }
    let does = |call: &Called<'_>, kind: Kind| match kind {
        [] => call.reads,
        tools => tools.contains(&call.tool.split('_').next().unwrap_or_default()),
    };
    let is_undone = |wish: &&Wish<'_>| {
        let of_kind: Vec<&Called<'_>> = calls.iter().filter(|call| does(call, wish.kind)).collect();
        let wanted = wishes.iter().filter(|other| other.kind == wish.kind).count();
        // Among several of a kind, a wish is undone whose names no call has.
        let mut names = wish.text.split_whitespace().map(bare).filter(|word| is_name(word)).peekable();
        let is_named = names.peek().is_some();
        of_kind.is_empty()
            || (of_kind.len() < wanted
                && is_named
                && names.all(|name| of_kind.iter().all(|call| !call.arguments.contains(name))))
    };
    let undone: Vec<&str> = wishes.iter().filter(is_undone).map(|wish| wish.text).collect();
    if undone.len() < wishes.len() { undone } else { Vec::new() }
}

fn split(request: &str) -> Vec<Wish<'_>> {
    let request = request.trim().trim_end_matches(['.', '!', '?']);
    // What follows may be a text that was pasted.
    if request.contains(['\n', ':']) {
        return Vec::new();
    }
    let mut wishes: Vec<Wish<'_>> = Vec::new();
    let mut rest = request;
    loop {
        let Some(kind) = kind(rest) else { return Vec::new() };
        let Some((end, next)) = joint(rest, kind) else {
            wishes.push(Wish { text: rest.trim(), kind });
            break;
        };
        let (Some(text), Some(behind)) = (rest.get(..end), rest.get(next..)) else { return Vec::new() };
        wishes.push(Wish { text: text.trim(), kind });
        rest = behind;
    }
    if wishes.len() < 2 { Vec::new() } else { wishes }
}

/// What the verb at the beginning of a part asks for.
fn kind(part: &str) -> Option<Kind> {
    let first = part.split_whitespace().map(bare).find(|word| !POLITE.contains(&lower(word).as_str()))?;
    verb(first)
}

fn verb(word: &str) -> Option<Kind> {
    let word = lower(word);
    VERBS.iter().find(|(verb, _)| *verb == word).map(|(_, kind)| *kind)
}

fn lower(word: &str) -> String {
    word.to_lowercase()
}

/// Where the first wish of a text ends, and where the next begins. Nothing within quotes is looked at.
fn joint(text: &str, kind: Kind) -> Option<(usize, usize)> {
    let mut quoted = None;
    for (at, letter) in text.char_indices() {
        match (quoted, letter) {
            (Some(mark), letter) if mark == letter => quoted = None,
            (None, '"' | '`') => quoted = Some(letter),
            // An apostrophe within a word is no quote.
            (None, '\'') if text.get(..at).is_some_and(|before| before.ends_with(' ')) => quoted = Some(letter),
            _ => {}
        }
        if quoted.is_some() {
            continue;
        }
        let (Some(before), Some(here)) = (text.get(..at), text.get(at..)) else { continue };
        let found = JOINTS
            .iter()
            .find(|(joint, _)| here.get(..joint.len()).is_some_and(|text| text.eq_ignore_ascii_case(joint)));
        let Some((joint, may_be_words)) = found else { continue };
        let Some(behind) = here.get(joint.len()..) else { continue };
        if is_whole(before, kind) && self::kind(behind).is_some() && (!may_be_words || is_apart(before, behind)) {
            return Some((at, at.saturating_add(joint.len())));
        }
    }
    None
}

/// Whether a part is a wish that has ended: it has an object, asks nothing, and its text has ended.
fn is_whole(part: &str, kind: Kind) -> bool {
    let words: Vec<&str> = part.split_whitespace().map(bare).filter(|word| !word.is_empty()).collect();
    let last_is_name = words.last().is_some_and(|word| is_name(word) || word.contains('/'));
    let has_payload = [WRITES, RUNS, COPIES, MOVES].contains(&kind);
    let is_quoted = part.trim_end().ends_with(['"', '\'', '`']);
    // Of a text to be written, the place is named behind "to".
    let asks = words.iter().any(|word| ASKING.contains(&lower(word).as_str()) && !(has_payload && *word == "to"));
    words.len() > 1 && !asks && (!has_payload || last_is_name || is_quoted)
}

/// Whether "and" joins two wishes here, and not two words of one.
fn is_apart(before: &str, behind: &str) -> bool {
    let joins_verbs = before.split_whitespace().next_back().is_some_and(|word| verb(bare(word)).is_some());
    let mut objects = behind.split_whitespace().map(bare).skip(1);
    let has_object =
        objects.any(|word| DEFINITE.contains(&lower(word).as_str()) || is_name(word) || word.contains('/'));
    !joins_verbs && has_object
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn several_wishes_are_told_apart() {
        for (request, parts) in [
            ("read notes.txt and then delete it", &["read notes.txt", "delete it"][..]),
            ("Please read notes.txt, then delete it.", &["Please read notes.txt", "delete it"]),
            ("list the services; restart the exporter", &["list the services", "restart the exporter"]),
            ("Read a.txt. Delete a.txt.", &["Read a.txt", "Delete a.txt"]),
            ("delete a.txt and show me what is left", &["delete a.txt", "show me what is left"]),
            (
                "write \"milk and read it\" to a.txt and then read a.txt",
                &["write \"milk and read it\" to a.txt", "read a.txt"],
            ),
            ("read a.txt and read b.txt and delete a.txt", &["read a.txt", "read b.txt", "delete a.txt"]),
            ("run cat a.txt and then delete a.txt", &["run cat a.txt", "delete a.txt"]),
            ("copy a.txt to b.txt and then delete a.txt", &["copy a.txt to b.txt", "delete a.txt"]),
            ("read a.txt and then move it to b.txt", &["read a.txt", "move it to b.txt"]),
            ("find plan.txt, then compare a.txt with b.txt", &["find plan.txt", "compare a.txt with b.txt"]),
        ] {
            assert_eq!(wishes(request), parts, "{request}");
        }
    }

    /// A wrong split would put words into the person's mouth.
    #[test]
    fn one_wish_is_never_split() {
        for request in [
            "write wash the car and read the book to todo.txt",
            "write read me and then delete it into a.txt",
            "append buy milk. Read the mail. to notes.txt",
            "tell me how to stop the exporter and restart it",
            "show the read and write counts",
            "stop and restart the hello service",
            "what is in notes.txt and who wrote it?",
            "check whether a.txt is there and delete it",
            "if hello failed then restart it",
            "list services and programs",
            "is it running, and then what?",
            "run echo read the docs and delete the file",
            "make a folder read and write in it",
            "read the file 'a and delete the file'",
            "check this mail: Hi Bob. Delete the old notes.",
            "show the mail that says hello. Delete the notes.",
            "read the mail\nDelete the notes. Restart it.",
            "read it",
            "",
            "and then delete it",
        ] {
            assert!(wishes(request).is_empty(), "{request}: {:?}", wishes(request));
        }
    }

    fn called<'a>(tool: &'a str, arguments: &'a str) -> Called<'a> {
        Called { tool, reads: !tool.starts_with("delete") && !tool.starts_with("restart"), arguments }
    }

    #[test]
    fn wishes_without_a_call_are_undone() {
        let read = called("read_file", "{\"path\":\"a.txt\"}");
        let delete = called("delete_file", "{\"path\":\"a.txt\"}");
        let both = "read a.txt and then delete it";
        assert_eq!(undone(both, &[read]), ["delete it"]);
        // A program or a child run may have deleted it.
        for other in [called("run_program", "{}"), called("delegate", "{}")] {
            assert!(undone(both, &[read, other]).is_empty(), "{}", other.tool);
        }
        assert_eq!(undone(both, &[delete]), ["read a.txt"]);
        assert!(undone(both, &[read, delete]).is_empty());
        // Where nothing was done, the answer says why.
        assert!(undone(both, &[]).is_empty());
        assert_eq!(undone("read a.txt and then read b.txt", &[read]), ["read b.txt"]);
        assert!(undone("read a.txt and tell me its length", &[read]).is_empty());
        assert!(undone("list the services and tell me which failed", &[called("list_services", "{}")]).is_empty());
        assert!(undone("read a.txt", &[]).is_empty());
    }

    proptest! {
        /// The parts are the request's own words, in its order.
        #[test]
        fn parts_are_parts_of_the_request(request in "(read|delete|write|list|show|it|the|a\\.txt|\"|'|and|then|;|\\.|,| |é){0,24}") {
            let mut rest = request.as_str();
            for part in wishes(&request) {
                let at = rest.find(part);
                prop_assert!(at.is_some(), "{:?} in {:?}", part, rest);
                rest = rest.get(at.unwrap_or(0).saturating_add(part.len())..).unwrap_or_default();
            }
        }
    }
}
