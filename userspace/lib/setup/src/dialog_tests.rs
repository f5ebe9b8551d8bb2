//! The dialog's table: each row is an event, what comes next, and a part of what is shown.

use capos_schema::store::KeyInfo;
use proptest::prelude::*;

use super::*;

#[path = "dialog_login_tests.rs"]
mod login;

const NOW: u64 = 1_780_000_000_000;
const CODE: &str = "ABCDE-FGHJK";
const ALL: [Profile; 3] = [Profile::Operator, Profile::Guest, Profile::Anonymous];

/// What is put into the dialog.
#[derive(Clone, Copy, Debug)]
enum In {
    At(VolumeState),
    /// The store in the volume is of a newer version.
    Newer,
    Line(&'static str),
    Stop,
    Done,
    Fail(&'static str),
    Ended,
    Silent,
}
use In::{At, Done, Ended, Fail, Line, Newer, Silent, Stop};
use VolumeState::{Blank, Damaged, Foreign, Locked, None as Diskless, Older, Open, OtherVersion, Searching, Several};

/// A machine.
struct Machine {
    keys: &'static [(KeyKind, &'static str)],
    initial: Profile,
    now: u64,
    failed: u32,
    /// The transfer volumes with backups.
    backups: &'static [&'static str],
}

const ADA: Machine = Machine {
    keys: &[(KeyKind::Passphrase, "ada"), (KeyKind::RecoveryCode, "")],
    initial: Profile::Operator,
    now: NOW,
    failed: 0,
    backups: &[],
};
const TWO: Machine =
    Machine { keys: &[(KeyKind::Passphrase, "ada"), (KeyKind::Passphrase, "bob"), (KeyKind::RecoveryCode, "")], ..ADA };

impl Machine {
    fn volume(&self, state: VolumeState) -> VolumeInfo {
        let keys =
            self.keys.iter().zip(0..).map(|((kind, name), slot)| KeyInfo { slot, kind: *kind, name: (*name).into() });
        let details = match state {
            Diskless => "no disk is attached that can be written; nothing is kept when the machine is turned off",
            Foreign => "virtio disk 2 holds a FAT volume and is left alone; nothing is kept",
            OtherVersion => "the data volume on virtio disk 2 has format 9; start the capOS that made it",
            Damaged => "the data volume on virtio disk 2 cannot be opened: no header is whole",
            Several => "there are 2 data volumes, on a and b; leave one of these disks attached",
            Older => "the data volume on virtio disk 2 was written by an older version of capOS",
            Locked => "the data volume on virtio disk 2 is locked; a key opens it",
            _ => "virtio disk 2 is blank",
        };
        VolumeInfo {
            state,
            disk: "virtio disk 2".into(),
            details: details.into(),
            plan: if state == Older { Vec::from(["It is changed.".to_owned()]) } else { Vec::new() },
            keys: if matches!(state, Locked | Open | Older) { keys.collect() } else { Vec::new() },
            failed_attempts: self.failed,
            ..VolumeInfo::default()
        }
    }

    fn put(&self, dialog: &mut Dialog, event: In) -> Step {
        match event {
            Newer => {
                let newer = VolumeInfo {
                    keys: self.volume(Open).keys,
                    plan: Vec::from(["You can read.".to_owned()]),
                    ..self.volume(OtherVersion)
                };
                let (profiles, initial, now) = (&ALL, self.initial, self.now);
                dialog.next(Event::Facts(Facts { volume: &newer, profiles, initial, backups: &[], now }))
            }
            At(state) => {
                let volume = self.volume(state);
                let backups: Vec<FoundBackup> = self
                    .backups
                    .iter()
                    .map(|volume| FoundBackup { volume: (*volume).into(), folder: "backup-0a".into(), time: NOW })
                    .collect();
                dialog.next(Event::Facts(Facts {
                    volume: &volume,
                    profiles: &ALL,
                    initial: self.initial,
                    backups: &backups,
                    now: self.now,
                }))
            }
            Line(line) => dialog.next(Event::Line(line)),
            Stop => dialog.next(Event::Interrupted),
            Done => dialog.next(Event::Done(CODE)),
            Fail(why) => dialog.next(Event::Failed(why)),
            Ended => dialog.next(Event::Ended),
            Silent => dialog.next(Event::Silent("it restarts")),
        }
    }

