//! What is kept beside the conversation: results that are too long for the model, and what calls have changed in files.

use alloc::format;
use alloc::string::{String, ToString};

use capos_policy::join;
use capos_schema::models::{ToolCall, ToolResult};
use serde_json::json;

use crate::call::Context;
use crate::curtain::Line;
use crate::result::{Brought, Patch, ended};
use crate::snapshot::{Tool, quote_long};
use crate::world::World;
use capos_redact::redact;

/// Characters of a path that a notice shows.
const PATH: usize = 96;

impl<W: World> Context<W> {
    /// The result of a call that ended by itself, the whole of which is kept if it is too long for the model.
    pub(crate) async fn ended(&self, tool: &Tool, call: &ToolCall, outcome: Result<Brought, String>) -> ToolResult {
        let outcome = match outcome {
            Ok(brought) => Ok(self.keep_whole(tool, call, brought).await),
            Err(why) => Err(why),
        };
        ended(tool, call, outcome)
    }

    /// The name of the next artifact.
    fn artifact(&self, kind: &str) -> String {
        let number = self.traces.artifacts.get().saturating_add(1);
        self.traces.artifacts.set(number);
        format!("{kind}-{}.{}.{number}", self.turn, self.course.steps())
    }

    /// Keeps what a call has changed in a file, with the label of what the file held and of what the model has read. If it
    /// cannot be kept, the person is told once in a session, and the call has its result all the same.
    pub(crate) async fn keep_patch(&self, tool: &Tool, call: &ToolCall, patch: Option<Patch>) {
        let Some(patch) = patch else { return };
        let about = json!({
            "tool": tool.descriptor.name,
            "callId": call.id,
            "path": patch.path,
            "label": join(&self.label, &patch.label).classes,
        });
        let kept = self.world.keep(&self.artifact("change"), &about.to_string(), &patch.text).await;
        if let Err(why) = kept
            && !self.backlog.unkept.replace(true)
        {
            let text =
                format!("the change of {} is not kept: {why}; the file is changed", quote_long(&patch.path, PATH));
            self.tell(Line::Notice(text)).await;
        }
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
        let name = self.artifact("result");
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
