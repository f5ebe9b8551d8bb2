//! Device authority used for more than it covers: ports, DMA, entropy, mapped registers.

use alloc::format;

use capos_rt::Error;
use capos_rt::memory::{self, PAGE};
use capos_schema::cap::{CallError, Client};
use capos_schema::kernel::{DmaDomainClient, EntropyClient, IoPortsClient, MmioClient, PagerClient};

use crate::kit::{self, Kit};

fn refused<T>(what: &str, result: Result<T, CallError>) -> Result<(), Error> {
    kit::ensure(result.is_err(), || format!("{what} was allowed"))
}

/// It holds only the four ports from 0x80 on, which do nothing.
async fn ports(kit: &Kit) -> Result<(), Error> {
    let ports: IoPortsClient = kit.env.cap("ports")?;
    ports.write(0x80, 1, 0x55).await?;
    for (port, width) in [
        (0x7f, 1),
        (0x84, 1),
        (0x3f8, 1),
        (0xcf8, 4),
        (0x83, 2),
        (0x81, 4),
        (0x7f, 2),
        (0xffff, 1),
        (0xffff, 4),
        (0, 1),
    ] {
        refused(&format!("reading {width} bytes at port {port:#x}"), ports.read(port, width).await)?;
        refused(&format!("writing {width} bytes at port {port:#x}"), ports.write(port, width, 0).await)?;
    }
    for width in [0, 3, 5, 8, 255] {
        refused(&format!("a width of {width}"), ports.read(0x80, width).await)?;
        refused(&format!("a width of {width}"), ports.write(0x80, width, 0).await)?;
    }
    for (first, count) in
        [(0x7f, 1), (0x7f, 8), (0x80, 5), (0x83, 2), (0x84, 1), (0, 0x1_0000), (0xffff, 2), (0x80, u32::MAX)]
    {
        refused(&format!("narrowing to {count} ports from {first:#x}"), ports.narrow(first, count).await)?;
    }
    refused("no ports at all", ports.narrow(0x80, 0).await)?;
    refused("bytes to another port", ports.write_bytes(0x3f8, b"x").await)?;
    refused("draining another port", ports.drain(0x3fd, 1, 0x3f8, 16).await)?;
    refused("draining by another's status", ports.drain(0x3fd, 1, 0x80, 16).await)?;
    refused("registers behind another index port", ports.read_indexed(0xcf8, 0x80, &[0]).await)?;
    refused("registers behind another data port", ports.read_indexed(0x80, 0xcfc, &[0]).await)?;
    refused("registers half outside", ports.read_indexed(0x80, 0x81, &[0]).await)?;
    refused("more registers than are read at once", ports.read_indexed(0x80, 0x80, &[0; 257]).await)?;
    let read = ports.read_indexed(0x80, 0x80, &[0; 256]).await?;
    kit::ensure(read.len() == 256, || format!("{} registers in place of 256", read.len()))?;
    // A status that never ends is cut off by its limit.
    let drained = ports.drain(0x80, 0xff, 0x80, u16::MAX).await;
    kit::ensure(drained.as_ref().map_or(true, |data| data.len() <= usize::from(u16::MAX)), || {
        "too much was drained".into()
    })?;
    let narrow = ports.narrow(0x81, 1).await?;
    refused("what a narrower capability lost", narrow.read(0x80, 1).await)?;
    refused("widening", narrow.narrow(0x80, 4).await)
}

/// Memory for devices: too much, none, of others.
async fn dma(kit: &Kit) -> Result<(), Error> {
    let dma: DmaDomainClient = kit.env.cap("dma")?;
    for bytes in [0, u64::MAX, u64::MAX - 4095, 1 << 63, 1 << 46, 1 << 40] {
        refused(&format!("{bytes:#x} bytes for a device"), dma.allocate(bytes).await)?;
    }
    let own = memory::create(4 * PAGE)?;
    for (offset, bytes) in [(0, 0), (0, 5 * PAGE), (4 * PAGE, PAGE), (1 << 63, PAGE), (u64::MAX, 1), (PAGE, u64::MAX)] {
        refused(&format!("pinning {bytes:#x} bytes at {offset:#x} of four pages"), dma.pin(&own, offset, bytes).await)?;
    }
    // Pages that a pager supplies belong to the page cache: no device may write to them.
    let client: PagerClient = kit.endpoint.mint(0, PagerClient::INTERFACE_ID).await?.cast();
    let paged = kit.account.create_paged_memory(PAGE, &client).await?;
    refused("pinning paged memory", dma.pin(&paged, 0, PAGE).await)?;
    // Pinned memory stays until the device releases it.
    let pinned = dma.pin(&own, 0, 4 * PAGE).await?;
    drop(own);
    capos_rt::yield_now().await;
    let info = pinned.region.info().await?;
    kit::ensure(info.bytes == 4 * PAGE, || format!("{} bytes are pinned", info.bytes))?;
    let mut held = alloc::vec::Vec::new();
    while let Ok(region) = dma.allocate(PAGE).await {
        held.push(region);
        kit::ensure(held.len() < 100_000, || "there is no limit".into())?;
    }
    Ok(())
}

/// The attack.
pub async fn run(kit: &Kit) -> Result<(), Error> {
    ports(kit).await?;
    dma(kit).await?;
    let entropy: EntropyClient = kit.env.cap("entropy")?;
    for bytes in [0, 1025, u16::MAX] {
        refused(&format!("{bytes} random bytes"), entropy.read(bytes).await)?;
    }
    let (one, other) = (entropy.read(32).await?, entropy.read(32).await?);
    kit::ensure(one != other && one.iter().any(|byte| *byte != 0), || "random bytes are not".into())?;
    let mmio: MmioClient = kit.env.cap("mmio")?;
    let info = mmio.info().await?;
    for (address, bytes) in [
        // Where the kernel and processes live: RAM is not a device.
        (0x10_0000, PAGE),
        (0x20_0000, PAGE),
        (0x100_0000, PAGE),
        (0, u64::MAX),
        (u64::MAX - 4095, PAGE),
        (0xfee0_0001, PAGE),
        (0xfee0_0000, 1),
        (0xfee0_0000, 0),
        (1 << 63, 1 << 63),
    ] {
        refused(
            &format!("device memory of {bytes:#x} bytes at {address:#x}, of {info:?}"),
            mmio.narrow(address, bytes).await,
        )?;
    }
    kit.still_served()
}
