//! The broker's side of the data volume, with a vault of the test's own.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use core::cell::Cell;

use capos_keyspace::local::LocalKeyspace;
use capos_schema::cap::CallContext;
use capos_schema::kernel::{TimerClient, TimerServer};
use capos_schema::local::{Local, run};
use capos_schema::storage::DirectoryClient;
use capos_schema::store::{
    BackupState, KeyInfo, RestoreRequest, VaultOpenResults, VaultRestoreResults, VaultServer, VaultVerifyResults,
};
use capos_store::{FaultyBlocks, MemoryBlocks, Store, UNDAMAGED};

use super::*;

#[path = "mend_tests.rs"]
mod mend;

const SECOND: u64 = 1_000_000_000;
const CODE: &str = "the code";
const HORSE: &str = "correct horse";
const STAPLE: &str = "battery staple";
const SITE: &str = "name = 'site'\nkey_file = '/etc/key'";
const KEY_FILE: &str = "0123456789abcdef0123456789abcdef";

/// A vault whose keys are in plain text.
#[derive(Default)]
struct FakeVault {
    state: Cell<VolumeState>,
    keys: RefCell<BTreeMap<String, (KeyKind, String)>>,
    failed: Cell<u32>,
    /// Looks until the disks are known.
    searching: Cell<u32>,
    /// What a right key finds.
    holds: Cell<VolumeState>,
    broken: Cell<bool>,
}

impl FakeVault {
    fn try_key(&self, name: &str, secret: &str, kind: KeyKind) -> bool {
        let right = match kind {
            KeyKind::RecoveryCode => secret == CODE,
            _ => self.keys.borrow().get(name).is_some_and(|(of, known)| *of == kind && known == secret),
        };
        self.failed.set(if right { 0 } else { self.failed.get() + 1 });
        right
    }

    fn works(&self) -> Result<(), CallError> {
        if self.broken.get() { Err(CallError::failed("the disk failed")) } else { Ok(()) }
    }
}

struct Served(Rc<FakeVault>);

impl core::ops::Deref for Served {
    type Target = FakeVault;

    fn deref(&self) -> &FakeVault {
        &self.0
    }
}

impl VaultServer for Served {
    async fn status(&self, _: &CallContext) -> Result<VolumeInfo, CallError> {
        if let Some(left) = self.searching.get().checked_sub(1) {
            self.searching.set(left);
            return Ok(VolumeInfo::default());
        }
        let keys = self.keys.borrow();
        let keys = keys.iter().map(|(name, (kind, _))| KeyInfo { slot: 0, kind: *kind, name: name.clone() });
        Ok(VolumeInfo {
            state: self.state.get(),
            disk: "disk 2".into(),
            details: format!("disk 2 is {}", self.state.get().name()),
            keys: keys.collect(),
            failed_attempts: self.failed.get(),
            ..VolumeInfo::default()
        })
    }

    async fn create(
        &self,
        _: &CallContext,
        disk: String,
        name: String,
        secret: String,
        kind: KeyKind,
    ) -> Result<String, CallError> {
        self.works()?;
        assert_eq!(disk, "disk 2");
        assert!(matches!(self.state.get(), VolumeState::Blank | VolumeState::Declined));
        self.keys.borrow_mut().insert(name, (kind, secret));
        self.state.set(VolumeState::Open);
        Ok(CODE.into())
    }

    async fn open(
        &self,
        _: &CallContext,
        name: String,
        secret: String,
        kind: KeyKind,
    ) -> Result<VaultOpenResults, CallError> {
        let opened = self.try_key(&name, &secret, kind);
        if opened {
            let holds = self.holds.get();
            self.state.set(if holds == VolumeState::Searching { VolumeState::Open } else { holds });
        }
        Ok(VaultOpenResults { opened, why: if opened { String::new() } else { "it is wrong".into() } })
    }

    async fn lock(&self, _: &CallContext, _: String) -> Result<(), CallError> {
        Ok(())
    }

    async fn verify(&self, _: &CallContext, name: String, secret: String) -> Result<VaultVerifyResults, CallError> {
        let valid = self.try_key(&name, &secret, KeyKind::Passphrase);
        Ok(VaultVerifyResults { valid, why: if valid { String::new() } else { "it is wrong".into() } })
    }

