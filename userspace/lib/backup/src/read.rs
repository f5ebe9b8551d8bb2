//! Reading and checking a backup.

use alloc::vec::Vec;

use crate::record::{Adder, Sum};
use crate::seal::{Kind, Name, TAG, path};
use crate::state::{self, State};
use crate::{Error, Files, Record, Repository, chunk};

/// The times of the backups in a repository, the oldest first. A file that only looks like a backup is among them.
///
/// # Errors
/// The files fail.
pub async fn states(files: &impl Files) -> Result<Vec<u64>, Error> {
    let names = files.list("states").await?;
    let mut times: Vec<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
    times.sort_unstable();
    Ok(times)
}

/// The latest backup.
///
/// # Errors
/// There is none; it is altered; the files fail.
pub async fn latest(repository: &Repository, files: &impl Files) -> Result<State, Error> {
    let time = states(files).await?.pop().ok_or(Error::NoBackup)?;
    of(repository, files, time).await
}

/// The backup of a time.
///
/// # Errors
/// It is missing or altered; the files fail.
pub async fn of(repository: &Repository, files: &impl Files, time: u64) -> Result<State, Error> {
    let file = State::path(time);
    let sealed = files.get(&file, state::LIMIT).await?.ok_or_else(|| Error::Missing { file: file.clone() })?;
    let opened = repository.keys.open_state(&file, &sealed)?;
    State::decode(&opened).filter(|state| state.time == time).ok_or(Error::Altered { file })
}

/// Reads the backup of a time, gives each record to `take`, and checks everything against the state's sum. What `take` got
/// counts only if this succeeds. `take` stops the reading with an error.
///
/// # Errors
/// A file is missing or altered; the files fail; `take` failed.
pub async fn read(
    repository: &Repository,
    files: &impl Files,
    time: u64,
    mut take: impl FnMut(Record) -> Result<(), Error>,
) -> Result<Sum, Error> {
    let state = of(repository, files, time).await?;
    let mut sum = Adder::default();
    for list in &state.lists {
        let names = chunk_of(repository, files, Kind::Names, list).await?;
        let (names, _) = names.as_chunks::<32>();
        for name in names {
            let content = chunk_of(repository, files, Kind::Records, name).await?;
            let (mut rest, mut records) = (content.as_slice(), 0_u64);
            while !rest.is_empty() {
                take(Record::decode(&mut rest).ok_or_else(|| Error::Altered { file: path(name) })?)?;
                records = records.saturating_add(1);
            }
            sum.add(&content, records);
        }
    }
    (sum.sum() == state.sum).then_some(state.sum).ok_or_else(|| Error::Altered { file: State::path(time) })
}

async fn chunk_of(repository: &Repository, files: &impl Files, kind: Kind, name: &Name) -> Result<Vec<u8>, Error> {
    let file = path(name);
    let most = chunk::LIMIT.saturating_add(TAG);
    let sealed = files.get(&file, most).await?.ok_or(Error::Missing { file })?;
    repository.keys.open_chunk(kind, name, &sealed)
}
