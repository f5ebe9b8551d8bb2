//! The pages of `docs/claims`: the form of each claim, and whether its tests and commands exist.

use std::collections::BTreeSet;

use crate::evidence;
use crate::{root, text};

/// The kinds of a claim, as the second column states them.
const KINDS: [&str; 4] = ["requirement", "kernel promise", "property", "system"];

/// The most words of a claim.
const MAX_WORDS: usize = 25;

/// A line of a table of claims.
#[derive(Debug)]
pub struct Claim {
    /// The page's name without its ending.
    pub page: String,
    pub id: String,
    pub kind: String,
    /// The ids of the requirements that the kind links to.
    pub requirements: Vec<String>,
    sentence: String,
    pub tests: Vec<String>,
    commands: Vec<String>,
}

/// The parts of a text between backticks.
pub fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The id of a row, whose first cell is `<a id="x01"></a>X01`.
pub fn anchored(cell: &str) -> String {
    let (anchor, id) = cell.split_once("</a>").unwrap_or_else(|| panic!("{cell:?} has no anchor"));
    assert_eq!(anchor, format!("<a id=\"{}\">", id.to_lowercase()), "{id} has another anchor");
    id.to_owned()
}

/// The links of a text: each one's words and its target.
pub fn links(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("](") {
        let words = text[..at].rsplit('[').next().unwrap();
        let target = text[at + 2..].split(')').next().unwrap();
        found.push((words.to_owned(), target.to_owned()));
    }
    found
}

/// The rows of the tables of a page whose first cell has an anchor.
pub fn rows(page: &str) -> Vec<Vec<String>> {
    let lines = page.lines().filter(|line| line.starts_with("| <a id="));
    let cells = lines.map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect());
    cells.collect()
}

/// The names of the pages with claims.
fn pages() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("docs/claims")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> = names.map(|name| name.strip_suffix(".md").unwrap().to_owned()).collect();
    pages.retain(|page| page != "README" && page != "figures");
    pages.sort();
    pages
}

/// All claims.
pub fn claims() -> Vec<Claim> {
    let mut claims = Vec::new();
    for page in pages() {
        for row in rows(&text(&format!("docs/claims/{page}.md"))) {
            let [id, kind, sentence, tests, commands] = row.as_slice() else {
                panic!("{page}: a claim has five cells: {row:?}")
            };
            let requirements = links(kind).into_iter().map(|(id, target)| {
                assert_eq!(target, format!("../requirements.md#{}", id.to_lowercase()), "{page}: {kind}");
                id
            });
            claims.push(Claim {
                id: anchored(id),
                requirements: requirements.collect(),
                kind: kind.split(" [").next().unwrap().to_owned(),
                sentence: sentence.clone(),
                tests: quoted(tests),
                commands: quoted(commands),
                page: page.clone(),
            });
        }
    }
    assert!(claims.len() > 400, "only {} claims", claims.len());
    claims
}

#[test]
fn every_claim_is_one_short_sentence_with_an_id_of_its_own() {
    let mut ids = BTreeSet::new();
    let mut wrong = Vec::new();
    for Claim { id, kind, requirements, sentence, .. } in claims() {
        let words = sentence.split_whitespace().count();
        if words > MAX_WORDS {
            wrong.push(format!("{id} has {words} words"));
        }
        if !sentence.ends_with('.') || sentence.contains(". ") {
            wrong.push(format!("{id} is not one sentence"));
        }
        if !KINDS.contains(&kind.as_str()) {
            wrong.push(format!("{id} is of the unknown kind {kind:?}"));
        }
        if (kind == "requirement") == requirements.is_empty() {
            wrong.push(format!("{id} is a {kind} and names {} requirements", requirements.len()));
        }
        if !ids.insert(id.clone()) {
            wrong.push(format!("{id} exists twice"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_claim_names_tests_that_exist_and_name_its_requirements() {
    let mut wrong = Vec::new();
    for claim in claims() {
        if claim.tests.is_empty() {
            wrong.push(format!("{} names no test", claim.id));
        }
        for test in &claim.tests {
            wrong.extend(evidence::absent(test).map(|why| format!("{}: {test}: {why}", claim.id)));
            for row in claim.requirements.iter().filter(|row| !evidence::names(test, row)) {
                wrong.push(format!("{}: {test} does not name {row}", claim.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_claim_has_commands_that_exist_and_run_its_tests() {
    let mut wrong = Vec::new();
    for claim in claims() {
        for command in &claim.commands {
            wrong.extend(evidence::unknown(command).map(|why| format!("{}: `{command}`: {why}", claim.id)));
        }
        for test in &claim.tests {
            if !claim.commands.iter().any(|command| evidence::runs(command, test)) {
                wrong.push(format!("{}: no command runs {test}", claim.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_test_of_the_kernel_is_in_a_claim() {
    let claims = claims();
    let tests = evidence::kernel_tests();
    assert!(tests.len() > 60, "{tests:?}");
    let missing: Vec<&String> =
        tests.iter().filter(|test| !claims.iter().any(|claim| claim.tests.contains(test))).collect();
    assert!(missing.is_empty(), "no claim names {missing:#?}");
}

#[test]
fn every_property_of_the_kernels_crates_is_in_a_claim() {
    let claims = claims();
    let listed: BTreeSet<String> =
        claims.iter().filter(|claim| claim.kind == "property").flat_map(|claim| claim.tests.clone()).collect();
    let tested = evidence::property_tests();
    assert!(tested.len() > 30, "{tested:?}");
    let missing: Vec<&String> = listed.symmetric_difference(&tested).collect();
    assert!(missing.is_empty(), "a claim of the kind property, or a property test, but not both: {missing:#?}");
}

#[test]
fn every_requirement_of_a_scenario_has_a_claim_that_names_the_scenario() {
    let claims = claims();
    for (scenario, rows) in evidence::scenarios() {
        for row in rows {
            let claimed =
                claims.iter().any(|claim| claim.requirements.contains(&row) && claim.tests.contains(&scenario));
            assert!(claimed, "{scenario} names {row}, but no claim of {row} names {scenario}");
        }
    }
}

#[test]
fn every_figure_belongs_to_a_claim_and_every_page_is_in_the_index() {
    let ids: BTreeSet<String> = claims().into_iter().map(|claim| claim.id).collect();
    let figures = text("docs/claims/figures.md");
    let cells = figures.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let named: Vec<&str> = cells.filter(|cell| cell.ends_with(|end: char| end.is_ascii_digit())).collect();
    assert!(named.len() > 20, "{named:?}");
    for id in named.iter().flat_map(|cell| cell.split(", ")).flat_map(|part| part.split(" to ")) {
        assert!(ids.contains(id), "docs/claims/figures.md names {id}, which is no claim");
    }
    let (index, contents) = (text("docs/claims/README.md"), text("docs/SUMMARY.md"));
    for page in pages() {
        assert!(index.contains(&format!("]({page}.md)")), "docs/claims/README.md does not list {page}");
        assert!(contents.contains(&format!("](claims/{page}.md)")), "docs/SUMMARY.md does not list {page}");
    }
}
