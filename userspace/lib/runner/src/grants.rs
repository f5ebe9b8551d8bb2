//! The session's grants: those that the broker issued, without those that the person has put away.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_rt::Clock;
use capos_schema::audit::AuditWriterClient;
use capos_schema::authority::{
    ApprovalClientClient, ChildRunsClient, NamedGrant, Profile, RemindersClient, SessionInfo,
};
use capos_schema::cap::Client;
use capos_schema::kernel::ObjectClient;
use capos_schema::reflection;

/// The interface by which a model hands out tasks.
pub const DELEGATION: u64 = ChildRunsClient::INTERFACE_ID;

/// The interface by which a model sets reminders.
pub const REMINDING: u64 = RemindersClient::INTERFACE_ID;

/// What a session that may use a model holds for tools that no object serves: to hand out tasks, and for operators to set reminders,
/// if its surface keeps any. The runner begins child runs itself, and the surface keeps reminders. So the entries have the capability
/// of the session's questions, which rejects calls of these interfaces. No program is granted them.
pub fn of_runner(grants: &[NamedGrant], info: &SessionInfo, never_offered: &[u64]) -> Vec<NamedGrant> {
    let approvals = grants.iter().find(|grant| grant.interface == ApprovalClientClient::INTERFACE_ID);
    let Some(approvals) = approvals.filter(|_| info.model_allowed) else { return Vec::new() };
    let entry = |name: &str, interface| NamedGrant { name: name.to_string(), interface, ..approvals.clone() };
    let keeps_reminders = info.profile == Profile::Operator && !never_offered.contains(&REMINDING);
    let reminders = keeps_reminders.then(|| entry("reminders", REMINDING));
    [entry("child_runs", DELEGATION)].into_iter().chain(reminders).collect()
}

/// The grants of one session.
pub struct Grants {
    profile: Profile,
    clock: Clock,
    /// When the session's policy expires, in nanoseconds since boot. The broker revokes most grants then.
    expires: Rc<Cell<u64>>,
    held: RefCell<Vec<NamedGrant>>,
    /// Interfaces that the session has held, and the person has not dropped: a renewal of the policy brings them back.
    known: RefCell<BTreeSet<u64>>,
    /// Names of those that the person has put away.
    pub dropped: RefCell<BTreeSet<String>>,
    /// Interfaces of which no tool is offered, whatever the person says.
    never_offered: &'static [u64],
    /// The names of grants whose tools on request are offered from the start.
    offered_at_start: Vec<String>,
    /// Interfaces whose tools that are offered on request were requested.
    requested: RefCell<BTreeSet<u64>>,
    /// Tools that are offered on request alone, and are offered now since skills in use name them.
    lent: RefCell<BTreeSet<String>>,
    writer: RefCell<Option<AuditWriterClient>>,
}

impl Grants {
    /// None yet, for this session, whose policy `expires`; tools of the interfaces `never_offered` are not offered.
    pub fn new(info: &SessionInfo, never_offered: &'static [u64], (clock, expires): (Clock, Rc<Cell<u64>>)) -> Self {
        let (held, known, dropped, requested, lent, writer) = Default::default();
        let (profile, offered_at_start) = (info.profile, info.offer.clone());
        Self { profile, clock, expires, held, known, dropped, never_offered, offered_at_start, requested, lent, writer }
    }

    /// Takes the session's capabilities as the broker has issued them now.
    pub fn replace(&self, mut grants: Vec<NamedGrant>) {
        *self.writer.borrow_mut() = grants
            .iter()
            .find(|grant| grant.interface == AuditWriterClient::INTERFACE_ID)
            .map(|grant| grant.capability.clone().cast());
        let at_start = grants.iter().filter(|grant| self.offered_at_start.contains(&grant.name));
        self.requested.borrow_mut().extend(at_start.map(|grant| grant.interface));
        let dropped = self.dropped.borrow();
        let mut known = self.known.borrow_mut();
        for grant in &grants {
            match dropped.contains(&grant.name) {
                true => known.remove(&grant.interface),
                false => known.insert(grant.interface),
            };
        }
        grants.retain(|grant| !dropped.contains(&grant.name));
        *self.held.borrow_mut() = grants;
    }

    /// The session's grant with this number, which has this interface. A run in parallel with the session's own has numbers from
    /// before the grants changed: of one interface there is one grant at most.
    ///
    /// # Errors
    /// The session has none now.
    pub fn capability(&self, number: u64, interface: u64) -> Result<ObjectClient, String> {
        let grants = self.held.borrow();
        let grant = usize::try_from(number).ok().and_then(|at| grants.get(at));
        let grant = grant.filter(|grant| grant.interface == interface);
        grant
            .or_else(|| grants.iter().find(|grant| grant.interface == interface))
            .map(|grant| grant.capability.clone())
            .ok_or_else(|| "the session no longer holds this capability".to_string())
    }

