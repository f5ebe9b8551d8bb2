//! `capos new-service` and `capos new-app`: the files of a new part of the system, which builds and runs at once.
//!
//! Everything is checked before anything is written, so an error leaves the source unchanged.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value, value};

use crate::build::packages;
use crate::build::system::System;

/// Where a new part's files go, below the source folder.
const SERVICES: &str = "userspace/services";
const PROGRAMS: &str = "userspace/programs";
const SCENARIOS: &str = "tests/scenarios";
const SCHEMA: &str = "schema";
const MANIFEST: &str = "iso_root/etc/manifest.toml";
/// A schema's name for the file of annotations that it imports.
const ANNOTATIONS: &str = "A";
/// The profile whose sessions hold a new service: the operators'.
const PROFILE: &str = "operator";
/// Characters of a name at most: it is that of a process, a folder and a part of a tool's name.
const MAX_NAME: usize = 24;
/// Words that cannot be the name of a module.
const KEYWORDS: [&str; 44] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "use",
];

/// Folders that cargo makes next to its output, and after which no program may be named.
const CARGO_FOLDERS: [&str; 4] = ["build", "deps", "examples", "incremental"];
/// Modules of `capos-schema` that are not made of a schema file.
const SCHEMA_MODULES: [&str; 9] =
    ["builder", "cap", "exception", "hook", "local", "reader", "reflection", "sync", "wire"];
/// Types that a schema has without declaring them.
const SCHEMA_TYPES: [&str; 19] = [
    "AnyList",
    "AnyPointer",
    "AnyStruct",
    "Bool",
    "Capability",
    "Data",
    "Float32",
    "Float64",
    "Int16",
    "Int32",
    "Int64",
    "Int8",
    "List",
    "Text",
    "Uint16",
    "Uint32",
    "Uint64",
    "Uint8",
    "Void",
];

/// A template's place in the new part, and its text.
type Template = (&'static str, &'static str);

const SERVICE_PACKAGE: [Template; 3] = [
    ("Cargo.toml", include_str!("../templates/service/package/Cargo.toml")),
    ("src/main.rs", include_str!("../templates/service/package/main.rs")),
    ("src/notes.rs", include_str!("../templates/service/package/notes.rs")),
];
const SERVICE_SCHEMA: &str = include_str!("../templates/service/schema.capnp");
const SERVICE_SCENARIO: [Template; 4] = [
    ("check.toml", include_str!("../templates/service/scenario/check.toml")),
    ("config.toml", include_str!("../templates/service/scenario/config.toml")),
    ("model.jsonl", include_str!("../templates/service/scenario/model.jsonl")),
    ("terminal.txt", include_str!("../templates/service/scenario/terminal.txt")),
];
const APP_PACKAGE: [Template; 2] = [
    ("Cargo.toml", include_str!("../templates/app/package/Cargo.toml")),
    ("src/main.rs", include_str!("../templates/app/package/main.rs")),
];
const APP_SCENARIO: [Template; 4] = [
    ("check.toml", include_str!("../templates/app/scenario/check.toml")),
    ("config.toml", include_str!("../templates/app/scenario/config.toml")),
    ("model.jsonl", include_str!("../templates/app/scenario/model.jsonl")),
    ("terminal.txt", include_str!("../templates/app/scenario/terminal.txt")),
];

/// Create a service: schema, program, manifest entry and a tool for the agent.
#[derive(clap::Args)]
pub struct ServiceArgs {
    /// Name: lower-case letters, digits and hyphens, such as `field-notes`.
    #[arg(value_name = "NAME")]
    name: Name,
}

/// Create a program on std with its manifest entry.
#[derive(clap::Args)]
pub struct AppArgs {
    /// Name: lower-case letters, digits and hyphens, such as `word-count`.
    #[arg(value_name = "NAME")]
    name: Name,
}

/// Runs `capos new-service`.
pub fn run_service(args: &ServiceArgs) -> Result<ExitCode> {
    write(service(System::find()?.root(), &args.name)?, &args.name)
}

