//! What is kept beside the messages of a saved conversation: whole results, changes of files, and messages of child runs.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_schema::authority::Label;
use capos_schema::conversations::{Attachment, ConversationStoreClient};
use serde_json::Value;

use crate::runner::Runner;
use crate::surface::Surface;

/// The attachments of a conversation.
///
/// # Errors
/// The store does not answer, or has no such conversation.
pub async fn list<S: Surface>(
    runner: &Runner<S>,
    store: &ConversationStoreClient,
    conversation: &str,
) -> Result<Vec<Attachment>, String> {
    runner.audited(store.attachments(conversation)).await
}

/// The whole text of an attachment.
///
/// # Errors
/// The store does not answer, or has no such attachment.
pub async fn read<S: Surface>(
    runner: &Runner<S>,
    store: &ConversationStoreClient,
    (conversation, name): (&str, &str),
) -> Result<String, String> {
    let (mut text, mut from) = (String::new(), 0_u32);
    loop {
        let page = runner.audited(store.attachment(conversation, name, from)).await?;
        from = from.saturating_add(u32::try_from(page.texts.len()).unwrap_or(u32::MAX));
        let is_last = !page.more || page.texts.is_empty();
        text.extend(page.texts);
        if is_last {
            return Ok(text);
        }
    }
}

/// What a call has left: its result, or what it changed in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// The tool.
    pub tool: String,
    /// The file that it changed.
    pub path: Option<String>,
    /// Of all that it may hold.
    pub label: Label,
}

/// The artifact that an attachment is; none if it is none.
pub fn artifact(attachment: &Attachment) -> Option<Artifact> {
    let about: Value = serde_json::from_str(&attachment.about).ok()?;
    let text = |name: &str| about.get(name)?.as_str().map(ToString::to_string);
    let classes = about.get("label")?.as_array()?.iter().map(|class| class.as_str().map(ToString::to_string));
    let label = Label { classes: classes.collect::<Option<_>>()? };
    Some(Artifact { tool: text("tool")?, path: text("path"), label })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c37_what_is_said_of_a_result_is_read() {
        let of = |about: &str| artifact(&Attachment { about: about.into(), ..Attachment::default() });
        let label = Label { classes: Vec::from(["pii.log".into()]) };
        let result = Artifact { tool: "read_log".into(), path: None, label };
        assert_eq!(of(r#"{"tool":"read_log","callId":"1","label":["pii.log"]}"#), Some(result));
        let change = Artifact { tool: "write_file".into(), path: Some("a".into()), label: Label::default() };
        assert_eq!(of(r#"{"tool":"write_file","callId":"1","path":"a","label":[]}"#), Some(change));
        assert_eq!([of(""), of("{}"), of(r#"{"tool":"x","label":[1]}"#)], [None, None, None]);
    }
}
