//! The settings of the machine, as an operator's session holds them.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use capos_broker::settings;
use capos_schema::authority::{Setting, SettingsServer};
use capos_schema::cap::{CallContext, CallError};

use crate::broker::Broker;

/// The settings, for this operator.
pub struct SettingsObject {
    pub broker: Rc<Broker>,
    pub operator: String,
}

impl SettingsServer for SettingsObject {
    async fn list(&self, _cx: &CallContext) -> Result<Vec<Setting>, CallError> {
        let known = self.broker.volume_of(&self.operator).await?.settings().await?;
        Ok(settings::list(&self.broker.sources.named(), &known))
    }

    async fn set(&self, _cx: &CallContext, name: String, value: String) -> Result<(), CallError> {
        let volume = self.broker.volume_of(&self.operator).await?;
        let known = volume.settings().await?;
        let checked = settings::check(&self.broker.sources.named(), &known, &name, &value);
        volume.set(&name, &checked.map_err(CallError::invalid_argument)?).await
    }

    async fn set_clock(&self, _cx: &CallContext, time: String) -> Result<String, CallError> {
        // Only an operator has it.
        self.broker.volume_of(&self.operator).await?;
        let offset = self.broker.config().utc_offset;
        let (before, now) = self.broker.set_clock(&self.operator, &time, offset).await?;
        let text = |milliseconds: u64| capos_audit::local(milliseconds.saturating_mul(1_000_000), offset);
        Ok(alloc::format!("the clock is set to {}; it said {}", text(now), text(before)))
    }

    async fn reset(&self, _cx: &CallContext, name: String) -> Result<(), CallError> {
        let volume = self.broker.volume_of(&self.operator).await?;
        if !volume.settings().await?.contains_key(&name) {
            let why =
                alloc::format!("{name:?} has the image's value; the list of settings tells where each comes from");
            return Err(CallError::invalid_argument(why));
        }
        volume.reset(&name).await
    }
}
