//! Homes under keys of their users.

use std::cell::RefCell;

use capos_files::{Files, Homes, SEALED, TREE_FORMAT};
use capos_keyspace::{Batch, Durability, Entries, Fault, Info, Keyspace, Range, Within};
use capos_store::Durability as Durable;
use capos_store_service::sealed::{NAMESPACE, Part};
use capos_store_service::spaces::Spaces;
use capos_tree::{FileTree, Tree};

use super::*;

const WORDS: [(&str, &str); 2] = [("ada", "correct horse"), ("bob", "second person")];
const NAME: &str = "diary of last summer.txt";
const TEXT: &[u8] = b"the combination of the safe is 4711, and nobody else knows it";

type Shares = Rc<RefCell<Vault<Shared>>>;

/// The namespace of `files`.
#[derive(Clone)]
struct Space(Shares);

impl Space {
    fn with<T>(&self, work: impl FnOnce(&mut Spaces<Shared>) -> Result<T, Refusal>) -> Result<T, Fault> {
        let mut vault = self.0.borrow_mut();
        work(vault.spaces().unwrap()).map_err(|refusal| match refusal {
            Refusal::Fault(StoreFault::Locked, _) => Fault::Locked,
            Refusal::Fault(StoreFault::Damaged, why) => Fault::Damaged(why),
            other => Fault::Medium(format!("{other:?}")),
        })
    }
}

impl Keyspace for Space {
    async fn info(&self) -> Result<Info, Fault> {
        let info = self.with(|spaces| spaces.info("files"))?;
        Ok(Info {
            limit: info.limit,
            used: info.used,
            version: info.version,
            lasting: true,
            read_only: info.read_only,
            asides: info.asides,
        })
    }

    async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        self.with(|spaces| spaces.get("files", table, key))
    }

    async fn range(&self, range: Range<'_>) -> Result<Entries, Fault> {
        self.with(|spaces| spaces.range("files", range))
    }

    async fn commit(&self, batch: &Batch, durability: Durability) -> Result<(), Fault> {
        let durable = durability == Durability::Now;
        self.with(|spaces| spaces.commit("files", batch.changes(), durable, 0)).map(drop)
    }

    async fn sync(&self) -> Result<(), Fault> {
        self.with(|spaces| spaces.sync("files"))
    }
}

fn protect(vault: &mut Vault<Shared>, number: u16, owner: &str) -> Result<(bool, String), Refusal> {
    let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (tables, named) = (texts(SEALED.tables), texts(SEALED.named));
    let name = Homes::<Space>::prefix(number);
    vault.protect("files", Part { name: &name, owner, tables: &tables, named: &named })
}

/// The home of a user, as the service `files` opens it: ada's has number 1, and bob's 2.
fn home(vault: &Shares, owner: &str) -> Result<Files<Within<Space>>, String> {
    let number = if owner == "ada" { 1 } else { 2 };
    let (is_sealed, _) = protect(&mut vault.borrow_mut(), number, owner).map_err(|why| format!("{why:?}"))?;
    let tree = Within::new(Space(vault.clone()), Homes::<Space>::prefix(number));
    let tree = if is_sealed { tree.sealed(SEALED) } else { tree };
    run(Files::open(tree)).unwrap().map_err(|error| error.to_string())
}

fn write(files: &Files<Within<Space>>, name: &str, text: &[u8]) {
    run(files.store(Tree::ROOT, name, text, false, &Default::default(), 0)).unwrap().unwrap();
    run(files.sync(files.losses())).unwrap().unwrap();
}

fn read(files: &Files<Within<Space>>, name: &str) -> Vec<u8> {
    let (id, _) = run(files.status(Tree::ROOT, name)).unwrap().unwrap();
    run(files.read(id, 0, 1 << 20)).unwrap().unwrap().0
}

/// A user's home holds what was written there.
fn has_diary(vault: &Shares, owner: &str) -> Result<(), String> {
    let files = home(vault, owner)?;
    assert!(files.keyspace().is_sealed(), "{owner}");
    assert_eq!(read(&files, NAME), TEXT);
    let report = run(files.check()).unwrap().unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
    Ok(())
}

