//! The permitted arguments of a tool.

mod arguments;
mod command;
mod domain;
mod path;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_plural::count;

pub(crate) use arguments::texts;
use arguments::{Found, Member, members};
pub use command::{ArgumentRules, CommandRules, matches as matches_wildcard};
pub use domain::{DomainRules, host};
pub use path::{PathError, PathIndex, PathRules, normalise};

use crate::bundle::Capability;

/// Why arguments are out of scope.
pub type ScopeError = String;

/// The arguments of a tool that runs programs.
const PROGRAM: &str = "program";
const ARGUMENTS: &str = "arguments";
/// The directories that a person gives to a program besides what it asks for: `NAME=/GRANT/PATH:ro`, or `:rw`. The path in
/// the grant has to be in scope, as that of a tool of the grant.
const WITH: &str = "with";
/// Those of a tool that writes a text.
const TEXT: &str = "text";
const APPEND: &str = "append";
/// That of a tool that reaches a network.
const ADDRESS: &str = "url";
/// Those of a tool that copies a file of a transfer volume.
const VOLUME: &str = "volume";
const SOURCE: &str = "path";

/// Bounds on the arguments of one tool. Without any, everything that its schema allows is in scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Where its paths may be.
    pub paths: Option<PathRules>,
    /// The longest arguments, in bytes of their JSON text.
    pub max_bytes: Option<usize>,
    /// The largest file that it may read, or that it may leave behind when it writes, in bytes.
    pub max_file_bytes: Option<u64>,
    /// Which programs it may run.
    pub commands: CommandRules,
    /// Which hosts it may reach.
    pub domains: Option<DomainRules>,
}

/// What a check needs to know besides the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Nanoseconds since boot.
    pub now: u64,
    /// Bytes of the file that the call names: 0 if there is none, and nothing if it is not known.
    pub file_bytes: Option<u64>,
}

impl At {
    /// At this time, with no file looked at.
    #[must_use]
    pub fn now(now: u64) -> Self {
        Self { now, file_bytes: None }
    }
}

/// The file whose size a check takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measured {
    /// At this path of the home directory.
    Home(String),
    /// On a transfer volume: its name, and the path there.
    Volume(String, String),
}

/// A scope in the form in which calls are checked.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    paths: Option<PathIndex>,
    max_bytes: Option<usize>,
    max_file_bytes: Option<u64>,
    commands: CommandRules,
    domains: Option<DomainRules>,
}

/// The arguments that rules look at.
pub(crate) struct Arguments(BTreeMap<String, Found>);

impl Arguments {
    /// Of a call of this tool.
    pub(crate) fn of(tool: &Capability, text: &str) -> Result<Self, ScopeError> {
        let wanted = |name: &str| {
            let is_known = matches!(name, PROGRAM | ARGUMENTS | WITH | TEXT | APPEND | ADDRESS | VOLUME | SOURCE);
            is_known || tool.paths.contains(&name)
        };
        members(text, wanted).map(Self).map_err(|bad| format!("the arguments are not JSON: {bad}"))
    }

    /// A text; none if there is no such argument.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, ScopeError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Found { doubled: true, .. }) => Err(format!("{name} is there twice")),
            Some(Found { value: Member::Text(text), .. }) => Ok(Some(text)),
            Some(_) => Err(format!("{name} is not a text")),
        }
    }

    fn list(&self, name: &str) -> Result<&[String], ScopeError> {
        match self.0.get(name) {
            None => Ok(&[]),
            Some(Found { doubled: true, .. }) => Err(format!("{name} is there twice")),
            Some(Found { value: Member::Texts(texts), .. }) => Ok(texts),
            Some(_) => Err(format!("{name} is not a list of texts that a rule can look at")),
        }
    }

    /// The program that the call runs; none if its tool runs none.
    pub(crate) fn program(&self) -> Option<&str> {
        self.text(PROGRAM).ok().flatten()
    }

    /// The file that a call of this tool reads, writes or copies; none if the call names none.
    pub(crate) fn measured(&self, tool: &Capability) -> Option<Measured> {
        let text = |name: &str| self.text(name).ok().flatten().map(String::from);
        if tool.imports() {
            return Some(Measured::Volume(text(VOLUME)?, text(SOURCE)?));
        }
        tool.paths.iter().find_map(|name| text(name)).map(Measured::Home)
    }

    /// Bytes of the file as it is after the call, or as it is read.
    fn file_bytes(&self, tool: &Capability, before: Option<u64>) -> Result<u64, ScopeError> {
        let before = || before.ok_or("the size of the file could not be looked up; try again".into());
        if !tool.writes_text() {
            return before();
        }
        let Some(text) = self.text(TEXT)? else { return before() };
        let written = u64::try_from(text.len()).unwrap_or(u64::MAX);
        match self.0.get(APPEND) {
            None | Some(Found { value: Member::Bool(false), doubled: false }) => Ok(written),
            Some(_) => Ok(before()?.saturating_add(written)),
        }
    }
}

