//! The events of the session and its runs, as the client is told of them.

use alloc::rc::Rc;
use alloc::string::ToString;

use capos_client_protocol::event::{
    Chain, Event as Told, Failed, LlmCompleted, LlmStarted, SessionCompleted, SessionStarted, Step, StepLimit,
    ToolCompleted, ToolRequested, ToolStarted,
};
use capos_client_protocol::request::Empty;
use capos_run_state::{Event, Ids, Record, Sink};

use crate::messages::cut;
use crate::shared::{MILLISECOND, Shared};

/// Bytes of a call's result, or of half of its proposed arguments, that a client is told.
const TOLD: usize = 32 << 10;

/// Tells a client. A question has more to say than its event, and is told where it is asked.
pub struct ToClient(pub Rc<Shared>);

impl Sink for ToClient {
    fn emit(&self, record: Record) {
        let Record { ids, event, .. } = record;
        let shared = &self.0;
        shared.set_chain(chain(&ids));
        match event {
            Event::StepStarted { count } => shared.set_step(count),
            Event::SessionStarted { .. } | Event::SessionCompleted { .. } | Event::SessionFailed { .. } => {
                shared.leave_task();
            }
            _ => {}
        }
        match event {
            Event::TextChunk { text } => shared.text(text),
            event => {
                if let Some(told) = self.told(event) {
                    shared.tell(told);
                }
            }
        }
    }
}

fn chain(ids: &Ids) -> Chain {
    let [workspace_id, session_id, task_id, step_id] = ids.members().map(|(_, id)| id.to_string());
    Chain { workspace_id, session_id, task_id, step_id }
}

impl ToClient {
    fn told(&self, event: Event) -> Option<Told> {
        Some(match event {
            Event::SessionStarted { environment } => {
                Told::SessionStarted(SessionStarted { execution_environment: environment })
            }
            Event::SessionCompleted { runs, tokens, duration } => Told::SessionCompleted(SessionCompleted {
                task_count: runs,
                total_tokens: tokens,
                duration_ms: duration / MILLISECOND,
            }),
            Event::SessionFailed { reason } => Told::SessionFailed(Failed { reason }),
            Event::StepStarted { count } => Told::StepStarted(Step { step_count: count }),
            Event::StepCompleted { count } => Told::StepCompleted(Step { step_count: count }),
            Event::StepLimitApproaching { count, most } => {
                Told::StepLimitApproaching(StepLimit { step_count: count, max_steps: most })
            }
            Event::ModelRequestStarted { model, input_tokens } => {
                Told::LlmRequestStarted(LlmStarted { model, estimated_input_tokens: Some(input_tokens) })
            }
            Event::ModelRequestCompleted { model, input_tokens, output_tokens, latency } => {
                let latency_ms = latency / MILLISECOND;
                Told::LlmRequestCompleted(LlmCompleted { model, input_tokens, output_tokens, latency_ms })
            }
            Event::ToolRequested { call_id, tool, category, arguments } => Told::ToolRequested(ToolRequested {
                call_id,
                capability: self.0.tool(&tool),
                tool_name: tool,
                category,
                arguments: cut(&arguments, &mut { 2 * TOLD }).0,
            }),
            Event::ToolStarted { call_id } => Told::ToolStarted(ToolStarted { call_id }),
            Event::ToolCompleted { call_id, tool, status, latency, text } => Told::ToolCompleted(ToolCompleted {
                call_id,
                tool_name: tool,
                status,
                latency_ms: latency / MILLISECOND,
                text: cut(&text, &mut { TOLD }).0,
            }),
            Event::PolicyExpired => Told::PolicyExpired(Empty {}),
            Event::TextChunk { .. }
            | Event::ApprovalRequested(_)
            | Event::ApprovalResolved { .. }
            | Event::ApprovalTimeout { .. } => return None,
        })
    }
}
