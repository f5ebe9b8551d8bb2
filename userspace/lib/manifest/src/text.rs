//! The manifest's TOML.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::ManifestError;

/// The document.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// `SERVICE.INTERFACE` that is the boot medium's root directory.
    #[serde(default)]
    pub medium: Option<String>,
    /// Services: started and supervised.
    #[serde(default)]
    pub service: Vec<Process>,
    /// Programs that the launcher may start.
    #[serde(default)]
    pub program: Vec<Process>,
    /// The capabilities of sessions, by name of the profile.
    #[serde(default)]
    pub profile: BTreeMap<String, Profile>,
    /// What must stay true of each process's capabilities.
    #[serde(default)]
    pub property: Vec<Property>,
}

impl Document {
    /// Puts a later document over this one: its processes and properties come besides, its profiles and its medium take
    /// the place of those that are there. Properties stay about the earlier processes.
    pub fn add(&mut self, later: Self) {
        let names: Vec<String> = self.service.iter().chain(&self.program).map(|process| process.name.clone()).collect();
        for property in &mut self.property {
            property.among.get_or_insert_with(|| names.clone());
        }
        if later.medium.is_some() {
            self.medium = later.medium;
        }
        self.service.extend(later.service);
        self.program.extend(later.program);
        self.property.extend(later.property);
        for (name, profile) in later.profile {
            let kept = self.profile.entry(name).or_default();
            kept.modes.extend(profile.modes);
            if profile.grants.is_some() {
                kept.grants = profile.grants;
            }
        }
    }
}

/// What must stay true of each process's capabilities.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Property {
    /// Its meaning, for people.
    pub says: String,
    /// The holders that it is about: `services`, `programs`, `profiles`, names of processes, `profile.NAME`. All, if it
    /// is left out.
    pub of: Option<Vec<String>>,
    /// Those that are left out of these.
    #[serde(default)]
    pub but: Vec<String>,
    /// None of them holds any of this.
    pub never: Option<Vec<String>>,
    /// None of them holds all of this.
    pub apart: Option<Vec<String>>,
    /// None of them holds anything else.
    pub only: Option<Vec<String>>,
    /// Whether what can be reached by calls counts as held.
    #[serde(default)]
    pub reach: bool,
    /// The processes that it can be about, if later documents have more.
    #[serde(skip)]
    pub among: Option<Vec<String>>,
}

/// The capabilities of a profile's sessions.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// A permission mode for each category.
    #[serde(default)]
    pub modes: BTreeMap<String, String>,
    /// Its capabilities.
    pub grants: Option<Vec<Grant>>,
}

/// A service or a program.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// One line for people.
    #[serde(default)]
    pub description: String,
    /// `boot:NAME` or `/PATH`.
    pub program: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// `KEY=VALUE` lines.
    #[serde(default)]
    pub environment: Vec<String>,
    /// Interfaces that it serves, by name.
    #[serde(default)]
    pub provides: Vec<String>,
    /// Its capabilities.
    #[serde(default)]
    pub grants: Vec<Grant>,
    /// How often it may be restarted.
    #[serde(default)]
    pub restarts: Option<Restarts>,
    /// Its limits.
    #[serde(default)]
    pub limits: Limits,
    /// Path on the medium without which it is not started.
    #[serde(default)]
    pub when: String,
    /// Whether sessions may not restart or stop it.
    #[serde(default)]
    pub trusted: bool,
    /// What is lost when it is restarted or stopped, as a phrase; `nothing`.
    #[serde(default)]
    pub loses: String,
    /// Of a program: names and kinds of the values that it takes when it is started.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// A capability.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Its name in the process.
    pub name: String,
    /// `SERVICE.INTERFACE` or `kernel.OBJECT`.
    pub from: String,
    /// Rights, if fewer than usual.
    pub rights: Option<Vec<String>>,
    /// `kernel.ports`: the first port.
    pub first: Option<u16>,
    /// `kernel.ports`: how many.
    pub count: Option<u32>,
    /// `kernel.interrupts`: the ISA line.
    pub line: Option<u8>,
    /// `init.PciFunction`: the vendor.
    pub vendor: Option<u16>,
    /// `init.PciFunction`: the devices of the vendor that will do.
    pub devices: Option<Vec<u16>>,
    /// `init.PciFunction`, in place of both: class, subclass and programming interface, as one number.
    pub class: Option<u32>,
    /// The read-only form of a directory.
    pub read_only: Option<bool>,
}

/// Bounds of restarting.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Restarts {
    /// How many.
    pub max: u32,
    /// In how many seconds.
    pub per_seconds: u32,
}

impl Default for Restarts {
    fn default() -> Self {
        Self { max: 3, per_seconds: 60 }
    }
}

/// Bounds of a process's account.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Memory, page tables and rings, in KiB.
    pub memory_kib: u64,
    /// Capability slots.
    pub capabilities: u32,
    /// Threads.
    pub threads: u32,
    /// Processes.
    pub processes: u32,
    /// Other kernel objects.
    pub objects: u32,
    /// CPU time that it may use in all, in seconds; no limit if it is left out.
    pub cpu_seconds: Option<u64>,
    /// The highest priority that its threads may take.
    pub priority: i8,
}

impl Default for Limits {
    fn default() -> Self {
        let (memory_kib, capabilities, threads) = (2048, 256, 1);
        Self { memory_kib, capabilities, threads, processes: 0, objects: 64, cpu_seconds: None, priority: 0 }
    }
}

/// Reads the document. Errors of syntax and shape name line and column.
pub fn parse(file: &str, text: &str) -> Result<Document, ManifestError> {
    toml::from_str(text).map_err(|error| {
        let place = error.span().map_or_else(
            || "document".to_owned(),
            |span| {
                let before = text.get(..span.start).unwrap_or(text);
                let line = before.matches('\n').count().saturating_add(1);
                let column = before.chars().rev().take_while(|letter| *letter != '\n').count().saturating_add(1);
                format!("line {line}, column {column}")
            },
        );
        ManifestError::new(file, place, error.message())
    })
}
