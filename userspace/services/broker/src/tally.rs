//! The tokens of one answer, counted while it is made: by what passes, and in the end by what its worker says.
//!
//! A worker is not believed that it used nothing, nor is who asked bound to read an answer to its end.

use alloc::string::String;

use capos_schema::models::{InferenceRequest, StreamChunk, TokenUsage};

/// Bytes for which at least one token is counted, whatever the worker says.
const BYTES_PER_TOKEN: u64 = 16;
/// Bytes that a token has at most, in a call's name and handle as well, which are of many bytes and few tokens.
const BYTES_OF_LONGEST: u64 = 1 << 10;
/// Tokens at most of what a template writes around the texts of a request.
const TEMPLATE_TOKENS: u64 = 1 << 16;

/// What has passed of one answer, and how much of it was counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Bytes of the texts that were sent to the model.
    sent: u64,
    /// Tokens that the answer may have.
    most: u64,
    /// Tokens of the prompt that the worker has read.
    read: u64,
    /// Bytes that came back.
    received: u64,
    counted: u64,
}

impl Tally {
    /// Of a request of which nothing is answered yet.
    #[must_use]
    pub fn of(request: &InferenceRequest) -> Self {
        let messages = request.messages.iter().map(|message| {
            let calls = message.tool_calls.iter();
            let calls = calls.flat_map(|call| [&call.id, &call.name, &call.arguments].map(String::len));
            calls.chain([message.tool_call_id.len()]).fold(message.content.len(), usize::saturating_add)
        });
        let tools =
            request.tools.iter().flat_map(|tool| [&tool.name, &tool.description, &tool.param_schema].map(String::len));
        let sent = messages.chain(tools).fold(request.response_schema.len(), usize::saturating_add) as u64;
        Self { sent, most: u64::from(request.max_tokens), ..Self::default() }
    }

    /// Counts a piece that passes; the tokens that it adds.
    pub fn add(&mut self, chunk: &StreamChunk) -> u64 {
        match chunk {
            StreamChunk::Progress(progress) => {
                self.read = self.read.max(u64::from(progress.done).min(self.longest_prompt()));
            }
            StreamChunk::TextDelta(text) => self.receive([text.len()]),
            StreamChunk::ToolCallDelta(call) => {
                self.receive([call.id.len(), call.name.len(), call.handle.len(), call.arguments.len()]);
            }
            StreamChunk::Finish(finish) => return self.finish(&finish.usage),
        }
        self.advance(self.read.saturating_add(self.least()))
    }

    /// Counts what came back at once, and not in pieces.
    pub fn receive(&mut self, lengths: impl IntoIterator<Item = usize>) {
        for length in lengths {
            self.received = self.received.saturating_add(length as u64);
        }
    }

    /// The answer is whole, and this is what its worker says that it took: the tokens that are left to count.
    pub fn finish(&mut self, usage: &TokenUsage) -> u64 {
        let completion = u64::from(usage.completion_tokens).min(self.most).max(self.least());
        let prompt = u64::from(usage.prompt_tokens).min(self.longest_prompt()).max(self.least_prompt());
        self.advance(completion.saturating_add(prompt))
    }

    /// The answer is given up: the tokens that are left to count. Nobody says how many it took. The prompt was read if
    /// anything was, and has a token for so many bytes at least.
    pub fn give_up(&mut self) -> u64 {
        self.advance(self.least_prompt().saturating_add(self.least()))
    }

    /// What was taken at least, where nobody says how much it was.
    #[must_use]
    pub fn usage(&self) -> TokenUsage {
        let number = |tokens| u32::try_from(tokens).unwrap_or(u32::MAX);
        TokenUsage { prompt_tokens: number(self.least_prompt()), completion_tokens: number(self.least()) }
    }

    /// Whether more came than so many tokens can be, however long each is.
    #[must_use]
    pub fn is_too_much(&self) -> bool {
        self.received > self.most.saturating_mul(BYTES_OF_LONGEST)
    }

    /// The least number of tokens that a prompt of these texts has, and no fewer than were read.
    #[must_use]
    pub fn least_prompt(&self) -> u64 {
        self.read.max(self.sent / BYTES_PER_TOKEN)
    }

