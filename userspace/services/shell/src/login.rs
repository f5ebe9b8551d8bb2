//! First boot, logging in, and what happens between sessions.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::convert::Infallible;
use core::pin::pin;

use capos_rt::{Either, log, select};
use capos_runner::Capabilities;
use capos_schema::authority::{FoundBackup, Profile, UserSessionClient};
use capos_schema::cap::CallError;
use capos_schema::store::{VolumeInfo, VolumeState};
use capos_schema::terminal::{LineEnd, Style};
use capos_setup::{Call, Dialog, Event, Facts, Next};

use crate::command::{Commands, Flow, setup};
use crate::copying::{COPIED, watch};
use crate::escape::plain;
use crate::screen::Screen;
use crate::session::Session;

/// Between two looks at a volume that is being searched for, in nanoseconds.
const PAUSE: u64 = 20_000_000;

/// An opening of a session that takes longer, in nanoseconds, is shown with its time, and again each time that it takes as long.
const LONG: u64 = 3_000_000_000;

const KEY: &str = "checking the key; this takes some seconds";

/// What the shell holds without a session.
pub struct Login {
    /// The terminal.
    pub screen: Rc<Screen>,
    /// What sessions are made of.
    pub held: Capabilities,
    /// The commands of sessions.
    pub commands: &'static Commands,
}

/// What the machine is like.
struct Found {
    volume: VolumeInfo,
    profiles: Vec<Profile>,
    initial: Profile,
    backups: Vec<FoundBackup>,
}

/// What has come of a step of the dialog, as its next event.
enum Came {
    Facts(Result<Box<Found>, CallError>),
    Line(String),
    Interrupted,
    Done(String),
    Failed(String),
    Ended,
}

impl Login {
    /// Sets the machine up where that is to be done, and logs people in, for ever.
    pub async fn serve(&self) -> Infallible {
        self.screen.spans(&[(Style::Heading, "capOS"), (Style::Dim, " — an agent on a machine you can trust")]).await;
        let mut dialog = Dialog::default();
        let mut next = Next::Look;
        loop {
            let came = self.take(next).await;
            let step = match &came {
                Came::Facts(Ok(found)) => {
                    let Found { volume, profiles, initial, backups } = &**found;
                    let now = self.held.clock.wall_clock().unwrap_or_default();
                    dialog.next(Event::Facts(Facts { volume, profiles, initial: *initial, backups, now }))
                }
                Came::Facts(Err(why)) => dialog.next(Event::Silent(&why.to_string())),
                Came::Line(line) => dialog.next(Event::Line(line)),
                Came::Interrupted => dialog.next(Event::Interrupted),
                Came::Done(text) => dialog.next(Event::Done(text)),
                Came::Failed(why) => dialog.next(Event::Failed(why)),
                Came::Ended => dialog.next(Event::Ended),
            };
            for (style, text) in &step.says {
                self.screen.wrapped(&[(*style, &plain(text))]).await;
            }
            next = step.next;
        }
    }

    /// Does what the dialog wants next.
    async fn take(&self, next: Next) -> Came {
        match next {
            Next::Look => self.look().await,
            Next::Wait => {
                self.held.clock.sleep(PAUSE).await;
                self.look().await
            }
            Next::Ask { prompt, secret: false, completions } => match self.screen.read(&prompt, completions).await {
                (line, LineEnd::Entered) => Came::Line(line),
                _ => Came::Interrupted,
            },
            Next::Ask { prompt, secret: true, .. } => self.secret(&prompt).await,
            Next::Call(call) => match self.called(call).await {
                Ok(Ok(text)) => Came::Done(text),
                Ok(Err(why)) => Came::Failed(why),
                Err(error) => Came::Failed(error.to_string()),
            },
            Next::Login { profile, name, passphrase } => match self.login(profile, &name, &passphrase).await {
                Ok(user) => {
                    self.warn().await;
                    self.session(user, &name).await;
                    Came::Ended
                }
                Err(why) => Came::Failed(why.to_string()),
            },
        }
    }

    /// A session, for a passphrase if there is one.
    async fn login(&self, profile: Profile, name: &str, passphrase: &str) -> Result<UserSessionClient, CallError> {
        if !passphrase.is_empty() {
            self.screen.status(Style::Dim, KEY).await;
        }
        let mut call = pin!(self.held.broker.login(profile, name, passphrase));
        let mut waited = 0_u64;
        loop {
            match select(call.as_mut(), self.held.clock.sleep(LONG)).await {
                Either::First(answer) => return answer,
                Either::Second(()) => waited = waited.saturating_add(LONG),
            }
            let seconds = waited.div_euclid(1_000_000_000);
            let text = format!("opening the session: {seconds} s; a new home is filled with the image's files first");
            self.screen.status(Style::Dim, &text).await;
        }
    }

    /// A call of the broker. Most derive a key.
    async fn called(&self, call: Call) -> Result<Result<String, String>, CallError> {
        if let Call::Confirm(VolumeState::Older) = call {
            self.screen.status(Style::Dim, "the disk is being migrated; this may take minutes").await;
            return self.call(call).await;
        }
        if let Call::SetClock(_) = call {
            return self.call(call).await;
        }
        self.derived(self.call(call)).await
    }

