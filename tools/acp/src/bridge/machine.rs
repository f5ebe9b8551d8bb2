//! What the machine sends.

use std::time::Duration;

use capos_client_protocol::event::{Event, SessionEvent};
use capos_client_protocol::result::PatchPreview;
use capos_client_protocol::{Answer, AnswerError, FromHost, Id, Line, RpcError, code, decode_from_host};
use serde::de::DeserializeOwned;

use super::session::editor_error;
use super::{Bridge, End, MALFORMED, Machine, Pending, prompt};

/// The result that a method answers with.
fn read<T: DeserializeOwned>(answer: &Answer<'_>) -> Result<T, RpcError> {
    answer.result().map_err(|why| match why {
        AnswerError::Host(why) => why,
        AnswerError::Malformed(why) => {
            let message = format!("the machine's answer cannot be read, which may be of another version: {why}");
            RpcError::new(code::INTERNAL, message)
        }
    })
}

impl Bridge {
    /// Takes a line of the machine.
    pub fn machine_line(&mut self, line: &Line, now: Duration) {
        self.now = now;
        let found = match line {
            Line::Whole(line) => decode_from_host(line).map_err(|why| why.0),
            Line::TooLong(_) => Err("it is too long".into()),
        };
        match found {
            Ok(found) => {
                self.malformed = 0;
                match found {
                    FromHost::Answer(answer) => self.machine_answer(&answer),
                    FromHost::Event(event) => self.event(*event),
                    FromHost::Unknown(_) => {}
                }
            }
            // What is left of another client's session, or of a boot.
            Err(_) if matches!(self.machine, Machine::Greeting { .. } | Machine::Gone(_)) => {}
            Err(why) => {
                self.out.log.push(format!("a line of the machine cannot be read, and is left out: {why}"));
                self.malformed = self.malformed.saturating_add(1);
                if self.malformed >= MALFORMED {
                    self.lose(
                        "the machine sends nothing that can be read: its client port is used by another program, or \
                         it is of another version. Start the machine and this agent again",
                    );
                }
            }
        }
    }

    fn machine_answer(&mut self, answer: &Answer<'_>) {
        let id = match &answer.id {
            Some(Id::Number(id)) => *id,
            Some(Id::Text(_)) => return,
            None => {
                // The machine could not read a line of ours: that of another client, or one that was damaged.
                if let Some(why) = answer.error().filter(|_| !matches!(self.machine, Machine::Greeting { .. })) {
                    self.out.log.push(format!("the machine could not read a line: {why}"));
                }
                return;
            }
        };
        let Some((pending, _)) = self.pending.remove(&id) else { return };
        match pending {
            Pending::Greeting => self.greeted(&read(answer)),
            Pending::Login => self.logged_in(read(answer)),
            Pending::Leave(request) => self.left(request),
            Pending::Goodbye => self.out.end = Some(End::Done),
            Pending::Start => self.started(read(answer)),
            Pending::Preview(id) => match read::<PatchPreview>(answer) {
                Ok(preview) => self.put(&id, &preview),
                // The question shows the arguments.
                Err(_) => self.put(&id, &PatchPreview::default()),
            },
            Pending::Cancel | Pending::Approve => {
                if let Some(why) = answer.error() {
                    self.failed(pending, why);
                }
            }
            Pending::Resume { request, conversation, is_load } => match read(answer) {
                Ok(found) if is_load => self.messages(request, conversation, 0, found),
                Ok(found) => self.resumed(&request, conversation, &found),
                Err(why) => self.reject(&request, &editor_error(&why)),
            },
            Pending::Page { request, conversation, from } => match read(answer) {
                Ok(found) => self.messages(request, conversation, from, found),
                Err(why) => self.reject(&request, &editor_error(&why)),
            },
            Pending::List { request, cwd } => match read(answer) {
                Ok(found) => self.listed(&request, cwd, found),
                Err(why) => self.reject(&request, &editor_error(&why)),
            },
        }
    }

    /// A request to the machine was not done.
    pub(super) fn failed(&mut self, pending: Pending, why: &RpcError) {
        match pending {
            Pending::Greeting => {}
            Pending::Login => self.logged_in(Err(RpcError::new(code::INTERNAL, why.message.clone()))),
            Pending::Leave(request) => match &self.machine {
                Machine::Gone(_) => {
                    if let Some(request) = request {
                        self.reject(&request, &editor_error(why));
                    }
                }
                _ => self.left(request),
            },
            Pending::Goodbye => self.out.end = Some(End::Done),
            Pending::Start => self.started(Err(why.clone())),
            Pending::Preview(id) => self.put(&id, &PatchPreview::default()),
            Pending::Approve => self.not_decided(why),
            // The task may have ended in between.
            Pending::Cancel => {}
            Pending::Resume { request, .. } | Pending::Page { request, .. } | Pending::List { request, .. } => {
                self.reject(&request, &editor_error(why));
            }
        }
    }

    fn event(&mut self, event: SessionEvent) {
        let SessionEvent { chain, event } = event;
        // Of a session that was left over, or has ended.
        if !matches!(self.machine, Machine::In(_)) {
            return;
        }
        match event {
            Event::TextChunk(chunk) if self.prompt.is_some() => {
                if chunk.lost_bytes > 0 {
                    self.tell(&format!("{} bytes of text were lost: this editor reads too slowly.", chunk.lost_bytes));
                }
                self.update(prompt::said(chunk.text));
            }
            Event::TaskCompleted(how) => self.task_ended(&chain.task_id, how),
            Event::ToolRequested(call) => self.call_requested(call),
            Event::ToolStarted(call) => self.call_started(&call.call_id),
            Event::ToolCompleted(call) => self.call_completed(&call),
            Event::ApprovalRequested(request) => self.approval_requested(request),
            Event::ApprovalResolved(resolved) => {
                self.withdraw(&resolved.approval_id);
            }
            Event::ApprovalTimeout(timeout) => {
                if self.withdraw(&timeout.approval_id) {
                    self.tell("Nobody answered in time, so the call was rejected.");
                }
            }
            Event::StepLimitApproaching(limit) => {
                self.tell(&format!("{} of {} steps of this task are used.", limit.step_count, limit.max_steps));
            }
            Event::PolicyExpired(_) => {
                self.tell("The session's policy has expired: close the session and begin another.")
            }
            Event::Notice(notice) => self.tell(&notice.text),
            Event::SessionFailed(failed) => self.ended(&failed.reason),
            Event::SessionCompleted(_) => self.ended("it was shut down"),
            Event::TextChunk(_)
            | Event::SessionStarted(_)
            | Event::StepStarted(_)
            | Event::StepCompleted(_)
            | Event::LlmRequestStarted(_)
            | Event::LlmRequestCompleted(_) => {}
        }
    }
}