    async fn add(&self, _: &CallContext, name: String, passphrase: String) -> Result<(), CallError> {
        self.works()?;
        self.keys.borrow_mut().insert(name, (KeyKind::Passphrase, passphrase));
        Ok(())
    }

    async fn replace(&self, cx: &CallContext, name: String, passphrase: String) -> Result<(), CallError> {
        self.add(cx, name, passphrase).await
    }

    async fn remove(&self, _: &CallContext, name: String) -> Result<(), CallError> {
        self.works()?;
        self.keys.borrow_mut().remove(&name);
        Ok(())
    }

    async fn renew_recovery_code(&self, _: &CallContext) -> Result<String, CallError> {
        Ok("another code".into())
    }

    async fn confirm(&self, _: &CallContext, state: VolumeState) -> Result<(), CallError> {
        self.works()?;
        if self.state.get() != state {
            return Err(CallError::failed("there is nothing of this to confirm"));
        }
        self.state.set(VolumeState::Open);
        Ok(())
    }

    async fn decline(&self, _: &CallContext) -> Result<(), CallError> {
        self.state.set(VolumeState::Declined);
        Ok(())
    }

    async fn back_up(&self, _: &CallContext, _: DirectoryClient, time: u64) -> Result<BackupState, CallError> {
        self.works()?;
        Ok(BackupState { time, records: 3, ..BackupState::default() })
    }

    async fn restore(
        &self,
        cx: &CallContext,
        disk: String,
        _: DirectoryClient,
        request: RestoreRequest,
    ) -> Result<VaultRestoreResults, CallError> {
        if request.secret != "correct horse" && request.kind == KeyKind::Passphrase {
            return Ok(VaultRestoreResults { why: "it is wrong".into(), ..VaultRestoreResults::default() });
        }
        let recovery_code = self.create(cx, disk, request.name, request.passphrase, KeyKind::Passphrase).await?;
        Ok(VaultRestoreResults { recovery_code, ..VaultRestoreResults::default() })
    }

    async fn progress(&self, _: &CallContext) -> Result<BackupState, CallError> {
        Ok(BackupState::default())
    }
}

/// A timer that goes where it is put.
struct Hand(Rc<Cell<u64>>);

impl TimerServer for Hand {
    async fn now(&self, _: &CallContext) -> Result<u64, CallError> {
        Ok(self.0.get())
    }

    async fn sleep_until(&self, _: &CallContext, nanoseconds: u64) -> Result<(), CallError> {
        self.0.set(nanoseconds);
        Ok(())
    }

    async fn set_wall_clock(&self, _: &CallContext, _: u64) -> Result<(), CallError> {
        Err(CallError::unimplemented("this clock is not set"))
    }

    async fn wall_clock(&self, _: &CallContext) -> Result<u64, CallError> {
        Ok(1000)
    }
}

type Space = LocalKeyspace<FaultyBlocks>;

/// A machine, and what its broker makes of it.
struct Machine {
    vault: Rc<FakeVault>,
    store: Rc<RefCell<Store<FaultyBlocks>>>,
    hand: Rc<Cell<u64>>,
    volume: DataVolume<Space>,
    /// Whose key file was tried at its start, and why it did not open.
    tried: Option<(String, Option<String>)>,
}

impl Machine {
    fn new(state: VolumeState) -> Self {
        let vault = Rc::new(FakeVault::default());
        vault.state.set(state);
        let store = Rc::new(RefCell::new(Store::open(FaultyBlocks::new(MemoryBlocks::new(4096), UNDAMAGED)).unwrap()));
        Self::started(vault, store)
    }

    fn started(vault: Rc<FakeVault>, store: Rc<RefCell<Store<FaultyBlocks>>>) -> Self {
        let (local, hand) = (Local::default(), Rc::new(Cell::new(SECOND)));
        let clock = Clock::new(TimerClient::serve(&local, Rc::new(Hand(hand.clone()))).unwrap());
        let client = VaultClient::serve(&local, Rc::new(Served(vault.clone()))).unwrap();
        let space = LocalKeyspace::new(store.clone(), "broker", 1 << 20).unwrap();
        Self { vault, store, hand, volume: DataVolume::new(client, space, clock), tried: None }
    }

    /// The machine after a power cut; the plan is that of `setup.toml`.
    fn again(self, plan: Option<Result<Plan, String>>) -> Self {
        if self.vault.state.get() == VolumeState::Open {
            self.vault.state.set(VolumeState::Locked);
        }
        let machine = Self::started(self.vault, self.store);
        let tried = run(machine.volume.prepare(plan)).unwrap();
        Self { tried, ..machine }
    }

