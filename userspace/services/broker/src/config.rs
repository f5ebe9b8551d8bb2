//! The configuration of the broker: `/etc/system.toml`, and a scenario's `config.toml` over it.
//!
//! A mistake is rejected with an error message that names its place; nothing is guessed. A section `[runner]` is
//! the host's and is not read here.

pub mod policy_section;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_budget::{Dimension, OnExceed, Plan, Rule as BudgetRule};
use capos_policy::{Category, ModelAccess, Modes, Override, Passphrase, Policy, ProfileRules, Quota};
use capos_schema::authority::Profile;
use capos_schema::manifest::SessionProfile;
use capos_schema::models::PermissionMode;
use serde::Deserialize;

use crate::settings::LAYER;
use policy_section::PolicySection;

/// Iterations for a passphrase that a configuration gives in plain text.
const ITERATIONS: u32 = 1000;
/// Minutes before an idle terminal is locked, if nothing else is configured.
pub const LOCK_MINUTES: u32 = 15;
/// The profiles, in order.
const PROFILES: [Profile; 3] = [Profile::Operator, Profile::Guest, Profile::Anonymous];

/// Which answers to questions about calls are recorded. Calls themselves always are, and decisions on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Those that say that the call would be allowed, without a question or after one.
    pub allowed: bool,
    /// Those that say that it would be forbidden.
    pub denied: bool,
}

impl Default for Checks {
    fn default() -> Self {
        Self { allowed: false, denied: true }
    }
}

