//! The vault over a simulated disk: made, opened, closed by wrong keys, continued by the next life of the process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use capos_backup::{Files, MemoryFiles};
use capos_disk_content::Content;
use capos_formats::Format;
use capos_schema::local::run;
use capos_schema::store::{Change, ChangeKind, KeyKind, StoreFault, VolumeState};
use capos_store::MemoryBlocks;
use capos_store_service::disks::{Decision, Mark};
use capos_store_service::kept::Kept;
use capos_store_service::shares::Shares;
use capos_store_service::spaces::Refusal;
use capos_store_service::vault::backup::BackUp;
use capos_store_service::vault::{Means, Place, Tried, Vault};
use capos_volume::sim::{Seed, SimDisk};
use capos_volume::{Disk, DiskError};

#[path = "vault/damage.rs"]
mod damage;
#[path = "vault/declined.rs"]
mod declined;
#[path = "vault/homes.rs"]
mod homes;
#[path = "vault/hostile.rs"]
mod hostile;
#[path = "vault/key_files.rs"]
mod key_files;
#[path = "vault/migration.rs"]
mod migration;

const BLOCKS: u64 = 2000;
const SECOND: u64 = 1_000_000_000;

/// A disk that the test and the vault both hold. It can be told to fail writes, and to report an error for the flush after so
/// many, which is done all the same. It notes which blocks are read.
#[derive(Clone)]
struct Shared(Arc<Mutex<SimDisk>>, Arc<AtomicBool>, Arc<AtomicU64>, Arc<Mutex<BTreeSet<u64>>>);

impl Shared {
    fn new() -> Self {
        let disk = Arc::new(Mutex::new(SimDisk::new(BLOCKS, 1)));
        Self(disk, Arc::default(), Arc::new(AtomicU64::new(u64::MAX)), Arc::default())
    }

    fn lock(&self) -> MutexGuard<'_, SimDisk> {
        self.0.lock().unwrap()
    }
}

impl Disk for Shared {
    fn blocks(&self) -> u64 {
        self.lock().blocks()
    }

    fn read(&mut self, block: u64, into: &mut [u8]) -> Result<(), DiskError> {
        self.3.lock().unwrap().extend(block..block + into.len().div_ceil(4096) as u64);
        self.lock().read(block, into)
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), DiskError> {
        if self.1.load(Ordering::Relaxed) {
            return Err(DiskError::Failed);
        }
        self.lock().write(block, from)
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        let done = self.lock().flush();
        if self.2.fetch_sub(1, Ordering::Relaxed) == 0 { Err(DiskError::Failed) } else { done }
    }
}

/// A machine: its disk, and its clock.
struct Machine {
    disk: Shared,
    now: Rc<Cell<u64>>,
    seed: Cell<u64>,
    memory: u64,
    formats: &'static [Format],
}

impl Machine {
    fn new() -> Self {
        Self { disk: Shared::new(), now: Rc::default(), seed: Cell::new(1), memory: 64 << 10, formats: migration::OLD }
    }

    fn place(&self, read_only: bool) -> Place<Shared> {
        Place { name: "the disk".into(), bytes: BLOCKS * 4096, read_only, disk: self.disk.clone() }
    }

    fn vault(&self) -> Vault<Shared> {
        let (now, memory) = (self.now.clone(), self.memory);
        self.seed.set(self.seed.get() + 1000);
        let mut next = self.seed.get();
        Vault::new(
            (Shares::default(), Shares::default()),
            self.formats,
            Means {
                clock: Box::new(move || {
                    now.set(now.get() + 1000);
                    now.get()
                }),
                random: Box::new(move || {
                    next += 1;
                    let mut seed = Seed(next);
                    Box::new(move |bytes| seed.fill(bytes))
                }),
                memory: Box::new(move || memory),
                target: 1,
            },
        )
    }

