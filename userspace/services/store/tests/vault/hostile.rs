//! A backup's folder that somebody else has had in hand: it is rejected with a message, and the disk stays blank.

use std::collections::BTreeMap;

use capos_backup::{Error, Record, Repository, Source};
use capos_disk_content::{classify, sample};
use capos_volume::sim::Seed;

use super::*;

/// What a machine's disk holds, as the search tells it by samples.
pub fn content(machine: &Machine) -> Content {
    let mut places = sample(BLOCKS * 4096).into_iter().map(|place| {
        let mut bytes = vec![0; (place.end - place.start) as usize];
        machine.disk.clone().read(place.start / 4096, &mut bytes).unwrap();
        bytes
    });
    let head = places.next().unwrap();
    classify(&head, places.collect::<Vec<_>>().iter().map(Vec::as_slice))
}

/// What came of a restore, done in the steps of the service; where it failed, the disk is blank.
fn restored(files: &MemoryFiles, time: u64) -> Result<Vault<Shared>, String> {
    let machine = Machine::new();
    machine.seed.set(70_000);
    let mut vault = machine.start(None, false);
    let why = match steps(&machine, &mut vault, files, time) {
        Ok(()) => return Ok(vault),
        Err(why) => why,
    };
    assert_eq!(vault.state(), VolumeState::Blank, "{why}");
    drop(vault);
    // What a restore that failed has written was sealed with a key that is nowhere any more.
    let headers = machine.disk.lock().image().values().filter(|block| block.starts_with(b"CAPOSVOL")).count();
    assert_eq!(headers, 0, "a header is left on the disk after: {why}");
    assert_eq!(content(&machine), Content::Blank, "{why}");
    assert_eq!(machine.start(None, false).state(), VolumeState::Blank, "{why}");
    Err(why)
}

fn steps(machine: &Machine, vault: &mut Vault<Shared>, files: &MemoryFiles, time: u64) -> Result<(), String> {
    let key = vault.backup_key("ada", "correct horse", KeyKind::Passphrase);
    let repository = match run(key.open(files)).unwrap()? {
        Ok((repository, _)) => repository,
        Err(Tried::Wrong(why)) => return Err(why),
        Err(Tried::Right) => panic!("a right key opens"),
    };
    run(capos_backup::of(&repository, files, time)).unwrap().map_err(|error| error.to_string())?;
    let mut restore = vault.begin_restore(machine.place(false), "ada", "battery staple")?;
    let done = run(capos_backup::store::restore(&repository, files, time, &mut restore.store, |_| (), |_| Ok(())));
    match done.unwrap() {
        Ok(_) => vault.end_restore(restore).map(drop),
        Err(error) => {
            let why = error.to_string();
            vault.abandon_restore(restore, &why);
            Err(why)
        }
    }
}

/// A backup of a machine with two states, the second of which is at 9, and of a store of several chunks.
fn folder(seed: u64) -> MemoryFiles {
    let machine = Machine::new();
    machine.seed.set(seed);
    let (mut vault, _) = machine.set_up();
    let files = MemoryFiles::default();
    for (time, part) in [(7, 0_u8), (9, 1)] {
        for number in 0..20_u8 {
            let change = Change {
                table: "t".into(),
                kind: ChangeKind::Put,
                key: vec![part, number],
                value: vec![number ^ part; 3500],
            };
            vault.spaces().unwrap().commit("files", &[change], true, 0).unwrap();
        }
        let BackUp { repository, mut source, mut random, .. } = vault.back_up().unwrap();
        run(capos_backup::write(&repository, &files, &mut source, time, &mut random, |_| true)).unwrap().unwrap();
    }
    files
}

fn state(time: u64) -> String {
    format!("states/{time:020}")
}

/// The files of which one backup consists.
fn used(files: &MemoryFiles, time: u64) -> Vec<String> {
    let all: Vec<String> = files.files.borrow().keys().cloned().collect();
    let needed = |path: &String| {
        let less = files.clone();
        less.files.borrow_mut().remove(path);
        restored(&less, time).is_err()
    };
    all.into_iter().filter(needed).collect()
}

/// The files of a folder, by their paths.
type Files = BTreeMap<String, Vec<u8>>;

/// Every file truncated, removed, made longer and exchanged with each other one.
#[test]
fn a_folder_with_altered_files_is_rejected_and_nothing_is_written() {
    let whole = folder(1);
    assert!(restored(&whole, 9).is_ok() && restored(&whole, 7).is_ok());
    let used = used(&whole, 9);
    assert!(used.len() > 3 && used.contains(&state(9)) && used.contains(&"head".into()), "{used:?}");
    let rejected = |what: &str, change: &dyn Fn(&mut Files)| {
        let files = whole.clone();
        change(&mut files.files.borrow_mut());
        let why = restored(&files, 9).map(drop).expect_err(what);
        assert!(
            why.contains("another copy") || why.contains("run the backup again") || why.contains("no backup"),
            "{what}: {why}"
        );
    };
    for path in &used {
        let length = whole.files.borrow()[path].len();
        for keep in [0, 1, 11, 12, 40, length / 2, length - 1] {
            rejected(&format!("{path} cut to {keep}"), &|files| files.get_mut(path).unwrap().truncate(keep));
        }
        rejected(&format!("{path} is longer"), &|files| files.get_mut(path).unwrap().push(0));
        rejected(&format!("{path} is very long"), &|files| files.get_mut(path).unwrap().resize(8 << 20, 0));
        for other in used.iter().filter(|other| *other != path) {
            rejected(&format!("{path} and {other} are exchanged"), &|files| {
                let (one, two) = (files[path].clone(), files[other].clone());
                files.insert(path.clone(), two);
                files.insert(other.clone(), one);
            });
        }
    }
    // An older state under the name of the newer one, and a later time that nobody has written.
    rejected("the older state", &|files| {
        let old = files[&state(7)].clone();
        files.insert(state(9), old);
    });
    let files = whole.clone();
    let newest = whole.files.borrow()[&state(9)].clone();
    files.files.borrow_mut().insert(state(u64::MAX), newest);
    assert!(restored(&files, u64::MAX).is_err());
    for odd in ["99999999999999999999999", "-1", "..", "+9", "0x9", ""] {
        files.files.borrow_mut().insert(format!("states/{odd}"), vec![1; 100]);
    }
    assert!(run(capos_backup::states(&files)).unwrap().unwrap().contains(&9));
    assert!(restored(&files, 9).is_ok(), "names that are no times are passed over");
}