/// What the broker runs by.
#[derive(Clone, Debug)]
pub struct Config {
    /// The profile that logs in first, without a passphrase.
    pub initial: Profile,
    /// Name of the person behind the initial profile; empty where none is given.
    pub principal: String,
    /// Id, or beginning of the id, of the model that sessions get; empty: the first.
    pub model: String,
    /// The names of the capabilities whose tools on request models are offered from the start.
    pub offer: Vec<String>,
    /// After how many idle minutes a user's terminal is locked; 0: never.
    pub lock_minutes: u32,
    /// Minutes by which people's time is ahead of UTC.
    pub utc_offset: i16,
    /// What the home of a user may take of whom nothing else is said.
    pub home_quota: Quota,
    /// Whether the events of runs go to the system log.
    pub telemetry: bool,
    /// Which checks that are no part of a call are recorded.
    pub checks: Checks,
    /// Whether the users of a data disk log in with its keys. Otherwise the disk stays unchanged.
    pub data_disk: bool,
    /// What opens a step-up.
    pub passphrase: Option<Passphrase>,
    /// Permissions, profiles and their limits.
    pub policy: Policy,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    session: Session,
    limits: Limits,
    telemetry: Telemetry,
    audit: AuditSection,
    permissions: BTreeMap<String, String>,
    rule: Vec<Rule>,
    profiles: BTreeMap<String, ProfileSection>,
    budget: BudgetSection,
    policy: PolicySection,
    // The host's.
    #[allow(dead_code)]
    runner: Option<toml::Table>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Session {
    profile: Option<String>,
    principal: Option<String>,
    model: Option<String>,
    offer: Option<Vec<String>>,
    passphrase: Option<String>,
    lock_minutes: Option<u32>,
    utc_offset: Option<String>,
    home_quota: Option<String>,
    data_disk: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Telemetry {
    log: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AuditSection {
    allowed_checks: Option<bool>,
    denied_checks: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    max_iterations: Option<u32>,
    max_tokens: Option<u64>,
    max_seconds: Option<u64>,
    tool_timeout_ms: Option<u32>,
    program_timeout_ms: Option<u32>,
    outbound_timeout_ms: Option<u32>,
    approval_timeout_ms: Option<u32>,
    max_tokens_per_call: Option<u32>,
    max_requests_per_minute: Option<u32>,
    max_jobs: Option<u32>,
    max_silence_seconds: Option<u32>,
    max_answer_seconds: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Rule {
    profile: Option<String>,
    category: Option<String>,
    method: Option<String>,
    tool: Option<String>,
    mode: Option<String>,
    suppressed: Option<bool>,
    widen: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BudgetSection {
    session: BTreeMap<String, LimitSection>,
    run: BTreeMap<String, LimitSection>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LimitSection {
    limit: Option<u64>,
    on_exceed: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ProfileSection {
    model: Option<String>,
    principal_tokens: Option<u64>,
    principal_requests: Option<u32>,
    hide_forbidden: Option<bool>,
    limits: Limits,
    budget: BudgetSection,
    policy: PolicySection,
}

impl Config {
    /// The configuration that these files give together; each is its name and its text, and a later one's settings
    /// take the place of an earlier one's. `salt` is random.
    ///
    /// # Errors
    /// The file, the place in it, and what is wrong.
    pub fn read(files: &[(&str, &str)], salt: [u8; 16]) -> Result<Self, String> {
        let mut config = Self {
            initial: Profile::Operator,
            principal: String::new(),
            model: String::new(),
            offer: Vec::new(),
            lock_minutes: LOCK_MINUTES,
            utc_offset: 0,
            home_quota: Quota::DEFAULT,
            telemetry: false,
            checks: Checks::default(),
            data_disk: true,
            passphrase: None,
            policy: Policy::default(),
        };
        for (name, text) in files {
            let file: File = toml::from_str(text).map_err(|bad| format!("{name}: {}", bad.to_string().trim_end()))?;
            config.add(file, (name, salt)).map_err(|why| format!("{name}: {why}"))?;
        }
        Ok(config)
    }

    /// Takes the modes of the profiles from the manifest.
    ///
    /// # Errors
    /// A profile's modes are not a mode for each category: the manifest was not compiled for this broker.
    pub fn permit(&mut self, profiles: &[SessionProfile]) -> Result<(), String> {
        for SessionProfile { profile, modes, .. } in profiles {
            let of = |category: Category| modes.iter().find(|mode| mode.category == category.name());
            let found = Modes::new(|category| of(category).map(|mode| mode.mode)).map_err(|(category, why)| {
                format!("manifest: profile.{}.modes.{}: {why}", profile.name(), category.name())
            })?;
            self.policy.modes.push((*profile, found));
        }
        Ok(())
    }

    fn add(&mut self, file: File, (name, salt): (&str, [u8; 16])) -> Result<(), String> {
        let source = source(name);
        put(&mut self.telemetry, &file.telemetry.log);
        put(&mut self.checks.allowed, &file.audit.allowed_checks);
        put(&mut self.checks.denied, &file.audit.denied_checks);
        if let Some(name) = &file.session.profile {
            self.initial = profile("session.profile", name)?;
        }
        if let Some(name) = file.session.principal {
            self.principal = name;
        }
        if let Some(id) = file.session.model {
            self.model = id;
        }
        if let Some(names) = file.session.offer {
            self.offer = crate::settings::offer(names)?;
        }
        put(&mut self.lock_minutes, &file.session.lock_minutes);
        if let Some(offset) = &file.session.utc_offset {
            self.utc_offset = capos_audit::offset(offset).map_err(|why| format!("session.utc_offset: {why}"))?;
        }
        if let Some(quota) = &file.session.home_quota {
            self.home_quota = Quota::parse(quota).map_err(|why| format!("session.home_quota: {why}"))?;
        }
        put(&mut self.data_disk, &file.session.data_disk);
        if let Some(text) = file.session.passphrase {
            self.passphrase = Some(passphrase(&text, salt)?);
        }
        for wanted in PROFILES {
            let mut rules = self.policy.profile(wanted);
            file.limits.put(&mut rules);
            file.budget.put(&mut rules)?;
            if let Some(tokens) = file.limits.max_tokens {
                // One session may use up what it is given, whatever the principal's own limit was.
                rules.principal_tokens = rules.principal_tokens.max(tokens);
            }
            if let Some(requests) = file.limits.max_requests_per_minute {
                rules.principal_requests = rules.principal_requests.max(requests);
            }
            shorten(&mut rules.policy_seconds, file.policy.valid_seconds);
            if let Some(section) = file.profiles.get(wanted.name()) {
                section.put(wanted, &mut rules)?;
                let bounds = section.policy.clone().put(Some(wanted), &source, &mut self.policy);
                bounds.map_err(|why| format!("profiles.{}.{why}", wanted.name()))?;
            }
            self.policy.profiles.retain(|(other, _)| *other != wanted);
            self.policy.profiles.push((wanted, rules));
        }
        if let Some(unknown) = file.profiles.keys().find(|name| Profile::from_name(name).is_none()) {
            return Err(format!("profiles.{unknown}: there is no such profile; known: operator, guest, anonymous"));
        }
        file.policy.put(None, &source, &mut self.policy)?;
        for (tool, what) in &file.permissions {
            self.policy.overrides.push(Override { source: source.clone(), ..short(tool, what)? });
        }
        for (at, rule) in file.rule.into_iter().enumerate() {
            let rule = rule.read().map_err(|why| format!("rule {}: {why}", at.saturating_add(1)))?;
            self.policy.overrides.push(Override { source: source.clone(), ..rule });
        }
        Ok(())
    }
}

impl Limits {
    fn put(&self, ProfileRules { limits, patience, .. }: &mut ProfileRules) {
        let Self {
            max_iterations,
            max_tokens,
            max_seconds,
            tool_timeout_ms,
            program_timeout_ms,
            outbound_timeout_ms,
            approval_timeout_ms,
            max_tokens_per_call,
            max_requests_per_minute,
            max_jobs,
            max_silence_seconds,
            max_answer_seconds,
        } = self;
        put(&mut limits.max_iterations, max_iterations);
        put(&mut limits.max_tokens, max_tokens);
        put(&mut limits.max_seconds, max_seconds);
        put(&mut limits.tool_timeout_ms, tool_timeout_ms);
        put(&mut limits.program_timeout_ms, program_timeout_ms);
        put(&mut limits.outbound_timeout_ms, outbound_timeout_ms);
        put(&mut limits.approval_timeout_ms, approval_timeout_ms);
        put(&mut limits.max_tokens_per_call, max_tokens_per_call);
        put(&mut limits.max_requests_per_minute, max_requests_per_minute);
        put(&mut limits.max_jobs, max_jobs);
        put(&mut patience.silence_seconds, max_silence_seconds);
        put(&mut patience.answer_seconds, max_answer_seconds);
    }
}

impl BudgetSection {
    fn put(&self, rules: &mut ProfileRules) -> Result<(), String> {
        let (session, run) = rules.budgets.plans();
        for (name, limits) in &self.session {
            // One value has one name.
            let other = match name.as_str() {
                "tokens" if limits.limit.is_some() => "limits.max_tokens",
                "wall_clock" => "limits.max_seconds",
                _ => continue,
            };
            return Err(format!("budget.session.{name}: the limit of a session is the setting {other}"));
        }
        for (of, plan, sections) in [("session", session, &self.session), ("run", run, &self.run)] {
            for (name, section) in sections {
                section.put(name, plan).map_err(|why| format!("budget.{of}.{name}{why}"))?;
            }
        }
        Ok(())
    }
}

impl LimitSection {
    fn put(&self, name: &str, plan: &mut Plan) -> Result<(), String> {
        let dimension = Dimension::from_name(name).ok_or_else(|| {
            let known = Dimension::ALL.map(Dimension::name);
            format!(": there is no such dimension of a budget; known: {}", names(&known))
        })?;
        let mut rule = plan.rule(dimension);
        if let Some(limit) = self.limit {
            let limit = limit.checked_mul(dimension.scale()).ok_or_else(|| ".limit is too large".to_string())?;
            rule = BudgetRule { limit, ..rule };
        }
        if let Some(policy) = &self.on_exceed {
            let on_exceed = OnExceed::from_name(policy).ok_or_else(|| {
                format!(".on_exceed is {}, not {policy:?}", names(&OnExceed::ALL.map(OnExceed::name)))
            })?;
            rule = BudgetRule { on_exceed, ..rule };
        }
        plan.set(dimension, rule);
        Ok(())
    }
}

fn put<T: Copy>(to: &mut T, value: &Option<T>) {
    if let Some(value) = value {
        *to = *value;
    }
}

/// The shortest time counts, whichever layer has it, for all sessions or for those of one profile.
fn shorten(to: &mut u64, seconds: Option<u64>) {
    *to = seconds.map_or(*to, |seconds| seconds.min(*to));
}

impl ProfileSection {
    fn put(&self, name: Profile, rules: &mut ProfileRules) -> Result<(), String> {
        self.limits.put(rules);
        self.budget.put(rules).map_err(|why| format!("profiles.{}.{why}", name.name()))?;
        put(&mut rules.principal_tokens, &self.principal_tokens);
        put(&mut rules.principal_requests, &self.principal_requests);
        put(&mut rules.hide_forbidden, &self.hide_forbidden);
        shorten(&mut rules.policy_seconds, self.policy.valid_seconds);
        if let Some(model) = &self.model {
            rules.model = match model.as_str() {
                "none" => ModelAccess::None,
                "local" => ModelAccess::Local,
                "remote" => ModelAccess::Remote,
                _ => return Err(format!("profiles.{}.model is none, local or remote, not {model:?}", name.name())),
            };
        }
        Ok(())
    }
}

impl Rule {
    fn read(self) -> Result<Override, String> {
        let category = match &self.category {
            None => None,
            Some(name) => Some(Category::from_name(name).ok_or_else(|| {
                format!(
                    "there is no category {name:?}; known: {}",
                    names(&Category::ALL.iter().map(|category| category.name()).collect::<Vec<_>>())
                )
            })?),
        };
        Ok(Override {
            profile: self.profile.as_deref().map(|name| profile("profile", name)).transpose()?,
            category,
            method: self.method,
            tool: self.tool,
            mode: self.mode.as_deref().map(mode).transpose()?,
            suppressed: self.suppressed,
            widen: self.widen,
            source: String::new(),
        })
    }
}

/// The short form: `tool = "mode"`, or `tool = "hidden"`. The author of the configuration may widen.
fn short(tool: &str, what: &str) -> Result<Override, String> {
    let rule = Override { tool: Some(tool.to_string()), ..Override::default() };
    if what == "hidden" {
        return Ok(Override { suppressed: Some(true), ..rule });
    }
    let mode = mode(what).map_err(|why| format!("permissions.{tool}: {why}, or hidden"))?;
    Ok(Override { mode: Some(mode), widen: true, ..rule })
}

fn mode(name: &str) -> Result<PermissionMode, String> {
    PermissionMode::from_name(name).ok_or_else(|| {
        let known: Vec<&str> = PermissionMode::ALL.iter().map(|mode| mode.name()).collect();
        format!("there is no mode {name:?}; known: {}", names(&known))
    })
}

fn profile(place: &str, name: &str) -> Result<Profile, String> {
    Profile::from_name(name)
        .ok_or_else(|| format!("{place}: there is no profile {name:?}; known: {}", names(&PROFILES.map(Profile::name))))
}

/// How a layer of configuration is named to a person: a file by its path.
pub(crate) fn source(layer: &str) -> String {
    if layer == LAYER { layer.to_string() } else { format!("/{layer}") }
}

fn names(known: &[&str]) -> String {
    known.join(", ")
}

/// Either kept (`pbkdf2-sha256$…`), or in plain text, which is for tests.
fn passphrase(text: &str, salt: [u8; 16]) -> Result<Passphrase, String> {
    let read = if text.starts_with("pbkdf2-sha256$") {
        Passphrase::parse(text)
    } else {
        Passphrase::new(text, salt, ITERATIONS)
    };
    read.map_err(|bad| format!("session.passphrase: {bad}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SALT: [u8; 16] = [7; 16];

    fn read(text: &str) -> Result<Config, String> {
        Config::read(&[("config.toml", text)], SALT)
    }

    #[test]
    fn an_empty_configuration_is_the_standard() {
        let config = read("").unwrap();
        assert_eq!((config.initial, config.data_disk), (Profile::Operator, true));
        assert_eq!(config.policy.profile(Profile::Guest), ProfileRules::standard(Profile::Guest));
        assert!(config.passphrase.is_none());
    }

    #[test]
    fn e11_denied_checks_are_recorded_and_allowed_ones_are_not_unless_it_is_configured() {
        let checks = |text: &str| read(text).unwrap().checks;
        assert_eq!(checks(""), Checks { allowed: false, denied: true });
        assert_eq!(checks("[audit]\nallowed_checks = true\n"), Checks { allowed: true, denied: true });
        assert_eq!(checks("[audit]\ndenied_checks = false\n"), Checks { allowed: false, denied: false });
        let files =
            [("system.toml", "[audit]\nallowed_checks = true\n"), ("settings", "audit.allowed_checks = false\n")];
        assert!(!Config::read(&files, SALT).unwrap().checks.allowed, "the later file counts");
        assert!(read("[audit]\ncalls = false\n").is_err(), "calls are recorded always");
    }

    #[test]
    fn e13_telemetry_is_off_unless_it_is_configured() {
        assert!(!read("").unwrap().telemetry);
        assert!(read("[telemetry]\nlog = true\n").unwrap().telemetry);
        let files = [("system.toml", "[telemetry]\nlog = true\n"), ("settings", "telemetry.log = false\n")];
        assert!(!Config::read(&files, SALT).unwrap().telemetry, "the later file counts");
        assert!(read("[telemetry]\nsend = true\n").is_err());
    }

    #[test]
    fn a_scenario_takes_the_place_of_the_system() {
        let system = "[session]\nprofile = \"operator\"\npassphrase = \"one\"\n[limits]\nmax_iterations = 9\n";
        let scenario = "
            [runner]
            limit_seconds = 20
            [session]
            profile = \"guest\"
            passphrase = \"two\"
            data_disk = false
            [limits]
            max_tokens = 5
            max_requests_per_minute = 5000
            max_silence_seconds = 20
            [permissions]
            delete_file = \"forbidden\"
            read_log = \"hidden\"
            [[rule]]
            category = \"mutating\"
            mode = \"stepUp\"
            [budget.run.tokens]
            limit = 7
            on_exceed = \"stop\"
            [budget.session]
            cpu = { limit = 2 }
            [profiles.guest]
            budget.run.tokens.limit = 8
            model = \"none\"
            principal_requests = 7
            limits = { max_answer_seconds = 60 }
        ";
        let config = Config::read(&[("system.toml", system), ("config.toml", scenario)], SALT).unwrap();
        assert_eq!((config.initial, config.data_disk), (Profile::Guest, false));
        assert_eq!(config.policy.profile(Profile::Operator).limits.max_tokens, 5);
        let operator = config.policy.profile(Profile::Operator);
        assert_eq!((operator.limits.max_requests_per_minute, operator.principal_requests), (5000, 5000));
        assert!(config.passphrase.as_ref().unwrap().is("two"));
        let guest = config.policy.profile(Profile::Guest);
        assert_eq!((guest.limits.max_iterations, guest.limits.max_tokens, guest.model), (9, 5, ModelAccess::None));
        assert_eq!((guest.limits.max_requests_per_minute, guest.principal_requests), (5000, 7));
        let of = |rules: &ProfileRules| rules.budgets.run().rule(Dimension::Tokens);
        assert_eq!(of(&operator), BudgetRule { limit: 7, on_exceed: OnExceed::Stop });
        assert_eq!(of(&guest), BudgetRule { limit: 8, on_exceed: OnExceed::Stop });
        let session = operator.budgets.session(&operator.limits);
        assert_eq!((session.rule(Dimension::Cpu).limit, session.rule(Dimension::Tokens).limit), (2000, 5));
        let [operator, guest] =
            [operator, guest].map(|rules| (rules.patience.silence_seconds, rules.patience.answer_seconds));
        assert_eq!((operator, guest), ((20, 3600), (20, 60)));
        assert_eq!(config.policy.overrides.len(), 3);
        assert_eq!(config.policy.overrides.first().unwrap().mode, Some(PermissionMode::Forbidden));
    }

    #[test]
    fn the_shipped_configuration_is_understood() {
        let text = include_str!("../../../../iso_root/etc/system.toml");
        let config = Config::read(&[("system.toml", text)], SALT).unwrap();
        assert_eq!(config.initial, Profile::Operator);
        assert!(config.passphrase.unwrap().is("capos"));
    }

    #[test]
    fn modes_come_from_the_manifest_or_not_at_all() {
        use capos_schema::manifest::CategoryMode;
        let modes = |mode: PermissionMode| -> Vec<CategoryMode> {
            Category::ALL.iter().map(|category| CategoryMode { category: category.name().into(), mode }).collect()
        };
        let guest = |modes| SessionProfile { profile: Profile::Guest, grants: Vec::new(), modes };
        let mut config = read("").unwrap();
        config.permit(&[guest(modes(PermissionMode::StepUp))]).unwrap();
        assert_eq!(config.policy.modes(Profile::Guest).of(Category::ReadOnly), PermissionMode::StepUp);
        let error = config.permit(&[guest(modes(PermissionMode::Auto))]).unwrap_err();
        assert!(error.contains("manifest: profile.guest.modes.destructive: "), "{error}");
        assert!(config.permit(&[guest(Vec::new())]).unwrap_err().contains("modes.readOnly: it is missing"));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, words) in [
            ("[session]\nprofil = \"guest\"", "unknown field `profil`"),
            ("[session]\nprofile = \"root\"", "session.profile: there is no profile \"root\""),
            ("[limits]\nmax_iterations = -1", "config.toml: "),
            ("[permissions]\nread_file = \"maybe\"", "permissions.read_file: there is no mode \"maybe\""),
            ("[[rule]]\ncategory = \"odd\"", "rule 1: there is no category \"odd\""),
            ("[profiles.root]", "profiles.root: there is no such profile"),
            ("[session]\npassphrase = \"\"", "session.passphrase: "),
            (
                "[budget.run.money]\nlimit = 1",
                "budget.run.money: there is no such dimension of a budget; known: wall_clock,",
            ),
            ("[budget.run.cost]\non_exceed = \"beg\"", "budget.run.cost.on_exceed is stop, ask, warn, not \"beg\""),
            ("[budget.session.tokens]\nlimit = 1", "the limit of a session is the setting limits.max_tokens"),
            (
                "[profiles.guest.budget.run.cpu]\nlimit = 9223372036854775807",
                "profiles.guest.budget.run.cpu.limit is too",
            ),
            (
                "[policy]\nformat = 2",
                "policy.format: the section has format 2, and this version knows 1; remove the line",
            ),
            ("[policy.paths]\nblock = [\"../x\"]", "policy.paths.block: \"../x\": the path leads above the root"),
            ("[policy.tools.reed_file]\nallow = []", "policy.tools.reed_file: there is no tool"),
            ("[policy.domains]\nallow = [\"x y\"]", "policy.domains.allow: \"x y\" is no domain"),
            ("[profiles.guest.policy]\nformat = 3", "profiles.guest.policy.format"),
            ("[policy]\nbundel = 1", "unknown field `bundel`"),
            ("[session", "config.toml: "),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
