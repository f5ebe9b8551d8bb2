//! A fault-injection campaign: kills every service that runs, drivers among them, at many points of the work that two
//! clients have it do, as a fault would. After each kill the service is back, each client has seen at most one error,
//! which says that the other side was gone, and its next request is answered. After all of them, nothing is left of the
//! killed processes.
//!
//! Its thread has the highest priority, so that it kills at the intended instruction, whatever the service does there.
//! It needs a machine whose clock counts instructions (`icount = true`): then a point is the same in every run, except
//! during waits for a disk, and idle time costs little. Such a clock skips idle time, so a disk whose host is slow
//! would seem to exceed every driver's limit: see [`patience`].
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod campaign;
mod clients;
mod figures;
mod patience;
mod uses;

use alloc::format;
use alloc::string::String;

use campaign::Campaign;
use capos_rt::{Env, Error, log};
use capos_schema::terminal::{Span, Style, TerminalClient};

async fn say(env: &Env, text: &str) -> Result<(), Error> {
    let session = env.cap::<TerminalClient>("terminal")?.open("fault campaign").await?;
    session.write(&[Span { text: format!("{text}\n"), style: Style::Plain }]).await?;
    Ok(())
}

async fn hold(env: &Env) -> Result<String, Error> {
    Campaign::new(env).await?.run().await
}

async fn start(env: Env) -> Result<(), Error> {
    match hold(&env).await {
        Ok(words) => {
            log::info!("{words}");
            say(&env, &format!("fault campaign passed: {words}")).await?;
        }
        Err(error) => {
            log::error!("{error}");
            say(&env, &format!("fault campaign failed: {error}")).await?;
        }
    }
    // A service that ends is started again.
    env.clock()?.sleep_until(u64::MAX).await;
    Ok(())
}
capos_rt::program!(start);
