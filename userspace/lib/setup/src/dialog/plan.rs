//! A volume that is unlocked and holds other formats: what is to be confirmed, and who logs in then.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_schema::authority::Profile;
use capos_schema::store::VolumeState;
use capos_schema::terminal::Style;

use super::{Call, Dialog, Next, Says, State, Step, ask, sentence};
use crate::rules::has_plan;

/// The words that confirm a plan.
const MIGRATE: &str = "migrate";
const READ: &str = "read";

impl Dialog {
    /// Whether the volume is unlocked and waits for a person.
    pub(super) fn has_plan(&self) -> bool {
        has_plan(&self.volume)
    }

    /// A key has opened the volume, and what it holds is known.
    pub(super) fn looked_into(&mut self, name: Option<String>) -> Step {
        let says = match name {
            Some(_) => Says::none(),
            None => Says::none().add(Style::Success, "The recovery code is right."),
        };
        if self.has_plan() { self.plan(name, says) } else { self.unlocked(name, says) }
    }

    /// The person has answered to the plan.
    pub(super) fn answered(&mut self, name: Option<String>, line: &str) -> Step {
        match self.word(name.as_ref()) {
            _ if line.is_empty() => self.decline(),
            Some(word) if word == line => {
                self.state = State::Confirming { name };
                Says::none().then(Next::Call(Call::Confirm(self.volume.state)))
            }
            _ => self.plan(name, Says::error("this is none of the answers")),
        }
    }

    /// The plan was carried out.
    pub(super) fn confirmed(&mut self, name: Option<String>) -> Step {
        let says = match self.volume.state {
            VolumeState::Older => Says::none().add(Style::Success, "The disk is migrated, and open."),
            _ => Says::none(),
        };
        self.volume.state = VolumeState::Open;
        self.unlocked(name, says)
    }

    /// Tells what is to be confirmed, and asks. An empty name is the user of a key file.
    pub(super) fn plan(&mut self, name: Option<String>, says: Says) -> Step {
        let mut says = says.add(Style::Warning, sentence(&self.volume.details));
        let word = self.word(name.as_ref());
        if word.is_some() {
            for line in &self.volume.plan {
                says = says.add(Style::Plain, format!("- {line}"));
            }
        }
        if word == Some(MIGRATE) {
            says = says.add(
                Style::Plain,
                "The older version of capOS does not open the disk afterwards. A power cut meanwhile does no harm.",
            );
        }
        self.state = State::Plan { name };
        let otherwise = "leave the disk as it is, and nothing is kept";
        says.then(match word {
            Some(word) => Next::Ask {
                prompt: format!("Enter `{word}` to go on (Enter: {otherwise}): "),
                secret: false,
                completions: Vec::from([word.to_owned()]),
            },
            None => ask(&format!("Enter: {otherwise}: ")),
        })
    }

    /// The word that confirms the plan, if there is something to confirm. The holder of the recovery code alone needs a new
    /// passphrase, which cannot be written to a disk that is read alone.
    fn word(&self, name: Option<&String>) -> Option<&'static str> {
        match self.volume.state {
            VolumeState::Older => Some(MIGRATE),
            VolumeState::OtherVersion if name.is_some() && !self.volume.plan.is_empty() => Some(READ),
            _ => None,
        }
    }

    /// The volume is open after a key.
    fn unlocked(&mut self, name: Option<String>, says: Says) -> Step {
        match name {
            Some(name) if name.is_empty() => {
                self.state = State::Login { asked: false };
                says.then(Next::Login { profile: Profile::Operator, name, passphrase: String::new() })
            }
            Some(name) => self.user(name, says),
            None => self.whose(says),
        }
    }

    /// What the volume holds is known once it is open.
    pub(super) fn key_was_right(&mut self, name: Option<String>) -> Step {
        self.state = State::Unlocked { name };
        Says::none().then(Next::Look)
    }
}
