//! A call about which the person is asked.

mod program;

pub use program::OfCall;

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_policy::{Binding, unagreed};
use capos_run_state::{Approval, Event};
use capos_schema::annotations::Category;
use capos_schema::audit::GeneralEvent;
use capos_schema::authority::{ConsentReach, Decision, Reply, Risk, ToolQuestion};
use capos_schema::models::{Outcome, PermissionMode, ToolCall, ToolResult};

use crate::call::{Checked, Context, Gated, NANOSECONDS, Ready, judge, refusal};
use crate::lanes::{Quiet, Touches};
use crate::race::{Either, race};
use crate::result::Why;
use crate::signal::Signal;
use crate::snapshot::{Tool, quote_long};
use crate::world::{Ask, Gate, Review, Ruling, World, field};

/// Characters of a child run's task that a question shows.
const TASK: usize = 160;

/// A call that is checked, and about which the person has to be asked.
pub struct Asks<W: World> {
    pub tool: Tool,
    pub call: ToolCall,
    pub prepared: W::Prepared,
    pub question: ToolQuestion,
}

impl<W: World> Asks<W> {
    /// What it touches.
    pub fn touches(&self) -> Touches {
        touches(&self.tool)
    }
}

/// What a call of this tool touches.
pub fn touches(tool: &Tool) -> Touches {
    Touches { keys: tool.touches.clone(), only_reads: tool.descriptor.category == Category::ReadOnly.name() }
}

/// What becomes of a call by the decision on it.
pub fn decided<W: World>(asks: Asks<W>, gated: Gated<<W as Gate>::Lease>) -> Checked<W> {
    let Asks { tool, call, prepared, question } = asks;
    match gated {
        Gated::Open(ruling) => Checked::Ready(Ready { tool, call, prepared, question, ruling }.into()),
        Gated::Closed(decision, why, outcome) => {
            let reason = why.text().to_string();
            Checked::Refused(refusal(tool.descriptor, call, decision, &reason, outcome, why))
        }
        Gated::Interrupted(decision) => {
            let why = "cancelled by the person at the prompt";
            Checked::Interrupted(refusal(tool.descriptor, call, decision, why, Outcome::Cancelled, why))
        }
    }
}

impl<W: World> Context<W> {
    /// Asks the person about a call, at this place in its answer, once they have seen the results of the calls before it.
    /// An answer to an earlier question may cover it by then.
    pub async fn answer(&self, asks: Asks<W>, (quiet, place): (&Quiet, usize)) -> Checked<W> {
        quiet.before(place).await;
        let gated = if self.cancel.is_set() {
            // The person is not asked any more, so there is no decision.
            Gated::Interrupted(None)
        } else {
            match self.unasked(&asks.tool, &asks.question).await {
                Ok(gated) => gated,
                Err(review) => self.ask(&asks, review, ("", &Signal::default())).await,
            }
        };
        decided(asks, gated)
    }

    /// Decides on a call when the calls before it have ended, and runs it if it may.
    pub async fn run_late(self: Rc<Self>, asks: Asks<W>) -> ToolResult {
        let gated = if self.cancel.is_set() {
            Gated::Interrupted(None)
        } else {
            match self.unasked(&asks.tool, &asks.question).await {
                Ok(gated) => gated,
                Err(_) => {
                    let why = "the person's consent has ended meanwhile; propose the call again, and they are asked";
                    Gated::Closed(None, why.into(), Outcome::RefusedByPolicy)
                }
            }
        };
        match decided(asks, gated) {
            Checked::Ready(ready) => self.run(*ready).await,
            Checked::Refused(refusal) | Checked::Interrupted(refusal) => self.refuse(refusal).await,
            Checked::Asks(asks) | Checked::Waits(asks) => {
                let Asks { tool, call, .. } = *asks;
                let why = "it was not decided";
                self.refuse(refusal(tool.descriptor, call, None, why, Outcome::RefusedByPolicy, why)).await
            }
        }
    }

