//! Sleeps for the seconds of its first argument and reports that, to its launcher and, if it was given one, on the
//! terminal: a program for tests of time limits and Ctrl-C. `fail` as its first argument makes it fail at once.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

use alloc::format;

use capos_rt::{Context, Env, Error};
use capos_schema::system::StandardClient;
use capos_schema::terminal::{Span, Style, TerminalClient};

async fn start(env: Env) -> Result<(), Error> {
    let first = env.arguments().first().map_or("1", |first| first.as_str());
    if first == "fail" {
        return Err(Error::new("it was asked to fail"));
    }
    let seconds: u64 = first.parse().ok().context("the first argument is the seconds to sleep")?;
    let text = format!("sleeping for {seconds} s\n");
    let out = env.optional::<StandardClient>("out")?;
    if let Some(out) = &out {
        out.write(&text).await?;
    }
    if let Some(terminal) = env.optional::<TerminalClient>("terminal")? {
        terminal.open("sleeper").await?.write(&[Span { text, style: Style::Plain }]).await?;
    }
    capos_rt::sleep(seconds.saturating_mul(1_000_000_000)).await?;
    if let Some(out) = &out {
        out.write("awake again\n").await?;
    }
    Ok(())
}
capos_rt::program!(start);
