//! Results that are too long for the model: the whole is kept beside the conversation.

use alloc::format;
use alloc::string::{String, ToString};

use capos_policy::join;
use capos_schema::models::{ToolCall, ToolResult};
use serde_json::json;

use crate::call::Context;
use crate::curtain::Line;
use crate::redact::redact;
use crate::result::{Brought, ended};
use crate::snapshot::Tool;
use crate::world::World;

impl<W: World> Context<W> {
    /// The result of a call that ended by itself, the whole of which is kept if it is too long for the model.
    pub(crate) async fn ended(&self, tool: &Tool, call: &ToolCall, outcome: Result<Brought, String>) -> ToolResult {
        let outcome = match outcome {
            Ok(brought) => Ok(self.keep_whole(tool, call, brought).await),
            Err(why) => Err(why),
        };
        ended(tool, call, outcome)
    }

    /// Keeps the whole of a result that is going to be cut, without its secrets, and notes below which name. If it cannot be kept,
    /// the person is told, and the result is what it would have been.
    async fn keep_whole(&self, tool: &Tool, call: &ToolCall, mut brought: Brought) -> Brought {
        // The rest of a piece can be asked for.
        if brought.of.is_some() || brought.text.len() <= tool.max_result {
            return brought;
        }
        let whole = redact(&brought.text).0;
        if whole.len() <= tool.max_result {
            return brought;
        }
        let number = self.traces.artifacts.get().saturating_add(1);
        self.traces.artifacts.set(number);
        let name = format!("result-{}.{}.{number}", self.turn, self.course.steps());
        let about = json!({
            "tool": tool.descriptor.name,
            "callId": call.id,
            "label": join(&tool.label, &brought.label).classes,
        });
        match self.world.keep(&name, &about.to_string(), &whole).await {
            Ok(true) => brought.kept = name,
            Ok(false) => {}
            Err(why) => {
                let text = format!("the whole result of {} is not kept: {why}; its beginning is", tool.descriptor.name);
                self.tell(Line::Notice(text)).await;
            }
        }
        brought
    }
}