    /// Asks the person about a call, and the broker with their answer. `claim` stands in the question. If `over` is set, the question
    /// ends without an answer.
    async fn ask(
        &self,
        asks: &Asks<W>,
        mut review: Review,
        (claim, over): (&str, &Signal),
    ) -> Gated<<W as Gate>::Lease> {
        let Asks { tool, call, question, .. } = asks;
        // One question is open at a time. The time of an answer begins when it is.
        let turn = match self.questions.try_lock() {
            Some(turn) => Either::Right(turn),
            None => {
                let turn = race(race(over.wait(), self.cancel.wait()), self.questions.lock()).await;
                // The answer to the question before may cover this call.
                if matches!(turn, Either::Right(_)) {
                    match self.unasked(tool, question).await {
                        Ok(gated) => return gated,
                        Err(now) => review = now,
                    }
                }
                turn
            }
        };
        let Review { mode, note, risk, .. } = review;
        let notes = [claim, &note].into_iter().filter(|note| !note.is_empty());
        let mut note = self.told_of_child(notes.collect::<Vec<_>>().join("\n"));
        let known = &self.failures.known;
        let failed = known.failure(tool, call);
        let before = failed.map(|why| format!("The same call failed before in this turn: {}.", quote_long(&why, TASK)));
        let done = || known.was_done(tool, call).then(|| "The same call succeeded before in this turn.".to_string());
        if let Some(before) = before.or_else(done) {
            note = if note.is_empty() { before } else { format!("{note}\n{before}") };
        }
        let limit = u64::from(self.session.limits.approval_timeout_ms).saturating_mul(NANOSECONDS);
        let asked = self.world.now();
        let approval = Rc::new(self.approval((tool, risk), question, asked.saturating_add(limit)));
        let ask = Ask {
            tool,
            arguments: &call.arguments,
            call_id: &call.id,
            label: &self.label,
            untrusted: self.untrusted,
            note: &note,
            is_unread: self.failures.known.is_unread(call),
            by_hand: false,
            approval: &approval,
        };
        let ended = || match (over.is_set(), self.cancel.is_set()) {
            (true, _) => Err(Reply::Withdrawn),
            (false, true) => Err(Reply::Interrupted),
            (false, false) => Ok(()),
        };
        let reply = match ended() {
            Err(reply) => Err(reply),
            Ok(()) => {
                self.course.emit(asked, Event::ApprovalRequested(approval.clone()));
                let reply = self.reply(&ask, mode, over).await.and_then(|agreed| ended().map(|()| agreed));
                if matches!(reply, Err(Reply::Interrupted)) {
                    // The person wants the turn to end: no question that waits is opened.
                    self.cancel.set();
                }
                self.resolve(&approval, asked, reply.as_ref().map(drop)).await;
                reply
            }
        };
        drop(turn);
        let exactly = ConsentReach::default();
        // Everything is checked again after a yes: the broker decides now, not before.
        let reply = match reply.and_then(|agreed| ended().map(|()| agreed)) {
            Ok(Agreed::Consent(reach)) => {
                let ruling = self.world.decide(question, mode, Reply::Agreed, &reach).await;
                return judge(ruling, Some(Decision::Consented));
            }
            Ok(Agreed::Passphrase(passphrase)) => {
                return judge(self.world.step_up(question, &passphrase).await, Some(Decision::StepUpSucceeded));
            }
            Err(reply) => reply,
        };
        let why = match reply {
            Reply::Late => Why::own(format!("nobody answered within {} s", limit / 1_000_000_000)),
            reply => unagreed(reply, mode).into(),
        };
        let outcome = match reply {
            Reply::Withdrawn => Outcome::Cancelled,
            _ if mode == PermissionMode::Consent => Outcome::DeniedByUser,
            _ => Outcome::StepUpFailed,
        };
        declined(self.world.decide(question, mode, reply, &exactly).await, reply == Reply::Interrupted, why, outcome)
    }

    /// What a question says of its call; of a child run's, also whose it is.
    fn told_of_child(&self, note: String) -> String {
        let Some(task) = &self.task else { return note };
        let whose = format!("A child run asks. Its task: {}.", quote_long(task, TASK));
        if note.is_empty() { whose } else { format!("{whose} {note}") }
    }

