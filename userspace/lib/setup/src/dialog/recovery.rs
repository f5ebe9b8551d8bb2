//! The questions of a person whose passphrase is forgotten.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::says::{Says, secret};
use super::{Dialog, Next, State, Step};

impl Dialog {
    pub(super) fn code(&mut self, says: Says) -> Step {
        self.state = State::Code;
        says.then(secret("Recovery code, of 8 groups of 5 letters (Enter: back): "))
    }

    pub(super) fn whose(&mut self, says: Says) -> Step {
        let names: Vec<String> = self.users().iter().map(ToString::to_string).collect();
        match names.as_slice() {
            [name] => self.renew(name.clone(), says),
            _ => {
                self.state = State::Whose;
                let prompt = format!("Whose passphrase is forgotten ({}): ", names.join(", "));
                says.then(Next::Ask { prompt, secret: false, completions: names })
            }
        }
    }

    pub(super) fn renew(&mut self, name: String, says: Says) -> Step {
        let prompt = format!("New passphrase of {name}, at least 8 characters: ");
        self.state = State::NewFirst { name };
        says.then(secret(&prompt))
    }
}
