//! One answer of the model.

use alloc::format;
use alloc::string::{String, ToString};

use capos_run_state::Event;
use capos_schema::cap::LocalBoxFuture;
use capos_schema::models::{
    ChatMessage, FinishReason, InferenceRequest, StreamChunk, StreamChunkLoose, TokenUsage, ToolCallDelta,
};

use crate::agent::Agent;
use crate::answer::response::Response;
use crate::race::{Either, race};
use crate::turn_end::TurnEnd;
use crate::world::{Broken, ModelStream, Show, Unasked, World};

/// How often a request is made again to which no whole answer came.
const AGAIN: u32 = 3;
/// The longest wait before the first of these, in nanoseconds; that before each other is twice as long.
const WAIT: u64 = 500_000_000;

/// What becomes of an answer that is not whole, for the person.
const BROKE_OFF: &str = "the model's answer broke off and is dropped";
const NOT_TAKEN: &str = "the model did not take the request";

/// Whether an answer is shown while it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It is for the person.
    Shown,
    /// It is for the runner, and only how far the model has read is shown.
    Silent,
}

/// What came of asking the model.
pub(crate) enum Inferred {
    Whole(Response),
    Interrupted,
    Time,
    Limit(String),
    Repeated,
    Rejected(String),
    /// There is no whole answer, and a moment later there may be one: what became of this one, and why.
    Broken(&'static str, String),
    /// The model's content filter stopped the answer.
    Filtered,
    Failed(String),
}

impl<W: World> Agent<W> {
    /// Has the model answer until `deadline`, in nanoseconds since boot, and shows each piece of the answer when it comes.
    pub(crate) async fn infer(
        &mut self,
        request: &InferenceRequest,
        model: &str,
        interrupt: &mut LocalBoxFuture<'static, ()>,
        (manner, deadline): (Manner, u64),
    ) -> Inferred {
        let is_shown = manner == Manner::Shown;
        self.was_cut = false;
        let (course, asked) = (self.course().clone(), self.world().now());
        course
            .emit(asked, Event::ModelRequestStarted { model: model.to_string(), input_tokens: about_tokens(request) });
        let mut deadline = self.world().sleep_until(deadline);
        let opened = {
            let stop = race(interrupt.as_mut(), deadline.as_mut());
            race(self.world().stream(request), stop).await
        };
        let mut stream = match opened {
            Either::Left(Ok(stream)) => stream,
            Either::Left(Err(Unasked::Limit(why))) => return Inferred::Limit(why),
            Either::Left(Err(Unasked::Rejected(why))) => return Inferred::Rejected(why),
            Either::Left(Err(Unasked::Away(why))) => return Inferred::Broken(NOT_TAKEN, why),
            Either::Left(Err(Unasked::Failed(why))) => return Inferred::Failed(why),
            Either::Right(Either::Left(())) => return Inferred::Interrupted,
            Either::Right(Either::Right(())) => return Inferred::Time,
        };
        let mut response = Response::new(*self.bounds());
        let end = loop {
            let next = {
                let stop = race(interrupt.as_mut(), deadline.as_mut());
                race(stop, stream.next()).await
            };
            let (chunk, done) = match next {
                Either::Right(Ok(piece)) => piece,
                Either::Right(Err(Broken::Off(why))) => break Inferred::Broken(BROKE_OFF, why),
                Either::Right(Err(Broken::Failed(why))) => break Inferred::Failed(why),
                Either::Left(Either::Left(())) => break Inferred::Interrupted,
                Either::Left(Either::Right(())) => break Inferred::Time,
            };
            match &chunk {
                StreamChunk::TextDelta(text) if !text.is_empty() && is_shown => {
                    course.emit(self.world().now(), Event::TextChunk { text: text.clone() });
                    self.world().show(Show::Text(text)).await;
                }
                StreamChunk::Progress(progress) => {
                    self.world().show(Show::Progress { done: progress.done, total: progress.total }).await;
                }
                StreamChunk::ToolCallDelta(ToolCallDelta { index, name, arguments, .. }) if is_shown => {
                    self.world().show(Show::CallPiece { index: *index, name, arguments }).await;
                }
                StreamChunk::Removed(messages) => {
                    self.was_cut |= *messages > 0;
                    if !is_shown {
                        continue;
                    }
                    let messages = usize::try_from(*messages).unwrap_or(usize::MAX);
                    self.tell_removed((self.removed.0, messages), "for this model").await;
                }
                StreamChunk::Loose(StreamChunkLoose { tool, why })
                    if request.tools.iter().any(|shown| shown.name == *tool) =>
                {
                    self.world().show(Show::Loose { tool, why }).await;
                }
                _ => {}
            }
            if let Err(why) = response.push(chunk) {
                break Inferred::Failed(why);
            }
            if done {
                match response.finish {
                    Some(FinishReason::Error) => {
                        break Inferred::Broken(BROKE_OFF, "it ended its answer with an error".to_string());
                    }
                    Some(FinishReason::ContentFilter) => break Inferred::Filtered,
                    // In the conversation it would have the next answer say it again.
                    Some(FinishReason::Repetition) => break Inferred::Repeated,
                    Some(FinishReason::Cancelled) => break Inferred::Failed("its answer was cancelled".to_string()),
                    _ => {}
                }
                let TokenUsage { prompt_tokens, completion_tokens, .. } = response.usage;
                let (input_tokens, output_tokens) = (prompt_tokens.into(), completion_tokens.into());
                course.used(u64::saturating_add(input_tokens, output_tokens));
                let (model, now) = (model.to_string(), self.world().now());
                let latency = now.saturating_sub(asked);
                course.emit(now, Event::ModelRequestCompleted { model, input_tokens, output_tokens, latency });
                if is_shown {
                    self.broken = 0;
                    self.world().show(Show::AnswerEnd { usage: &response.usage }).await;
                }
                return Inferred::Whole(response);
            }
        };
        // What came is dropped; the conversation is as it was. The broker counts it all the same.
        stream.cancel();
        self.world().show(Show::AnswerDropped).await;
        end
    }

