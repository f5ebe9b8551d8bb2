//! The policy of one session, and its answer to each call.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_schema::annotations::Pattern;
use capos_schema::authority::{ConsentReach, Decision, Profile, Risk, Span, ToolPermission, ToolQuestion};
use capos_schema::models::PermissionMode;
use hashbrown::{Equivalent, HashMap};

use crate::approval::{Answer, Approvals, Standing, Subject};
use crate::bundle::{BundleError, Capability, Holder, MODEL_CALL, PolicyBundle};
use crate::category::{Category, category};
use crate::labels::Egress;
use crate::map::{Modes, Override, Permission, resolve, stricter};
use crate::profile::{ModelAccess, ProfileRules};
use crate::risk::{Raises, RiskRules};
use crate::scope::{Arguments, At, Bounds, Measured, Scope};
use crate::service_end::{Ending, ServiceEnds};

/// The configuration: differences from the standard.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub overrides: Vec<Override>,
    /// Bounds on arguments. All that name a tool must hold.
    pub scopes: Vec<ScopeRule>,
    /// What raises the risk of a call. Each layer raises, and none lowers.
    pub risks: Vec<RiskRules>,
    pub egress: Egress,
    /// The consequences of ending a service.
    pub services: ServiceEnds,
    /// Rules that take the place of a profile's standard ones.
    pub profiles: Vec<(Profile, ProfileRules)>,
    /// The modes of each profile, from the manifest.
    pub modes: Vec<(Profile, Modes)>,
}

/// The tools that a scope is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The tool with this name.
    Tool(String),
    /// All that have a path among their arguments: those of files, and those that run a program with a directory.
    Paths,
    /// All that run a program.
    Programs,
    /// All that reach a network.
    Network,
}

/// A scope of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeRule {
    /// The profile whose sessions it bounds; all if there is none.
    pub profile: Option<Profile>,
    pub target: Target,
    pub scope: Scope,
    /// The file or the settings that have it.
    pub source: String,
}

impl ScopeRule {
    /// What it bounds of this tool; none if it is not about the tool.
    pub(crate) fn scope_for(&self, profile: Profile, tool: &Capability) -> Option<Scope> {
        if self.profile.is_some_and(|wanted| wanted != profile) {
            return None;
        }
        let is_named = match &self.target {
            Target::Tool(name) => *name == tool.name,
            // Of a program it bounds the directories that a person gives to it, and nothing else.
            Target::Paths if tool.paths.is_empty() => {
                let paths = self.scope.paths.clone().filter(|_| tool.runs_programs())?;
                return Some(Scope { paths: Some(paths), ..Scope::default() });
            }
            Target::Paths => true,
            Target::Programs => tool.runs_programs(),
            Target::Network => tool.reaches_network(),
        };
        is_named.then(|| self.scope.clone())
    }
}

impl Policy {
    /// The rules of a profile: the configured ones, or the standard ones.
    #[must_use]
    pub fn profile(&self, profile: Profile) -> ProfileRules {
        let configured = self.profiles.iter().find(|(name, _)| *name == profile);
        configured.map_or_else(|| ProfileRules::standard(profile), |(_, rules)| rules.clone())
    }

    /// The modes of a profile: those of the manifest. In a profile that it does not name nothing may run.
    #[must_use]
    pub fn modes(&self, profile: Profile) -> Modes {
        let configured = self.modes.iter().find(|(name, _)| *name == profile);
        configured.map_or(Modes::CLOSED, |(_, modes)| *modes)
    }

    /// The permission for a tool in sessions of a profile, and where its mode comes from.
    #[must_use]
    pub fn permission(&self, profile: Profile, category: Category, method: &str, tool: &str) -> (Permission, String) {
        let hide = self.profile(profile).hide_forbidden;
        resolve(&self.overrides, &self.modes(profile), profile, (category, method, tool), hide)
    }
}

/// A tool that the session holds the capability for. The category comes from the schema, never from the runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedTool {
    pub interface_id: u64,
    pub method: String,
    /// The name under which it is advertised.
    pub name: String,
    pub category: Category,
    /// The argument by which calls may be agreed to together.
    pub pattern: Option<(&'static str, Pattern)>,
    /// The arguments that are paths in the home directory.
    pub paths: &'static [&'static str],
    /// Those of them with which a call reads or moves everything below, too.
    pub trees: &'static [&'static str],
}