    /// The question about a call, as everybody is told of it.
    pub(crate) fn approval(&self, (tool, risk): (&Tool, Risk), question: &ToolQuestion, expires: u64) -> Approval {
        let ToolQuestion { category, arguments, call_id, .. } = question;
        let name = &tool.descriptor.name;
        Approval {
            id: Binding::new(&self.session.id, question, expires).id(),
            title: title(category).to_string(),
            summary: format!("{name} {arguments}"),
            risk,
            tool: name.clone(),
            category: category.clone(),
            arguments: arguments.clone(),
            call_id: call_id.clone(),
            expires,
        }
    }

    /// The person's reply until the question expires. No line about another call is shown until then. What is answered
    /// later has no effect.
    async fn reply(&self, ask: &Ask<'_>, mode: PermissionMode, over: &Signal) -> Result<Agreed, Reply> {
        let patience = self.world.sleep_until(ask.approval.expires);
        self.curtain.close();
        let answer = async {
            if mode == PermissionMode::Consent {
                self.world.consent(ask).await.map(Agreed::Consent)
            } else {
                self.world.passphrase(ask).await.given().map(Agreed::Passphrase)
            }
        };
        let reply = match race(over.wait(), race(answer, patience)).await {
            Either::Right(Either::Left(reply)) => reply,
            Either::Right(Either::Right(())) => Err(Reply::Late),
            Either::Left(()) => Err(Reply::Withdrawn),
        };
        self.open_curtain().await;
        if reply.is_ok() && self.world.now() >= ask.approval.expires { Err(Reply::Late) } else { reply }
    }

    /// Tells how a question ended; that nobody answered in time is recorded, too.
    async fn resolve(&self, approval: &Approval, asked: u64, reply: Result<(), &Reply>) {
        let (approval_id, now) = (approval.id.clone(), self.world.now());
        if reply != Err(&Reply::Late) {
            let decision = if reply.is_ok() { "approved" } else { "denied" }.to_string();
            let latency = now.saturating_sub(asked);
            self.course.emit(now, Event::ApprovalResolved { approval_id, decision, latency });
            return;
        }
        self.course.emit(now, Event::ApprovalTimeout { approval_id });
        self.note(GeneralEvent {
            kind: "approval.timeout".to_string(),
            session: self.session.id.clone(),
            principal: self.session.principal.clone(),
            fields: Vec::from([
                field("approvalId", approval.id.as_str()),
                field("conversation", self.conversation.as_str()),
                field("turn", self.turn.to_string()),
                field("callId", approval.call_id.as_str()),
                field("tool", approval.tool.as_str()),
                field("waitedMs", (now.saturating_sub(asked) / NANOSECONDS).to_string()),
            ]),
        })
        .await;
    }
}

/// What kind of act calls of a category are, for a person.
fn title(category: &str) -> &'static str {
    match category {
        "readOnly" => "Read",
        "mutating" => "Change something",
        "destructive" => "Destroy something",
        "outbound" => "Send something out of the machine",
        _ => "Change who may do what",
    }
}

/// What a person gave who agreed.
enum Agreed {
    Consent(ConsentReach),
    Passphrase(String),
}

/// The person has not agreed: the broker's own decision on that stands in the record, and none where it made none.
fn declined<L>(ruling: Result<Ruling<L>, String>, interrupted: bool, why: Why, outcome: Outcome) -> Gated<L> {
    match ruling {
        Ok(ruling) if interrupted => Gated::Interrupted(Some(ruling.decision)),
        Ok(ruling) => Gated::Closed(Some(ruling.decision), why, outcome),
        Err(_) if interrupted => Gated::Interrupted(None),
        Err(broken) => {
            let why = format!("{}, and the authority broker gave no decision: {broken}", why.text());
            Gated::Closed(None, why.into(), Outcome::RefusedByPolicy)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d21_the_title_of_a_question_says_what_kind_of_act_it_is() {
        let titles = [
            (Category::ReadOnly, "Read"),
            (Category::Mutating, "Change something"),
            (Category::Destructive, "Destroy something"),
            (Category::Outbound, "Send something out of the machine"),
            (Category::Admin, "Change who may do what"),
        ];
        assert_eq!(titles.map(|(category, _)| title(category.name())), titles.map(|(_, text)| text));
    }
}
