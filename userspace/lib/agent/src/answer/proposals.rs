//! The calls that a response proposes, each with an id that nothing else in the conversation has.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_policy::{BY_HAND, STEP};
use capos_schema::models::{FinishReason, Outcome, ToolCall};

use crate::answer::response::{Draft, Response};
use crate::call::{Proposal, flaw};
use crate::conversation::Conversation;
use crate::limits::Bounds;
use crate::result::Why;

/// The ids of a conversation's calls.
#[derive(Default)]
struct Ids {
    taken: BTreeSet<String>,
    /// The last number that was tried behind an id: those before it are taken.
    numbers: BTreeMap<String, u32>,
    /// How often a number was tried.
    #[cfg(test)]
    tries: usize,
}

impl Ids {
    fn of(conversation: &Conversation) -> Self {
        let calls = conversation.entries().iter().flat_map(|entry| &entry.message.tool_calls);
        Self { taken: calls.map(|call| call.id.clone()).collect(), ..Self::default() }
    }

    /// The id itself, or where it is taken with a number behind it.
    fn take(&mut self, wanted: String) -> String {
        if self.taken.insert(wanted.clone()) {
            return wanted;
        }
        let mut number = self.numbers.get(&wanted).copied().unwrap_or(1);
        loop {
            number = number.saturating_add(1);
            #[cfg(test)]
            {
                self.tries += 1;
            }
            let id = format!("{wanted}~{number}");
            if self.taken.insert(id.clone()) {
                self.numbers.insert(wanted, number);
                return id;
            }
        }
    }
}

/// The calls of a response to a conversation.
pub fn proposals(conversation: &Conversation, response: &Response, turn: u32, bounds: &Bounds) -> Vec<Proposal> {
    let mut ids = Ids::of(conversation);
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut proposals: Vec<Proposal> = Vec::new();
    for (draft, number) in response.calls.iter().zip(1_usize..) {
        let doubled = !draft.id.is_empty() && !seen.insert(&draft.id);
        // Calls that a person makes, and the questions of a call's program, have ids of these forms.
        let is_reserved = draft.id.starts_with(BY_HAND) || draft.id.contains(STEP);
        let wanted = match draft.id.is_empty() || is_reserved {
            true => format!("call-{turn}-{number}"),
            false => draft.id.clone(),
        };
        let is_last = number == response.calls.len();
        let dropped = if is_last { response.surplus } else { 0 };
        let flaw = if number > bounds.calls {
            let why = match dropped {
                0 => format!("an answer may propose {} calls; this one is not run", bounds.calls),
                _ => {
                    format!("an answer may propose {} calls; this one and {dropped} after it are not run", bounds.calls)
                }
            };
            Some((Outcome::RefusedByPolicy, Why::own(why)))
        } else if is_last && is_cut_off(response) {
            let why = "the answer was cut off before the call's arguments; ask for less at once".into();
            Some((Outcome::InvalidArguments, why))
        } else {
            flaw(draft, doubled, bounds)
        };
        let call = ToolCall {
            id: ids.take(wanted),
            name: draft.name.clone(),
            arguments: draft.arguments.clone(),
            handle: draft.handle.clone(),
        };
        proposals.push(Proposal { call, flaw, whole: draft.whole(), dropped });
    }
    proposals
}

/// Whether an answer ended at its limit with its last call's arguments still to come. Those that had begun are refused as
/// what they are, but none at all would be those of a tool that takes none.
fn is_cut_off(response: &Response) -> bool {
    let empty = |draft: &Draft| draft.arguments.trim().is_empty();
    response.finish == Some(FinishReason::Length) && response.calls.last().is_some_and(empty)
}

#[cfg(test)]
#[allow(clippy::field_reassign_with_default, reason = "the other fields are not public")]
mod tests {
    use super::*;
    use capos_schema::models::ChatMessage;

    const MANY: u32 = 10_000;

    /// A response with one call for each of these ids.
    fn response(ids: impl Iterator<Item = String>) -> Response {
        let draft = |id| {
            let mut draft = Draft::default();
            draft.id = id;
            draft
        };
        let mut response = Response::new(Bounds::default());
        response.calls = ids.map(draft).collect();
        response
    }