impl Scope {
    /// Whether it bounds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn compile(&self) -> Bounds {
        Bounds {
            paths: self.paths.as_ref().map(PathRules::compile),
            max_bytes: self.max_bytes,
            max_file_bytes: self.max_file_bytes,
            commands: self.commands.clone(),
            domains: self.domains.clone(),
        }
    }

    /// The bounds that hold for a tool with these arguments, one a line, in an order that depends on nothing else.
    #[must_use]
    pub fn lines(&self, tool: &Capability) -> Vec<String> {
        let mut lines = Vec::new();
        let paths = self.paths.as_ref().filter(|_| !tool.paths.is_empty());
        if paths.is_some_and(|rules| rules.allow.is_empty()) {
            lines.push("no path at all".into());
        }
        let sorted = |names: Vec<&String>| {
            let mut names = names;
            names.sort();
            names.into_iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
        };
        let mut add = |what: &str, names: Vec<&String>| {
            if !names.is_empty() {
                lines.push(format!("{what} {}", sorted(names)));
            }
        };
        if let Some(PathRules { allow, block }) = paths {
            add("only paths in", allow.iter().collect());
            add("no path in", block.iter().collect());
        }
        if tool.runs_programs() {
            if let Some(PathRules { allow, block }) = &self.paths {
                add("--with only of paths in", allow.iter().collect());
                add("--with of no path in", block.iter().collect());
            }
            add("only the programs", self.commands.allow.iter().collect());
            add("never the programs", self.commands.block.iter().collect());
            let mut programs: Vec<&String> = self.commands.arguments.keys().collect();
            programs.sort();
            for program in programs {
                let Some(ArgumentRules { allow, block }) = self.commands.arguments.get(program) else { continue };
                add(&format!("{program} only with arguments like"), allow.iter().collect());
                add(&format!("{program} never with arguments like"), block.iter().collect());
            }
        }
        if let Some(DomainRules { allow, block }) = self.domains.as_ref().filter(|_| tool.reaches_network()) {
            add("only the domains", allow.iter().collect());
            add("never the domains", block.iter().collect());
        }
        if let Some(most) = self.max_file_bytes.filter(|_| tool.handles_content()) {
            match tool.reads_up_to() {
                Some(reads) if reads <= most => {}
                Some(reads) => lines.push(format!("never: {}", reads_more(reads, most))),
                None => lines.push(format!("no file above {}", count(most, "byte"))),
            }
        }
        if let Some(most) = self.max_bytes {
            lines.push(format!("no arguments above {}", count(most, "byte")));
        }
        lines
    }
}

/// Why a tool that reads several files is not within a limit on the size of each.
fn reads_more(reads: u64, most: u64) -> String {
    format!("it reads files of up to {}, and {most} are allowed", count(reads, "byte"))
}

/// The path of a directory that a program is given, in the grant that it is of.
fn path_of(given: &str) -> Option<&str> {
    let (_, place) = given.split_once('=')?;
    let place = place.strip_suffix(":ro").or_else(|| place.strip_suffix(":rw"))?.strip_prefix('/')?;
    Some(place.split_once('/').map_or("", |(_, path)| path))
}

impl Bounds {
    /// Whether a check takes the size of the file that the call names.
    pub(crate) fn measures_files(&self) -> bool {
        self.max_file_bytes.is_some()
    }

    /// Whether the arguments of a call of this tool, the JSON text of an object, are in scope. An argument that a rule is about
    /// and that is absent is not checked; one of another kind, or one that is there twice, is out of scope.
    ///
    /// # Errors
    /// What is out of scope.
    pub(crate) fn check(
        &self,
        tool: &Capability,
        (text, arguments): (&str, &Arguments),
        at: &At,
        lookups: &mut u64,
    ) -> Result<(), ScopeError> {
        if let Some(max) = self.max_bytes.filter(|max| text.len() > *max) {
            return Err(format!("the arguments are {} long, and {max} are allowed", count(text.len(), "byte")));
        }
        if let Some(rules) = &self.paths {
            for name in tool.paths {
                if let Some(path) = arguments.text(name)? {
                    if path.is_empty() && !tool.is_of_directory() {
                        return Err(format!("{name} is empty, and the tool would choose a path; name one"));
                    }
                    let within = match tool.trees.contains(name) {
                        true => rules.check_tree(path, lookups),
                        false => rules.check(path, lookups),
                    };
                    within.map_err(|why| format!("{name} {path:?}: {why}"))?;
                }
            }
            if tool.runs_programs() {
                for given in arguments.list(WITH)? {
                    let path = path_of(given).ok_or_else(|| format!("{WITH} {given:?} names no directory"))?;
                    // The program sees all of the directory.
                    rules.check_tree(path, lookups).map_err(|why| format!("{WITH} {given:?}: {why}"))?;
                }
            }
        }
        if tool.runs_programs() && !self.commands.is_empty() {
            let program = arguments.text(PROGRAM)?.unwrap_or_default();
            *lookups = lookups.saturating_add(3);
            self.commands.check(program, arguments.list(ARGUMENTS)?)?;
            for path in arguments.list(WITH)?.iter().filter_map(|given| path_of(given)) {
                self.commands.check_blocked(program, path)?;
            }
        }
        if let Some(rules) = self.domains.as_ref().filter(|_| tool.reaches_network())
            && let Some(address) = arguments.text(ADDRESS)?
        {
            rules.check(address)?;
        }
        if let Some(most) = self.max_file_bytes.filter(|_| tool.handles_content()) {
            if let Some(reads) = tool.reads_up_to() {
                return if reads <= most { Ok(()) } else { Err(reads_more(reads, most)) };
            }
            let bytes = arguments.file_bytes(tool, at.file_bytes)?;
            if bytes > most {
                return Err(format!("the file has {}, and {most} are allowed", count(bytes, "byte")));
            }
        }
        Ok(())
    }
}
