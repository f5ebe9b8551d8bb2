//! Settings: what an operator has changed of the configuration on this machine.
//!
//! They are a layer of configuration over the files of the image, in the broker's namespace. Each is the dotted name of a value
//! in `system.toml`, and the value in TOML. What the files say comes back where a setting is removed.

mod built_in;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_keyspace::{Batch, Durability, Fault, Keyspace, Range};
use capos_plural::count;
use capos_schema::authority::{Profile, Setting};
use capos_schema::models::PermissionMode;
use toml::Value;

use crate::config::Config;

/// The table of the settings: the value as TOML, by the setting's name.
pub(crate) const TABLE: &str = "settings";
/// What messages call the layer.
pub const LAYER: &str = "settings";
/// Where a value comes from that nobody has set.
const BUILT_IN: &str = "built in";
/// Bytes of a name and of a value at most.
const MAX_BYTES: usize = 256;
/// Names in `session.offer`, and bytes of each, at most.
const OFFERED: usize = 32;
/// Settings at most.
const MOST: usize = 256;
/// Tools whose permission and rules stay as the image has them: whoever may use them could otherwise give them away, or lose them.
const FIXED: [&str; 3] = ["list_settings", "set_setting", "reset_setting"];
/// Numbers below which no time would be left to answer the question about a change.
const LEAST: [(&str, i64); 8] = [
    ("approval_timeout_ms", 10_000),
    ("tool_timeout_ms", 1000),
    ("program_timeout_ms", 1000),
    ("outbound_timeout_ms", 1000),
    ("max_seconds", 600),
    ("valid_seconds", 60),
    ("max_iterations", 1),
    ("max_tokens_per_call", 16),
];

/// The settings, by their names.
pub type Settings = BTreeMap<String, String>;

/// Reads the settings that are kept.
///
/// # Errors
/// The store has none to give.
pub async fn read(space: &impl Keyspace) -> Result<Settings, Fault> {
    let found = space.range(Range::all(TABLE)).await?;
    let malformed = |_| Fault::Damaged("the broker's table of settings is malformed".to_string());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(malformed);
    found.entries.into_iter().map(|(name, value)| Ok((text(name)?, text(value)?))).collect()
}

/// Keeps a setting.
///
/// # Errors
/// The store does not keep it.
pub async fn put(space: &impl Keyspace, name: &str, value: &str) -> Result<(), Fault> {
    space.commit(Batch::new().put(TABLE, name.as_bytes(), value.as_bytes()), Durability::Now).await
}

/// Removes a setting.
///
/// # Errors
/// The store does not keep that.
pub async fn remove(space: &impl Keyspace, name: &str) -> Result<(), Fault> {
    space.commit(Batch::new().remove(TABLE, name.as_bytes()), Durability::Now).await
}

/// Checks that a setting can be given back the image's value.
///
/// # Errors
/// It has that value.
pub fn resettable(settings: &Settings, name: &str) -> Result<(), String> {
    let why = || format!("{name:?} has the image's value; the list of settings tells where each comes from");
    if settings.contains_key(name) { Ok(()) } else { Err(why()) }
}

/// A time that the clock may be set to, in milliseconds since 1970. `offset` is in minutes ahead of UTC.
///
/// # Errors
/// The text is no time, or one before 2026.
pub fn time(text: &str, offset: i16) -> Result<u64, String> {
    let to = capos_audit::at(text, offset)?;
    if to < capos_setup::CLOCK_IS_SET {
        return Err(format!("a clock is set to 2026 or later, and not to {}", capos_setup::moment(to)));
    }
    Ok(to)
}

/// A text as a string of TOML, which has the escapes of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The parts of a name.
fn parts(name: &str) -> Vec<&str> {
    name.split('.').collect()
}

