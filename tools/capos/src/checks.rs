//! The required results of a scenario's run: `check.toml` and checks of every run. `docs/scenarios.md`
//! describes both.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::checks_audit::{self, Audit, Record};
use crate::checks_effects;
use crate::checks_home::{self, Home};
use crate::checks_screen;
use crate::checks_timing::{self, Timing};

/// The file next to `terminal.txt`.
pub const FILE: &str = "check.toml";

/// Everything that `check.toml` may say. Unknown settings are errors.
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

/// Texts that a file must contain, and must not.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Texts {
    /// Each of these is in it.
    pub contains: Vec<String>,
    /// None of these is.
    pub lacks: Vec<String>,
    /// Each of these follows the one before.
    pub in_order: Vec<String>,
    /// How often each of these is in it.
    pub count: BTreeMap<String, usize>,
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
    /// sentence. `guest` is what the guest itself said about its audit log; without it there was no export. `tail` is
    /// where the terminal's bytes end.
    pub fn failures(
        &self,
        folder: &Path,
        out: &Path,
        guest: Option<&serde_json::Value>,
        tail: checks_screen::Tail,
    ) -> Result<Vec<String>> {
        let mut failures = Vec::new();
        let (raw, log) = (read(out, "terminal.raw")?, read(out, "serial.log")?);
        let files =
            [("transcript.txt", &self.transcript), ("serial.log", &self.log), ("serial.named.log", &self.named_log)];
        for (name, texts) in files {
            texts.check(name, &read(out, name)?, &mut failures);
        }
        self.raw.check("terminal.raw", &raw, &mut failures);
        checks_screen::check(&raw, tail, checks_screen::deaths(&log), &mut failures);
        checks_timing::check(&self.timing, out, &raw, &mut failures)?;
        let Some(guest) = guest else {
            if self.audit.asks() || self.home.asks() {
                failures.push("there is no export that audit.jsonl and home/ could be checked in".to_owned());
            }
            return Ok(failures);
        };
        let lines = read(out, "audit.jsonl")?;
        let records: Vec<Record> = checks_audit::chain(&lines, guest, &self.audit, &mut failures);
        self.audit.check(&lines, &records, &mut failures);
        checks_effects::check(&log, &records, self.audit.restarted, &mut failures);
        checks_home::check(&self.home, &folder.join("home"), &out.join("home"), &records, &mut failures)?;
        Ok(failures)
    }
}

fn read(out: &Path, name: &str) -> Result<Vec<u8>> {
    let path = out.join(name);
    std::fs::read(&path).with_context(|| format!("reading {}", path.display()))
}

/// Where `wanted` begins in `bytes`, from `from` on.
fn find(bytes: &[u8], wanted: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(wanted.len().max(1)).position(|part| part == wanted).map(|at| at + from)
}

/// How often a text is in bytes, without overlaps.
pub(crate) fn occurrences(bytes: &[u8], wanted: &[u8]) -> usize {
    let (mut count, mut from) = (0, 0);
    while let Some(at) = find(bytes, wanted, from) {
        count += 1;
        from = at + wanted.len().max(1);
    }
    count
}

impl Texts {
    pub(crate) fn check(&self, name: &str, bytes: &[u8], failures: &mut Vec<String>) {
        for wanted in &self.contains {
            if find(bytes, wanted.as_bytes(), 0).is_none() {
                failures.push(format!("{name} does not contain {wanted:?}"));
            }
        }
        for unwanted in &self.lacks {
            if let Some(at) = find(bytes, unwanted.as_bytes(), 0) {
                failures.push(format!("{name} contains {unwanted:?} at byte {at} and should not"));
            }
        }
        let mut from = 0;
        for (place, wanted) in self.in_order.iter().enumerate() {
            let Some(at) = find(bytes, wanted.as_bytes(), from) else {
                let after = place.checked_sub(1).and_then(|before| self.in_order.get(before));
                let after = after.map_or(String::new(), |before| format!(" after {before:?}"));
                failures.push(format!("{name} does not contain {wanted:?}{after}"));
                break;
            };
            from = at + wanted.len();
        }
        for (wanted, count) in &self.count {
            let found = occurrences(bytes, wanted.as_bytes());
            if found != *count {
                failures.push(format!("{name} contains {wanted:?} {found} times instead of {count}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(toml: &str, text: &str) -> Vec<String> {
        let texts: Texts = toml::from_str(toml).unwrap();
        let mut failures = Vec::new();
        texts.check("x", text.as_bytes(), &mut failures);
        failures
    }

    #[test]
    fn texts_are_found_and_missed() {
        assert!(failures("contains = ['a', 'c']\nlacks = ['d']", "abc").is_empty());
        assert_eq!(failures("contains = ['d']", "abc"), ["x does not contain \"d\""]);
        assert_eq!(failures("lacks = ['b']", "abc"), ["x contains \"b\" at byte 1 and should not"]);
        assert!(failures("in_order = ['a', 'a', 'b']", "a ab").is_empty());
        assert_eq!(failures("in_order = ['a', 'a']", "ba"), ["x does not contain \"a\" after \"a\""]);
        assert!(failures("count = { aa = 2 }", "aaaaa").is_empty());
        assert_eq!(failures("count = { a = 0 }", "a"), ["x contains \"a\" 1 times instead of 0"]);
    }

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
