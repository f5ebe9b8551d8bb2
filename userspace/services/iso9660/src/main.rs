//! The boot medium: an ISO 9660 volume as directories and files, and the pager of the files' memory.
//!
//! Provides: `Directory` (0), the volume's root, read-only; `Disks` (1), what all disks of the machine hold; `DiskAccess` (2),
//! disks that can be written; `TransferDisks` (3), those with volumes that carry files.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod boot_medium;
mod disk;
mod disks;
mod server;

use alloc::rc::Rc;
use capos_rt::{Env, Error, ServeOptions, log};
use capos_schema::kernel::{PagerService, ResourceAccountClient};
use capos_schema::storage::{DirectoryService, DiskAccessService, DisksService};
use capos_schema::transfer::TransferDisksService;
use disks::{Access, Disks, Told, Transfer};
use server::{DirectoryObject, FilePager, Medium};

/// Calls are small; several files are paged in at the same time.
const OPTIONS: ServeOptions = ServeOptions { buffers: 8, message_bytes: 16 << 10, concurrent: 32 };

async fn run(env: Env) -> Result<(), Error> {
    let account = env.cap::<ResourceAccountClient>("account")?;
    let boot_medium::Found { volume, place, device } = boot_medium::find(&env, &account).await?;
    log::info!("volume `{}`, {} sectors", volume.label(), volume.sectors());
    let disks = Rc::new(Disks::new(&env, account.clone(), place, device)?);
    let medium = Medium::new(volume, account, env.server().clone());
    let found = medium.clone();
    env.server().serve_durable(move |key| Some(Rc::new(PagerService(Rc::new(FilePager::find(&found, key)?)))));
    env.serve(0, Rc::new(DirectoryService(DirectoryObject::root(&medium))));
    env.serve(1, Rc::new(DisksService(Rc::new(Told(disks.clone())))));
    env.serve(2, Rc::new(DiskAccessService(Rc::new(Access(disks.clone())))));
    env.serve(3, Rc::new(TransferDisksService(Rc::new(Transfer(disks)))));
    env.run_with(OPTIONS).await
}
capos_rt::program!(run);
