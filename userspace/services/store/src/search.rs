//! The search for the data disk, once at the start of each life of the process.

use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::vec::Vec;

use capos_rt::log;
use capos_schema::cap::CallError;
use capos_schema::storage::{DiskContent, DiskInfo};
use capos_schema::store::VolumeState;
use capos_store_service::disks::{Decision, Mark, Seen, bytes, decide};
use capos_store_service::vault::Place;
use capos_volume::Locked;

use crate::disk::GuestDisk;
use crate::holder::Holder;

/// A disk that was looked at, and the means to use it.
struct Found {
    disk: Option<GuestDisk>,
    locked: Option<Locked<GuestDisk>>,
}

/// The disks of the machine, with what their headers say.
async fn look(holder: &Holder) -> Result<(Vec<Seen>, Vec<Found>), CallError> {
    // The file system may be started again meanwhile; looking changes nothing.
    let infos = match holder.access.list().await {
        Err(error) if error.is_disconnected() => holder.access.list().await,
        other => other,
    }?;
    let (mut seen, mut found) = (Vec::new(), Vec::new());
    for info in infos {
        let (one, means) = look_at(holder, info).await;
        seen.push(one);
        found.push(means);
    }
    Ok((seen, found))
}

async fn look_at(holder: &Holder, info: DiskInfo) -> (Seen, Found) {
    let none = Found { disk: None, locked: None };
    if info.optical || matches!(info.content, DiskContent::BootMedium | DiskContent::Unreadable) {
        return (Seen { info, mark: Mark::None }, none);
    }
    match open(holder, &info.place).await {
        Ok(disk) => {
            let (mark, locked) = Mark::read(disk.clone());
            (Seen { info, mark }, Found { disk: Some(disk), locked })
        }
        Err(error) => (Seen { info, mark: Mark::Unreadable(error.to_string()) }, none),
    }
}

/// The disk at a place.
pub async fn open(holder: &Holder, place: &str) -> Result<GuestDisk, CallError> {
    GuestDisk::open(place, holder.access.open(place).await?).await
}

/// Looks for the data disk and takes what it finds.
pub async fn search(holder: Rc<Holder>) {
    let (seen, mut found) = match look(&holder).await {
        Ok(both) => both,
        Err(error) => {
            log::error!("the disks cannot be listed: {error}");
            (Vec::new(), Vec::new())
        }
    };
    let decision = decide(&seen);
    let at = decision.disk.and_then(|number| Some((seen.get(number)?, found.get_mut(number)?)));
    let place = at.as_ref().and_then(|(seen, means)| Some(place(seen, means.disk.clone()?)));
    let locked = at.and_then(|(_, means)| means.locked.take());
    begin(&holder, &decision, place, locked);
    let mut vault = holder.vault.borrow_mut();
    if let Some(spaces) = vault.spaces() {
        let (marks, left_out) = holder.owed();
        spaces.continue_after(&marks, &left_out);
        holder.keep(spaces);
    }
    log::info!("{}", vault.details());
    drop(vault);
    holder.settle();
}

/// A disk that was found, to be used.
pub fn place(seen: &Seen, disk: GuestDisk) -> Place<GuestDisk> {
    let info = &seen.info;
    Place { name: info.place.clone(), bytes: bytes(info), read_only: info.read_only, disk }
}

fn begin(holder: &Holder, decision: &Decision, place: Option<Place<GuestDisk>>, locked: Option<Locked<GuestDisk>>) {
    let mut vault = holder.vault.borrow_mut();
    match (decision.state, place, locked) {
        (VolumeState::Locked, Some(place), Some(locked)) => {
            vault.found(decision, place, locked, holder.kept().as_ref());
        }
        (VolumeState::Blank, Some(place), _) => vault.blank(decision, &place),
        (_, place, _) => {
            if let Err(error) = vault.in_memory(decision, place.as_ref(), holder.memory()) {
                log::error!("the store in memory: {error}");
            }
        }
    }
}

/// Looks at one disk again, before it is written for the first time.
///
/// # Errors
/// It cannot be listed.
pub async fn look_again(holder: &Holder, place: &str) -> Result<Option<(Seen, GuestDisk)>, CallError> {
    let (seen, found) = look(holder).await?;
    let at = seen.into_iter().zip(found).find(|(seen, _)| seen.info.place == place);
    Ok(at.and_then(|(seen, found)| Some((seen, found.disk?))))
}
