//! The documentation shows the files that are built and the session that a scenario runs, never an outdated copy.

use std::path::Path;

#[expect(clippy::unwrap_used, reason = "a part of the tests")]
fn shows(page: &str, files: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(page)).unwrap();
    for file in files {
        let shown = std::fs::read_to_string(root.join(file)).unwrap();
        assert!(text.contains(&format!("\n{}\n```", shown.trim_end())), "{page} shows another {file}");
    }
}

#[test]
fn the_tutorial_shows_the_files_as_they_are() {
    shows(
        "docs/tutorial.md",
        &["schema/hello.capnp", "userspace/examples/hello/src/main.rs", "userspace/examples/hello-client/src/main.rs"],
    );
}

#[test]
fn the_page_on_std_shows_its_program_as_it_is() {
    shows("docs/std.md", &["userspace/programs/greet-std/src/main.rs"]);
}

/// The text between the quotes of a scenario's lines that begin with one of these words.
fn quoted<'a>(steps: &'a str, words: &'a [&'a str]) -> impl Iterator<Item = String> + 'a {
    steps.lines().filter_map(|line| {
        let (word, rest) = line.split_once(' ')?;
        let text = rest.strip_prefix('"')?.strip_suffix('"')?;
        words.contains(&word).then(|| text.replace("\\\"", "\""))
    })
}

#[test]
fn the_first_session_shows_what_its_scenario_types_and_sees() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/first-session.md")).unwrap();
    let steps = std::fs::read_to_string(root.join("tests/scenarios/first-session/terminal.txt")).unwrap();
    let shown: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("capos> ")).collect();
    // The answers to the two questions are typed there too: a yes, and the passphrase.
    let typed: Vec<String> = quoted(&steps, &["line"]).filter(|line| line != "y" && line != "capos").collect();
    assert_eq!(shown, typed);
    for text in quoted(&steps, &["expect"]) {
        assert!(page.contains(text.trim_end()), "docs/first-session.md does not show {text:?}");
    }
}

/// The README shows some of the lines, each with all that the scenario expects after it.
#[test]
fn the_readme_shows_what_the_first_session_sees() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let steps = std::fs::read_to_string(root.join("tests/scenarios/first-session/terminal.txt")).unwrap();
    let shown: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix("capos> ")).collect();
    assert!(!shown.is_empty(), "README.md shows no session");
    for line in shown {
        let (_, after) = steps.split_once(&format!("line \"{line}\"\n")).unwrap();
        let (after, _) = after.split_once("expect \"capos> \"").unwrap();
        for text in quoted(after, &["expect"]) {
            assert!(readme.contains(text.trim_end()), "README.md does not show {text:?} after {line:?}");
        }
    }
}
