//! Turns the machine off.
//!
//! Provides: `Power` (0). It holds the ACPI control port, named by the first process, and nothing else. Its
//! argument is the value that turns the machine off.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

use alloc::rc::Rc;
use capos_rt::{Context, Env, Error, log};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::IoPortsClient;
use capos_schema::system::{PowerServer, PowerService};

struct PowerObject {
    ports: IoPortsClient,
    port: u16,
    value: u32,
}

impl PowerServer for PowerObject {
    async fn power_off(&self, _cx: &CallContext) -> Result<(), CallError> {
        log::info!("turning the machine off");
        log::flush().await;
        self.ports.write(self.port, 2, self.value).await?;
        Err(CallError::failed("the machine did not turn off; use its power button"))
    }
}

async fn run(env: Env) -> Result<(), Error> {
    let ports = env.cap::<IoPortsClient>("ports")?;
    let port = ports.info().await?.first;
    let value = env
        .variable("POWER_OFF_VALUE")
        .and_then(|text| text.parse().ok())
        .context("the environment must hold POWER_OFF_VALUE, the value that turns the machine off")?;
    env.serve(0, Rc::new(PowerService(Rc::new(PowerObject { ports, port, value }))));
    env.run().await
}
capos_rt::program!(run);
