//! Disks of released formats are opened for ever: each is unlocked, migrated if it is older, and holds what it held.
//!
//! `make format-disk` makes one; `docs/upgrade.md` says when.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

use std::cell::RefCell;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use capos_audit::{Reader, Verified};
use capos_broker::{settings, users};
use capos_conversations::{Conversations, Quota};
use capos_files::Files;
use capos_keyspace::{Batch, Durability, Entries, Fault, Info, Keyspace, Range, Within};
use capos_schema::authority::Profile;
use capos_schema::store::{KeyKind, VolumeState};
use capos_store::MemoryBlocks;
use capos_store_service::disks::{Decision, Mark};
use capos_store_service::shares::Shares;
use capos_store_service::spaces::{Refusal, Spaces};
use capos_store_service::vault::{Means, Place, Tried, Vault};
use capos_tree::{FileTree, Tree};
use capos_volume::sim::{Memory, Seed};

/// A client's namespace of an open vault.
#[derive(Clone)]
struct Space(Rc<RefCell<Vault<Memory>>>, &'static str);

impl Space {
    fn with<T>(&self, work: impl FnOnce(&mut Spaces<Memory>, &str) -> Result<T, Refusal>) -> Result<T, Fault> {
        let mut vault = self.0.borrow_mut();
        work(vault.spaces().unwrap(), self.1).map_err(|refusal| Fault::Medium(format!("{refusal:?}")))
    }
}

impl Keyspace for Space {
    async fn info(&self) -> Result<Info, Fault> {
        let info = self.with(|spaces, client| spaces.info(client))?;
        let (version, lasting, read_only) = (info.version, info.lasting, info.read_only);
        Ok(Info { limit: info.limit, used: info.used, version, lasting, read_only, asides: info.asides })
    }

    async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        self.with(|spaces, client| spaces.get(client, table, key))
    }

    async fn range(&self, range: Range<'_>) -> Result<Entries, Fault> {
        self.with(|spaces, client| spaces.range(client, range))
    }

    async fn commit(&self, batch: &Batch, durability: Durability) -> Result<(), Fault> {
        let durable = durability == Durability::Now;
        self.with(|spaces, client| spaces.commit(client, batch.changes(), durable, 0)).map(drop)
    }

    async fn sync(&self) -> Result<(), Fault> {
        self.with(Spaces::sync)
    }
}

fn done<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a store in the same process answers at once"),
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/formats")
}

/// A packed disk.
fn unpacked(number: u32) -> Memory {
    let file = folder().join(format!("{number}.gz"));
    let out = Command::new("gzip").arg("-dc").arg(&file).output().unwrap();
    assert!(out.status.success() && out.stdout.len() > 1 << 20, "{}: {:?}", file.display(), out.status);
    Memory::new(out.stdout)
}

fn vault() -> Vault<Memory> {
    let (mut now, mut next) = (0, 0);
    let means = Means {
        clock: Box::new(move || {
            now += 1000;
            now
        }),
        random: Box::new(move || {
            next += 1;
            let mut seed = Seed(next);
            Box::new(move |bytes| seed.fill(bytes))
        }),
        memory: Box::new(|| 1 << 30),
        target: 1,
    };
    Vault::new((Shares::default(), Shares::default()), capos_formats::ALL, means)
}

/// An unlocked disk, as the service has it after the passphrase.
fn unlocked(image: &Memory) -> Vault<Memory> {
    let mut vault = vault();
    let (mark, locked) = Mark::read(image.clone());
    assert_eq!(mark, Mark::Volume);
    let decision = Decision { state: VolumeState::Locked, disk: Some(0), details: "told".into() };
    let place = Place { name: "the disk".into(), bytes: 0, read_only: false, disk: image.clone() };
    vault.found(&decision, place, locked.unwrap(), None);
    assert!(matches!(vault.open("ada", "correct horse", KeyKind::Passphrase), Ok(Tried::Right)), "{}", vault.details());
    vault
}

/// Compares what the disk holds with what `tests/formats/scenario` has put there.
fn check(vault: Vault<Memory>) {
    let vault = Rc::new(RefCell::new(vault));
    let space = |client| Space(vault.clone(), client);
    let broker = space("broker");
    let names: Vec<(String, Profile)> =
        done(users::list(&broker)).unwrap().into_iter().map(|user| (user.name, user.profile)).collect();
    assert_eq!(names, [("ada".to_owned(), Profile::Operator), ("bob".to_owned(), Profile::Guest)]);
    let set = done(settings::read(&broker)).unwrap();
    assert_eq!(set.get("session.lock_minutes").map(String::as_str), Some("20"));
    // The first home is ada's; its number is in the table of the homes.
    let homes = done(space("files").get("homes", b"ada")).unwrap().unwrap();
    let number = u16::from_le_bytes(homes.try_into().unwrap());
    let files = done(Files::open(Within::new(space("files"), format!("{number}/")))).unwrap();
    for (path, text) in [("letter.txt", "The letter of format one.\n"), ("plan.txt", "Sow the beans.\n")] {
        let (id, _) = done(files.status(Tree::ROOT, path)).unwrap();
        let (bytes, _) = done(files.read(id, 0, 1 << 20)).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), text, "{path}");
    }
    let Verified { head, checked: summary, .. } = done(Reader::new(space("audit")).verify(|_, _| {})).unwrap();
    let summary = summary.unwrap_or_else(|broken| panic!("{broken:?}"));
    assert!(head.sequence >= 10, "{head:?} {summary:?}");
    let conversations = Conversations::new(space("conversations"), Quota::default());
    let owner = done(conversations.owner("ada", 0)).unwrap();
    let listed = done(conversations.list(owner, "", 10, 0)).unwrap().conversations;
    let [plans] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((plans.title.as_str(), plans.messages), ("Plans", 4));
    let parts = done(conversations.read(owner, &plans.id, (0, 0), 10, 0)).unwrap().parts;
    assert!(parts[0].text.contains("sow the beans") && parts[3].text.contains("It is kept."), "{parts:?}");
}

#[test]
fn disks_of_every_released_format_open_and_hold_what_they_held() {
    let newest = capos_formats::ALL.iter().map(capos_formats::Format::version).max().unwrap();
    let newest = u64::from(newest).max(capos_store::FORMAT);
    let mut number = 0;
    while folder().join(format!("{}.gz", number + 1)).exists() {
        number += 1;
        let image = unpacked(number);
        let mut vault = unlocked(&image);
        if vault.state() == VolumeState::Older {
            vault.confirm(VolumeState::Older, MemoryBlocks::new(512)).unwrap();
        }
        assert_eq!(vault.state(), VolumeState::Open, "disk {number}: {}", vault.details());
        check(vault);
    }
    assert!(
        u64::from(number) >= newest,
        "a disk of the newest formats is missing in tests/formats; see docs/upgrade.md"
    );
}
