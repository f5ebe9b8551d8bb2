//! What is kept beside the messages of a saved conversation: whole results, and messages of child runs.

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

/// The tool whose result an attachment is, and its label; none if it is none.
pub fn result(attachment: &Attachment) -> Option<(String, Label)> {
    let about: Value = serde_json::from_str(&attachment.about).ok()?;
    let classes = about.get("label")?.as_array()?.iter().map(|class| class.as_str().map(ToString::to_string));
    Some((about.get("tool")?.as_str()?.to_string(), Label { classes: classes.collect::<Option<_>>()? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c37_what_is_said_of_a_result_is_read() {
        let of = |about: &str| result(&Attachment { about: about.into(), ..Attachment::default() });
        let label = Label { classes: Vec::from(["pii.log".into()]) };
        assert_eq!(of(r#"{"tool":"read_log","callId":"1","label":["pii.log"]}"#), Some(("read_log".into(), label)));
        assert_eq!([of(""), of("{}"), of(r#"{"tool":"x","label":[1]}"#)], [None, None, None]);
    }
}
