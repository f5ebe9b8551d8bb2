//! The dialog at the terminal: what is shown, what is asked, and what is called, after each event.

mod clock;
mod plan;
mod recovery;
mod restore;
mod says;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_schema::authority::{FoundBackup, Profile};
use capos_schema::store::{KeyKind, VolumeInfo, VolumeState};
use capos_schema::terminal::Style;

use self::restore::{RESTORE, Restore};
pub use self::says::{KEEP_THE_CODE, moment};
use self::says::{Says, ask, secret, sentence};
use crate::rules::{attempts, check_name, check_passphrase};

/// Before this moment, the beginning of 2026 in milliseconds since 1970, the clock was never set.
pub const CLOCK_IS_SET: u64 = 1_767_225_600_000;
/// The word at the login that asks for the recovery code.
const FORGOT: &str = "forgot";

/// What the dialog knows of the machine when it looks.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub volume: &'a VolumeInfo,
    /// The profiles, and the one that a console without a data volume gets by itself.
    pub profiles: &'a [Profile],
    pub initial: Profile,
    /// Those on transfer volumes, of a machine with a blank disk.
    pub backups: &'a [FoundBackup],
    /// Milliseconds since 1970.
    pub now: u64,
}

/// What has happened.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The answer to [`Next::Look`] and [`Next::Wait`].
    Facts(Facts<'a>),
    /// The broker did not answer to them.
    Silent(&'a str),
    /// A line was entered.
    Line(&'a str),
    /// Ctrl-C or the end of input came instead of a line.
    Interrupted,
    /// The call was done. The text is the recovery code, where there is one.
    Done(&'a str),
    /// The call was rejected, or a session was; the text says why.
    Failed(&'a str),
    /// A session was opened, and has ended.
    Ended,
}

/// A call of the broker.
#[derive(Clone, PartialEq, Eq)]
pub enum Call {
    SetUp { name: String, passphrase: String },
    Decline,
    Unlock { name: String, secret: String, kind: KeyKind },
    Renew { name: String, passphrase: String },
    Restore { backup: FoundBackup, name: String, secret: String, kind: KeyKind, passphrase: String },
    Confirm(VolumeState),
    SetClock(String),
}

/// What comes next.
#[derive(Clone, PartialEq, Eq)]
pub enum Next {
    /// Ask the broker what there is.
    Look,
    /// The same, after a moment.
    Wait,
    /// Read a line, or a secret, which is not shown.
    Ask {
        prompt: String,
        secret: bool,
        completions: Vec<String>,
    },
    Call(Call),
    /// Open a session. An empty name is the user whom the broker knows already, if there is one.
    Login {
        profile: Profile,
        name: String,
        passphrase: String,
    },
}

/// What is shown, and what comes then.
#[derive(Clone, PartialEq, Eq)]
pub struct Step {
    pub says: Vec<(Style, String)>,
    pub next: Next,
}

#[derive(Clone)]
enum State {
    /// The broker is asked what there is. At the start of the machine the console's person is greeted.
    Look {
        greet: bool,
    },
    /// It did not answer.
    Silent {
        greet: bool,
    },
    /// The person is asked for the time, and the clock is set.
    Clock,
    SettingClock,
    Name,
    First {
        name: String,
    },
    Again {
        name: String,
        passphrase: String,
    },
    SettingUp {
        name: String,
    },
    Declining,
    Who,
    Passphrase {
        name: String,
    },
    Unlocking {
        name: String,
    },
    /// A key has opened it, and whether there is something to confirm is looked up. Without a name it was the recovery code.
    Unlocked {
        name: Option<String>,
    },
    /// The person is asked to confirm the plan.
    Plan {
        name: Option<String>,
    },
    Confirming {
        name: Option<String>,
    },
    Code,
    Recovering,
    /// A key did not open the volume, and it is asked again what there is: none is the recovery code.
    Rejected {
        name: Option<String>,
        why: String,
    },
    Whose,
    NewFirst {
        name: String,
    },
    NewAgain {
        name: String,
        passphrase: String,
    },
    Renewing {
        name: String,
    },
    /// A backup is chosen, and restored.
    Restore(Restore),
    /// A session is opened. Nobody has asked for it if it is the one that the broker may know already.
    Login {
        asked: bool,
    },
    /// A session is opened for a passphrase.
    LoggingIn {
        name: String,
    },
}

/// The dialog, from the start of the machine on.
pub struct Dialog {
    state: State,
    volume: VolumeInfo,
    profiles: Vec<Profile>,
    initial: Profile,
    backups: Vec<FoundBackup>,
    /// The person was asked for the time at this start.
    clock_asked: bool,
}

impl Default for Dialog {
    fn default() -> Self {
        Self {
            state: State::Look { greet: true },
            volume: VolumeInfo::default(),
            profiles: Vec::new(),
            initial: Profile::Operator,
            backups: Vec::new(),
            clock_asked: false,
        }
    }
}

impl Dialog {
    /// What comes after this event. The first one answers [`Next::Look`].
    pub fn next(&mut self, event: Event<'_>) -> Step {
        match event {
            Event::Facts(facts) => {
                self.volume = facts.volume.clone();
                self.profiles = facts.profiles.to_vec();
                self.initial = facts.initial;
                self.backups = facts.backups.to_vec();
                self.looked(facts.now)
            }
            Event::Silent(why) => {
                self.state = State::Silent { greet: matches!(self.state, State::Look { greet: true }) };
                Says::error(&format!("the authority broker does not answer: {why}")).then(ask(AGAIN))
            }
            Event::Line(line) => self.line(line),
            Event::Interrupted => self.interrupted(),
            Event::Done(text) => self.done(text),
            Event::Failed(why) => self.failed(why),
            Event::Ended => self.look(Says::none()),
        }
    }

    fn look(&mut self, says: Says) -> Step {
        self.state = State::Look { greet: false };
        says.then(Next::Look)
    }

    /// Names of those who have keys, the first one first.
    fn users(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for key in self.volume.keys.iter().filter(|key| key.kind != KeyKind::RecoveryCode) {
            // Somebody else may have written the disk.
            if check_name(&key.name).is_ok() && !names.contains(&key.name.as_str()) {
                names.push(&key.name);
            }
        }
        names
    }

    fn has_volume(&self) -> bool {
        matches!(self.volume.state, VolumeState::Locked | VolumeState::Open)
    }

    /// The console has looked at what there is.
    fn looked(&mut self, now: u64) -> Step {
        let greet = match self.state.clone() {
            State::Look { greet } => greet,
            State::Unlocked { name } => return self.looked_into(name),
            State::Rejected { name, why } if self.volume.state == VolumeState::Locked => {
                // What was said counts this one, too.
                self.volume.failed_attempts = 0;
                return match name {
                    Some(name) => self.passphrase(name, Says::error(&why)),
                    None => self.code(Says::error(&why)),
                };
            }
            // It turned out to be unusable.
            State::Rejected { .. } => true,
            State::Restore(Restore::Rejected { backup, name, why }) => return self.looked_again(backup, name, &why),
            _ => return self.who(Says::none()),
        };
        if self.volume.state == VolumeState::Searching {
            return Says::none().then(Next::Wait);
        }
        if !greet {
            return match self.volume.state {
                VolumeState::Blank => self.blank(Says::none()),
                _ if self.has_plan() => self.plan(Some(String::new()), Says::none()),
                _ => self.who(Says::none()),
            };
        }
        if let Some(step) = self.clock(now) {
            return step;
        }
        let says = self.clock_warning(now);
        let details = sentence(&self.volume.details);
        match self.volume.state {
            VolumeState::Blank => {
                let says = says.add(Style::Bold, details).add(
                    Style::Plain,
                    format!("Set it up, and what is kept is encrypted. The clock says {}.", moment(now)),
                );
                self.blank(says)
            }
            // The profile that needs no key does not wait for those who have one.
            VolumeState::Locked | VolumeState::Open | VolumeState::Older if self.initial != Profile::Operator => {
                self.first(says)
            }
            VolumeState::Locked => {
                let says = says.add(Style::Dim, details);
                match self.users().as_slice() {
                    [name] => self.passphrase((*name).to_owned(), says),
                    _ => self.who(says),
                }
            }
            VolumeState::Open => {
                self.state = State::Login { asked: false };
                says.then(Next::Login { profile: Profile::Operator, name: String::new(), passphrase: String::new() })
            }
            VolumeState::None | VolumeState::Declined | VolumeState::Searching => {
                self.first(says.add(Style::Dim, details))
            }
            // A key file has opened it.
            VolumeState::Older | VolumeState::OtherVersion if self.has_plan() => self.plan(Some(String::new()), says),
            VolumeState::Older
            | VolumeState::Foreign
            | VolumeState::OtherVersion
            | VolumeState::Damaged
            | VolumeState::Several => self.first(says.add(Style::Warning, details)),
        }
    }

    /// The console's own profile logs in.
    fn first(&mut self, says: Says) -> Step {
        self.state = State::Login { asked: true };
        let profile = self.initial;
        says.then(Next::Login { profile, name: profile.name().to_string(), passphrase: String::new() })
    }

    fn blank(&mut self, says: Says) -> Step {
        self.state = State::Name;
        self.offer(says).then(ask("Your name (Enter: not now, and nothing is kept): "))
    }

    fn choose(&mut self, name: String, says: Says) -> Step {
        self.state = State::First { name };
        says.then(secret("Passphrase, at least 8 characters (Ctrl-C: not now): "))
    }

    fn decline(&mut self) -> Step {
        self.state = State::Declining;
        Says::none().then(Next::Call(Call::Decline))
    }

    /// Asks who logs in.
    fn who(&mut self, says: Says) -> Step {
        self.state = State::Who;
        let (mut names, standard) = if self.has_volume() {
            let names = self.users();
            let standard = names.first().map_or_else(String::new, |name| (*name).to_owned());
            (names, standard)
        } else {
            (Vec::from([Profile::Operator.name()]), self.initial.name().to_string())
        };
        let others = self.profiles.iter().filter(|profile| **profile != Profile::Operator);
        names.extend(others.map(|profile| profile.name()));
        let mut completions: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut prompt = format!("login as {}", names.join(", "));
        if self.volume.state == VolumeState::Locked {
            completions.push(FORGOT.to_owned());
            prompt.push_str(", or `forgot` to use the recovery code");
        }
        if !standard.is_empty() {
            prompt.push_str(&format!(" (Enter: {standard})"));
        }
        prompt.push_str(": ");
        says.then(Next::Ask { prompt, secret: false, completions })
    }

    fn passphrase(&mut self, name: String, says: Says) -> Step {
        let failed = attempts(self.volume.failed_attempts);
        let says = if failed.is_empty() { says } else { says.add(Style::Warning, format!("{failed}.")) };
        let prompt = if self.has_volume() {
            format!("Passphrase of {name} (Enter: log in otherwise): ")
        } else {
            "passphrase (Enter: log in otherwise): ".into()
        };
        self.state = State::Passphrase { name };
        says.then(secret(&prompt))
    }

    /// A line was entered.
    fn line(&mut self, line: &str) -> Step {
        match self.state.clone() {
            State::Silent { greet } => {
                self.state = State::Look { greet };
                Says::none().then(Next::Look)
            }
            State::Clock => self.clock_line(line),
            State::Name => match line.trim() {
                "" => self.decline(),
                RESTORE if !self.backups.is_empty() => self.restore(),
                name => match check_name(name) {
                    Ok(()) => self.choose(name.to_owned(), Says::none()),
                    Err(why) => {
                        let says = Says::error(&why);
                        // It is rather meant for the assistant.
                        let words = name.contains(char::is_whitespace);
                        self.blank(if words { says.add(Style::Dim, ASSISTANT) } else { says })
                    }
                },
            },
            State::First { .. } if line.is_empty() => {
                self.blank(Says::none().add(Style::Dim, "Choose the name again."))
            }
            State::First { name } => match check_passphrase(line) {
                Ok(()) => {
                    self.state = State::Again { name, passphrase: line.to_owned() };
                    Says::none().then(secret("The same passphrase again: "))
                }
                Err(why) => self.choose(name, Says::error(&why)),
            },
            State::Again { name, passphrase } if passphrase == line => {
                self.state = State::SettingUp { name: name.clone() };
                let text = format!("{} is being set up. This takes some seconds.", self.volume.disk);
                Says::none().add(Style::Dim, text).then(Next::Call(Call::SetUp { name, passphrase }))
            }
            State::Again { name, .. } => self.choose(name, Says::error(DIFFER)),
            State::Who => self.named(line.trim()),
            State::Passphrase { .. } if line.is_empty() => self.otherwise(),
            State::Passphrase { name } if self.volume.state == VolumeState::Locked => {
                self.state = State::Unlocking { name: name.clone() };
                let call = Call::Unlock { name, secret: line.to_owned(), kind: KeyKind::Passphrase };
                Says::none().then(Next::Call(call))
            }
            State::Passphrase { name } => {
                self.state = State::LoggingIn { name: name.clone() };
                Says::none().then(Next::Login { profile: Profile::Operator, name, passphrase: line.to_owned() })
            }
            State::Code if line.trim().is_empty() => self.who(Says::none()),
            State::Code => {
                self.state = State::Recovering;
                let call = Call::Unlock { name: String::new(), secret: line.to_owned(), kind: KeyKind::RecoveryCode };
                Says::none().then(Next::Call(call))
            }
            State::Plan { name } => self.answered(name, line.trim()),
            State::Whose => {
                let name = line.trim();
                if self.users().contains(&name) {
                    return self.renew(name.to_owned(), Says::none());
                }
                let why = format!("there is no user of this name; the users are {}", self.users().join(", "));
                self.whose(Says::error(&why))
            }
            State::NewFirst { name } => match check_passphrase(line) {
                Ok(()) => {
                    self.state = State::NewAgain { name, passphrase: line.to_owned() };
                    Says::none().then(secret("The same passphrase again: "))
                }
                Err(why) => self.renew(name, Says::error(&why)),
            },
            State::NewAgain { name, passphrase } if passphrase == line => {
                self.state = State::Renewing { name: name.clone() };
                Says::none().then(Next::Call(Call::Renew { name, passphrase }))
            }
            State::NewAgain { name, .. } => self.renew(name, Says::error(DIFFER)),
            State::Restore(state) => self.restore_line(state, line),
            // No line was asked for.
            _ => self.look(Says::none()),
        }
    }

    /// A name at the login.
    fn named(&mut self, name: &str) -> Step {
        if self.has_volume() {
            let users = self.users();
            let name = if name.is_empty() { users.first().copied().unwrap_or_default() } else { name }.to_owned();
            if users.contains(&name.as_str()) {
                return self.passphrase(name, Says::none());
            }
            if name == FORGOT && self.volume.state == VolumeState::Locked {
                return self.code(Says::none());
            }
            if name == FORGOT {
                let text = "the recovery code works at a start of the machine, while the disk is locked; an operator can give \
                            you another passphrase with /users reset";
                return self.who(Says::error(text));
            }
            return self.profile_named(&name);
        }
        let name = if name.is_empty() { self.initial.name() } else { name };
        if name == Profile::Operator.name() && self.initial != Profile::Operator {
            return self.passphrase(name.to_owned(), Says::none());
        }
        self.profile_named(name)
    }

    fn profile_named(&mut self, name: &str) -> Step {
        let known = Profile::from_name(name)
            .filter(|profile| self.profiles.contains(profile))
            .filter(|profile| *profile != Profile::Operator || !self.has_volume());
        match known {
            Some(profile) => {
                self.state = State::Login { asked: true };
                Says::none().then(Next::Login { profile, name: name.to_owned(), passphrase: String::new() })
            }
            None => {
                let what = if self.has_volume() { "user or profile" } else { "profile" };
                // What was typed may be a passphrase.
                self.who(Says::error(&format!("there is no {what} of this name; choose one that the prompt lists")))
            }
        }
    }

    /// What a person can do who does not enter the passphrase.
    fn otherwise(&mut self) -> Step {
        if self.volume.state == VolumeState::Locked {
            let text = "If the passphrase is forgotten, the recovery code opens the disk: enter `forgot`.";
            return self.who(Says::none().add(Style::Dim, text));
        }
        self.who(Says::none().add(Style::Dim, "no passphrase was entered"))
    }

    /// A question ended without a line.
    fn interrupted(&mut self) -> Step {
        match self.state.clone() {
            State::Silent { .. } => Says::none().then(ask(AGAIN)),
            State::Name | State::First { .. } | State::Again { .. } | State::Plan { .. } => self.decline(),
            State::Clock => self.clock_done(Says::none()),
            State::Passphrase { .. } => self.otherwise(),
            State::Restore(_) => self.blank(Says::none()),
            State::Whose => {
                let text = "The disk is open. Nobody got another passphrase; log in with one that is known.";
                self.look(Says::none().add(Style::Warning, text))
            }
            State::NewFirst { name } | State::NewAgain { name, .. } => {
                self.renew(name, Says::none().add(Style::Warning, INSIST))
            }
            _ => self.who(Says::none()),
        }
    }

    /// A call was done.
    fn done(&mut self, text: &str) -> Step {
        match self.state.clone() {
            State::SettingUp { name } => self.user(
                name,
                Says::none().add(Style::Success, format!("{} is set up, and open.", self.volume.disk)).code(text),
            ),
            State::Unlocking { name } => self.key_was_right(Some(name)),
            State::Confirming { name } => self.confirmed(name),
            State::Renewing { name } => {
                self.user(name, Says::none().add(Style::Success, "The new passphrase opens the disk from now on."))
            }
            State::SettingClock => self.clock_done(Says::none().add(Style::Success, "The clock is set.")),
            State::Restore(state) => self.restored(state, text),
            State::Recovering => self.key_was_right(None),
            State::Declining => {
                let text = "Nothing is kept when the machine is turned off. The next start asks again.";
                self.first(Says::none().add(Style::Warning, text))
            }
            _ => self.look(Says::none()),
        }
    }

    /// A key did not open the volume: it was wrong, or the volume cannot be used.
    fn rejected(&mut self, name: Option<String>, why: &str) -> Step {
        self.state = State::Rejected { name, why: why.to_owned() };
        Says::none().then(Next::Look)
    }

    /// A user whom the broker knows now logs in.
    fn user(&mut self, name: String, says: Says) -> Step {
        self.state = State::Login { asked: true };
        says.then(Next::Login { profile: Profile::Operator, name, passphrase: String::new() })
    }

    /// A call was rejected.
    fn failed(&mut self, why: &str) -> Step {
        match self.state.clone() {
            State::Unlocking { name } => self.rejected(Some(name), why),
            State::Recovering => self.rejected(None, why),
            State::Confirming { name } => self.plan(name, Says::error(why)),
            State::Renewing { name } => self.renew(name, Says::error(why)),
            State::SettingClock => self.clock_failed(why),
            State::Restore(state) => self.not_restored(state, why),
            State::Login { asked: false } => self.look(Says::none()),
            State::Login { .. } => self.look(Says::error(&format!("login rejected: {why}"))),
            // A person types the passphrase again at once: a question that shows what is typed must not get it.
            State::LoggingIn { name } => {
                self.volume.failed_attempts = 0;
                self.passphrase(name, Says::error(&format!("login rejected: {why}")))
            }
            _ => self.look(Says::error(why)),
        }
    }
}

const AGAIN: &str = "Press Enter to try again: ";
const ASSISTANT: &str =
    "The assistant can do this with you: press Enter here, and then enter: help me set this machine up";
const DIFFER: &str = "these are two different passphrases; enter it again";
const INSIST: &str = "The disk is open, and this user cannot log in before there is a new passphrase.";

#[cfg(test)]
#[path = "dialog_tests.rs"]
mod tests;
