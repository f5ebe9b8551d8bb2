//! Backups of the data volume on transfer volumes, and a volume that is made from one.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_keyspace::Keyspace;
use capos_schema::authority::FoundBackup;
use capos_schema::cap::CallError;
use capos_schema::storage::{DirectoryClient, FileError};
use capos_schema::store::{BackupState, KeyKind, RestoreRequest, VolumeState};
use capos_schema::transfer::TransferVolumesClient;
use capos_setup::rules::{check_name, check_passphrase, normalised};

use super::{DataVolume, FRESH, Who, key, rejected};

/// How the name of a backup's folder begins; the beginning of the volume's UUID follows.
const FOLDER: &str = "backup-";
/// Letters of the UUID.
const LETTERS: usize = 8;
/// Folders that are looked into on one volume, and backups of one folder.
const MOST: usize = 16;

/// The folder on a volume for the backups of a data volume.
fn folder_of(id: &str) -> String {
    format!("{FOLDER}{}", id.get(..LETTERS).unwrap_or(id))
}

/// What came of a restore.
pub struct Restored {
    pub recovery_code: String,
    /// Why the secret is not one of the backup.
    pub why: String,
}

impl<K: Keyspace> DataVolume<K> {
    /// Writes a backup of the open volume to a transfer volume.
    ///
    /// # Errors
    /// No data volume is open, there is no such transfer volume, or one of the two fails.
    pub async fn back_up(&self, volumes: &TransferVolumesClient, volume: &str) -> Result<BackupState, CallError> {
        let info = self.vault.status().await?;
        if info.state != VolumeState::Open {
            return Err(rejected(format!("there is nothing to back up: {}", info.details)));
        }
        let top = volumes.open(volume).await?;
        let folder = folder_of(&info.id);
        match top.create_directory(&folder).await? {
            FileError::None | FileError::Exists => {}
            error => return Err(CallError::failed(format!("{volume}:{folder} cannot be made: {}", error.name()))),
        }
        let time = self.clock.wall_clock().unwrap_or_default();
        self.vault.back_up(&top.open_directory(&folder).await?, time).await
    }

    /// How far a backup or a restore is.
    ///
    /// # Errors
    /// The vault does not answer.
    pub async fn progress(&self) -> Result<BackupState, CallError> {
        self.vault.progress().await
    }

    /// The backups on the transfer volumes, while a blank disk waits to be set up. Volumes that cannot be read are left out.
    ///
    /// # Errors
    /// The vault or the service of the volumes does not answer.
    pub async fn backups(&self, volumes: &TransferVolumesClient) -> Result<Vec<FoundBackup>, CallError> {
        let mut backups = Vec::new();
        if self.vault.status().await?.state != VolumeState::Blank {
            return Ok(backups);
        }
        for volume in volumes.volumes().await?.into_iter().filter(|volume| volume.problem.is_empty()) {
            let Ok(top) = volumes.open(&volume.name).await else { continue };
            let Ok(listed) = top.entries(".", "").await else { continue };
            let folders = listed.entries.into_iter().map(|entry| entry.name).filter(|name| name.starts_with(FOLDER));
            for folder in folders.take(MOST) {
                if let Some(time) = latest(&top, &folder).await {
                    backups.push(FoundBackup { volume: volume.name.clone(), folder, time });
                }
            }
        }
        Ok(backups)
    }

    /// Makes the volume on the blank disk with what a backup holds, and its user logs in.
    ///
    /// # Errors
    /// There is no blank disk or no such backup, the name or a passphrase does not do, or a disk fails.
    pub async fn restore(
        &self,
        volumes: &TransferVolumesClient,
        backup: &FoundBackup,
        name: &str,
        (secret, kind): (&str, KeyKind),
        passphrase: &str,
    ) -> Result<Restored, CallError> {
        check_name(name).map_err(rejected)?;
        let passphrase = if kind == KeyKind::RecoveryCode { passphrase } else { secret };
        check_passphrase(passphrase).map_err(rejected)?;
        let info = self.vault.status().await?;
        let top = volumes.open(&backup.volume).await?;
        let folder = top.open_directory(&backup.folder).await?;
        let request = RestoreRequest {
            folder: format!("{}:{}", backup.volume, backup.folder),
            time: backup.time,
            name: name.to_string(),
            secret: key(secret, kind),
            kind,
            passphrase: normalised(passphrase),
        };
        let done = self.vault.restore(&info.disk, &folder, &request).await?;
        if done.why.is_empty() {
            self.know(Who::User(name.to_string()), FRESH, 0);
        }
        Ok(Restored { recovery_code: done.recovery_code, why: done.why })
    }
}

/// The time of the latest backup in a folder.
async fn latest(top: &DirectoryClient, folder: &str) -> Option<u64> {
    let (path, mut after, mut latest) = (format!("{folder}/states"), String::new(), None);
    loop {
        let page = top.entries(&path, &after).await.ok()?;
        latest = page.entries.iter().filter_map(|entry| entry.name.parse().ok()).max().max(latest);
        match page.entries.into_iter().next_back().filter(|_| page.more) {
            Some(last) => after = last.name,
            None => return latest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_has_a_folder_of_its_own() {
        assert_eq!(folder_of("0123abcd-4567"), "backup-0123abcd");
        assert_eq!(folder_of(""), "backup-");
    }
}