    /// Puts the rows into a dialog.
    fn run(&self, rows: &[(In, &str, &str)]) {
        let mut dialog = Dialog::default();
        for (number, (event, next, shown)) in rows.iter().enumerate() {
            let step = self.put(&mut dialog, *event);
            assert_eq!(text(&step.next), *next, "row {number}");
            let says: Vec<&str> = step.says.iter().map(|(_, text)| text.as_str()).collect();
            let says = says.join("\n");
            assert!(says.contains(shown), "row {number}: {says}");
            assert!(!shown.is_empty() || says.is_empty(), "row {number} says: {says}");
        }
    }
}

fn text(next: &Next) -> String {
    match next {
        Next::Look => "look".into(),
        Next::Wait => "wait".into(),
        Next::Ask { prompt, secret: false, .. } => format!("ask {prompt}"),
        Next::Ask { prompt, secret: true, .. } => format!("secret {prompt}"),
        Next::Call(Call::SetUp { name, passphrase }) => format!("set up {name}, {passphrase}"),
        Next::Call(Call::SetClock(time)) => format!("clock {time}"),
        Next::Call(Call::Decline) => "decline".into(),
        Next::Call(Call::Confirm(state)) => format!("confirm {}", state.name()),
        Next::Call(Call::Unlock { name, secret, kind }) => format!("unlock {name}, {secret}, {}", kind.name()),
        Next::Call(Call::Renew { name, passphrase }) => format!("renew {name}, {passphrase}"),
        Next::Call(Call::Restore { backup, name, secret, kind, passphrase }) => {
            format!("restore {} {name}, {secret}, {}, {passphrase}", backup.volume, kind.name())
        }
        Next::Login { profile, name, passphrase } => format!("login {} {name} {passphrase}", profile.name()),
    }
}

const NAME: &str = "ask Your name (Enter: not now, and nothing is kept): ";
const FIRST: &str = "secret Passphrase, at least 8 characters (Ctrl-C: not now): ";
const SAME: &str = "secret The same passphrase again: ";
const OF_ADA: &str = "secret Passphrase of ada (Enter: log in otherwise): ";
const OF_BOB: &str = "secret Passphrase of bob (Enter: log in otherwise): ";
const LOCKED: &str = "ask login as ada, guest, anonymous, or `forgot` to use the recovery code (Enter: ada): ";
const OPEN: &str = "ask login as ada, guest, anonymous (Enter: ada): ";
const ASK_CODE: &str = "secret Recovery code, of 8 groups of 5 letters (Enter: back): ";
const NEW_ADA: &str = "secret New passphrase of ada, at least 8 characters: ";
const PLAIN: &str = "ask login as operator, guest, anonymous (Enter: operator): ";

const WHOSE: &str = "ask Your name in the backup (Enter: back): ";
const KEY_OF_ADA: &str = "secret Passphrase of ada in the backup (Enter: use the recovery code): ";