    /// A machine that ada has set up, after its session.
    fn of_ada() -> Self {
        let machine = Self::new(VolumeState::Blank).again(None);
        assert_eq!(run(machine.volume.set_up("ada", HORSE)).unwrap().unwrap(), CODE);
        machine.login("ada", "").unwrap();
        machine
    }

    fn login(&self, name: &str, passphrase: &str) -> Result<(String, Profile, u32), String> {
        let found = run(self.volume.identify(name, passphrase)).unwrap()?;
        Ok((found.user.name, found.user.profile, found.failed))
    }

    fn unlock(&self, name: &str, secret: &str, kind: KeyKind) -> Option<String> {
        run(self.volume.unlock(name, secret, kind)).unwrap().unwrap()
    }
}

fn error<T: core::fmt::Debug>(result: Option<Result<T, CallError>>) -> String {
    result.unwrap().unwrap_err().to_string()
}

fn ada() -> (String, Profile, u32) {
    ("ada".into(), Profile::Operator, 0)
}

#[test]
fn the_first_user_is_an_operator_and_needs_the_passphrase_from_the_second_login_on() {
    let machine = Machine::new(VolumeState::Blank).again(None);
    assert!(!run(machine.volume.has_users()).unwrap().unwrap());
    assert!(error(run(machine.volume.set_up("guest", HORSE))).contains("choose another name"));
    assert!(error(run(machine.volume.set_up("ada", "short"))).contains("at least 8 characters"));
    run(machine.volume.set_up("ada", HORSE)).unwrap().unwrap();
    assert!(run(machine.volume.has_users()).unwrap().unwrap());
    assert!(machine.login("bob", "").is_err(), "of her alone");
    assert_eq!(machine.login("ada", ""), Ok(ada()));
    assert!(machine.login("ada", "").unwrap_err().contains("no passphrase was entered"), "once");
    assert!(machine.login("", HORSE).is_err());
    assert_eq!(machine.login("ada", HORSE), Ok(ada()));
    assert_eq!(run(machine.volume.users()).unwrap().unwrap()[0].created_unix, 1);
}

#[test]
fn a_key_is_fresh_for_a_minute() {
    let machine = Machine::of_ada().again(None);
    assert_eq!(machine.login("ada", HORSE).unwrap_err(), "disk 2 is locked");
    assert_eq!(machine.unlock("ada", HORSE, KeyKind::Passphrase), None);
    machine.hand.set(machine.hand.get() + 60 * SECOND);
    assert!(machine.login("ada", "").is_err());
    let machine = machine.again(None);
    assert_eq!(machine.unlock("ada", HORSE, KeyKind::Passphrase), None);
    machine.hand.set(machine.hand.get() + 60 * SECOND - 1);
    assert!(machine.login("", "").is_err(), "the name is told");
    assert_eq!(machine.login("ada", ""), Ok(ada()));
}

#[test]
fn failed_attempts_are_told_at_the_next_login() {
    let machine = Machine::of_ada().again(None);
    assert_eq!(
        machine.unlock("ada", "guess", KeyKind::Passphrase).unwrap(),
        "it is wrong; 1 failed attempt since the last login"
    );
    let machine = machine.again(None);
    assert_eq!(
        machine.unlock("ada", "guess", KeyKind::Passphrase).unwrap(),
        "it is wrong; 2 failed attempts since the last login"
    );
    assert_eq!(machine.unlock("ada", HORSE, KeyKind::Passphrase), None);
    assert_eq!(machine.login("ada", "").unwrap().2, 2);
    // While it is open, too; and a step-up is an attempt.
    assert!(machine.login("ada", "guess").unwrap_err().contains("1 failed attempt since"));
    assert!(run(machine.volume.verify("ada", "guess")).unwrap().unwrap_err().contains("2 failed attempts since"));
    assert_eq!(machine.login("ada", HORSE).unwrap().2, 2);
    assert_eq!(machine.login("ada", HORSE).unwrap().2, 0);
}

#[test]
fn keyboards_that_compose_letters_differently_give_one_key() {
    let machine = Machine::new(VolumeState::Blank).again(None);
    run(machine.volume.set_up("ada", "cafe\u{301} au lait")).unwrap().unwrap();
    let machine = machine.again(None);
    assert_eq!(machine.unlock("ada", "caf\u{e9} au lait", KeyKind::Passphrase), None);
    assert_eq!(run(machine.volume.verify("ada", "cafe\u{301} au lait")).unwrap(), Ok(()));
}

