//! The tutorial's client: has its arguments greeted, and writes the greetings.
#![cfg_attr(capos_guest, no_std, no_main)]
extern crate alloc;

use alloc::format;

use capos_rt::{Env, Error};
use capos_schema::hello::GreeterClient;
use capos_schema::system::StandardClient;

async fn run(env: Env) -> Result<(), Error> {
    let greeter = env.cap::<GreeterClient>("greeter")?;
    let out = env.cap::<StandardClient>("out")?;
    for name in env.arguments() {
        let greeting = greeter.greet(name).await?;
        out.write(&format!("{greeting}\n")).await?;
    }
    Ok(())
}

capos_rt::program!(run);
