//! The line to a client: the fourth serial port, and the one reader of what a client sends.
//!
//! Provides: `ClientPort` (0). Bytes of a client may be anything, so they are read in a process that holds the port, and
//! nothing else that could be reached through a fault in the reading. The agent host gets requests as types.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod desk;
mod port;
mod requests;

use alloc::rc::Rc;

use capos_rt::{Either, Env, Error, ServeOptions, log};
use capos_schema::clients::ClientPortService;
use capos_schema::kernel::{InterruptClient, IoPortsClient, ResourceAccountClient};
use capos_uart::Uart;
use port::{Port, Wire};

/// A call carries a line at most.
const OPTIONS: ServeOptions = ServeOptions { buffers: 2, message_bytes: 320 << 10, concurrent: 8 };

async fn run(env: Env) -> Result<(), Error> {
    let port = Rc::new(Port::default());
    env.serve(0, Rc::new(ClientPortService(port.clone())));
    let ports = env.cap::<IoPortsClient>("ports")?;
    if !Uart::is_there(&ports).await? {
        log::info!("this machine has no fourth serial port; no client can use it");
        return env.run_with(OPTIONS).await;
    }
    let notification = env.cap::<ResourceAccountClient>("account")?.create_notification().await?;
    let uart = Uart::start(ports, env.cap::<InterruptClient>("irq")?, notification).await?;
    let wire = Wire::new(uart, port);
    let line = capos_rt::select(wire.listen(), wire.talk());
    match capos_rt::select(line, env.run_with(OPTIONS)).await {
        Either::First(Either::First(result) | Either::Second(result)) | Either::Second(result) => result,
    }
}
capos_rt::program!(run);
