//! A request of the contract, in the engine's form.

use std::time::{SystemTime, UNIX_EPOCH};

use capos_chat::{Message, Role, Tool};
use capos_engine::Sampling;
use capos_inference::Request;
use capos_schema::authority::Provenance;
use capos_schema::cap::CallError;
use capos_schema::models::{self, ChatMessage, InferenceRequest, PermissionMode, ToolCall, ToolDescriptor};
use serde_json::Value;

/// The request in other words.
///
/// # Errors
/// A schema in it is not JSON.
pub fn request(request: &InferenceRequest) -> Result<Request, CallError> {
    let schema = match request.response_schema.as_str() {
        "" => None,
        text => Some(json(text, || "the response schema".to_owned())?),
    };
    Ok(Request {
        messages: request.messages.iter().map(message).collect(),
        goal: usize::try_from(request.goal).ok().filter(|goal| *goal > 0),
        tools: request.tools.iter().map(tool).collect::<Result<_, _>>()?,
        limit: Some(usize::try_from(request.max_tokens).unwrap_or(usize::MAX)),
        sampling: Some(Sampling {
            temperature: request.temperature,
            seed: seed(&request.nonce),
            ..Sampling::default()
        }),
        stop_sequences: request.stop_sequences.clone(),
        schema,
        end_repetition: request.end_repetition,
        now: now(),
        ..Request::default()
    })
}

/// Seconds since 1970, which templates may show the model: it knows the date as programs on the machine do.
fn now() -> Option<i64> {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(passed.as_secs()).ok()
}

fn message(message: &ChatMessage) -> Message {
    let role = match message.role {
        models::Role::System => Role::System,
        models::Role::User => Role::User,
        models::Role::Assistant => Role::Assistant,
        models::Role::Tool => Role::Tool,
    };
    Message {
        calls: message.tool_calls.iter().map(call).collect(),
        call_id: message.tool_call_id.clone(),
        untrusted: message.provenance == Provenance::Untrusted,
        ..Message::new(role, &message.content)
    }
}

/// A call of an earlier answer. Its arguments may be invalid JSON: the model sees them unchanged.
fn call(call: &ToolCall) -> capos_chat::Call {
    let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| Value::String(call.arguments.clone()));
    capos_chat::Call { id: call.id.clone(), name: call.name.clone(), arguments }
}

fn tool(tool: &ToolDescriptor) -> Result<Tool, CallError> {
    let parameters = match tool.param_schema.as_str() {
        "" => serde_json::json!({ "type": "object", "properties": {} }),
        text => json(text, || format!("the parameter schema of {}", tool.name))?,
    };
    Ok(Tool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters,
        handle: tool.handle.clone(),
        forbidden: tool.permission == PermissionMode::Forbidden,
    })
}

fn json(text: &str, what: impl FnOnce() -> String) -> Result<Value, CallError> {
    serde_json::from_str(text).map_err(|error| CallError::invalid_argument(format!("{} is no JSON: {error}", what())))
}

/// The seed: requests with the same nonce, or none, are answered alike.
fn seed(nonce: &[u8]) -> u64 {
    nonce.iter().fold(0, |seed: u64, byte| seed.wrapping_mul(0x0100_0000_01b3) ^ u64::from(*byte))
}
