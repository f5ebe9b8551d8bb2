//! The cost of a token on Linux, in instructions, on a machine whose time-stamp counter counts them. The answers are
//! those for which `userspace/tests/probe/src/engine.rs` counts capOS's worker: from `/home/model.gguf`, on one thread,
//! with the worker's settings.
#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Instant;

use capos_chat::{Message, Role};
use capos_engine::generation::Options;
use capos_engine::{Machine, Sampling, Single, kernel};
use capos_inference::{Assistant, Event, LanguageModel, Reason, Request};
use capos_measure::count;

/// Tokens of the answers that are compared.
const SHORT: usize = 8;
const LONG: usize = 72;

/// Instructions that an answer of at most `most` tokens takes.
fn cost(assistant: &mut Assistant<'_>, most: usize) -> Result<u64, Box<dyn Error>> {
    let messages = vec![Message::new(Role::User, "Say a sentence.")];
    let request = Request { messages, limit: Some(most), sampling: Some(Sampling::default()), ..Request::default() };
    let from = count();
    assistant.request(request)?;
    let mut ended = None;
    while !assistant.idle() {
        for (_, event) in assistant.step() {
            if let Event::Finish(finish) = event {
                ended = Some(finish);
            }
        }
    }
    let cost = count().saturating_sub(from);
    match ended {
        Some(finish) if finish.reason == Reason::Length && finish.usage.new == most => Ok(cost),
        other => Err(format!("an answer of {most} tokens ended so: {other:?}").into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::fs::read("/home/model.gguf")?;
    let model = LanguageModel::open(&file, None)?;
    let began = Instant::now();
    let now = move || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let kernels = kernel::fastest(&now);
    let options = Options { sequences: 4, prefill: 128, kept: 16 << 20, clock: Some(&now), ..Options::default() };
    let mut assistant = Assistant::new(&model, Machine { kernels, pool: &Single }, options);
    cost(&mut assistant, LONG)?;
    let (short, long) = (cost(&mut assistant, SHORT)?, cost(&mut assistant, LONG)?);
    let each = long.saturating_sub(short) / (LONG - SHORT) as u64;
    println!("bench token {each} instructions: each token of an answer on Linux, with {} kernels", kernels.name());
    Ok(())
}
