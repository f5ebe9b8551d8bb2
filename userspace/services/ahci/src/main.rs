//! Driver of SATA controllers that speak AHCI 1.3.1, and of the disks and optical drives at them.
//!
//! Provides: `DiskController` (0), which opens each drive as a `BlockDevice`. It holds one PCI function, the right to make
//! memory reachable for the device, the time, and nothing else. The controller writes its callers' memory itself; nothing
//! is copied here, or even mapped.
//!
//! Each port runs one command at a time. One that fails is answered with an error message after its port was restarted; one that does
//! not end has a limit.
#![cfg_attr(capos_guest, no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod controller;
mod drive;
mod port;
mod server;

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::mem::ManuallyDrop;

use capos_block_server::Device;
use capos_rt::memory::{self, Access};
use capos_rt::{Context, Env, Error, ServeOptions, join_all, log, select};
use capos_schema::kernel::{DmaDomainClient, ResourceAccountClient};
use capos_schema::storage::{BlockDeviceService, DiskControllerService};
use capos_schema::system::PciFunctionClient;

use controller::Controller;
use drive::Drive;
use port::Port;
use server::Drives;

/// The memory window of the controller's registers: ABAR.
const REGISTERS: u8 = 5;
/// Place of the command register in the configuration space, and its bit that the windows answer.
const COMMAND: usize = 4;
const MEMORY: u8 = 1 << 1;

const OPTIONS: ServeOptions = ServeOptions { buffers: 8, message_bytes: 4 << 10, concurrent: 32 };

/// Starts a port, and asks its drive what it is. What does not work is said, and is no drive.
async fn probe(port: Rc<Port>) -> Option<Drive> {
    let number = port.number();
    let found = async {
        match port.start().await? {
            Some(signature) => Drive::identify(port, signature).await,
            None => Ok(None),
        }
    };
    match found.await {
        Ok(drive) => drive,
        Err(error) => {
            log::warning!("the drive at port {number} cannot be used: {error}");
            None
        }
    }
}

async fn run(env: Env) -> Result<(), Error> {
    let pci = env.cap::<PciFunctionClient>("pci")?;
    let dma = env.cap::<DmaDomainClient>("dma")?;
    let account = env.cap::<ResourceAccountClient>("account")?;
    let clock = env.clock()?;

    // A controller whose last driver has died may be in the middle of a command, kept from reaching memory. It is reset
    // before it may reach any again. One whose windows do not answer was never used.
    let space = pci.config().await.context("reading the configuration space")?;
    let answers = space.bytes.get(COMMAND).is_some_and(|command| command & MEMORY != 0);
    if !answers {
        pci.enable().await.context("enabling the device")?;
    }
    let window = pci.bar(REGISTERS).await.context("the controller has no window of registers")?;
    let window = memory::map(&window.mmio, 0, window.bytes, Access::ReadWrite).context("mapping the registers")?;
    let controller = Controller::take(window, clock).await?;
    if answers {
        pci.enable().await.context("enabling the device")?;
    }

    let notification = account.create_notification().await?;
    let interrupt = pci.interrupt(0).await.context("the controller has no message-signalled interrupt")?;
    interrupt.bind(&notification, 1).await?;
    let mut ports = Vec::new();
    for number in controller.ports() {
        ports.push(Port::new(number, &controller, &dma).await.with_context(|| format!("port {number}"))?);
    }
    controller.listen_to_ports();

    let serving = async {
        let found = join_all(ports.iter().cloned().map(probe)).await;
        let mut drives: Vec<Drive> = found.into_iter().flatten().collect();
        drives.sort_by_key(|drive| !drive.is_optical());
        for drive in &drives {
            let kind = if drive.is_optical() { "optical drive" } else { "disk" };
            log::info!("{kind} `{}` at port {}", drive.model(), drive.port());
        }
        if env.variable("EPOCH").is_some_and(|epoch| epoch != "0") {
            // Clients that opened a drive of an earlier process of this driver continue with it, and with the disc that is in it.
            for drive in &drives {
                if let Err(error) = drive.open().await {
                    log::warning!("{error}");
                }
            }
        }
        let devices = drives.into_iter().map(|drive| Rc::new(Device::new(drive, dma.clone()))).collect();
        let drives = Rc::new(Drives::new(devices, env.server().clone()));
        let known = drives.clone();
        env.server().serve_durable(move |port| Some(Rc::new(BlockDeviceService(known.find(port)?))));
        env.serve(0, Rc::new(DiskControllerService(drives)));
        env.run_with(OPTIONS).await
    };
    // What the controller was given to write to is given back by the end of the process alone: the kernel keeps it then
    // until `init` has kept the device from memory.
    let mut serving = ManuallyDrop::new(Box::pin(serving));
    let ended = select(controller.listen(&notification, &ports), serving.as_mut()).await;
    // The interrupt lives until here.
    drop(interrupt);
    core::mem::forget(ports);
    match ended {
        capos_rt::Either::First(result) | capos_rt::Either::Second(result) => result,
    }
}
capos_rt::program!(run);