/// Runs `capos new-app`.
pub fn run_app(args: &AppArgs) -> Result<ExitCode> {
    write(app(System::find()?.root(), &args.name)?, &args.name)
}

fn write(part: Part, name: &Name) -> Result<ExitCode> {
    part.write()?;
    print!("{}", part.told);
    println!("\nto build and run it:\n    make run-agent SCENARIO={SCENARIOS}/{}", name.0);
    println!("to run it as a test:\n    make test ONLY=qemu/{}", name.0);
    println!("to try it at the prompt:\n    make run");
    Ok(ExitCode::SUCCESS)
}

/// The name of a new part, in kebab case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

impl std::str::FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > MAX_NAME {
            return Err(format!("a name has 1 to {MAX_NAME} characters; this one has {}", text.chars().count()));
        }
        let word = |word: &str| {
            word.starts_with(|first: char| first.is_ascii_lowercase())
                && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if !text.split('-').all(word) {
            return Err(
                "a name is made of small letters and digits, in words that begin with a letter and are joined \
                        by single hyphens, such as `field-notes`"
                    .to_owned(),
            );
        }
        let name = Self(text.to_owned());
        if KEYWORDS.contains(&text) {
            return Err(format!("`{text}` is a word of Rust and cannot name a module; choose another name"));
        }
        if CARGO_FOLDERS.contains(&text) {
            return Err(format!("cargo builds no program `{text}`: it has a folder of that name; choose another"));
        }
        Ok(name)
    }
}

impl Name {
    /// As a module, a schema file and part of a tool's name.
    fn snake(&self) -> String {
        self.0.replace('-', "_")
    }

    /// As a type.
    fn camel(&self) -> String {
        let capital = |word: &str| {
            let mut letters = word.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            first.into_iter().chain(letters).collect::<String>()
        };
        self.0.split('-').map(capital).collect()
    }

    /// A template's text for this name. `id` is a schema file's own.
    fn fill(&self, template: &str, id: u64) -> String {
        let values = [
            ("@name@", self.0.clone()),
            ("@file@", self.snake()),
            ("@tool@", self.snake()),
            ("@Type@", self.camel()),
            ("@id@", format!("{id:016x}")),
        ];
        values.iter().fold(template.to_owned(), |text, (key, value)| text.replace(key, value))
    }
}

/// All files that a new part has or changes.
#[derive(Debug)]
pub struct Part {
    files: Vec<(PathBuf, String)>,
    manifest: (PathBuf, String),
    told: String,
}

impl Part {
    /// The new files, by their places.
    pub fn files(&self) -> &[(PathBuf, String)] {
        &self.files
    }

    /// The manifest as it becomes.
    pub fn manifest(&self) -> &str {
        &self.manifest.1
    }

    fn write(&self) -> Result<()> {
        for (path, text) in self.files.iter().chain([&self.manifest]) {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
            }
            std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }
}

/// A new service in the source at `root`.
///
/// # Errors
/// Its name, or that of its interface, is taken; says where.
pub fn service(root: &Path, name: &Name) -> Result<Part> {
    let (module, camel) = (name.snake(), name.camel());
    ensure!(
        !SCHEMA_MODULES.contains(&module.as_str()) && !module.ends_with("_capnp"),
        "the crate of the schemas has a module `{module}` of its own; choose another name"
    );
    ensure!(!SCHEMA_TYPES.contains(&camel.as_str()), "`{camel}` is a type of every schema; choose another name");
    let schema = root.join(SCHEMA).join(module).with_extension("capnp");
    ensure!(!schema.exists(), "{} exists already; choose another name", schema.display());
    if let Some(file) = declares(&root.join(SCHEMA), &camel)? {
        bail!("{} has an interface or type `{camel}` already; choose another name", file.display());
    }
    ensure!(camel != ANNOTATIONS, "`{camel}` is what a schema calls its annotations; choose another name");
    let package = root.join(SERVICES).join(&name.0);
    // The highest bit is set in every identifier of a schema file.
    let id = RandomState::new().hash_one(&name.0) | 1 << 63;
    let mut files = part_files(root, name, &package, &SERVICE_PACKAGE, &SERVICE_SCENARIO, id)?;
    files.push((schema, name.fill(SERVICE_SCHEMA, id)));
    let manifest = manifest_with(root, |document| {
        add_entry(document, "service", name, |entry| {
            entry.insert("loses", value("the notes"));
            entry.insert("provides", value(Array::from_iter([camel.as_str()])));
            entry.insert("grants", value(Array::from_iter([grant("logger", "log.Logger")])));
        })?;
        hold(document, &name.0, &format!("{}.{camel}", name.0))
    })?;
    let entry = format!("`[[service]] {}`, held by the sessions of the profile `{PROFILE}`", name.0);
    Ok(Part { told: told(root, &files, &entry), files, manifest })
}

