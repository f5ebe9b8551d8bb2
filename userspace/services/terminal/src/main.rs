//! The terminal: a serial port, line editing, and the one sanitiser of all output.
//!
//! Provides: `Terminal` (0). No other process holds the port, so no program can smuggle a control
//! sequence to the person's screen.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod screen;
#[cfg(test)]
mod screen_tests;
mod session;

use alloc::rc::Rc;
use capos_rt::{Either, Env, Error, ServeOptions};
use capos_schema::kernel::{InterruptClient, IoPortsClient, ResourceAccountClient};
use capos_schema::terminal::TerminalService;
use capos_uart::Uart;
use screen::Screen;
use session::TerminalObject;

/// Model text and tool results come in pieces; a whole screen fits into one.
const OPTIONS: ServeOptions = ServeOptions { buffers: 4, message_bytes: 128 << 10, concurrent: 32 };

async fn run(env: Env) -> Result<(), Error> {
    let account = env.cap::<ResourceAccountClient>("account")?;
    let notification = account.create_notification().await?;
    let uart =
        Uart::start(env.cap::<IoPortsClient>("ports")?, env.cap::<InterruptClient>("irq")?, notification).await?;
    let screen = Screen::new(uart, env.clock()?);
    env.serve(
        0,
        Rc::new(TerminalService(Rc::new(TerminalObject { screen: screen.clone(), exporter: env.server().clone() }))),
    );
    let port = capos_rt::select(screen.listen(), screen.show());
    let times = capos_rt::join(screen.notice_pauses(), screen.notice_silence());
    match capos_rt::select(capos_rt::select(port, env.run_with(OPTIONS)), times).await {
        Either::First(Either::First(Either::First(result) | Either::Second(result)) | Either::Second(result)) => result,
        Either::Second(((), ())) => Ok(()),
    }
}
capos_rt::program!(run);