#[test]
fn a_backup_is_restored_onto_a_blank_disk() {
    let one = Machine { backups: &["STICK"], ..ADA };
    let offer = "There is a backup: backup-0a of STICK, from 2026-05-28 20:26:40 UTC. Enter `restore` to restore it.";
    one.run(&[
        (At(Blank), NAME, offer),
        (Line("restore"), WHOSE, ""),
        (Line("guest"), WHOSE, "`guest` has a meaning"),
        (Line("ada"), KEY_OF_ADA, ""),
        (Line("wrong"), "restore STICK ada, wrong, passphrase, ", "is being restored onto virtio disk 2"),
        // The disk is looked at again first.
        (Fail("the backup has no user `ada` with this passphrase"), "look", ""),
        (At(Blank), KEY_OF_ADA, "no user `ada`"),
        (Line("correct horse"), "restore STICK ada, correct horse, passphrase, ", "is being restored"),
        (Done, "look", "ABCDE-FGHJK"),
        (At(Open), "login operator ada ", ""),
    ]);
    // With the recovery code of the machine that made it, and a new passphrase.
    let two = Machine { backups: &["STICK", "OTHER"], ..ADA };
    let which = "ask Which backup (1 to 2, Enter: back): ";
    let code = "secret Recovery code of the backup, of 8 groups of 5 letters (Enter: back): ";
    two.run(&[
        (At(Blank), NAME, "There are 2 backups. Enter `restore` to restore one."),
        (Line("restore"), which, "  2  backup-0a of OTHER"),
        (Line("3"), which, "enter the number of a backup"),
        (Line("2"), WHOSE, ""),
        (Line("ada"), KEY_OF_ADA, ""),
        (Line(""), code, ""),
        (Line(CODE), NEW_ADA, ""),
        (Line("short"), NEW_ADA, "at least 8 characters"),
        (Line("battery staple"), SAME, ""),
        (Line("battery stable"), NEW_ADA, "two different passphrases"),
        (Line("battery staple"), SAME, ""),
        (Line("battery staple"), "restore OTHER ada, ABCDE-FGHJK, recoveryCode, battery staple", "of OTHER"),
        (Done, "look", "ABCDE-FGHJK"),
        (At(Open), "login operator ada ", ""),
    ]);
    // Whatever the disk is by then.
    one.run(&[
        (At(Blank), NAME, offer),
        (Line("restore"), WHOSE, ""),
        (Line("ada"), KEY_OF_ADA, ""),
        (Line("correct horse"), "restore STICK ada, correct horse, passphrase, ", "is being restored"),
        (Fail("the disk failed"), "look", ""),
        (At(Damaged), "ask login as operator, guest, anonymous (Enter: operator): ", "no header is whole"),
    ]);
    // Nobody is kept there.
    for steps in 1..6 {
        let lines = ["restore", "1", "ada", "", CODE];
        let mut dialog = Dialog::default();
        two.put(&mut dialog, At(Blank));
        for line in lines.iter().take(steps) {
            two.put(&mut dialog, Line(line));
        }
        assert_eq!(text(&two.put(&mut dialog, Stop).next), NAME);
    }
    // Without a backup it is no word.
    ADA.run(&[(At(Blank), NAME, "blank"), (Line("restore"), NAME, "`restore` has a meaning at the login")]);
}

#[test]
fn a_machine_without_a_usable_disk_says_so_and_goes_on() {
    for (state, shown) in [
        (Diskless, "No disk is attached that can be written; nothing is kept when the machine is turned off."),
        (Foreign, "Virtio disk 2 holds a FAT volume and is left alone; nothing is kept."),
        (OtherVersion, "The data volume on virtio disk 2 has format 9; start the capOS that made it."),
        (Damaged, "cannot be opened: no header is whole."),
        (Several, "There are 2 data volumes, on a and b; leave one of these disks attached."),
    ] {
        ADA.run(&[
            (At(Searching), "wait", ""),
            (At(state), "login operator operator ", shown),
            (Ended, "look", ""),
            (At(state), PLAIN, ""),
        ]);
    }
}

#[test]
fn without_a_volume_the_login_is_by_profile() {
    let guest = Machine { initial: Profile::Guest, ..ADA };
    guest.run(&[
        (At(Diskless), "login guest guest ", "nothing is kept"),
        (Ended, "look", ""),
        (At(Diskless), "ask login as operator, guest, anonymous (Enter: guest): ", ""),
        (Line("operator"), "secret passphrase (Enter: log in otherwise): ", ""),
        (Line(""), "ask login as operator, guest, anonymous (Enter: guest): ", "no passphrase was entered"),
        (Line("operator"), "secret passphrase (Enter: log in otherwise): ", ""),
        (Line("word"), "login operator operator word", ""),
        // What a person types then is the passphrase again, and no name that is shown.
        (
            Fail("the passphrase is wrong"),
            "secret passphrase (Enter: log in otherwise): ",
            "login rejected: the passphrase is wrong",
        ),
        (Line("words"), "login operator operator words", ""),
        (Fail("the passphrase is wrong"), "secret passphrase (Enter: log in otherwise): ", "login rejected"),
        (Line(""), "ask login as operator, guest, anonymous (Enter: guest): ", "no passphrase was entered"),
        (Line("root"), "ask login as operator, guest, anonymous (Enter: guest): ", "there is no profile of this name"),
        (Stop, "ask login as operator, guest, anonymous (Enter: guest): ", ""),
        (Line(" anonymous "), "login anonymous anonymous ", ""),
    ]);
    ADA.run(&[
        (At(Diskless), "login operator operator ", "nothing is kept"),
        (Fail("16 sessions are open"), "look", "login rejected: 16 sessions are open"),
        (At(Diskless), PLAIN, ""),
        (Line(""), "login operator operator ", ""),
    ]);
}

