//! Which of the machine's drives holds the medium that it was booted from.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use capos_iso9660::Volume;
use capos_rt::memory::{Access, Mapping, PAGE, map_all};
use capos_rt::{Context, Env, Error, log};
use capos_schema::kernel::{MemoryObjectClient, ResourceAccountClient};
use capos_schema::storage::{BlockDeviceClient, DiskControllerClient};

use crate::disk::Disk;

/// What tells the volume from others: the boot package, which the boot loader took from it.
const PACKAGE: &str = "boot/boot.tar";
/// Bytes of it that are compared at once.
const PIECE: usize = 64 * 1024;

/// The drives, one after another, until one holds the volume.
struct Search<'a> {
    account: &'a ResourceAccountClient,
    /// What was booted; without it the first volume is the one.
    booted: Option<Mapping>,
    /// Why the drives that were looked at are passed by.
    passed: Vec<String>,
}

/// The volume of this boot: on the virtio disk, or else on the first of the disk controller's drives that has it. Where
/// the process was given the boot package that was started, the volume is the one that holds the same.
///
/// # Errors
/// No drive holds it: what was found on each.
pub async fn find(env: &Env, account: &ResourceAccountClient) -> Result<Volume<Disk>, Error> {
    let booted = env.optional::<MemoryObjectClient>("boot")?;
    let booted = booted.map(|memory| map_all(&memory, Access::Read)).transpose()?;
    let mut search = Search { account, booted, passed: Vec::new() };
    if let Some(device) = env.optional::<BlockDeviceClient>("device")?
        && let Some(volume) = search.look("the virtio disk", device).await
    {
        return Ok(volume);
    }
    if let Some(controller) = env.optional::<DiskControllerClient>("drives")? {
        match controller.drives().await {
            Ok(drives) if drives.is_empty() => search.passed.push("the SATA controller has no drives".into()),
            Ok(drives) => {
                for drive in drives {
                    let name = format!("`{}` at SATA port {}", drive.model, drive.port);
                    match controller.open(drive.port).await {
                        Ok(device) => {
                            if let Some(volume) = search.look(&name, device).await {
                                return Ok(volume);
                            }
                        }
                        Err(error) => search.passed.push(format!("{error}")),
                    }
                }
            }
            Err(error) => search.passed.push(format!("{error}")),
        }
    }
    Err(Error::new(format!("no drive holds the volume of this boot: {}", search.passed.join("; "))))
}

impl Search<'_> {
    async fn look(&mut self, name: &str, device: BlockDeviceClient) -> Option<Volume<Disk>> {
        match self.mount(device).await {
            Ok(volume) => {
                log::info!("the boot medium is {name}");
                Some(volume)
            }
            Err(error) => {
                self.passed.push(format!("{name}: {error}"));
                None
            }
        }
    }

    async fn mount(&self, device: BlockDeviceClient) -> Result<Volume<Disk>, Error> {
        let disk = Disk::new(device, self.account).await?;
        let sectors = disk.sectors();
        let volume = Volume::mount(disk, sectors).await.context("it holds no volume that can be read")?;
        if let Some(booted) = &self.booted {
            compare(&volume, booted).await?;
        }
        Ok(volume)
    }
}

/// Whether a volume holds what was booted.
async fn compare(volume: &Volume<Disk>, booted: &Mapping) -> Result<(), Error> {
    let other = || Error::new(format!("its /{PACKAGE} is not the one that was booted"));
    let file = volume.resolve(volume.root(), PACKAGE).await.with_context(|| format!("it has no /{PACKAGE}"))?;
    // In memory it lies in whole pages.
    if file.size().checked_next_multiple_of(PAGE) != Some(booted.len()) {
        return Err(other());
    }
    let mut buffer = vec![0; PIECE];
    let mut offset = 0;
    while offset < file.size() {
        let read = volume.read(&file, offset, &mut buffer).await.with_context(|| format!("reading its /{PACKAGE}"))?;
        let piece = buffer.get(..read).filter(|piece| !piece.is_empty()).ok_or_else(other)?;
        if booted.read_vec(offset, read)? != piece {
            return Err(other());
        }
        offset = offset.saturating_add(read as u64);
    }
    Ok(())
}
