//! A disk of the machine, as the volume wants it: blocks of 4 KiB, through memory that the driver fills.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::Cell;

use capos_rt::memory::{self, Access, Mapping};
use capos_rt::{log, now, sleep, spawn, wait_for};
use capos_schema::cap::CallError;
use capos_schema::kernel::MemoryObjectClient;
use capos_schema::storage::BlockDeviceClient;
use capos_volume::{BLOCK, Disk, DiskError};

use crate::here::Here;

/// Blocks that are read or written in one request.
const BOUNCE: usize = 32;
/// How often a read is tried again when the driver has ended meanwhile.
const RETRIES: u32 = 3;
/// A request that takes so long, in nanoseconds, is told in the log. A driver ends with one that takes 30 seconds.
const SLOW: u64 = 5_000_000_000;
/// A driver that ends after so long has waited for its disk.
const SILENT: u64 = 20_000_000_000;
/// Between two questions to a disk that does not answer, in nanoseconds.
const PAUSE: u64 = 10_000_000_000;

/// A disk. Clones are the same one.
#[derive(Clone)]
pub struct GuestDisk(Here<Rc<Inner>>);

struct Inner {
    place: String,
    device: BlockDeviceClient,
    /// Blocks of the device in one of 4 KiB.
    factor: u32,
    blocks: u64,
    memory: MemoryObjectClient,
    mapping: Mapping,
    /// It has not answered a request, and is asked again without anybody waiting. Until it answers, requests fail at once.
    silent: Cell<bool>,
}

impl GuestDisk {
    /// The disk at a place.
    ///
    /// # Errors
    /// It does not answer, has blocks of another size, or there is no memory.
    pub async fn open(place: &str, device: BlockDeviceClient) -> Result<Self, CallError> {
        let info = device.info().await?;
        let factor = u32::try_from(BLOCK).ok().and_then(|block| block.checked_div(info.block_bytes));
        let factor =
            factor.filter(|factor| factor.checked_mul(info.block_bytes).is_some_and(|bytes| bytes as usize == BLOCK));
        let Some(factor) = factor else {
            let why = format!("{place} has blocks of {} bytes, which do not fit into {BLOCK}", info.block_bytes);
            return Err(CallError::failed(why));
        };
        let bytes = BLOCK.saturating_mul(BOUNCE) as u64;
        let memory = memory::create(bytes)?;
        let mapping = memory::map(&memory, 0, bytes, Access::ReadWrite)?;
        let blocks = info.blocks.checked_div(factor.into()).unwrap_or(0);
        Ok(Self(Here::new(Rc::new(Inner {
            place: place.into(),
            device,
            factor,
            blocks,
            memory,
            mapping,
            silent: Cell::new(false),
        }))))
    }
}

impl Inner {
    fn check(&self, block: u64, bytes: usize) -> Result<(), DiskError> {
        let count = bytes.div_euclid(BLOCK) as u64;
        let fits = bytes.is_multiple_of(BLOCK) && block.checked_add(count).is_some_and(|end| end <= self.blocks);
        fits.then_some(()).ok_or(DiskError::OutOfRange)
    }

    /// The first block of the device and their number.
    fn range(&self, block: u64, bytes: usize) -> (u64, u32) {
        let count = u32::try_from(bytes.div_euclid(BLOCK)).unwrap_or(u32::MAX);
        (block.saturating_mul(self.factor.into()), count.saturating_mul(self.factor))
    }

    /// Waits for a request to the driver.
    fn ask(self: &Rc<Self>, request: impl Future<Output = Result<(), CallError>>) -> Result<(), CallError> {
        if self.silent.get() {
            return Err(CallError::disconnected("the disk does not answer"));
        }
        let began = now().unwrap_or(0);
        let done = wait_for(request);
        let took = now().unwrap_or(0).saturating_sub(began);
        if done.as_ref().is_err_and(CallError::is_disconnected) && took > SILENT {
            let seconds = took.div_euclid(1_000_000_000);
            log::error!(
                "{} has not answered for {seconds} s. Nothing is read or saved until it does; check it and its cable",
                self.place
            );
            self.silent.set(true);
            drop(spawn(self.clone().until_it_answers()));
        } else if took > SLOW {
            log::warning!("{} took {} s for a request", self.place, took.div_euclid(1_000_000_000));
        }
        done
    }

    /// Asks a silent disk for its first block, into memory that nothing else uses, until it answers.
    async fn until_it_answers(self: Rc<Self>) {
        loop {
            if sleep(PAUSE).await.is_err() {
                return;
            }
            let Ok(memory) = memory::create(BLOCK as u64) else { continue };
            match self.device.read(0, self.factor, &memory, 0).await {
                Err(error) if error.is_disconnected() => {}
                _ => break,
            }
        }
        log::info!("{} answers again", self.place);
        self.silent.set(false);
    }

    fn fill(self: &Rc<Self>, block: u64, bytes: usize) -> Result<(), CallError> {
        let (first, count) = self.range(block, bytes);
        let mut tries = RETRIES;
        loop {
            match self.ask(self.device.read(first, count, &self.memory, 0)) {
                // Reading changes nothing, so the driver's next life is asked.
                Err(error) if error.is_disconnected() && !self.silent.get() && tries > 0 => {
                    tries = tries.saturating_sub(1);
                }
                done => return done,
            }
        }
    }

    /// What the volume is told of an error; the driver's own words go to the log.
    fn failed(&self, what: &str, block: u64, error: &CallError) -> DiskError {
        if !self.silent.get() {
            log::error!("{what} block {block} of {}: {error}", self.place);
        }
        if error.is_disconnected() { DiskError::Gone } else { DiskError::Failed }
    }
}

impl Disk for GuestDisk {
    fn blocks(&self) -> u64 {
        self.0.get().blocks
    }

    fn read(&mut self, block: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let disk = self.0.get();
        disk.check(block, into.len())?;
        for (part, at) in into.chunks_mut(BLOCK.saturating_mul(BOUNCE)).zip((block..).step_by(BOUNCE)) {
            let done = disk.fill(at, part.len()).and_then(|()| disk.mapping.read(0, part));
            done.map_err(|error| disk.failed("reading", at, &error))?;
        }
        Ok(())
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), DiskError> {
        let disk = self.0.get();
        disk.check(block, from.len())?;
        for (part, at) in from.chunks(BLOCK.saturating_mul(BOUNCE)).zip((block..).step_by(BOUNCE)) {
            let (first, count) = disk.range(at, part.len());
            let write = || disk.ask(disk.device.write(first, count, &disk.memory, 0, false));
            let done = disk.mapping.write(0, part).and_then(|()| write());
            done.map_err(|error| disk.failed("writing", at, &error))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        let disk = self.0.get();
        disk.ask(disk.device.flush()).map_err(|error| disk.failed("flushing, after", 0, &error))
    }
}