/// A value as TOML, of the kind that the setting has.
///
/// # Errors
/// The setting cannot be changed here, or not to this value.
pub fn value(name: &str, given: &str) -> Result<String, String> {
    if name.len() > MAX_BYTES || given.len() > MAX_BYTES {
        return Err(format!("the name and the value of a setting have at most {MAX_BYTES} bytes"));
    }
    let text = || Ok(quoted(given));
    let number = |field: &str| {
        let number: i64 = given.parse().map_err(|_| format!("{name} is a number, not {given:?}"))?;
        let least = LEAST.iter().find(|(known, _)| *known == field).map_or(0, |(_, least)| *least);
        if number < least {
            return Err(format!("{name} is at least {least}"));
        }
        Ok(number.to_string())
    };
    // Names, with commas between them.
    let list = || {
        let names: Vec<String> = given.split(',').map(str::trim).filter(|name| !name.is_empty()).map(quoted).collect();
        Ok(format!("[{}]", names.join(", ")))
    };
    let all = parts(name);
    if let ["policy", rest @ ..] | ["profiles", _, "policy", rest @ ..] = all.as_slice() {
        return match *rest {
            ["tools", tool, ..] if FIXED.contains(&tool) => {
                Err(format!("the rules of {tool} stay as the image has them, so that settings can be changed"))
            }
            ["valid_seconds"] => number("valid_seconds"),
            ["areas"]
            | ["paths" | "domains" | "commands", "allow" | "block"]
            | ["commands", "known"]
            | ["tools", _, "allow" | "block"]
            | ["commands", "arguments", _, "allow" | "block"] => list(),
            ["paths", field] | ["tools", _, field] => number(field),
            _ => Err(format!(
                "there is no setting {name:?}; those of the policy are policy.valid_seconds, policy.areas, \
                 policy.paths.allow, .block and .max_file_bytes, the same of policy.tools.TOOL, policy.commands.allow, \
                 .block, .known and .arguments.PROGRAM.allow, and policy.domains.allow and .block"
            )),
        };
    }
    match *all.as_slice() {
        ["session", "model" | "home_quota" | "utc_offset"] | ["profiles", _, "model"] => text(),
        ["permissions", tool] if FIXED.contains(&tool) => {
            Err(format!("the permission of {tool} stays as the image has it, so that settings can be changed"))
        }
        ["permissions", tool] if !tool.is_empty() => text(),
        ["session", "offer"] => list(),
        ["session", "lock_minutes"] => number("lock_minutes"),
        ["limits", field] | ["profiles", _, "limits", field] => number(field),
        ["budget", _, _, "limit"] | ["profiles", _, "budget", _, _, "limit"] => number("limit"),
        ["budget", _, _, "on_exceed"] | ["profiles", _, "budget", _, _, "on_exceed"] => text(),
        ["profiles", _, field @ ("principal_tokens" | "principal_requests")] => number(field),
        ["profiles", _, "hide_forbidden"] | ["telemetry", "log"] | ["audit", "allowed_checks" | "denied_checks"] => {
            match given {
                "true" | "false" => Ok(given.to_string()),
                _ => Err(format!("{name} is true or false, not {given:?}")),
            }
        }
        _ => Err(format!(
            "there is no setting {name:?}; settings are session.model, session.offer, session.lock_minutes, session.home_quota, session.utc_offset, \
             telemetry.log, audit.allowed_checks, audit.denied_checks, limits.NAME, budget.run.NAME.limit, budget.run.NAME.on_exceed, the same of budget.session, \
             permissions.TOOL, policy.NAME and profiles.NAME.NAME"
        )),
    }
}

/// The settings as a text of configuration.
#[must_use]
pub fn layer(settings: &Settings) -> String {
    let mut text = String::new();
    for (name, value) in settings {
        let name: Vec<String> = parts(name).into_iter().map(quoted).collect();
        text.push_str(&format!("{} = {value}\n", name.join(".")));
    }
    text
}

