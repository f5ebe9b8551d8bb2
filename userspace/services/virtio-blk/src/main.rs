//! Driver of virtio disks on PCI.
//!
//! Provides: `BlockDevice` (0). It holds one PCI function, the right to make memory reachable for the
//! device, and nothing else. The device writes its callers' memory itself; nothing is copied here.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod configuration;
mod disk;
mod hal;
mod queue;
mod server;
mod transport;

use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use capos_rt::memory::{self, Access, Mapping};
use capos_rt::{Context, Env, Error, ServeOptions, log};
use capos_schema::kernel::{DmaDomainClient, ResourceAccountClient};
use capos_schema::storage::BlockDeviceService;
use capos_schema::system::PciFunctionClient;
use configuration::{BARS, Configuration};
use core::ptr::NonNull;
use disk::{Disk, SLOT_BYTES};
use hal::{Platform, Stretch};
use server::Device;
use transport::MessageTransport;
use virtio_drivers::transport::DeviceType;
use virtio_drivers::transport::pci::PciTransport;
use virtio_drivers::transport::pci::bus::{DeviceFunction, PciRoot};

/// Memory for the queue and the requests' heads, in bytes.
const POOL_BYTES: u64 = 32 * 1024;
/// The device's place on the bus is the bus manager's matter; the transport only repeats it.
const FUNCTION: DeviceFunction = DeviceFunction { bus: 0, device: 0, function: 0 };
/// Common configuration, in the vendor capabilities of virtio (virtio 1.2, section 4.1.4).
const COMMON: u8 = 1;
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
    pci.enable().await.context("enabling the device")?;
    let space = pci.config().await.context("reading the configuration space")?;

    // The memory windows, mapped for the life of this process.
    let mut sizes = [0_u64; BARS];
    let mut windows: Vec<(u8, Mapping)> = Vec::new();
    for (index, size) in (0_u8..).zip(sizes.iter_mut()) {
        let Ok(window) = pci.bar(index).await else { continue };
        let length = usize::try_from(window.bytes).context("a window of the device is too large")?;
        let mapping =
            memory::map(&window.mmio, 0, window.bytes, Access::ReadWrite).context("mapping a window of the device")?;
        let bus = window.mmio.info().await?.address;
        hal::add_window(Stretch { address: mapping.pointer().expose_provenance(), bus, bytes: length });
        *size = window.bytes;
        windows.push((index, mapping));
    }
    let (bar, offset) = common_configuration(&space.bytes).context("the device has no modern virtio interface")?;
    let (_, window) = windows.iter().find(|(index, _)| *index == bar).context("the device's window is missing")?;
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    if (offset as u64).checked_add(64).is_none_or(|end| end > window.len()) {
        return Err(Error::new("the device's common configuration lies outside its window"));
    }
    let common = NonNull::new(window.pointer().wrapping_add(offset)).context("the device's window is missing")?;

    // Memory that the device shares with this process.
    let pool = dma.allocate(POOL_BYTES).await.context("allocating memory for the queue")?;
    let length = usize::try_from(POOL_BYTES).unwrap_or(0);
    let memory = memory::map(&pool.region, 0, POOL_BYTES, Access::ReadWrite).context("mapping the queue's memory")?;
    let address = memory.pointer();
    let slots = NonNull::new(address).context("mapping the queue's memory")?;
    let taken = SLOT_BYTES.next_multiple_of(4096);
    hal::add_reachable(Stretch { address: address.expose_provenance(), bus: pool.address, bytes: taken });
    hal::add_pool(Stretch {
        address: address.expose_provenance().wrapping_add(taken),
        bus: pool.address.wrapping_add(taken as u64),
        bytes: length.saturating_sub(taken),
    });

    // Interrupts.
    let notification = account.create_notification().await?;
    let interrupt = pci.interrupt(0).await.context("the device has no message-signalled interrupt")?;
    interrupt.bind(&notification, 1).await?;

    let mut root = PciRoot::new(Configuration::new(space.bytes, sizes));
    let inner = PciTransport::new::<Platform, _>(&mut root, FUNCTION)
        .map_err(|error| Error::new(format!("the device is not a virtio device that can be used: {error:?}")))?;
    // SAFETY: the window is mapped for the life of this process, and the offset was checked.
    let transport = unsafe { MessageTransport::new(inner, common) };
    if virtio_drivers::transport::Transport::device_type(&transport) != DeviceType::Block {
        return Err(Error::new("the device is not a disk"));
    }
    // SAFETY: the slots are the pool's first bytes, which `add_pool` did not get.
    let disk = unsafe { Disk::start(transport, slots) }
        .map_err(|error| Error::new(format!("the disk does not start: {error}")))?;
    let limits = disk.limits();
    log::info!(
        "disk of {} sectors of 512 bytes in blocks of {}; its queue has {} descriptors",
        disk.sectors(),
        limits.block_bytes,
        limits.queue
    );
    let device = Rc::new(Device::new(disk, dma, notification));
    env.serve(0, Rc::new(BlockDeviceService(device.clone())));
    let ended = capos_rt::select(device.listen(), env.run_with(OPTIONS)).await;
    // The mappings live until here.
    drop((windows, memory, interrupt));
    match ended {
        capos_rt::Either::First(result) | capos_rt::Either::Second(result) => result,
    }
}
capos_rt::program!(run);
