//! What a call that waits for an answer would change.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::Tool;
use capos_agent::world::Gate;
use capos_client_protocol::result::{Change, PatchPreview};
use capos_runner::{Runner, Surface, table};
use capos_schema::authority::ToolQuestion;
use capos_schema::cap::Client;
use capos_schema::kernel::ObjectClient;
use capos_schema::models::PermissionMode;
use capos_schema::storage::{DirectoryClient, EntryKind, FileError};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Bytes of a file that a preview shows at most. A line holds it and what takes its place, escaped.
const SHOWN: u64 = 64 << 10;

/// A write that was not made yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    directory: DirectoryClient,
    path: String,
    text: String,
    is_appended: bool,
    /// Whether the session may read the file unasked. If not, what it holds is not shown.
    is_readable: bool,
}

/// The tool by which a model reads the file.
const READ: &str = "read_file";

impl Preview {
    /// Of a call of `write_file`; none of another.
    pub fn of(tool: &Tool, arguments: &str, capability: Result<ObjectClient, String>) -> Option<Self> {
        let found = &tool.descriptor;
        if found.interface_id != DirectoryClient::INTERFACE_ID || found.method_name != "writeText" {
            return None;
        }
        let arguments: Map<String, Value> = serde_json::from_str(arguments).ok()?;
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).map(ToString::to_string);
        Some(Self {
            directory: capability.ok()?.cast(),
            path: text("path")?,
            text: text("text")?,
            is_appended: arguments.get("append").and_then(Value::as_bool).unwrap_or(false),
            is_readable: false,
        })
    }

    /// The preview of a session, which shows no more than the session may read unasked.
    pub async fn for_session<S: Surface>(self, runner: &Runner<S>) -> Self {
        let Some(tool) = table::own(&runner.grants.all(), READ) else { return self };
        let found = &tool.descriptor;
        let question = ToolQuestion {
            interface_id: found.interface_id,
            method_name: found.method_name.clone(),
            tool: found.name.clone(),
            category: found.category.clone(),
            arguments: json!({ "path": self.path }).to_string(),
            ..ToolQuestion::default()
        };
        let review = runner.review(&question).await;
        Self { is_readable: review.is_ok_and(|review| review.mode == PermissionMode::Auto), ..self }
    }

    /// The file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Reads what is there, and tells what would be.
    ///
    /// # Errors
    /// The file's server does not answer.
    pub async fn show(self) -> Result<PatchPreview, String> {
        let old = self.old().await?;
        Ok(PatchPreview { changes: Vec::from([self.change(old)]) })
    }

    /// The text that is there; none if there is no file, or why it is not shown.
    async fn old(&self) -> Result<Result<Option<String>, String>, String> {
        let why = |error: capos_schema::cap::CallError| format!("{} cannot be looked at: {error}", self.path);
        let found = self.directory.status(&self.path, true).await.map_err(why)?;
        if found.error != FileError::None || found.status.kind != EntryKind::File {
            return Ok(Ok(None));
        }
        if !self.is_readable {
            return Ok(Err(format!("{READ} needs more than this session has for it, so what the file holds is not shown")));
        }
        if found.status.bytes > SHOWN {
            return Ok(Err(format!("the file has {} bytes; at most {SHOWN} are shown", found.status.bytes)));
        }
        let file = self.directory.open(&self.path).await.map_err(why)?;
        let most = u32::try_from(SHOWN).unwrap_or(u32::MAX);
        let data = file.read(0, most).await.map_err(why)?;
        Ok(match String::from_utf8(data) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err("the file is no text".to_string()),
        })
    }

    fn change(self, old: Result<Option<String>, String>) -> Change {
        let Self { path, text, is_appended, .. } = self;
        let (old_text, omitted) = match old {
            Ok(old) => (old, None),
            Err(why) => (None, Some(why)),
        };
        // What is appended to a file that is not shown is shown alone.
        let new_text = match &old_text {
            Some(old) if is_appended => format!("{old}{text}"),
            _ => text,
        };
        let new_sha256 = hex::encode(Sha256::digest(new_text.as_bytes()));
        let omitted = omitted.map(|why| if is_appended { format!("{why}; newText is added at its end") } else { why });
        Change { path, old_text, omitted, new_text, new_sha256 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(method: &str) -> Tool {
        let mut tool = Tool::default();
        tool.descriptor.interface_id = DirectoryClient::INTERFACE_ID;
        tool.descriptor.method_name = method.into();
        tool
    }

    fn none() -> Result<ObjectClient, String> {
        Err("the session holds none".into())
    }

    #[test]
    fn c16_only_writes_have_a_preview() {
        let arguments = r#"{"path":"a","text":"b"}"#;
        assert!(Preview::of(&tool("remove"), arguments, none()).is_none());
        assert!(Preview::of(&tool("writeText"), arguments, none()).is_none(), "of a capability that is gone");
        assert!(Preview::of(&tool("writeText"), "{}", none()).is_none());
    }
}
