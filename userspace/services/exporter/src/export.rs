//! The exported data: the audit log and the home directory, as one archive.

use crate::wire::Wire;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use capos_rt::{Context, Error, log};
use capos_schema::audit::{AuditReaderClient, Query};
use capos_schema::storage::{DirectoryClient, EntryKind, FileError, ReadOnlyFileClient};

/// The archive's first bytes, by which the reader finds it.
const MARK: &[u8] = b"CAPOS-EXPORT 1\n";
/// Bytes of one read.
const PIECE: u32 = 32 * 1024;
/// Records of one question.
const RECORDS: u32 = 32;

/// The audit log, some records at a time.
struct Records<'a> {
    reader: &'a AuditReaderClient,
    /// Where to continue; none at the end.
    from: Option<u64>,
}

impl Records<'_> {
    /// The next records, one on a line. None at the end.
    async fn next(&mut self) -> Result<Option<String>, Error> {
        let Some(from) = self.from else { return Ok(None) };
        let query = Query { max: RECORDS, from, turn: -1, ..Query::default() };
        let answer = self.reader.query(&query).await.context("reading the audit log")?;
        self.from = Some(answer.next).filter(|next| *next > from);
        let mut lines = String::new();
        for record in &answer.records {
            lines.push_str(record);
            lines.push('\n');
        }
        Ok(Some(lines))
    }
}

/// The archive in transit.
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

    async fn begin_file(&self, path: &str, length: u64) -> Result<(), Error> {
        let header = capos_ustar::file_header(path, length).context(path)?;
        self.wire.send(&header).await
    }

    async fn end_file(&self, length: u64) -> Result<(), Error> {
        // The padding depends on the last block alone.
        let last = usize::try_from(length % capos_ustar::BLOCK as u64).unwrap_or(0);
        self.wire.send(capos_ustar::END.get(..capos_ustar::padding(last)).unwrap_or(&[])).await
    }

    /// All audit records, and the result of the chain's own check. The log may be larger than this process's memory: it
    /// is read twice, first for its length and then for its content.
    ///
    /// # Errors
    /// The audit log is gone.
    pub async fn audit(&self, reader: &AuditReaderClient) -> Result<(), Error> {
        let mut length = 0_u64;
        let mut records = Records { reader, from: Some(0) };
        while let Some(lines) = records.next().await? {
            length = length.saturating_add(lines.len() as u64);
        }
        self.begin_file("audit.jsonl", length).await?;
        let mut left = length;
        let mut records = Records { reader, from: Some(0) };
        while left > 0 {
            let lines = records
                .next()
                .await?
                .context("the audit log restarted while it was exported; run the scenario again")?;
            // Records after the first reading stay out.
            let most = usize::try_from(left).unwrap_or(usize::MAX);
            let part = lines.as_bytes().get(..most).unwrap_or(lines.as_bytes());
            self.wire.send(part).await?;
            left = left.saturating_sub(part.len() as u64);
        }
        self.end_file(length).await?;
        let check = reader.verify().await.context("verifying the audit log")?;
        let head: String = check.head.iter().map(|byte| format!("{byte:02x}")).collect();
        let words = serde_json::json!({
            "auditOk": check.ok, "auditRecords": check.records, "auditHead": head, "auditReason": check.reason,
        });
        let words = format!("{words}\n");
        self.begin_file("result.json", words.len() as u64).await?;
        self.wire.send(words.as_bytes()).await?;
        self.end_file(words.len() as u64).await
    }

    /// A directory tree, under `home/`. What cannot be read is named in the log and left out; the rest follows.
    ///
    /// # Errors
    /// The port is gone.
    pub async fn tree(&self, home: &DirectoryClient) -> Result<(), Error> {
        let mut folders: Vec<String> = alloc::vec![String::new()];
        while let Some(folder) = folders.pop() {
            let listed = if folder.is_empty() { "." } else { &folder };
            let (mut after, mut more) = (String::new(), true);
            while more {
                let page = match home.entries(listed, &after).await {
                    Ok(page) if page.error == FileError::None => page,
                    Ok(page) => {
                        left_out(listed, &Error::new(page.error.name()));
                        break;
                    }
                    Err(error) => {
                        left_out(listed, &error.into());
                        break;
                    }
                };
                more = page.more && !page.entries.is_empty();
                for entry in page.entries {
                    after.clone_from(&entry.name);
                    let path = if folder.is_empty() { entry.name } else { format!("{folder}/{}", entry.name) };
                    if entry.status.kind == EntryKind::Directory {
                        folders.push(path);
                        continue;
                    }
                    match File::open(home, &path).await {
                        Ok(file) => self.file(&file, &path).await?,
                        Err(error) => left_out(&path, &error),
                    }
                }
            }
        }
        Ok(())
    }

    /// One file. If it cannot be read to its end, zeros stand for the rest, since its length was sent already.
    async fn file(&self, file: &File, path: &str) -> Result<(), Error> {
        self.wire.send(&file.header).await?;
        self.wire.send(&file.first).await?;
        let mut done = file.first.len() as u64;
        let mut broken = false;
        while done < file.length {
            let mut piece = Vec::new();
            if !broken {
                match file.read(done).await {
                    Ok(read) => piece = read,
                    Err(error) => {
                        log::error!("the export has zeros in place of {path} from byte {done} on: {error}");
                        broken = true;
                    }
                }
            }
            if broken {
                piece.resize(usize::try_from(file.most(done)).unwrap_or(0), 0);
            }
            self.wire.send(&piece).await?;
            done = done.saturating_add(piece.len() as u64);
        }
        self.end_file(file.length).await
    }

    /// Ends the archive.
    ///
    /// # Errors
    /// The port is gone.
    pub async fn end(self) -> Result<(), Error> {
        self.wire.send(&capos_ustar::END).await
    }
}

/// A file whose header can be written and whose beginning was read.
struct File {
    client: ReadOnlyFileClient,
    header: [u8; capos_ustar::BLOCK],
    length: u64,
    first: Vec<u8>,
}

impl File {
    async fn open(home: &DirectoryClient, path: &str) -> Result<Self, Error> {
        let client = home.open(path).await?;
        let length = client.info().await?.bytes;
        let header = capos_ustar::file_header(&format!("home/{path}"), length).context("its name or length")?;
        let mut file = Self { client, header, length, first: Vec::new() };
        if length > 0 {
            file.first = file.read(0).await?;
        }
        Ok(file)
    }

    /// Bytes of the next read.
    fn most(&self, done: u64) -> u32 {
        u32::try_from(self.length.saturating_sub(done)).unwrap_or(PIECE).min(PIECE)
    }

    /// What follows these bytes; never nothing.
    async fn read(&self, done: u64) -> Result<Vec<u8>, Error> {
        let piece = self.client.read(done, self.most(done)).await?;
        match piece.is_empty() {
            true => Err(Error::new("it became shorter while it was exported")),
            false => Ok(piece),
        }
    }
}

fn left_out(path: &str, error: &Error) {
    log::error!("the export leaves out {path}: {error}");
}
