//! Decisions, and their records.

use alloc::format;
use alloc::string::String;
use core::fmt::Display;

use capos_audit::Kind;
use capos_policy::{Binding, Review};
use capos_schema::audit::AuditWriterClient;
use capos_schema::authority::{Decision, Risk, ToolQuestion};
use capos_schema::cap::CallError;
use capos_schema::models::PermissionMode;

use crate::broker::Broker;

/// The longest reason that is recorded.
const MAX_REASON: usize = 512;

/// The session that a record is about.
pub struct Subject<'a> {
    pub session: &'a str,
    pub principal: &'a str,
}

impl Subject<'_> {
    /// Records a decision on a tool call, with its risk and the version of the policy bundle. What is decided holds only once it is recorded.
    ///
    /// # Errors
    /// The audit log took no record.
    pub async fn decided(
        &self,
        writer: &AuditWriterClient,
        question: &ToolQuestion,
        (mode, risk, policy): (PermissionMode, Risk, &str),
        decision: Decision,
        reason: &str,
    ) -> Result<(), CallError> {
        // The same object as that of a question and a lease. The record has its own time.
        let bound = Binding::new(self.session, question, 0).id();
        let fields: [(&str, &dyn Display); 11] = [
            ("tool", &question.tool),
            ("method", &question.method_name),
            ("conversation", &question.conversation),
            ("turn", &question.turn),
            ("callId", &question.call_id),
            ("binding", &bound),
            ("mode", &mode.name()),
            ("risk", &risk.name()),
            ("policy", &policy),
            ("decision", &decision.name()),
            ("reason", &short(reason)),
        ];
        self.record(writer, Kind::BrokerDecision, &fields).await
    }

    /// Records what would become of a call, if the settings say so. The call was not made.
    ///
    /// # Errors
    /// The audit log took no record.
    pub async fn checked(&self, broker: &Broker, question: &ToolQuestion, found: &Review) -> Result<(), CallError> {
        let (checks, is_denied) = (broker.config().checks, found.mode == PermissionMode::Forbidden);
        if !if is_denied { checks.denied } else { checks.allowed } {
            return Ok(());
        }
        let fields: [(&str, &dyn Display); 6] = [
            ("tool", &question.tool),
            ("method", &question.method_name),
            ("mode", &found.mode.name()),
            ("risk", &found.risk.name()),
            ("outcome", if is_denied { &"denied" } else { &"allowed" }),
            ("reason", &short(&found.reason)),
        ];
        self.record(&broker.blocks.writer, Kind::PolicyCheck, &fields).await
    }

    /// Records something else that was decided.
    ///
    /// # Errors
    /// The audit log took no record.
    pub async fn record(
        &self,
        writer: &AuditWriterClient,
        kind: Kind,
        fields: &[(&str, &dyn Display)],
    ) -> Result<(), CallError> {
        let event = kind.event(self.session, self.principal, fields);
        match writer.general(&event).await {
            Ok(_) => Ok(()),
            Err(why) => Err(CallError::failed(format!("the decision could not be recorded and is void: {why}"))),
        }
    }
}

fn short(reason: &str) -> String {
    reason.chars().take(MAX_REASON).collect()
}
