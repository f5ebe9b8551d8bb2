//! The tokens of one answer, counted while it is made: by what passes, and in the end by what its worker says.
//!
//! A number that a worker says is believed within what was sent and received. The least is a token for each 16 bytes, the most
//! a token for each byte and what a template writes around them. The caller need not read an answer to its end.

use alloc::string::String;

use capos_schema::models::{InferenceRequest, InferenceResponse, StreamChunk, StreamChunkLoose, TokenUsage};

/// Bytes for which at least one token is counted, whatever the worker says.
const BYTES_PER_TOKEN: u64 = 16;
/// Bytes that a token has at most, in a call's name and handle as well, which are of many bytes and few tokens.
const BYTES_OF_LONGEST: u64 = 1 << 10;
/// Bytes of what a worker says of a tool; what is beyond them is cut off.
const TOLD: usize = 1 << 10;
/// Tokens at most of what a template writes in a prompt: once, around each message and each call of one, and around each tool.
const TEMPLATE: u64 = 1024;
const AROUND_MESSAGE: u64 = 32;
const AROUND_TOOL: u64 = 64;
/// Tokens at most that an answer has besides its bytes: once, and around each of its calls.
const AROUND_ANSWER: u64 = 16;
const AROUND_CALL: u64 = 64;

/// What has passed of one answer, and how much of it was counted.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Bytes of the texts that were sent to the model.
    sent: u64,
    /// Tokens at most of what a template writes around these texts.
    around: u64,
    /// Tokens that the answer may have.
    most: u64,
    /// Tokens of the prompt that the worker has read.
    read: u64,
    /// Bytes that came back.
    received: u64,
    /// Calls that came back, by their names.
    calls: u64,
    /// How many more tools the worker may name whose calls it does not hold to their schemas.
    untold: usize,
    /// The messages of the request; none once the worker has said how many of them the model is not shown.
    unremoved: Option<u32>,
    /// It has said more of these than there is to say.
    is_told_more: bool,
    counted: u64,
    /// What its worker said at the end, as it is believed.
    said: Option<TokenUsage>,
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
        let tools = request
            .tools
            .iter()
            .flat_map(|tool| [&tool.name, &tool.description, &tool.param_schema, &tool.handle].map(String::len));
        let sent = messages.chain(tools).fold(request.response_schema.len(), usize::saturating_add) as u64;
        let parts = request.messages.iter().map(|message| message.tool_calls.len().saturating_add(1));
        let parts = parts.fold(0, usize::saturating_add) as u64;
        let around = parts.saturating_mul(AROUND_MESSAGE).saturating_add(TEMPLATE);
        let around = around.saturating_add((request.tools.len() as u64).saturating_mul(AROUND_TOOL));
        let most = u64::from(request.max_tokens);
        let messages = u32::try_from(request.messages.len()).unwrap_or(u32::MAX);
        Self { sent, around, most, untold: request.tools.len(), unremoved: Some(messages), ..Self::default() }
    }

    /// Counts a piece that passes, and has it say no other numbers than are believed; the tokens that it adds.
    pub fn add(&mut self, chunk: &mut StreamChunk) -> u64 {
        match chunk {
            StreamChunk::Progress(progress) => {
                let most = number(self.longest_prompt());
                (progress.done, progress.total) = (progress.done.min(most), progress.total.min(most));
                self.read = self.read.max(u64::from(progress.done));
            }
            StreamChunk::TextDelta(text) => self.receive([text.len()]),
            // It is no part of the answer: no sign of work, so that the bound on empty pieces counts it.
            StreamChunk::Loose(loose) => self.tell(loose),
            StreamChunk::Removed(messages) => match self.unremoved.take() {
                Some(most) => *messages = (*messages).min(most),
                None => self.is_told_more = true,
            },
            StreamChunk::ToolCallDelta(call) => {
                self.receive_call([&call.name, &call.id, &call.handle, &call.arguments].map(String::len));
            }
            StreamChunk::Finish(finish) => return self.finish(&mut finish.usage),
        }
        self.advance(self.read.saturating_add(self.least()))
    }

    /// Counts an answer that came whole, and has it say no other numbers than are believed; the tokens that it takes.
    pub fn add_whole(&mut self, response: &mut InferenceResponse) -> u64 {
        let message = &response.message;
        self.receive([message.content.len(), message.tool_call_id.len()]);
        for call in &message.tool_calls {
            self.receive_call([&call.name, &call.id, &call.handle, &call.arguments].map(String::len));
        }
        self.finish(&mut response.usage)
    }

    /// What the worker says of a tool comes once for each, in a bounded length.
    fn tell(&mut self, loose: &mut StreamChunkLoose) {
        match self.untold.checked_sub(1) {
            Some(untold) => self.untold = untold,
            None => self.is_told_more = true,
        }
        for text in [&mut loose.tool, &mut loose.why] {
            text.truncate(text.floor_char_boundary(TOLD));
        }
    }

    fn receive(&mut self, lengths: impl IntoIterator<Item = usize>) {
        for length in lengths {
            self.received = self.received.saturating_add(length as u64);
        }
    }

    /// A call, or a piece of one: the first has its name.
    fn receive_call(&mut self, lengths: [usize; 4]) {
        self.calls = self.calls.saturating_add(u64::from(lengths.first().is_some_and(|name| *name > 0)));
        self.receive(lengths);
    }

    /// The answer is whole, and this is what its worker says that it took, which becomes what is believed: the tokens that are
    /// left to count.
    fn finish(&mut self, usage: &mut TokenUsage) -> u64 {
        let written = u64::from(usage.completion_tokens).min(self.longest()).max(self.least());
        let read = u64::from(usage.prompt_tokens).min(self.longest_prompt()).max(self.least_prompt());
        *usage = TokenUsage { prompt_tokens: number(read), completion_tokens: number(written) };
        self.said = Some(usage.clone());
        self.advance(written.saturating_add(read))
    }

    /// Bytes of the texts that were sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// How much has been read and has come: more of it is the only sign that a worker is at work.
    #[must_use]
    pub fn extent(&self) -> u64 {
        self.read.saturating_add(self.received)
    }

    /// The answer is given up: the tokens that are left to count. How many it took is not known. If anything was read,
    /// the prompt was, and a minimum of tokens is counted for its bytes.
    pub fn give_up(&mut self) -> u64 {
        self.advance(self.least_prompt().saturating_add(self.least()))
    }

    /// What was taken as its worker said it, or the least if the worker does not say how much it was.
    #[must_use]
    pub fn usage(&self) -> TokenUsage {
        if let Some(said) = &self.said {
            return said.clone();
        }
        TokenUsage { prompt_tokens: number(self.least_prompt()), completion_tokens: number(self.least()) }
    }

    /// Whether more bytes came than the permitted tokens can have, however long each is, or more about tools than there are.
    #[must_use]
    pub fn is_too_much(&self) -> bool {
        self.is_told_more || self.received > self.most.saturating_mul(BYTES_OF_LONGEST)
    }

    /// The least number of tokens that a prompt of these texts has, and no fewer than were read.
    #[must_use]
    pub fn least_prompt(&self) -> u64 {
        self.read.max(self.sent / BYTES_PER_TOKEN)
    }

    /// The most tokens that a prompt of these texts can have: one for each byte, and what a template writes around them. A
    /// worker that says more would use up what others have.
    fn longest_prompt(&self) -> u64 {
        self.sent.saturating_add(self.around)
    }

    /// The same of what came back, and no more than may come: what is beyond that counts by its bytes alone.
    fn longest(&self) -> u64 {
        let around = self.calls.saturating_mul(AROUND_CALL).saturating_add(AROUND_ANSWER);
        self.received.saturating_add(around).min(self.most)
    }

    /// The least number of tokens that what came back is counted as: for all that passed, also where more came than may come.
    fn least(&self) -> u64 {
        self.received.div_ceil(BYTES_PER_TOKEN)
    }

    /// How many more than were counted before.
    fn advance(&mut self, total: u64) -> u64 {
        let more = total.saturating_sub(self.counted);
        self.counted = self.counted.max(total);
        more
    }
}

