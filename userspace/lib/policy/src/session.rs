//! The policy of one session, and its answer to each call.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_schema::annotations::Pattern;
use capos_schema::authority::{Decision, Profile, ToolPermission, ToolQuestion};
use capos_schema::models::PermissionMode;
use hashbrown::HashMap;

use crate::approval::{Answer, Approvals, Standing, Subject};
use crate::category::{Category, category};
use crate::labels::Egress;
use crate::map::{Modes, Override, Permission, resolve, stricter};
use crate::profile::ProfileRules;
use crate::scope::Scope;
use crate::service_end::{Ending, ServiceEnds};

/// The configuration: differences from the standard.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub overrides: Vec<Override>,
    /// Bounds on arguments, by name of the tool. Several for one tool must all hold.
    pub scopes: Vec<(String, Scope)>,
    pub egress: Egress,
    /// The consequences of ending a service.
    pub services: ServiceEnds,
    /// Rules that take the place of a profile's standard ones.
    pub profiles: Vec<(Profile, ProfileRules)>,
    /// The modes of each profile, from the manifest.
    pub modes: Vec<(Profile, Modes)>,
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
}

/// The permissions of one session. Every answer takes a bounded number of look-ups, however many tools there are.
#[derive(Clone, Debug)]
pub struct SessionPolicy {
    profile: Profile,
    rules: ProfileRules,
    modes: Modes,
    overrides: Vec<Override>,
    scopes: HashMap<String, Vec<Scope>>,
    egress: Egress,
    services: ServiceEnds,
    /// By interface and name of the tool.
    tools: HashMap<(u64, String), Entry>,
    approvals: Approvals,
}

#[derive(Clone, Debug)]
struct Entry {
    method: String,
    category: Category,
    pattern: Option<(&'static str, Pattern)>,
    permission: Permission,
}

impl SessionPolicy {
    #[must_use]
    pub fn new(policy: &Policy, profile: Profile) -> Self {
        let mut scopes: HashMap<String, Vec<Scope>> = HashMap::new();
        for (tool, scope) in &policy.scopes {
            scopes.entry_ref(tool.as_str()).or_default().push(scope.clone());
        }
        Self {
            profile,
            rules: policy.profile(profile),
            modes: policy.modes(profile),
            overrides: policy.overrides.clone(),
            scopes,
            egress: policy.egress.clone(),
            services: policy.services.clone(),
            tools: HashMap::new(),
            approvals: Approvals::default(),
        }
    }

    #[must_use]
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The rules of the session's profile.
    #[must_use]
    pub fn rules(&self) -> &ProfileRules {
        &self.rules
    }

