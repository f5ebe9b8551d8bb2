//! What a session's person was asked, and answered.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_plural::count;
use capos_policy::SessionPolicy;
use capos_schema::authority::{Approval, ApprovalClientServer, Decision, Risk, ToolQuestion};
use capos_schema::cap::{CallContext, CallError};

/// How many are remembered.
const MOST: usize = 128;
/// Bytes of texts that are remembered, of all of them: the list fits into the results of a call.
const TEXTS: usize = 48 << 10;
/// Bytes that the list says of a consent besides.
const BESIDES: usize = 40;
/// Characters that are remembered of a question's arguments, and of its tool's and its category's name.
const ARGUMENTS: usize = 1024;
const NAME: usize = 64;
/// The same of the reason, and of the arguments if the consent covers further calls: those are all remembered.
const REASON: usize = 200;
const STANDING: usize = 160;

/// A question, and what became of it.
struct Question {
    number: u64,
    /// Whether its consent was to cover further calls.
    stood: bool,
    approval: Approval,
}

/// The questions of one session, newest last.
#[derive(Default)]
pub struct Asked {
    list: RefCell<VecDeque<Question>>,
    count: Cell<u64>,
}

/// The number of a question as a person reads and types it.
#[must_use]
pub fn number_text(number: u64) -> String {
    format!("#{number}")
}

/// Records the decision on the question with this number. A consent for further calls that came of it covers none before it is
/// recorded, and ends if it cannot be.
///
/// # Errors
/// As those of `record`.
pub async fn recorded<E>(
    policy: &RefCell<SessionPolicy>,
    number: u64,
    record: impl Future<Output = Result<(), E>>,
) -> Result<(), E> {
    policy.borrow_mut().approvals().withhold(number);
    let done = record.await;
    let mut policy = policy.borrow_mut();
    match &done {
        Ok(()) => policy.approvals().recorded(number),
        Err(_) => drop(policy.approvals().revoke(Some(number))),
    }
    done
}

impl Asked {
    /// A new number for a question. Several questions may be decided on at a time, and each keeps its number until its record is
    /// there. For a call without a question it is 0, which no question has.
    pub fn number(&self, is_asked: bool) -> u64 {
        if !is_asked {
            return 0;
        }
        self.count.set(self.count.get().saturating_add(1));
        self.count.get()
    }

    /// Remembers the question with this number, how it was decided, and the reason that is recorded. `policy` knows whether its
    /// consent covers further calls.
    pub fn add(
        &self,
        number: u64,
        question: &ToolQuestion,
        risk: Risk,
        (decision, reason): (Decision, &str),
        policy: &SessionPolicy,
    ) {
        let stands = policy.standing(number).is_some();
        let state = match decision {
            Decision::Consented if reason.is_empty() => "allowed once".to_string(),
            Decision::Consented => format!("allowed {}", short(reason, REASON)),
            Decision::StepUpSucceeded => "allowed once, with passphrase".to_string(),
            Decision::StepUpFailed | Decision::Denied => format!("not allowed: {}", short(reason, REASON)),
            // The person was not asked.
            Decision::Auto | Decision::Forbidden => return,
        };
        let tool = short(&question.tool, NAME);
        let approval = Approval {
            id: number_text(number),
            title: format!("turn {}: {tool}", question.turn),
            tool,
            arguments: short(&question.arguments, if stands { STANDING } else { ARGUMENTS }),
            risk: risk.name().to_string(),
            state,
            stands: false,
        };
        let mut list = self.list.borrow_mut();
        list.push_back(Question { number, stood: stands, approval });
        let mut texts: usize = list.iter().map(|one| room(&one.approval)).sum();
        while list.len() > MOST || texts > TEXTS {
            let oldest = list.iter().position(|one| policy.standing(one.number).is_none());
            let Some(removed) = oldest.and_then(|oldest| list.remove(oldest)) else { break };
            texts = texts.saturating_sub(room(&removed.approval));
        }
    }