#[test]
fn the_recovery_code_gives_one_new_passphrase() {
    let machine = Machine::of_ada().again(None);
    assert!(error(run(machine.volume.renew("ada", STAPLE))).contains("recovery code has not been entered"));
    assert!(machine.unlock("", "another", KeyKind::RecoveryCode).is_some());
    assert_eq!(machine.unlock("", CODE, KeyKind::RecoveryCode), None);
    assert!(machine.login("ada", "").is_err(), "the code is nobody's login");
    assert!(error(run(machine.volume.renew("ada", "short"))).contains("at least 8"));
    assert!(error(run(machine.volume.renew("eve", STAPLE))).contains("no user \"eve\""));
    machine.vault.broken.set(true);
    assert!(error(run(machine.volume.renew("ada", STAPLE))).contains("the disk failed"));
    machine.vault.broken.set(false);
    run(machine.volume.renew("ada", STAPLE)).unwrap().unwrap();
    assert!(error(run(machine.volume.renew("ada", HORSE))).contains("recovery code has not been entered"), "once");
    assert_eq!(machine.login("ada", "").unwrap(), ("ada".into(), Profile::Operator, 1));
    assert!(machine.login("ada", HORSE).is_err());
    assert!(machine.login("ada", STAPLE).is_ok());
}

#[test]
fn a_passphrase_is_changed_by_whoever_knows_it() {
    let machine = Machine::of_ada();
    let change = |current, new| run(machine.volume.change_passphrase("ada", current, new)).unwrap();
    assert!(change("guess", STAPLE).unwrap().unwrap().contains("it is wrong"));
    assert!(change(HORSE, "short").unwrap_err().to_string().contains("at least 8"));
    assert_eq!(change(HORSE, STAPLE).unwrap(), None);
    assert!(machine.login("ada", HORSE).is_err() && machine.login("ada", STAPLE).is_ok());
    assert!(change(STAPLE, STAPLE).unwrap().unwrap().contains("your passphrase already"));
}

#[test]
fn a_guest_who_restores_a_backup_becomes_an_operator() {
    let machine = Machine::of_ada();
    run(machine.volume.add_user("bob", Profile::Guest, "", HORSE)).unwrap().unwrap();
    assert_eq!(machine.login("bob", HORSE).unwrap().1, Profile::Guest);
    // The new volume has the users of the backup, and the key of the one who restored it.
    machine.vault.keys.borrow_mut().remove("ada");
    assert_eq!(machine.login("bob", HORSE).unwrap().1, Profile::Operator);
    assert!(run(machine.volume.is_operator("bob")).unwrap().unwrap());
    assert!(run(machine.volume.is_operator("ada")).unwrap().unwrap());
}

#[test]
fn users_are_added_changed_and_removed() {
    let machine = Machine::of_ada();
    let volume = &machine.volume;
    run(volume.add_user("bob", Profile::Guest, "", HORSE)).unwrap().unwrap();
    assert!(error(run(volume.add_user("bob", Profile::Guest, "", HORSE))).contains("a user \"bob\" already"));
    assert!(error(run(volume.add_user("forgot", Profile::Guest, "", HORSE))).contains("choose another"));
    assert!(error(run(volume.add_user("eve", Profile::Anonymous, "", HORSE))).contains("operator or guest"));
    assert_eq!(machine.login("bob", HORSE).unwrap().1, Profile::Guest);
    assert!(!run(volume.is_operator("bob")).unwrap().unwrap());
    assert!(error(run(volume.remove_user("ada"))).contains("last operator"));
    assert!(error(run(volume.remove_user("nobody"))).contains("no user \"nobody\""));
    assert!(error(run(volume.set_profile("ada", Profile::Guest))).contains("last operator"));
    assert!(error(run(volume.add_user("eve", Profile::Guest, "much", HORSE))).contains("\"much\" is no quota"));
    assert!(error(run(volume.set_quota("eve", "5MiB"))).contains("no user \"eve\""));
    let quota = || run(volume.users()).unwrap().unwrap().iter().find(|user| user.name == "bob").unwrap().quota.clone();
    run(volume.set_quota("bob", "2048KiB")).unwrap().unwrap();
    run(volume.set_profile("bob", Profile::Operator)).unwrap().unwrap();
    assert_eq!(quota(), "2MiB");
    run(volume.set_quota("bob", "default")).unwrap().unwrap();
    assert_eq!(quota(), "");
    run(volume.reset_passphrase("bob", STAPLE)).unwrap().unwrap();
    assert_eq!(machine.login("bob", STAPLE).unwrap().1, Profile::Operator);
    run(volume.remove_user("ada")).unwrap().unwrap();
    assert!(machine.login("ada", HORSE).is_err() && !machine.vault.keys.borrow().contains_key("ada"));
    assert!(error(run(volume.reset_passphrase("ada", STAPLE))).contains("no user \"ada\""));
    // A user whom the volume has no key for is not left behind.
    machine.vault.broken.set(true);
    assert!(error(run(volume.add_user("eve", Profile::Guest, "", HORSE))).contains("the disk failed"));
    assert_eq!(run(volume.users()).unwrap().unwrap().len(), 1);
    // One of whom a power cut left no key is removed all the same.
    machine.vault.keys.borrow_mut().remove("bob");
    machine.vault.broken.set(false);
    run(volume.add_user("eve", Profile::Operator, "", HORSE)).unwrap().unwrap();
    run(volume.remove_user("bob")).unwrap().unwrap();
    assert_eq!(run(volume.users()).unwrap().unwrap()[0].name, "eve");
}

