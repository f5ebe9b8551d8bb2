//! The messages of a turn: each is saved and recorded before anything comes of it.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use capos_schema::audit::GeneralEvent;
use capos_schema::authority::{Label, Provenance};
use capos_schema::models::{ChatMessage, Role, ToolResult};

use super::Agent;
use crate::conversation::{Known, hex};
use crate::evidence::general_size;
use crate::result::text;
use crate::snapshot::Mark;
use crate::world::{Show, World, field};

impl<W: World> Agent<W> {
    /// Appends the result of a call with the sequences of its records.
    pub(super) async fn append_result(&mut self, result: ToolResult, turn: u32, is_recorded: bool, records: &[u64]) {
        let known = Known { outcome: Some(result.outcome), ..Known::default() };
        let message = ChatMessage {
            role: Role::Tool,
            content: text(&result),
            tool_call_id: result.call_id,
            tool_calls: Vec::new(),
            provenance: result.provenance,
            label: result.label,
        };
        self.take(message, turn, Vec::new(), known);
        self.conversation.note_records(records.iter().copied());
        if is_recorded {
            self.record_message(turn).await;
        }
        self.keep().await;
    }

    fn take(&mut self, message: ChatMessage, turn: u32, tools: Vec<Mark>, known: Known) {
        self.conversation.push(message, (turn, self.world.now()), &self.world.info().id, tools);
        self.conversation.note(self.course.steps(), known);
    }

    /// Has the last message saved. It is recorded before, so that it names its record.
    async fn keep(&mut self) {
        self.keep_with(self.checkpoint()).await;
    }

    /// Appends what the model is told in the middle of a turn that is not the person's word.
    pub(crate) async fn remind(&mut self, message: ChatMessage) {
        self.append(message, self.conversation.last_turn(), Vec::new()).await;
    }

    /// Tells the model in its next request that this one was stopped, and why there is no answer to it.
    pub(super) async fn say_filtered(&mut self, label: Label) {
        let content =
            "(From the system, not from the person.) Your content filter stopped the answer to this, so there is none.";
        let (role, content) = (Role::User, content.to_string());
        self.remind(ChatMessage { role, content, label, ..ChatMessage::default() }).await;
    }

    /// Appends a message, records that there is one (its role, time, length and hash, not what it says), and has it saved.
    pub(super) async fn append(&mut self, message: ChatMessage, turn: u32, tools: Vec<Mark>) {
        self.take(message, turn, tools, Known::default());
        self.record_message(turn).await;
        self.keep().await;
    }

    /// The same of an answer, of which its worker says the tokens and whether it was cut at a limit.
    pub(super) async fn append_answer(&mut self, message: ChatMessage, turn: u32, (tokens, is_cut): (u32, bool)) {
        let known = Known { tokens: Some(tokens).filter(|tokens| *tokens > 0), is_cut, ..Known::default() };
        self.append_known(message, turn, known).await;
    }

    /// The same of a message of which more is known.
    pub(super) async fn append_known(&mut self, message: ChatMessage, turn: u32, known: Known) {
        self.take(message, turn, Vec::new(), known);
        self.record_message(turn).await;
        self.keep().await;
    }

    async fn record_message(&mut self, turn: u32) {
        let Some(entry) = self.conversation.entries().last() else { return };
        let message = &entry.message;
        let Label { classes } = &message.label;
        let event = GeneralEvent {
            kind: "message".to_string(),
            session: self.session.id.clone(),
            principal: self.session.principal.clone(),
            fields: Vec::from([
                field("conversation", self.conversation.id.as_str()),
                field("message", entry.id.as_str()),
                field("turn", turn.to_string()),
                field("role", message.role.name()),
                field("atNanoseconds", entry.at.to_string()),
                field("length", message.content.len().to_string()),
                field("hash", hex(&entry.hash)),
                field("provenance", message.provenance.name()),
                field("label", classes.join(" ")),
                field("toolCallId", message.tool_call_id.as_str()),
            ]),
        };
        // The person's own message is the person's word.
        if message.role != Role::User || message.provenance == Provenance::Untrusted {
            self.allowance.count(general_size(&event));
        }
        let is_request = message.role == Role::User;
        match self.world.general(&event).await {
            Ok(sequence) => self.conversation.note_records([sequence]),
            Err(why) if is_request => {
                let text = format!("the audit log takes no records ({why}); no tool runs until it does");
                self.world.show(Show::Notice(&text)).await;
            }
            Err(_) => {}
        }
    }
}