fn number(tokens: u64) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use capos_schema::models::{
        ChatMessage, FinishReason, StreamChunkFinish, StreamChunkProgress, ToolCall, ToolCallDelta, ToolDescriptor,
    };

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
            .into_iter()
            .map(|mut chunk| tally.add(&mut chunk))
            .collect();
        assert_eq!(counted, [20, 30, 1, 0, 3]);
        assert_eq!(tally.give_up(), 0, "what was counted is not counted again");
    }

    #[test]
    fn b16_a_worker_that_reports_nothing_is_counted_all_the_same() {
        let mut tally = asked(0);
        assert_eq!((tally.add(&mut text(1600)), tally.add(&mut finish(0, 0))), (100, 0));
        let arguments = String::from("{}");
        let call = ToolCallDelta { id: "call-1".into(), name: "read".into(), arguments, ..ToolCallDelta::default() };
        assert_eq!(asked(0).add(&mut StreamChunk::ToolCallDelta(call)), 1);
    }

    #[test]
    fn b16_what_is_not_read_to_its_end_is_counted_by_what_was_sent_and_came() {
        assert_eq!(asked(1600).give_up(), 100);
        let mut tally = asked(1600);
        assert_eq!((tally.add(&mut progress(300)), tally.add(&mut text(32)), tally.give_up()), (300, 2, 0));
        let mut tally = asked(1600);
        assert_eq!((tally.add(&mut progress(30)), tally.give_up()), (30, 70));
    }

    /// Text without end is told to be too much.
    #[test]
    fn b16_a_worker_that_says_more_than_was_asked_for_is_found_out() {
        let mut tally = asked(0);
        assert_eq!((tally.add(&mut text(500 * 16)), tally.is_too_much()), (500, false));
        tally.add(&mut text(500 << 10));
        assert!(tally.is_too_much());
    }

    /// What is said of tools is no part of the answer, and comes once for each of them.
    #[test]
    fn b16_a_worker_says_of_each_tool_once_that_it_is_not_held_to_its_schema() {
        let tools = Vec::from(["read", "write"].map(|name| ToolDescriptor { name: name.into(), ..Default::default() }));
        let mut tally = Tally::of(&InferenceRequest { tools, max_tokens: 500, ..InferenceRequest::default() });
        let mut tell = |why: &str| {
            let mut said = StreamChunk::Loose(StreamChunkLoose { tool: "read".into(), why: why.into() });
            let tokens = tally.add(&mut said);
            let StreamChunk::Loose(StreamChunkLoose { why, .. }) = said else { panic!("it became something else") };
            (tokens, why.len(), tally.is_too_much())
        };
        assert_eq!(tell("a pattern"), (0, 9, false));
        assert_eq!(tell(&"é".repeat(60 << 10)), (0, TOLD, false));
        assert_eq!(tell(""), (0, 0, true), "there are two tools");
    }

    /// How many messages the model is not shown is said once, and is at most all of them.
    #[test]
    fn b16_a_worker_says_once_how_many_messages_it_leaves_out() {
        let mut tally = asked(100);
        let mut told = StreamChunk::Removed(u32::MAX);
        assert_eq!((tally.add(&mut told), tally.is_too_much()), (0, false));
        assert_eq!(told, StreamChunk::Removed(1));
        assert_eq!((tally.add(&mut StreamChunk::Removed(1)), tally.is_too_much()), (0, true));
    }

    /// All that passes is counted, also what is more than was asked for, whatever the worker says.
    #[test]
    fn b16_what_passes_beyond_the_tokens_that_were_asked_for_is_counted() {
        let mut tally = asked(0);
        assert_eq!((tally.add(&mut text(150_000)), tally.is_too_much()), (9375, false));
        let mut end = finish(0, 0);
        assert_eq!((tally.add(&mut end), tally.give_up()), (0, 0));
        assert_eq!(end, finish(0, 9375));
        let mut tally = asked(0);
        assert_eq!((tally.add(&mut text(150_000)), tally.give_up()), (9375, 0));
        let message = ChatMessage { content: "x".repeat(150_000), ..ChatMessage::default() };
        let mut whole = InferenceResponse { message, ..InferenceResponse::default() };
        assert_eq!(asked(0).add_whole(&mut whole), 9375);
        // The worker's own word is believed up to what was asked for only.
        let mut tally = asked(0);
        assert_eq!((tally.add(&mut text(4000)), tally.add(&mut finish(0, 4000))), (250, 250));
    }

    #[test]
    fn a_worker_that_says_less_than_before_takes_nothing_back() {
        let mut tally = asked(0);
        let counted = [progress(300), progress(100), finish(10, 0)].map(|mut chunk| tally.add(&mut chunk));
        assert_eq!(counted, [300, 0, 0]);
    }

    /// What was sent and came bounds what is believed, and what is passed on says no more than that.
    #[test]
    fn b16_a_worker_that_says_too_much_uses_up_no_more_than_can_be() {
        // One message, no tools, and the word "word".
        let (prompt, answer) = (4 + TEMPLATE + AROUND_MESSAGE, 4 + AROUND_ANSWER);
        let mut tally = asked(4);
        let mut end = finish(u32::MAX, u32::MAX);
        assert_eq!((tally.add(&mut text(4)), tally.add(&mut end)), (1, prompt + answer - 1));
        assert_eq!(end, finish(prompt as u32, answer as u32));
        let mut tally = asked(4);
        let mut read = StreamChunk::Progress(StreamChunkProgress { done: u32::MAX, total: u32::MAX });
        assert_eq!((tally.add(&mut read), tally.add(&mut finish(10, 10))), (prompt, 10));
        let most = prompt as u32;
        assert_eq!(read, StreamChunk::Progress(StreamChunkProgress { done: most, total: most }));
        // An answer that comes whole has the same bounds.
        let message = ChatMessage { content: "word".into(), ..ChatMessage::default() };
        let usage = TokenUsage { prompt_tokens: u32::MAX, completion_tokens: u32::MAX };
        let mut whole = InferenceResponse { message, usage, finish_reason: FinishReason::Stop };
        assert_eq!(asked(4).add_whole(&mut whole), prompt + answer);
        assert_eq!(whole.usage, TokenUsage { prompt_tokens: prompt as u32, completion_tokens: answer as u32 });
    }

    /// Each tool, message and call has what a template writes around it, and no text is written twice.
    #[test]
    fn b16_what_a_template_writes_is_believed_by_what_there_is_to_write() {
        let calls = Vec::from([ToolCall { name: "read".into(), ..ToolCall::default() }]);
        let messages = Vec::from([ChatMessage { tool_calls: calls, ..ChatMessage::default() }]);
        let tool = ToolDescriptor { name: "read".into(), description: "Reads.".into(), ..ToolDescriptor::default() };
        let request =
            InferenceRequest { messages, tools: Vec::from([tool]), max_tokens: 500, ..InferenceRequest::default() };
        let prompt = 4 + 4 + 6 + TEMPLATE + 2 * AROUND_MESSAGE + AROUND_TOOL;
        assert_eq!(Tally::of(&request).add(&mut finish(u32::MAX, 0)), prompt);
        let call = ToolCallDelta { name: "read".into(), arguments: "{}".into(), ..ToolCallDelta::default() };
        let mut tally = Tally::of(&request);
        tally.add(&mut StreamChunk::ToolCallDelta(call));
        let mut end = finish(0, u32::MAX);
        tally.add(&mut end);
        let StreamChunk::Finish(end) = end else { panic!("no end") };
        assert_eq!(u64::from(end.usage.completion_tokens), 6 + AROUND_ANSWER + AROUND_CALL);
    }

    /// Empty pieces and a count that stands still are no sign of work.
    #[test]
    fn only_what_goes_on_shows_that_a_worker_is_at_work() {
        let mut tally = asked(100);
        let mut grows = |mut chunk| {
            let before = tally.extent();
            tally.add(&mut chunk);
            tally.extent() > before
        };
        let seen = [progress(20), progress(20), text(0), progress(21), text(1), progress(3), text(0)].map(&mut grows);
        assert_eq!(seen, [true, false, false, true, true, false, false]);
    }
}
