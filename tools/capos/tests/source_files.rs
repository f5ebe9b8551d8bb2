//! The rule one-noun-one-file of `docs/contributing.md`: how long a source file may be, and how many files a folder may hold.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::path::{Path, PathBuf};

/// The most lines of a source file without a reason.
const LINES: usize = 600;
/// The most lines of any source file.
const MOST_LINES: usize = 1000;
/// The most files of a folder.
const FILES: usize = 25;

/// The longer source files, each with its reason.
const LONGER: [(&str, &str); 14] = [
    ("kernel/kernel/src/memory/page_table.rs", "the walk of one table, whose unsafe code is read together"),
    ("kernel/kernel/src/tests_in_kernel/calls.rs", "a list of tests"),
    ("schema/rust/src/cap.rs", "a capability and the calls through it, which are read together"),
    ("tools/capos/src/scenario/checks/audit.rs", "recomputes the chain without the code that it judges"),
    ("userspace/lib/agent/tests/agent/world.rs", "a world for tests: model, tools, person and records"),
    ("userspace/lib/audit/tests/audit/chain.rs", "a list of tests"),
    ("userspace/lib/chat/tests/chat/grammar.rs", "a list of tests"),
    ("userspace/lib/policy/tests/policy/policy.rs", "a list of tests"),
    ("userspace/lib/terminal/src/console.rs", "one state machine with its transitions"),
    ("userspace/lib/terminal/src/keys.rs", "one decoder with its table of sequences"),
    ("userspace/lib/tree/src/tree.rs", "one type, whose operations keep one set of sums"),
    ("userspace/ring/src/ring.rs", "one type, whose tests play the kernel"),
    ("userspace/runtime/src/simulated.rs", "a kernel for tests on the host"),
    ("userspace/runtime/tests/calls.rs", "a list of tests"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Calls `look` with each folder of the source, by its path from the top, and the files in it. The book's pages are left
/// out: their order is that of its table of contents.
fn folders(at: &str, look: &mut dyn FnMut(&str, &[PathBuf])) {
    let (mut files, mut inner) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(root().join(at)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.starts_with('.') || ["target", "docs", "__pycache__"].contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            inner.push(if at.is_empty() { name } else { format!("{at}/{name}") });
        } else {
            files.push(path);
        }
    }
    look(at, &files);
    inner.iter().for_each(|folder| folders(folder, look));
}

#[test]
fn longer_source_files_have_a_reason() {
    let mut found = Vec::new();
    folders("", &mut |folder, files| {
        for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
            let lines = std::fs::read_to_string(file).unwrap().lines().count();
            let path = format!("{folder}/{}", file.file_name().unwrap().to_str().unwrap());
            assert!(lines <= MOST_LINES, "{path} has {lines} lines; at most {MOST_LINES} are permitted: divide it");
            if lines > LINES {
                found.push(path);
            }
        }
    });
    found.sort();
    let listed: Vec<&str> = LONGER.iter().map(|(path, _)| *path).collect();
    assert_eq!(found, listed, "left: source files with more than {LINES} lines; right: those with a reason in LONGER");
}

#[test]
fn no_folder_has_too_many_files() {
    folders("", &mut |folder, files| {
        let count = files.len();
        assert!(count <= FILES, "{folder} has {count} files; at most {FILES} are permitted: make folders by purpose");
    });
}