/// The requirement before a call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Nothing.
    Open,
    /// A person has agreed to it already, by the answer to the question with this number.
    Approved(u64),
    /// A person has to agree.
    AskPerson,
    /// A person has to authenticate.
    AskPassphrase,
    /// It may not run; the reason is for the model and the person.
    Shut { reason: String },
}

/// What a call needs, before a person is asked about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    pub mode: PermissionMode,
    /// Why, if it is forbidden.
    pub reason: String,
    /// What the person is told before they agree; may be empty.
    pub note: String,
    /// The number of the question whose answer covers the call.
    pub approved: Option<u64>,
    /// How much harm it could do.
    pub risk: Risk,
}

/// What would become of a call, and by which rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// One rule a line, in the order in which they are checked.
    pub steps: Vec<String>,
    pub review: Review,
    /// Look-ups in tables that the check took.
    pub lookups: u64,
}

/// The permissions of one session: its policy bundle by interface and name of the tool. Every answer takes a number of
/// look-ups that does not depend on how many tools and rules there are.
#[derive(Clone, Debug)]
pub struct SessionPolicy {
    holder: Holder,
    version: String,
    issued: u64,
    expires: u64,
    policy: Policy,
    rules: ProfileRules,
    tools: HashMap<(u64, String), Entry>,
    raises: Raises,
    approvals: Approvals,
}

#[derive(Clone, Debug)]
struct Entry {
    tool: Capability,
    bounds: Vec<Bounds>,
}

impl Entry {
    fn of(tool: Capability) -> Self {
        let bounds = tool.scopes.iter().map(|bound| bound.scope.compile()).collect();
        Self { tool, bounds }
    }
}

/// A tool as it is looked up.
#[derive(Hash)]
struct Key<'a>(u64, &'a str);

impl Equivalent<(u64, String)> for Key<'_> {
    fn equivalent(&self, key: &(u64, String)) -> bool {
        self.0 == key.0 && self.1 == key.1
    }
}

/// What a check went through.
#[derive(Default)]
struct Trace {
    /// If somebody wants to read it.
    steps: Option<Vec<String>>,
    lookups: u64,
}

impl Trace {
    fn step(&mut self, text: impl FnOnce() -> String) {
        if let Some(steps) = &mut self.steps {
            steps.push(text());
        }
    }
}

impl SessionPolicy {
    /// Without a tool and without an end, for a session of this profile.
    #[must_use]
    pub fn new(policy: &Policy, profile: Profile) -> Self {
        let holder = Holder { session: String::new(), principal: String::new(), profile };
        Self {
            holder,
            version: String::new(),
            issued: 0,
            expires: u64::MAX,
            rules: policy.profile(profile),
            raises: Raises::of(&policy.risks, profile),
            policy: policy.clone(),
            tools: HashMap::new(),
            approvals: Approvals::default(),
        }
    }

    /// The same with these tools.
    #[must_use]
    pub fn of(policy: &Policy, profile: Profile, tools: &[GrantedTool]) -> Self {
        let mut session = Self::new(policy, profile);
        for tool in tools {
            session.grant(tool.clone());
        }
        session
    }

    /// The bundle in the form in which calls are checked. `policy` is what it was issued from.
    ///
    /// # Errors
    /// The bundle is of another format, has expired, or is for another session, principal or profile.
    pub fn load(policy: &Policy, bundle: PolicyBundle, holder: &Holder, now: u64) -> Result<Self, BundleError> {
        bundle.check(policy, holder, now)?;
        let mut session = Self::new(policy, holder.profile);
        session.rules.model = bundle.model;
        (session.version, session.issued, session.expires) = (bundle.version, bundle.issued, bundle.expires);
        session.holder = bundle.holder;
        for tool in bundle.capabilities {
            let name = tool.name.clone();
            if session.tools.insert((tool.interface_id, name.clone()), Entry::of(tool)).is_some() {
                return Err(BundleError::Doubled(name));
            }
        }
        Ok(session)
    }

