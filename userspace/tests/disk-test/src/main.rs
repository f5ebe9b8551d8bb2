//! Writes every blank disk and verifies it later: a program for tests of drivers, across the machine's power.
//!
//! `disk-test write SEED` writes disks that are blank, and no others. `disk-test verify SEED` reads those that it wrote.
//! What a block holds follows from the seed and the block's number.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use capos_disk_content::{Content, classify};
use capos_rt::memory::{self, Access, Mapping};
use capos_rt::{Context, Env, Error};
use capos_schema::kernel::MemoryObjectClient;
use capos_schema::storage::{BlockDeviceClient, BlockRun, DiskControllerClient};
use capos_schema::system::StandardClient;

/// What the first block of a written disk begins with.
const MAGIC: &[u8; 8] = b"CAPOSTST";
/// Bytes of the memory that is read and written: the head of a disk, by which it is judged.
const BUFFER: u64 = 68 << 10;
/// The first of the blocks that are written in one request, and their number.
const FIRST: u64 = 1;
const COUNT: u32 = 16;
/// Runs that are written by one call, in this order, and their blocks.
const RUNS: [(u64, u32); 3] = [(70, 2), (40, 1), (64, 3)];

/// A disk and the memory for it.
struct Disk {
    name: String,
    device: BlockDeviceClient,
    block_bytes: u64,
    blocks: u64,
    memory: MemoryObjectClient,
    mapping: Mapping,
}

impl Disk {
    async fn open(name: String, device: BlockDeviceClient) -> Result<Option<Self>, Error> {
        let info = device.info().await.with_context(|| name.clone())?;
        if info.read_only {
            return Ok(None);
        }
        let memory = memory::create(BUFFER)?;
        let mapping = memory::map(&memory, 0, BUFFER, Access::ReadWrite)?;
        let block_bytes = u64::from(info.block_bytes.max(1));
        Ok(Some(Self { name, device, block_bytes, blocks: info.blocks, memory, mapping }))
    }

    async fn read(&self, block: u64, count: u32) -> Result<Vec<u8>, Error> {
        self.device.read(block, count, &self.memory, 0).await.with_context(|| self.name.clone())?;
        let bytes = u64::from(count).saturating_mul(self.block_bytes);
        Ok(self.mapping.read_vec(0, usize::try_from(bytes).unwrap_or(usize::MAX))?)
    }

    async fn head(&self) -> Result<Vec<u8>, Error> {
        let blocks = (BUFFER / self.block_bytes).min(self.blocks);
        self.read(0, u32::try_from(blocks).unwrap_or(u32::MAX)).await
    }

