//! The required results of a scenario's run: `check.toml` and checks of every run. `docs/scenarios.md`
//! describes both.

pub mod audit;
pub(crate) mod effects;
pub mod home;
pub mod screen;

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::scenario::checks::audit::{Audit, Record};
use crate::scenario::checks::home::Home;
use capos_vm::expect::Stripper;
use capos_vm::texts::Texts;
use capos_vm::timing::{self, Timing};

/// The file next to `terminal.txt`.
pub const FILE: &str = "check.toml";

/// The settings of `check.toml`. Unknown settings are errors.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Checks {
    /// Rows of the requirements that the scenario shows.
    pub rows: Vec<String>,
    /// `transcript.txt`, without control sequences.
    pub transcript: Texts,
    /// When it appeared, by `terminal.timing`.
    pub timing: Vec<Timing>,
    /// `terminal.raw`, byte for byte.
    pub raw: Texts,
    /// `serial.log`.
    pub log: Texts,
    /// `serial.named.log`.
    pub named_log: Texts,
    /// `audit.jsonl`.
    pub audit: Audit,
    /// `home/`.
    pub home: Home,
}

impl Checks {
    /// Reads a scenario's `check.toml`; without one, only the checks of every run apply.
    pub fn open(folder: &Path) -> Result<Self> {
        let file = folder.join(FILE);
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).with_context(|| format!("reading {}", file.display())),
        };
        let checks: Self = toml::from_str(&text).with_context(|| file.display().to_string())?;
        checks.audit.valid().with_context(|| file.display().to_string())?;
        Ok(checks)
    }

    /// Everything that is wrong with a finished run of the scenario in `folder` that left its files in `out`, each in a
    /// sentence. `guest` is the guest's own report about its audit log; without it there was no export. `tail` is where
    /// the terminal's bytes end.
    pub fn failures(
        &self,
        folder: &Path,
        out: &Path,
        guest: Option<&serde_json::Value>,
        tail: screen::Tail,
    ) -> Result<Vec<String>> {
        let mut failures = Vec::new();
        let (raw, log) = (read(out, "terminal.raw")?, read(out, "serial.log")?);
        let files =
            [("transcript.txt", &self.transcript), ("serial.log", &self.log), ("serial.named.log", &self.named_log)];
        for (name, texts) in files {
            texts.check(name, &read(out, name)?, &mut failures);
        }
        self.raw.check("terminal.raw", &raw, &mut failures);
        screen::check(&raw, tail, screen::deaths(&log), &mut failures);
        timing::check(&self.timing, out, &raw, Stripper::joining(screen::ROW_MARK), &mut failures)?;
        let Some(guest) = guest else {
            if self.audit.asks() || self.home.asks() {
                failures.push("there is no export that audit.jsonl and home/ could be checked in".to_owned());
            }
            return Ok(failures);
        };
        let lines = read(out, "audit.jsonl")?;
        let records: Vec<Record> = audit::chain(&lines, guest, &self.audit, &mut failures);
        self.audit.check(&lines, &records, &mut failures);
        let transcript = read(out, "transcript.txt")?;
        audit::noted(&lines, &String::from_utf8_lossy(&transcript), &self.audit.noted, &mut failures)?;
        effects::check(&log, &records, self.audit.restarted, &mut failures);
        home::check(&self.home, &folder.join("home"), &out.join("home"), &records, &mut failures)?;
        Ok(failures)
    }
}

fn read(out: &Path, name: &str) -> Result<Vec<u8>> {
    let path = out.join(name);
    std::fs::read(&path).with_context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (text, part) in [
            ("[transcript]\ncontain = ['x']", "contain"),
            ("[screen]", "screen"),
            ("[[audit.calls]]\nid = 'a'\ntool = 't'\noutcome = 'fine'", "fine"),
            ("[[audit.count]]\nkind = 'tool'", "exactly"),
        ] {
            std::fs::write(folder.path().join(FILE), text).unwrap();
            let error = format!("{:#}", Checks::open(folder.path()).unwrap_err());
            assert!(error.contains("check.toml") && error.contains(part), "{error}");
        }
        std::fs::remove_file(folder.path().join(FILE)).unwrap();
        assert!(Checks::open(folder.path()).unwrap().rows.is_empty());
    }
}
