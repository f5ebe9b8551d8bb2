//! Files outside with records of the log: exports, and archives.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_audit::{Copier, Target, Written};
use capos_copy::part_name;
use capos_policy::Egress;
use capos_schema::audit::AuditFile;
use capos_schema::cap::CallError;
use capos_schema::storage::{DirectoryClient, FileClient, FileError, OpenOptions};

use crate::log::Log;

/// A new file of a folder.
struct NewFile {
    folder: DirectoryClient,
    file: FileClient,
    name: String,
}

impl NewFile {
    /// Makes it. What an earlier attempt has left is overwritten.
    async fn create(folder: DirectoryClient, name: String) -> Result<Self, CallError> {
        match folder.status(&name, false).await?.error {
            FileError::NotFound => {}
            FileError::None => {
                let why = format!("`{}` exists there already; give another name", name.escape_debug());
                return Err(CallError::invalid_argument(why));
            }
            error => return Err(refused(&name, error)),
        }
        let options = OpenOptions { write: true, create: true, truncate: true, ..OpenOptions::default() };
        let opened = folder.open_with(&part_name(&name), &options).await?;
        let file = opened.file.ok_or_else(|| refused(&name, opened.error))?;
        Ok(Self { folder, file, name })
    }
}

fn refused(name: &str, error: FileError) -> CallError {
    CallError::invalid_argument(format!("`{}` cannot be made there: {}", name.escape_debug(), error.name()))
}

impl Target for NewFile {
    async fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let written = self.file.write(offset, bytes).await.map_err(|error| error.to_string())?;
        if usize::try_from(written) == Ok(bytes.len()) {
            return Ok(());
        }
        Err(format!("{written} of {} bytes were written", bytes.len()))
    }

    async fn sync(&mut self) -> Result<(), String> {
        self.file.sync().await.map_err(|error| error.to_string())
    }

    async fn read(&mut self, offset: u64, most: usize) -> Result<Vec<u8>, String> {
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        self.file.read(offset, most).await.map_err(|error| error.to_string())
    }

    async fn finish(&mut self) -> Result<(), String> {
        match self.folder.rename(&part_name(&self.name), &self.name).await.map_err(|error| error.to_string())? {
            FileError::None => self.folder.sync().await.map_err(|error| error.to_string()),
            error => Err(refused(&self.name, error).to_string()),
        }
    }
}

fn failed(why: impl ToString) -> CallError {
    CallError::failed(why.to_string())
}

fn answer(name: String, written: Written) -> AuditFile {
    let Written { first, records, bytes, head, .. } = written;
    AuditFile { name, first, records, bytes, head: head.hash.to_vec() }
}

/// Writes all records to a new file.
///
/// # Errors
/// The file cannot be written, the log cannot be read, or a record has a label that may not leave this machine.
pub async fn export(log: &Log, folder: DirectoryClient, name: String) -> Result<AuditFile, CallError> {
    let _one = log.outside().await;
    let reader = log.reader();
    let mut head = reader.head().await.map_err(failed)?;
    // Nothing leaves before the labels are known.
    let found = capos_audit::survey(&reader, head).await.map_err(failed)?;
    if let Err(class) = Egress::default().check_outbound(&found.label) {
        return Err(CallError::invalid_argument(format!(
            "records with the label `{class}` may not leave this machine on a volume; `/audit archive` moves all records"
        )));
    }
    // The file is one chain: a record in it says what it lacks.
    if !found.lost.is_empty() {
        head = log.append_lost(&found.lost, &found.why).await?;
    }
    let mut copier = Copier::new(reader, NewFile::create(folder, name.clone()).await?);
    copier.copy_to(head).await.map_err(failed)?;
    Ok(answer(name, copier.finish().await.map_err(failed)?))
}

/// Writes all records to a new file, and then removes them.
///
/// # Errors
/// As [`export`]. No record is removed then.
pub async fn archive(log: &Rc<Log>, folder: DirectoryClient, name: String) -> Result<AuditFile, CallError> {
    let _one = log.outside().await;
    let file = NewFile::create(folder, name.clone()).await?;
    let reader = log.reader();
    let head = reader.head().await.map_err(failed)?;
    let mut copier = Copier::new(reader.clone(), file);
    // While others go on, until little is left; that follows while they wait.
    copier.catch_up(head).await.map_err(failed)?;
    let _turn = log.turn().await;
    let head = reader.head().await.map_err(failed)?;
    copier.copy_to(head).await.map_err(failed)?;
    let written = copier.finish().await.map_err(failed)?;
    log.remove(&name, &written).await?;
    Ok(answer(name, written))
}
