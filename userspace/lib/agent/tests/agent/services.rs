//! The audit log and the broker of the simulated world: processes of their own, which go on whoever waits for them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use capos_agent::world::{AuditError, Host, Ruling};
use capos_audit::{AppendError, Chain, Event, Head, Kind};
use capos_schema::audit::Phase;
use capos_schema::authority::ToolQuestion;
use capos_schema::cap::LocalBoxFuture;

use crate::world::{MS, Sim, World};

impl World {
    /// Work of another process: it runs to its end, whether its caller still waits or not.
    pub fn elsewhere<T: 'static>(&self, work: impl Future<Output = T> + 'static) -> LocalBoxFuture<'static, T> {
        let answer = Rc::new(RefCell::new(None));
        let place = answer.clone();
        self.spawn(Box::pin(async move {
            let value = work.await;
            *place.borrow_mut() = Some(value);
            poll_fn(|cx| {
                cx.waker().wake_by_ref();
                Poll::Ready(())
            })
            .await;
        }));
        Box::pin(poll_fn(move |_| answer.borrow_mut().take().map_or(Poll::Pending, Poll::Ready)))
    }

    /// Something that happens at a time, whatever the agent does.
    pub fn at(&self, ms: u64, happens: impl FnOnce(&Sim) + 'static) {
        let world = self.clone();
        self.spawn(Box::pin(async move {
            world.sleep_until(ms * MS).await;
            happens(&world.0);
        }));
    }

    /// What the log answers to a record, in its own time.
    pub async fn append(
        &self,
        add: impl FnOnce(&mut Chain, u64) -> Result<Head, AppendError> + 'static,
    ) -> Result<u64, AuditError> {
        let world = self.clone();
        self.elsewhere(async move {
            world.pause(MS).await;
            world.sleep_until(world.0.audit_hangs.get()).await;
            if world.0.audit_down.get() {
                return Err(AuditError::Unavailable("it is gone".into()));
            }
            world.boundary().await;
            let added = add(&mut world.0.chain.borrow_mut(), world.0.clock.get());
            world.boundary().await;
            added.map(|head| head.sequence).map_err(|error| match error {
                AppendError::Full { .. } | AppendError::Share { .. } | AppendError::Place(_) => {
                    AuditError::Unavailable(error.to_string())
                }
                AppendError::Invalid(_) => AuditError::Refused(error.to_string()),
            })
        })
        .await
    }

    /// What the broker does about a question, in its own time: it decides, records that, and answers.
    pub async fn broker(&self, question: &ToolQuestion, ruling: Ruling<String>) -> Result<Ruling<String>, String> {
        let (world, question) = (self.clone(), question.clone());
        self.elsewhere(async move {
            let (before, after) = world.0.broker_takes.get();
            world.pause(before).await;
            if world.0.broker_down.get() {
                return Err("it is gone".into());
            }
            world.0.decisions.set(world.0.decisions.get() + 1);
            if !world.0.audit_down.get() {
                let fields: [(&str, &dyn std::fmt::Display); 3] = [
                    ("conversation", &question.conversation),
                    ("callId", &question.call_id),
                    ("decision", &ruling.decision.name()),
                ];
                let event = Kind::BrokerDecision.event("s1", "ada", &fields);
                let recorded = world.0.chain.borrow_mut().append_general(world.0.clock.get(), event);
                recorded.map_err(|why| format!("the decision could not be recorded: {why}"))?;
            }
            world.pause(after).await;
            Ok(ruling)
        })
        .await
    }

    /// The broker's records and those of the calls say the same: a call has the decision that was recorded before it, or
    /// none was.
    pub fn check_decisions(&self) {
        let chain = self.0.chain.borrow();
        let mut made: BTreeMap<String, String> = BTreeMap::new();
        for record in chain.records() {
            match &record.event {
                Event::General(event) if event.kind == Kind::BrokerDecision.name() => {
                    let field =
                        |name: &str| event.fields.iter().find(|field| field.name == name).unwrap().value.clone();
                    assert_eq!(made.insert(field("callId"), field("decision")), None);
                }
                Event::Tool(event) if event.phase != Phase::After => {
                    let said = event.decided.then(|| event.decision.name().to_string());
                    assert_eq!(made.remove(&event.call_id), said, "{event:#?}");
                }
                _ => {}
            }
        }
        assert!(made.is_empty(), "decided and never told: {made:?}");
    }
}
