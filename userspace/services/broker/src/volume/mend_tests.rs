//! A store that fails at the wrong moment, and one with a damaged block.

use core::sync::atomic::Ordering;

use capos_budget::{Amounts, Dimension, Estimate, Plan};
use capos_keyspace::{Batch, Durability, Range};

use crate::budgets::{Budgets, Moment, Opening, Starting};

use super::*;

impl Machine {
    fn disk<T>(&self, look: impl FnOnce(&FaultyBlocks) -> T) -> T {
        self.store.borrow().with_blocks(look)
    }

    fn fail(&self, fails: bool) {
        self.disk(|disk| disk.fails.store(fails, Ordering::Relaxed));
    }

    /// The machine with a disk that is as this one's is now, and of which a block is damaged.
    fn damaged(&self, block: u64) -> Option<Self> {
        let blocks = self.disk(|disk| disk.blocks.after_crash());
        let disk = FaultyBlocks::new(blocks, block);
        let vault = Rc::new(FakeVault { keys: self.vault.keys.clone(), ..FakeVault::default() });
        vault.state.set(VolumeState::Open);
        let store = Rc::new(RefCell::new(Store::open(disk).ok()?));
        let machine = Self::started(vault, store);
        run(machine.volume.prepare(None)).unwrap();
        Some(machine)
    }

    /// Begins so many runs of ada's, none of which has come to its end.
    fn run_and_pause(&self, runs: u64) {
        let (budgets, store) = self.budgets();
        let opening = Opening {
            id: "s1",
            principal: "ada",
            profile: Profile::Operator,
            plan: Plan::default(),
            principal_tokens: 9,
        };
        budgets.borrow_mut().open_session(&opening, Moment::default()).unwrap();
        for number in 0..runs {
            let name = format!("{}-{number}", "c".repeat(40));
            let used = Amounts::of(Dimension::Steps, 3);
            let starting = Starting { name: &name, plan: Plan::default(), estimate: Estimate::default(), used };
            budgets.borrow_mut().begin_run("s1", &starting, Moment::default()).unwrap();
        }
        run(store.keep(&budgets, Durability::Now)).unwrap().unwrap();
    }

    /// The budgets as a login reads them.
    fn budgets(&self) -> (RefCell<Budgets>, crate::budgets::Store<Space>) {
        let (budgets, store) = (RefCell::default(), crate::budgets::Store::new(Some(self.volume.space.clone())));
        assert_eq!(run(store.load(&budgets)).unwrap(), Ok(0));
        (budgets, store)
    }

    /// Nothing is left of the tables, as if no block of them could be read. Returns what the login says.
    fn lose_all(&self) -> String {
        run(self.volume.space.set_aside()).unwrap().unwrap();
        run(self.volume.space.set_aside()).unwrap().unwrap();
        run(self.volume.mend()).unwrap().unwrap().unwrap()
    }

    /// A user gets another passphrase by the recovery code at a start, and logs in.
    fn recover(&self, name: &str) {
        self.vault.state.set(VolumeState::Locked);
        assert_eq!(self.unlock("", CODE, KeyKind::RecoveryCode), None);
        run(self.volume.renew(name, STAPLE)).unwrap().unwrap();
        self.login(name, "").unwrap();
    }

    /// Rows of a table.
    fn rows(&self, table: &str) -> usize {
        run(self.volume.space.range(Range::all(table))).unwrap().unwrap().entries.len()
    }

    fn profiles(&self) -> Vec<(String, Profile)> {
        let users = run(self.volume.users()).unwrap().unwrap();
        users.into_iter().map(|user| (user.name, user.profile)).collect()
    }
}

/// The volume is there once its keys are: a store that does not take the first user hides no recovery code.
#[test]
fn a_set_up_whose_user_is_not_written_tells_the_code_and_goes_on() {
    let machine = Machine::new(VolumeState::Blank).again(None);
    machine.fail(true);
    assert_eq!(run(machine.volume.set_up("ada", HORSE)).unwrap().unwrap(), CODE);
    let why = machine.login("ada", "").unwrap_err();
    assert!(why.contains("the disk cannot be written") && why.contains("log in again"), "{why}");
    // It needs no passphrase still, as a login that follows a set-up.
    machine.fail(false);
    assert_eq!(machine.login("ada", ""), Ok(ada()));
    assert_eq!(machine.profiles(), [("ada".into(), Profile::Operator)]);
    // After a power cut before the user is written, too.
    let machine = Machine::new(VolumeState::Blank).again(None);
    machine.fail(true);
    run(machine.volume.set_up("ada", HORSE)).unwrap().unwrap();
    machine.fail(false);
    let machine = machine.again(None);
    assert_eq!(machine.unlock("ada", HORSE, KeyKind::Passphrase), None);
    assert_eq!(machine.login("ada", ""), Ok(ada()));
}

