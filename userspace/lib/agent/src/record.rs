//! Recording calls: before an effect, after it, and what the log could not take when it was time.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_plural::count;
use capos_schema::audit::{GeneralEvent, Phase, ToolEvent};
use capos_schema::authority::Decision;
use capos_schema::cap::LocalBoxFuture;
use capos_schema::models::{Outcome, ToolCall, ToolDescriptor, ToolResult};

use crate::agent::Session;
use crate::backlog::Backlog;
use crate::call::{Context, Proposal, close};
use crate::curtain::Line;
use crate::evidence::general_size;
use crate::race::{Either, race};
use crate::result::{MAX_ERROR, Why, answered, truncate};
use crate::snapshot::Tool;
use crate::world::{AuditError, Show, World};

/// How long the audit log may take to answer, in nanoseconds.
const PATIENCE: u64 = 10_000_000_000;
const NO_ANSWER: &str = "no answer within 10 s";

/// What is kept elsewhere of the calls of one response.
#[derive(Debug, Default)]
pub struct Traces {
    /// Records about them that the log has: ids of calls with sequences, in order.
    records: RefCell<Vec<(String, u64)>>,
    /// How many results were kept whole, or should have been.
    pub artifacts: Cell<u32>,
}

/// Writes the pending records, with a limit on the time.
///
/// # Errors
/// The log does not take them now.
pub async fn flush_pending<W: World>(world: &W, session: &Session, backlog: &Backlog) -> Result<(), AuditError> {
    let patience = world.sleep_until(world.now().saturating_add(PATIENCE));
    match race(backlog.write(world, &session.id, &session.principal), patience).await {
        Either::Left(written) => written,
        Either::Right(()) => Err(AuditError::Unavailable(NO_ANSWER.to_string())),
    }
}

impl<W: World> Context<W> {
    /// A record about a call, without what came of it.
    pub(crate) fn event(&self, phase: Phase, descriptor: &ToolDescriptor, call: &ToolCall) -> ToolEvent {
        ToolEvent {
            phase,
            session: self.session.id.clone(),
            principal: self.session.principal.clone(),
            conversation: self.conversation.clone(),
            turn: self.turn,
            call_id: call.id.clone(),
            model_id: self.model.id.clone(),
            backend: self.model.backend.clone(),
            nonce: self.nonce.clone(),
            runner: "capos-side".to_string(),
            descriptor: descriptor.clone(),
            arguments: call.arguments.clone(),
            label: self.label.clone(),
            advertised: self.advertised.clone(),
            ..ToolEvent::default()
        }
    }

    /// Writes the pending records first: nothing runs while the log lacks earlier ones.
    pub async fn flush_pending(&self) -> Result<(), AuditError> {
        flush_pending(&*self.world, &self.session, &self.backlog).await
    }

