//! Checks the system from inside, for tests. The argument selects one: `capabilities` checks those it holds, `sharing`
//! a file's memory shared with another process, `workers` two workers of a model, `models` the model service.
//! `engine-answers`, `engine-weights`, `engine-tokens`, `engine-fits`, `engine-evicts`, `engine-context` and
//! `engine-ends` check models that the engine runs. `decoding` measures one of them with one thread and with two.
//! `embedders` checks models that embed texts, and `two-sessions` two sessions that talk to one model. `continues` adds to
//! the conversation at the prompt, as another session. A failed check ends it with an error that says which.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod capabilities;
mod continues;
mod decoding;
mod embedder;
mod engine;
mod models;
mod sessions;
mod sharing;
mod strain;
mod workers;

use alloc::format;
use alloc::string::String;
use core::cell::RefCell;

use capos_rt::{Context, Env, Error};
use capos_schema::system::StandardClient;

/// The findings so far.
#[derive(Default)]
pub struct Report(RefCell<String>);

impl Report {
    /// A line more.
    pub fn line(&self, text: &str) {
        self.0.borrow_mut().push_str(text);
        self.0.borrow_mut().push('\n');
    }
}

/// An error unless it holds.
fn ensure(holds: bool, words: impl Into<String>) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::new(words.into())) }
}

async fn start(env: Env) -> Result<(), Error> {
    let out = env.cap::<StandardClient>("out")?;
    let report = Report::default();
    let found = look(&env, &report).await;
    if let Err(error) = &found {
        // Before the rest: it is what counts.
        out.write(&format!("this does not hold: {error}\n")).await?;
    }
    out.write(&report.0.take()).await?;
    found
}

async fn look(env: &Env, report: &Report) -> Result<(), Error> {
    match env.arguments().first().map(String::as_str).context("say what to look at")? {
        "capabilities" => capabilities::run(env, report).await,
        "sharing" => sharing::run(env, report).await,
        "sharer" => sharing::second(env, report).await,
        "workers" => workers::run(env, report).await,
        "models" => models::run(env, report).await,
        "embedders" => embedder::run(env, report).await,
        "engine-answers" => engine::answers(env, report).await,
        "engine-weights" => engine::weights(env, report).await,
        "engine-tokens" => engine::tokens(env, report).await,
        "decoding" => decoding::run(env, report).await,
        "engine-fits" => engine::large(env, true, report).await,
        "engine-evicts" => engine::large(env, false, report).await,
        "engine-context" => engine::whole_context(env, report).await,
        "two-sessions" => sessions::run(env, report).await,
        "continues" => continues::run(env, report).await,
        "strain" => strain::run(env, report).await,
        "engine-ends" => engine::ends(env, report).await,
        other => Err(Error::new(format!("there is nothing to look at by the name of {other}"))),
    }
}
capos_rt::program!(start);
