//! Logins that were rejected, and uses of the data disk's keys, as sentences.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use capos_schema::store::KeyKind;
use serde_json::Value;

use crate::general::Kind;
use crate::moment::{clock, date, shifted};

/// The kinds of records that [`key_uses`] reads.
pub const KEY_KINDS: [&str; 2] = ["session.start", "broker.decision"];

/// A use of a key of the data disk, or a login that was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// Sequence of its record.
    pub sequence: u64,
    /// Time of its record, in nanoseconds since 1970.
    pub time: u64,
    /// Whose key it was; empty for the recovery code, which no user owns.
    pub principal: String,
    /// Minutes by which the time that is shown is ahead of UTC.
    pub offset: i16,
    what: String,
    by: String,
    /// Empty if it was done.
    why: String,
}

/// The uses of keys in a list of record lines, in their order. Other lines are skipped.
pub fn key_uses<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<KeyUse> {
    lines.into_iter().filter_map(key_use).collect()
}

fn key_use(line: &str) -> Option<KeyUse> {
    let value: Value = serde_json::from_str(line).ok()?;
    let text = |member: &str| value.get(member).and_then(Value::as_str).unwrap_or_default().to_string();
    let number = |member: &str| value.get(member).and_then(Value::as_u64).unwrap_or_default();
    let field = |name: &str| value.get("fields").and_then(|fields| fields.get(name)).and_then(Value::as_str);
    let outcome = field("outcome").unwrap_or_default();
    let kind = text("kind");
    let (what, why) = if kind == Kind::SessionStart.name() && !matches!(outcome, "" | "granted") {
        ("login", outcome)
    } else if kind == Kind::BrokerDecision.name() {
        (field("volume")?, if outcome == "done" { "" } else { outcome })
    } else {
        return None;
    };
    Some(KeyUse {
        sequence: number("sequence"),
        time: number("time"),
        principal: text("principal"),
        offset: 0,
        what: what.into(),
        by: field("by").unwrap_or_default().into(),
        why: why.into(),
    })
}

/// `#12 2026-11-21 09:05:00: ada opened the disk with the passphrase`, and why not if it was rejected.
impl fmt::Display for KeyUse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = shifted(self.time, self.offset);
        write!(formatter, "#{} {} {}: ", self.sequence, date(time), clock(time))?;
        let who = if self.principal.is_empty() { "somebody" } else { &self.principal };
        let with = match KeyKind::from_name(&self.by) {
            Some(KeyKind::Passphrase) => " with the passphrase",
            Some(KeyKind::RecoveryCode) => " with the recovery code",
            Some(KeyKind::KeyFile) => " with a key file",
            None => "",
        };
        let (did, with) = match self.what.as_str() {
            "login" => ("log in", ""),
            "unlock" => ("open the disk", with),
            "unlockTerminal" => ("open the locked terminal", with),
            "renew" => ("set a new passphrase", " after the recovery code"),
            "changePassphrase" => ("change the passphrase", ""),
            "setUp" => ("set up the disk", with),
            "restore" => ("restore a backup", with),
            // The outcome is a sentence about what was found.
            "mend" => return formatter.write_str(&self.why),
            other => return write!(formatter, "{who}: {other}{with}: {}", self.outcome()),
        };
        write!(formatter, "{who}: {did}{with}: {}", self.outcome())
    }
}

impl KeyUse {
    fn outcome(&self) -> String {
        if self.why.is_empty() { "done".into() } else { format!("rejected: {}", self.why) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kind: &str, principal: &str, fields: &[(&str, &str)]) -> Option<String> {
        let fields: serde_json::Map<String, Value> =
            fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let line = serde_json::json!({
            "kind": kind, "principal": principal, "sequence": 7, "time": 0, "fields": fields,
        });
        key_uses([line.to_string().as_str(), "no record"]).pop().map(|it| it.to_string())
    }

    /// The recovery code, another passphrase and each wrong key are told, with the kind of the key.
    #[test]
    fn a_use_of_a_key_is_told_with_its_kind() {
        let beginning = "#7 1970-01-01 00:00:00: ";
        for (what, by, outcome, principal, text) in [
            ("unlock", "recoveryCode", "done", "", "somebody: open the disk with the recovery code: done"),
            ("unlock", "passphrase", "done", "ada", "ada: open the disk with the passphrase: done"),
            ("unlock", "keyFile", "done", "site", "site: open the disk with a key file: done"),
            (
                "unlock",
                "passphrase",
                "it is wrong",
                "ada",
                "ada: open the disk with the passphrase: rejected: it is wrong",
            ),
            ("renew", "recoveryCode", "done", "ada", "ada: set a new passphrase after the recovery code: done"),
            ("changePassphrase", "passphrase", "done", "ada", "ada: change the passphrase: done"),
            (
                "unlockTerminal",
                "passphrase",
                "no",
                "ada",
                "ada: open the locked terminal with the passphrase: rejected: no",
            ),
            ("mend", "", "a user had no key", "", "a user had no key"),
            // Of an earlier version.
            ("unlock", "", "done", "ada", "ada: open the disk: done"),
        ] {
            let told = told("broker.decision", principal, &[("volume", what), ("by", by), ("outcome", outcome)]);
            assert_eq!(told, Some(format!("{beginning}{text}")));
        }
        let login = told("session.start", "maria", &[("outcome", "the passphrase is wrong")]);
        assert_eq!(login, Some(format!("{beginning}maria: log in: rejected: the passphrase is wrong")));
    }

    #[test]
    fn other_records_are_no_uses_of_a_key() {
        assert_eq!(told("session.start", "ada", &[("outcome", "granted")]), None);
        assert_eq!(told("broker.decision", "ada", &[("callId", "c"), ("decision", "auto"), ("outcome", "done")]), None);
        assert_eq!(told("service", "ada", &[("volume", "unlock"), ("outcome", "done")]), None);
    }
}
