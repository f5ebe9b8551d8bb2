//! What a model is asked: the system prompt, the tools, and as much of the conversation as can be sent.

use alloc::format;
use alloc::vec::Vec;

use capos_plural::count;
use capos_schema::models::{ChatMessage, InferenceRequest, ModelInfo, Role};

use super::Agent;
use super::window::of_tools;
use crate::answer::infer::about_tokens;
use crate::conversation::Entry;
use crate::conversation::plain::plain;
use crate::conversation::sendable::{Fixed, Sendable, sendable};
use crate::conversation::shown::{Shown, goal};
use crate::snapshot::Snapshot;
use crate::turn_end::TurnEnd;
use crate::world::{Show, World};

/// A token has this many times the bytes of one that is estimated, at most.
const LONGEST_TOKEN: u64 = 4;

impl<W: World> Agent<W> {
    /// Bytes of the next request, about.
    pub(super) fn size(&self, snapshot: &Snapshot) -> usize {
        let shown = Shown::of(self.conversation.entries()).entries;
        let said = shown.iter().map(|(_, entry)| entry.message.content.len());
        let tools = snapshot.tools().iter().map(|tool| {
            let found = &tool.descriptor;
            found.param_schema.len().saturating_add(found.description.len())
        });
        let lessons = self.lessons.iter().map(|lesson| lesson.text.len());
        said.chain(tools).chain(lessons).fold(self.system.len(), usize::saturating_add)
    }

    /// What the model is asked, and how many messages of the conversation are not in it.
    ///
    /// # Errors
    /// What has to be in it cannot fit into the model.
    pub(super) fn request(
        &self,
        snapshot: &Snapshot,
        model: &ModelInfo,
        nonce: &[u8],
    ) -> Result<(InferenceRequest, usize), TurnEnd> {
        let system = ChatMessage { role: Role::System, content: self.system_prompt(), ..ChatMessage::default() };
        let entries = self.conversation.entries();
        let shown = Shown::of(entries);
        let mut messages = Vec::from([system]);
        messages.extend(self.lessons());
        messages.extend(shown.standing());
        let head = messages.len();
        let said: Vec<&Entry> = shown.entries.iter().map(|(_, entry)| *entry).collect();
        let asked = goal(entries, self.conversation.last_turn()).unwrap_or_default();
        let until_asked = shown.entries.iter().take_while(|(number, _)| *number <= asked).count();
        let before = plain(said.get(..until_asked).unwrap_or_default(), self.plain_until).len();
        messages.extend(plain(&said, self.plain_until));
        let room = self.room(snapshot, model);
        // No summary came of it. The worker of any other model knows better what fits.
        let most = match model.summarises && room.used > room.request {
            true => room.bytes(of_tools(snapshot)).min(self.bounds.request),
            false => self.bounds.request,
        };
        let fixed = Fixed { head, goal: head.saturating_add(before).saturating_sub(1) };
        let Sendable { messages, goal, removed } = sendable(messages, fixed, most);
        let left = self.left.map_or(u32::MAX, |left| u32::try_from(left).unwrap_or(u32::MAX));
        let request = InferenceRequest {
            messages,
            goal: u32::try_from(goal).unwrap_or_default(),
            tools: snapshot.descriptors(),
            max_tokens: self.session.limits.max_tokens_per_call.min(left),
            nonce: nonce.to_vec(),
            // No person reads such an answer to its end.
            end_repetition: true,
            ..InferenceRequest::default()
        };
        let (least, window) = (about_tokens(&request) / LONGEST_TOKEN, u64::from(model.context_tokens));
        if model.summarises && window > 0 && least > window {
            return Err(TurnEnd::Model(format!(
                "the request, the last results and the tools do not fit into the {} of this model, even without the earlier \
                 conversation; choose another one with /model, or ask for less",
                count(window, "token")
            )));
        }
        Ok((request, removed))
    }

    /// Tells the person how many messages of the conversation the model does not see, whenever the number has changed.
    pub(crate) async fn tell_removed(&mut self, (unsent, unread): (usize, usize), why: &str) {
        let messages = unsent.saturating_add(unread);
        if self.removed == (unsent, unread) || messages == 0 {
            return;
        }
        self.removed = (unsent, unread);
        let text = format!(
            "the conversation is too long {why}: the model does not see {} of it; /stop begins a new one",
            count(messages, "older message")
        );
        self.world.show(Show::Notice(&text)).await;
    }
}
