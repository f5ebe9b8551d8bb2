//! Logging in, and what happens between sessions.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use core::convert::Infallible;

use capos_rt::Clock;
use capos_schema::authority::{AuthorityBrokerClient, Profile, UserSessionClient};
use capos_schema::kernel::{CapabilityTableClient, EntropyClient};
use capos_schema::terminal::{LineEnd, Style};

use crate::command::Flow;
use crate::screen::Screen;
use crate::session::Session;

/// What the shell holds without a session.
pub struct Login {
    /// The terminal.
    pub screen: Rc<Screen>,
    /// Issues sessions.
    pub broker: AuthorityBrokerClient,
    /// Time.
    pub clock: Clock,
    /// Chance.
    pub entropy: EntropyClient,
    /// The process's capabilities, to serve objects of its own.
    pub table: CapabilityTableClient,
}

/// The login, which opens sessions.
struct Who {
    profile: Profile,
    passphrase: String,
}

impl Login {
    /// Logs in the initial profile, then each person who comes, for ever.
    pub async fn serve(&self) -> Infallible {
        self.screen.spans(&[(Style::Heading, "capOS"), (Style::Dim, " — an agent on a machine you can trust")]).await;
        let mut who = None;
        loop {
            let (profiles, initial) = match self.broker.profiles().await {
                Ok(known) => (known.profiles, known.initial),
                Err(why) => {
                    self.screen
                        .error(&format!("the authority broker does not answer: {why}; press Enter to try again"))
                        .await;
                    self.ask(&[Profile::Operator], Profile::Operator).await;
                    continue;
                }
            };
            let wanted = match who.take() {
                Some(wanted) => wanted,
                None => Who { profile: initial, passphrase: String::new() },
            };
            match self.broker.login(wanted.profile, &principal(wanted.profile), &wanted.passphrase).await {
                Ok(user) => self.session(user).await,
                Err(why) => self.screen.error(&format!("login rejected: {why}")).await,
            }
            who = Some(self.ask(&profiles, initial).await);
        }
    }

    async fn session(&self, mut user: UserSessionClient) {
        let mut kept = None;
        loop {
            let mut session = match Session::open(self, user, kept.take()).await {
                Ok(session) => session,
                Err(why) => {
                    self.screen.error(&format!("the session could not be opened: {why}")).await;
                    return;
                }
            };
            let profile = session.profile();
            match session.run().await {
                Flow::Lost => {
                    // The broker restarted and has forgotten its sessions. A profile that needs no passphrase to log in
                    // continues in a new session with the same conversation.
                    match self.broker.login(profile, &principal(profile), "").await {
                        Ok(again) => {
                            let text =
                                "the authority broker restarted; this is a new session with the same conversation";
                            self.screen.line(Style::Warning, text).await;
                            session.jobs.stop_all(&self.screen, "the session is lost").await;
                            kept = Some(session.into_conversation().await);
                            user = again;
                        }
                        Err(why) => {
                            self.screen.error(&format!("the session is lost: {why}; log in again")).await;
                            return;
                        }
                    }
                }
                Flow::Go | Flow::Exit => {
                    session.jobs.stop_all(&self.screen, "the session ends").await;
                    session.end().await;
                    self.screen.line(Style::Dim, "session ended").await;
                    return;
                }
            }
        }
    }

    /// Asks for the profile of the next session.
    async fn ask(&self, profiles: &[Profile], initial: Profile) -> Who {
        let names: alloc::vec::Vec<&str> = profiles.iter().map(|profile| profile.name()).collect();
        let prompt = format!("login as {} (Enter: {}): ", names.join(", "), initial.name());
        loop {
            let completions = names.iter().map(ToString::to_string).collect();
            let (line, end) = self.screen.read(&prompt, completions).await;
            let name = line.trim();
            if end != LineEnd::Entered {
                continue;
            }
            if name.is_empty() {
                return Who { profile: initial, passphrase: String::new() };
            }
            let Some(profile) = Profile::from_name(name).filter(|profile| profiles.contains(profile)) else {
                self.screen
                    .error(&format!(
                        "there is no profile {:?}; the profiles are {}",
                        crate::escape::escape(name),
                        names.join(", ")
                    ))
                    .await;
                continue;
            };
            let passphrase = if profile == Profile::Operator && profile != initial {
                // The screen is held for the question alone, and not for what is told behind it.
                let answer = self.screen.hold_for_question().await.secret(&[], "passphrase: ").await;
                match answer {
                    Ok((passphrase, LineEnd::Entered)) if !passphrase.is_empty() => passphrase,
                    // Nothing was tried, and nothing is counted.
                    _ => {
                        self.screen.line(Style::Dim, "no passphrase was entered").await;
                        continue;
                    }
                }
            } else {
                String::new()
            };
            return Who { profile, passphrase };
        }
    }
}

fn principal(profile: Profile) -> String {
    profile.name().to_string()
}