fn opened(machine: &Machine, name: &str, secret: &str, kind: KeyKind) -> Shares {
    let mut vault = machine.start(None, false);
    assert_eq!(vault.open(name, secret, kind), Ok(Tried::Right), "{}", vault.details());
    Rc::new(RefCell::new(vault))
}

fn by_name(machine: &Machine, name: &str) -> Shares {
    let (_, word) = WORDS.into_iter().find(|(known, _)| *known == name).unwrap();
    opened(machine, name, word, KeyKind::Passphrase)
}

/// Ada and Bob, each with a diary. The machine is off.
fn two() -> (Machine, String) {
    let machine = Machine::new();
    let (mut vault, code) = machine.set_up();
    vault.add("bob", "second person").unwrap();
    assert_eq!(vault.verify("bob", "second person"), Ok(Tried::Right));
    let vault = Rc::new(RefCell::new(vault));
    for (owner, _) in WORDS {
        write(&home(&vault, owner).unwrap(), NAME, TEXT);
        has_diary(&vault, owner).unwrap();
    }
    assert!(vault.borrow_mut().warnings().is_empty());
    (machine, code)
}

/// Keys and values of all namespaces, as whoever has the volume's key finds them.
fn all(vault: &Shares) -> Vec<u8> {
    let mut vault = vault.borrow_mut();
    vault.spaces().unwrap().with_store(|store| {
        let snapshot = store.snapshot().unwrap();
        let mut all = Vec::new();
        for (namespace, usage) in snapshot.namespaces().unwrap() {
            all.extend_from_slice(usage.name.as_bytes());
            let mut at: Option<(String, Vec<u8>)> = None;
            while let Some((table, (key, value))) =
                snapshot.next(namespace, at.as_ref().map(|(table, key)| (table.as_str(), key.as_slice()))).unwrap()
            {
                all.extend([table.as_bytes(), b" ", &key, b" ", &value, b"\n"].concat());
                at = Some((table, key));
            }
        }
        all
    })
}

fn found(all: &[u8], text: &[u8]) -> bool {
    all.windows(text.len()).any(|part| part == text)
}

#[test]
fn the_passphrase_of_one_user_reads_nothing_of_anothers_home() {
    let (machine, _) = two();
    let vault = by_name(&machine, "bob");
    has_diary(&vault, "bob").unwrap();
    let why = has_diary(&vault, "ada").unwrap_err();
    assert!(why.contains("the home of ada is locked; it opens when ada logs in"), "{why}");
    // What takes no key is answered: the count, and removing all of it.
    assert!(run(Homes::new(Space(vault.clone()), 9).used(1)).unwrap().unwrap() > 200);
    assert_eq!(run(Space(vault.clone()).get("1/entries", b"12345678x")).unwrap(), Err(Fault::Locked));
    let all = all(&vault);
    assert!(found(&all, b"1/entries") && found(&all, b"used"), "the search finds what is there");
    for text in [NAME.as_bytes(), b"diary", &TEXT[..16]] {
        assert!(!found(&all, text), "{}", String::from_utf8_lossy(text));
    }
    let key = *vault.borrow_mut().kept().unwrap().homes[0].1;
    assert!(!found(&all, &key));
    assert_eq!(vault.borrow_mut().verify("ada", "correct horse"), Ok(Tried::Right));
    has_diary(&vault, "ada").unwrap();
    // With the last session of a user the key goes.
    vault.borrow_mut().lock("ada");
    assert!(has_diary(&vault, "ada").is_err() && has_diary(&vault, "bob").is_ok());
}