#[test]
fn a_blank_disk_is_set_up_with_two_questions() {
    ADA.run(&[
        (At(Searching), "wait", ""),
        (At(Blank), NAME, "The clock says 2026-05-28 20:26:40 UTC."),
        (Line(" ada "), FIRST, ""),
        (Line("correct horse"), SAME, ""),
        (Line("correct horse"), "set up ada, correct horse", "virtio disk 2 is being set up"),
        (Done, "login operator ada ", CODE),
        (Ended, "look", ""),
        (At(Open), OPEN, ""),
    ]);
}

#[test]
fn what_is_wrong_in_a_set_up_is_said_and_asked_again() {
    ADA.run(&[
        (At(Blank), NAME, "blank"),
        (Line("guest"), NAME, "choose another name"),
        (Line("adda"), FIRST, ""),
        (Line(""), NAME, "Choose the name again"),
        (Line("ada"), FIRST, ""),
        (Line("short"), FIRST, "at least 8 characters, and this one has 5"),
        (Line("correct horse"), SAME, ""),
        (Line("correct house"), FIRST, "two different passphrases"),
        (Line("correct horse"), SAME, ""),
        (Line("correct horse"), "set up ada, correct horse", "some seconds"),
        (Fail("the disk failed"), "look", "the disk failed"),
        (At(Blank), NAME, ""),
    ]);
}

#[test]
fn a_set_up_can_be_put_off_at_every_question() {
    let declined = "decline";
    for rows in [
        [(Line(""), declined, ""), (Done, "login operator operator ", "Nothing is kept")].as_slice(),
        &[(Stop, declined, ""), (Done, "login operator operator ", "The next start asks again")],
        &[(Line("ada"), FIRST, ""), (Stop, declined, ""), (Done, "login operator operator ", "Nothing is kept")],
        &[
            (Line("ada"), FIRST, ""),
            (Line("correct horse"), SAME, ""),
            (Stop, declined, ""),
            (Done, "login operator operator ", "Nothing is kept"),
        ],
        &[(Line(""), declined, ""), (Fail("the store restarts"), "look", "the store restarts"), (At(Blank), NAME, "")],
    ] {
        let mut dialog = vec![(At(Blank), NAME, "blank")];
        dialog.extend_from_slice(rows);
        ADA.run(&dialog);
    }
}

#[test]
fn a_locked_volume_asks_its_only_user_at_once() {
    ADA.run(&[
        (At(Locked), OF_ADA, "is locked"),
        (Line("wrong words"), "unlock ada, wrong words, passphrase", ""),
        (Fail("the passphrase is wrong; 1 failed attempt since the last login"), "look", ""),
        (At(Locked), OF_ADA, "1 failed attempt"),
        (Line("correct horse"), "unlock ada, correct horse, passphrase", ""),
        (Done, "look", ""),
        (At(Open), "login operator ada ", ""),
        (Ended, "look", ""),
        (At(Open), OPEN, ""),
        (Line(""), OF_ADA, ""),
        (Line("correct horse"), "login operator ada correct horse", ""),
    ]);
    let tried = Machine { failed: 3, ..ADA };
    tried.run(&[(At(Locked), OF_ADA, "3 failed attempts since the last login")]);
}

