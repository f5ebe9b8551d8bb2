//! The kernel's layers: `kernel/kernel/src/main.rs` lists them in order, and no file imports from a later one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The imports from a later layer that there are: the file, and what it names. No other exception is permitted.
///
/// - A wait that ends makes its thread ready, so threads need the scheduler, and the scheduler holds threads.
/// - A kernel that is built with its tests runs them at its start.
const KNOT: [(&str, &str); 5] = [
    ("object/thread.rs", "sched::scheduler::wake"),
    ("start/tests.rs", "tests_in_kernel::begin"),
    ("start/tests.rs", "tests_in_kernel::needs_loader"),
    ("start/tests.rs", "tests_in_kernel::processors"),
    ("start/tests.rs", "tests_in_kernel::run"),
];

/// Tests of the kernel that run in it. They name everything, and nothing is built on them.
const TESTS: &str = "tests_in_kernel";

/// What macros at the root of the crate are called, and the layer that defines each.
const MACROS: [(&str, &str); 1] = [("log", "cpu")];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/kernel/src").canonicalize().unwrap()
}

/// The layers as the list in `main.rs` names them, the lowest first.
fn layers() -> Vec<String> {
    let main = std::fs::read_to_string(source().join("main.rs")).unwrap();
    let lines = main.lines().filter_map(|line| line.strip_prefix("//! "));
    let items = lines.filter_map(|line| line.split_once(". `")).filter(|(number, _)| number.parse::<usize>().is_ok());
    items.map(|(_, rest)| rest.split_once('`').unwrap().0.to_owned()).collect()
}

/// Calls `look` with each source file of a folder: its path from the kernel's `src`, and its text.
fn files(at: &Path, look: &mut dyn FnMut(&str, &str)) {
    for entry in std::fs::read_dir(source().join(at)).unwrap() {
        let path = at.join(entry.unwrap().file_name());
        if source().join(&path).is_dir() {
            files(&path, look);
        } else {
            look(path.to_str().unwrap(), &std::fs::read_to_string(source().join(&path)).unwrap());
        }
    }
}

/// The text without comments.
fn code(text: &str) -> String {
    text.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code)).collect::<Vec<_>>().join("\n")
}

/// The paths of a `use` tree such as `a::{b, c::{self, D}}`.
fn paths(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((stem, list)) = tree.strip_suffix('}').and_then(|tree| tree.split_once('{')) else {
        let path = tree.split(" as ").next().unwrap();
        return vec![path.trim_end_matches("::self").to_owned()];
    };
    let (mut parts, mut part, mut depth) = (Vec::new(), String::new(), 0);
    for character in list.chars() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if character == ',' && depth == 0 {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(character);
        }
    }
    parts.push(part);
    let inner = parts.iter().filter(|part| !part.trim().is_empty()).flat_map(|part| paths(part));
    inner
        .map(|inner| if inner == "self" { stem.trim_end_matches("::").to_owned() } else { format!("{stem}{inner}") })
        .collect()
}

/// What a file names of its own crate, from the crate's root on.
fn imports(text: &str) -> BTreeSet<String> {
    let code = code(text);
    let mut found = BTreeSet::new();
    let mut rest = code.as_str();
    while let Some(at) = rest.find("crate::") {
        let (before, after) = rest.split_at(at);
        let is_use = before.trim_end().ends_with("use");
        let after = &after["crate::".len()..];
        let end = match is_use {
            true => after.find(';').unwrap(),
            false => after.find(|character: char| !(character.is_alphanumeric() || "_:".contains(character))).unwrap(),
        };
        let tree = after[..end].replace('\n', " ");
        found.extend(paths(&tree).into_iter().map(|path| path.trim_matches(':').replace(' ', "")));
        rest = &after[end..];
    }
    found
}