    fn ids(conversation: &Conversation, response: &Response) -> Vec<String> {
        let found = proposals(conversation, response, 7, &Bounds::default());
        let ids: Vec<String> = found.into_iter().map(|proposal| proposal.call.id).collect();
        let different: BTreeSet<&String> = ids.iter().collect();
        assert_eq!(different.len(), ids.len());
        ids
    }

    #[test]
    fn all_calls_within_the_bound_are_proposed_and_one_stands_for_the_others() {
        let conversation = Conversation::new("c".into());
        let bounds = Bounds { calls: 3, ..Bounds::default() };
        for (calls, surplus, flaws, dropped, why) in [
            (3, 0, 0, 0, ""),
            (4, 0, 1, 0, "an answer may propose 3 calls; this one is not run"),
            (4, 7, 1, 7, "an answer may propose 3 calls; this one and 7 after it are not run"),
        ] {
            let mut response = response((0..calls).map(|number| format!("c{number}")));
            response.calls.iter_mut().for_each(|call| call.arguments = "{}".into());
            response.surplus = surplus;
            let found = proposals(&conversation, &response, 7, &bounds);
            let refused: Vec<_> = found.iter().filter_map(|proposal| proposal.flaw.clone()).collect();
            assert_eq!((found.len(), refused.len()), (calls, flaws));
            assert_eq!(found.iter().map(|proposal| proposal.dropped).sum::<u64>(), dropped);
            assert!(refused.iter().all(|(_, reason)| reason.text() == why), "{why}");
        }
    }

    #[test]
    fn a_call_whose_arguments_were_cut_off_whole_is_refused() {
        let conversation = Conversation::new("c".into());
        let mut response = response(["a", "b"].into_iter().map(Into::into));
        let flaws = |response: &Response| -> Vec<bool> {
            let found = proposals(&conversation, response, 7, &Bounds::default());
            found.iter().map(|proposal| matches!(proposal.flaw, Some((Outcome::InvalidArguments, _)))).collect()
        };
        for (finish, expected) in [(FinishReason::ToolCalls, [false, false]), (FinishReason::Length, [false, true])] {
            response.finish = Some(finish);
            assert_eq!(flaws(&response), expected);
        }
        response.calls[1].arguments = "{}".into();
        assert_eq!(flaws(&response), [false, false]);
    }

    #[test]
    fn ids_are_unique_in_the_conversation_and_told_apart_by_a_number() {
        let mut conversation = Conversation::new("c".into());
        let call = |id: &str| ToolCall { id: id.into(), ..ToolCall::default() };
        let tool_calls = Vec::from([call("a"), call("a~2"), call("call-7-4")]);
        conversation.push(ChatMessage { tool_calls, ..ChatMessage::default() }, (1, 0), "", Vec::new());
        let wanted = ["a", "a", "b", "", "b", "a~3"];
        let found = ids(&conversation, &response(wanted.into_iter().map(Into::into)));
        assert_eq!(found, ["a~3", "a~4", "b", "call-7-4~2", "b~2", "a~3~2"]);
    }

    /// Whatever the ids are, each number behind one is tried once.
    #[test]
    fn ten_thousand_proposals_cost_ten_thousand_steps() {
        let same = || (0..MANY).map(|_| String::from("x"));
        let in_the_way = || (2..MANY).map(|number| format!("x~{number}"));
        let (all, none) = (response(same().chain(in_the_way())), response((0..MANY).map(|n| format!("c{n}"))));
        let conversation = Conversation::new("c".into());
        assert_eq!(ids(&conversation, &all).len(), 2 * MANY as usize - 2);
        assert_eq!(ids(&conversation, &none).len(), MANY as usize);
        for wanted in [Vec::from_iter(same().chain(in_the_way())), Vec::from_iter(in_the_way().chain(same()))] {
            let mut ids = Ids::default();
            let count = wanted.len();
            wanted.into_iter().for_each(|id| drop(ids.take(id)));
            assert!(ids.tries <= 2 * count, "{} tries for {count} ids", ids.tries);
        }
    }
}