#[test]
fn a_power_cut_in_the_middle_of_a_set_up_leaves_an_operator() {
    let machine = Machine::new(VolumeState::Locked);
    machine.vault.keys.borrow_mut().insert("ada".into(), (KeyKind::Passphrase, HORSE.into()));
    let machine = machine.again(None);
    assert_eq!(machine.unlock("ada", HORSE, KeyKind::Passphrase), None);
    assert_eq!(machine.login("ada", ""), Ok(ada()));
    // Later keys without a user are of nobody.
    machine.vault.keys.borrow_mut().insert("eve".into(), (KeyKind::Passphrase, HORSE.into()));
    assert!(machine.login("eve", HORSE).unwrap_err().contains("is not a user"));
}

fn plan(text: &str, secret: &str) -> Option<Result<Plan, String>> {
    Some(Plan::new(Unattended::read(text).unwrap(), Some(secret.into())))
}

#[test]
fn an_unattended_machine_is_set_up_without_a_question() {
    let text = "name = 'kiosk'\npassphrase = 'correct horse'\nprofile = 'guest'";
    let machine = Machine::new(VolumeState::Blank);
    machine.vault.searching.set(3);
    let machine = machine.again(plan(text, HORSE));
    assert_eq!(run(machine.volume.info()).unwrap().unwrap().state, VolumeState::Open);
    machine.hand.set(machine.hand.get() + 1_000_000 * SECOND);
    assert_eq!(machine.login("", "").unwrap(), ("kiosk".into(), Profile::Guest, 0));
    assert!(machine.login("", "").is_err(), "once");
    // A passphrase in the file opens nothing afterwards.
    let machine = machine.again(plan(text, HORSE));
    assert_eq!(machine.vault.state.get(), VolumeState::Locked);
}

#[test]
fn a_key_file_opens_the_volume_at_every_start() {
    let mut machine = Machine::new(VolumeState::Blank).again(plan(SITE, KEY_FILE));
    // It made the volume, and opened none.
    assert_eq!(machine.tried, None);
    for _ in 0..2 {
        assert_eq!(machine.login("", "").unwrap().0, "site");
        machine = machine.again(plan(SITE, KEY_FILE));
        assert_eq!(machine.tried, Some(("site".into(), None)));
    }
    let machine = machine.again(plan(SITE, "another key file, which is wrong here"));
    let (name, why) = machine.tried.clone().unwrap();
    assert!(name == "site" && why.is_some_and(|why| why.starts_with("it is wrong")));
    let info = run(machine.volume.info()).unwrap().unwrap();
    assert_eq!(info.state, VolumeState::Locked);
    assert!(info.details.starts_with("it is wrong; 1 failed attempt"), "{}", info.details);
    assert!(machine.login("", "").is_err());
    // The operator of a site without a passphrase sets the first one, and not a second one without the first.
    assert_eq!(machine.unlock("site", KEY_FILE, KeyKind::KeyFile), None);
    assert!(
        run(machine.volume.verify("site", HORSE)).unwrap().unwrap_err().contains("no passphrase is set for \"site\"")
    );
    assert_eq!(run(machine.volume.change_passphrase("site", "", HORSE)).unwrap().unwrap(), None);
    assert!(machine.login("site", HORSE).is_ok());
    assert!(run(machine.volume.change_passphrase("site", "", STAPLE)).unwrap().unwrap().is_some());
}

