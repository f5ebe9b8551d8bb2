//! What one session's loop runs on.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::ops::Deref;

use capos_agent::world::{Host, Parent, Show};
use capos_agent::{Brought, ChildRun, Course, Either, Signal, hash, race};
use capos_rt::{Clock, log};
use capos_run_state::Sink;
use capos_schema::audit::AuditWriterClient;
use capos_schema::authority::{AuthorityBrokerClient, SessionInfo, SessionPartClient, UserSessionClient};
use capos_schema::cap::{CallError, LocalBoxFuture};
use capos_schema::kernel::{CapabilityTableClient, EntropyClient};
use capos_schema::system::SystemStatusClient;
use capos_schema::terminal::Style;

use crate::budget::RunSlot;
use crate::gate::PATIENCE;
use crate::grants::{Grants, of_runner};
use crate::keeper::{Beneath, Saving};
use crate::model::ModelSlot;
use crate::surface::Surface;
use crate::telemetry::ToLog;
use crate::writes::Writes;

/// How often the list of a session's capabilities may change while it is fetched.
const CHANGES: u8 = 3;

/// What a program that runs sessions holds without one.
pub struct Capabilities {
    /// Issues sessions.
    pub broker: AuthorityBrokerClient,
    /// Time.
    pub clock: Clock,
    /// Chance.
    pub entropy: EntropyClient,
    /// The process's capabilities, to serve objects of its own.
    pub table: CapabilityTableClient,
}

/// What one session's loop runs on: its surface, its capabilities, its model, time and entropy. A child run has one of its own,
/// on the same session.
///
/// It gives the members of its surface and its session as its own.
pub struct Runner<S> {
    base: Rc<Base<S>>,
    /// Its run.
    pub run: RunSlot,
    /// How far the conversation is saved.
    pub saving: Saving,
    /// Of how many results that others wrote the person was told when they were last asked.
    pub told_of: Cell<usize>,
    /// Its model. A child run has its parent's.
    pub model: Rc<ModelSlot>,
    /// Of a run in parallel with the session's own: its number, and its part of the session.
    pub(crate) part: Option<(u32, SessionPartClient)>,
    /// What ends it, if that is not the person's Ctrl-C at the prompt.
    cancel: Option<Signal>,
    /// Of a child run: where its messages are kept.
    pub(crate) beneath: Option<Beneath>,
    /// Stands before what is shown of a child run.
    whose: String,
    /// Tells it from the others of the session.
    pub(crate) number: u64,
}

/// The call of a tool, in progress once it is polled.
pub(crate) type Calling = LocalBoxFuture<'static, Result<Brought, String>>;

/// What the loops of a session share.
pub struct Base<S> {
    /// What shows the session and asks its person.
    pub surface: S,
    /// Time.
    pub clock: Clock,
    entropy: EntropyClient,
    /// The process's capabilities.
    pub table: CapabilityTableClient,
    /// The session, as the broker serves it.
    pub user: UserSessionClient,
    /// For what a user changes of their own.
    pub broker: AuthorityBrokerClient,
    /// What the broker says of the session.
    pub info: SessionInfo,
    /// When the session began, in nanoseconds since boot.
    pub started: u64,
    /// When its policy expires, in nanoseconds since boot.
    pub policy_expires: Rc<Cell<u64>>,
    /// The version of that policy, by which a run that continues knows whether it is another one.
    pub policy_version: RefCell<String>,
    /// The session's capabilities.
    pub grants: Grants,
    /// What the person was shown of calls that they were asked about.
    pub writes: Writes,
    /// The call that turns the machine off, once what asked for it is recorded and kept.
    pub(crate) off: Rc<RefCell<Option<Calling>>>,
    /// How many loops the session has had.
    loops: Cell<u64>,
    /// The broker has forgotten this session.
    lost: Cell<bool>,
}

impl<S> Deref for Runner<S> {
    type Target = Base<S>;

