//! Backups of the data volume, and the audit log in files, as an operator's session holds them.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;

use capos_schema::audit::AuditFile;
use capos_schema::authority::{BackupsServer, LogFile};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::storage::DirectoryClient;
use capos_schema::store::BackupState;

use super::Operator;

/// The backups, for this operator.
pub struct BackupsObject(pub Rc<Operator>);

impl BackupsObject {
    /// The top of a transfer volume, and the name of a new file there for the audit log.
    async fn log_file(&self, volume: &str, file: String) -> Result<(DirectoryClient, String), CallError> {
        // Somebody else may have become an operator meanwhile.
        self.0.volume().await?;
        let folder = self.0.broker.blocks.volumes()?.open(volume).await?;
        if !file.is_empty() {
            return Ok((folder, file));
        }
        let now = self.0.broker.clock.wall_clock().unwrap_or_default().saturating_mul(1_000_000);
        let time = capos_audit::clock(now).replace(':', "");
        Ok((folder, format!("audit-{}-{time}.jsonl", capos_audit::date(now))))
    }
}

impl BackupsServer for BackupsObject {
    async fn back_up(&self, _cx: &CallContext, volume: String) -> Result<BackupState, CallError> {
        self.0.volume().await?.back_up(&self.0.broker.blocks.volumes()?, &volume).await
    }

    async fn progress(&self, _cx: &CallContext) -> Result<BackupState, CallError> {
        self.0.volume().await?.progress().await
    }

    async fn export_log(&self, _cx: &CallContext, volume: String, file: String) -> Result<LogFile, CallError> {
        let (folder, name) = self.log_file(&volume, file).await?;
        Ok(log_file(self.0.broker.blocks.audit.export_to(&folder, &name).await?))
    }

    async fn archive_log(&self, _cx: &CallContext, volume: String, file: String) -> Result<LogFile, CallError> {
        let (folder, name) = self.log_file(&volume, file).await?;
        Ok(log_file(self.0.broker.blocks.audit.archive(&folder, &name).await?))
    }
}

fn log_file(written: AuditFile) -> LogFile {
    let AuditFile { name, first, records, bytes, head } = written;
    let last = first.saturating_add(records).saturating_sub(1);
    LogFile { name, first, records, bytes, head: format!("{last}:{}", hex::encode(head)) }
}