/// Parts of the backup of another machine with the same passphrase.
#[test]
fn files_of_another_machine_are_rejected() {
    let (ours, theirs) = (folder(1), folder(30_000));
    for path in ["head".to_string(), state(9)] {
        let files = ours.clone();
        files.files.borrow_mut().insert(path.clone(), theirs.files.borrow()[&path].clone());
        assert!(restored(&files, 9).is_err(), "{path}");
    }
    let files = ours.clone();
    let foreign: Vec<Vec<u8>> = theirs
        .files
        .borrow()
        .iter()
        .filter(|(path, _)| path.starts_with("chunks"))
        .map(|(_, file)| file.clone())
        .collect();
    let paths: Vec<String> = ours.files.borrow().keys().filter(|path| path.starts_with("chunks")).cloned().collect();
    for (path, content) in paths.iter().zip(foreign.iter().cycle()) {
        files.files.borrow_mut().insert(path.clone(), content.clone());
    }
    assert!(restored(&files, 9).is_err());
}

struct List(std::vec::IntoIter<Record>);

impl Source for List {
    async fn next(&mut self) -> Result<Option<Record>, Error> {
        Ok(self.0.next())
    }
}

/// Somebody who has the key, a user who was removed for instance, has written records that no store has.
#[test]
fn records_that_no_store_has_are_rejected_even_with_the_right_key() {
    let namespace = |name: &str, limit| Record::Namespace { name: name.into(), limit };
    let entry = |table: &str, key: &[u8], bytes: usize| Record::Entry {
        table: table.into(),
        key: key.to_vec(),
        value: vec![7; bytes],
    };
    let cases: Vec<(&str, Vec<Record>)> = vec![
        ("entries of no namespace", vec![entry("t", b"k", 1)]),
        ("a namespace twice", vec![namespace("a", 1 << 20), namespace("a", 1 << 20)]),
        ("a name that is too long", vec![namespace(&"n".repeat(65), 1)]),
        ("no name", vec![namespace("", 1)]),
        ("the mark of a restore", vec![namespace("\0restore", 1 << 20), entry("t", b"k", 1)]),
        ("an entry beyond its quota", vec![namespace("a", 10), entry("t", b"k", 1000)]),
        ("a quota beyond the disk", {
            let entries = (0..200_u8).map(|number| entry("t", &[number], 60_000));
            std::iter::once(namespace("a", u64::MAX)).chain(entries).collect()
        }),
        ("an empty key", vec![namespace("a", 1 << 20), entry("t", b"", 1)]),
        ("a key that is too long", vec![namespace("a", 1 << 20), entry("t", &[1; 1025], 1)]),
        ("a table without a name", vec![namespace("a", 1 << 20), entry("", b"k", 1)]),
        ("the same key twice", vec![namespace("a", 1 << 20), entry("t", b"k", 1), entry("t", b"k", 2)]),
        ("keys out of order", vec![namespace("a", 1 << 20), entry("t", b"l", 1), entry("t", b"k", 1)]),
    ];
    let machine = Machine::new();
    let (mut vault, _) = machine.set_up();
    let BackUp { repository, .. } = vault.back_up().unwrap();
    for (what, records) in cases {
        let files = MemoryFiles::default();
        write(&repository, &files, records);
        let why = restored(&files, 7).map(drop).expect_err(what);
        assert!(why.len() > 10, "{what}: {why}");
    }
    let files = MemoryFiles::default();
    write(&repository, &files, vec![namespace("a", 1 << 20), entry("t", b"k", 1)]);
    assert!(restored(&files, 7).is_ok());
}

fn write(repository: &Repository, files: &MemoryFiles, records: Vec<Record>) {
    let mut source = List(records.into_iter());
    let random = &mut |bytes: &mut [u8]| Seed(3).fill(bytes);
    run(capos_backup::write(repository, files, &mut source, 7, random, |_| true)).unwrap().unwrap();
}

/// A service of any name may keep something.
#[test]
fn no_client_is_taken_for_an_unfinished_restore() {
    let machine = Machine::new();
    let (mut vault, _) = machine.set_up();
    vault.spaces().unwrap().commit("restore", &put(b"x"), true, 0).unwrap();
    drop(vault);
    let mut vault = machine.start(None, false);
    assert_eq!(vault.open("ada", "correct horse", KeyKind::Passphrase), Ok(Tried::Right));
    assert!(vault.spaces().unwrap().get("restore", "t", b"x").unwrap().is_some());
}
