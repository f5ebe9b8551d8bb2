//! Backups of stores in memory: what is written is what is read, a cut continues, and every change of a file is found.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use capos_backup::{
    Error, Files, MemoryFiles, Progress, Record, Repository, Source, State, latest, read, states, write,
};
use capos_volume::sim::{Seed, SimDisk};
use capos_volume::{CipherKind, Cost, Format, RecoveryCode, Secret, Volume};
use proptest::prelude::*;

const PASSPHRASE: Secret<'static> = Secret::Passphrase(b"correct horse");
const MEMORY: u64 = 1 << 20;

fn done<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("files in memory answer at once"),
    }
}

fn volume(seed: u64) -> Volume<SimDisk> {
    let format = Format { cipher: CipherKind::ChaCha20Poly1305, cost: Cost::LEAST, label: "ada", cache_nodes: 4 };
    Volume::format(SimDisk::new(64, seed), format, &PASSPHRASE, &mut |bytes| Seed(seed).fill(bytes)).unwrap()
}

struct List<I>(I);

impl<I: Iterator<Item = Record>> Source for List<I> {
    async fn next(&mut self) -> Result<Option<Record>, Error> {
        Ok(self.0.next())
    }
}

/// A store of two namespaces with this many entries.
fn store(entries: u32) -> Vec<Record> {
    let mut records = Vec::new();
    for name in ["audit", "home"] {
        records.push(Record::Namespace { name: name.into(), limit: 1 << 30 });
        records.extend((0..entries).map(|number| {
            let length = 50 + number.wrapping_mul(7919) % 3000;
            let value = (number ^ name.len() as u32).to_le_bytes().repeat(length as usize / 4);
            Record::Entry { table: "t".into(), key: number.to_be_bytes().to_vec(), value }
        }));
    }
    records
}

fn back_up(
    repository: &Repository,
    files: &MemoryFiles,
    records: &[Record],
    time: u64,
) -> (Result<State, Error>, Progress) {
    let mut last = Progress::default();
    let mut source = List(records.iter().cloned());
    let random = &mut |bytes: &mut [u8]| Seed(time).fill(bytes);
    let state = done(write(repository, files, &mut source, time, random, |progress| {
        last = progress;
        true
    }));
    (state, last)
}

fn restored(repository: &Repository, files: &MemoryFiles, time: u64) -> Result<Vec<Record>, Error> {
    let mut records = Vec::new();
    let sum = done(read(repository, files, time, |record| {
        records.push(record);
        Ok(())
    }))?;
    assert_eq!(sum.records, records.len() as u64);
    Ok(records)
}

#[test]
fn what_is_restored_is_what_was_backed_up() {
    let (files, records) = (MemoryFiles::default(), store(2000));
    let mut volume = volume(1);
    let code = RecoveryCode::new(&mut |bytes| Seed(9).fill(bytes));
    volume.add_slot(&Secret::Recovery(&code), Cost::LEAST, "recovery", &mut |bytes| Seed(2).fill(bytes)).unwrap();
    let (state, progress) = back_up(&Repository::of(&volume), &files, &records, 1000);
    let state = state.unwrap();
    assert!(progress.chunks > 10 && progress.kept == 0 && state.chunks() == progress.chunks);
    for secret in [PASSPHRASE, Secret::Recovery(&code)] {
        let repository = done(Repository::open(&files, &secret, MEMORY)).unwrap();
        assert_eq!(done(latest(&repository, &files)).unwrap(), state);
        assert_eq!(restored(&repository, &files, 1000).unwrap(), records);
    }
    let wrong = done(Repository::open(&files, &Secret::Passphrase(b"wrong"), MEMORY));
    assert!(matches!(wrong, Err(Error::Key(capos_volume::Error::WrongKey))));
    // The same content has the same sum, whatever machine and time.
    let other = MemoryFiles::default();
    let again = back_up(&Repository::of(&self::volume(7)), &other, &records, 5).0.unwrap();
    assert_eq!(again.sum, state.sum);
    let names =
        |files: &MemoryFiles| files.files.borrow().keys().filter(|path| path.starts_with("chunks")).cloned().collect();
    let (ours, theirs): (Vec<String>, Vec<String>) = (names(&files), names(&other));
    assert!(ours.iter().all(|name| !theirs.contains(name)), "names tell nothing to other machines");
}