    /// Waits before a request is made again to which no whole answer came; the person is told so, and may interrupt the wait.
    /// Nothing of a broken answer is in the conversation, and none of its calls has run. The next request is another step, with
    /// all its checks. Returns how the turn ends if the request is not made again.
    pub(crate) async fn ask_again(
        &mut self,
        (what, why): (&str, String),
        interrupt: &mut LocalBoxFuture<'static, ()>,
    ) -> Option<TurnEnd> {
        if self.broken >= AGAIN {
            return Some(TurnEnd::Away(why));
        }
        let wait = wait(self.broken, self.world().random());
        self.broken = self.broken.saturating_add(1);
        let text =
            format!("{what}: {why}; the model is asked again in {} ms ({} of {AGAIN})", wait / 1_000_000, self.broken);
        self.world().show(Show::Notice(&text)).await;
        let until = self.world().now().saturating_add(wait).min(self.session().end());
        match race(interrupt.as_mut(), self.world().sleep_until(until)).await {
            Either::Left(()) => Some(TurnEnd::Interrupted),
            Either::Right(()) => None,
        }
    }
}

/// How long to wait before a request is made again that was made again `times` before, in nanoseconds. It is between half of the
/// longest wait and all of it, by chance, so that those who were turned away together do not come back together.
fn wait(times: u32, [low, high, ..]: [u8; 16]) -> u64 {
    let half = (WAIT / 2) << times.min(AGAIN);
    half.saturating_add(half / 0xffff * u64::from(u16::from_le_bytes([low, high])))
}

/// About as many tokens as a request has: one for each four bytes of its texts.
pub(crate) fn about_tokens(request: &InferenceRequest) -> u64 {
    let calls = |message: &ChatMessage| message.tool_calls.iter().map(|call| call.arguments.len()).sum::<usize>();
    let messages = request.messages.iter().map(|message| message.content.len().saturating_add(calls(message)));
    let tools = request.tools.iter().map(|tool| tool.description.len().saturating_add(tool.param_schema.len()));
    let bytes = messages.chain(tools).fold(0, usize::saturating_add);
    u64::try_from(bytes / 4).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c32_each_wait_is_twice_as_long_and_varies_by_chance() {
        let of = |times, byte| wait(times, [byte; 16]) / 1_000_000;
        assert_eq!([0, 1, 2].map(|times| (of(times, 0), of(times, 0xff))), [(250, 499), (500, 999), (1000, 1999)]);
        assert!((250..500).contains(&of(0, 0x5a)) && of(u32::MAX, 0xff) < 4000);
    }
}
