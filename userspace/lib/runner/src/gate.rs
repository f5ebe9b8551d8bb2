//! The broker and the audit log, as the loop uses them.

use alloc::string::{String, ToString};

use capos_agent::world::{Audit, AuditError, BudgetError, Gate, Review, Ruling};
use capos_schema::audit::{GeneralEvent, ToolEvent};
use capos_schema::authority::{ConsentReach, LeaseClient, Reply, ToolQuestion};
use capos_schema::cap::{CallError, ExceptionKind};
use capos_schema::models::PermissionMode;

use crate::runner::Runner;
use crate::surface::Surface;

/// How long the audit log and the broker may take to answer, in nanoseconds.
pub const PATIENCE: u64 = 10_000_000_000;

impl<S: Surface> Gate for Runner<S> {
    type Lease = LeaseClient;

    async fn review(&self, question: &ToolQuestion) -> Result<Review, String> {
        let found = self.within(self.user.review(question)).await.map_err(|error| error.to_string())?;
        Ok(Review { mode: found.mode, note: found.note, approval: found.approval, risk: found.risk })
    }

    async fn decide(
        &self,
        question: &ToolQuestion,
        mode: PermissionMode,
        reply: Reply,
        reach: &ConsentReach,
    ) -> Result<Ruling<LeaseClient>, String> {
        let ruling = self.within(self.user.decide(question, mode, reply, reach)).await;
        let ruling = ruling.map_err(|error| error.to_string())?;
        Ok(Ruling { decision: ruling.decision, reason: ruling.reason, lease: None })
    }

    async fn step_up(&self, question: &ToolQuestion, passphrase: &str) -> Result<Ruling<LeaseClient>, String> {
        let ruling = self.within(self.user.step_up(question, passphrase)).await.map_err(|error| error.to_string())?;
        Ok(Ruling { decision: ruling.decision, reason: ruling.reason, lease: ruling.lease })
    }

    async fn redeem(&self, lease: LeaseClient, question: &ToolQuestion) -> Result<(), String> {
        self.within(lease.redeem(question)).await.map_err(|error| error.to_string())
    }

    async fn remaining(&self) -> Result<u64, BudgetError> {
        let remaining = match &self.part {
            Some((_, part)) => self.within(part.remaining()).await,
            None => self.within(self.user.remaining()).await,
        };
        remaining.map_err(|error| match error {
            CallError::Exception(exception) if exception.kind == ExceptionKind::Overloaded => {
                BudgetError::Exhausted(exception.reason.to_string())
            }
            error => BudgetError::Unavailable(error.to_string()),
        })
    }
}

impl<S: Surface> Audit for Runner<S> {
    async fn tool(&self, event: &ToolEvent) -> Result<u64, AuditError> {
        let writer = self.grants.writer().map_err(AuditError::Unavailable)?;
        writer.tool(event).await.map(|written| written.sequence).map_err(|error| not_taken(&error))
    }

    async fn general(&self, event: &GeneralEvent) -> Result<u64, AuditError> {
        let writer = self.grants.writer().map_err(AuditError::Unavailable)?;
        let written = self.in_time(writer.general(event)).await.map_err(|error| not_taken(&error))?;
        Ok(written.sequence)
    }
}

fn not_taken(error: &CallError) -> AuditError {
    match error {
        CallError::Exception(exception) if exception.kind == ExceptionKind::InvalidArgument => {
            AuditError::Refused(error.to_string())
        }
        _ => AuditError::Unavailable(error.to_string()),
    }
}
