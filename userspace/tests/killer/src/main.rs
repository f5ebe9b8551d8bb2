//! Kills the services that its arguments name, as a fault would: a program for tests of supervision.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

use alloc::format;

use capos_rt::{Env, Error};
use capos_schema::system::{FaultInjectorClient, StandardClient};

async fn start(env: Env) -> Result<(), Error> {
    let faults = env.cap::<FaultInjectorClient>("faults")?;
    let out = env.cap::<StandardClient>("out")?;
    for name in env.arguments() {
        faults.kill(name).await?;
        out.write(&format!("killed {name}\n")).await?;
    }
    Ok(())
}
capos_rt::program!(start);
