//! The check before each request to a model.

use alloc::format;
use core::fmt::Display;

use capos_audit::Kind;
use capos_schema::cap::CallError;
use capos_schema::models::{InferenceRequest, ModelInfo};

use super::Meter;
use crate::decision::Subject;

impl Meter {
    /// Whether this model may be asked this: the policy is valid and grants it, and what is said may leave the machine if the model
    /// is on another. A refusal is recorded.
    ///
    /// # Errors
    /// Why not.
    pub(super) async fn may_ask(&self, model: &ModelInfo, request: &InferenceRequest) -> Result<(), CallError> {
        let granted = self.policy.borrow().may_ask_model(self.broker.clock.now());
        if let Err(why) = granted {
            self.note_refusal(model, &why).await?;
            return Err(CallError::overloaded(why));
        }
        if let Err(class) = self.egress.check_request(&request.messages, &model.backend) {
            let why = format!(
                "the conversation holds data labelled {class}, which must not be sent to a model with backend {}; choose a \
                 local model with /model",
                model.backend
            );
            self.note_refusal(model, &why).await?;
            return Err(CallError::failed(why));
        }
        Ok(())
    }

    async fn note_refusal(&self, model: &ModelInfo, why: &str) -> Result<(), CallError> {
        let subject = Subject { session: &self.info.id, principal: &self.info.principal };
        let fields: [(&str, &dyn Display); 2] = [("model", &model.id), ("outcome", &why)];
        subject.record(&self.broker.blocks.writer, Kind::BrokerDecision, &fields).await
    }
}