    /// The list, with what the consents have covered so far.
    fn told(&self, policy: &SessionPolicy) -> Vec<Approval> {
        let told = |one: &Question| {
            let mut approval = one.approval.clone();
            if let Some(standing) = policy.standing(one.number) {
                approval.stands = true;
                approval.state = format!("{}; used for {}", approval.state, count(standing.uses, "further call"));
            } else if one.stood {
                approval.state.push_str("; that has ended");
            }
            approval
        };
        self.list.borrow().iter().map(told).collect()
    }
}

fn short(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

/// Bytes that it may take in the list.
fn room(approval: &Approval) -> usize {
    bytes(approval).saturating_add(BESIDES)
}

fn bytes(approval: &Approval) -> usize {
    let Approval { id, title, tool, arguments, risk, state, .. } = approval;
    [id, title, tool, arguments, risk, state].into_iter().map(String::len).sum()
}

/// The list as a session sees it.
pub struct ApprovalObject {
    pub asked: Rc<Asked>,
    pub policy: Rc<RefCell<SessionPolicy>>,
}

impl ApprovalClientServer for ApprovalObject {
    async fn list(&self, _cx: &CallContext) -> Result<Vec<Approval>, CallError> {
        Ok(self.asked.told(&self.policy.borrow()))
    }

    async fn revoke(&self, _cx: &CallContext, id: String) -> Result<u32, CallError> {
        let number = match id.as_str() {
            "" => None,
            id => match id.strip_prefix('#').unwrap_or(id).parse() {
                Ok(number) => Some(number),
                Err(_) => return Err(CallError::invalid_argument("an approval is named by its number, as #3")),
            },
        };
        let revoked = self.policy.borrow_mut().approvals().revoke(number);
        Ok(u32::try_from(revoked).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_policy::{Answer, At, Gate, GrantedTool, Modes, Policy, unagreed};
    use capos_schema::authority::ApprovalClientClient;
    use capos_schema::authority::{ConsentReach, Profile, Reply, Span};
    use capos_schema::local::{Local, run};
    use capos_schema::models::PermissionMode;

    fn policy() -> SessionPolicy {
        SessionPolicy::new(&Policy::default(), Profile::Operator)
    }

    /// A policy that asks before the tool `write` runs.
    fn asking() -> SessionPolicy {
        let modes = Modes::new(|_| Some(PermissionMode::Consent)).unwrap();
        let policy = Policy { modes: Vec::from([(Profile::Operator, modes)]), ..Policy::default() };
        let mut policy = SessionPolicy::new(&policy, Profile::Operator);
        policy.grant(GrantedTool {
            interface_id: 7,
            method: "method".to_string(),
            name: "write".to_string(),
            category: capos_policy::Category::Mutating,
            pattern: None,
            paths: &[],
            trees: &[],
        });
        policy
    }

    fn question(text: &str) -> ToolQuestion {
        ToolQuestion {
            interface_id: 7,
            method_name: "method".to_string(),
            tool: "write".to_string(),
            category: "mutating".to_string(),
            arguments: text.to_string(),
            ..ToolQuestion::default()
        }
    }

    /// A consent for further calls covers none before its record is there, and ends if there is none: what a later call names as
    /// agreed to is in the log.
    #[test]
    fn a_consent_without_a_record_covers_nothing() {
        let policy = RefCell::new(asking());
        let reach = ConsentReach { span: Span::Session, pattern: String::new() };
        let agree = |number| {
            let answer = Answer::Yes(reach.clone());
            policy.borrow_mut().decide(&question("{}"), (PermissionMode::Consent, &At::default()), &answer, number).0
        };
        let gate = || policy.borrow().gate(&question("{}"), &At::default());
        let settle = |number, outcome| {
            run(recorded(&policy, number, async {
                assert_eq!(gate(), Gate::AskPerson, "not yet");
                outcome
            }))
            .unwrap()
        };
        assert_eq!(agree(1), Decision::Consented);
        assert_eq!(settle(1, Err("the log is full")), Err("the log is full"));
        assert_eq!((gate(), policy.borrow().standing(1).is_none()), (Gate::AskPerson, true));
        assert_eq!(agree(2), Decision::Consented);
        assert_eq!(settle(2, Ok(())), Ok(()));
        assert_eq!(gate(), Gate::Approved(2));
        // A question that comes to nothing takes no other consent away.
        assert_eq!((settle_later(&policy, 3), gate()), (Err(()), Gate::Approved(2)));
    }

    /// Two runs of a session are decided on at once. Each consent waits for its own record, and is listed and revoked by its own
    /// number.
    #[test]
    fn questions_that_are_decided_at_once_have_numbers_of_their_own() {
        let (policy, asked) = (Rc::new(RefCell::new(asking())), Rc::new(Asked::default()));
        let reach = |span| ConsentReach { span, pattern: String::new() };
        let decide = |text: &str, reply, span| {
            let number = asked.number(reply != Reply::NotAsked);
            let (answer, at) = (Answer::of(reply, reach(span)), At::default());
            let (decision, reason) =
                policy.borrow_mut().decide(&question(text), (PermissionMode::Consent, &at), &answer, number);
            policy.borrow_mut().approvals().withhold(number);
            (number, question(text), decision, reason)
        };
        let record = |(number, question, decision, reason): &(u64, ToolQuestion, Decision, String), outcome| {
            let done = run(recorded(&policy, *number, async { outcome })).unwrap();
            if done.is_ok() && *number > 0 {
                asked.add(*number, question, Risk::Medium, (*decision, reason), &policy.borrow());
            }
        };
        let gate = |text: &str| policy.borrow().gate(&question(text), &At::default());
        let (once, automatic) = (decide("1", Reply::Agreed, Span::Once), decide("0", Reply::NotAsked, Span::Once));
        let session = decide("2", Reply::Agreed, Span::Session);
        record(&automatic, Ok(()));
        record(&once, Ok(()));
        assert_eq!(gate("2"), Gate::AskPerson, "its own record is not there yet");
        record(&session, Ok(()));
        record(&decide("0", Reply::NotAsked, Span::Once), Err("the log is full"));
        assert_eq!(gate("2"), Gate::Approved(2));
        let object = ApprovalObject { asked: asked.clone(), policy: policy.clone() };
        let client = ApprovalClientClient::serve(&Local::default(), Rc::new(object)).unwrap();
        let list = run(client.list()).unwrap().unwrap();
        let told: Vec<_> = list.iter().map(|one| (one.id.as_str(), one.arguments.as_str(), one.stands)).collect();
        assert_eq!(told, [("#1", "1", false), ("#2", "2", true)]);
        assert_eq!(run(client.revoke("#2")).unwrap().ok(), Some(1));
        assert_eq!(gate("2"), Gate::AskPerson);
    }

    fn settle_later(policy: &RefCell<SessionPolicy>, number: u64) -> Result<(), ()> {
        run(recorded(policy, number, async { Err(()) })).unwrap()
    }

    /// However long what is asked is, what is remembered of it fits into the results of a call.
    #[test]
    fn the_newest_are_remembered_and_fit_into_an_answer() {
        let asked = Rc::new(Asked::default());
        let long = "\u{1f512}".repeat(64 << 10);
        for turn in 0..300 {
            let tool = if turn < 200 { long.clone() } else { "write_file".into() };
            let arguments = if turn < 200 { long.clone() } else { "{}".into() };
            let question = ToolQuestion { turn, tool, arguments, category: long.clone(), ..ToolQuestion::default() };
            asked.add(asked.number(true), &question, Risk::Low, (Decision::Consented, ""), &policy());
        }
        let object = ApprovalObject { asked, policy: Rc::new(RefCell::new(policy())) };
        let client = ApprovalClientClient::serve(&Local::default(), Rc::new(object)).unwrap();
        let list = run(client.list()).unwrap().unwrap();
        assert!(list.iter().map(bytes).sum::<usize>() <= TEXTS);
        assert_eq!(list.last().map(|last| last.id.as_str()), Some("#300"));
        assert!((100..=MOST).contains(&list.len()), "{}", list.len());
        let message = capos_schema::wire::encode_value(&list[0]).unwrap();
        let overhead = message.words.len() * 8 - bytes(&list[0]);
        assert!(TEXTS + MOST * (overhead + 8) <= capos_schema::cap::RESULTS as usize, "{overhead} bytes besides texts");
    }

    /// A question that expired is not listed as one that the person refused.
    #[test]
    fn what_came_of_a_question_is_told_from_its_reason() {
        let asked = Asked::default();
        for (decision, reply) in [
            (Decision::Denied, Reply::Declined),
            (Decision::Denied, Reply::Late),
            (Decision::Denied, Reply::Lost),
            (Decision::StepUpFailed, Reply::Declined),
        ] {
            let mode = if decision == Decision::Denied { PermissionMode::Consent } else { PermissionMode::StepUp };
            asked.add(
                asked.number(true),
                &ToolQuestion::default(),
                Risk::Low,
                (decision, unagreed(reply, mode)),
                &policy(),
            );
        }
        asked.add(
            asked.number(true),
            &ToolQuestion::default(),
            Risk::High,
            (Decision::StepUpFailed, "the passphrase is wrong"),
            &policy(),
        );
        asked.add(asked.number(true), &ToolQuestion::default(), Risk::High, (Decision::Consented, ""), &policy());
        let list = asked.list.borrow();
        let states: Vec<&str> = list.iter().map(|found| found.approval.state.as_str()).collect();
        let expected = [
            "not allowed: the person said no",
            "not allowed: nobody answered in time",
            "not allowed: the terminal was lost before anybody answered",
            "not allowed: no passphrase was entered",
            "not allowed: the passphrase is wrong",
            "allowed once",
        ];
        assert_eq!(states, expected);
    }

    /// Requirement D10: a consent that covers further calls is listed with them, however many questions come after it, until it is revoked.
    #[test]
    fn a_standing_consent_is_listed_until_it_is_revoked() {
        let mut policy = asking();
        let asked = Rc::new(Asked::default());
        let reach = ConsentReach { span: Span::Session, pattern: String::new() };
        let mut ask = |text: &str, reach: ConsentReach| {
            let (question, number) = (question(text), asked.number(true));
            let (mode, answer) = (PermissionMode::Consent, Answer::Yes(reach));
            let (decision, reason) = policy.decide(&question, (mode, &At::default()), &answer, number);
            asked.add(number, &question, Risk::Medium, (decision, &reason), &policy);
        };
        ask("{}", reach);
        for number in 0..200 {
            ask(&format!("{{\"n\":{number}}}"), ConsentReach::default());
        }
        policy.decide(&question("{}"), (PermissionMode::Consent, &At::default()), &Answer::NotAsked, 999);
        let object = ApprovalObject { asked: asked.clone(), policy: Rc::new(RefCell::new(policy)) };
        let client = ApprovalClientClient::serve(&Local::default(), Rc::new(object)).unwrap();
        let first = || run(client.list()).unwrap().unwrap().remove(0);
        let listed = first();
        assert_eq!((listed.id.as_str(), listed.stands), ("#1", true));
        assert_eq!(listed.state, "allowed for the same call in this session; used for 1 further call");
        for (id, revoked) in [("#2", Some(0)), ("one", None), ("1", Some(1)), ("#1", Some(0)), ("", Some(0))] {
            assert_eq!(run(client.revoke(id)).unwrap().ok(), revoked, "{id}");
        }
        assert!(!first().stands && first().state.ends_with("in this session; that has ended"));
    }
}
