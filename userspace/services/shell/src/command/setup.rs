//! `/setup`, and the set-up of the machine by the assistant: what the person is told and asked, and the session of the first user.
//!
//! The passphrase and the recovery code are between the person and the broker: neither is in a call's arguments, in its result or
//! in the conversation.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use core::cell::RefCell;

use capos_agent::Tool;
use capos_runner::Form;
use capos_schema::authority::{AuthorityBrokerClient, MachineSetupClient, Profile, UserSessionClient};
use capos_schema::cap::Message;
use capos_schema::reflection::MethodInfo;
use capos_schema::terminal::{LineEnd, Style};
use capos_setup::KEEP_THE_CODE;
use capos_setup::disks::size;
use capos_setup::rules::{check_name, check_passphrase};
use serde_json::{Map, Value, json};

use super::Done;
use super::own::call;
use crate::console::Runner;
use crate::escape::{first_line, name};
use crate::invoke::encode;
use crate::screen::Screen;
use crate::session::Session;

/// The tool that sets the disk up, and its parameters.
const TOOL: &str = "set_up_disk";
const USER: &str = "user";
const PASSPHRASE: &str = "passphrase";
/// What the person can say to the assistant.
const REQUEST: &str = "help me set this machine up";
/// The grants whose tools the model gets in the session of the first user.
pub const OFFERED: [&str; 2] = ["users", "settings"];
/// Letters of a disk's name.
const MOST: usize = 100;
const NONE: &str = "the person entered no passphrase; nothing was changed";

/// A user and their session, which takes the place of the one that has set the machine up.
pub type Successor = Rc<RefCell<Option<(String, UserSessionClient)>>>;

/// Whether a tool sets the disk up.
fn sets_up(tool: &Tool) -> bool {
    tool.descriptor.interface_id == MachineSetupClient::INTERFACE_ID && tool.descriptor.name == TOOL
}

/// The call as it is before the person was asked for the passphrase, which a model never gives.
///
/// # Errors
/// The arguments are not those of the method.
fn unanswered(found: &MethodInfo, given: &Value) -> Result<Message, String> {
    let mut members = given.as_object().cloned().unwrap_or_default();
    if members.insert(PASSPHRASE.into(), "".into()).is_some() {
        return Err(format!("$.{PASSPHRASE}: there is no field of this name"));
    }
    encode(found, members)
}

/// What is needed to ask the person, and to log the first user in.
pub struct SetUp {
    screen: Rc<Screen>,
    broker: AuthorityBrokerClient,
    successor: Successor,
    /// The first user, once the person has named them.
    user: String,
}

impl SetUp {
    /// For a call that sets the disk up; none for another one.
    pub fn of(runner: &Runner, tool: &Tool) -> Option<Self> {
        sets_up(tool).then(|| Self {
            screen: runner.screen.clone(),
            broker: runner.broker.clone(),
            successor: runner.successor.clone(),
            user: String::new(),
        })
    }

    async fn secret(&self, prompt: &str) -> Result<String, String> {
        match self.screen.hold_for_question().await.secret(&[], prompt).await {
            Ok((secret, LineEnd::Entered)) if !secret.is_empty() => Ok(secret),
            _ => Err(NONE.into()),
        }
    }
}

impl Form for SetUp {
    fn unfilled(&self, method: &MethodInfo, given: &Value) -> Result<Message, String> {
        unanswered(method, given)
    }

    async fn fill(&mut self, given: &mut Map<String, Value>) -> Result<(), String> {
        let named = given.get(USER).and_then(Value::as_str).unwrap_or_default().trim().to_string();
        let mut user = named;
        loop {
            match check_name(&user) {
                Ok(()) => break,
                Err(_) if user.is_empty() => {}
                Err(why) => self.screen.error(&why).await,
            }
            let held = self.screen.hold_for_question().await;
            match held.ask(&[], "Name of the first user (Enter: not now): ").await {
                Ok((line, LineEnd::Entered)) if !line.trim().is_empty() => user = line.trim().to_string(),
                _ => return Err("the person gave no name; nothing was changed".into()),
            }
        }
        let passphrase = loop {
            let prompt = format!("Passphrase of {}, at least 8 characters (Enter: not now): ", name(&user));
            let first = self.secret(&prompt).await?;
            if let Err(why) = check_passphrase(&first) {
                self.screen.error(&why).await;
                continue;
            }
            if self.secret("The same passphrase again: ").await? == first {
                break first;
            }
            self.screen.error("these are two different passphrases; enter it again").await;
        };
        given.insert(USER.into(), user.clone().into());
        given.insert(PASSPHRASE.into(), passphrase.into());
        self.screen.status(Style::Dim, "the disk is being set up; this takes some seconds").await;
        self.user = user;
        Ok(())
    }

    /// Logs the first user in, whom the broker knows by the passphrase.
    async fn done(self) {
        let Self { screen, broker, successor, user } = self;
        screen.wrapped(&[(Style::Plain, KEEP_THE_CODE)]).await;
        match broker.login(Profile::Operator, &user, "").await {
            Ok(session) => *successor.borrow_mut() = Some((user, session)),
            Err(why) => {
                let text = format!("{} could not be logged in: {why}; /exit, and log in", name(&user));
                screen.error(&text).await;
            }
        }
    }
}

/// What the person is told before they consent: what is written where, and what is kept.
pub async fn note(runner: &Runner, tool: &Tool) -> Option<String> {
    if !sets_up(tool) {
        return None;
    }
    let volume = runner.within(runner.broker.volume()).await.ok()?;
    Some(format!(
        "It makes {} ({}, blank) the data disk, encrypted. What was made so far, and all from now on, is kept there and belongs to \
         the first user, an operator. The terminal asks for the passphrase and shows a recovery code: the model gets neither.",
        first_line(&volume.disk, MOST),
        size(volume.bytes)
    ))
}

/// The hint at the beginning of a session of a machine that is not set up.
pub fn hint(session: &Session) -> Option<String> {
    session.runner.grants.find::<MachineSetupClient>(REQUEST).ok()?;
    let or = if session.commands.has("/setup") { "; or enter /setup NAME" } else { "" };
    Some(format!(
        "This machine is not set up, and nothing is kept. Enter `{REQUEST}`, and the model gets the tools show_setup and {TOOL}{or}."
    ))
}

/// `/setup`.
pub async fn set_up(session: &Session, rest: &[&str]) -> Done {
    let [user] = rest else {
        return Err("usage: /setup NAME, where NAME is the first user of the data disk".to_string());
    };
    session.runner.grants.find::<MachineSetupClient>("set a machine up")?;
    call(session, TOOL, &json!({ USER: user })).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_schema::reflection;

    #[test]
    fn c43_a_model_gives_no_passphrase_and_sees_none() {
        let interface = reflection::interface(MachineSetupClient::INTERFACE_ID).unwrap();
        let method = interface.method("setUpDisk").unwrap();
        assert!(!method.params_schema.contains(PASSPHRASE) && method.runner_params.contains(&PASSPHRASE));
        assert!(method.runner_results.contains(&"recoveryCode"));
        assert!(unanswered(method, &json!({})).is_ok() && unanswered(method, &json!({ USER: "ada" })).is_ok());
        for given in [json!({ PASSPHRASE: "correct horse" }), json!({ "name": "ada" })] {
            assert!(unanswered(method, &given).is_err());
        }
    }
}
