//! A disk of the machine, as the volume wants it: blocks of 4 KiB, through memory that the driver fills.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;

use capos_rt::memory::{self, Access, Mapping};
use capos_rt::{log, now, sleep, spawn, wait_for};
use capos_schema::cap::CallError;
use capos_schema::kernel::MemoryObjectClient;
use capos_schema::storage::{BlockDeviceClient, BlockRun};
use capos_volume::{BLOCK, Disk, DiskError, MOST_BLOCKS, Operation, Run};

use crate::here::Here;

/// How often a read is tried again when the driver has ended meanwhile.
const RETRIES: u32 = 3;
/// A request that takes so long, in nanoseconds, is reported in the log. With one that takes 30 seconds a virtio driver ends, and a SATA
/// driver resets the port.
const SLOW: u64 = 5_000_000_000;
/// A request that fails as disconnected after so long, in nanoseconds, has waited for the disk, and not lost the driver alone.
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
        let bytes = BLOCK.saturating_mul(MOST_BLOCKS) as u64;
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

    fn fill(self: &Rc<Self>, runs: &[BlockRun]) -> Result<(), CallError> {
        let mut tries = RETRIES;
        loop {
            match self.ask(self.device.read_runs(runs, &self.memory, 0)) {
                // Reading changes nothing, so the driver's next life is asked.
                Err(error) if error.is_disconnected() && !self.silent.get() && tries > 0 => {
                    tries = tries.saturating_sub(1);
                }
                done => return done,
            }
        }
    }

    /// The runs as the driver wants them, if they lie on the disk and have this many bytes.
    fn runs(&self, runs: &[Run], bytes: usize) -> Result<Vec<BlockRun>, DiskError> {
        let mut sum = 0_usize;
        let mut checked = Vec::with_capacity(runs.len());
        for run in runs {
            let bytes = run.blocks.saturating_mul(BLOCK);
            self.check(run.first, bytes)?;
            sum = sum.saturating_add(bytes);
            let (block, count) = self.range(run.first, bytes);
            checked.push(BlockRun { block, count });
        }
        if sum == bytes { Ok(checked) } else { Err(DiskError::OutOfRange) }
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
        for (part, first) in into.chunks_mut(BLOCK.saturating_mul(MOST_BLOCKS)).zip((block..).step_by(MOST_BLOCKS)) {
            let blocks = part.len().div_euclid(BLOCK);
            self.read_runs(&[Run { first, blocks }], part)?;
        }
        Ok(())
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), DiskError> {
        for (part, first) in from.chunks(BLOCK.saturating_mul(MOST_BLOCKS)).zip((block..).step_by(MOST_BLOCKS)) {
            let blocks = part.len().div_euclid(BLOCK);
            self.write_runs(&[Run { first, blocks }], part, false).map_err(|(_, error)| error)?;
        }
        Ok(())
    }

    fn read_runs(&mut self, runs: &[Run], into: &mut [u8]) -> Result<(), DiskError> {
        let disk = self.0.get();
        let checked = disk.runs(runs, into.len())?;
        let first = runs.first().map_or(0, |run| run.first);
        let done = disk.fill(&checked).and_then(|()| disk.mapping.read(0, into));
        done.map_err(|error| disk.failed("reading", first, &error))
    }

    fn write_runs(&mut self, runs: &[Run], from: &[u8], flush: bool) -> Result<(), (Operation, DiskError)> {
        let disk = self.0.get();
        let checked = disk.runs(runs, from.len()).map_err(|error| (Operation::Write, error))?;
        let first = runs.first().map_or(0, |run| run.first);
        let write = || disk.ask(disk.device.write_runs(&checked, &disk.memory, 0, flush));
        disk.mapping.write(0, from).and_then(|()| write()).map_err(|error| {
            // Which of both failed is not known. A disk that still answers and cannot be flushed has failed at that.
            if flush && !error.is_disconnected() && disk.ask(disk.device.flush()).is_err() {
                return (Operation::Flush, disk.failed("flushing, after", first, &error));
            }
            (Operation::Write, disk.failed("writing", first, &error))
        })
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        let disk = self.0.get();
        disk.ask(disk.device.flush()).map_err(|error| disk.failed("flushing, after", 0, &error))
    }
}