/// The configuration of the image's files with the settings over them, and the settings that are not understood, such as those
/// of another version, each with the reason.
///
/// # Errors
/// The files have a mistake.
pub fn configuration(
    files: &[(&str, &str)],
    settings: &Settings,
    salt: [u8; 16],
) -> Result<(Config, Vec<(String, String)>), String> {
    let with = |settings: &Settings| {
        let text = layer(settings);
        let mut all = Vec::from(files);
        all.push((LAYER, &text));
        Config::read(&all, salt)
    };
    if let Ok(config) = with(settings) {
        return Ok((config, Vec::new()));
    }
    let (mut good, mut bad) = (Settings::new(), Vec::new());
    for (name, value) in settings {
        good.insert(name.clone(), value.clone());
        if let Err(why) = with(&good) {
            good.remove(name);
            bad.push((name.clone(), why));
        }
    }
    Ok((with(&good)?, bad))
}

/// Checks a setting together with the others, before it is kept.
///
/// # Errors
/// Why it cannot be set.
pub fn check(files: &[(&str, &str)], settings: &Settings, name: &str, given: &str) -> Result<String, String> {
    let value = value(name, given)?;
    if settings.len() >= MOST && !settings.contains_key(name) {
        return Err(format!("there are {MOST} settings, and no more are possible; reset one first"));
    }
    let alone = Settings::from([(name.to_string(), value.clone())]);
    let (_, bad) = configuration(files, &alone, [0; 16])?;
    let Some((_, why)) = bad.into_iter().next() else {
        return violated(files, settings, (name, given, &value))?.map_or(Ok(value), Err);
    };
    // The lines before the last show a place in the layer, which no person wrote.
    Err(match why.rsplit_once('\n') {
        Some((_, last)) => format!("{name}: {last}"),
        None => why.trim_start_matches(&format!("{LAYER}: ")).to_string(),
    })
}

/// The profiles whose sessions a setting of this name of the policy is for.
fn profiles_of(parts: &[&str]) -> Vec<Profile> {
    let is_meant = |profile: &Profile| !matches!(parts, ["profiles", name, ..] if *name != profile.name());
    [Profile::Operator, Profile::Guest, Profile::Anonymous].into_iter().filter(is_meant).collect()
}

/// The rule that keeps a policy's time or a tool's permission from being what a setting says.
fn violated(
    files: &[(&str, &str)],
    settings: &Settings,
    (name, given, value): (&str, &str, &str),
) -> Result<Option<String>, String> {
    if let [.., "policy", "valid_seconds"] = parts(name).as_slice() {
        let mut all = settings.clone();
        all.insert(name.to_string(), value.to_string());
        let (config, _) = configuration(files, &all, [0; 16])?;
        let of = |profile| config.policy.profile(profile).policy_seconds;
        let longest = profiles_of(&parts(name)).into_iter().map(of).max().unwrap_or_default();
        let is_longer = given.parse().is_ok_and(|given: u64| given > longest);
        return Ok(is_longer.then(|| {
            format!("the time of a policy stays {} by another rule; the shortest one counts", count(longest, "second"))
        }));
    }
    let &["permissions", tool] = parts(name).as_slice() else { return Ok(None) };
    let Some(wanted) = PermissionMode::from_name(given) else { return Ok(None) };
    let methods = capos_schema::INTERFACES.iter().flat_map(|interface| interface.methods);
    let mut found = methods.filter(|method| method.tool == Some(tool));
    let found = found.find_map(|method| Some((method.name, method.category?)));
    let Some((method, category)) = found else { return Ok(None) };
    let mut all = settings.clone();
    all.insert(name.to_string(), value.to_string());
    let (config, _) = configuration(files, &all, [0; 16])?;
    let (permission, source) = config.policy.permission(Profile::Operator, category, method, tool);
    Ok((permission.mode != wanted).then(|| {
        let (mode, category) = (permission.mode.name(), category.name());
        format!("{tool}, which is {category}, stays {mode} by another rule: {source}; the strictest rule counts")
    }))
}