#[test]
fn names_are_found_listed_and_moved_as_in_a_home_that_is_not_sealed() {
    let (machine, _) = two();
    let vault = by_name(&machine, "ada");
    let files = home(&vault, "ada").unwrap();
    let names: Vec<String> = (0..150).map(|number| format!("note {number:03}")).collect();
    for name in names.iter().rev() {
        write(&files, name, name.as_bytes());
    }
    run(files.rename(Tree::ROOT, NAME, "note 0005", 0)).unwrap().unwrap();
    let mut expected = names.clone();
    expected.insert(6, "note 0005".into());
    expected.sort();
    let (mut listed, mut after) = (Vec::new(), String::new());
    loop {
        let page = run(files.list_after(Tree::ROOT, "", &after, 4000)).unwrap().unwrap();
        let Some((_, last)) = page.entries.last() else { break };
        after = last.name.clone();
        listed.extend(page.entries.into_iter().map(|(_, info)| info.name));
    }
    assert_eq!(listed, expected);
    assert_eq!((read(&files, "note 0005"), read(&files, "note 077")), (TEXT.to_vec(), b"note 077".to_vec()));
    run(files.remove(Tree::ROOT, "note 077", capos_tree::Removal::Any, 0)).unwrap().unwrap();
    assert!(run(files.status(Tree::ROOT, "note 077")).unwrap().is_err());
    // In the order of the sealed names, each comes once.
    let space = Space(vault.clone());
    let (mut from, to) = ([0_u8; 8].to_vec(), [0, 0, 0, 0, 0, 0, 0, 1]);
    let mut count = 0;
    loop {
        let range = Range { table: "1/entries", from: &from, to: &to, reverse: false, most: 7, keys_only: true };
        let page = run(space.range(range)).unwrap().unwrap();
        count += page.entries.len();
        let Some((last, _)) = page.entries.last() else { break };
        from = [last.as_slice(), &[0]].concat();
    }
    assert_eq!(count, 150);
    let report = run(files.check()).unwrap().unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
}

#[test]
fn a_home_stays_open_to_its_user_whatever_becomes_of_the_secrets() {
    // A changed passphrase.
    let (machine, code) = two();
    let vault = by_name(&machine, "ada");
    vault.borrow_mut().replace("ada", "battery staple").unwrap();
    drop(vault);
    has_diary(&opened(&machine, "ada", "battery staple", KeyKind::Passphrase), "ada").unwrap();
    has_diary(&by_name(&machine, "bob"), "bob").unwrap();
    // The recovery code, and what the person sets then.
    let vault = opened(&machine, "", &code, KeyKind::RecoveryCode);
    vault.borrow_mut().replace("ada", "third passphrase").unwrap();
    has_diary(&vault, "ada").unwrap();
    drop(vault);
    let vault = opened(&machine, "ada", "third passphrase", KeyKind::Passphrase);
    has_diary(&vault, "ada").unwrap();
    // An operator who does not know the passphrase of another sets it: only the recovery code opens that home.
    vault.borrow_mut().replace("bob", "given to bob").unwrap();
    assert_eq!(vault.borrow_mut().verify("bob", "given to bob"), Ok(Tried::Right));
    let why = has_diary(&vault, "bob").unwrap_err();
    assert!(why.contains("enter `forgot` with the recovery code"), "{why}");
    drop(vault);
    assert!(has_diary(&opened(&machine, "bob", "given to bob", KeyKind::Passphrase), "bob").is_err());
    drop(opened(&machine, "", &code, KeyKind::RecoveryCode));
    has_diary(&opened(&machine, "bob", "given to bob", KeyKind::Passphrase), "bob").unwrap();
    // A new recovery code opens the homes of those who were logged in since, and the one before none.
    let vault = opened(&machine, "ada", "third passphrase", KeyKind::Passphrase);
    let new = vault.borrow_mut().renew_recovery_code().unwrap().to_string();
    drop(vault);
    has_diary(&opened(&machine, "bob", "given to bob", KeyKind::Passphrase), "bob").unwrap();
    assert!(matches!(machine.start(None, false).open("", &code, KeyKind::RecoveryCode), Ok(Tried::Wrong(_))));
    let vault = opened(&machine, "", &new, KeyKind::RecoveryCode);
    for (name, word) in [("ada", "fourth passphrase"), ("bob", "fifth passphrase")] {
        vault.borrow_mut().replace(name, word).unwrap();
        assert_eq!(vault.borrow_mut().verify(name, word), Ok(Tried::Right));
        has_diary(&vault, name).unwrap();
    }
    // A user who is removed takes the key along, and a later one of the name has another.
    vault.borrow_mut().remove("bob").unwrap();
    vault.borrow_mut().add("bob", "another bob").unwrap();
    assert_eq!(vault.borrow_mut().verify("bob", "another bob"), Ok(Tried::Right));
    let why = has_diary(&vault, "bob").unwrap_err();
    assert!(why.contains("sealed with a key that is gone"), "{why}");
    assert!(vault.borrow_mut().warnings().is_empty());
}

