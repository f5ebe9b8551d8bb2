//! Which of the machine's drives holds the medium that it was booted from.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::Poll;

use capos_iso9660::Volume;
use capos_rt::memory::{Access, Mapping, PAGE, map_all};
use capos_rt::{Context, Env, Error, log};
use capos_schema::kernel::{MemoryObjectClient, ResourceAccountClient};
use capos_schema::storage::{BlockDeviceClient, DiskControllerClient};

use crate::disk::Disk;
use crate::disks::{drive_place, virtio_place};

/// What tells the volume from others: the boot package, which the boot loader took from it.
const PACKAGE: &str = "boot/boot.tar";
/// Bytes of it that are compared at once.
const PIECE: usize = 64 * 1024;

/// A look at one disk, or at the drives of one controller.
type Look<'a> = Pin<Box<dyn Future<Output = Option<Found>> + 'a>>;

/// The boot medium.
pub struct Found {
    /// Its volume.
    pub volume: Volume<Disk>,
    /// Where it is attached.
    pub place: String,
    /// The device.
    pub device: BlockDeviceClient,
}

/// The search for the volume on all drives.
struct Search<'a> {
    account: &'a ResourceAccountClient,
    /// What was booted; without it any volume will do.
    booted: Option<Mapping>,
    /// Why the drives that were looked at are passed by.
    passed: RefCell<Vec<String>>,
}

/// The volume of this boot. Where the process was given the boot package that was started, the volume is one that holds the
/// same, on whichever of the drives that it was given. All drivers are asked at the same time, so that a slow drive delays
/// only those at the same controller.
///
/// # Errors
/// No drive holds it: what was found on each.
pub async fn find(env: &Env, account: &ResourceAccountClient) -> Result<Found, Error> {
    let booted = env.optional::<MemoryObjectClient>("boot")?;
    let booted = booted.map(|memory| map_all(&memory, Access::Read)).transpose()?;
    let search = Search { account, booted, passed: RefCell::default() };
    let (disks, controllers) = (env.each::<BlockDeviceClient>("device")?, env.each::<DiskControllerClient>("drives")?);
    let mut looks: Vec<Look<'_>> = Vec::new();
    let (count, search) = (disks.len(), &search);
    for (number, disk) in (1_usize..).zip(disks) {
        let name = virtio_place(number, count);
        looks.push(Box::pin(async move { search.look(&name, disk).await }));
    }
    let count = controllers.len();
    for (number, controller) in (1_usize..).zip(controllers) {
        looks.push(Box::pin(search.look_at_drives(number, count, controller)));
    }
    match first_found(&mut looks).await {
        Some(found) => Ok(found),
        None => {
            let passed = search.passed.borrow().join("; ");
            Err(Error::new(format!("no drive holds the volume of this boot: {passed}")))
        }
    }
}

/// Waits until one of them has found the volume, or none of them will.
async fn first_found(looks: &mut Vec<Look<'_>>) -> Option<Found> {
    poll_fn(|context| {
        let mut found = None;
        looks.retain_mut(|look| match &found {
            Some(_) => true,
            None => match look.as_mut().poll(context) {
                Poll::Ready(value) => {
                    found = value;
                    false
                }
                Poll::Pending => true,
            },
        });
        if found.is_some() || looks.is_empty() { Poll::Ready(found) } else { Poll::Pending }
    })
    .await
}

impl Search<'_> {
    /// Looks at the drives of a controller, one after another: the controller of this number of all.
    async fn look_at_drives(&self, number: usize, count: usize, controller: DiskControllerClient) -> Option<Found> {
        let drives = match controller.drives().await {
            Ok(drives) => drives,
            Err(error) => return self.pass(format!("{error}")),
        };
        if drives.is_empty() {
            let number = if count > 1 { format!(" {number} of {count}") } else { String::new() };
            return self.pass(format!("the SATA controller{number} has no drives"));
        }
        for drive in drives {
            let place = drive_place(&drive.model, drive.port, number, count);
            let looked = match controller.open(drive.port).await {
                Ok(device) => self.look(&place, device).await,
                Err(error) => self.pass(format!("{error}")),
            };
            if looked.is_some() {
                return looked;
            }
        }
        None
    }

    async fn look(&self, name: &str, device: BlockDeviceClient) -> Option<Found> {
        match self.mount(device.clone()).await {
            Ok(volume) => {
                log::info!("the boot medium is {name}");
                Some(Found { volume, place: name.into(), device })
            }
            Err(error) => self.pass(format!("{name}: {error}")),
        }
    }

    /// Notes why a drive is passed by.
    fn pass<T>(&self, words: String) -> Option<T> {
        self.passed.borrow_mut().push(words);
        None
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