    /// The content of a block.
    fn pattern(&self, seed: u64, block: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.block_bytes).unwrap_or(0)];
        let mut state = seed ^ block.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in &mut bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = state.to_be_bytes().first().copied().unwrap_or(0);
        }
        if block == 0 {
            for (byte, magic) in bytes.iter_mut().zip(MAGIC) {
                *byte = *magic;
            }
        }
        bytes
    }

    async fn write(&self, seed: u64, block: u64, count: u32, durable: bool) -> Result<(), Error> {
        for number in 0..u64::from(count) {
            let bytes = self.pattern(seed, block.saturating_add(number));
            self.mapping.write(number.saturating_mul(self.block_bytes), &bytes)?;
        }
        let written = self.device.write(block, count, &self.memory, 0, durable).await;
        written.with_context(|| format!("{}: writing block {block}", self.name))
    }

    async fn verify(&self, seed: u64, block: u64, count: u32) -> Result<(), Error> {
        let read = self.read(block, count).await?;
        let blocks = read.chunks(usize::try_from(self.block_bytes).unwrap_or(1).max(1));
        for (number, found) in (block..).zip(blocks) {
            if found != self.pattern(seed, number) {
                return Err(Error::new(format!("block {number} of {} is not what was written", self.name)));
            }
        }
        Ok(())
    }

    /// The runs of [`RUNS`].
    fn runs() -> [BlockRun; RUNS.len()] {
        RUNS.map(|(block, count)| BlockRun { block, count })
    }

    /// Writes several runs by one call, which makes them durable. A call with one run beyond the end is rejected.
    async fn write_runs(&self, seed: u64) -> Result<(), Error> {
        let numbers = RUNS.iter().flat_map(|(block, count)| (*block..).take(*count as usize));
        for (place, number) in (0_u64..).zip(numbers) {
            self.mapping.write(place.saturating_mul(self.block_bytes), &self.pattern(seed, number))?;
        }
        let runs = Self::runs();
        let written = self.device.write_runs(&runs, &self.memory, 0, true).await;
        written.with_context(|| format!("{}: writing runs", self.name))?;
        // A call that is rejected writes none of its runs.
        self.mapping.write(0, &self.pattern(seed.wrapping_add(1), 0))?;
        let mut beyond = runs;
        beyond[1].block = self.blocks;
        match self.device.write_runs(&beyond, &self.memory, 0, true).await {
            Err(error) if error.to_string().contains("lie outside the disk") => Ok(()),
            _ => Err(Error::new(format!("{} took a run behind its end", self.name))),
        }
    }

    async fn verify_runs(&self, seed: u64) -> Result<(), Error> {
        let read = self.device.read_runs(&Self::runs(), &self.memory, 0).await;
        read.with_context(|| format!("{}: reading runs", self.name))?;
        let numbers = RUNS.iter().flat_map(|(block, count)| (*block..).take(*count as usize));
        for (place, number) in (0_u64..).zip(numbers) {
            let bytes = usize::try_from(self.block_bytes).unwrap_or(0);
            if self.mapping.read_vec(place.saturating_mul(self.block_bytes), bytes)? != self.pattern(seed, number) {
                return Err(Error::new(format!("block {number} of {} is not what was written in a run", self.name)));
            }
        }
        Ok(())
    }

    /// Writes the disk: some blocks that a flush makes durable, then the last and the first, durable by themselves.
    async fn fill(&self, seed: u64) -> Result<(), Error> {
        self.write(seed, FIRST, COUNT, false).await?;
        self.device.flush().await.with_context(|| format!("{}: flushing", self.name))?;
        self.write_runs(seed).await?;
        self.write(seed, self.blocks.saturating_sub(1), 1, true).await?;
        self.write(seed, 0, 1, true).await?;
        let beyond = self.write(seed, self.blocks, 1, false).await;
        match beyond {
            Err(error) if error.to_string().contains("lie outside the disk") => Ok(()),
            _ => Err(Error::new(format!("{} took a block behind its end", self.name))),
        }
    }
}

async fn run(env: Env) -> Result<(), Error> {
    let out = env.cap::<StandardClient>("out")?;
    let arguments: Vec<&str> = env.arguments().iter().map(AsRef::as_ref).collect();
    let [verb, seed] = arguments.as_slice() else { return Err(Error::new("write SEED, or verify SEED")) };
    let seed: u64 = seed.parse().map_err(|_| Error::new("the seed is a number"))?;
    let mut disks = Vec::new();
    for (number, device) in (1_u32..).zip(env.each::<BlockDeviceClient>("device")?) {
        disks.extend(Disk::open(format!("virtio disk {number}"), device).await?);
    }
    for controller in env.each::<DiskControllerClient>("drives")? {
        for drive in controller.drives().await?.into_iter().filter(|drive| !drive.optical) {
            let device = controller.open(drive.port).await?;
            disks.extend(Disk::open(format!("SATA disk at port {}", drive.port), device).await?);
        }
    }
    let mut done = 0_u32;
    for disk in &disks {
        let head = disk.head().await?;
        match *verb {
            "write" if classify(&head, []) == Content::Blank => disk.fill(seed).await?,
            "verify" if head.starts_with(MAGIC) => {
                disk.verify(seed, 0, 1).await?;
                disk.verify(seed, FIRST, COUNT).await?;
                disk.verify_runs(seed).await?;
                disk.verify(seed, disk.blocks.saturating_sub(1), 1).await?;
            }
            _ => continue,
        }
        done = done.saturating_add(1);
        out.write(&format!("{verb}: {} of {} blocks\n", disk.name, disk.blocks)).await?;
    }
    out.write(&format!("{verb} is done on {done}\n")).await?;
    Ok(())
}
capos_rt::program!(run);
