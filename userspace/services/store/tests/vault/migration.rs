//! A store of other formats: migrated, or read.

use capos_formats::{Format, Step, Tables};

use super::*;

/// Two parts as this version has them, and as a newer one does: it has changed one of them, and counts the other's entries.
pub static OLD: &[Format] = &[
    Format { namespace: "files", name: "files", steps: &[] },
    Format { namespace: "client", name: "things", steps: &[] },
    Format { namespace: "other", name: "others", steps: &[] },
];
pub static NEW: &[Format] = &[
    Format { namespace: "files", name: "files", steps: &[] },
    Format { namespace: "client", name: "things", steps: &[Step { says: "are written in capitals", run: capitals }] },
    Format { namespace: "other", name: "others", steps: &[Step { says: "are counted", run: count }] },
];

fn capitals(tables: &mut dyn Tables) -> Result<(), String> {
    let mut key = Vec::new();
    while let Some((next, value)) = tables.after("t", &key)? {
        tables.put("t", &next, &value.to_ascii_uppercase())?;
        key = next;
    }
    Ok(())
}

fn count(tables: &mut dyn Tables) -> Result<(), String> {
    let (mut key, mut number) = (Vec::new(), 0_u8);
    while let Some((next, _)) = tables.after("t", &key)? {
        tables.remove("t", &next)?;
        (key, number) = (next, number + 1);
    }
    if number > 50 {
        return Err("there are too many of them".into());
    }
    tables.put("count", b"k", &[number])
}

/// What an old version has written: parts with their formats, and entries in them.
pub fn filled(entries: u8) -> Machine {
    let machine = Machine::new();
    let (mut vault, _) = machine.set_up();
    let spaces = vault.spaces().unwrap();
    for client in ["files", "client", "other"] {
        let change = |table: &str, key: &[u8], value: &[u8]| Change {
            table: table.into(),
            kind: ChangeKind::Put,
            key: key.to_vec(),
            value: value.to_vec(),
        };
        let mut changes = vec![change("format", b"version", &1_u32.to_le_bytes())];
        changes.extend((1..=entries).map(|number| change("t", &[number], b"text")));
        spaces.commit(client, &changes, true, 0).unwrap();
    }
    machine
}

pub fn unlocked(machine: &Machine) -> Vault<Shared> {
    let mut vault = machine.start(None, false);
    assert_eq!(vault.open("ada", "correct horse", KeyKind::Passphrase), Ok(Tried::Right));
    vault
}

/// Everything in the two parts that migration changes: versions, texts, the count.
fn content(vault: &mut Vault<Shared>) -> String {
    let spaces = vault.spaces().unwrap();
    let mut text = String::new();
    for client in ["files", "client", "other"] {
        for table in ["format", "t", "count"] {
            let all = capos_keyspace::Range { table, from: &[], to: &[], reverse: false, most: 1000, keys_only: false };
            for (key, value) in spaces.range(client, all).unwrap().entries {
                let value = String::from_utf8_lossy(&value).into_owned();
                text.push_str(&format!("{client} {table} {key:?} {value:?}\n"));
            }
        }
    }
    text
}

fn memory() -> MemoryBlocks {
    MemoryBlocks::new(512)
}

/// The power is cut at each write of the migration, torn and whole. Then there is the old store or the new one.
#[test]
fn a_power_cut_leaves_the_old_store_or_the_migrated_one() {
    let mut machine = filled(20);
    let old = content(&mut unlocked(&machine));
    let begin = machine.disk.lock().clone();
    machine.formats = NEW;
    let mut vault = unlocked(&machine);
    assert_eq!(
        (vault.state(), vault.spaces().is_none(), vault.fault()),
        (VolumeState::Older, true, StoreFault::Locked)
    );
    let status = vault.status();
    assert_eq!(
        status.plan,
        [
            "Format 1 to 2 of the things: they are written in capitals.",
            "Format 1 to 2 of the others: they are counted."
        ]
    );
    assert!(status.details.contains("an older version of capOS") && status.keys.len() == 2, "{}", status.details);
    assert!(*machine.disk.lock().image() == *begin.image(), "looking at it has changed nothing");
    vault.confirm(VolumeState::Older, memory()).unwrap();
    assert_eq!(vault.state(), VolumeState::Open);
    let new = content(&mut vault);
    assert!(new.contains("TEXT") && new.contains("client format") && new != old, "{new}");
    drop(vault);
    let (mut kept, mut done, mut fuse) = (0, 0, 0);
    loop {
        *machine.disk.lock() = begin.clone();
        machine.formats = NEW;
        let mut vault = unlocked(&machine);
        machine.disk.lock().set_fuse(Some(fuse));
        let confirmed = vault.confirm(VolumeState::Older, memory());
        drop(vault);
        let left = machine.disk.lock().clone();
        if !left.is_dead() {
            assert_eq!(confirmed, Ok(()));
            break;
        }
        *machine.disk.lock() = left.crash();
        // A version that knows the formats finds what was there, whole.
        let mut vault = unlocked(&machine);
        if vault.state() == VolumeState::Open {
            assert_eq!(content(&mut vault), new, "fuse {fuse}");
            done += 1;
        } else {
            assert_eq!(vault.state(), VolumeState::Older, "fuse {fuse}: {}", vault.details());
            drop(vault);
            machine.formats = OLD;
            assert_eq!(content(&mut unlocked(&machine)), old, "fuse {fuse}");
            // It can be done again.
            machine.formats = NEW;
            let mut vault = unlocked(&machine);
            vault.confirm(VolumeState::Older, memory()).unwrap();
            assert_eq!(content(&mut vault), new, "fuse {fuse}");
            kept += 1;
        }
        assert!(confirmed.is_err() || done > 0);
        fuse += 1;
    }
    println!("cut at {fuse} requests: {kept} times the old store, {done} times the migrated one");
    assert!(kept > 10 && done > 0, "{kept} {done}");
}

