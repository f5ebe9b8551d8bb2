//! The first process.
//!
//! It reads the manifest from the boot package, starts every service with exactly the grants listed
//! there, and supervises them. The disk drivers and the file system come from the boot package;
//! everything else is read through them. It serves the system's status, supervision, launching and
//! spawning itself.
#![cfg_attr(capos_guest, no_std, no_main)]
#![cfg_attr(not(capos_guest), allow(dead_code, reason = "the program runs in the guest only"))]

extern crate alloc;

mod boot_package;
mod grants;
mod keeper;
mod launcher;
mod pci;
mod pci_function;
mod profiles;
mod program_meter;
mod restarts;
mod service;
mod spawner;
mod status;
mod steps;
mod supervisor;
mod system;

use capos_rt::{Context, Env, Error};

use crate::system::System;

async fn run(env: Env) -> Result<(), Error> {
    let system = System::new(&env).await.context("the system cannot start")?;
    system.run().await
}

capos_rt::program!(run);