/// The machine continues without it, as with one whose headers are damaged.
#[test]
fn a_volume_that_its_key_cannot_open_is_told_and_asks_for_nothing() {
    for key in [
        &[(Line("correct horse"), "unlock ada, correct horse, passphrase", "")][..],
        &[
            (Stop, LOCKED, "forgot"),
            (Line("forgot"), ASK_CODE, ""),
            (Line(CODE), "unlock , ABCDE-FGHJK, recoveryCode", ""),
        ],
    ] {
        let mut rows = vec![(At(Locked), OF_ADA, "is locked")];
        rows.extend_from_slice(key);
        rows.extend([
            (Fail("block 9 is damaged"), "look", ""),
            (At(Damaged), "login operator operator ", "no header is whole"),
            (Ended, "look", ""),
            (At(Damaged), "ask login as operator, guest, anonymous (Enter: operator): ", ""),
        ]);
        ADA.run(&rows);
    }
}

#[test]
fn several_users_are_asked_for_their_name() {
    let who = "ask login as ada, bob, guest, anonymous, or `forgot` to use the recovery code (Enter: ada): ";
    TWO.run(&[
        (At(Locked), who, "is locked"),
        (Line("eve"), who, "there is no user or profile of this name"),
        (Line("operator"), who, "there is no user or profile of this name"),
        (Line("bob"), OF_BOB, ""),
        (Line(""), who, "`forgot`"),
        (Line("bob"), OF_BOB, ""),
        (Line("battery staple"), "unlock bob, battery staple, passphrase", ""),
        (Done, "look", ""),
        (At(Open), "login operator bob ", ""),
        (Ended, "look", ""),
        (At(Open), "ask login as ada, bob, guest, anonymous (Enter: ada): ", ""),
        (Line("guest"), "login guest guest ", ""),
    ]);
}

#[test]
fn the_recovery_code_leads_to_a_new_passphrase() {
    ADA.run(&[
        (At(Locked), OF_ADA, "is locked"),
        (Stop, LOCKED, "the recovery code opens the disk: enter `forgot`"),
        (Line("forgot"), ASK_CODE, ""),
        (Line("AAAAA"), "unlock , AAAAA, recoveryCode", ""),
        (Fail("a recovery code has 40 letters, and this one has 5"), "look", ""),
        (At(Locked), ASK_CODE, "has 5"),
        (Line(""), LOCKED, ""),
        (Line("forgot"), ASK_CODE, ""),
        (Line(CODE), "unlock , ABCDE-FGHJK, recoveryCode", ""),
        (Done, "look", ""),
        (At(Open), NEW_ADA, "The recovery code is right"),
        (Line("short"), NEW_ADA, "this one has 5"),
        (Stop, NEW_ADA, "cannot log in before"),
        (Line("battery staple"), SAME, ""),
        (Line("battery stable"), NEW_ADA, "two different"),
        (Line("battery staple"), SAME, ""),
        (Line("battery staple"), "renew ada, battery staple", ""),
        (Fail("the disk failed"), NEW_ADA, "the disk failed"),
        (Line("battery staple"), SAME, ""),
        (Line("battery staple"), "renew ada, battery staple", ""),
        (Done, "login operator ada ", "opens the disk from now on"),
    ]);
    let whose = "ask Whose passphrase is forgotten (ada, bob): ";
    TWO.run(&[
        (
            At(Locked),
            "ask login as ada, bob, guest, anonymous, or `forgot` to use the recovery code (Enter: ada): ",
            "locked",
        ),
        (Line("forgot"), ASK_CODE, ""),
        (Line(CODE), "unlock , ABCDE-FGHJK, recoveryCode", ""),
        (Done, "look", ""),
        (At(Open), whose, "is right"),
        (Line("eve"), whose, "there is no user of this name"),
        (Line("bob"), "secret New passphrase of bob, at least 8 characters: ", ""),
        (Stop, "secret New passphrase of bob, at least 8 characters: ", "cannot log in before"),
    ]);
    let open = "ask login as ada, bob, guest, anonymous (Enter: ada): ";
    TWO.run(&[
        (
            At(Locked),
            "ask login as ada, bob, guest, anonymous, or `forgot` to use the recovery code (Enter: ada): ",
            "locked",
        ),
        (Line("forgot"), ASK_CODE, ""),
        (Line(CODE), "unlock , ABCDE-FGHJK, recoveryCode", ""),
        (Done, "look", ""),
        (At(Open), whose, "is right"),
        (Stop, "look", "Nobody got another passphrase"),
        (At(Open), open, ""),
        (Line("forgot"), open, "at a start of the machine"),
    ]);
}