    /// The version of the bundle, and when it was issued and expires, in nanoseconds since boot.
    #[must_use]
    pub fn bundle(&self) -> (&str, u64, u64) {
        (&self.version, self.issued, self.expires)
    }

    /// Whose it is.
    #[must_use]
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Whether the bundle is valid at this time.
    ///
    /// # Errors
    /// It is not, and what to do.
    pub fn valid(&self, now: u64) -> Result<(), String> {
        if now < self.issued {
            return Err("the clock is before the time at which the policy was issued; log in again".to_string());
        }
        if now >= self.expires {
            return Err(
                "the policy of this session has expired; /resume asks the broker for the present one".to_string()
            );
        }
        Ok(())
    }

    /// Whether a model may be asked at this time.
    ///
    /// # Errors
    /// Why not.
    pub fn may_ask_model(&self, now: u64) -> Result<(), String> {
        self.valid(now)?;
        if self.rules.model == ModelAccess::None {
            let profile = self.holder.profile.name();
            return Err(format!("{MODEL_CALL} is not granted to this {profile} session"));
        }
        Ok(())
    }

    #[must_use]
    pub fn profile(&self) -> Profile {
        self.holder.profile
    }

    /// The rules of the session's profile.
    #[must_use]
    pub fn rules(&self) -> &ProfileRules {
        &self.rules
    }

    /// Where labels may go.
    #[must_use]
    pub fn egress(&self) -> &Egress {
        &self.policy.egress
    }

    /// The consent of a question, if it covers further calls.
    #[must_use]
    pub fn standing(&self, number: u64) -> Option<&Standing> {
        self.approvals.standing(number)
    }

    /// Consents that are valid in this session.
    pub fn approvals(&mut self) -> &mut Approvals {
        &mut self.approvals
    }

    /// What raises the risk of its calls, one rule a line, each with its origin.
    pub(crate) fn raises(&self) -> Vec<String> {
        let of = |rules: &RiskRules| {
            let with = |line: String| format!("{line} ({})", rules.source);
            rules.lines().into_iter().map(with).collect::<Vec<_>>()
        };
        RiskRules::of(&self.policy.risks, self.holder.profile).flat_map(of).collect()
    }

    /// What is granted, in the order of names.
    #[must_use]
    pub fn capabilities(&self) -> Vec<&Capability> {
        let mut found: Vec<&Capability> = self.tools.values().map(|entry| &entry.tool).collect();
        found.sort_by(|one, other| (&one.name, one.interface_id).cmp(&(&other.name, other.interface_id)));
        found
    }

    /// The permission for a tool, whether it is granted or not.
    #[must_use]
    pub fn permission(&self, category: Category, method: &str, tool: &str) -> Permission {
        self.policy.permission(self.holder.profile, category, method, tool).0
    }

    /// Fills in mode and suppression of a tool by its category, method and name.
    pub fn fill_in(&self, tool: &mut ToolPermission) {
        let permission = self.permission(category(&tool.category), &tool.method_name, &tool.tool);
        tool.mode = permission.mode;
        tool.suppressed = permission.suppressed;
    }

    /// Adds a tool whose capability the session has got.
    pub fn grant(&mut self, tool: GrantedTool) -> Permission {
        let tool = Capability::of(&self.policy, self.holder.profile, tool);
        let permission = tool.permission;
        self.tools.insert((tool.interface_id, tool.name.clone()), Entry::of(tool));
        permission
    }

    fn entry(&self, question: &ToolQuestion) -> Option<&Entry> {
        self.tools.get(&Key(question.interface_id, &question.tool))
    }

    /// The file whose size a check of this call takes; none if no rule takes one.
    #[must_use]
    pub fn measures(&self, question: &ToolQuestion) -> Option<Measured> {
        let Entry { tool, bounds } = self.entry(question)?;
        if !tool.handles_content() || !bounds.iter().any(Bounds::measures_files) {
            return None;
        }
        Arguments::of(tool, &question.arguments).ok()?.measured(tool)
    }

    /// The requirement of a call: first whether the tool is granted, then whether the call is in scope, then which
    /// approval it takes. Nothing is permitted once the bundle has expired.
    #[must_use]
    pub fn gate(&self, question: &ToolQuestion, at: &At) -> Gate {
        self.gate_at_least(question, PermissionMode::Auto, at)
    }

