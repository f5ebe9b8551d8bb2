//! Kills the services that its arguments name, as a fault would: a program for tests of supervision.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

use alloc::format;

use capos_rt::{Env, Error};
use capos_schema::system::{ServiceSupervisorClient, StandardClient};

async fn start(env: Env) -> Result<(), Error> {
    let supervisor = env.cap::<ServiceSupervisorClient>("supervisor")?;
    let out = env.cap::<StandardClient>("out")?;
    for name in env.arguments() {
        supervisor.kill(name).await?;
        out.write(&format!("killed {name}\n")).await?;
    }
    Ok(())
}
capos_rt::program!(start);