#[test]
fn a_volume_that_is_open_at_the_start_belongs_to_whom_the_broker_knows() {
    ADA.run(&[(At(Open), "login operator  ", ""), (Ended, "look", ""), (At(Open), OPEN, "")]);
    // The shell was started again: nobody was asked for anything, and nothing is said.
    ADA.run(&[(At(Open), "login operator  ", ""), (Fail("nobody is known"), "look", ""), (At(Open), OPEN, "")]);
}

#[test]
fn a_profile_without_a_key_does_not_wait_for_one() {
    let kiosk = Machine { initial: Profile::Guest, ..ADA };
    kiosk.run(&[
        (At(Locked), "login guest guest ", ""),
        (Ended, "look", ""),
        (At(Locked), LOCKED, ""),
        (Line("ada"), OF_ADA, ""),
        (Line("correct horse"), "unlock ada, correct horse, passphrase", ""),
    ]);
}

const MIGRATE: &str = "ask Enter `migrate` to go on (Enter: leave the disk as it is, and nothing is kept): ";
const READ: &str = "ask Enter `read` to go on (Enter: leave the disk as it is, and nothing is kept): ";
const LEAVE: &str = "ask Enter: leave the disk as it is, and nothing is kept: ";

#[test]
fn a_disk_of_an_older_version_is_migrated_when_the_person_says_so() {
    ADA.run(&[
        (At(Locked), OF_ADA, "is locked"),
        (Line("correct horse"), "unlock ada, correct horse, passphrase", ""),
        (Done, "look", ""),
        (At(Older), MIGRATE, "an older version of capOS.\n- It is changed.\nThe older version"),
        (Line("yes"), MIGRATE, "none of the answers"),
        (Line(" migrate "), "confirm older", ""),
        (Fail("the disk failed"), MIGRATE, "the disk failed"),
        (Line("migrate"), "confirm older", ""),
        (Done, "login operator ada ", "The disk is migrated, and open."),
        (Ended, "look", ""),
        (At(Open), OPEN, ""),
    ]);
    for put_off in [Line(""), Stop] {
        ADA.run(&[
            (At(Locked), OF_ADA, "is locked"),
            (Line("correct horse"), "unlock ada, correct horse, passphrase", ""),
            (Done, "look", ""),
            (At(Older), MIGRATE, "older"),
            (put_off, "decline", ""),
            (Done, "login operator operator ", "The next start asks again"),
        ]);
    }
    // A key file has opened it, or the shell was started again.
    ADA.run(&[
        (At(Older), MIGRATE, "older"),
        (Line("migrate"), "confirm older", ""),
        (Done, "login operator  ", "open"),
    ]);
    // The recovery code has opened it.
    ADA.run(&[
        (At(Locked), OF_ADA, "is locked"),
        (Stop, LOCKED, "forgot"),
        (Line("forgot"), ASK_CODE, ""),
        (Line(CODE), "unlock , ABCDE-FGHJK, recoveryCode", ""),
        (Done, "look", ""),
        (At(Older), MIGRATE, "The recovery code is right."),
        (Line("migrate"), "confirm older", ""),
        (Done, NEW_ADA, "open"),
    ]);
    let kiosk = Machine { initial: Profile::Guest, ..ADA };
    kiosk.run(&[(At(Older), "login guest guest ", ""), (Ended, "look", ""), (At(Older), MIGRATE, "older")]);
}

#[test]
fn a_disk_of_a_newer_version_is_read_when_the_person_says_so() {
    ADA.run(&[
        (At(Locked), OF_ADA, "is locked"),
        (Line("correct horse"), "unlock ada, correct horse, passphrase", ""),
        (Done, "look", ""),
        (Newer, READ, "start the capOS that made it.\n- You can read."),
        (Line("migrate"), READ, "none of the answers"),
        (Line("read"), "confirm otherVersion", ""),
        (Done, "login operator ada ", ""),
    ]);
    // With the recovery code there is nothing to read with: the disk takes no new passphrase.
    ADA.run(&[
        (At(Locked), OF_ADA, "is locked"),
        (Stop, LOCKED, "forgot"),
        (Line("forgot"), ASK_CODE, ""),
        (Line(CODE), "unlock , ABCDE-FGHJK, recoveryCode", ""),
        (Done, "look", ""),
        (Newer, LEAVE, "start the capOS that made it."),
        (Line("read"), LEAVE, "none of the answers"),
        (Line(""), "decline", ""),
    ]);
}