    /// The session's grants.
    pub fn all(&self) -> Vec<NamedGrant> {
        self.held.borrow().clone()
    }

    /// Whether the model is offered a tool of an interface.
    pub fn offers(&self, interface: u64, tool: &str) -> bool {
        let is_offered = !self.is_withheld(interface, tool) || self.is_lent(interface, tool);
        is_offered && !self.never_offered.contains(&interface)
    }

    /// Whether a tool is not offered before the person offers it.
    fn is_withheld(&self, interface: u64, tool: &str) -> bool {
        let found = reflection::interface(interface).and_then(|found| found.tool(tool));
        let is_on_request = found.is_some_and(|(method, _)| method.on_request);
        is_on_request && !self.requested.borrow().contains(&interface) || self.never_offered.contains(&interface)
    }

    /// How many tools of a grant are offered on request alone, and were not requested.
    pub fn withheld_of(&self, grant: &NamedGrant) -> usize {
        let Some(interface) = reflection::interface(grant.interface) else { return 0 };
        let tools = interface.offered(grant.read_only);
        tools.filter(|(_, descriptor)| self.is_withheld(grant.interface, &descriptor.name)).count()
    }

    /// Offers all tools of a grant to the model from now on; false if they were offered already.
    pub fn offer(&self, name: &str) -> bool {
        let grants = self.held.borrow();
        let Some(grant) = grants.iter().find(|grant| grant.name == name) else { return false };
        if self.never_offered.contains(&grant.interface) || self.withheld_of(grant) == 0 {
            return false;
        }
        self.requested.borrow_mut().insert(grant.interface)
    }

    /// Offers the model these withheld tools from now on, and no others of them.
    pub fn lend(&self, tools: impl Iterator<Item = String>) {
        *self.lent.borrow_mut() = tools.collect();
    }

    /// Whether a tool of an interface is lent by a skill.
    pub fn is_lent(&self, interface: u64, tool: &str) -> bool {
        self.is_withheld(interface, tool) && self.lent.borrow().contains(tool)
    }

    /// The names of the grants of which tools are withheld.
    pub fn withheld(&self) -> Vec<String> {
        let grants = self.held.borrow();
        grants.iter().filter(|grant| self.withheld_of(grant) > 0).map(|grant| grant.name.clone()).collect()
    }

    /// The grant of an interface, which is there to do `what`.
    ///
    /// # Errors
    /// The session has none; says so.
    pub fn find<C: Client>(&self, what: &str) -> Result<C, String> {
        let grants = self.held.borrow();
        let found = grants.iter().find(|grant| grant.interface == C::INTERFACE_ID);
        found.map(|grant| grant.capability.clone().cast()).ok_or_else(|| {
            let put_away: Vec<String> = self.dropped.borrow().iter().cloned().collect();
            let was_held = self.known.borrow().contains(&C::INTERFACE_ID);
            may_not(self.profile, what, was_held && self.clock.now() >= self.expires.get(), &put_away)
        })
    }

    /// The audit writer.
    ///
    /// # Errors
    /// The session has none now.
    pub fn writer(&self) -> Result<AuditWriterClient, String> {
        self.writer.borrow().clone().ok_or_else(|| "it is not there".to_string())
    }

    /// Whether a capability is the audit writer, by its name.
    pub fn is_writer(&self, name: &str) -> bool {
        let grants = self.held.borrow();
        grants.iter().any(|grant| grant.name == name && grant.interface == AuditWriterClient::INTERFACE_ID)
    }
}

/// That a session lacks what it takes to do something, and where that may be.
fn may_not(profile: Profile, what: &str, has_expired: bool, put_away: &[String]) -> String {
    let session = profile.name();
    if has_expired {
        return format!("this {session} session cannot {what}: its policy has expired; /resume renews it");
    }
    let why = format!("this {session} session cannot {what}: it holds no capability for that");
    match may_take_back(put_away) {
        Some(how) => format!("{why}; {how}"),
        None => why,
    }
}

/// What a person has put away and may take back, where something is lacking; none where they have put away nothing.
pub fn may_take_back(put_away: &[String]) -> Option<String> {
    (!put_away.is_empty()).then(|| format!("dropped: {}; /cap take NAME restores one", put_away.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_session_lacks_is_told_in_plain_words() {
        let plain = "this guest session cannot read the audit log: it holds no capability for that";
        assert_eq!(may_not(Profile::Guest, "read the audit log", false, &[]), plain);
        let put_away = may_not(Profile::Guest, "read the audit log", false, &["audit".into()]);
        assert_eq!(put_away, format!("{plain}; dropped: audit; /cap take NAME restores one"));
        let expired = may_not(Profile::Guest, "read the audit log", true, &["audit".into()]);
        assert_eq!(expired, "this guest session cannot read the audit log: its policy has expired; /resume renews it");
    }
}
