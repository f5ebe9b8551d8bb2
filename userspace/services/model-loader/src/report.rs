//! What the loader reports: to the audit log and to the log.

use alloc::string::ToString;
use alloc::vec::Vec;
use capos_rt::log;
use capos_schema::audit::{AuditWriterClient, GeneralEvent, GeneralEventField};
use capos_schema::models::{BackendPolicy, ModelInfo};

/// Where events go.
pub struct Report {
    audit: AuditWriterClient,
}

impl Report {
    /// Reports go to this writer.
    pub fn new(audit: AuditWriterClient) -> Self {
        Self { audit }
    }

    /// A model was accepted.
    ///
    /// # Errors
    /// The audit log took no record: the model must not be served then.
    pub async fn loaded(&self, path: &str, info: &ModelInfo) -> Result<(), capos_rt::Error> {
        log::info!("model {} loaded from {path}", info.id);
        self.write("model.loaded", &[("path", path), ("model", &info.id), ("bytes", &info.bytes.to_string())]).await
    }

    /// A model, or a page of one, was refused.
    pub async fn refused(&self, path: &str, reason: &str) {
        log::error!("model rejected: {reason}");
        // It is rejected either way; the supervisor of the audit log reports that it is gone.
        if let Err(error) = self.write("model.refused", &[("path", path), ("reason", reason)]).await {
            log::error!("the audit log did not record that: {error}");
        }
    }

    /// A backend policy comes into force.
    ///
    /// # Errors
    /// The audit log took no record: the policy must not come into force then.
    pub async fn policy(&self, policy: &BackendPolicy) -> Result<(), capos_rt::Error> {
        let (local, remote) = (policy.allow_local.to_string(), policy.allow_remote.to_string());
        let tokens = policy.max_tokens_per_call.to_string();
        log::info!("backend policy: local {local}, remote {remote}, at most {tokens} tokens a call");
        let fields = [("allowLocal", &*local), ("allowRemote", &*remote), ("maxTokensPerCall", &*tokens)];
        self.write("model.policy", &fields).await
    }

    /// A worker started or ended.
    pub async fn worker(&self, kind: &str, model: &str, detail: &str) {
        log::info!("{kind}: worker of {model}: {detail}");
        if let Err(error) = self.write(kind, &[("model", model), ("detail", detail)]).await {
            log::error!("the audit log did not record that: {error}");
        }
    }

    async fn write(&self, kind: &str, fields: &[(&str, &str)]) -> Result<(), capos_rt::Error> {
        let fields: Vec<GeneralEventField> = fields
            .iter()
            .map(|(name, value)| GeneralEventField { name: (*name).to_string(), value: (*value).to_string() })
            .collect();
        let event = GeneralEvent { kind: kind.to_string(), fields, ..GeneralEvent::default() };
        self.audit.general(&event).await?;
        Ok(())
    }
}
