//! Transfer volumes: FAT and ISO 9660 disks as directories, and copies between them and the home directory.
//!
//! Provides: `TransferVolumes` (0).
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod copies;
mod directory;
mod disk;
mod file;
mod refused;
mod server;
mod volumes;

use alloc::rc::Rc;

use capos_rt::{Env, Error, ServeOptions};
use capos_schema::transfer::TransferVolumesService;
use server::Server;
use volumes::Volumes;

/// A write carries up to 256 KiB.
const OPTIONS: ServeOptions = ServeOptions { buffers: 2, message_bytes: 320 << 10, concurrent: 16 };

async fn run(env: Env) -> Result<(), Error> {
    let volumes = Volumes::new(env.cap("disks")?, env.cap("account")?, env.cap("timer")?, env.server().clone());
    let server = Server::new(Rc::new(volumes));
    env.serve(0, Rc::new(TransferVolumesService(Rc::new(server))));
    env.run_with(OPTIONS).await
}
capos_rt::program!(run);
