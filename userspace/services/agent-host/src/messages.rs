//! A conversation as clients read it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_agent::Conversation;
use capos_client_protocol::result::{Call, Change, Message, Messages, PatchPreview, Role};
use capos_runner::change;
use capos_schema::models::{ChatMessage, Role as Speaker};
use sha2::{Digest, Sha256};

/// Bytes of one answer's messages: a line has room for them.
const ROOM: usize = 192 << 10;
/// Bytes of a text, as it is written.
const TEXT: usize = 48 << 10;

/// The messages from this number on that have room in a line.
pub fn messages(conversation: &Conversation, from: u32, category: impl Fn(&str) -> String) -> Messages {
    let (mut messages, mut bytes, mut next) = (Vec::new(), 0_usize, None);
    for (number, entry) in (0_u32..).zip(conversation.entries()).skip(usize::try_from(from).unwrap_or(usize::MAX)) {
        let outcome = entry.outcome.map(|outcome| outcome.name().into());
        let mut message = Message { outcome, ..message(&entry.message, &category) };
        if entry.replaces > 0 {
            message.text = format!("(Summary of earlier messages, which stay in the conversation.) {}", message.text);
        }
        bytes = bytes.saturating_add(size(&message));
        if bytes > ROOM && !messages.is_empty() {
            next = Some(number);
            break;
        }
        messages.push(message);
    }
    Messages { conversation_id: conversation.id.clone(), messages, next, can_continue: false }
}

/// What a call would change, as a client reads it.
pub fn patch(change: change::Change) -> PatchPreview {
    let change::Change { path, old, new, is_appended, .. } = change;
    let (old_text, why) = match old {
        Ok(old) => (old, None),
        Err(why) => (None, Some(why)),
    };
    let omitted = why.map(|why| if is_appended { format!("{why}; newText is added at its end") } else { why });
    let new_sha256 = hex::encode(Sha256::digest(new.as_bytes()));
    PatchPreview { changes: Vec::from([Change { path, old_text, omitted, new_text: new, new_sha256 }]) }
}

fn size(message: &Message) -> usize {
    serde_json::to_string(message).map_or(usize::MAX, |text| text.len())
}

fn message(message: &ChatMessage, category: &impl Fn(&str) -> String) -> Message {
    let role = match message.role {
        Speaker::User => Role::User,
        Speaker::Assistant => Role::Assistant,
        Speaker::Tool => Role::Tool,
        Speaker::System => Role::System,
    };
    let mut left = TEXT;
    let (text, mut is_cut) = cut(&message.content, &mut left);
    let mut calls = Vec::new();
    for call in &message.tool_calls {
        let (arguments, cut_here) = cut(&call.arguments, &mut left);
        is_cut |= cut_here;
        calls.push(Call {
            call_id: call.id.clone(),
            tool_name: call.name.clone(),
            category: category(&call.name),
            arguments,
        });
    }
    let call_id = Some(message.tool_call_id.clone()).filter(|id| !id.is_empty());
    Message { role, text, cut: is_cut, calls, call_id, outcome: None }
}

/// As much of a text as has room, measured as JSON writes it, and whether that is not all.
pub fn cut(text: &str, left: &mut usize) -> (String, bool) {
    let mut taken = 0_usize;
    for letter in text.chars() {
        let bytes = match letter {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            letter if letter.is_control() => 6,
            letter => letter.len_utf8(),
        };
        let Some(rest) = left.checked_sub(bytes) else { break };
        *left = rest;
        taken = taken.saturating_add(letter.len_utf8());
    }
    (text.get(..taken).unwrap_or_default().into(), taken < text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_client_protocol::result::Done;
    use capos_client_protocol::{Id, encode_result};
    use capos_schema::models::ToolCall;
    use proptest::prelude::*;

    fn conversation(texts: &[String]) -> Conversation {
        let mut conversation = Conversation::new("c".into());
        for (turn, text) in (1..).zip(texts) {
            let call = ToolCall { id: "1".into(), name: "t".into(), arguments: text.clone(), ..ToolCall::default() };
            let message = ChatMessage {
                role: Speaker::Assistant,
                content: text.clone(),
                tool_calls: Vec::from([call]),
                ..ChatMessage::default()
            };
            conversation.push(message, (turn, 0), "m", Vec::new());
        }
        conversation
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Page by page, all messages come, and each page has room in a line.
        #[test]
        fn c16_a_resumed_conversation_comes_in_lines(
            texts in proptest::collection::vec(("[a\"\n\u{1}é]{1,40}", 1_usize..6000), 0..40),
        ) {
            let texts: Vec<String> = texts.into_iter().map(|(text, times)| text.repeat(times)).collect();
            let conversation = conversation(&texts);
            let (mut from, mut count) = (0, 0);
            loop {
                let page = messages(&conversation, from, |_| "mutating".into());
                count += page.messages.len();
                let next = page.next;
                prop_assert!(encode_result(&Id::Number(1), &Done::Messages(page)).is_ok());
                match next {
                    None => break,
                    Some(next) => {
                        prop_assert!(next > from);
                        from = next;
                    }
                }
            }
            prop_assert_eq!(count, texts.len());
        }
    }

    #[test]
    fn c16_a_text_that_is_cut_says_so() {
        let long = conversation(&["é".repeat(50_000)]);
        let page = messages(&long, 0, |_| String::new());
        assert!(page.messages[0].cut && page.messages[0].text.len() <= TEXT);
        let short = conversation(&["é\n".into()]);
        let page = messages(&short, 0, |_| String::new());
        assert!(!page.messages[0].cut && page.messages[0].calls[0].arguments == "é\n");
        assert!(messages(&short, 7, |_| String::new()).messages.is_empty());
    }
}
