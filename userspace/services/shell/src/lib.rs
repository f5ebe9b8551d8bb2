//! The console's programs: login, slash commands, and agent mode.
//!
//! A line that begins with `/` is a command of the shell and never reaches a model; everything else is a turn of the
//! conversation with the model. The shell is the runner of spec 1. By `capos-runner` it holds the session's capabilities,
//! builds the tool table from them, and drives the loop of the crate `capos-agent`; it adds the console. It holds a terminal,
//! the broker, a timer and entropy; all else comes with the session.
//!
//! Two programs differ in their [`Commands`] alone: `shell`, and `capos-agent`, in which nearly every line is a request.
#![cfg_attr(capos_guest, no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod approver;
mod background;
mod changed_row;
mod command;
mod completions;
mod console;
mod copying;
mod help;
mod interrupts;
mod link;
mod login;
mod meter;
mod more;
mod outcome;
mod readable;
mod render;
mod result;
mod run;
mod screen;
#[cfg(test)]
mod screen_tests;
mod session;
mod widget;

use alloc::boxed::Box;
use alloc::rc::Rc;
use core::pin::Pin;

use capos_rt::{Env, Error};
use capos_runner::{Capabilities, escape, grants, history, invoke, keeper, loss, table};
use capos_schema::authority::AuthorityBrokerClient;
use capos_schema::kernel::{CapabilityTableClient, EntropyClient};
use capos_schema::terminal::TerminalClient;
use link::Link;
use login::Login;
use screen::Screen;

pub use command::agent::AGENT;
pub use command::{Commands, SHELL};

/// Logs people in at the terminal, for ever. Their sessions have these commands. The work is in a box, so that it is
/// compiled once and not again for each program.
///
/// # Errors
/// A capability of the program is missing.
pub fn start(env: Env, commands: &'static Commands) -> Pin<Box<dyn Future<Output = Result<(), Error>>>> {
    Box::pin(serve(env, commands))
}

async fn serve(env: Env, commands: &'static Commands) -> Result<(), Error> {
    let clock = env.clock()?;
    let link = Link::open(env.cap::<TerminalClient>("terminal")?, clock.clone()).await;
    let login = Login {
        screen: Rc::new(Screen::new(link)),
        commands,
        held: Capabilities {
            broker: env.cap::<AuthorityBrokerClient>("broker")?,
            clock,
            entropy: env.cap::<EntropyClient>("entropy")?,
            table: env.cap::<CapabilityTableClient>("table")?,
        },
    };
    match login.serve().await {}
}