/// What a person is told before they set the clock from one time to another, in milliseconds since 1970. May be nothing.
#[must_use]
pub fn jump(from: u64, to: u64) -> String {
    const DAY: u64 = 86_400_000;
    let days = |from: u64, to: u64| to.saturating_sub(from).checked_div(DAY).unwrap_or_default();
    match (days(from, to), days(to, from)) {
        (0, 0) => String::new(),
        (0, back) => format!(
            "The clock goes back by {}. Until it has passed that time again, the audit log records the time before.",
            count(back, "day")
        ),
        (on, _) => format!(
            "The clock goes forward by {}. Conversations whose `/expire` is over then are deleted, and the audit log never goes \
             back to an earlier time.",
            count(on, "day")
        ),
    }
}

/// Every value of a text of configuration, by its dotted name. Rules, and what is the host's, are left out.
fn flat(text: &str) -> Settings {
    fn add(found: &mut Settings, name: &str, value: &Value) {
        match value {
            Value::Table(table) => {
                for (key, value) in table {
                    let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                    add(found, &name, value);
                }
            }
            Value::String(text) => drop(found.insert(name.to_string(), text.clone())),
            Value::Integer(number) => drop(found.insert(name.to_string(), number.to_string())),
            Value::Boolean(whether) => drop(found.insert(name.to_string(), whether.to_string())),
            Value::Array(names) => {
                let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                // An empty list of rules is none, and lifts none. This one takes the place of an earlier one.
                if !names.is_empty() || name == "session.offer" {
                    found.insert(name.to_string(), names.join(", "));
                }
            }
            // No value of the configuration is one of these.
            Value::Float(_) | Value::Datetime(_) => {}
        }
    }
    let mut found = Settings::new();
    let table: toml::Table = text.parse().unwrap_or_default();
    add(&mut found, "", &Value::Table(table));
    found.retain(|name, _| !name.starts_with("runner.") && name != "session.passphrase");
    found
}

/// The names in `session.offer`.
///
/// # Errors
/// They are more or longer than a message has room for.
pub(crate) fn offer(names: Vec<String>) -> Result<Vec<String>, String> {
    match names.len() <= OFFERED && names.iter().all(|name| name.len() <= OFFERED) {
        true => Ok(names),
        false => Err(format!("session.offer: it has at most {OFFERED} names of at most {OFFERED} bytes")),
    }
}

