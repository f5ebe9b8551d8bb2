//! How much faster a worker writes with two threads than with one, by the machine's clock; nothing here counts instructions.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_rt::{Env, Error, log};
use capos_schema::models::{FinishReason, InferenceRequest, StreamChunk};

use crate::engine::named;
use crate::models::request;
use crate::workers::{Forge, Worker};
use crate::{Report, ensure};

/// Tokens of each answer.
const TOKENS: u32 = 12;
/// Rounds that are measured, after one that is not. An odd number, so that one is in the middle.
const ROUNDS: usize = 11;

/// The question to all workers. Tokens are drawn, always in the same way: the likeliest ones of random weights soon
/// repeat, and then an answer says little about the computation.
fn question() -> InferenceRequest {
    InferenceRequest { max_tokens: TOKENS, temperature: 0.05, nonce: Vec::from([4]), ..request("Say a sentence.") }
}

/// An answer, and when it was written.
struct Written {
    text: String,
    /// When the prompt had been read, which is when the first token was chosen.
    first: u64,
    /// When the last was.
    last: u64,
}

impl Written {
    /// Has a worker answer.
    async fn by(worker: &Worker) -> Result<Self, Error> {
        let stream = worker.model.stream(&question()).await?;
        let (mut text, mut first) = (String::new(), None);
        loop {
            match stream.next().await?.chunk {
                StreamChunk::Progress(read) if read.done == read.total => first = Some(capos_rt::now()?),
                StreamChunk::Progress(_) | StreamChunk::Loose(_) | StreamChunk::Removed(_) => {}
                StreamChunk::TextDelta(more) => text.push_str(&more),
                StreamChunk::Finish(end) => {
                    let last = capos_rt::now()?;
                    let made = end.usage.completion_tokens;
                    let whole = end.reason == FinishReason::Length && made == TOKENS;
                    ensure(whole, format!("an answer ended as {:?} after {made} of {TOKENS} tokens", end.reason))?;
                    let Some(first) = first else {
                        return Err(Error::new("an answer began before its prompt was read"));
                    };
                    return Ok(Self { text, first, last });
                }
                chunk @ StreamChunk::ToolCallDelta(_) => {
                    return Err(Error::new(format!("it called a tool: {chunk:?}")));
                }
            }
        }
    }

    fn nanoseconds(&self) -> u64 {
        self.last.saturating_sub(self.first)
    }
}

/// The median of shares in percent, and a text with all of them.
fn middle(shares: &[u64]) -> (u64, String) {
    let mut sorted = shares.to_vec();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    (median, format!("median of {shares:?}"))
}

/// Three workers of one model, one of them with two threads, answer the same in turns: the one with one thread, the one
/// with two, and both single-threaded ones at once. The last measures what two processors add if no thread waits for
/// another.
///
/// # Errors
/// An answer is another one than the first, or shorter than asked.
pub async fn run(env: &Env, report: &Report) -> Result<(), Error> {
    for numbers in named(env, &["numbers"]).await? {
        let forge = Forge::of(env, &numbers.id).await?;
        let (one, other, pair) = (forge.worker(1).await?, forge.worker(1).await?, forge.worker(2).await?);
        let expected = Written::by(&one).await?.text;
        let same = |written: &Written, by: &str| {
            let (text, expected) = (&written.text, &expected);
            ensure(text == expected, format!("{by} says {text:?} in place of {expected:?}"))
        };
        let (mut threads, mut workers) = (Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let alone = Written::by(&one).await?;
            let together = Written::by(&pair).await?;
            let (left, right) = capos_rt::join(Written::by(&one), Written::by(&other)).await;
            let (left, right) = (left?, right?);
            same(&alone, "a worker with one thread")?;
            same(&together, "a worker with two threads")?;
            same(&left, "a worker beside another")?;
            same(&right, "a worker beside another")?;
            let both = left.last.max(right.last).saturating_sub(left.first.min(right.first));
            let (alone, together) = (alone.nanoseconds(), together.nanoseconds());
            log::info!("{alone} ns with one thread, {together} ns with two, {both} ns for two answers at once");
            // In the first round the prompt is read, and the weights come from the medium.
            if round > 0 {
                threads.push(alone.saturating_mul(100) / together.max(1));
                workers.push(alone.saturating_mul(200) / both.max(1));
            }
        }
        let (percent, rounds) = middle(&threads);
        let how = "tokens that a worker with two threads writes in a time, of what one with one thread does";
        log::info!("bench decode_throughput@threads=2 {percent} percent: {how}; {rounds}");
        let (percent, rounds) = middle(&workers);
        let how = "tokens that two workers with one thread each write at once, of what one alone does";
        log::info!("bench decode_throughput@workers=2 {percent} percent: {how}; {rounds}");
        for worker in [one, other, pair] {
            worker.process.kill("it was listened to").await?;
        }
    }
    report.line("decoding is measured");
    Ok(())
}
