//! Writing a backup.

use alloc::string::String;
use alloc::vec::Vec;
use core::future::Future;

use crate::chunk::Chunker;
use crate::read::states;
use crate::record::Adder;
use crate::seal::{Kind, Name, path};
use crate::state::State;
use crate::{Error, Files, Random, Record, Repository};

/// Names in one chunk of names.
const NAMES: usize = 8192;

/// The records of a store as it was at one moment.
pub trait Source {
    /// The next record; none at the end. Each namespace comes before its entries, in an order that is the same for equal stores.
    ///
    /// # Errors
    /// [`Error::Store`]
    fn next(&mut self) -> impl Future<Output = Result<Option<Record>, Error>>;
}

/// How far a backup is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of records.
    pub bytes: u64,
    pub chunks: u64,
    /// Chunks that were there already.
    pub kept: u64,
}

/// Writes a backup. Chunks that are there already are kept, so a backup that was cut off continues. `time` is in milliseconds
/// since 1970; if the clock is behind the latest backup, it is the next one after that. `progress` is called after each chunk; the backup stops if it gives false.
///
/// # Errors
/// The folder holds the backup of another volume, the files or the store fail, or `progress` stopped it. The backups that
/// were in the folder are as before.
pub async fn write(
    repository: &Repository,
    files: &impl Files,
    source: &mut impl Source,
    time: u64,
    random: Random<'_>,
    mut progress: impl FnMut(Progress) -> bool,
) -> Result<State, Error> {
    repository.write_head(files).await?;
    let latest = states(files).await?.pop();
    let time = latest.map_or(time, |latest| time.max(latest.saturating_add(1)));
    let mut writer = Writer {
        repository,
        files,
        names: Vec::new(),
        lists: Vec::new(),
        sum: Adder::default(),
        progress: Progress::default(),
    };
    let mut chunker = Chunker::default();
    while let Some(record) = source.next().await? {
        if let Some((chunk, records)) = chunker.push(&record) {
            writer.chunk(&chunk, records).await?;
            if !progress(writer.progress) {
                return Err(Error::Stopped);
            }
        }
    }
    if let Some((chunk, records)) = chunker.finish() {
        writer.chunk(&chunk, records).await?;
    }
    writer.list().await?;
    progress(writer.progress);
    let state = State { time, sum: writer.sum.sum(), lists: writer.lists, chunks: writer.progress.chunks };
    // The state names only what is on the medium.
    files.flush().await?;
    let file: String = State::path(time);
    files.put(&file, &repository.keys.seal_state(&file, &state.encode(), random)?).await?;
    files.flush().await?;
    Ok(state)
}

struct Writer<'a, F> {
    repository: &'a Repository,
    files: &'a F,
    /// Chunks of records that no chunk of names has yet.
    names: Vec<Name>,
    lists: Vec<Name>,
    sum: Adder,
    progress: Progress,
}

impl<F: Files> Writer<'_, F> {
    async fn chunk(&mut self, content: &[u8], records: u64) -> Result<(), Error> {
        self.sum.add(content, records);
        let (name, kept) = self.put(Kind::Records, content).await?;
        self.names.push(name);
        self.progress.bytes = self.progress.bytes.saturating_add(content.len() as u64);
        self.progress.chunks = self.progress.chunks.saturating_add(1);
        self.progress.kept = self.progress.kept.saturating_add(kept.into());
        if self.names.len() >= NAMES {
            self.list().await?;
        }
        Ok(())
    }

    /// Writes the names of the chunks so far.
    async fn list(&mut self) -> Result<(), Error> {
        if !self.names.is_empty() {
            let names = core::mem::take(&mut self.names).concat();
            let (name, _) = self.put(Kind::Names, &names).await?;
            self.lists.push(name);
        }
        Ok(())
    }

    /// Writes a chunk unless it is there; whether it was. A medium that was removed may have left half of one, so what is there
    /// has to open.
    async fn put(&self, kind: Kind, content: &[u8]) -> Result<(Name, bool), Error> {
        let keys = &self.repository.keys;
        let name = keys.name(kind, content);
        let file = path(&name);
        match self.files.get(&file, crate::chunk::LIMIT.saturating_add(crate::seal::TAG)).await {
            Ok(Some(sealed)) if keys.open_chunk(kind, &name, &sealed).is_ok() => return Ok((name, true)),
            Ok(_) | Err(Error::Altered { .. }) => {}
            Err(error) => return Err(error),
        }
        self.files.put(&file, &keys.seal_chunk(&name, content)?).await?;
        Ok((name, false))
    }
}