/// The profile that `setup.toml` gives is the user's also if the power was cut before the user was written.
#[test]
fn an_unattended_guest_is_no_operator_after_a_power_cut() {
    let text = "name = 'site'\nkey_file = '/etc/key'\nprofile = 'guest'";
    let machine = Machine::new(VolumeState::Blank);
    machine.fail(true);
    let machine = machine.again(plan(text, KEY_FILE));
    assert_eq!(machine.vault.state.get(), VolumeState::Open);
    machine.fail(false);
    let machine = machine.again(plan(text, KEY_FILE));
    assert_eq!(machine.login("", "").unwrap(), ("site".into(), Profile::Guest, 0));
    assert_eq!(machine.profiles(), [("site".into(), Profile::Guest)]);
}

/// A user is written before the key is made. If the power is cut between the two, the same command finishes it.
#[test]
fn a_user_whose_key_a_power_cut_has_left_out_is_added_again() {
    let machine = Machine::of_ada();
    let volume = &machine.volume;
    run(volume.add_user("bob", Profile::Operator, "5MiB", HORSE)).unwrap().unwrap();
    machine.vault.keys.borrow_mut().remove("bob");
    assert!(machine.login("bob", HORSE).is_err());
    run(volume.add_user("bob", Profile::Guest, "", STAPLE)).unwrap().unwrap();
    assert_eq!(machine.login("bob", STAPLE).unwrap(), ("bob".into(), Profile::Guest, 0));
    assert!(error(run(volume.add_user("bob", Profile::Guest, "", HORSE))).contains("a user \"bob\" already"));
    assert_eq!(machine.profiles().len(), 2);
}

/// Whichever block is damaged, if the store opens, a person with a key logs in, and what is lost is named. No guest becomes an
/// operator by it; if none is left, the recovery code makes one.
#[test]
fn users_log_in_whichever_block_is_damaged() {
    let machine = Machine::of_ada();
    for (name, profile) in [("bob", Profile::Guest), ("eve", Profile::Operator)] {
        run(machine.volume.add_user(name, profile, "5MiB", HORSE)).unwrap().unwrap();
    }
    run(machine.volume.set("session.lock_minutes", "5")).unwrap().unwrap();
    // What others keep, and many settings, so that the tables are on several blocks.
    let files = LocalKeyspace::new(machine.store.clone(), "files", 1 << 20).unwrap();
    for number in 0..160_u64 {
        let name = format!("limits.{}{number:03}", "n".repeat(30));
        run(machine.volume.set(&name, &number.to_string())).unwrap().unwrap();
        let mut batch = Batch::new();
        batch.put("t", &number.to_be_bytes(), &[7; 500]);
        run(files.commit(&batch, Durability::Now)).unwrap().unwrap();
    }
    machine.run_and_pause(60);
    let (before, runs) = (machine.profiles(), machine.rows("budget.runs"));
    let settings = run(machine.volume.settings()).unwrap().unwrap().len();
    let (mut some_settings, mut no_settings) = (0, 0);
    let (mut lost_runs, mut kept_runs, mut recovered) = (0, 0, 0);
    let (mut mended, mut lost_users, mut closed) = (0, 0, 0);
    for block in 0..200 {
        let Some(damaged) = machine.damaged(block) else {
            closed += 1;
            continue;
        };
        let told = match run(damaged.volume.mend()).unwrap() {
            Ok(told) => told,
            Err(error) => {
                assert!(error.to_string().contains(&format!("block {block} does not hold")), "{error}");
                closed += 1;
                continue;
            }
        };
        let after = damaged.profiles();
        if let Some(told) = &told {
            mended += 1;
            assert!(
                told.contains(&format!("block {block} does not hold")) && told.contains("lost are, in part or all: "),
                "{told}"
            );
            lost_users += u64::from(after != before);
        } else {
            assert_eq!(after, before, "{block}");
        }
        // Each user is what they were, or a guest.
        let has_operator = after.iter().any(|(_, profile)| *profile == Profile::Operator);
        let told = told.unwrap_or_default();
        assert_eq!(told.contains("enter `forgot` at the login"), !has_operator, "{block}: {told}");
        assert_eq!(after.len(), 3, "{block}");
        for ((name, profile), (known, was)) in after.iter().zip(&before) {
            assert_eq!(name, known);
            assert!(profile == was || *profile == Profile::Guest, "block {block}: {name}");
        }
        for name in ["ada", "bob", "eve"] {
            damaged.login(name, HORSE).unwrap_or_else(|why| panic!("block {block}, {name}: {why}"));
        }
        assert_eq!(damaged.profiles(), after, "a login changes nothing");
        // Of the settings those are lost that are in the block; all of them with a node above.
        let kept = run(damaged.volume.settings()).unwrap().unwrap().len();
        some_settings += u64::from(0 < kept && kept < settings);
        no_settings += u64::from(kept == 0);
        damaged.budgets();
        // A block of one table costs the others nothing.
        let what_is_left = damaged.rows("budget.runs");
        lost_runs += u64::from(what_is_left < runs);
        kept_runs += u64::from(!told.is_empty() && what_is_left == runs);
        assert_eq!(run(damaged.volume.mend()).unwrap().unwrap(), None, "once");
        // And it lasts.
        let image = damaged.disk(Clone::clone);
        let again = Machine::started(damaged.vault.clone(), Rc::new(RefCell::new(Store::open(image).unwrap())));
        run(again.volume.prepare(None)).unwrap();
        assert_eq!((run(again.volume.mend()).unwrap().unwrap(), again.profiles()), (None, after));
        if !has_operator {
            recovered += 1;
            again.recover("eve");
            let profiles = [Profile::Guest, Profile::Guest, Profile::Operator];
            assert_eq!(again.profiles().into_iter().map(|(_, profile)| profile).collect::<Vec<_>>(), profiles);
        }
    }
    println!("{some_settings} blocks cost some of the {settings} settings, {no_settings} all of them");
    assert!(recovered >= 1 && some_settings >= 2 && no_settings <= 2, "{recovered} {some_settings} {no_settings}");
    println!(
        "{mended} blocks let the tables start over, {lost_users} of them with other users; {closed} close the store"
    );
    assert!(lost_runs >= 1 && kept_runs >= 1, "{lost_runs} {kept_runs}");
    assert!(mended >= 2 && lost_users >= 1 && closed < 20, "{mended} {lost_users} {closed}");
}