#[test]
fn a_clock_that_was_never_set_is_asked_for_once() {
    let old = Machine { now: 946_684_800_000, ..ADA };
    let ask = "ask Date and time in UTC, as 2026-11-26 14:05 (Enter: leave it): ";
    let told = "the clock is not set: it says 2000-01-01 00:00:00 UTC";
    for (state, next) in [(Diskless, "login operator operator "), (Locked, OF_ADA), (Blank, NAME)] {
        // It is left, and the machine says so.
        old.run(&[(At(state), ask, told), (Line(" "), "look", ""), (At(state), next, told)]);
        old.run(&[(At(state), ask, told), (Stop, "look", ""), (At(state), next, told)]);
        // What the broker does not take is asked for again.
        old.run(&[
            (At(state), ask, told),
            (Line("yesterday"), "clock yesterday", ""),
            (Fail("it is no time"), ask, "it is no time"),
            (Line("2026-11-26 14:05"), "clock 2026-11-26 14:05", ""),
            (Done, "look", "The clock is set."),
            // Even if it still says the same.
            (At(state), next, told),
        ]);
    }
    // Where nobody may be there, nobody is asked.
    old.run(&[(At(Open), "login operator  ", told)]);
    let kiosk = Machine { initial: Profile::Guest, ..old };
    kiosk.run(&[(At(Diskless), "login guest guest ", told)]);
    Machine { now: CLOCK_IS_SET - 1, ..ADA }.run(&[(At(Open), "login operator  ", "2025-12-31")]);
    Machine { now: CLOCK_IS_SET, ..ADA }.run(&[(At(Open), "login operator  ", "")]);
}

#[test]
fn a_broker_that_does_not_answer_is_asked_when_the_person_says_so() {
    ADA.run(&[
        (Silent, "ask Press Enter to try again: ", "the authority broker does not answer: it restarts"),
        (Stop, "ask Press Enter to try again: ", ""),
        (Line(""), "look", ""),
        (At(Blank), NAME, "The clock says 2026-"),
    ]);
}

#[test]
fn names_that_somebody_else_wrote_on_the_disk_are_not_shown() {
    let odd = Machine { keys: &[(KeyKind::Passphrase, "x\nlogin as root"), (KeyKind::KeyFile, "kiosk")], ..ADA };
    odd.run(&[(At(Locked), "secret Passphrase of kiosk (Enter: log in otherwise): ", "is locked")]);
    let none = Machine { keys: &[], ..ADA };
    none.run(&[(At(Locked), "ask login as guest, anonymous, or `forgot` to use the recovery code: ", "is locked")]);
}

fn any_event() -> impl Strategy<Value = In> {
    let states = [Searching, Diskless, Blank, Foreign, Locked, Open, OtherVersion, Damaged, Several, Older];
    let lines = ["migrate", "read", "", "ada", "forgot", "correct horse", "guest", "x"];
    prop_oneof![
        proptest::sample::select(Vec::from(states)).prop_map(At),
        proptest::sample::select(Vec::from(lines)).prop_map(Line),
        proptest::sample::select(Vec::from([Stop, Done, Fail("why"), Ended, Silent, Newer])),
    ]
}

proptest! {
    /// Whatever comes, in whatever order, the dialog continues, and shows no passphrase.
    #[test]
    fn every_order_of_events_has_an_answer(events in proptest::collection::vec(any_event(), 0..40)) {
        let mut dialog = Dialog::default();
        for event in events {
            for (_, text) in TWO.put(&mut dialog, event).says {
                prop_assert!(!text.contains("correct horse"), "{}", text);
            }
        }
    }
}
