//! `docs/requirements.md`: the state of each requirement, and links in both directions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::pages::{anchored, claims, links, rows};
use crate::{root, text};

const PAGE: &str = "docs/requirements.md";

const STATES: [&str; 4] = ["shown", "partly", "open", "not applicable"];

/// A row of the page.
struct Requirement {
    id: String,
    state: String,
    /// Ids of claims, with the targets of their links.
    claims: Vec<(String, String)>,
    /// What is missing.
    reason: String,
}

fn requirements() -> Vec<Requirement> {
    let read = |row: &Vec<String>| {
        let [id, _, state, cell] = row.as_slice() else { panic!("a requirement has four cells: {row:?}") };
        let links: Vec<(String, String)> =
            links(cell).into_iter().filter(|(_, target)| target.starts_with("claims/")).collect();
        let last = links.last().map(|(id, target)| format!("[{id}]({target})"));
        let reason = last.map_or(cell.as_str(), |last| cell.split_once(&last).unwrap().1.trim_start_matches(". "));
        Requirement { id: anchored(id), state: state.clone(), reason: reason.to_owned(), claims: links }
    };
    rows(&text(PAGE)).iter().map(read).collect()
}

#[test]
fn every_requirement_has_one_row_and_a_state_with_a_reason() {
    let page = text(PAGE);
    let mut ids = BTreeSet::new();
    let mut counts = BTreeMap::from(STATES.map(|state| (state, 0)));
    for Requirement { id, state, claims, reason } in requirements() {
        assert!(ids.insert(id.clone()), "{id} exists twice");
        assert!(page.contains(&format!("\n## {}. ", &id[..1])), "{id} has no section");
        *counts.get_mut(state.as_str()).unwrap_or_else(|| panic!("{id} has the unknown state {state:?}")) += 1;
        assert!((state == "shown") == reason.is_empty(), "{id} is {state}, and what is missing is {reason:?}");
        assert!(reason.is_empty() || reason.ends_with('.'), "{id}: {reason:?} is no sentence");
        match state.as_str() {
            "shown" => assert!(!claims.is_empty(), "{id} is shown by no claim"),
            "partly" => {}
            _ => assert!(claims.is_empty(), "{id} is {state}, and {claims:?} shows it"),
        }
    }
    for (state, count) in counts {
        assert!(page.contains(&format!("\n| {state} | {count} |\n")), "{count} rows are {state}; the table differs");
    }
    // The numbers of each section have no gap.
    for letter in 'A'..='Q' {
        let numbers = ids.iter().filter(|id| id.starts_with(letter));
        let count = numbers.clone().count();
        assert!(count > 0, "there is no requirement {letter}01");
        assert!(numbers.cloned().eq((1..=count).map(|number| format!("{letter}{number:02}"))), "{letter} has a gap");
    }
}

#[test]
fn requirements_and_claims_link_to_each_other() {
    let (claims, requirements) = (claims(), requirements());
    let forth: BTreeSet<(String, String, String)> = claims
        .iter()
        .flat_map(|claim| claim.requirements.iter().map(move |row| (row, claim)))
        .map(|(row, claim)| {
            (row.clone(), claim.id.clone(), format!("claims/{}.md#{}", claim.page, claim.id.to_lowercase()))
        })
        .collect();
    let back: BTreeSet<(String, String, String)> = requirements
        .iter()
        .flat_map(|row| row.claims.iter().map(|(id, target)| (row.id.clone(), id.clone(), target.clone())))
        .collect();
    let different: Vec<_> = forth.symmetric_difference(&back).collect();
    assert!(different.is_empty(), "linked from one side only: {different:#?}");
}

#[test]
fn every_link_of_these_pages_resolves() {
    let mut wrong = Vec::new();
    let mut pages = vec![PAGE.to_owned()];
    for entry in std::fs::read_dir(root().join("docs/claims")).unwrap() {
        pages.push(format!("docs/claims/{}", entry.unwrap().file_name().to_string_lossy()));
    }
    for page in pages {
        for (_, target) in links(&text(&page)) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = match file {
                "" => root().join(&page),
                _ => root().join(Path::new(&page).parent().unwrap()).join(file),
            };
            let there = std::fs::read_to_string(&path).ok();
            let found = there.is_some_and(|there| anchor.is_empty() || there.contains(&format!("<a id=\"{anchor}\">")));
            if !found {
                wrong.push(format!("{page}: {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
