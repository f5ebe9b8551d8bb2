//! The links and the commands of the documentation: each link has its page and heading, and each command names a target, a
//! subcommand, a package, a test or a scenario that exists.
#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files that the tutorials have the reader create.
const CREATED: [&str; 3] = ["field-notes", "letter-count", "my-scenario"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The files of a folder and of those in it whose name satisfies `wanted`, build outputs left out.
fn walk(folder: &Path, wanted: &dyn Fn(&str) -> bool, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                walk(&path, wanted, into);
            }
        } else if wanted(&name) {
            into.push(path);
        }
    }
}

/// The README and each page of the book, by its path in the source.
fn pages() -> BTreeMap<PathBuf, String> {
    let mut files = vec![root().join("README.md")];
    walk(&root().join("docs"), &|name| name.ends_with(".md"), &mut files);
    let text = |path: PathBuf| (path.strip_prefix(root()).unwrap().to_owned(), std::fs::read_to_string(&path).unwrap());
    files.into_iter().map(text).collect()
}

/// The lines of a page, each with the language of the fence that it is in.
fn lines(page: &str) -> impl Iterator<Item = (Option<&str>, &str)> {
    let mut fence = None;
    page.lines().filter_map(move |line| match (line.strip_prefix("```"), fence) {
        (Some(language), None) => {
            fence = Some(language);
            None
        }
        (Some(_), Some(_)) => {
            fence = None;
            None
        }
        (None, _) => Some((fence, line)),
    })
}

/// The possible targets of links to a page: the anchor of each heading, and each named place.
fn anchors(page: &str) -> BTreeSet<String> {
    let named = page.split("<a id=\"").skip(1).filter_map(|rest| rest.split_once('"')).map(|(name, _)| name.to_owned());
    let headings = lines(page).filter(|(fence, line)| fence.is_none() && line.starts_with('#'));
    let anchor = |line: &str| {
        let kept = line.trim_start_matches('#').trim().to_lowercase();
        kept.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c)).collect::<String>().replace(' ', "-")
    };
    headings.map(|(_, line)| anchor(line)).chain(named).collect()
}

/// The targets of a line's links.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

