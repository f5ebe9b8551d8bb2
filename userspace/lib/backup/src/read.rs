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
/// A chunk of names names chunks of records alone, and its own name follows from its content, so no chunk leads to itself. A
/// state that names more chunks or bytes than it says is rejected at the first one more.
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
    let altered = || Error::Altered { file: State::path(time) };
    let (mut sum, mut chunks) = (Adder::default(), 0_u64);
    // Each list names a chunk at least.
    if state.lists.len() as u64 > state.chunks {
        return Err(altered());
    }
    for list in &state.lists {
        let names = chunk_of(repository, files, Kind::Names, list).await?;
        let (names, _) = names.as_chunks::<32>();
        chunks = chunks.saturating_add(names.len() as u64);
        if chunks > state.chunks {
            return Err(altered());
        }
        for name in names {
            let content = chunk_of(repository, files, Kind::Records, name).await?;
            if sum.bytes().saturating_add(content.len() as u64) > state.sum.bytes {
                return Err(altered());
            }
            let (mut rest, mut records) = (content.as_slice(), 0_u64);
            while !rest.is_empty() {
                take(Record::decode(&mut rest).ok_or_else(|| Error::Altered { file: path(name) })?)?;
                records = records.saturating_add(1);
            }
            sum.add(&content, records);
        }
    }
    (sum.sum() == state.sum).then_some(state.sum).ok_or_else(altered)
}

async fn chunk_of(repository: &Repository, files: &impl Files, kind: Kind, name: &Name) -> Result<Vec<u8>, Error> {
    let file = path(name);
    let most = chunk::LIMIT.saturating_add(TAG);
    let sealed = files.get(&file, most).await?.ok_or(Error::Missing { file })?;
    repository.keys.open_chunk(kind, name, &sealed)
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};

    use capos_volume::sim::{Seed, SimDisk};
    use capos_volume::{CipherKind, Cost, Format, Secret, Volume};

    use super::*;
    use crate::record::Sum;
    use crate::{MemoryFiles, Source, write};

    fn done<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("files in memory answer at once"),
        }
    }

    /// Files that count how often one is read.
    struct Counted(MemoryFiles, Cell<u64>);

    impl Files for Counted {
        async fn put(&self, path: &str, bytes: &[u8]) -> Result<(), Error> {
            self.0.put(path, bytes).await
        }

        async fn get(&self, path: &str, most: usize) -> Result<Option<Vec<u8>>, Error> {
            self.1.set(self.1.get().saturating_add(1));
            self.0.get(path, most).await
        }

        async fn list(&self, folder: &str) -> Result<Vec<alloc::string::String>, Error> {
            self.0.list(folder).await
        }

        async fn flush(&self) -> Result<(), Error> {
            Ok(())
        }
    }

    struct Entries(u8);

    impl Source for Entries {
        async fn next(&mut self) -> Result<Option<Record>, Error> {
            let Some(left) = self.0.checked_sub(1) else { return Ok(None) };
            self.0 = left;
            Ok(Some(Record::Entry { table: "t".into(), key: [left].into(), value: [left; 30_000].into() }))
        }
    }

    /// Somebody with a key of the machine can seal any state. Whatever it names, reading it takes no more than it says.
    #[test]
    fn a_state_that_names_a_part_again_and_again_is_rejected_at_once() {
        let format = Format { cipher: CipherKind::ChaCha20Poly1305, cost: Cost::LEAST, label: "ada", cache_nodes: 4 };
        let secret = Secret::Passphrase(b"correct horse");
        let volume = Volume::format(SimDisk::new(64, 1), format, &secret, &mut |bytes| Seed(1).fill(bytes)).unwrap();
        let (repository, files) = (Repository::of(&volume), Counted(MemoryFiles::default(), Cell::new(0)));
        let random = &mut |bytes: &mut [u8]| Seed(2).fill(bytes);
        let state = done(write(&repository, &files, &mut Entries(40), 1, random, |_| true)).unwrap();
        let check = |state: &State| {
            let file = State::path(state.time);
            let sealed = repository.keys.seal_state(&file, &state.encode(), &mut |bytes| Seed(3).fill(bytes)).unwrap();
            done(files.put(&file, &sealed)).unwrap();
            files.1.set(0);
            let (mut records, read) = (0_u64, files.1.get());
            let checked = done(super::read(&repository, &files, state.time, |_| {
                records = records.saturating_add(1);
                Ok(())
            }));
            (checked, records, files.1.get().saturating_sub(read))
        };
        let (checked, records, reads) = check(&state);
        assert_eq!((checked, records), (Ok(state.sum), 40));
        let altered = Err(Error::Altered { file: State::path(1) });
        let [list] = state.lists.as_slice() else { panic!("{} lists", state.lists.len()) };
        let list = *list;
        // The same list for ever: nothing of it is read a second time.
        let again = State { lists: alloc::vec![list; 20_000], ..state.clone() };
        let (checked, records, more) = check(&again);
        assert_eq!(checked, altered);
        assert!(records == 0 && more == 1, "{records} records, {more} reads");
        // Nor if it says that there are that many chunks.
        let (checked, records, more) = check(&State { chunks: u64::MAX, ..again });
        assert_eq!(checked, altered);
        assert!(records == 40 && more <= reads.saturating_add(2), "{records} records, {more} and {reads} reads");
        // A list where records belong.
        let names = repository.keys.name(Kind::Names, &list);
        let sealed = repository.keys.seal_chunk(&names, &list).unwrap();
        done(files.put(&path(&names), &sealed)).unwrap();
        let (checked, records, _) = check(&State { lists: alloc::vec![names], chunks: 9, ..state.clone() });
        assert_eq!((checked, records), (Err(Error::Altered { file: path(&list) }), 0));
        let more = Sum { bytes: u64::MAX, ..state.sum };
        assert_eq!(check(&State { sum: more, ..state }).0, altered);
    }
}