#[test]
fn a_wrong_setup_file_is_told_and_the_dialog_follows() {
    for (plan, words) in [
        (Some(Err("etc/setup.toml: line 3: name: it has 0".to_owned())), "etc/setup.toml: line 3"),
        (Some(Plan::new(Unattended::read(SITE).unwrap(), None)), "key_file: there is no etc/key on the medium"),
        (plan(SITE, "too short"), "etc/key: a key file has 32 to 1024 bytes of text, and this one has 9"),
    ] {
        let machine = Machine::new(VolumeState::Blank).again(plan);
        let info = run(machine.volume.info()).unwrap().unwrap();
        assert_eq!(info.state, VolumeState::Blank);
        assert!(info.details.starts_with(words) && info.details.ends_with("; disk 2 is blank"), "{}", info.details);
    }
    // Nobody is asked before the file has been read.
    let machine = Machine::new(VolumeState::Blank);
    assert_eq!(run(machine.volume.info()).unwrap().unwrap().state, VolumeState::Searching);
}

#[test]
fn a_declined_disk_is_as_none() {
    let machine = Machine::new(VolumeState::Blank).again(None);
    run(machine.volume.decline()).unwrap().unwrap();
    assert!(!run(machine.volume.has_users()).unwrap().unwrap());
    assert_eq!(run(machine.volume.info()).unwrap().unwrap().state, VolumeState::Declined);
    // Until somebody sets it up all the same.
    run(machine.volume.set_up("ada", HORSE)).unwrap().unwrap();
    assert!(run(machine.volume.has_users()).unwrap().unwrap());
    assert_eq!(machine.login("ada", "").unwrap().0, "ada");
}

#[test]
fn who_has_unlocked_an_older_disk_logs_in_after_the_migration() {
    let machine = Machine::of_ada().again(None);
    machine.vault.holds.set(VolumeState::Older);
    assert_eq!(run(machine.volume.unlock("ada", HORSE, KeyKind::Passphrase)).unwrap(), Ok(None));
    // Until then it has users and nobody logs in, whatever profile is asked for.
    assert_eq!(run(machine.volume.has_users()).unwrap(), Ok(true));
    assert!(machine.login("ada", HORSE).unwrap_err().contains("disk 2 is older"));
    assert!(run(machine.volume.confirm(VolumeState::OtherVersion)).unwrap().is_err());
    machine.hand.set(machine.hand.get() + 30 * SECOND);
    run(machine.volume.confirm(VolumeState::Older)).unwrap().unwrap();
    // Migration takes its time.
    machine.hand.set(machine.hand.get() + 50 * SECOND);
    assert_eq!(machine.login("ada", "").unwrap().0, "ada");
    // Somebody else may have come to the console meanwhile.
    let machine = Machine::of_ada().again(None);
    machine.vault.holds.set(VolumeState::Older);
    assert_eq!(run(machine.volume.unlock("ada", HORSE, KeyKind::Passphrase)).unwrap(), Ok(None));
    machine.hand.set(machine.hand.get() + 100 * SECOND);
    run(machine.volume.confirm(VolumeState::Older)).unwrap().unwrap();
    assert!(machine.login("ada", "").is_err());
}

#[test]
fn setup_toml_says_whether_an_older_disk_is_migrated() {
    for (migrate, state) in [("", VolumeState::Older), ("\nmigrate = true", VolumeState::Open)] {
        let plan = || Some(Plan::new(Unattended::read(&format!("{SITE}{migrate}")).unwrap(), Some(KEY_FILE.into())));
        let machine = Machine::new(VolumeState::Blank).again(plan());
        machine.vault.holds.set(VolumeState::Older);
        let machine = machine.again(plan());
        assert_eq!(machine.vault.state.get(), state);
        if state == VolumeState::Older {
            // The person at the console says so.
            run(machine.volume.confirm(VolumeState::Older)).unwrap().unwrap();
        }
        assert_eq!(machine.login("", "").unwrap().0, "site");
    }
}