/// Every value that is known, with its origin: the last layer that has it.
#[must_use]
pub fn list(files: &[(&str, &str)], settings: &Settings) -> Vec<Setting> {
    let mut found: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut take = |layer: Settings, source: &str| {
        for (name, value) in layer {
            found.insert(name, (value, source.to_string()));
        }
    };
    take(built_in::all(), BUILT_IN);
    for (name, text) in files {
        take(flat(text), &format!("/{name}"));
    }
    take(flat(&layer(settings)), LAYER);
    found.into_iter().map(|(name, (value, source))| Setting { name, value, source }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const FILE: (&str, &str) = (
        "etc/system.toml",
        "[session]\npassphrase = \"x\"\n[limits]\nmax_tokens = 5\n[permissions]\nread_log = \"hidden\"",
    );

    fn settings(all: &[(&str, &str)]) -> Settings {
        all.iter().map(|(name, given)| ((*name).to_string(), value(name, given).unwrap())).collect()
    }

    #[test]
    fn settings_lie_over_the_files_and_go_again() {
        let set = settings(&[
            ("limits.max_tokens", "7"),
            ("permissions.read_log", "auto"),
            ("profiles.guest.limits.max_jobs", "1"),
            ("session.model", "1"),
            ("session.home_quota", "20MiB"),
            ("session.offer", "home, manual"),
            ("session.utc_offset", "+01:00"),
        ]);
        let (config, bad) = configuration(&[FILE], &set, [1; 16]).unwrap();
        assert!(bad.is_empty());
        assert_eq!(config.policy.profile(Profile::Operator).limits.max_tokens, 7);
        assert_eq!(config.policy.profile(Profile::Guest).limits.max_jobs, 1);
        assert_eq!((config.model.as_str(), config.home_quota), ("1", capos_policy::Quota::Bytes(20 << 20)));
        assert_eq!((config.utc_offset, config.offer), (60, Vec::from(["home".to_string(), "manual".to_string()])));
        assert_eq!(config.policy.overrides.last().unwrap().mode, Some(PermissionMode::Auto));
        let (config, _) = configuration(&[FILE], &Settings::new(), [1; 16]).unwrap();
        assert_eq!(config.policy.profile(Profile::Operator).limits.max_tokens, 5);
    }

    #[test]
    fn what_another_version_has_set_is_left_out_and_named() {
        let mut set = settings(&[("limits.max_tokens", "7")]);
        set.insert("limits.max_dreams".into(), "3".into());
        let (config, bad) = configuration(&[FILE], &set, [1; 16]).unwrap();
        assert_eq!(config.policy.profile(Profile::Operator).limits.max_tokens, 7);
        assert!(bad.len() == 1 && bad[0].0 == "limits.max_dreams" && bad[0].1.contains("max_dreams"), "{bad:?}");
    }

    /// Requirement D31: a change of the policy that is rejected says by which rule.
    #[test]
    fn mistakes_are_told_before_they_are_kept() {
        for (name, given, words) in [
            ("limits.max_tokens", "many", "limits.max_tokens is a number, not \"many\""),
            ("limits.max_tokens", "-1", "limits.max_tokens is at least 0"),
            ("limits.max_iterations", "99999999999", "max_iterations"),
            ("limits.approval_timeout_ms", "5", "at least 10000"),
            ("limits.max_dreams", "5", "unknown field `max_dreams`"),
            ("budget.run.steps.limit", "-1", "budget.run.steps.limit is at least 0"),
            ("budget.run.dreams.limit", "5", "there is no such dimension"),
            ("budget.run.steps.on_exceed", "beg", "stop, ask, warn"),
            ("budget.life.steps.limit", "5", "unknown field `life`"),
            ("budget.session.tokens.limit", "5", "limits.max_tokens"),
            ("permissions.read_file", "maybe", "there is no mode \"maybe\""),
            (
                "permissions.delete_file",
                "auto",
                "stays consent by another rule: the least that tools of this category take",
            ),
            ("policy.valid_seconds", "5", "policy.valid_seconds is at least 60"),
            ("policy.paths.block", "a, ../b", "policy.paths.block: \"../b\": the path leads above the root"),
            ("policy.tools.write_fiel.block", "a", "policy.tools.write_fiel: there is no tool of that name"),
            ("policy.domains.allow", "Example.org", "policy.domains.allow: \"Example.org\" is no domain"),
            ("policy.format", "2", "there is no setting \"policy.format\"; those of the policy are"),
            ("policy.dreams", "2", "those of the policy are"),
            ("permissions.set_setting", "auto", "stays as the image has it"),
            ("policy.tools.set_setting.max_argument_bytes", "0", "stay as the image has them"),
            ("policy.tools.reset_setting.block", "limits", "stay as the image has them"),
            ("profiles.operator.policy.tools.set_setting.allow", "a", "stay as the image has them"),
            ("session.home_quota", "many", "session.home_quota: \"many\" is no quota"),
            (
                "session.offer",
                "a-name-that-is-much-too-long-for-any-capability",
                "session.offer: it has at most 32 names of at most 32 bytes",
            ),
            ("session.utc_offset", "Vienna", "session.utc_offset: \"Vienna\" is no offset from UTC"),
            ("session.passphrase", "x", "there is no setting \"session.passphrase\""),
            ("session.profile", "guest", "there is no setting"),
            ("profiles.root.model", "local", "there is no such profile"),
            ("profiles.guest.hide_forbidden", "7", "true or false"),
            ("rule", "x", "there is no setting"),
            ("", "", "there is no setting"),
        ] {
            let why = check(&[FILE], &Settings::new(), name, given).unwrap_err();
            assert!(why.contains(words), "{name} = {given}: {why}");
        }
        let odd = check(&[FILE], &Settings::new(), "permissions.a\"b = 1\n[session]", "auto").unwrap();
        let kept = Settings::from([("permissions.a\"b = 1\n[session]".to_string(), odd)]);
        let (config, bad) = configuration(&[FILE], &kept, [1; 16]).unwrap();
        assert_eq!(config.policy.overrides.last().unwrap().tool.as_deref(), Some("a\"b = 1\n[session]"));
        assert!(bad.is_empty());
        let full = (0..MOST).map(|at| (format!("permissions.t{at}"), "\"auto\"".to_string())).collect();
        assert!(check(&[FILE], &full, "permissions.more", "auto").unwrap_err().contains("reset one first"));
        assert!(check(&[FILE], &full, "permissions.t3", "consent").is_ok());
    }

    #[test]
    fn bounds_of_the_policy_add_up_over_the_layers() {
        let file = ("etc/system.toml", "[policy]\nvalid_seconds = 900\n[policy.paths]\nblock = [\"secret\"]\n");
        let set = settings(&[
            ("policy.paths.block", "a/b,  c"),
            ("policy.tools.write_file.max_file_bytes", "10"),
            ("policy.commands.arguments.grep.block", "-r*"),
            ("profiles.guest.policy.paths.allow", "public"),
            ("policy.areas", "project"),
        ]);
        let (config, bad) = configuration(&[file], &set, [1; 16]).unwrap();
        assert!(bad.is_empty(), "{bad:?}");
        let policy = &config.policy;
        assert_eq!(policy.profile(Profile::Operator).policy_seconds, 900);
        let areas = |of: &capos_policy::RiskRules| (of.areas.contains("project"), of.profile, of.source.clone());
        assert_eq!(policy.risks.iter().map(areas).collect::<Vec<_>>(), [(true, None, "settings".to_string())]);
        let sources: Vec<&str> = policy.scopes.iter().map(|rule| rule.source.as_str()).collect();
        assert_eq!(sources, ["/etc/system.toml", "settings", "settings", "settings", "settings"]);
        let blocked: Vec<&str> = policy
            .scopes
            .iter()
            .filter_map(|rule| rule.scope.paths.as_ref())
            .flat_map(|paths| paths.block.iter().map(String::as_str))
            .collect();
        assert_eq!(blocked, ["secret", "a/b", "c"], "settings add to what the file blocks");
        let all = list(&[file], &set);
        let of = |name: &str| all.iter().find(|setting| setting.name == name).unwrap().value.as_str();
        assert_eq!((of("policy.paths.block"), of("policy.valid_seconds")), ("a/b, c", "900"));
        let (config, _) = configuration(&[file], &settings(&[("policy.paths.block", "")]), [1; 16]).unwrap();
        assert_eq!(config.policy.scopes.len(), 1, "an empty list is no rule and lifts none");
    }

    /// The shortest time counts: no setting lengthens that of the image, for all sessions or for one profile's.
    #[test]
    fn a_setting_lengthens_no_policy() {
        let file = (
            "etc/system.toml",
            "[policy]\nvalid_seconds = 7200\n[profiles.guest.policy]\nvalid_seconds = 3600\n\
             [profiles.anonymous.policy]\nvalid_seconds = 9000\n",
        );
        let seconds = |all: &[(&str, &str)]| {
            let (config, bad) = configuration(&[file], &settings(all), [1; 16]).unwrap();
            assert!(bad.is_empty(), "{bad:?}");
            [Profile::Operator, Profile::Guest, Profile::Anonymous].map(|of| config.policy.profile(of).policy_seconds)
        };
        let image = [7200, 3600, 7200];
        assert_eq!(seconds(&[]), image);
        assert_eq!(seconds(&[("policy.valid_seconds", "99999999")]), image);
        assert_eq!(seconds(&[("profiles.guest.policy.valid_seconds", "99999999")]), image);
        assert_eq!(seconds(&[("policy.valid_seconds", "600")]), [600; 3]);
        assert_eq!(seconds(&[("profiles.operator.policy.valid_seconds", "60")]), [60, 3600, 7200]);
        let of = |all: &[(&str, &str)]| {
            let (config, _) = configuration(&[file], &settings(all), [1; 16]).unwrap();
            capos_policy::SessionPolicy::of(&config.policy, Profile::Guest, &[])
        };
        let told = capos_policy::changes(&of(&[]), &of(&[("policy.valid_seconds", "60")]));
        assert_eq!(told, ["the time of a policy: 3600 seconds becomes 60 seconds"]);
        let check = |name: &str, given: &str| check(&[file], &Settings::new(), name, given);
        for (name, given) in [("policy.valid_seconds", "7201"), ("profiles.guest.policy.valid_seconds", "3601")] {
            assert!(check(name, given).unwrap_err().contains("the shortest one counts"), "{name}");
        }
        assert!(check("policy.valid_seconds", "7200").is_ok() && check("policy.valid_seconds", "4000").is_ok());
    }

    #[test]
    fn a_call_that_will_be_rejected_is_known_before() {
        let set = settings(&[("limits.max_jobs", "2")]);
        assert_eq!(resettable(&set, "limits.max_jobs"), Ok(()));
        assert!(resettable(&set, "limits.max_tokens").unwrap_err().contains("has the image's value"));
        assert_eq!(time("2026-01-01 01:00", 60), Ok(capos_setup::CLOCK_IS_SET));
        assert!(time("2025-12-31 23:59", 0).unwrap_err().starts_with("a clock is set to 2026 or later"));
        assert!(time("soon", 0).is_err());
    }

    #[test]
    fn a_jump_of_the_clock_is_told() {
        const DAY: u64 = 86_400_000;
        assert_eq!((jump(5 * DAY, 6 * DAY - 1), jump(6 * DAY, 5 * DAY + 1)), (String::new(), String::new()));
        assert!(
            jump(0, 26_725 * DAY).starts_with("The clock goes forward by 26725 days. Conversations whose `/expire`")
        );
        assert!(jump(3 * DAY, 2 * DAY).starts_with("The clock goes back by 1 day. Until"));
    }

    /// A list that a setting empties bounds nothing. A file that allows nothing permits no path, and says so.
    #[test]
    fn an_empty_list_of_the_settings_is_no_bound() {
        for name in
            ["policy.paths.allow", "policy.tools.read_file.allow", "policy.commands.allow", "policy.domains.allow"]
        {
            let (config, bad) = configuration(&[FILE], &settings(&[(name, "")]), [1; 16]).unwrap();
            assert!(bad.is_empty() && config.policy.scopes.is_empty(), "{name}: {:?}", config.policy.scopes);
        }
        let file = ("etc/system.toml", "[policy.paths]\nallow = []\n");
        let (config, _) = configuration(&[file], &settings(&[("policy.paths.allow", "")]), [1; 16]).unwrap();
        assert_eq!(config.policy.scopes.len(), 1, "the file's stays");
    }

    #[test]
    fn each_value_is_listed_with_its_origin() {
        let set = settings(&[
            ("limits.max_jobs", "2"),
            ("permissions.read_log", "auto"),
            ("budget.run.steps.on_exceed", "ask"),
        ]);
        let all = list(&[FILE], &set);
        let of = |name: &str| {
            let found = all.iter().find(|setting| setting.name == name).unwrap();
            (found.value.as_str(), found.source.as_str())
        };
        assert_eq!(of("limits.max_jobs"), ("2", "settings"));
        assert_eq!(of("limits.max_tokens"), ("5", "/etc/system.toml"));
        assert_eq!(of("limits.max_iterations"), ("16", "built in"));
        assert_eq!(of("budget.run.memory.limit"), ("15360", "built in"));
        assert_eq!(of("budget.run.steps.on_exceed"), ("ask", "settings"));
        assert_eq!(of("permissions.read_log"), ("auto", "settings"));
        assert!(all.iter().all(|setting| !setting.name.contains("passphrase")));
    }
}
