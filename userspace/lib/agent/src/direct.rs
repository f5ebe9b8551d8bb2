//! A call that the person makes themselves, at the same gate and with the same records as one that a model proposes.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_policy::{BY_HAND, unagreed};
use capos_schema::audit::{Phase, ToolEvent};
use capos_schema::authority::{ConsentReach, Decision, Label, Reply, ToolQuestion};
use capos_schema::models::{ModelInfo, Outcome, PermissionMode, ToolCall};

use crate::agent::Agent;
use crate::asking::OfCall;
use crate::budget::{Failures, Reserved};
use crate::call::{Context, Gated, close, judge, refusal};
use crate::conversation::hex;
use crate::curtain::Curtain;
use crate::evidence::{Allowance, Unexamined};
use crate::record::Traces;
use crate::result::{answered, call_of};
use crate::signal::Signal;
use crate::snapshot::Tool;
use crate::turn_end::leave;
use crate::world::{Ask, Asker, Gate, Review, World};

/// A call of the person's that may run, and whose record says that it has begun. What became of it is to be said.
#[must_use]
pub struct DirectCall<W: World> {
    context: Rc<Context<W>>,
    event: ToolEvent,
    asker: Rc<OfCall<W>>,
}

impl<W: World> Agent<W> {
    /// What a call that the person makes needs, as the broker says now.
    ///
    /// # Errors
    /// The broker does not answer.
    pub(crate) async fn mode_of(&self, tool: &Tool, arguments: &str) -> Result<PermissionMode, String> {
        let context = self.by_hand();
        let name = tool.descriptor.name.clone();
        let call = ToolCall { name, arguments: arguments.to_string(), ..ToolCall::default() };
        match context.reviewed(tool, &context.question(tool, &call)).await {
            Ok(review) => Ok(review.mode),
            Err(Gated::Closed(_, why, _)) => Err(why.text().to_string()),
            Err(_) => Err("the authority broker gave no decision".to_string()),
        }
    }

    /// What calls of the person's share.
    fn by_hand(&self) -> Rc<Context<W>> {
        let conversation = self.conversation();
        Rc::new(Context {
            world: self.world().clone(),
            session: self.session().clone(),
            conversation: conversation.id.clone(),
            turn: conversation.last_turn(),
            // No model has a part in it, and nothing that one has seen.
            model: ModelInfo::default(),
            nonce: Vec::new(),
            advertised: Vec::new(),
            label: Label::default(),
            untrusted: 0,
            cancel: Signal::default(),
            backlog: self.backlog().clone(),
            allowance: Rc::new(Allowance::of_person()),
            unexamined: Unexamined::default(),
            curtain: Curtain::default(),
            questions: self.questions.clone(),
            reserved: Reserved::default(),
            failures: Failures::default(),
            traces: Traces::default(),
            course: self.course().clone(),
            task: None,
            given: None,
        })
    }

    /// Asks whether a call that the person makes may run, and records that it begins. A person who types a call consents to it by
    /// that; a step-up still takes their passphrase. `None` where it may not run: the person has been told why, and it is
    /// recorded.
    pub async fn begin_direct(&self, tool: &Tool, arguments: String) -> Option<DirectCall<W>> {
        let context = self.by_hand();
        // A model cannot have used the id, nor guess it.
        let id = format!("{BY_HAND}{}", hex(&self.world().random()));
        let name = tool.descriptor.name.clone();
        let call = ToolCall { id, name, handle: tool.descriptor.handle.clone(), arguments };
        let question = context.question(tool, &call);
        let (decision, why, outcome) = match context.permit(tool, &question).await {
            Gated::Open(mut ruling) => {
                let redeemed = match ruling.lease.take() {
                    Some(lease) => context.world.redeem(lease, &question).await,
                    None => Ok(()),
                };
                match redeemed {
                    Ok(()) => return context.begun(tool, &call, ruling.decision, &ruling.reason).await,
                    Err(why) => (Some(ruling.decision), why.into(), Outcome::StepUpFailed),
                }
            }
            Gated::Closed(decision, why, outcome) => (decision, why, outcome),
            Gated::Interrupted(decision) => {
                (decision, "cancelled by the person at the prompt".into(), Outcome::Cancelled)
            }
        };
        let reason = why.text().to_string();
        let refused = refusal(tool.descriptor.clone(), call, decision, &reason, outcome, why);
        context.refuse(refused).await;
        None
    }
}

impl<W: World> Context<W> {
    /// The broker's word on a call that the person makes.
    async fn permit(&self, tool: &Tool, question: &ToolQuestion) -> Gated<<W as Gate>::Lease> {
        let Review { mode, note, risk, .. } = match self.reviewed(tool, question).await {
            Ok(reviewed) => reviewed,
            Err(closed) => return closed,
        };
        let exactly = ConsentReach::default();
        let (reply, wanted) = match mode {
            PermissionMode::Auto => (Reply::NotAsked, Some(Decision::Auto)),
            PermissionMode::Forbidden => (Reply::NotAsked, None),
            // A person who types a call has agreed to it.
            PermissionMode::Consent => (Reply::Agreed, Some(Decision::Consented)),
            PermissionMode::StepUp => {
                let (arguments, call_id) = (&question.arguments, &question.call_id);
                let (label, approval) = (&question.labels, &self.approval((tool, risk), question, u64::MAX));
                let (note, is_unread) = (note.as_str(), false);
                let ask =
                    Ask { tool, arguments, call_id, label, untrusted: 0, note, is_unread, by_hand: true, approval };
                return match self.world.passphrase(&ask).await.given() {
                    Ok(passphrase) => {
                        judge(self.world.step_up(question, &passphrase).await, Some(Decision::StepUpSucceeded))
                    }
                    Err(reply) => {
                        let decision = self.world.decide(question, mode, reply, &exactly).await.ok();
                        let why = unagreed(reply, mode).into();
                        Gated::Closed(decision.map(|ruling| ruling.decision), why, Outcome::StepUpFailed)
                    }
                };
            }
        };
        judge(self.world.decide(question, mode, reply, &exactly).await, wanted)
    }

    /// Records that the call begins.
    async fn begun(
        self: Rc<Self>,
        tool: &Tool,
        call: &ToolCall,
        decision: Decision,
        reason: &str,
    ) -> Option<DirectCall<W>> {
        let mut event = self.before(tool, call, (decision, reason));
        match self.begin(&event).await {
            Ok(sequence) => {
                event.phase = Phase::After;
                event.before = sequence;
                Some(DirectCall { asker: self.asker(call), context: self, event })
            }
            Err(result) => {
                self.show_end(call, &result).await;
                None
            }
        }
    }
}

impl<W: World> DirectCall<W> {
    /// The call, with the id by which the person was asked about it.
    #[must_use]
    pub fn call(&self) -> ToolCall {
        call_of(&self.event)
    }

    /// Asks the person for a program that the call runs.
    #[must_use]
    pub fn asker(&self) -> Rc<dyn Asker> {
        self.asker.clone()
    }

    /// Ends when the person has pressed Ctrl-C at a question of its program.
    pub async fn cancelled(&self) {
        self.context.cancel.wait().await;
    }

    /// Records what became of it: `why` says more where that is not plain success.
    pub async fn finish(mut self, outcome: Outcome, why: &str) {
        self.asker.settled().await;
        let result = answered(&self.event.call_id, outcome, why.to_string());
        close(&mut self.event, &result);
        self.context.write(&self.event).await;
        leave(&*self.context.world).await;
    }
}
