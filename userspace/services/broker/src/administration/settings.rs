//! The settings of the machine, as an operator's session holds them.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use capos_broker::settings;
use capos_policy::{GrantedTool, Policy, SessionPolicy};
use capos_schema::authority::{Profile, Setting, SettingsServer, ToolQuestion};
use capos_schema::cap::{CallContext, CallError};

use super::Operator;
use crate::broker::Broker;

/// Differences that a question names. Of more it says how many.
const NAMED: usize = 8;

/// The arguments of a call that changes a setting.
#[derive(serde::Deserialize)]
struct Change {
    name: String,
    value: Option<String>,
}

/// The arguments of a call that sets the clock.
#[derive(serde::Deserialize)]
struct Time {
    time: String,
}

/// How far a call sets the clock, for the question about it. May be nothing.
///
/// # Errors
/// The clock cannot be set to that time.
fn jump(broker: &Broker, question: &ToolQuestion) -> Result<String, String> {
    let Ok(Time { time }) = serde_json::from_str(&question.arguments) else { return Ok(String::new()) };
    let to = settings::time(&time, broker.config().utc_offset)?;
    Ok(broker.clock.wall_clock().map_or_else(|_| String::new(), |from| settings::jump(from, to)))
}

/// What a call that changes a setting or the clock means, for the question about it. `tools` are those of the session
/// that asks. May be nothing.
///
/// # Errors
/// The call will be rejected. The text says why, as the rejection itself would.
pub async fn consequence(
    broker: &Broker,
    operator: &str,
    tools: &[GrantedTool],
    question: &ToolQuestion,
) -> Result<String, String> {
    if question.tool == "set_clock" {
        return jump(broker, question);
    }
    difference(broker, operator, tools, question).await
}

/// What a call that changes a setting changes of the policies of new sessions, for the person who is asked about it. `tools` are
/// those of the session that asks; may be nothing.
///
/// # Errors
/// The call will be rejected.
async fn difference(
    broker: &Broker,
    operator: &str,
    tools: &[GrantedTool],
    question: &ToolQuestion,
) -> Result<String, String> {
    let Ok(Change { name, value }) = serde_json::from_str(&question.arguments) else { return Ok(String::new()) };
    let known = match broker.volume_of(operator).await {
        Ok(volume) => volume.settings().await,
        Err(error) => Err(error),
    };
    let Ok(mut changed) = known else { return Ok(String::new()) };
    let before = changed.clone();
    match value {
        None => {
            settings::resettable(&before, &name)?;
            changed.remove(&name);
        }
        Some(value) => {
            let value = settings::check(&broker.sources.named(), &before, &name, &value)?;
            changed.insert(name, value);
        }
    }
    let policies =
        [before, changed].map(|settings| broker.sources.configuration(&settings).map(|(config, _)| config.policy));
    let [Ok(before), Ok(after)] = policies else { return Ok(String::new()) };
    let lines: Vec<String> = [Profile::Operator, Profile::Guest, Profile::Anonymous]
        .into_iter()
        .flat_map(|profile| {
            let of = |policy: &Policy| SessionPolicy::of(policy, profile, tools);
            let changes = capos_policy::changes(&of(&before), &of(&after));
            changes.into_iter().map(move |change| format!("{}: {change}", profile.name()))
        })
        .collect();
    if lines.is_empty() {
        return Ok(String::new());
    }
    let more = lines.len().saturating_sub(NAMED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Ok(format!("It changes the policy of new sessions. {}{more}.", lines.get(..NAMED).unwrap_or(&lines).join("; ")))
}

/// The settings, for this operator.
pub struct SettingsObject(pub Rc<Operator>);

impl SettingsServer for SettingsObject {
    async fn list(&self, _cx: &CallContext) -> Result<Vec<Setting>, CallError> {
        let known = self.0.volume().await?.settings().await?;
        Ok(settings::list(&self.0.broker.sources.named(), &known))
    }

    async fn set(&self, _cx: &CallContext, name: String, value: String) -> Result<(), CallError> {
        let volume = self.0.volume().await?;
        let known = volume.settings().await?;
        let checked = settings::check(&self.0.broker.sources.named(), &known, &name, &value);
        volume.set(&name, &checked.map_err(CallError::invalid_argument)?).await
    }

    async fn set_clock(&self, _cx: &CallContext, time: String) -> Result<String, CallError> {
        // Only an operator has it.
        self.0.volume().await?;
        let offset = self.0.broker.config().utc_offset;
        let (before, now) = self.0.broker.set_clock(&self.0.name, &time, offset).await?;
        let text = |milliseconds: u64| capos_audit::local(milliseconds.saturating_mul(1_000_000), offset);
        Ok(alloc::format!("the clock is set to {}; it said {}", text(now), text(before)))
    }

    async fn reset(&self, _cx: &CallContext, name: String) -> Result<(), CallError> {
        let volume = self.0.volume().await?;
        settings::resettable(&volume.settings().await?, &name).map_err(CallError::invalid_argument)?;
        volume.reset(&name).await
    }
}