/// The power goes at any write of a change. The secret that opens the volume opens the home.
#[test]
fn a_change_of_a_secret_is_atomic_for_the_home() {
    let (machine, code) = two();
    let image = machine.disk.lock().image().clone();
    let (mut olds, mut news) = (0, 0);
    for renew in [false, true] {
        for fuse in 0..60 {
            let machine = Machine::new();
            *machine.disk.lock() = SimDisk::from_image(BLOCKS, image.clone(), Seed(fuse + 1));
            let vault = by_name(&machine, "ada");
            machine.disk.lock().set_fuse(Some(fuse));
            let mut new = String::new();
            let done = if renew {
                vault.borrow_mut().renew_recovery_code().map(|code| new = code.to_string())
            } else {
                vault.borrow_mut().replace("ada", "battery staple")
            };
            drop(vault);
            let crashed = machine.disk.lock().clone().crash();
            *machine.disk.lock() = crashed;
            if renew {
                let mut vault = machine.start(None, false);
                let old = vault.open("", &code, KeyKind::RecoveryCode) == Ok(Tried::Right);
                if done.is_ok() {
                    assert!(!old, "fuse {fuse}");
                    vault = Rc::into_inner(opened(&machine, "", &new, KeyKind::RecoveryCode)).unwrap().into_inner();
                }
                if old || done.is_ok() {
                    vault.replace("ada", "set by the code").unwrap();
                    assert_eq!(vault.verify("ada", "set by the code"), Ok(Tried::Right));
                    has_diary(&Rc::new(RefCell::new(vault)), "ada").unwrap();
                }
                (olds, news) = (olds + u32::from(old), news + u32::from(done.is_ok()));
                continue;
            }
            let mut vault = machine.start(None, false);
            let old = vault.open("ada", "correct horse", KeyKind::Passphrase) == Ok(Tried::Right);
            let vault = match old {
                true => Rc::new(RefCell::new(vault)),
                false => opened(&machine, "ada", "battery staple", KeyKind::Passphrase),
            };
            assert!(!old || done.is_err(), "fuse {fuse}");
            has_diary(&vault, "ada").unwrap_or_else(|why| panic!("fuse {fuse}: {why}"));
            (olds, news) = (olds + u32::from(old), news + u32::from(!old));
        }
    }
    assert!(olds > 10 && news > 10, "{olds} {news}");
}

/// What somebody with the volume's key puts elsewhere is not taken for what stands there.
#[test]
fn what_is_moved_between_homes_and_keys_is_rejected() {
    let (machine, _) = two();
    let vault = by_name(&machine, "ada");
    write(&home(&vault, "ada").unwrap(), "second", b"another text");
    assert_eq!(vault.borrow_mut().verify("bob", "second person"), Ok(Tried::Right));
    let content = |number: u8, node: u64| (format!("{number}/content"), [node.to_be_bytes(), [0; 8]].concat());
    for (from, to) in [(content(1, 1), content(1, 2)), (content(1, 1), content(2, 1))] {
        vault.borrow_mut().spaces().unwrap().with_store(|store| {
            let namespace = store.namespace("files").unwrap();
            let value = store.snapshot().unwrap().get(namespace, &from.0, &from.1).unwrap().unwrap();
            let before = store.snapshot().unwrap().get(namespace, &to.0, &to.1).unwrap().unwrap();
            assert_ne!(value, before);
            let mut write = store.begin().unwrap();
            write.put(namespace, &to.0, &to.1, &value).unwrap();
            write.commit(Durable::Now).unwrap();
        });
        let found = run(Space(vault.clone()).get(&to.0, &to.1)).unwrap();
        assert!(matches!(found, Err(Fault::Damaged(_))), "{from:?} {to:?} {found:?}");
    }
}

