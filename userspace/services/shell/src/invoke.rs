//! Calling a tool: JSON to a call of the session's capability, and its results back.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};

use capos_agent::Tool;
use capos_agent::world::Tools;
use capos_schema::cap::{AsCap, LocalBoxFuture, Message};
use capos_schema::reflection::{self, MethodInfo};
use serde_json::Value;

use crate::session::Runner;

/// Bytes of results that one call may bring: the most that a message holds.
const RESULTS: u32 = 1 << 20;

fn method(tool: &Tool) -> Result<&'static MethodInfo, String> {
    let interface = reflection::interface(tool.descriptor.interface_id);
    interface
        .and_then(|interface| interface.methods.iter().find(|method| method.ordinal == tool.method))
        .ok_or_else(|| format!("the method of {} is not in this system's schema", tool.descriptor.name))
}

impl Tools for Runner {
    type Prepared = Message;

    fn prepare(&self, tool: &Tool, arguments: &str) -> Result<(Message, String), String> {
        let value = capos_reflect::parse(arguments).map_err(|bad| bad.to_string())?;
        let message = capos_reflect::encode_params(method(tool)?, &value).map_err(|bad| bad.to_string())?;
        Ok((message, value.to_string()))
    }

    fn invoke(&self, tool: &Tool, prepared: Message) -> LocalBoxFuture<'static, Result<String, String>> {
        let cap = self.capability(tool.capability);
        let (interface, ordinal, found) = (tool.descriptor.interface_id, tool.method, method(tool));
        Box::pin(async move {
            let (cap, found) = (cap?, found?);
            let wide = capos_rt::with_results(&cap, RESULTS);
            let results = wide.as_cap().call(interface, ordinal, prepared).await.map_err(|error| error.to_string())?;
            capos_reflect::decode_results(found, &results).map(|value| present(&value)).map_err(|bad| bad.to_string())
        })
    }
}

/// Results as the model reads them: a single text as it stands, nothing as `done`, anything else as JSON.
fn present(value: &Value) -> String {
    match value.as_object() {
        Some(members) if members.is_empty() => "done".to_string(),
        Some(members) if members.len() == 1 => match members.values().next() {
            Some(Value::String(text)) => text.clone(),
            _ => value.to_string(),
        },
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn results_are_presented_plainly() {
        assert_eq!(present(&json!({})), "done");
        assert_eq!(present(&json!({"text": "a\nb"})), "a\nb");
        assert_eq!(present(&json!({"entries": []})), "{\"entries\":[]}");
        assert_eq!(present(&json!({"a": "x", "b": 1})), "{\"a\":\"x\",\"b\":1}");
    }
}
