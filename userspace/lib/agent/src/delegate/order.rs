//! What a model asks of a child run.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_budget::{Amounts, Dimension};
use serde_json::Value;

use super::Given;
use crate::snapshot::{Tool, quote};

/// Milliseconds of a second.
const SECOND: u64 = 1000;

/// What a model asks of a child run, checked.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub task: String,
    /// Tools of the run, each once.
    pub tools: Vec<Tool>,
    /// Parts of the budget; 0 is half of what is left.
    pub shares: Amounts,
    /// Requests to the model; 0 is half of what is left.
    pub model_calls: u32,
    /// 0: as long as a call of the tool may take.
    pub seconds: u64,
}

impl Order {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    /// There is no task, or a tool is none of the run's: which.
    pub fn read(arguments: &str, given: Option<&Given>) -> Result<Self, String> {
        let given = given.ok_or("a child run has no child runs of its own")?;
        let value: Value = serde_json::from_str(arguments).map_err(|bad| format!("not valid JSON: {bad}"))?;
        let number = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or_default();
        let task = value.get("task").and_then(Value::as_str).unwrap_or_default();
        if task.trim().is_empty() {
            return Err("$.task: it is empty".to_string());
        }
        let mut tools: Vec<Tool> = Vec::new();
        for name in value.get("tools").and_then(Value::as_array).into_iter().flatten() {
            let name = name.as_str().unwrap_or_default();
            let found = given.tools.iter().find(|tool| tool.descriptor.name == name);
            let found = found.ok_or_else(|| format!("$.tools: {} is no tool that you can pass on", quote(name)))?;
            if !tools.contains(found) {
                tools.push(found.clone());
            }
        }
        let seconds = number("seconds");
        let shares = Amounts::of(Dimension::Tokens, number("tokens"))
            .with(Dimension::Steps, number("toolCalls"))
            .with(Dimension::WallClock, seconds.saturating_mul(SECOND));
        let model_calls = u32::try_from(number("modelCalls")).unwrap_or(u32::MAX);
        Ok(Self { task: task.to_string(), tools, shares, model_calls, seconds })
    }

    /// How many requests to the model the child run may make, if this many are left of its parent.
    ///
    /// # Errors
    /// That many are not left, or too few to divide.
    pub fn calls(&self, left: u32) -> Result<u32, String> {
        let calls = if self.model_calls == 0 { left / 2 } else { self.model_calls };
        if calls == 0 || calls > left {
            return Err(format!("$.modelCalls: {} of this run are left", capos_plural::count(left, "model call")));
        }
        Ok(calls)
    }
}