    /// Where labels may go.
    #[must_use]
    pub fn egress(&self) -> &Egress {
        &self.egress
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

    /// The permission for a tool, whether it is granted or not.
    #[must_use]
    pub fn permission(&self, category: Category, method: &str, tool: &str) -> Permission {
        resolve(&self.overrides, &self.modes, self.profile, category, method, tool, self.rules.hide_forbidden)
    }

    /// Fills in mode and suppression of a tool by its category, method and name.
    pub fn fill_in(&self, tool: &mut ToolPermission) {
        let permission = self.permission(category(&tool.category), &tool.method_name, &tool.tool);
        tool.mode = permission.mode;
        tool.suppressed = permission.suppressed;
    }

    /// Adds a tool whose capability the session has got.
    pub fn grant(&mut self, tool: GrantedTool) -> Permission {
        let permission = self.permission(tool.category, &tool.method, &tool.name);
        let GrantedTool { method, category, pattern, .. } = tool;
        let entry = Entry { method, category, pattern, permission };
        self.tools.insert((tool.interface_id, tool.name), entry);
        permission
    }

    /// Removes a tool whose capability the session has lost.
    pub fn revoke(&mut self, interface_id: u64, tool: &str) {
        self.tools.remove(&(interface_id, String::from(tool)));
    }

    /// The requirement of a call: first whether the tool is granted, then whether the call is in scope, then which
    /// approval it takes.
    #[must_use]
    pub fn gate(&self, question: &ToolQuestion) -> Gate {
        self.gate_at_least(question, PermissionMode::Auto)
    }

    /// The same, if the runner asks for more than the map does. It cannot ask for less.
    #[must_use]
    pub fn gate_at_least(&self, question: &ToolQuestion, mode: PermissionMode) -> Gate {
        let shut = |reason: String| Gate::Shut { reason };
        let Some(entry) = self.tools.get(&(question.interface_id, question.tool.clone())) else {
            return shut(format!("{:?} is not granted to this session", question.tool));
        };
        if entry.method != question.method_name {
            return shut(format!("{:?} is another method than the one that was granted", question.method_name));
        }
        if entry.category != category(&question.category) {
            let category = entry.category.name();
            return shut(format!("{:?} is {category} in the schema, not {:?}", question.tool, question.category));
        }
        for scope in self.scopes.get(question.tool.as_str()).into_iter().flatten() {
            if let Err(reason) = scope.check(&question.arguments) {
                return shut(format!("out of scope: {reason}"));
            }
        }
        if entry.category == Category::Outbound
            && let Err(class) = self.egress.check_outbound(&question.labels)
        {
            return shut(format!(
                "the model has read data labelled {class} in this turn, which must not leave the machine"
            ));
        }
        if entry.permission.suppressed {
            return shut(format!("{:?} is not offered in this session", question.tool));
        }
        let own = match self.services.of(question, entry.category) {
            Some(Ending::Refused(reason)) => return shut(reason),
            // To lose stored data takes the same permission as to delete it.
            Some(Ending::Loses(_)) => {
                let destroys = self.permission(Category::Destructive, &entry.method, &question.tool);
                stricter(entry.permission.mode, destroys.mode)
            }
            Some(Ending::Harmless(_)) | None => entry.permission.mode,
        };
        match stricter(own, mode) {
            PermissionMode::Auto => Gate::Open,
            PermissionMode::Consent => {
                let subject = Subject { question, category: entry.category, pattern: entry.pattern };
                self.approvals.cover(&subject).map_or(Gate::AskPerson, Gate::Approved)
            }
            PermissionMode::StepUp => Gate::AskPassphrase,
            PermissionMode::Forbidden => {
                shut(format!("{:?} is not permitted to {} sessions", question.tool, self.profile.name()))
            }
        }
    }

    /// The requirements of a call, before a person is asked about it. Nothing is decided by it.
    #[must_use]
    pub fn review(&self, question: &ToolQuestion) -> Review {
        let category = self.tools.get(&(question.interface_id, question.tool.clone())).map(|entry| entry.category);
        let note = match category.and_then(|category| self.services.of(question, category)) {
            Some(Ending::Loses(note) | Ending::Harmless(note)) => note,
            Some(Ending::Refused(_)) | None => String::new(),
        };
        let of = |mode| Review { mode, reason: String::new(), note: note.clone(), approved: None };
        match self.gate(question) {
            Gate::Shut { reason } => Review { reason, note: String::new(), ..of(PermissionMode::Forbidden) },
            Gate::Open => of(PermissionMode::Auto),
            Gate::Approved(number) => Review { approved: Some(number), ..of(PermissionMode::Consent) },
            Gate::AskPerson => of(PermissionMode::Consent),
            Gate::AskPassphrase => of(PermissionMode::StepUp),
        }
    }

    /// The decision on a call that a person was asked about, or did not need to be. Checks everything again: the
    /// conditions may have changed between the question and its answer. A consent is not a step-up, and does not permit
    /// a forbidden tool. `number` is that of the question, which a consent for further calls keeps.
    pub fn decide(
        &mut self,
        question: &ToolQuestion,
        mode: PermissionMode,
        answer: &Answer,
        number: u64,
    ) -> (Decision, String) {
        match (self.gate_at_least(question, mode), answer) {
            (Gate::Open, _) => (Decision::Auto, String::new()),
            (Gate::Approved(earlier), _) => {
                self.approvals.used(earlier);
                (Decision::Consented, format!("agreed to earlier, in question #{earlier}"))
            }
            (Gate::AskPerson, Answer::Yes(reach)) => {
                let Some(entry) = self.tools.get(&(question.interface_id, question.tool.clone())) else {
                    return (Decision::Forbidden, format!("{:?} is not granted to this session", question.tool));
                };
                let subject = Subject { question, category: entry.category, pattern: entry.pattern };
                match self.approvals.add(number, reach, &subject) {
                    Ok(reaches) => (Decision::Consented, reaches),
                    Err(why) => (Decision::Consented, format!("for this call only: {why}")),
                }
            }
            (Gate::AskPerson, Answer::No) => (Decision::Denied, String::from("the person said no")),
            (Gate::AskPassphrase, _) => {
                (Decision::StepUpFailed, String::from("this call needs the passphrase, and consent is not enough"))
            }
            (Gate::Shut { reason }, _) => (Decision::Forbidden, reason),
        }
    }

    /// Ends the session: no consent remains and no tool is granted.
    pub fn end(&mut self) {
        self.approvals.revoke(None);
        self.tools.clear();
    }
}