/// The imports from later layers of a file.
fn upward(layers: &[String], path: &str, text: &str) -> BTreeSet<String> {
    let level = |name: &str| layers.iter().position(|layer| layer == name);
    let folder = path.split('/').next().unwrap();
    let own = level(folder).unwrap_or_else(|| panic!("{path} is in no layer of the list in main.rs"));
    // `super` must not lead to the root of the crate, where every layer is.
    let depth = path.split('/').filter(|part| *part != "mod.rs").count();
    let above = "super::".repeat(depth);
    assert!(!code(text).contains(&above), "{path} reaches another layer by `super`: write `crate`");
    let is_upward = |import: &String| {
        let first = import.split("::").next().unwrap();
        let name = MACROS.iter().find(|(name, _)| *name == first).map_or(first, |(_, layer)| *layer);
        let theirs = if name == TESTS { Some(layers.len()) } else { level(name) };
        theirs.unwrap_or_else(|| panic!("{path} names crate::{import}, which is in no layer")) > own
    };
    imports(text).into_iter().filter(is_upward).collect()
}

#[test]
fn no_layer_names_a_later_one() {
    let layers = layers();
    let mut found = BTreeSet::new();
    files(Path::new(""), &mut |path, text| {
        if path != "main.rs" && !path.starts_with(TESTS) {
            found.extend(upward(&layers, path, text).into_iter().map(|import| (path.to_owned(), import)));
        }
    });
    let knot: BTreeSet<_> = KNOT.iter().map(|(file, import)| ((*file).to_owned(), (*import).to_owned())).collect();
    let new: Vec<_> = found.difference(&knot).collect();
    assert!(new.is_empty(), "a file imports from a later layer; move what it needs down, or the file up: {new:#?}");
    let gone: Vec<_> = knot.difference(&found).collect();
    assert!(gone.is_empty(), "these exceptions are not needed any more: {gone:#?}");
}

#[test]
fn every_folder_is_a_layer() {
    let mut folders: Vec<String> = std::fs::read_dir(source())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| name != TESTS)
        .collect();
    folders.sort();
    let mut layers = layers();
    layers.sort();
    assert_eq!(folders, layers, "left: the folders of the kernel's source; right: the layers that main.rs lists");
}

/// Only a kernel that is built with the feature `tests` has them, and no build has it unless it asks for it.
#[test]
fn the_shipped_kernel_holds_no_test() {
    let main = std::fs::read_to_string(source().join("main.rs")).unwrap();
    let module = format!("#[cfg(all(target_os = \"none\", feature = \"tests\"))]\nmod {TESTS};");
    assert_eq!(main.matches(TESTS).count(), module.matches(TESTS).count() + 1, "once in the list of layers");
    assert!(main.contains(&module), "main.rs has `{TESTS}` without the feature `tests`");
    let manifest = std::fs::read_to_string(source().join("../Cargo.toml")).unwrap();
    assert!(manifest.contains("\ntests = []\n"), "the kernel has no feature `tests`");
    assert!(!manifest.contains("default ="), "no feature of the kernel is a default");
}

#[test]
fn imports_are_found_in_every_form() {
    let layers: Vec<String> = ["low", "middle", "high"].map(str::to_owned).to_vec();
    let text = "use crate::low::a as e;\nuse crate::{low as f, high::b::{self, C}, middle};\n// crate::high::comment\n\
                fn f() { crate::high::d(); }\n";
    let found: Vec<String> = upward(&layers, "middle/file.rs", text).into_iter().collect();
    assert_eq!(found, ["high::b", "high::b::C", "high::d"]);
    assert!(upward(&layers, "high/file.rs", text).is_empty());
}

#[test]
#[should_panic(expected = "by `super`")]
fn no_file_reaches_another_layer_by_super() {
    upward(&["low".to_owned(), "high".to_owned()], "low/mod.rs", "use super::high::a;\n");
}

/// Where the completion of an entry is written, whichever path it took. Below that, a thread writes it.
const WRITERS: [&str; 1] = ["syscall/mod.rs"];

#[test]
fn the_completion_of_an_entry_is_written_in_one_place() {
    let mut found = Vec::new();
    files(Path::new(""), &mut |path, text| {
        if !path.starts_with(TESTS) && !path.starts_with("object/thread") {
            found.extend(code(text).matches(".post(").map(|_| path.to_owned()));
        }
    });
    found.sort();
    assert_eq!(found, WRITERS, "a handler returns how its entry ended; one place writes the completion");
}
