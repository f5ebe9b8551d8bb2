//! A conversation as long as a message of the kernel can be.

use alloc::string::String;
use alloc::vec::Vec;

use capos_compaction::Steps;
use capos_schema::models::{ChatMessage, Role};

use crate::conversation::shown::speaker;

/// Bytes that a message takes besides its texts, about: its places, labels and lengths.
const AROUND: usize = 128;
/// The part of what can be sent that is left out at once, so that a model need not read the rest again each time.
const PART: usize = 4;

/// Which messages are never left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// As many at the beginning.
    pub head: usize,
    /// The place of the present request.
    pub goal: usize,
}

/// What is sent of a conversation.
#[derive(Debug, PartialEq, Eq)]
pub struct Sendable {
    pub messages: Vec<ChatMessage>,
    /// The place of the present request.
    pub goal: usize,
    /// How many messages were left out.
    pub removed: usize,
}

/// The messages without the oldest of them, if all of them have more than `most` bytes. If even the rest has more, it is
/// sent unchanged, and rejected.
pub fn sendable(messages: Vec<ChatMessage>, Fixed { head, goal }: Fixed, most: usize) -> Sendable {
    let speakers = messages.iter().enumerate().map(|(place, message)| {
        let role = if place < head { Role::System } else { message.role };
        (speaker(role, place > goal), bytes(message))
    });
    let steps = Steps::of(speakers);
    let length = |count: usize| -> usize {
        steps.kept(count).filter_map(|kept| messages.get(kept.place)).map(bytes).fold(0, usize::saturating_add)
    };
    let fitting =
        steps.fitting(most.div_ceil(PART), |count| Ok::<bool, core::convert::Infallible>(length(count) <= most));
    let count = match fitting {
        Ok(Some(0)) => return Sendable { messages, goal, removed: 0 },
        Ok(found) => found.unwrap_or(steps.count()),
        Err(never) => match never {},
    };
    let before = messages.len();
    let goal = steps.kept(count).position(|kept| kept.place == goal).unwrap_or(goal);
    let messages = steps.shorten(messages, count, |message| &mut message.content);
    let removed = before.saturating_sub(messages.len());
    Sendable { messages, goal, removed }
}

/// Bytes of a message, about.
pub fn bytes(message: &ChatMessage) -> usize {
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
        let fixed = Fixed { head: 1, goal: 1 };
        let whole = sendable(messages.clone(), fixed, 1 << 20);
        assert_eq!((whole.messages, whole.removed), (messages.clone(), 0));
        let Sendable { messages: cut, goal, removed } = sendable(messages.clone(), fixed, 8000);
        assert_eq!(goal, 1);
        assert_eq!(cut.len() + removed, messages.len());
        assert_eq!(cut[..2], messages[..2], "the system's words and what the person asked are the same bytes");
        assert_eq!(cut[2].content, format!("{}\n\nI read part {}.", capos_compaction::marker(removed), removed / 2));
        assert_eq!(cut.last(), messages.last());
        assert!(cut.iter().map(bytes).sum::<usize>() <= 8000);
        // It cannot be cut to fit: it is as short as it can be.
        let found = sendable(messages.clone(), fixed, 100);
        assert_eq!((found.messages.len(), found.removed), (4, 38));
        // What stands before the conversation, such as a summary, stays in any case.
        let found = sendable(messages, Fixed { head: 4, goal: 1 }, 100);
        assert_eq!((found.messages.len(), found.removed), (6, 36));
    }

    /// Requirement F06: what the runner says in the middle of a turn has the role of a person, and is not the request.
    #[test]
    fn f06_the_request_stays_when_the_runner_has_spoken() {
        let old = [says(Role::User, "Old."), says(Role::Assistant, "Done.")];
        let turn = [says(Role::User, "Do it."), says(Role::Assistant, "I have."), says(Role::User, "Not yet.")];
        let rest = [says(Role::Assistant, "Now."), says(Role::Assistant, "And now.")];
        let messages = [says(Role::System, "s")].into_iter().chain(old).chain(turn).chain(rest).collect();
        let found = sendable(messages, Fixed { head: 1, goal: 3 }, 0);
        let texts: Vec<&str> = found.messages.iter().map(|message| message.content.as_str()).collect();
        assert_eq!(found.goal, 1);
        assert!(texts[1].ends_with("Do it.") && texts[2].ends_with("And now.") && texts.len() == 3, "{texts:?}");
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
                let goal = messages.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
                let fixed = Fixed { head: 1, goal };
                let Sendable { messages: sent, removed, .. } = sendable(messages.clone(), fixed, 2000);
                let size: usize = sent.iter().map(bytes).sum();
                let Sendable { messages: least, removed: most, .. } = sendable(messages.clone(), fixed, 0);
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
