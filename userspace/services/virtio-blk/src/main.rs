//! Driver of virtio disks on PCI.
//!
//! Provides: `BlockDevice` (0). It holds one PCI function, the right to make memory reachable for the
//! device, the time, and nothing else. The device writes its callers' memory itself; nothing is copied here.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod configuration;
mod disk;
mod hal;
mod transport;

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use capos_block_server::Device;
use capos_rt::memory::{self, Access, Mapping};
use capos_rt::{Context, Env, Error, ServeOptions, log};
use capos_schema::kernel::{DmaDomainClient, ResourceAccountClient};
use capos_schema::storage::BlockDeviceService;
use capos_schema::system::PciFunctionClient;
use capos_virtio::QUEUE_BYTES;
use configuration::{BARS, Configuration};
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use disk::{Disk, Shared};
use hal::{Platform, Window};
use transport::MessageTransport;
use virtio_drivers::transport::DeviceType;
use virtio_drivers::transport::pci::PciTransport;
use virtio_drivers::transport::pci::bus::{DeviceFunction, PciRoot};

/// The device's place on the bus is the bus manager's matter; the transport only repeats it.
const FUNCTION: DeviceFunction = DeviceFunction { bus: 0, device: 0, function: 0 };
/// Common configuration, in the vendor capabilities of virtio (virtio 1.2, section 4.1.4).
const COMMON: u8 = 1;
/// Place of the command register in the configuration space, and its bit that the windows answer.
const COMMAND: usize = 4;
const MEMORY: u8 = 1 << 1;
/// A PCI capability that is the vendor's.
const VENDOR: u8 = 9;

const OPTIONS: ServeOptions = ServeOptions { buffers: 8, message_bytes: 4 << 10, concurrent: 32 };

/// Where the common configuration lies: window, offset.
fn common_configuration(bytes: &[u8]) -> Option<(u8, u32)> {
    let mut at = usize::from(*bytes.get(0x34)?);
    // A list longer than the space has loops.
    for _ in 0..64 {
        let entry = bytes.get(at..)?;
        let [id, next, _, kind, bar, ..] = entry else { return None };
        if *id == VENDOR && *kind == COMMON {
            let offset = entry.get(8..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
            return Some((*bar, offset));
        }
        at = usize::from(*next);
        if at == 0 {
            return None;
        }
    }
    None
}

async fn run(env: Env) -> Result<(), Error> {
    let pci = env.cap::<PciFunctionClient>("pci")?;
    let dma = env.cap::<DmaDomainClient>("dma")?;
    let account = env.cap::<ResourceAccountClient>("account")?;
    let clock = env.clock()?;
    // A device whose last driver has died may have requests left, kept from reaching memory. It is reset before it may reach
    // any again. One whose windows do not answer was never used.
    let space = pci.config().await.context("reading the configuration space")?;
    let answers = space.bytes.get(COMMAND).is_some_and(|command| command & MEMORY != 0);
    if !answers {
        pci.enable().await.context("enabling the device")?;
    }

    // The memory windows, mapped for the life of this process.
    let mut sizes = [0_u64; BARS];
    let mut windows: Vec<(u8, Mapping)> = Vec::new();
    for (index, size) in (0_u8..).zip(sizes.iter_mut()) {
        let Ok(window) = pci.bar(index).await else { continue };
        let length = usize::try_from(window.bytes).context("a window of the device is too large")?;
        let mapping =
            memory::map(&window.mmio, 0, window.bytes, Access::ReadWrite).context("mapping a window of the device")?;
        let bus = window.mmio.info().await?.address;
        hal::add_window(Window { address: mapping.pointer().expose_provenance(), bus, bytes: length });
        *size = window.bytes;
        windows.push((index, mapping));
    }
    let (bar, offset) = common_configuration(&space.bytes)
        .context("the device has no virtio 1.0 interface (with QEMU: omit disable-modern)")?;
    let (_, window) = windows.iter().find(|(index, _)| *index == bar).context("the device's window is missing")?;
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    if (offset as u64).checked_add(64).is_none_or(|end| end > window.len()) {
        return Err(Error::new("the device's common configuration lies outside its window"));
    }
    let common = NonNull::new(window.pointer().wrapping_add(offset)).context("the device's window is missing")?;

    let mut root = PciRoot::new(Configuration::new(space.bytes, sizes));
    let inner = PciTransport::new::<Platform, _>(&mut root, FUNCTION)
        .map_err(|error| Error::new(format!("the device is not a virtio device that can be used: {error}")))?;
    // SAFETY: the window is mapped for the life of this process, and the offset was checked.
    let mut transport = unsafe { MessageTransport::new(inner, common) };
    if !transport.reset() {
        return Err(Error::new("the device does not complete its reset; turn the machine off and on"));
    }
    if answers {
        pci.enable().await.context("enabling the device")?;
    }
    if virtio_drivers::transport::Transport::device_type(&transport) != DeviceType::Block {
        return Err(Error::new("the device is not a disk"));
    }

    let notification = account.create_notification().await?;
    let interrupt = pci.interrupt(0).await.context("the device has no message-signalled interrupt")?;
    interrupt.bind(&notification, 1).await?;

    // Memory that the device shares with this process.
    let pool = dma.allocate(QUEUE_BYTES).await.context("allocating memory for the queue")?;
    let shared = memory::map(&pool.region, 0, QUEUE_BYTES, Access::ReadWrite).context("mapping the queue's memory")?;
    let disk = Disk::start(transport, Shared(shared), pool.address, clock)
        .map_err(|error| Error::new(format!("the disk does not start: {error}")))?;
    let limits = disk.limits();
    log::info!(
        "disk of {} sectors of 512 bytes in blocks of {}; its queue has {} descriptors",
        disk.sectors(),
        limits.block_bytes,
        limits.queue
    );
    let device = Rc::new(Device::new(disk, dma));
    env.serve(0, Rc::new(BlockDeviceService(device.clone())));
    // What the device was given to write to is given back by the end of the process alone: the kernel keeps it then until
    // `init` has kept the device from memory.
    let mut serving = ManuallyDrop::new(Box::pin(env.run_with(OPTIONS)));
    let ended = capos_rt::select(device.disk().listen(&notification), serving.as_mut()).await;
    core::mem::forget((device, pool, windows, interrupt));
    match ended {
        capos_rt::Either::First(result) | capos_rt::Either::Second(result) => result,
    }
}
capos_rt::program!(run);
