//! The state between an editor and a machine.
//!
//! A machine has one session. The editor's sessions are conversations of it, of which one is open at a time; the id of
//! an editor's session is the conversation's, so that `session/load` finds it later.

mod editor;
mod machine;
mod permission;
mod prompt;
mod session;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use agent_client_protocol_schema::v1::{
    AuthenticateResponse, ClientCapabilities, Error, Notice, NoticeSeverity, RequestId, SessionNotification,
    SessionUpdate,
};
use capos_client_protocol::result::Created;
use capos_client_protocol::{Id, Request, RpcError, Secret, code, encode_request};
use serde::Serialize;

use crate::wire;
use permission::Permissions;
use prompt::Prompt;
use session::Wanted;

/// How long the machine may take to answer, at most.
const ANSWER: Duration = Duration::from_secs(60);
/// The same for a login, which hashes a passphrase, and which the machine may make wait.
const LOGIN: Duration = Duration::from_secs(120);
/// When the machine is asked again whether it is there.
const AGAIN: Duration = Duration::from_secs(2);
/// How long it may take until it is there: it may be booting.
const BOOT: Duration = Duration::from_secs(300);
/// After how long the person is told that it is not there yet.
const SLOW: Duration = Duration::from_secs(6);
/// How long the end of a session may take when the editor has gone.
const GOODBYE: Duration = Duration::from_secs(5);
/// Requests of the editor that wait for the machine.
const WAITING: usize = 64;
/// Requests to the machine that wait for its answer.
const PENDING: usize = 1024;
/// Sessions of others that are ended in a row.
const LEFT: u32 = 5;
/// Lines of the machine that cannot be read, one after the other, until it is given up.
const MALFORMED: u32 = 100;

/// Who logs in to the machine.
pub struct Login {
    /// The user; none where the machine knows none.
    pub user: Option<String>,
    /// Reads the passphrase, each time that one is needed.
    pub passphrase: Box<dyn FnMut() -> Result<Option<Secret>, String> + Send>,
}

/// What is to be done.
#[derive(Debug, Default)]
pub struct Output {
    /// Lines for the editor.
    pub editor: Vec<String>,
    /// Lines for the machine.
    pub machine: Vec<String>,
    /// Lines for standard error.
    pub log: Vec<String>,
    /// Nothing more comes.
    pub end: Option<End>,
}

/// Why it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The editor is done.
    Done,
    /// The machine is gone: why, and what to do.
    Lost(String),
}

/// How it stands with the machine.
enum Machine {
    /// It has not answered yet, or has just ended a session.
    Greeting { since: Duration, again: Duration },
    /// It has no session.
    Ready,
    /// The login is under way, or is tried again at that time.
    LoggingIn { tries: u32, again: Option<Duration> },
    /// There is a session.
    In(Created),
    /// The session is being ended.
    Leaving,
    /// It does not answer any more.
    Gone(String),
}

/// What an answer of the machine is for.
enum Pending {
    Greeting,
    Login,
    Leave(Option<RequestId>),
    Goodbye,
    Resume { request: RequestId, conversation: String, is_load: bool },
    Page { request: RequestId, conversation: String, from: u32 },
    List { request: RequestId, cwd: Option<std::path::PathBuf> },
    Start,
    Cancel,
    Preview(String),
    Approve,
}

/// Translates between an editor and a machine.
pub struct Bridge {
    login: Login,
    now: Duration,
    out: Output,
    machine: Machine,
    /// What the editor can show; none until it has introduced itself.
    editor: Option<ClientCapabilities>,
    /// Requests that wait for the session.
    waiting: VecDeque<(RequestId, Wanted)>,
    /// Requests to the machine.
    pending: BTreeMap<i64, (Pending, Duration)>,
    next: i64,
    /// The conversation that the editor has open.
    open: Option<String>,
    prompt: Option<Prompt>,
    permissions: Permissions,
    malformed: u32,
    /// The person was told that the machine is not there yet.
    is_slow: bool,
    /// Sessions of others that were ended since the last login.
    left: u32,
    /// Calls that were shown.
    shown: u64,
    /// The editor's ids of the calls of a conversation that is being loaded.
    replayed: BTreeMap<String, String>,
    /// The last task of the conversation that is being loaded may continue.
    can_continue: bool,
    /// Until when the goodbye may take.
    leaving: Option<Duration>,
}

impl Bridge {
    /// Begins: asks the machine whether it is there. `now` is the time since any moment, here and in all calls.
    #[must_use]
    pub fn new(login: Login, now: Duration) -> Self {
        let mut bridge = Self {
            login,
            now,
            out: Output::default(),
            machine: Machine::Ready,
            editor: None,
            waiting: VecDeque::new(),
            pending: BTreeMap::new(),
            next: 1,
            open: None,
            prompt: None,
            permissions: Permissions::default(),
            malformed: 0,
            is_slow: false,
            left: 0,
            shown: 0,
            replayed: BTreeMap::new(),
            can_continue: false,
            leaving: None,
        };
        bridge.greet();
        bridge
    }

    /// What is to be done since the last time.
    pub fn output(&mut self) -> Output {
        std::mem::take(&mut self.out)
    }