    /// Waits for something that derives a key, and says so meanwhile.
    async fn derived<T>(&self, work: impl Future<Output = T>) -> T {
        self.screen.status(Style::Dim, KEY).await;
        work.await
    }

    /// Says before a session that nothing of it is kept, if the disk cannot be written, and what damaged blocks have cost.
    async fn warn(&self) {
        let Ok(volume) = self.held.broker.volume().await else { return };
        if volume.state != VolumeState::Open {
            return;
        }
        let mut warnings = Vec::new();
        if volume.read_only {
            warnings.push(format!("Nothing is kept from now on: {}.", plain(&volume.details)));
        }
        if !volume.lost.is_empty() {
            warnings.push(format!("Something is lost: {}.", plain(&volume.lost)));
        }
        for text in warnings {
            self.screen.wrapped(&[(Style::Warning, &text)]).await;
        }
    }

    async fn look(&self) -> Came {
        Came::Facts(self.find().await.map(Box::new))
    }

    async fn find(&self) -> Result<Found, CallError> {
        let (known, volume) = (self.held.broker.profiles().await?, self.held.broker.volume().await?);
        let mut backups = Vec::new();
        if volume.state == VolumeState::Blank {
            match self.held.broker.backups().await {
                Ok(found) => backups = found,
                // The disk can be set up without.
                Err(why) => log::warning!("backups cannot be looked for: {why}"),
            }
        }
        Ok(Found { volume, profiles: known.profiles, initial: known.initial, backups })
    }

    async fn secret(&self, prompt: &str) -> Came {
        // The screen is held for the question alone, and not for what is told behind it.
        let answer = self.screen.hold_for_question().await.secret(&[], prompt).await;
        match answer {
            Ok((secret, LineEnd::Entered)) => Came::Line(secret),
            _ => Came::Interrupted,
        }
    }

    /// A call of the broker: its text, or why it was rejected.
    async fn call(&self, call: Call) -> Result<Result<String, String>, CallError> {
        match call {
            Call::SetUp { name, passphrase } => Ok(Ok(self.held.broker.set_up(&name, &passphrase).await?)),
            Call::Decline => self.held.broker.decline().await.map(|()| Ok(String::new())),
            Call::Confirm(state) => self.held.broker.confirm(state).await.map(|()| Ok(String::new())),
            Call::SetClock(time) => self.held.broker.set_clock(&time).await.map(|()| Ok(String::new())),
            Call::Renew { name, passphrase } => {
                self.held.broker.renew(&name, &passphrase).await.map(|()| Ok(String::new()))
            }
            Call::Restore { backup, name, secret, kind, passphrase } => {
                let call = self.held.broker.restore(&backup, &name, &secret, kind, &passphrase);
                let watched = watch(&self.screen, &self.held.clock, COPIED, call, async || {
                    let state = self.held.broker.progress().await?;
                    Ok((state.bytes, state.total))
                });
                let done = watched.await?;
                Ok(if done.why.is_empty() { Ok(done.recovery_code) } else { Err(done.why) })
            }
            Call::Unlock { name, secret, kind } => {
                let tried = self.held.broker.unlock(&name, &secret, kind).await?;
                Ok(if tried.opened { Ok(String::new()) } else { Err(tried.why) })
            }
        }
    }

    async fn session(&self, mut user: UserSessionClient, name: &str) {
        let (mut kept, mut name, mut offered) = (None, name.to_string(), [].as_slice());
        loop {
            let mut session = match Session::open(self, user, kept.take()).await {
                Ok(session) => session,
                Err(why) => {
                    self.screen.error(&format!("the session could not be opened: {why}")).await;
                    return;
                }
            };
            if let Err(why) = session.offer(offered).await {
                log::warning!("the model is not offered the tools of {}: {why}", offered.join(", "));
            }
            let profile = session.profile();
            match session.run().await {
                Flow::Succeeded => {
                    session.stop_beside("its session ends").await;
                    session.end().await;
                    let successor = session.runner.successor.take();
                    kept = Some(session.into_conversation().await);
                    let Some(successor) = successor else { return };
                    (name, user) = successor;
                    offered = &setup::OFFERED;
                }
                Flow::Lost => {
                    session.failed("the authority broker restarted and has forgotten the session");
                    // The broker restarted and has forgotten its sessions. A profile that needs no passphrase to log in
                    // continues in a new session with the same conversation.
                    session.stop_beside("the session is lost").await;
                    match self.held.broker.login(profile, &name, "").await {
                        Ok(again) => {
                            let text =
                                "the authority broker restarted; this is a new session with the same conversation";
                            self.screen.line(Style::Warning, text).await;
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
                    session.stop_beside("the session ends").await;
                    session.end().await;
                    self.screen.line(Style::Dim, "session ended").await;
                    return;
                }
            }
        }
    }
}