#[test]
fn a_backup_that_was_cut_off_continues() {
    let (files, records, repository) = (MemoryFiles::default(), store(2000), Repository::of(&volume(1)));
    *files.writes.borrow_mut() = Some(9);
    let (cut, _) = back_up(&repository, &files, &records, 1);
    assert_eq!(cut, Err(Error::Files("the medium was removed".into())));
    assert_eq!(done(states(&files)).unwrap(), []);
    // Files are half there, as on a medium that was pulled out.
    let chunk = files.files.borrow().keys().find(|path| path.starts_with("chunks")).unwrap().clone();
    for path in [chunk.as_str(), "head"] {
        files.files.borrow_mut().get_mut(path).unwrap().truncate(1000);
    }
    *files.writes.borrow_mut() = None;
    let (state, progress) = back_up(&repository, &files, &records, 2);
    assert!(state.is_ok() && progress.kept == 7, "eight chunks were written, and one of them is half: {progress:?}");
    assert_eq!(restored(&repository, &files, 2).unwrap(), records);
}

#[test]
fn the_next_backup_writes_what_has_changed() {
    let (files, mut records, repository) = (MemoryFiles::default(), store(3000), Repository::of(&volume(1)));
    let (_, first) = back_up(&repository, &files, &records, 1);
    records
        .insert(1500, Record::Entry { table: "t".into(), key: 1498_u32.to_be_bytes().to_vec(), value: vec![1; 500] });
    let (_, second) = back_up(&repository, &files, &records, 2);
    assert!(second.chunks - second.kept <= 3, "{first:?}, {second:?}");
    assert_eq!(done(states(&files)).unwrap(), [1, 2]);
    assert_eq!(restored(&repository, &files, 1).unwrap(), store(3000));
    assert_eq!(restored(&repository, &files, 2).unwrap(), records);
    // At the same moment, and with a clock that was set back: the order stays that in which they were written.
    for (clock, time) in [(2, 3), (0, 4)] {
        assert_eq!(back_up(&repository, &files, &records, clock).0.unwrap().time, time);
    }
    assert_eq!(done(latest(&repository, &files)).unwrap().time, 4);
}

/// Entries of equal length: only their keys can tell where chunks end.
#[test]
fn an_entry_more_moves_the_ends_of_few_chunks() {
    let (files, repository) = (MemoryFiles::default(), Repository::of(&volume(1)));
    let entry = |number: u32| Record::Entry {
        table: "t".into(),
        key: number.to_be_bytes().to_vec(),
        value: number.to_le_bytes().repeat(250),
    };
    let mut records: Vec<Record> = (0..6000).map(|number| entry(2 * number)).collect();
    let (_, first) = back_up(&repository, &files, &records, 1);
    assert!(first.chunks > 40, "{first:?}");
    records.insert(100, entry(199));
    let (_, second) = back_up(&repository, &files, &records, 2);
    assert!(second.chunks - second.kept <= 3, "{first:?}, {second:?}");
    // All have 64 KiB at least, and up to an entry more than 512 KiB, except the last one and those of names.
    let files = files.files.borrow();
    let chunks = files.iter().filter(|(path, _)| path.starts_with("chunks"));
    let small = chunks.clone().filter(|(_, content)| content.len() < 64 << 10).count();
    assert!(small <= 4 && chunks.clone().all(|(_, content)| content.len() < 514 << 10), "{small} are small");
}

#[test]
fn what_is_there_is_not_written_again() {
    let (files, records, mut volume) = (MemoryFiles::default(), store(500), volume(1));
    back_up(&Repository::of(&volume), &files, &records, 1).0.unwrap();
    // The state alone is new.
    *files.writes.borrow_mut() = Some(1);
    back_up(&Repository::of(&volume), &files, &records, 2).0.unwrap();
    // Somebody got a key meanwhile: the head is new as well, and opens with it.
    let bob = Secret::Passphrase(b"second person");
    volume.add_slot(&bob, Cost::LEAST, "bob", &mut |bytes| Seed(2).fill(bytes)).unwrap();
    *files.writes.borrow_mut() = Some(1);
    assert!(matches!(back_up(&Repository::of(&volume), &files, &records, 3).0, Err(Error::Files(_))));
    *files.writes.borrow_mut() = None;
    back_up(&Repository::of(&volume), &files, &records, 3).0.unwrap();
    let repository = done(Repository::open_as(&files, "bob", &bob, MEMORY)).unwrap();
    assert!(repository.0.has_user("ada") && repository.0.has_user("bob") && !repository.0.has_user("eve"));
    assert_eq!(restored(&repository.0, &files, 1).unwrap(), records);
}