    fn patience(&self) -> LocalBoxFuture<'static, ()> {
        self.world.sleep_until(self.world.now().saturating_add(PATIENCE))
    }

    /// Records what became of a call, now or, where the log does not take it, later.
    pub async fn write(&self, event: &ToolEvent) {
        let (written, sent) = match self.flush_pending().await {
            Ok(()) => match race(self.world.tool(event), self.patience()).await {
                Either::Left(written) => (written.map(|sequence| self.recorded(&event.call_id, sequence)), true),
                Either::Right(()) => (Err(AuditError::Unavailable(NO_ANSWER.to_string())), true),
            },
            Err(why) => (Err(why), false),
        };
        let Err(error) = written else { return };
        self.backlog.add(event, sent && is_silent(&error));
        // A log that was restarted knows nothing of the beginning, and takes the end as a late one.
        let left = match error {
            AuditError::Refused(_) => self.flush_pending().await,
            AuditError::Unavailable(_) => Err(error),
        };
        if let Err(why) = left {
            let text = format!("the audit log takes no records ({why}); no tool runs until it does");
            self.tell(Line::Notice(text)).await;
        }
    }

    fn recorded(&self, call_id: &str, sequence: u64) {
        self.traces.records.borrow_mut().push((call_id.to_string(), sequence));
    }

    /// The sequences of the records about a call, in their order.
    pub(crate) fn records_of(&self, call_id: &str) -> Vec<u64> {
        self.traces.records.borrow().iter().filter(|(id, _)| id == call_id).map(|(_, sequence)| *sequence).collect()
    }

    /// The answer to a call that is not examined, because too many before it were refused.
    pub fn skip(&self, proposal: &Proposal, refused: usize) -> ToolResult {
        self.unexamined.add(&proposal.call, proposal.dropped);
        let why = match self.allowance.is_spent() {
            true => "not checked: what this turn or session may leave in the audit log is used up".to_string(),
            false => format!("not checked: {refused} calls of this answer were rejected before it"),
        };
        answered(&proposal.call.id, Outcome::RefusedByPolicy, Why::own(why))
    }

    /// Records and shows the calls that were not looked at, if there are any: together, whatever their number.
    pub async fn refuse_unexamined(&self) {
        let Some(event) = self.unexamined.event(&self.session, &self.conversation, self.turn) else { return };
        self.note(event).await;
        let calls = count(self.unexamined.count(), "further call");
        let why = match self.allowance.is_spent() {
            true => "what this turn or session may leave in the audit log is used up",
            false => "too many earlier calls were rejected",
        };
        let text = format!("{calls} of this answer not checked: {why}");
        self.world.show(Show::Notice(&text)).await;
    }

    /// Writes a record that is not about a tool call, now or, where the log does not take it, later.
    pub async fn note(&self, event: GeneralEvent) {
        self.allowance.count(general_size(&event));
        let written = match self.flush_pending().await {
            Ok(()) => self.world.general(&event).await.map(drop),
            Err(why) => Err(why),
        };
        if written.is_err() {
            self.backlog.add_general(event);
        }
    }

    /// The record before a call that may run by this decision.
    pub fn before(&self, tool: &Tool, call: &ToolCall, (decision, reason): (Decision, &str)) -> ToolEvent {
        let event = self.event(Phase::Before, &tool.descriptor, call);
        ToolEvent { decision, reason: truncate(reason, MAX_ERROR), decided: true, ..event }
    }

    /// Records that an effect begins; the sequence of the record.
    pub async fn begin(self: &Rc<Self>, event: &ToolEvent) -> Result<u64, ToolResult> {
        let refused = |of: fn(String) -> Why, why: &str| {
            let why = format!("the audit log takes no records ({why}); without a record no tool runs");
            answered(&event.call_id, Outcome::RefusedByPolicy, of(why))
        };
        let (world, record) = (self.world.clone(), event.clone());
        let mut writing: LocalBoxFuture<'static, _> = Box::pin(async move { world.tool(&record).await });
        let (written, sent) = match self.flush_pending().await {
            Ok(()) => (race(writing.as_mut(), self.patience()).await, true),
            Err(why) => (Either::Left(Err(why)), false),
        };
        match written {
            Either::Left(Ok(sequence)) => {
                self.recorded(&event.call_id, sequence);
                Ok(sequence)
            }
            Either::Left(Err(why)) => {
                let result = refused(Why::Quoted, &why.to_string());
                let mut event = ToolEvent { phase: Phase::Refused, ..event.clone() };
                close(&mut event, &result);
                self.backlog.add(&event, sent && is_silent(&why));
                Err(result)
            }
            Either::Right(()) => {
                let result = refused(Why::own, NO_ANSWER);
                self.clone().close_unbegun(writing, event.clone(), result.clone());
                Err(result)
            }
        }
    }

    /// Waits for the answer of a log that was too slow, and closes what it may have recorded meanwhile. Nothing else
    /// runs until that is known.
    fn close_unbegun(
        self: Rc<Self>,
        writing: LocalBoxFuture<'static, Result<u64, AuditError>>,
        mut event: ToolEvent,
        result: ToolResult,
    ) {
        let world = self.world.clone();
        self.backlog.begin();
        let unsettled = self.backlog.hold();
        world.spawn(Box::pin(async move {
            let sent = match writing.await {
                Ok(sequence) => {
                    (event.phase, event.before) = (Phase::After, sequence);
                    close(&mut event, &result);
                    event.error =
                        format!("it did not start: the record of its start was not acknowledged in time ({NO_ANSWER})");
                    false
                }
                Err(why) => {
                    event.phase = Phase::Refused;
                    close(&mut event, &result);
                    is_silent(&why)
                }
            };
            self.backlog.add(&event, sent);
            drop(unsettled);
            // If the log still does not take it, the next turn or call writes it.
            let _ = self.flush_pending().await;
            self.backlog.end();
        }));
    }
}

/// Whether the log may have taken a record that was sent: it did not say that it did not.
fn is_silent(error: &AuditError) -> bool {
    matches!(error, AuditError::Unavailable(_))
}