    /// When [`tick`](Self::tick) has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let again = match &self.machine {
            Machine::Greeting { again, .. } => Some(*again),
            Machine::LoggingIn { again, .. } => *again,
            _ => None,
        };
        let prompt = self.prompt.as_ref().and_then(Prompt::deadline);
        let pending = self.pending.values().map(|(_, deadline)| *deadline).min();
        [again, prompt, pending, self.leaving].into_iter().flatten().min()
    }

    /// Does what the time asks for.
    pub fn tick(&mut self, now: Duration) {
        self.now = now;
        match &self.machine {
            Machine::Greeting { since, again } if *again <= now => self.greet_again(*since),
            Machine::LoggingIn { tries, again: Some(again) } if *again <= now => self.log_in(*tries),
            _ => {}
        }
        let late: Vec<i64> =
            self.pending.iter().filter(|(_, (_, deadline))| *deadline <= now).map(|(id, _)| *id).collect();
        for id in late {
            if let Some((pending, _)) = self.pending.remove(&id) {
                let message = "the machine did not answer in time: look at its console, and start it again if needed";
                self.failed(pending, &RpcError::new(code::UNAVAILABLE, message));
            }
        }
        self.give_up_cancelling();
        if self.leaving.is_some_and(|until| until <= now) {
            self.out.end = Some(End::Done);
        }
    }

    /// The editor has closed its end. A session that is there is ended.
    pub fn editor_end(&mut self, now: Duration) {
        self.now = now;
        if !matches!(self.machine, Machine::In(_) | Machine::LoggingIn { .. }) {
            self.out.end = Some(End::Done);
            return;
        }
        self.leaving = Some(now.saturating_add(GOODBYE));
        self.prompt = None;
        self.permissions.clear();
        self.ask(Pending::Goodbye, &Request::Shutdown(capos_client_protocol::request::Empty {}));
    }

    /// The machine has closed its end.
    pub fn machine_end(&mut self, now: Duration) {
        self.now = now;
        if self.leaving.is_some() {
            self.out.end = Some(End::Done);
            return;
        }
        self.lose("the machine is gone: it was turned off, or another program took its client port. Start the machine and this agent again");
    }

    /// Gives the machine up.
    fn lose(&mut self, why: &str) {
        self.machine = Machine::Gone(why.to_owned());
        self.end_prompt_with(&RpcError::new(code::UNAVAILABLE, why));
        for (_, (pending, _)) in std::mem::take(&mut self.pending) {
            self.failed(pending, &RpcError::new(code::UNAVAILABLE, why));
        }
        self.fail_waiting(&wire::error(code::INTERNAL, why));
        self.out.log.push(why.to_owned());
        self.out.end = Some(End::Lost(why.to_owned()));
    }

    /// Sends a request to the machine.
    fn ask(&mut self, pending: Pending, request: &Request) {
        if let Machine::Gone(why) = &self.machine {
            let why = RpcError::new(code::UNAVAILABLE, why.clone());
            return self.failed(pending, &why);
        }
        if self.pending.len() >= PENDING {
            let why = "the machine does not answer: look at its console, and start it again if needed";
            return self.failed(pending, &RpcError::new(code::UNAVAILABLE, why));
        }
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        match encode_request(&Id::Number(id), request) {
            Ok(line) => {
                let most = if matches!(pending, Pending::Login) { LOGIN } else { ANSWER };
                self.out.machine.push(line);
                self.pending.insert(id, (pending, self.now.saturating_add(most)));
            }
            Err(too_long) => {
                let message = format!("{too_long}: send less at once");
                self.failed(pending, &RpcError::new(code::INVALID_PARAMS, message));
            }
        }
    }

    /// Answers a request of the editor.
    fn answer<R: Serialize>(&mut self, request: &RequestId, result: &R) {
        self.out.editor.push(wire::result_line(request, result));
    }

    /// Answers a request of the editor with an error.
    fn reject(&mut self, request: &RequestId, error: &Error) {
        self.out.editor.push(wire::error_line(request, error));
    }

    /// Sends an update of the open session.
    fn update(&mut self, update: SessionUpdate) {
        if let Some(open) = self.open.clone() {
            self.update_of(open, update);
        }
    }

    fn update_of(&mut self, session: String, update: SessionUpdate) {
        let notification = SessionNotification::new(session, update);
        self.out.editor.push(wire::notification_line("session/update", &notification));
    }

    /// Tells the person something that is no text of the model: as a notice, or as a line of its own if the editor shows
    /// none.
    fn tell(&mut self, text: &str) {
        let shows_notices = self
            .editor
            .as_ref()
            .and_then(|editor| editor.session.as_ref())
            .is_some_and(|session| session.notices.is_some());
        if self.open.is_none() {
            self.out.log.push(text.to_owned());
        } else if shows_notices {
            self.update(SessionUpdate::Notice(Notice::new(NoticeSeverity::Info, text)));
        } else {
            self.update(prompt::said(format!("\n[capOS] {text}\n")));
        }
    }

    /// The editor's id of a call. A model may give two calls of a session the same id; for the editor that would be one.
    fn call_id(&mut self, call: &str) -> String {
        self.shown = self.shown.wrapping_add(1);
        format!("{}.{call}", self.shown)
    }

    /// An answer to `authenticate`: there is nothing to say.
    fn authenticated(&mut self, request: &RequestId) {
        self.answer(request, &AuthenticateResponse::new());
    }
}
