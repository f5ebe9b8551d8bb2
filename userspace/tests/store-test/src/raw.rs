//! The disks behind the store's back.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_rt::memory::{self, Access, Mapping};
use capos_rt::{Context, Env, Error};
use capos_schema::kernel::MemoryObjectClient;
use capos_schema::storage::BlockDeviceClient;
use sha2::{Digest, Sha256};

const BLOCK: usize = 4096;
/// What the disks of these tests begin with: the one for notes, and one that is somebody's.
const NOTE: &[u8] = b"CAPOSNOTE";
const FOREIGN: &[u8] = b"SOMEBODY'S";
const VOLUME: &[u8] = b"CAPOSVOL";

struct Disk {
    device: BlockDeviceClient,
    /// Blocks of 4,096 bytes.
    blocks: u64,
    factor: u32,
    memory: MemoryObjectClient,
    mapping: Mapping,
}

/// All virtio disks.
pub struct Raw(Vec<Disk>);

impl Disk {
    async fn open(device: BlockDeviceClient) -> Result<Self, Error> {
        let info = device.info().await?;
        let memory = memory::create(BLOCK as u64)?;
        let mapping = memory::map(&memory, 0, BLOCK as u64, Access::ReadWrite)?;
        let factor = 4096_u32.checked_div(info.block_bytes).unwrap_or(1).max(1);
        Ok(Self { device, blocks: info.blocks.checked_div(factor.into()).unwrap_or(0), factor, memory, mapping })
    }

    async fn read(&self, block: u64) -> Result<Vec<u8>, Error> {
        self.device.read(block.saturating_mul(self.factor.into()), self.factor, &self.memory, 0).await?;
        Ok(self.mapping.read_vec(0, BLOCK)?)
    }

    async fn write(&self, block: u64, bytes: &[u8]) -> Result<(), Error> {
        self.mapping.write(0, bytes)?;
        Ok(self.device.write(block.saturating_mul(self.factor.into()), self.factor, &self.memory, 0, true).await?)
    }
}

impl Raw {
    pub async fn open(env: &Env) -> Result<Self, Error> {
        let mut disks = Vec::new();
        for device in env.each::<BlockDeviceClient>("device")? {
            disks.push(Disk::open(device).await?);
        }
        Ok(Self(disks))
    }

    async fn beginning_with(&self, magic: &[u8]) -> Result<&Disk, Error> {
        for disk in &self.0 {
            if disk.read(0).await?.starts_with(magic) {
                return Ok(disk);
            }
        }
        Err(Error::new(format!("no disk begins with {}", String::from_utf8_lossy(magic))))
    }

    /// Keeps a text on the disk for notes.
    pub async fn note(&self, text: &str) -> Result<(), Error> {
        let disk = self.beginning_with(NOTE).await?;
        let mut block: Vec<u8> = text.bytes().collect();
        block.resize(BLOCK, b' ');
        disk.write(1, &block).await
    }

    /// The text that was kept last.
    pub async fn noted(&self) -> Result<String, Error> {
        let block = self.beginning_with(NOTE).await?.read(1).await?;
        Ok(String::from_utf8(block).ok().context("the note is no text")?.trim().to_string())
    }

    /// Whether the disk that is somebody's is as it was: one block with its beginning, and zeros.
    pub async fn untouched(&self) -> Result<String, Error> {
        let Ok(disk) = self.beginning_with(FOREIGN).await else { return Ok("there is no other disk".into()) };
        for number in 0..disk.blocks {
            let block = disk.read(number).await?;
            let rest =
                if number == 0 { block.get(FOREIGN.len().saturating_add(1)..).unwrap_or_default() } else { &block };
            if rest.iter().any(|byte| *byte != 0) {
                return Err(Error::new(format!("block {number} of somebody's disk was written")));
            }
        }
        Ok("somebody's disk is untouched".into())
    }

    /// Changes every copy of the volume's header: its version, or a byte that its checksum covers.
    pub async fn break_headers(&self, how: &str) -> Result<String, Error> {
        let disk = self.beginning_with(VOLUME).await?;
        let end = disk.blocks.saturating_sub(2);
        for number in [0, 1, end.saturating_sub(2), end.saturating_sub(1)] {
            let mut block = disk.read(number).await?;
            let place = if how == "version" { 8 } else { 100 };
            if let Some(byte) = block.get_mut(place) {
                *byte ^= 3;
            }
            if how == "version" {
                let sum = Sha256::digest(block.get(..4064).unwrap_or_default());
                block.truncate(4064);
                block.extend(sum);
            }
            disk.write(number, &block).await?;
        }
        Ok(format!("headers are changed: {how}"))
    }
}
