//! A profile's values for a session, apart from its tools.

use alloc::string::{String, ToString};

use capos_budget::{Dimension, OnExceed, Plan};
use capos_schema::authority::{Profile, SessionLimits};

/// Which models a session may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelAccess {
    #[default]
    None,
    /// Models that run on this machine.
    Local,
    /// Remote ones too, after a step-up and only if the session has opted in.
    Remote,
}

/// How long a model's worker may take over one answer. Time counts while the person waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Seconds in which it reads no token and writes none.
    pub silence_seconds: u32,
    /// Seconds for the whole answer.
    pub answer_seconds: u32,
}

impl Default for Patience {
    /// An emulated machine reads a prompt in minutes and reports its progress; a page of a large model may come from a
    /// slow disk.
    fn default() -> Self {
        Self { silence_seconds: 300, answer_seconds: 3600 }
    }
}

/// What a session and each of its runs may use. The session's tokens and time are those of [`SessionLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileBudgets {
    session: Plan,
    run: Plan,
}

impl Default for ProfileBudgets {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        let second = Dimension::WallClock.scale();
        let mib_second = Dimension::Memory.scale();
        let run = Plan::default()
            .with(Dimension::WallClock, 600 * second, OnExceed::Ask)
            .with(Dimension::Steps, 50, OnExceed::Ask)
            .with(Dimension::Tokens, 100_000, OnExceed::Ask)
            .with(Dimension::Cost, 500_000, OnExceed::Stop)
            .with(Dimension::Cpu, 30 * second, OnExceed::Stop)
            .with(Dimension::Memory, 512 * 30 * mib_second, OnExceed::Stop)
            .with(Dimension::Egress, 10 * MIB, OnExceed::Stop)
            .with(Dimension::Writes, 50 * MIB, OnExceed::Stop);
        let session = Plan::default()
            .with(Dimension::Steps, 2000, OnExceed::Ask)
            .with(Dimension::Cost, 5_000_000, OnExceed::Ask)
            .with(Dimension::Cpu, 3600 * second, OnExceed::Ask)
            .with(Dimension::Memory, 512 * 3600 * mib_second, OnExceed::Ask)
            .with(Dimension::Egress, 1024 * MIB, OnExceed::Ask)
            .with(Dimension::Writes, 1024 * MIB, OnExceed::Ask);
        Self { session, run }
    }
}

impl ProfileBudgets {
    /// The budget of each run.
    #[must_use]
    pub fn run(&self) -> Plan {
        self.run
    }

    /// The budget of a session with these limits.
    #[must_use]
    pub fn session(&self, limits: &SessionLimits) -> Plan {
        let of = |dimension| self.session.rule(dimension).on_exceed;
        let milliseconds = limits.max_seconds.saturating_mul(Dimension::WallClock.scale());
        self.session.with(Dimension::Tokens, limits.max_tokens, of(Dimension::Tokens)).with(
            Dimension::WallClock,
            milliseconds,
            OnExceed::Stop,
        )
    }

    /// Both, to be changed.
    pub fn plans(&mut self) -> (&mut Plan, &mut Plan) {
        (&mut self.session, &mut self.run)
    }
}

/// The rules of one profile.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileRules {
    pub model: ModelAccess,
    pub limits: SessionLimits,
    pub patience: Patience,
    pub budgets: ProfileBudgets,
    /// Tokens that all sessions of one principal may use together in a day.
    pub principal_tokens: u64,
    /// Requests to models that all sessions of one principal may make together in a minute.
    pub principal_requests: u32,
    /// Forbidden tools are left out of the model's list, instead of shown as forbidden.
    pub hide_forbidden: bool,
    /// How long a policy bundle of a session is valid, in seconds; no longer than the session.
    pub policy_seconds: u64,
}

impl ProfileRules {
    /// The rules without configuration: an operator has models and sees forbidden tools; a guest has local models; an
    /// anonymous session has none.
    #[must_use]
    pub fn standard(profile: Profile) -> Self {
        let limits = SessionLimits::default();
        let (session, requests) = (limits.max_tokens, limits.max_requests_per_minute);
        // As long as the session.
        let policy_seconds = u64::MAX;
        let (patience, budgets) = (Patience::default(), ProfileBudgets::default());
        match profile {
            Profile::Operator => Self {
                model: ModelAccess::Remote,
                principal_tokens: session.saturating_mul(10),
                principal_requests: requests.saturating_mul(2),
                limits,
                patience,
                budgets,
                hide_forbidden: false,
                policy_seconds,
            },
            Profile::Guest => Self {
                model: ModelAccess::Local,
                principal_tokens: session,
                principal_requests: requests,
                limits,
                patience,
                budgets,
                hide_forbidden: true,
                policy_seconds,
            },
            Profile::Anonymous => Self {
                model: ModelAccess::None,
                principal_tokens: 0,
                principal_requests: 0,
                limits,
                patience,
                budgets,
                hide_forbidden: true,
                policy_seconds,
            },
        }
    }

    /// Whether a session may use a model with that backend (`ModelInfo.backend`).
    ///
    /// # Errors
    /// The reason why not.
    pub fn may_use(&self, backend: &str, opted_in: bool, stepped_up: bool) -> Result<(), String> {
        match (self.model, is_remote(backend)) {
            (ModelAccess::None, _) => Err("this profile has no model".to_string()),
            (ModelAccess::Local, true) => Err("this profile may use models on this machine only".to_string()),
            (ModelAccess::Remote, true) if !opted_in => {
                Err("remote models are off; the operator has to opt in first".to_string())
            }
            (ModelAccess::Remote, true) if !stepped_up => Err("a remote model needs the passphrase first".to_string()),
            _ => Ok(()),
        }
    }
}

/// Whether a backend sends prompts off this machine. Names that are not known to be local count as remote.
#[must_use]
pub fn is_remote(backend: &str) -> bool {
    !(backend == "scripted" || backend == "stub" || backend == "local" || backend.starts_with("local-"))
}