    /// The same, if the runner asks for more than the map does. It cannot ask for less.
    #[must_use]
    pub fn gate_at_least(&self, question: &ToolQuestion, mode: PermissionMode, at: &At) -> Gate {
        self.examine(question, mode, at, &mut Trace::default()).0
    }

    fn examine(&self, question: &ToolQuestion, mode: PermissionMode, at: &At, trace: &mut Trace) -> (Gate, Risk) {
        let shut = |reason: String| (Gate::Shut { reason }, Risk::High);
        if let Err(why) = self.valid(at.now) {
            return shut(why);
        }
        trace.lookups = trace.lookups.saturating_add(1);
        let Some(Entry { tool, bounds }) = self.entry(question) else {
            return shut(format!("{:?} is not granted to this session", question.tool));
        };
        if tool.method != question.method_name {
            return shut(format!("{:?} is another method than the one that was granted", question.method_name));
        }
        if tool.category != category(&question.category) {
            let category = tool.category.name();
            return shut(format!("{:?} is {category} in the schema, not {:?}", question.tool, question.category));
        }
        trace.step(|| format!("granted: {} ({})", tool.name, tool.category.name()));
        let mut risk = match self.scope(question, (tool, bounds), at, trace) {
            Ok(risk) => risk,
            Err(reason) => return shut(format!("out of scope: {reason}")),
        };
        if tool.category == Category::Outbound
            && let Err(class) = self.policy.egress.check_outbound(&question.labels)
        {
            return shut(format!(
                "the model has read data labelled {class} in this turn, which must not leave the machine"
            ));
        }
        if tool.permission.suppressed {
            return shut(format!("{:?} is not offered in this session", question.tool));
        }
        let own = match self.policy.services.of(question, tool.category) {
            Some(Ending::Refused(reason)) => return shut(reason),
            // To lose stored data takes the same permission as to delete it.
            Some(Ending::Loses(_)) => {
                risk = Risk::High;
                stricter(tool.permission.mode, tool.destroys)
            }
            Some(Ending::Harmless(_)) | None => tool.permission.mode,
        };
        trace.step(|| format!("approval: {}, from {}", tool.permission.mode.name(), tool.source));
        if own != tool.permission.mode {
            trace.step(|| format!("approval: {}, since the call loses data", own.name()));
        }
        let gate = match stricter(own, mode) {
            PermissionMode::Auto => Gate::Open,
            PermissionMode::Consent => {
                let subject = Subject { question, category: tool.category, pattern: tool.pattern };
                self.approvals.cover(&subject).map_or(Gate::AskPerson, Gate::Approved)
            }
            PermissionMode::StepUp => Gate::AskPassphrase,
            PermissionMode::Forbidden => {
                return shut(format!("{:?} is not permitted to {} sessions", question.tool, self.profile().name()));
            }
        };
        (gate, risk)
    }

    /// Whether a call is in scope; its risk.
    fn scope(
        &self,
        question: &ToolQuestion,
        (tool, bounds): (&Capability, &[Bounds]),
        at: &At,
        trace: &mut Trace,
    ) -> Result<Risk, String> {
        if bounds.is_empty() && self.raises.is_empty() {
            trace.step(|| "scope: no rule bounds its arguments".to_string());
            return Ok(tool.risk);
        }
        let arguments = match Arguments::of(tool, &question.arguments) {
            Ok(arguments) => arguments,
            // Without a rule nobody has to read them here.
            Err(_) if bounds.is_empty() => return Ok(Risk::High),
            Err(why) => return Err(why),
        };
        for (compiled, bound) in bounds.iter().zip(&tool.scopes) {
            let checked = compiled.check(tool, (&question.arguments, &arguments), at, &mut trace.lookups);
            checked.map_err(|why| format!("{why} ({})", bound.source))?;
            trace.step(|| format!("scope: {}, from {}", bound.scope.lines(tool).join("; "), bound.source));
        }
        let raised = self.raises.why(tool, &arguments, &mut trace.lookups);
        if let Some(why) = raised {
            trace.step(|| format!("risk: high, since {why}"));
        }
        Ok(if raised.is_some() { Risk::High } else { tool.risk })
    }