    /// What a start of the machine finds.
    fn start(&self, kept: Option<&Kept>, read_only: bool) -> Vault<Shared> {
        let mut vault = self.vault();
        let (mark, locked) = Mark::read(self.disk.clone());
        let decision = |state| Decision { state, disk: Some(0), details: "told".into() };
        match locked {
            Some(locked) => vault.found(&decision(VolumeState::Locked), self.place(read_only), locked, kept),
            None => {
                assert_eq!(mark, Mark::None);
                vault.blank(&decision(VolumeState::Blank), &self.place(read_only));
            }
        }
        vault
    }

    fn set_up(&self) -> (Vault<Shared>, String) {
        let mut vault = self.start(None, false);
        let code = vault.create(self.place(false), "ada", "correct horse", KeyKind::Passphrase).unwrap();
        (vault, code.to_string())
    }
}

fn put(key: &[u8]) -> Vec<Change> {
    vec![Change { table: "t".into(), kind: ChangeKind::Put, key: key.to_vec(), value: b"x".to_vec() }]
}

fn has(vault: &mut Vault<Shared>, key: &[u8]) -> bool {
    vault.spaces().unwrap().get("client", "t", key).unwrap().is_some()
}

fn wrong(tried: Result<Tried, String>) -> String {
    match tried {
        Ok(Tried::Wrong(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_volume_is_made_and_opened_by_each_of_its_keys() {
    let machine = Machine::new();
    let mut vault = machine.start(None, false);
    assert!(vault.spaces().is_none() && vault.status().keys.is_empty());
    assert!(
        vault
            .create(machine.place(false), "ada", "short", KeyKind::Passphrase)
            .unwrap_err()
            .contains("at least 8 characters")
    );
    assert!(
        vault
            .create(machine.place(false), "", "correct horse", KeyKind::Passphrase)
            .unwrap_err()
            .contains("a name has 1 to 64")
    );
    assert!(vault.open("ada", "correct horse", KeyKind::Passphrase).is_err(), "there is no volume yet");
    let (mut vault, code) = machine.set_up();
    assert!(
        vault
            .create(machine.place(false), "eve", "correct horse", KeyKind::Passphrase)
            .unwrap_err()
            .contains("no volume can be made")
    );
    vault.spaces().unwrap().commit("client", &put(b"a"), true, 0).unwrap();
    vault.add("bob", "second person").unwrap();
    let status = vault.status();
    assert_eq!((status.state, status.keys.len(), status.bytes), (VolumeState::Open, 3, BLOCKS * 4096));
    assert!(!status.head.is_empty() && status.id.len() == 36);
    drop(vault);
    for (name, secret, kind) in [
        ("ada", "correct horse", KeyKind::Passphrase),
        ("", "correct horse", KeyKind::Passphrase),
        ("bob", "second person", KeyKind::Passphrase),
        ("", &code, KeyKind::RecoveryCode),
        ("ada", &code.to_lowercase(), KeyKind::RecoveryCode),
    ] {
        let mut vault = machine.start(None, false);
        assert_eq!((vault.state(), vault.status().keys.len()), (VolumeState::Locked, 3));
        assert!(vault.spaces().is_none());
        assert_eq!(wrong(vault.open("bob", "correct horse", KeyKind::Passphrase)), "the passphrase is wrong");
        assert_eq!(vault.open(name, secret, kind), Ok(Tried::Right), "{name} {kind:?}");
        assert!(has(&mut vault, b"a") && vault.status().failed_attempts == 0);
    }
}

#[test]
fn too_many_wrong_keys_close_the_way_and_a_restart_does_not_open_it() {
    let machine = Machine::new();
    let (vault, code) = machine.set_up();
    drop(vault);
    for count in 1..=5 {
        // A machine that is turned off between the tries counts on.
        let mut vault = machine.start(None, false);
        assert_eq!(vault.status().failed_attempts, count - 1);
        let why = wrong(vault.open("ada", "correct mouse", KeyKind::Passphrase));
        assert_eq!(why.contains("try again in 30 seconds"), count == 5, "{why}");
    }
    machine.now.set(0);
    let mut vault = machine.start(None, false);
    let why = wrong(vault.open("ada", "correct horse", KeyKind::Passphrase));
    assert!(why.contains("too many wrong passphrases"), "{why}");
    // A code with a wrong letter is a slip, and no try; the right one has to wait as well.
    assert!(wrong(vault.open("", "ABCDE", KeyKind::RecoveryCode)).contains("40 letters"));
    assert!(wrong(vault.open("", &code, KeyKind::RecoveryCode)).contains("too many"));
    machine.now.set(31 * SECOND);
    assert_eq!(vault.open("ada", "correct horse", KeyKind::Passphrase), Ok(Tried::Right));
    assert_eq!(machine.start(None, false).status().failed_attempts, 0);
    // Of an open volume they count as well.
    for _ in 0..5 {
        wrong(vault.verify("ada", "correct mouse"));
    }
    assert!(wrong(vault.verify("ada", "correct horse")).contains("too many"));
    assert_eq!(machine.start(None, false).status().failed_attempts, 5);
}

/// The count is on the disk before anything is compared: no power cut gives a free try.
#[test]
fn a_try_is_counted_before_it_is_made() {
    let machine = Machine::new();
    drop(machine.set_up());
    let mut vault = machine.start(None, false);
    machine.disk.lock().set_fuse(Some(4));
    // The fuse burns after the count, in the middle of the opening.
    assert!(vault.open("ada", "correct horse", KeyKind::Passphrase).is_err());
    let left = machine.disk.lock().clone();
    assert!(left.is_dead());
    *machine.disk.lock() = left.crash();
    assert_eq!(machine.start(None, false).status().failed_attempts, 1);
    // A count that cannot be written is no count: nothing is tried.
    let mut vault = machine.start(None, false);
    machine.disk.lock().set_fuse(Some(0));
    assert!(vault.open("ada", "correct horse", KeyKind::Passphrase).is_err());
    assert!(vault.spaces().is_none());
}

#[test]
fn the_next_life_continues_with_the_kept_key_and_only_with_it() {
    let machine = Machine::new();
    let (mut vault, _) = machine.set_up();
    vault.spaces().unwrap().commit("client", &put(b"durable"), true, 0).unwrap();
    let version = vault.spaces().unwrap().info("client").unwrap().version;
    let kept = vault.kept().unwrap();
    drop(vault);
    let other = Kept { uuid: [9; 16], key: kept.key.clone(), homes: Vec::new() };
    let false_key = Kept { uuid: kept.uuid, key: [7; 32].into(), homes: Vec::new() };
    for not in [&other, &false_key] {
        assert_eq!(machine.start(Some(not), false).state(), VolumeState::Locked);
    }
    let mut vault = machine.start(Some(&kept), false);
    assert_eq!(vault.state(), VolumeState::Open);
    assert!(has(&mut vault, b"durable"));
    // A commit that is based on what an earlier life has told is rejected, also if both have committed as often.
    vault.spaces().unwrap().commit("client", &put(b"other"), true, 0).unwrap();
    let based = vault.spaces().unwrap().commit("client", &put(b"b"), true, version);
    assert!(matches!(based, Err(Refusal::Fault(StoreFault::Changed, _))), "{based:?}");
}

#[test]
fn keys_are_replaced_and_removed_and_the_last_one_stays() {
    let machine = Machine::new();
    let (mut vault, code) = machine.set_up();
    assert!(vault.remove("ada").unwrap_err().contains("last passphrase"));
    assert!(vault.add("ada", "another phrase").unwrap_err().contains("has a passphrase already"));
    assert!(vault.replace("bob", "another phrase").unwrap_err().contains("no key of `bob`"));
    vault.add("bob", "second person").unwrap();
    vault.replace("bob", "another phrase").unwrap();
    assert_eq!(vault.verify("bob", "another phrase"), Ok(Tried::Right));
    wrong(vault.verify("bob", "second person"));
    vault.remove("ada").unwrap();
    wrong(vault.verify("ada", "correct horse"));
    let next = vault.renew_recovery_code().unwrap();
    assert_ne!(code, *next);
    drop(vault);
    let mut vault = machine.start(None, false);
    assert!(wrong(vault.open("", &code, KeyKind::RecoveryCode)).contains("recovery code is wrong"));
    assert_eq!(vault.open("", &next, KeyKind::RecoveryCode), Ok(Tried::Right));
}

#[test]
fn a_disk_that_cannot_be_written_is_read() {
    let machine = Machine::new();
    let (mut vault, _) = machine.set_up();
    vault.spaces().unwrap().commit("client", &put(b"a"), true, 0).unwrap();
    drop(vault);
    let before = machine.disk.lock().image().clone();
    let mut vault = machine.start(None, true);
    wrong(vault.open("ada", "correct mouse", KeyKind::Passphrase));
    assert_eq!(vault.open("ada", "correct horse", KeyKind::Passphrase), Ok(Tried::Right));
    assert!(has(&mut vault, b"a") && vault.status().read_only);
    assert!(vault.spaces().unwrap().info("client").unwrap().read_only);
    for refused in [
        vault.spaces().unwrap().commit("client", &put(b"b"), false, 0).map(drop),
        vault.spaces().unwrap().sync("client"),
    ] {
        assert!(matches!(refused, Err(Refusal::Fault(StoreFault::ReadOnly, _))), "{refused:?}");
    }
    assert!(vault.add("bob", "second person").is_err());
    assert!(*machine.disk.lock().image() == before, "nothing was written");
}

/// What the volume holds is damaged: it is said, and the right key is no wrong one.
/// What a client did not sync is lost with another's failed commit, and both are told: it at its next change.
#[test]
fn a_disk_that_fails_is_read_and_every_client_is_told() {
    let machine = Machine::new();
    let (mut vault, _) = machine.set_up();
    let spaces = vault.spaces().unwrap();
    spaces.commit("first", &put(b"durable"), true, 0).unwrap();
    spaces.commit("first", &put(b"later"), false, 0).unwrap();
    spaces.commit("second", &put(b"durable"), true, 0).unwrap();
    spaces.commit("first", &put(b"gone"), false, 0).unwrap();
    machine.disk.1.store(true, Ordering::Relaxed);
    let fault = |done: Result<u64, Refusal>| match done {
        Err(Refusal::Fault(fault, why)) => (fault, why),
        other => panic!("{other:?}"),
    };
    let (failed, why) = fault(spaces.commit("second", &put(b"more"), true, 0));
    assert!(failed == StoreFault::Medium && why.contains("writing disk block"), "{why}");
    // Reading continues, with what was durable. Writing is tried each time.
    assert!(spaces.news().unwrap().contains("copy what you need") && spaces.news().is_none());
    let (failed, why) = fault(spaces.commit("second", &put(b"more"), true, 0));
    assert!(failed == StoreFault::ReadOnly && why.contains("replace this one"), "{why}");
    assert!(spaces.info("second").unwrap().read_only);
    let at_risk = spaces.at_risk();
    let status = vault.status();
    assert!(status.read_only && status.details.contains("the data disk failed"), "{}", status.details);
    assert!(vault.verify("ada", "correct horse") == Ok(Tried::Right));
    // The disk is well again.
    machine.disk.1.store(false, Ordering::Relaxed);
    let spaces = vault.spaces().unwrap();
    let (failed, why) = fault(spaces.commit("first", &put(b"new"), true, 0));
    assert!(failed == StoreFault::Lost && why.contains("do it again"), "{why}");
    assert!(spaces.news().unwrap().contains("written again"));
    let held = |spaces: &mut capos_store_service::spaces::Spaces<Shared>, key: &[u8]| {
        spaces.get("first", "t", key).unwrap().is_some()
    };
    assert!(held(spaces, b"durable") && held(spaces, b"later") && !held(spaces, b"gone") && !held(spaces, b"new"));
    spaces.commit("first", &put(b"new"), true, 0).unwrap();
    spaces.commit("second", &put(b"more"), true, 0).unwrap();
    // The next life of the process tells those who were not told.
    let kept = vault.kept().unwrap();
    let mut next = machine.start(Some(&kept), false);
    let spaces = next.spaces().unwrap();
    spaces.continue_after(&at_risk, &std::collections::BTreeMap::new());
    assert_eq!(fault(spaces.commit("first", &put(b"x"), true, 0)).0, StoreFault::Lost);
    assert!(
        spaces.commit("first", &put(b"x"), true, 0).is_ok() && spaces.commit("second", &put(b"x"), true, 0).is_ok()
    );
}

/// A volume that is locked opens on a disk that cannot be written any more: for reading.
#[test]
fn a_disk_that_fails_before_it_is_opened_is_read() {
    let machine = Machine::new();
    let (mut vault, _) = machine.set_up();
    vault.spaces().unwrap().commit("client", &put(b"a"), true, 0).unwrap();
    machine.disk.1.store(true, Ordering::Relaxed);
    let mut vault = machine.start(None, false);
    assert_eq!(vault.open("ada", "correct horse", KeyKind::Passphrase), Ok(Tried::Right));
    assert!(has(&mut vault, b"a") && vault.status().read_only);
}

#[test]
fn damage_is_told_apart_from_a_wrong_key() {
    let machine = Machine::new();
    let (mut vault, _) = machine.set_up();
    vault.spaces().unwrap().commit("client", &put(b"a"), true, 0).unwrap();
    drop(vault);
    {
        let mut disk = machine.disk.lock();
        for block in 2..BLOCKS - 4 {
            let mut content = [0; 4096];
            disk.read(block, &mut content).unwrap();
            if content.iter().any(|byte| *byte != 0) {
                content[5] ^= 1;
                disk.write(block, &content).unwrap();
            }
        }
    }
    let mut vault = machine.start(None, false);
    let why = vault.open("ada", "correct horse", KeyKind::Passphrase).unwrap_err();
    assert!(why.contains("the data volume on the disk cannot be used"), "{why}");
    assert_eq!(vault.state(), VolumeState::Damaged);
    assert!(vault.spaces().is_none());
    // The machine continues in memory, and says what is damaged.
    vault.go_without(|| MemoryBlocks::new(512)).unwrap();
    let info = vault.spaces().unwrap().info("client").unwrap();
    assert!(!info.lasting && !has(&mut vault, b"a"));
    let status = vault.status();
    assert_eq!((status.state, &status.details), (VolumeState::Damaged, &why));
    assert!(why.contains("restore a backup"), "{why}");
    // A volume that is open, or waits for its key, stays.
    vault = machine.start(None, false);
    vault.go_without(|| panic!("there is a volume")).unwrap();
    assert_eq!(vault.state(), VolumeState::Locked);
}

#[test]
fn without_a_disk_the_same_store_is_in_memory() {
    let machine = Machine::new();
    let mut vault = machine.vault();
    let decision = Decision { state: VolumeState::None, disk: None, details: "no disk".into() };
    vault.in_memory(&decision, None, MemoryBlocks::new(512)).unwrap();
    let info = vault.spaces().unwrap().info("client").unwrap();
    assert!(!info.lasting && !info.read_only && vault.kept().is_none());
    vault.spaces().unwrap().commit("client", &put(b"a"), true, info.version).unwrap();
    assert!(has(&mut vault, b"a"));
    assert!(vault.verify("ada", "correct horse").unwrap_err().contains("there is no volume: no disk"));
    assert!(vault.create(machine.place(false), "ada", "correct horse", KeyKind::Passphrase).is_err());
}

/// Files of a backup whose chunks never come: the power fails meanwhile.
struct Hanging<'a>(&'a MemoryFiles);

impl Files for Hanging<'_> {
    async fn put(&self, path: &str, bytes: &[u8]) -> Result<(), capos_backup::Error> {
        self.0.put(path, bytes).await
    }

    async fn get(&self, path: &str, most: usize) -> Result<Option<Vec<u8>>, capos_backup::Error> {
        if path.starts_with("chunks") {
            std::future::pending::<()>().await;
        }
        self.0.get(path, most).await
    }

    async fn list(&self, folder: &str) -> Result<Vec<String>, capos_backup::Error> {
        self.0.list(folder).await
    }

    async fn flush(&self) -> Result<(), capos_backup::Error> {
        self.0.flush().await
    }
}

/// A backup of a machine that keeps something.
fn backed_up() -> (MemoryFiles, String) {
    let machine = Machine::new();
    let (mut vault, code) = machine.set_up();
    vault.spaces().unwrap().commit("files", &put(b"kept"), true, 0).unwrap();
    let files = MemoryFiles::default();
    let BackUp { repository, mut source, mut random, total } = vault.back_up().unwrap();
    assert!(total > 0);
    run(capos_backup::write(&repository, &files, &mut source, 7, &mut random, |_| true)).unwrap().unwrap();
    (files, code)
}

#[test]
fn a_backup_is_restored_onto_a_blank_disk() {
    let (files, code) = backed_up();
    for (secret, kind) in [("correct horse", KeyKind::Passphrase), (code.as_str(), KeyKind::RecoveryCode)] {
        let machine = Machine::new();
        // Its random bytes are others.
        machine.seed.set(50_000);
        let mut vault = machine.start(None, false);
        let key = vault.backup_key("ada", secret, kind);
        let Ok((repository, _)) = run(key.open(&files)).unwrap().unwrap() else { panic!("{kind:?} does not open it") };
        let mut restore = vault.begin_restore(machine.place(false), "ada", "battery staple").unwrap();
        // Nothing else begins meanwhile.
        let why = vault.create(machine.place(false), "bob", "battery staple", KeyKind::Passphrase).unwrap_err();
        assert!(why.contains("a backup is being restored onto the disk"), "{why}");
        let restored =
            run(capos_backup::store::restore(&repository, &files, 7, &mut restore.store, |_| (), |_| Ok(())));
        restored.unwrap().unwrap();
        let new_code = vault.end_restore(restore).unwrap();
        assert_ne!(*new_code, code);
        assert_eq!(vault.state(), VolumeState::Open);
        // A later start opens it with its own keys.
        let mut vault = machine.start(None, false);
        assert_eq!(vault.open("ada", "battery staple", KeyKind::Passphrase), Ok(Tried::Right));
        assert_eq!(vault.spaces().unwrap().get("files", "t", b"kept").unwrap().unwrap(), b"x");
    }
    for (name, secret, kind) in [
        ("ada", "correct house", KeyKind::Passphrase),
        ("bob", "correct horse", KeyKind::Passphrase),
        ("ada", "AAAAA", KeyKind::RecoveryCode),
    ] {
        let key = Machine::new().start(None, false).backup_key(name, secret, kind);
        assert!(matches!(run(key.open(&files)).unwrap().unwrap(), Err(Tried::Wrong(_))), "{name} {secret}");
    }
}

#[test]
fn a_backup_is_restored_for_its_own_users_alone() {
    let (files, code) = backed_up();
    let mut vault = Machine::new().start(None, false);
    let key = vault.backup_key("adda", &code, KeyKind::RecoveryCode);
    let Err(Tried::Wrong(why)) = run(key.open(&files)).unwrap().unwrap() else { panic!("who would log in?") };
    assert!(why.contains("has no user `adda`"), "{why}");
}

/// A restored volume is as locked, or as open, as the one that was backed up would be.
#[test]
fn a_backup_of_another_version_is_restored_as_its_disk_would_open() {
    let mut of = migration::filled(5);
    of.formats = migration::NEW;
    let mut vault = migration::unlocked(&of);
    vault.confirm(VolumeState::Older, MemoryBlocks::new(512)).unwrap();
    let files = MemoryFiles::default();
    let BackUp { repository, mut source, mut random, .. } = vault.back_up().unwrap();
    run(capos_backup::write(&repository, &files, &mut source, 7, &mut random, |_| true)).unwrap().unwrap();
    let mut machine = Machine::new();
    machine.formats = migration::OLD;
    let mut vault = machine.start(None, false);
    let key = vault.backup_key("ada", "correct horse", KeyKind::Passphrase);
    let Ok((repository, _)) = run(key.open(&files)).unwrap().unwrap() else { panic!() };
    let mut restore = vault.begin_restore(machine.place(false), "ada", "correct horse").unwrap();
    run(capos_backup::store::restore(&repository, &files, 7, &mut restore.store, |_| (), |_| Ok(()))).unwrap().unwrap();
    vault.end_restore(restore).unwrap();
    assert_eq!(vault.state(), VolumeState::OtherVersion);
    vault.confirm(VolumeState::OtherVersion, MemoryBlocks::new(512)).unwrap();
    assert!(vault.status().read_only);
    let refused = vault.spaces().unwrap().commit("files", &put(b"x"), true, 0);
    assert!(matches!(refused, Err(Refusal::Fault(StoreFault::ReadOnly, _))), "{refused:?}");
}

#[test]
fn a_restore_that_was_cut_off_leaves_a_blank_disk() {
    let (files, _) = backed_up();
    let machine = Machine::new();
    let mut vault = machine.start(None, false);
    let key = vault.backup_key("ada", "correct horse", KeyKind::Passphrase);
    let Ok((repository, _)) = run(key.open(&files)).unwrap().unwrap() else { panic!() };
    let mut restore = vault.begin_restore(machine.place(false), "ada", "battery staple").unwrap();
    {
        let (slow, store) = (Hanging(&files), &mut restore.store);
        let mut cut = std::pin::pin!(capos_backup::store::restore(&repository, &slow, 7, store, |_| (), |_| Ok(())));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(cut.as_mut().poll(&mut context).is_pending());
    }
    drop((restore, vault));
    let mut vault = machine.start(None, false);
    assert_eq!(vault.state(), VolumeState::Locked);
    let why = vault.open("ada", "battery staple", KeyKind::Passphrase).unwrap_err();
    assert!(why.contains("is blank again (a restore onto it was cut off)"), "{why}");
    assert_eq!((vault.state(), hostile::content(&machine)), (VolumeState::Blank, Content::Blank));
    // It is set up as any blank one, and one whose restore fails is blank at once.
    let mut again = machine.start(None, false);
    let restore = again.begin_restore(machine.place(false), "ada", "battery staple").unwrap();
    again.abandon_restore(restore, "the medium was removed");
    assert_eq!((again.state(), hostile::content(&machine)), (VolumeState::Blank, Content::Blank));
    again.create(machine.place(false), "ada", "battery staple", KeyKind::Passphrase).unwrap();
}

#[test]
fn p06_nothing_that_is_kept_can_be_read_from_the_disk() {
    let machine = Machine::new();
    let (mut vault, code) = machine.set_up();
    let message = b"the combination of the safe is 4711, and nobody else knows it";
    let change = Change {
        table: "conversation-of-ada".into(),
        kind: ChangeKind::Put,
        key: b"the title of the message".to_vec(),
        value: message.repeat(500),
    };
    vault.spaces().unwrap().commit("client", &[change], true, 0).unwrap();
    let on_disk = |text: &[u8]| {
        let disk = machine.disk.lock();
        let all: Vec<u8> = disk.image().values().flat_map(|block| block.iter().copied()).collect();
        all.windows(text.len()).any(|part| part == text)
    };
    // The name that a key belongs to is not secret: the login shows it.
    assert!(on_disk(b"ada\0"), "the search finds what is there");
    let volume_key = vault.kept().unwrap().key;
    let secrets: [&[u8]; 7] = [
        &message[..16],
        b"conversation-of-ada",
        b"the title of",
        b"correct horse",
        code.as_bytes(),
        b"client\0",
        &volume_key[..],
    ];
    for secret in secrets {
        assert!(!on_disk(secret), "{} is on the disk", String::from_utf8_lossy(secret));
    }
}