/// A disk of a version without keys of homes: nobody has one, and the homes are in plain.
fn older(machine: &Machine) -> String {
    let (vault, code) = machine.set_up();
    let vault = Rc::new(RefCell::new(vault));
    let tree = Within::new(Space(vault.clone()), Homes::<Space>::prefix(1));
    let files = run(Files::open(tree)).unwrap().unwrap();
    run(files.make_directory(Tree::ROOT, "folder", 0)).unwrap().unwrap();
    write(&files, NAME, TEXT);
    for number in 0..100 {
        write(&files, &format!("folder/{number}"), &[number; 600]);
    }
    vault.borrow_mut().spaces().unwrap().with_store(|store| {
        let namespace = store.namespace(NAMESPACE).unwrap();
        store.remove_namespace(namespace).unwrap();
    });
    code
}

#[test]
fn a_home_of_an_older_version_is_sealed_once_the_recovery_code_can_open_it() {
    let machine = Machine::new();
    let code = older(&machine);
    let vault = by_name(&machine, "ada");
    let (is_sealed, why) = protect(&mut vault.borrow_mut(), 1, "ada").unwrap();
    assert!(!is_sealed && why.contains("once there is a new recovery code"), "{why}");
    assert!(found(&all(&vault), TEXT) && read(&home(&vault, "ada").unwrap(), NAME) == TEXT);
    // It can be entered as well.
    let image = machine.disk.lock().image().clone();
    let new = vault.borrow_mut().renew_recovery_code().unwrap().to_string();
    let used = Space(vault.clone()).with(|spaces| spaces.info("files")).unwrap();
    has_diary(&vault, "ada").unwrap();
    let all = all(&vault);
    assert!(!found(&all, TEXT) && !found(&all, b"diary") && !found(&all, &[7; 100]));
    assert_eq!(read(&home(&vault, "ada").unwrap(), "folder/77"), [77; 600]);
    let now = Space(vault.clone()).with(|spaces| spaces.info("files")).unwrap();
    assert!(now.used > used.used && now.limit == used.limit && now.version > used.version);
    drop(vault);
    let vault = opened(&machine, "", &new, KeyKind::RecoveryCode);
    vault.borrow_mut().replace("ada", "battery staple").unwrap();
    drop(vault);
    has_diary(&opened(&machine, "ada", "battery staple", KeyKind::Passphrase), "ada").unwrap();
    *machine.disk.lock() = SimDisk::from_image(BLOCKS, image, Seed(9));
    drop(opened(&machine, "", &code, KeyKind::RecoveryCode));
    has_diary(&by_name(&machine, "ada"), "ada").unwrap();
    assert_eq!(TREE_FORMAT, 1);
}

/// The power goes while a home is being sealed: it is as it was, or sealed.
#[test]
fn a_home_is_sealed_as_a_whole_or_not_at_all() {
    let machine = Machine::new();
    let code = older(&machine);
    drop(opened(&machine, "", &code, KeyKind::RecoveryCode));
    drop(by_name(&machine, "ada"));
    let image = machine.disk.lock().image().clone();
    let (mut plain, mut sealed) = (0, 0);
    for fuse in (0..400).step_by(9) {
        let machine = Machine::new();
        *machine.disk.lock() = SimDisk::from_image(BLOCKS, image.clone(), Seed(fuse + 1));
        let vault = by_name(&machine, "ada");
        machine.disk.lock().set_fuse(Some(fuse));
        let done = protect(&mut vault.borrow_mut(), 1, "ada").is_ok_and(|(is_sealed, _)| is_sealed);
        drop(vault);
        let crashed = machine.disk.lock().clone().crash();
        *machine.disk.lock() = crashed;
        let vault = by_name(&machine, "ada");
        let is_plain = found(&all(&vault), TEXT);
        assert!(!(done && is_plain), "fuse {fuse}");
        has_diary(&vault, "ada").unwrap_or_else(|why| panic!("fuse {fuse}: {why}"));
        (plain, sealed) = (plain + u32::from(is_plain), sealed + u32::from(!is_plain));
    }
    assert!(plain > 3 && sealed > 3, "{plain} {sealed}");
}