/// Nothing of a migration that cannot be done is there, and the plan stays.
#[test]
fn a_migration_that_fails_changes_nothing() {
    let mut machine = filled(51);
    let old = content(&mut unlocked(&machine));
    machine.formats = NEW;
    let mut vault = unlocked(&machine);
    let why = vault.confirm(VolumeState::Older, memory()).unwrap_err();
    assert_eq!(
        why,
        "the data volume was not migrated, and is as it was: the others could not go from format 1: there are too many of them"
    );
    assert!(vault.state() == VolumeState::Older && vault.status().plan.len() == 2);
    // A person can go on without it, or come back with the old version.
    vault.decline(memory()).unwrap();
    assert!(!vault.spaces().unwrap().is_lasting());
    machine.formats = OLD;
    assert_eq!(content(&mut unlocked(&machine)), old);
    // A disk that cannot be written.
    machine.formats = NEW;
    let mut vault = machine.start(None, true);
    assert_eq!(vault.open("ada", "correct horse", KeyKind::Passphrase), Ok(Tried::Right));
    let why = vault.confirm(VolumeState::Older, memory()).unwrap_err();
    assert!(why.contains("as it was"), "{why}");
}

/// An older version writes nothing on the disk of a newer one. Parts that it knows can be read.
/// A flush that was done and reports an error leaves it open whether the disk has the migration. It is not done twice.
#[test]
fn a_migration_whose_end_is_not_known_is_not_repeated() {
    let mut machine = filled(20);
    machine.formats = NEW;
    let (old, mut new, mut failed) = (machine.disk.lock().clone(), String::new(), 0);
    for flushes in [u64::MAX].into_iter().chain(0..) {
        *machine.disk.lock() = old.clone();
        let mut vault = unlocked(&machine);
        machine.disk.2.store(flushes, Ordering::Relaxed);
        let first = vault.confirm(VolumeState::Older, memory());
        let left = machine.disk.2.swap(u64::MAX, Ordering::Relaxed);
        if first.is_err() {
            failed += 1;
            vault.confirm(VolumeState::Older, memory()).unwrap();
        }
        let found = content(&mut unlocked(&machine));
        if flushes == u64::MAX {
            new = found;
        } else {
            assert_eq!(found, new, "flush {flushes} reports an error");
            // All flushes were gone through.
            if left <= flushes {
                break;
            }
        }
    }
    println!("{failed} times it was confirmed again");
}

#[test]
fn an_older_version_reads_what_it_knows_and_writes_nothing() {
    let mut machine = filled(3);
    machine.formats = NEW;
    let mut vault = unlocked(&machine);
    vault.confirm(VolumeState::Older, memory()).unwrap();
    drop(vault);
    machine.formats = OLD;
    let before = machine.disk.lock().image().clone();
    let mut vault = unlocked(&machine);
    assert_eq!(vault.state(), VolumeState::OtherVersion);
    let status = vault.status();
    let shown = "the data volume on the disk was written by a newer version of capOS: the things have format 2, and this \
                 version of capOS knows 1; the others have format 2, and this version of capOS knows 1; nothing was \
                 changed; start the newer version";
    assert_eq!(status.details, shown);
    assert!(status.plan.len() == 2 && vault.confirm(VolumeState::Older, memory()).is_err());
    // The process ends meanwhile.
    let kept = vault.kept().unwrap();
    let mut vault = machine.start(Some(&kept), false);
    vault.confirm(VolumeState::OtherVersion, memory()).unwrap();
    assert!(vault.state() == VolumeState::Open && vault.status().read_only);
    assert!(vault.details().contains("a newer version of capOS wrote it"), "{}", vault.details());
    let spaces = vault.spaces().unwrap();
    assert!(spaces.is_lasting_for("files") && !spaces.is_lasting_for("client"));
    assert_eq!(spaces.get("files", "t", &[1]), Ok(Some(b"text".to_vec())));
    let refused = spaces.commit("files", &put(b"k"), true, 0);
    let wanted = |why: &str| why.contains("a newer version of capOS wrote it");
    assert!(matches!(&refused, Err(Refusal::Fault(StoreFault::ReadOnly, why)) if wanted(why)), "{refused:?}");
    // Others have a store of their own, which is empty and ends with the machine.
    assert_eq!(spaces.get("client", "t", &[1]), Ok(None));
    spaces.commit("client", &put(b"k"), true, 0).unwrap();
    assert!(has(&mut vault, b"k") && vault.add("bob", "second person").is_err());
    assert!(*machine.disk.lock().image() == before, "nothing was written");
    // If who the users are is not known either, nothing is offered.
    machine.formats = &[];
    static FILES: &[Format] = &[Format { namespace: "files", name: "files", steps: &[Step { says: "x", run: count }] }];
    machine.formats = FILES;
    let mut vault = unlocked(&machine);
    vault.confirm(VolumeState::Older, memory()).unwrap();
    drop(vault);
    machine.formats = OLD;
    let mut vault = unlocked(&machine);
    assert!(vault.state() == VolumeState::OtherVersion && vault.status().plan.is_empty());
    assert!(vault.confirm(VolumeState::OtherVersion, memory()).unwrap_err().contains("nothing of this to confirm"));
}
