//! The smallest program on the runtime alone: it greets, as `hello-std` does on `std`.
#![cfg_attr(capos_guest, no_std, no_main)]
extern crate alloc;

use capos_rt::{Env, Error, log};

async fn run(_: Env) -> Result<(), Error> {
    log::info!("Hello, world, from capOS.");
    Ok(())
}

capos_rt::program!(run);