    /// The requirements of a call, before a person is asked about it. Nothing is decided by it.
    #[must_use]
    pub fn review(&self, question: &ToolQuestion, at: &At) -> Review {
        self.reviewed(question, at, &mut Trace::default())
    }

    fn reviewed(&self, question: &ToolQuestion, at: &At, trace: &mut Trace) -> Review {
        let category = self.entry(question).map(|entry| entry.tool.category);
        let note = match category.and_then(|category| self.policy.services.of(question, category)) {
            Some(Ending::Loses(note) | Ending::Harmless(note)) => note,
            Some(Ending::Refused(_)) | None => String::new(),
        };
        let (gate, risk) = self.examine(question, PermissionMode::Auto, at, trace);
        let of = |mode| Review { mode, reason: String::new(), note: note.clone(), approved: None, risk };
        match gate {
            Gate::Shut { reason } => Review { reason, note: String::new(), ..of(PermissionMode::Forbidden) },
            Gate::Open => of(PermissionMode::Auto),
            Gate::Approved(number) => Review { approved: Some(number), ..of(PermissionMode::Consent) },
            Gate::AskPerson => of(PermissionMode::Consent),
            Gate::AskPassphrase => of(PermissionMode::StepUp),
        }
    }

    /// What would become of a call, and by which rules.
    #[must_use]
    pub fn explain(&self, question: &ToolQuestion, at: &At) -> Explanation {
        let mut trace = Trace { steps: Some(Vec::new()), lookups: 0 };
        let review = self.reviewed(question, at, &mut trace);
        Explanation { steps: trace.steps.unwrap_or_default(), review, lookups: trace.lookups }
    }

    /// The decision on a call that a person was asked about, or did not need to be. Checks everything again: the
    /// conditions may have changed between the question and its answer. A consent is not a step-up, and does not permit
    /// a forbidden tool. `number` is that of the question, which a consent for further calls keeps.
    pub fn decide(
        &mut self,
        question: &ToolQuestion,
        (mode, at): (PermissionMode, &At),
        answer: &Answer,
        number: u64,
    ) -> (Decision, String) {
        match (self.gate_at_least(question, mode, at), answer) {
            // Who was asked and has not agreed is not overruled by what was decided since, or for other calls.
            (Gate::Open | Gate::Approved(_), Answer::No) => (Decision::Denied, String::from("the person said no")),
            (Gate::Open, _) => (Decision::Auto, String::new()),
            (Gate::AskPerson, Answer::Yes(reach)) => self.consent(question, reach, number),
            // The earlier consent may end before this one does.
            (Gate::Approved(_), Answer::Yes(reach)) if reach.span != Span::Once => {
                self.consent(question, reach, number)
            }
            (Gate::Approved(earlier), _) => {
                self.approvals.used(earlier);
                (Decision::Consented, format!("agreed to earlier, in question #{earlier}"))
            }
            (Gate::AskPerson, Answer::No) => (Decision::Denied, String::from("the person said no")),
            (Gate::AskPerson, Answer::NotAsked) => (Decision::Denied, String::from("nobody was asked")),
            (Gate::AskPassphrase, _) => {
                (Decision::StepUpFailed, String::from("this call needs the passphrase, and consent is not enough"))
            }
            (Gate::Shut { reason }, _) => (Decision::Forbidden, reason),
        }
    }

    /// The person has agreed to a call that needed their consent.
    fn consent(&mut self, question: &ToolQuestion, reach: &ConsentReach, number: u64) -> (Decision, String) {
        let Some(Entry { tool, .. }) = self.tools.get(&Key(question.interface_id, &question.tool)) else {
            return (Decision::Forbidden, format!("{:?} is not granted to this session", question.tool));
        };
        let subject = Subject { question, category: tool.category, pattern: tool.pattern };
        match self.approvals.add(number, reach, &subject) {
            Ok(reaches) => (Decision::Consented, reaches),
            Err(why) => (Decision::Consented, format!("for this call only: {why}")),
        }
    }

    /// Ends the session: no consent remains and no tool is granted.
    pub fn end(&mut self) {
        self.approvals.revoke(None);
        self.tools.clear();
    }
}