/// A new program on `std` in the source at `root`.
///
/// # Errors
/// Its name is taken; says where.
pub fn app(root: &Path, name: &Name) -> Result<Part> {
    let package = root.join(PROGRAMS).join(&name.0);
    let files = part_files(root, name, &package, &APP_PACKAGE, &APP_SCENARIO, 0)?;
    let manifest = manifest_with(root, |document| add_entry(document, "program", name, |_| {}))?;
    let entry = format!("`[[program]] {}`, granted nothing yet but where it writes", name.0);
    Ok(Part { told: told(root, &files, &entry), files, manifest })
}

fn part_files(
    root: &Path,
    name: &Name,
    package: &Path,
    sources: &[Template],
    scenario: &[Template],
    id: u64,
) -> Result<Vec<(PathBuf, String)>> {
    let checks = root.join(SCENARIOS).join(&name.0);
    for folder in [package, &checks] {
        ensure!(!folder.exists(), "{} exists already; choose another name", folder.display());
    }
    if let Some(program) = packages::programs(root)?.into_iter().find(|program| program.name == name.0) {
        bail!("the package `{}` builds a program `{}` already; choose another name", program.package, name.0);
    }
    let below = |folder: &Path, templates: &[Template]| -> Vec<(PathBuf, String)> {
        templates.iter().map(|(place, text)| (folder.join(place), name.fill(text, id))).collect()
    };
    Ok([below(package, sources), below(&checks, scenario)].concat())
}