    fn deref(&self) -> &Base<S> {
        &self.base
    }
}

impl<S> Deref for Base<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.surface
    }
}

impl<S: Surface> Runner<S> {
    /// For a session that the broker has issued and that begins now.
    pub fn new(held: &Capabilities, surface: S, user: UserSessionClient, info: SessionInfo) -> Rc<Self> {
        let expires = Rc::new(Cell::new(info.policy.expires));
        let base = Rc::new(Base {
            surface,
            clock: held.clock.clone(),
            entropy: held.entropy.clone(),
            table: held.table.clone(),
            started: held.clock.now(),
            grants: Grants::new(&info, S::NEVER_OFFERED, (held.clock.clone(), expires.clone())),
            policy_expires: expires,
            policy_version: RefCell::new(info.policy.version.clone()),
            user,
            broker: held.broker.clone(),
            info,
            writes: Writes::default(),
            off: Rc::default(),
            loops: Cell::new(0),
            lost: Cell::new(false),
        });
        Rc::new(Self::on(base, RunSlot::default()))
    }

    fn on(base: Rc<Base<S>>, run: RunSlot) -> Self {
        let (saving, told_of, model) = (Saving::default(), Cell::new(0), Rc::default());
        let number = base.loops.get().saturating_add(1);
        base.loops.set(number);
        let (part, cancel, beneath, whose) = (None, None, None, String::new());
        Self { base, run, saving, told_of, model, part, cancel, beneath, whose, number }
    }

    /// The same session for a run in parallel with its own, which has this number and this part of it.
    pub(crate) fn beside(&self, number: u32, part: SessionPartClient, cancel: Signal) -> Rc<Self> {
        let (part, cancel) = (Some((number, part)), Some(cancel));
        Rc::new(Self { part, cancel, ..Self::on(self.base.clone(), RunSlot::default()) })
    }

    /// What it shares with the other loops of its session.
    pub fn base(&self) -> &Rc<Base<S>> {
        &self.base
    }

    /// The number of a run in parallel with the session's own, or of the one that it is a child run of.
    pub fn background(&self) -> Option<u32> {
        self.part.as_ref().map(|(number, _)| *number)
    }

    /// Tells the person something of the runner's own: as a line of its own, or where the run is shown.
    pub async fn tell(&self, style: Style, text: &str) {
        match self.background() {
            None => self.surface.tell(style, text).await,
            Some(_) => S::show(self, Show::Notice(text)).await,
        }
    }

    /// What stands before what is shown of a child run; nothing if it is none.
    pub fn whose(&self) -> &str {
        &self.whose
    }

    /// Whether it is that of a child run.
    pub fn is_child(&self) -> bool {
        self.beneath.is_some()
    }

    /// The course of the session. Its surface is told of the events, and the system log if the configuration says so.
    pub fn course(&self) -> Course {
        let mut sinks: Vec<Rc<dyn Sink>> = self.surface.sink().into_iter().collect();
        if self.info.telemetry {
            sinks.push(Rc::new(ToLog::begin(self.clock.clone())));
        }
        // Which home it is, without its user's name.
        let home: String = hex::encode(hash(&self.info.principal)).chars().take(16).collect();
        Course::new(&home, &self.info.id, Rc::new(sinks))
    }

    /// Whether the broker has forgotten the session.
    pub fn is_lost(&self) -> bool {
        self.lost.get()
    }

    /// A call to the broker, with a limit on its time.
    pub async fn within<T>(&self, call: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
        let result = self.in_time(call).await;
        self.of_broker(result)
    }

    /// The result of a call to the broker, or to an object that it serves: if the broker is gone, so is the session.
    pub fn of_broker<T>(&self, result: Result<T, CallError>) -> Result<T, CallError> {
        if let Err(error) = &result
            && error.is_disconnected()
        {
            self.lost.set(true);
        }
        result
    }

