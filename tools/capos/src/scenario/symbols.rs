//! `capos symbols`: names the addresses of backtraces in a log.
//!
//! Programs are packed on an image without names, so the kernel and panicking programs print addresses only. Each is
//! found in the file that the linker made, which stays below `target`: its function, file and line, and the functions
//! that were inlined there.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use addr2line::{Loader, demangle_auto};
use anyhow::{Context, Result, anyhow};
use regex_lite::{Captures, Regex};

use crate::build::system::System;
use crate::manifest;

/// Where programs are as they were linked, below the source folder.
const FOLDERS: [&str; 3] = [
    "target/std/x86_64-unknown-linux-gnu/std",
    "target/guest/x86_64-unknown-linux-gnu/guest",
    "target/kernel/x86_64-unknown-none/kernel",
];

/// Resolve the addresses of backtraces in a log to functions and source lines.
#[derive(clap::Args)]
pub struct Args {
    /// Program that all addresses belong to [default: the one that each line names].
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
    /// Log file [default: standard input].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut bytes = Vec::new();
    match &args.file {
        Some(file) => bytes = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?,
        None => drop(std::io::stdin().read_to_end(&mut bytes).context("reading standard input")?),
    }
    let mut symbols = Symbols::open(System::find()?.root(), &[])?;
    if let Some(program) = &args.program {
        symbols.load(program)?.with_context(|| format!("no program `{program}` was built; see target/"))?;
    }
    let text = String::from_utf8_lossy(&bytes);
    for line in text.lines() {
        println!("{}", symbols.named(line, args.program.as_deref())?);
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes to `named` a scenario's log with names, in whose manifest its programs are.
pub fn name_log(log: &Path, manifest: Option<&Path>, named: &Path) -> Result<()> {
    let bytes = std::fs::read(log).with_context(|| format!("reading {}", log.display()))?;
    let mut symbols = Symbols::open(System::find()?.root(), manifest.as_slice())?;
    let mut out = String::new();
    for line in String::from_utf8_lossy(&bytes).lines() {
        out.push_str(&symbols.named(line, None)?);
        out.push('\n');
    }
    std::fs::write(named, out).with_context(|| format!("writing {}", named.display()))
}

/// Programs by their names, opened as they are met.
pub struct Symbols {
    root: PathBuf,
    /// Files of those whose names in the manifest are others.
    files: BTreeMap<String, String>,
    open: BTreeMap<String, Option<Loader>>,
    /// A line's program, as the kernel and the log name it.
    program: Regex,
    /// An address, with the word before it and the text of `std` if it has no name. After `address` it is one of data.
    address: Regex,
}

impl Symbols {
    /// The symbols of the source folder `root`, whose programs have names in its manifest and in these additional ones.
    pub fn open(root: &Path, manifests: &[&Path]) -> Result<Self> {
        let own = root.join("iso_root/etc/manifest.toml");
        let sources: Vec<&Path> = [own.as_path()].into_iter().chain(manifests.iter().copied()).collect();
        let manifest = manifest::read(&sources)?;
        let entries = manifest.services.into_iter().chain(manifest.programs);
        let file = |program: &str| program.trim_start_matches("boot:").trim_start_matches("/bin/").to_owned();
        Ok(Self {
            root: root.to_owned(),
            files: entries.map(|entry| (entry.name, file(&entry.program))).collect(),
            open: BTreeMap::new(),
            program: Regex::new(r"^(?:(?:log: )?([a-z0-9-]+): |process `([a-z0-9-]+)`)")?,
            address: Regex::new(
                r"(?P<data>\baddress )?(?P<exact>\bat )?(?P<address>\b0x[0-9a-f]+)(?P<unknown> - <unknown>)?",
            )?,
        })
    }

    /// Opens a program's file, if there is one.
    fn load(&mut self, program: &str) -> Result<Option<&Loader>> {
        if !self.open.contains_key(program) {
            let file = self.files.get(program).map_or(program, String::as_str);
            let mut places = FOLDERS.iter().map(|folder| self.root.join(folder).join(file));
            let loader = match places.find(|path| path.is_file()) {
                Some(path) => {
                    let loader = Loader::new(&path).map_err(|error| anyhow!("{error}"));
                    Some(loader.with_context(|| format!("reading the names in {}", path.display()))?)
                }
                None => None,
            };
            self.open.insert(program.to_owned(), loader);
        }
        Ok(self.open.get(program).and_then(Option::as_ref))
    }

    /// The function of a program that an address is in: with `inlined` the innermost one that was inlined there, otherwise
    /// the one that contains it.
    pub fn function(&mut self, program: &str, address: u64, inlined: bool) -> Result<Option<String>> {
        let Some(loader) = self.load(program)? else { return Ok(None) };
        let outer = || loader.find_symbol(address).map(|symbol| demangle_auto(symbol.into(), None).into_owned());
        if !inlined {
            return Ok(outer());
        }
        let frame = loader.find_frames(address).ok().and_then(|mut frames| frames.next().ok().flatten());
        let inner = frame.and_then(|frame| Some(frame.function?.demangle().ok()?.into_owned()));
        Ok(inner.or_else(outer))
    }

    /// A line with a name after each address of its program: of this one, or the one that the line is of.
    pub fn named(&mut self, line: &str, program: Option<&str>) -> Result<String> {
        let of_line = || {
            let found = self.program.captures(line)?;
            Some(found.get(1).or(found.get(2))?.as_str().to_owned())
        };
        let address = self.address.clone();
        let program = program.map(str::to_owned).or_else(of_line).filter(|_| address.is_match(line));
        let Some(program) = program else { return Ok(line.to_owned()) };
        let root = self.root.clone();
        let Some(loader) = self.load(&program)? else { return Ok(line.to_owned()) };
        Ok(address.replace_all(line, |found: &Captures<'_>| replaced(&root, loader, found)).into_owned())
    }
}

/// An address that was found, with its name if it has one.
fn replaced(root: &Path, loader: &Loader, found: &Captures<'_>) -> String {
    let text = |group: &str| found.name(group).map_or("", |part| part.as_str());
    let (before, address, unknown) = (text("exact"), text("address"), text("unknown"));
    if found.name("data").is_some() {
        return found.get(0).map_or("", |whole| whole.as_str()).to_owned();
    }
    let number = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap_or(0);
    // All but the place of a fault itself are where a call returns to: the call is before that.
    let place = if before.is_empty() { number.saturating_sub(1) } else { number };
    match at(root, loader, place) {
        Some(name) => format!("{before}{address} {name}"),
        None => format!("{before}{address}{unknown}"),
    }
}

/// The names for an address: the function, after those that were inlined into it there. Files of the source folder are
/// named from there on.
fn at(root: &Path, loader: &Loader, address: u64) -> Option<String> {
    let mut functions = Vec::new();
    let mut places = Vec::new();
    let mut frames = loader.find_frames(address).ok()?;
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.as_ref().and_then(|name| Some(name.demangle().ok()?.into_owned()));
        functions.push(name.unwrap_or_else(|| "a function without a name".into()));
        places.push(frame.location.and_then(|place| {
            let file = Path::new(place.file?);
            Some(format!(" at {}:{}", file.strip_prefix(root).unwrap_or(file).display(), place.line?))
        }));
    }
    // The function itself has its whole name among the symbols; with the lines there is only the last part of it.
    if let Some(symbol) = loader.find_symbol(address) {
        functions.pop();
        functions.push(demangle_auto(symbol.into(), None).into_owned());
    }
    let places = places.into_iter().map(Option::unwrap_or_default).chain([String::new()]);
    let names: Vec<String> = functions.iter().zip(places).map(|(name, place)| format!("{name}{place}")).collect();
    (!names.is_empty()).then(|| format!("({})", names.join(", inlined into ")))
}

#[cfg(test)]
mod tests {
    use object::{Object, ObjectSymbol};

    use super::*;

    #[inline(never)]
    fn a_function_with_a_name() -> u32 {
        line!()
    }

    /// The symbols of this test's own program under the name `tests`, and where the function is in it.
    fn own() -> (Symbols, u64) {
        let path = std::env::current_exe().unwrap();
        let mut symbols = Symbols::open(System::find().unwrap().root(), &[]).unwrap();
        symbols.open.insert("tests".into(), Some(Loader::new(&path).unwrap()));
        let bytes = std::fs::read(&path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let is_it = |name: &str| name.contains("a_function_with_a_name");
        let found = file.symbols().find(|symbol| symbol.name().is_ok_and(is_it)).unwrap();
        (symbols, found.address())
    }

    #[test]
    fn addresses_get_the_names_of_their_lines_program() {
        // By its address, so that the compiler leaves it where it is.
        std::hint::black_box(a_function_with_a_name as fn() -> u32)();
        let (mut symbols, address) = own();
        let name = "tests::a_function_with_a_name at tools/capos/src/scenario/symbols.rs:";
        let after = address + 1;
        for (text, program) in [
            (format!("process `tests` (id 3) was at {address:#x} in thread 3"), None),
            (format!("process `tests` (id 3) was at 0xffff00000000 in thread 3, called from {after:#x}"), None),
            (format!("log: tests:    4:     {after:#x} - <unknown>"), None),
            (format!("   4:     {after:#x} - <unknown>"), Some("tests")),
        ] {
            let named = symbols.named(&text, program).unwrap();
            assert!(named.contains(name) && !named.contains("unknown"), "{named}");
        }
    }

    #[test]
    fn other_lines_stay_as_they_are() {
        let (mut symbols, address) = own();
        for text in [
            format!("log: nobody:    4:     {address:#x} - <unknown>"),
            "log: tests: nothing of that kind".to_owned(),
            "process `tests` (id 3) was at 0xffff00000000 in thread 3".to_owned(),
            format!("process `tests` (id 3) died: read from address {address:#x}, a null pointer"),
            "log: tests:    4:     0xffff00000000 - <unknown>".to_owned(),
            format!("{address:#x}"),
        ] {
            assert_eq!(symbols.named(&text, None).unwrap(), text);
        }
    }
}
