//! Questions of people, and the page that answers them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

use std::collections::BTreeSet;
use std::path::Path;

use capos_manual::{LEFT_OUT, Manual, PAGES};
use proptest::prelude::*;

/// A question, at which place its answer must be at the latest, and the answers: `page` or `page: part of the heading`.
const QUESTIONS: &[(&str, usize, &[&str])] = &[
    ("how do I make a backup", 1, &["backup: Back up"]),
    ("restore a backup", 1, &["backup: Restore"]),
    ("I forgot my passphrase", 1, &["setup: A forgotten passphrase"]),
    ("how do I change my password?", 3, &["setup", "reference/sessions: Sessions and the shell"]),
    ("add a user", 1, &["setup: Users"]),
    ("how do I shut down", 1, &["setup: Turn the machine off"]),
    ("turn the machine off", 1, &["setup: Turn the machine off"]),
    ("copy a file to a usb stick", 3, &["transfer"]),
    ("import", 3, &["transfer"]),
    ("what does stepUp mean", 3, &["reference/sessions", "reference/policy", "policy"]),
    ("continue a conversation after power off", 3, &["conversations"]),
    ("how do I run a program in the background", 3, &["programs", "reference/runs: Background"]),
    ("install a model", 3, &["setup", "reference/models: Installed models", "signing"]),
    ("sign a model", 1, &["signing"]),
    ("verify the audit log", 3, &["reference/audit"]),
    ("what is a capability", 3, &["glossary", "introduction"]),
    ("upgrade to a newer image", 1, &["upgrade"]),
    ("use capOS from zed", 3, &["clients"]),
    ("budget of tokens", 1, &["reference/budgets"]),
    ("skills", 1, &["skills"]),
    ("set the clock", 1, &["setup: Clock and time zone"]),
    ("what time is it", 3, &["setup: Clock and time zone", "reference/sessions"]),
    ("can the model delete my files without asking?", 3, &["first-session: Step up", "security", "policy"]),
    ("recovery code", 3, &["setup", "backup"]),
    ("lock the screen", 1, &["setup: Lock the terminal"]),
    ("what happens when the disk is full", 3, &["limits", "setup", "reference/files", "security"]),
    ("quota of a home directory", 3, &["setup", "reference/files", "reference/home-keys"]),
    ("search in my conversations", 3, &["conversations", "reference/sessions"]),
    ("can't log in", 3, &["setup", "reference/sessions: Log in"]),
    ("isn't there a network?", 3, &["introduction", "limits", "security", "built-in-model-card"]),
];

fn answers(manual: &Manual, question: &str, place: usize, expected: &[&str]) -> bool {
    manual.search(question, place).iter().any(|(passage, _)| {
        expected.iter().any(|wanted| match wanted.split_once(": ") {
            Some((page, heading)) => passage.page == page && passage.heading.contains(heading),
            None => passage.page == *wanted,
        })
    })
}

#[test]
fn b19_the_manual_answers_questions_of_people() {
    let manual = Manual::new(PAGES);
    let shown = |question: &str| {
        let found = manual.search(question, 3);
        found.iter().map(|(passage, _)| format!("{}: {}", passage.page, passage.heading)).collect::<Vec<_>>()
    };
    let missed: Vec<_> = QUESTIONS
        .iter()
        .filter(|(question, place, expected)| !answers(&manual, question, *place, expected))
        .map(|(question, ..)| format!("{question}\n    {}", shown(question).join("\n    ")))
        .collect();
    assert!(missed.is_empty(), "{} of {} questions:\n{}", missed.len(), QUESTIONS.len(), missed.join("\n"));
}

proptest! {
    /// Whatever is asked, no passage comes twice, and no more than are asked for.
    #[test]
    fn any_query_is_answered(query in "(\\PC|[\\x00-\\x20]|backup|'){0,200}", max in 0_usize..9) {
        thread_local!(static MANUAL: Manual = Manual::new(PAGES));
        MANUAL.with(|manual| {
            let found = manual.search(&query, max);
            let different: BTreeSet<_> = found.iter().map(|(passage, _)| (passage.page, &passage.text)).collect();
            prop_assert!(found.len() <= max && different.len() == found.len());
            Ok(())
        })?;
    }
}

/// What people say that is about something else. The shell would show a passage unasked.
const OTHERS: &[&str] = &[
    "How are you?",
    "Who are you?",
    "Why?",
    "Are you there?",
    "What can you do?",
    "what is a cat?",
    "is that right?",
    "how old are you",
    "what is your name?",
    "who wrote the first book about cats?",
    "how far is it to the moon?",
    "can you translate this into French?",
];

#[test]
fn small_talk_matches_nothing() {
    let manual = Manual::new(PAGES);
    let matched = |question: &&&str| manual.search(question, 1).iter().any(|(_, percent)| *percent >= 75);
    assert_eq!(OTHERS.iter().filter(matched).collect::<Vec<_>>(), [""; 0].iter().collect::<Vec<_>>());
    let known: Vec<_> = QUESTIONS.iter().map(|(question, ..)| question).filter(matched).collect();
    assert!(known.len() >= 24, "{known:?}");
    assert!(matched(&&"what is a capability?") && matched(&&"how do I restore a backup?"));
}

#[test]
fn each_page_of_docs_is_in_the_manual_or_left_out() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
    let mut there = BTreeSet::new();
    for folder in ["", "reference/"] {
        for entry in std::fs::read_dir(docs.join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            there.extend(name.strip_suffix(".md").map(|name| format!("{folder}{name}")));
        }
    }
    let known = PAGES.iter().map(|page| page.name).chain(LEFT_OUT.iter().copied()).map(str::to_owned);
    assert_eq!(known.collect::<BTreeSet<_>>(), there);
}

#[test]
fn passages_are_short_and_name_their_page() {
    let manual = Manual::new(PAGES);
    for passage in manual.passages() {
        assert!(passage.text.len() < 4096, "{}: {} bytes", passage.heading, passage.text.len());
        assert!(!passage.heading.is_empty() && !passage.text.contains("]("), "{}: {}", passage.page, passage.text);
    }
    let pages: BTreeSet<_> = manual.passages().iter().map(|passage| passage.page).collect();
    assert_eq!(pages.len(), PAGES.len());
}