/// The power is cut after the tables were set aside, before what was read of them is written.
#[test]
fn a_power_cut_while_the_tables_start_over_makes_nobody_an_operator() {
    let machine = Machine::of_ada();
    run(machine.volume.add_user("bob", Profile::Guest, "", HORSE)).unwrap().unwrap();
    run(machine.volume.space.set_aside()).unwrap().unwrap();
    assert!(machine.profiles().is_empty());
    run(machine.volume.mend()).unwrap().unwrap().unwrap();
    assert_eq!(machine.profiles(), [("ada".into(), Profile::Operator), ("bob".into(), Profile::Guest)]);
}

/// Of several users with keys of whom nothing is left, none manages the machine but the one who has the recovery code.
#[test]
fn users_of_whom_nothing_is_left_are_guests_until_the_recovery_code() {
    let machine = Machine::of_ada();
    run(machine.volume.add_user("bob", Profile::Guest, "", HORSE)).unwrap().unwrap();
    let told = machine.lose_all();
    assert!(told.contains("enter `forgot` at the login"), "{told}");
    assert_eq!(machine.profiles(), [("ada".into(), Profile::Guest), ("bob".into(), Profile::Guest)]);
    assert_eq!(machine.login("bob", HORSE).unwrap().1, Profile::Guest);
    assert_eq!(machine.login("ada", HORSE).unwrap().1, Profile::Guest);
    // Whoever has the recovery code manages the machine, and nobody else does then.
    machine.recover("ada");
    assert_eq!(machine.profiles(), [("ada".into(), Profile::Operator), ("bob".into(), Profile::Guest)]);
    machine.recover("bob");
    assert_eq!(machine.login("bob", STAPLE).unwrap().1, Profile::Guest);
}

/// Somebody with the only key is what the set-up made them: an operator, or the guest of `setup.toml`.
#[test]
fn the_only_user_is_what_the_set_up_says_after_damage() {
    let machine = Machine::of_ada();
    machine.lose_all();
    assert_eq!(machine.profiles(), [("ada".into(), Profile::Operator)]);
    let text = "name = 'site'\nkey_file = '/etc/key'\nprofile = 'guest'";
    let machine = Machine::new(VolumeState::Blank).again(plan(text, KEY_FILE));
    machine.lose_all();
    assert_eq!(machine.login("", "").unwrap().1, Profile::Guest);
    assert_eq!(machine.profiles(), [("site".into(), Profile::Guest)]);
}

/// A user without a key, whom a power cut has left behind, cannot manage the machine. The first login makes no other operator for
/// it, and the last operator with a key stays one.
#[test]
fn an_operator_without_a_key_lets_nobody_become_one() {
    let machine = Machine::of_ada();
    for (name, profile) in [("bob", Profile::Guest), ("zed", Profile::Operator)] {
        run(machine.volume.add_user(name, profile, "", HORSE)).unwrap().unwrap();
    }
    machine.vault.keys.borrow_mut().remove("zed");
    assert!(error(run(machine.volume.set_profile("ada", Profile::Guest))).contains("ada is the last operator"));
    let ada = UserInfo { name: "ada".into(), profile: Profile::Guest, ..UserInfo::default() };
    run(users::put(&machine.volume.space, &ada)).unwrap().unwrap();
    assert_eq!(machine.login("bob", HORSE).unwrap().1, Profile::Guest);
    machine.recover("ada");
    assert_eq!(machine.login("ada", STAPLE).unwrap().1, Profile::Operator);
}
