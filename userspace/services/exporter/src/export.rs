//! What is exported: the audit log and the home directory, as one archive.

use crate::wire::Wire;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use capos_rt::{Context, Error};
use capos_schema::audit::{AuditReaderClient, Query};
use capos_schema::storage::{DirectoryClient, EntryKind};

/// What the archive begins with, so that the reader finds it.
const MARK: &[u8] = b"CAPOS-EXPORT 1\n";
/// Bytes of one read.
const PIECE: u32 = 32 * 1024;
/// Records of one question.
const RECORDS: u32 = 32;

/// The archive, as it goes out.
pub struct Archive<'a> {
    wire: &'a Wire,
}

impl<'a> Archive<'a> {
    /// Begins the archive.
    ///
    /// # Errors
    /// The port is gone.
    pub async fn begin(wire: &'a Wire) -> Result<Self, Error> {
        wire.send(MARK).await?;
        Ok(Self { wire })
    }

    async fn file(&self, path: &str, content: &[u8]) -> Result<(), Error> {
        let header = capos_ustar::file_header(path, content.len() as u64).context(path)?;
        self.wire.send(&header).await?;
        self.wire.send(content).await?;
        self.wire.send(capos_ustar::END.get(..capos_ustar::padding(content.len())).unwrap_or(&[])).await
    }

    /// All audit records, and what the chain's own check says.
    ///
    /// # Errors
    /// The audit log is gone.
    pub async fn audit(&self, reader: &AuditReaderClient) -> Result<(), Error> {
        let mut lines = String::new();
        let mut from = 0;
        loop {
            let query = Query { max: RECORDS, from, turn: -1, ..Query::default() };
            let answer = reader.query(&query).await.context("reading the audit log")?;
            for record in &answer.records {
                lines.push_str(record);
                lines.push('\n');
            }
            if answer.next == 0 || answer.next <= from {
                break;
            }
            from = answer.next;
        }
        self.file("audit.jsonl", lines.as_bytes()).await?;
        let check = reader.verify().await.context("verifying the audit log")?;
        let head: String = check.head.iter().map(|byte| format!("{byte:02x}")).collect();
        let words = serde_json::json!({
            "auditOk": check.ok, "auditRecords": check.records, "auditHead": head, "auditReason": check.reason,
        });
        self.file("result.json", format!("{words}\n").as_bytes()).await
    }

    /// A directory tree, under `home/`.
    ///
    /// # Errors
    /// The file system is gone.
    pub async fn tree(&self, home: &DirectoryClient) -> Result<(), Error> {
        let mut folders: Vec<String> = alloc::vec![String::new()];
        while let Some(folder) = folders.pop() {
            let listed = if folder.is_empty() { "." } else { &folder };
            for entry in home.list(listed).await.with_context(|| format!("listing {listed}"))? {
                let path = if folder.is_empty() { entry.name } else { format!("{folder}/{}", entry.name) };
                if entry.kind == EntryKind::Directory {
                    folders.push(path);
                    continue;
                }
                let file = home.open(&path).await.with_context(|| format!("opening {path}"))?;
                let mut content = Vec::new();
                loop {
                    let piece =
                        file.read(content.len() as u64, PIECE).await.with_context(|| format!("reading {path}"))?;
                    if piece.is_empty() {
                        break;
                    }
                    content.extend_from_slice(&piece);
                }
                self.file(&format!("home/{path}"), &content).await?;
            }
        }
        Ok(())
    }

    /// Ends the archive.
    ///
    /// # Errors
    /// The port is gone.
    pub async fn end(self) -> Result<(), Error> {
        self.wire.send(&capos_ustar::END).await
    }
}