#[test]
fn every_link_has_its_page_and_heading() {
    let pages = pages();
    let mut wrong = Vec::new();
    for (path, page) in &pages {
        for (_, line) in lines(page).filter(|(fence, _)| fence.is_none()) {
            for link in links(line).filter(|link| !link.contains("://")) {
                let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
                let from =
                    if file.is_empty() { root().join(path) } else { root().join(path).with_file_name("").join(file) };
                let Ok(to) = from.canonicalize() else {
                    wrong.push(format!("{}: there is no {link}", path.display()));
                    continue;
                };
                let known = to.strip_prefix(root()).ok().and_then(|to| pages.get(to));
                if !anchor.is_empty() && known.is_some_and(|page| !anchors(page).contains(anchor)) {
                    wrong.push(format!("{}: {link} has no such heading", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The commands of a page: lines of shell, and code in a line of text that begins as one.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for (fence, line) in lines(page) {
        match fence {
            Some("sh") => commands.push(line.split(" #").next().unwrap_or(line).trim().to_owned()),
            Some(_) => {}
            None => commands.extend(line.split('`').skip(1).step_by(2).map(str::to_owned)),
        }
    }
    commands
}

/// The names that commands may use.
struct Known {
    make: String,
    scenarios: Vec<String>,
    packages: BTreeMap<String, PathBuf>,
}

impl Known {
    fn new() -> Self {
        let mut scenarios = Vec::new();
        for folder in ["tests/scenarios", "tools/scenarios"] {
            let entries = std::fs::read_dir(root().join(folder)).unwrap();
            scenarios.extend(entries.map(|entry| format!("qemu/{}", entry.unwrap().file_name().to_str().unwrap())));
        }
        let mut manifests = Vec::new();
        for folder in ["common", "kernel", "userspace", "tools", "schema"] {
            walk(&root().join(folder), &|name| name == "Cargo.toml", &mut manifests);
        }
        let package = |path: &PathBuf| {
            let text = std::fs::read_to_string(path).unwrap();
            let name = text.lines().find_map(|line| line.strip_prefix("name = \""))?.strip_suffix('"')?.to_owned();
            Some((name, path.parent()?.to_owned()))
        };
        let packages = manifests.iter().filter_map(package).collect();
        Self { make: std::fs::read_to_string(root().join("Makefile")).unwrap(), scenarios, packages }
    }

    /// The part of a command that does not exist.
    fn missing(&self, command: &str) -> Option<String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            ["make", rest @ ..] => self.missing_for_make(rest),
            ["cargo", "test", rest @ ..] => self.missing_for_cargo(rest),
            ["capos" | "target/debug/capos", rest @ ..] => missing_for_capos(rest),
            _ => None,
        }
    }

    fn missing_for_make(&self, words: &[&str]) -> Option<String> {
        let has = |target: &str| {
            self.make
                .lines()
                .filter_map(|line| line.split(':').next())
                .any(|names| names.split(' ').any(|name| name == target))
        };
        let targets = words.iter().take_while(|word| !word.contains('=')).filter(|word| !word.starts_with(['-', '[']));
        if let Some(target) =
            targets.filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase())).find(|word| !has(word))
        {
            return Some(format!("make has no target {target}"));
        }
        for word in words {
            if let Some(part) = word.strip_prefix("ONLY=").filter(|part| part.starts_with("qemu/")) {
                let is_it = |name: &String| name.contains(part) || part.starts_with(&format!("{name}/"));
                if !self.scenarios.iter().any(is_it) {
                    return Some(format!("no scenario {part}"));
                }
            } else if let Some(path) = word.strip_prefix("SCENARIO=")
                && !root().join(path).is_dir()
                && !CREATED.iter().any(|created| path.ends_with(created))
            {
                return Some(format!("no scenario {path}"));
            }
        }
        None
    }

    fn missing_for_cargo(&self, words: &[&str]) -> Option<String> {
        let mut folders = Vec::new();
        for pair in words.windows(2) {
            match pair {
                ["-p", name] if !CREATED.iter().any(|created| name.ends_with(created)) => {
                    match self.packages.get(*name) {
                        Some(folder) => folders.push(folder),
                        None => return Some(format!("no package {name}")),
                    }
                }
                ["--test", name] => {
                    let has = |folder: &&PathBuf| {
                        let tests = folder.join("tests");
                        tests.join(format!("{name}.rs")).is_file() || tests.join(name).join("main.rs").is_file()
                    };
                    if !folders.iter().any(has) {
                        return Some(format!("no test {name}"));
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// The subcommand or option of a command line that `capos` does not know.
fn missing_for_capos(words: &[&str]) -> Option<String> {
    let is_name = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
    let (first, rest) = words.split_first()?;
    if !is_name(&first) {
        return None;
    }
    // These have subcommands of their own.
    let inner = rest.first().filter(|word| ["audit", "backup", "manifest"].contains(first) && is_name(word));
    let mut capos = Command::new(env!("CARGO_BIN_EXE_capos"));
    let output = capos.arg(first).args(inner).arg("--help").output().unwrap();
    if !output.status.success() {
        return Some(format!("capos has no {first} {}", inner.unwrap_or(&"")));
    }
    let help = String::from_utf8(output.stdout).unwrap();
    let option = rest.iter().find(|word| word.starts_with("--") && !help.contains(**word))?;
    Some(format!("capos {first} has no {option}"))
}

#[test]
fn every_command_names_what_exists() {
    let known = Known::new();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (path, page) in pages() {
        for command in commands(&page) {
            count += 1;
            wrong.extend(known.missing(&command).map(|why| format!("{}: `{command}`: {why}", path.display())));
        }
    }
    assert!(count > 100, "only {count} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_does_not_exist_is_found() {
    let known = Known::new();
    for (command, why) in [
        ("make tets", "make has no target tets"),
        ("make test ONLY=qemu/consentt", "no scenario qemu/consentt"),
        ("make run-agent SCENARIO=tests/scenarios/consentt", "no scenario tests/scenarios/consentt"),
        ("cargo test -p capos-tool", "no package capos-tool"),
        ("cargo test -p capos-tools --test doc", "no test doc"),
        ("capos manifests check FILE", "capos has no manifests "),
        ("target/debug/capos manifest chekc FILE", "capos has no manifest chekc"),
        ("capos sign small.gguf --keys keys", "capos sign has no --keys"),
    ] {
        assert_eq!(known.missing(command).as_deref(), Some(why), "{command}");
    }
    assert_eq!(known.missing("make test ONLY=qemu/hostile/random-operations"), None);
}

/// make defines variables of its own, `LINT` among them. The Makefile must not take one of those for a given one.
#[test]
fn the_makefile_needs_no_variable() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut make = Command::new("make");
    make.args(["--dry-run", "help", "deps"]).current_dir(root()).env_clear().env("PATH", path);
    let shown = make.output().unwrap();
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
}
