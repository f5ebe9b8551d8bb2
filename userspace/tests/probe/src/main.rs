//! Looks at the system from inside, for tests: `capabilities` its own, `sharing` of a file's memory with another
//! process, `models` the model service. What does not hold ends it with an error that says so.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod capabilities;
mod models;
mod sharing;

use alloc::format;
use alloc::string::String;

use capos_rt::{Context, Env, Error};
use capos_schema::system::StandardClient;

/// Where the findings go.
pub struct Report(StandardClient);

impl Report {
    /// A line of them.
    ///
    /// # Errors
    /// Nobody reads them.
    pub async fn line(&self, text: &str) -> Result<(), Error> {
        Ok(self.0.write(&format!("{text}\n")).await?)
    }
}

/// An error unless it holds.
fn ensure(holds: bool, words: impl Into<String>) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::new(words.into())) }
}

async fn start(env: Env) -> Result<(), Error> {
    let report = Report(env.cap("out")?);
    match env.arguments().first().map(String::as_str).context("say capabilities, sharing or models")? {
        "capabilities" => capabilities::run(&env, &report).await,
        "sharing" => sharing::run(&env, &report).await,
        "sharer" => sharing::second(&env, &report).await,
        "models" => models::run(&env, &report).await,
        other => Err(Error::new(format!("there is nothing to look at by the name of {other}"))),
    }
}
capos_rt::program!(start);