#[test]
fn errors_say_what_and_where() {
    for (error, parts) in [
        (Error::NoBackup, ["no backup", "/backup"]),
        (Error::Version { found: 7 }, ["version 7", "reads version 1"]),
        (Error::Altered { file: "chunks/ab".into() }, ["chunks/ab", "another copy"]),
        (Error::Missing { file: "chunks/ab".into() }, ["chunks/ab", "run the backup again"]),
        (Error::OtherVolume, ["another machine", "a folder of its own"]),
        (Error::Key(capos_volume::Error::WrongKey), ["does not open", &capos_volume::Error::WrongKey.to_string()]),
        (Error::Files("it is gone".into()), ["it is gone", ""]),
        (Error::Store("it is full".into()), ["it is full", ""]),
        (Error::Stopped, ["was stopped", "continues"]),
    ] {
        let says = error.to_string();
        assert!(parts.iter().all(|part| says.contains(part)), "{says}");
    }
}

#[test]
fn a_folder_of_another_machine_is_left_alone() {
    let (files, records) = (MemoryFiles::default(), store(10));
    back_up(&Repository::of(&volume(1)), &files, &records, 1).0.unwrap();
    let before = files.clone();
    assert_eq!(back_up(&Repository::of(&volume(2)), &files, &records, 2).0, Err(Error::OtherVolume));
    assert_eq!(files, before);
}

/// Reads everything; the first error.
fn check(files: &MemoryFiles, time: u64) -> Result<Vec<Record>, Error> {
    let repository = done(Repository::open(files, &PASSPHRASE, MEMORY))?;
    restored(&repository, files, time)
}

#[test]
fn every_changed_missing_or_exchanged_file_is_found() {
    let (files, records) = (MemoryFiles::default(), store(120));
    let repository = Repository::of(&volume(1));
    back_up(&repository, &files, &records, 1).0.unwrap();
    back_up(&repository, &files, &store(121), 2).0.unwrap();
    let whole = files.files.borrow().clone();
    let mut seed = Seed(3);
    let used: Vec<String> = {
        // What the first backup consists of.
        let first = MemoryFiles::default();
        back_up(&repository, &first, &records, 1).0.unwrap();
        first.files.borrow().keys().cloned().collect()
    };
    assert_eq!(check(&files, 1).unwrap(), records);
    let mut trials = 0;
    for path in &used {
        for _ in 0..200 {
            let at = seed.below(whole[path].len() as u64) as usize;
            files.files.borrow_mut().get_mut(path).unwrap()[at] ^= 1 << seed.below(8);
            let found = check(&files, 1);
            // The checksum of the head covers the slots; another machine's secret opens nothing.
            assert!(found.is_err(), "{path}, byte {at}");
            files.files.borrow_mut().insert(path.clone(), whole[path].clone());
            trials += 1;
        }
        files.files.borrow_mut().remove(path);
        assert!(check(&files, 1).is_err(), "{path}");
        for (_, content) in whole.iter().filter(|(other, content)| *other != path && **content != whole[path]) {
            files.files.borrow_mut().insert(path.clone(), content.clone());
            assert!(check(&files, 1).is_err(), "{path} with the content of another file");
        }
        files.files.borrow_mut().insert(path.clone(), whole[path].clone());
    }
    assert!(trials >= 1000 && check(&files, 1).is_ok());
}

#[test]
fn another_version_is_named() {
    let files = MemoryFiles::default();
    back_up(&Repository::of(&volume(1)), &files, &store(3), 1).0.unwrap();
    let mut head = done(files.get("head", 1 << 20)).unwrap().unwrap();
    head[8] = 2;
    files.files.borrow_mut().insert("head".into(), head);
    assert_eq!(check(&files, 1), Err(Error::Version { found: 2 }));
    assert_eq!(check(&MemoryFiles::default(), 1), Err(Error::NoBackup));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_records_are_restored(
        records in prop::collection::vec(prop_oneof![
            ("[a-z]{1,8}", any::<u64>()).prop_map(|(name, limit)| Record::Namespace { name, limit }),
            ("[a-z]{1,8}", prop::collection::vec(any::<u8>(), 1..40), prop::collection::vec(any::<u8>(), 0..30_000))
                .prop_map(|(table, key, value)| Record::Entry { table, key, value }),
        ], 0..60)
    ) {
        let files = MemoryFiles::default();
        back_up(&Repository::of(&volume(1)), &files, &records, 1).0.unwrap();
        prop_assert_eq!(check(&files, 1).unwrap(), records);
    }
}