    /// The most tokens that a prompt of these texts can have: one for each byte, and what a template writes around them. A
    /// worker that says more would use up what others have.
    fn longest_prompt(&self) -> u64 {
        self.sent.saturating_add(TEMPLATE_TOKENS)
    }

    /// The least number of tokens that what came back is counted as, and no more than may come.
    fn least(&self) -> u64 {
        self.received.div_ceil(BYTES_PER_TOKEN).min(self.most)
    }

    /// How many more than were counted before.
    fn advance(&mut self, total: u64) -> u64 {
        let more = total.saturating_sub(self.counted);
        self.counted = self.counted.max(total);
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use capos_schema::models::{ChatMessage, FinishReason, StreamChunkFinish, StreamChunkProgress, ToolCallDelta};

    fn asked(bytes: usize) -> Tally {
        let message = ChatMessage { content: "x".repeat(bytes), ..ChatMessage::default() };
        Tally::of(&InferenceRequest { messages: Vec::from([message]), max_tokens: 500, ..InferenceRequest::default() })
    }

    fn text(bytes: usize) -> StreamChunk {
        StreamChunk::TextDelta("x".repeat(bytes))
    }

    fn progress(done: u32) -> StreamChunk {
        StreamChunk::Progress(StreamChunkProgress { done, total: 1000 })
    }

    fn finish(prompt_tokens: u32, completion_tokens: u32) -> StreamChunk {
        let usage = TokenUsage { prompt_tokens, completion_tokens };
        StreamChunk::Finish(StreamChunkFinish { usage, reason: FinishReason::Stop })
    }

    #[test]
    fn an_answer_counts_as_what_its_worker_says() {
        let mut tally = asked(100);
        let counted: Vec<u64> = [progress(20), progress(50), text(3), text(3), finish(50, 4)]
            .iter()
            .map(|chunk| tally.add(chunk))
            .collect();
        assert_eq!(counted, [20, 30, 1, 0, 3]);
        assert_eq!(tally.give_up(), 0, "what was counted is not counted again");
    }

    #[test]
    fn b16_a_worker_that_reports_nothing_is_counted_all_the_same() {
        let mut tally = asked(0);
        assert_eq!((tally.add(&text(1600)), tally.add(&finish(0, 0))), (100, 0));
        let arguments = String::from("{}");
        let call = ToolCallDelta { id: "call-1".into(), name: "read".into(), arguments, ..ToolCallDelta::default() };
        assert_eq!(asked(0).add(&StreamChunk::ToolCallDelta(call)), 1);
    }

    #[test]
    fn b16_what_is_not_read_to_its_end_is_counted_by_what_was_sent_and_came() {
        assert_eq!(asked(1600).give_up(), 100);
        let mut tally = asked(1600);
        assert_eq!((tally.add(&progress(300)), tally.add(&text(32)), tally.give_up()), (300, 2, 0));
        let mut tally = asked(1600);
        assert_eq!((tally.add(&progress(30)), tally.give_up()), (30, 70));
    }

    /// Text without end counts as the tokens that were asked for, and is told to be too much.
    #[test]
    fn b16_a_worker_that_says_more_than_was_asked_for_is_found_out() {
        let mut tally = asked(0);
        assert_eq!((tally.add(&text(500 * 16)), tally.is_too_much()), (500, false));
        assert_eq!((tally.add(&text(500 << 10)), tally.is_too_much()), (0, true));
    }

    #[test]
    fn a_worker_that_says_less_than_before_takes_nothing_back() {
        let mut tally = asked(0);
        assert_eq!((tally.add(&progress(300)), tally.add(&progress(100)), tally.add(&finish(10, 0))), (300, 0, 0));
    }

    #[test]
    fn b16_a_worker_that_says_too_much_uses_up_no_more_than_can_be() {
        let most = 1600 + TEMPLATE_TOKENS;
        assert_eq!(asked(1600).add(&finish(u32::MAX, u32::MAX)), most + 500);
        let mut tally = asked(1600);
        assert_eq!((tally.add(&progress(u32::MAX)), tally.add(&finish(10, 10))), (most, 10));
    }
}