    /// A call to the audit log, with a limit on its time; its error as a message.
    pub async fn audited<T>(&self, call: impl Future<Output = Result<T, CallError>>) -> Result<T, String> {
        self.in_time(call).await.map_err(|error| error.to_string())
    }

    /// A call with a limit on its time.
    pub async fn in_time<T>(&self, call: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
        let deadline = self.clock.now().saturating_add(PATIENCE);
        match race(call, self.clock.sleep_until(deadline)).await {
            Either::Left(result) => result,
            Either::Right(()) => Err(CallError::failed("no answer within 10 s")),
        }
    }

    /// Fetches the session's capabilities again.
    pub async fn refresh(&self) -> Result<(), CallError> {
        let mut grants = Vec::new();
        let (mut from, mut total, mut changes) = (0, 0, 0);
        loop {
            let part = self.within(self.user.bundle(from)).await?;
            if from > 0 && part.total != total {
                changes += 1;
                if changes > CHANGES {
                    return Err(CallError::failed("the session's capabilities change all the time"));
                }
                (from, total) = (0, 0);
                grants.clear();
                continue;
            }
            total = part.total;
            grants.extend(part.grants);
            match part.next {
                next if next > from => from = next,
                _ => break,
            }
        }
        // The first part has it. In the list it stands behind what the person can use.
        grants.sort_by_key(|grant| grant.interface == AuditWriterClient::INTERFACE_ID);
        grants.extend(of_runner(&grants, &self.info, S::NEVER_OFFERED));
        self.grants.replace(grants);
        Ok(())
    }

    /// Tells the log how far it was to something that a person waits for, and what is in use there.
    pub async fn tell_start(&self, what: &str) {
        let now = self.clock.now();
        let Ok(status) = self.grants.find::<SystemStatusClient>("see the state of the system") else { return };
        if let Ok(found) = self.within(status.statistics()).await {
            log::info!(
                "at {what} {now} ns after the kernel began, {} ns of which it was idle; {} of {} frames in use; the first \
                 process began {} counts of the time-stamp counter after the kernel, and that {} after the machine",
                found.idle_nanoseconds,
                found.total_frames.saturating_sub(found.free_frames),
                found.total_frames,
                found.init_start_tsc.saturating_sub(found.kernel_entry_tsc),
                found.kernel_entry_tsc
            );
        }
    }
}

impl<S: Surface> Host for Runner<S> {
    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn sleep_until(&self, nanoseconds: u64) -> LocalBoxFuture<'static, ()> {
        let clock = self.clock.clone();
        Box::pin(async move { clock.sleep_until(nanoseconds).await })
    }

    fn random(&self) -> [u8; 16] {
        random(&self.entropy)
    }

    fn spawn(&self, task: LocalBoxFuture<'static, ()>) {
        capos_rt::spawn(task);
    }

    fn interrupt(&self) -> LocalBoxFuture<'static, ()> {
        match self.cancel.clone() {
            // Its parent waits for the person's Ctrl-C.
            Some(cancel) => Box::pin(async move { cancel.wait().await }),
            None => self.surface.interrupt(),
        }
    }
}

impl<S: Surface> Parent for Runner<S> {
    fn child(&self, child: ChildRun) -> Result<Rc<Self>, String> {
        let run = self.run.child(child.shares)?;
        let whose = format!("child run {}: ", child.number);
        let (cancel, model, part) = (Some(child.cancel), self.model.clone(), self.part.clone());
        let name = format!("child-{}.{}", child.turn, child.number);
        let beneath = Some(Beneath::new(self.saving.id(), name));
        Ok(Rc::new(Self { cancel, model, part, whose, beneath, ..Self::on(self.base.clone(), run) }))
    }
}

/// 128 bits from the kernel; zeros are never handed out, since the kernel's source does not fail.
fn random(entropy: &EntropyClient) -> [u8; 16] {
    let bytes = capos_rt::wait_for(entropy.read(16)).unwrap_or_default();
    bytes.try_into().unwrap_or_default()
}