/// The schema file that declares something of this name.
fn declares(folder: &Path, camel: &str) -> Result<Option<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let paths: BTreeSet<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, std::io::Error>>()?;
    for path in paths.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "capnp")) {
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let mut lines = text.lines().map(|line| line.split_whitespace());
        if lines.any(|mut words| {
            matches!(words.next(), Some("interface" | "struct" | "enum")) && words.next() == Some(camel)
        }) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn manifest_with(root: &Path, change: impl FnOnce(&mut DocumentMut) -> Result<()>) -> Result<(PathBuf, String)> {
    let path = root.join(MANIFEST);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut document: DocumentMut = text.parse().with_context(|| format!("reading {}", path.display()))?;
    change(&mut document).with_context(|| format!("changing {}", path.display()))?;
    Ok((path, document.to_string()))
}

/// An entry of the manifest, after the others of its kind.
fn add_entry(document: &mut DocumentMut, kind: &str, name: &Name, fill: impl FnOnce(&mut Table)) -> Result<()> {
    for kind in ["service", "program"] {
        let entries = document.get(kind).and_then(Item::as_array_of_tables);
        let names = |entry: &Table| entry.get("name").and_then(Item::as_str) == Some(&name.0);
        ensure!(
            !entries.is_some_and(|entries| entries.iter().any(names)),
            "it has a {kind} `{}` already; choose another name",
            name.0
        );
    }
    let mut entry = Table::new();
    entry.decor_mut().set_prefix("\n");
    entry.insert("name", value(&name.0));
    let description = if kind == "service" { "Keeps notes" } else { "Counts the letters of its arguments" };
    entry.insert("description", value(description));
    entry.insert("program", value(format!("/bin/{}", name.0)));
    fill(&mut entry);
    let entries = document.entry(kind).or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let entries = entries.as_array_of_tables_mut().with_context(|| format!("`{kind}` is no list of tables"))?;
    entries.push(entry);
    Ok(())
}

fn grant(name: &str, from: &str) -> Value {
    Value::InlineTable(InlineTable::from_iter([("name", name), ("from", from)]))
}

/// Adds a capability to those of the profile's sessions, on a line of its own.
fn hold(document: &mut DocumentMut, name: &str, from: &str) -> Result<()> {
    let profile = document.get_mut("profile").and_then(|profiles| profiles.get_mut(PROFILE));
    let grants = profile.and_then(|profile| profile.get_mut("grants")).and_then(Item::as_array_mut);
    let grants = grants.with_context(|| format!("there is no `[profile.{PROFILE}]` with `grants` to add it to"))?;
    let named =
        |held: &Value| held.as_inline_table().and_then(|held| held.get("name")).and_then(Value::as_str) == Some(name);
    ensure!(!grants.iter().any(named), "sessions of `{PROFILE}` hold a `{name}` already; choose another name");
    let mut grant = grant(name, from);
    grant.decor_mut().set_prefix("\n    ");
    grants.push_formatted(grant);
    Ok(())
}

/// The created files, as text for a person.
fn told(root: &Path, files: &[(PathBuf, String)], entry: &str) -> String {
    let mut told = String::from("new files:\n");
    for (path, _) in files {
        let shown = path.strip_prefix(root).unwrap_or(path);
        let _ = writeln!(told, "    {}", shown.display());
    }
    let _ = writeln!(told, "in {MANIFEST}:\n    {entry}");
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Result<Name, String> {
        text.parse()
    }

    #[test]
    fn names_are_told_apart() {
        let notes = name("field-notes2").unwrap();
        assert_eq!((notes.snake().as_str(), notes.camel().as_str()), ("field_notes2", "FieldNotes2"));
        for bad in ["", "Notes", "notes_", "a--b", "-a", "a-", "2b", "a/b", "a-2", "match", "deps", "ünd"] {
            assert!(name(bad).is_err(), "{bad}");
        }
        assert!(name(&"a".repeat(MAX_NAME)).is_ok() && name(&"a".repeat(MAX_NAME + 1)).is_err());
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        let notes = name("field-notes").unwrap();
        let templates = SERVICE_PACKAGE.iter().chain(&SERVICE_SCENARIO).chain(&APP_PACKAGE).chain(&APP_SCENARIO);
        for text in templates.map(|(_, text)| *text).chain([SERVICE_SCHEMA]) {
            let filled = notes.fill(text, 1 << 63);
            let left = filled.match_indices('@').any(|(at, _)| {
                let word = filled.get(at + 1..).and_then(|rest| rest.split_once('@'));
                word.is_some_and(|(word, _)| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphabetic()))
            });
            assert!(!left, "{filled}");
        }
    }

    #[test]
    fn the_manifest_keeps_its_form() {
        let mut document: DocumentMut = "# Top.\n[[service]]\nname = \"a\"\n\n[[program]]\nname = \"b\"\n\n# Who.\n\
            [profile.operator]\ngrants = [\n    { name = \"x\", from = \"a.X\" },\n]\n\n[profile.guest]\ngrants = []\n"
            .parse()
            .unwrap();
        let notes = name("notes").unwrap();
        add_entry(&mut document, "service", &notes, |_| {}).unwrap();
        hold(&mut document, "notes", "notes.Notes").unwrap();
        assert_eq!(
            document.to_string(),
            "# Top.\n[[service]]\nname = \"a\"\n\n[[service]]\nname = \"notes\"\ndescription = \"Keeps notes\"\nprogram = \
             \"/bin/notes\"\n\n[[program]]\nname = \"b\"\n\n# Who.\n[profile.operator]\ngrants = [\n    { name = \"x\", \
             from = \"a.X\" },\n    { name = \"notes\", from = \"notes.Notes\" },\n]\n\n[profile.guest]\ngrants = []\n"
        );
        assert!(add_entry(&mut document, "program", &notes, |_| {}).is_err());
        assert!(add_entry(&mut document, "program", &name("a").unwrap(), |_| {}).is_err());
    }
}
