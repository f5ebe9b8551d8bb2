//! A conversation as long as a message of the kernel can be.

use alloc::string::String;
use alloc::vec::Vec;

use capos_compaction::{Speaker, Steps};
use capos_schema::models::{ChatMessage, Role};

/// Bytes that a message takes besides its texts, about: its places, labels and lengths.
const AROUND: usize = 128;
/// The part of what can be sent that is left out at once, so that a model need not read the rest again each time.
const PART: usize = 4;

/// The messages without the oldest of them, if all of them have more than `most` bytes; and how many were left out. Where
/// even the rest has more, it is sent as it is, and rejected.
pub fn sendable(messages: Vec<ChatMessage>, most: usize) -> (Vec<ChatMessage>, usize) {
    let steps = Steps::of(messages.iter().map(|message| (speaker(message.role), bytes(message))));
    let length = |count: usize| -> usize {
        steps.kept(count).filter_map(|kept| messages.get(kept.place)).map(bytes).fold(0, usize::saturating_add)
    };
    let fitting =
        steps.fitting(most.div_ceil(PART), |count| Ok::<bool, core::convert::Infallible>(length(count) <= most));
    let count = match fitting {
        Ok(Some(0)) => return (messages, 0),
        Ok(found) => found.unwrap_or(steps.count()),
        Err(never) => match never {},
    };
    let before = messages.len();
    let messages = steps.shorten(messages, count, |message| &mut message.content);
    let removed = before.saturating_sub(messages.len());
    (messages, removed)
}

fn speaker(role: Role) -> Speaker {
    match role {
        Role::System => Speaker::System,
        Role::User => Speaker::Person,
        Role::Assistant => Speaker::Model,
        Role::Tool => Speaker::Tool,
    }
}

fn bytes(message: &ChatMessage) -> usize {
    let texts = |texts: &[&String]| texts.iter().fold(AROUND, |sum, text| sum.saturating_add(text.len()));
    let calls = message.tool_calls.iter().map(|call| texts(&[&call.id, &call.name, &call.handle, &call.arguments]));
    calls.fold(texts(&[&message.content]), usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;
    use proptest::prelude::*;

    fn says(role: Role, content: &str) -> ChatMessage {
        ChatMessage { role, content: content.to_string(), ..ChatMessage::default() }
    }

    /// Requirement F03: in the middle of a turn, too.
    #[test]
    fn f03_a_long_conversation_is_cut_to_what_can_be_sent() {
        let mut messages = Vec::from([says(Role::System, "Be brief."), says(Role::User, "Read it all.")]);
        for number in 0..20 {
            messages.push(says(Role::Assistant, &format!("I read part {number}.")));
            messages.push(says(Role::Tool, &"x".repeat(1000)));
        }
        let (whole, removed) = sendable(messages.clone(), 1 << 20);
        assert_eq!((whole, removed), (messages.clone(), 0));
        let (cut, removed) = sendable(messages.clone(), 8000);
        assert_eq!(cut.len() + removed, messages.len());
        assert_eq!(cut[..2], messages[..2], "the system's words and what the person asked are the same bytes");
        assert_eq!(cut[2].content, format!("{}\n\nI read part {}.", capos_compaction::marker(removed), removed / 2));
        assert_eq!(cut.last(), messages.last());
        assert!(cut.iter().map(bytes).sum::<usize>() <= 8000);
        // It cannot be cut to fit: it is as short as it can be.
        let (cut, removed) = sendable(messages, 100);
        assert_eq!((cut.len(), removed), (4, 38));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

        /// Requirement F03: whatever a conversation holds, the request fits, or cannot be shorter.
        #[test]
        fn f03_what_is_sent_fits_or_is_the_least(lengths in prop::collection::vec((0_usize..3, 0_usize..400), 1..60)) {
            let roles = [Role::User, Role::Assistant, Role::Tool];
            let mut messages = Vec::from([says(Role::System, "s")]);
            for (role, length) in lengths {
                messages.push(says(roles[role], &"x".repeat(length)));
                let (sent, removed) = sendable(messages.clone(), 2000);
                let size: usize = sent.iter().map(bytes).sum();
                let (least, most) = sendable(messages.clone(), 0);
                prop_assert!(size <= 2000 + 2 * AROUND || sent == least, "{} bytes", size);
                prop_assert!(removed <= most && sent.len() + removed == messages.len());
                prop_assert_eq!(&sent[0], &messages[0]);
                let last = messages.iter().rfind(|message| message.role == Role::User).map(|message| &message.content);
                let kept: Vec<&String> = sent.iter().filter(|message| message.role == Role::User).map(|message| &message.content).collect();
                prop_assert!(last.is_none_or(|last| kept.last().is_some_and(|kept| kept.ends_with(last.as_str()))));
            }
        }
    }
}