#[test]
fn the_next_life_of_the_process_has_the_keys_and_another_start_has_not() {
    let (machine, _) = two();
    let vault = by_name(&machine, "ada");
    let kept = Kept::decode(&vault.borrow_mut().kept().unwrap().encode()).unwrap();
    drop(vault);
    let vault = Rc::new(RefCell::new(machine.start(Some(&kept), false)));
    has_diary(&vault, "ada").unwrap();
    assert!(has_diary(&vault, "bob").is_err());
}

#[test]
fn a_restored_disk_opens_the_homes_that_the_backups_secret_opens() {
    let (of, code) = two();
    let files = MemoryFiles::default();
    let vault = by_name(&of, "ada");
    let BackUp { repository, mut source, mut random, .. } = vault.borrow_mut().back_up().unwrap();
    run(capos_backup::write(&repository, &files, &mut source, 7, &mut random, |_| true)).unwrap().unwrap();
    for (secret, kind, all) in
        [("correct horse", KeyKind::Passphrase, false), (code.as_str(), KeyKind::RecoveryCode, true)]
    {
        let machine = Machine::new();
        machine.seed.set(50_000);
        let mut vault = machine.start(None, false);
        let key = vault.backup_key("ada", secret, kind);
        let Ok((repository, old)) = run(key.open(&files)).unwrap().unwrap() else { panic!("{kind:?}") };
        let mut restore = vault.begin_restore(machine.place(false), "ada", "battery staple").unwrap();
        let secrets = restore.secrets();
        let rekey = |store: &mut _| vault.rekey(store, &old, &secrets);
        run(capos_backup::store::restore(&repository, &files, 7, &mut restore.store, |_| (), rekey)).unwrap().unwrap();
        let new_code = vault.end_restore(restore).unwrap();
        assert!(vault.warnings().is_empty());
        let vault = Rc::new(RefCell::new(vault));
        has_diary(&vault, "ada").unwrap();
        // Another user gets a passphrase from the operator.
        vault.borrow_mut().add("bob", "given to bob").unwrap();
        drop(vault);
        let vault = opened(&machine, "bob", "given to bob", KeyKind::Passphrase);
        assert_eq!(has_diary(&vault, "bob").is_ok(), all);
        drop(vault);
        has_diary(&opened(&machine, "ada", "battery staple", KeyKind::Passphrase), "ada").unwrap();
        let vault = opened(&machine, "", &new_code, KeyKind::RecoveryCode);
        vault.borrow_mut().replace("ada", "by the new code").unwrap();
        assert_eq!(vault.borrow_mut().verify("ada", "by the new code"), Ok(Tried::Right));
        has_diary(&vault, "ada").unwrap();
    }
}

/// A home is sealed for its owner: another user whose number leads there gets nothing, with any key at hand.
#[test]
fn a_sealed_home_is_that_of_its_owner_alone() {
    let (machine, _) = two();
    let vault = by_name(&machine, "ada");
    assert_eq!(vault.borrow_mut().verify("bob", "second person"), Ok(Tried::Right));
    let refused = protect(&mut vault.borrow_mut(), 1, "bob");
    assert!(matches!(refused, Err(Refusal::Fault(StoreFault::Damaged, _))), "{refused:?}");
    has_diary(&vault, "ada").unwrap();
    has_diary(&vault, "bob").unwrap();
}
