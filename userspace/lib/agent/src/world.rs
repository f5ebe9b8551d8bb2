//! What the loop runs on. A program implements these for its capabilities, a test for a simulated world.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

pub use capos_run_state::{Approval, RunState};
use capos_schema::audit::{GeneralEvent, ToolEvent};
use capos_schema::authority::{ConsentReach, Decision, Label, Reply, Risk, ToolQuestion};
use capos_schema::cap::LocalBoxFuture;
use capos_schema::models::{InferenceRequest, ModelInfo, Outcome, PermissionMode, StreamChunk, TokenUsage, ToolCall};

pub use crate::budget::{Budget, Excess, More, Standing};
use crate::conversation::Conversation;
pub use crate::delegate::Parent;
use crate::result::Brought;
use crate::snapshot::Tool;
pub use capos_budget::Amounts;
use capos_run_state::Checkpoint;

/// The model, as the session holds it.
#[allow(async_fn_in_trait)]
pub trait Model {
    /// A response that is being made.
    type Stream: ModelStream;

    /// Which model it is.
    fn info(&self) -> ModelInfo;

    /// Begins a response. The broker counts it, and what is answered.
    ///
    /// # Errors
    /// Why there is none.
    async fn stream(&self, request: &InferenceRequest) -> Result<Self::Stream, Unasked>;
}

/// A response that is being made. Dropping it abandons it.
#[allow(async_fn_in_trait)]
pub trait ModelStream {
    /// The next piece, and whether it was the last.
    ///
    /// # Errors
    /// Why there is none.
    async fn next(&mut self) -> Result<(StreamChunk, bool), Broken>;

    /// Tells the worker to stop. Does not wait for it.
    fn cancel(self);
}

/// Asks the person for a program, while a call runs it.
pub trait Asker {
    /// Asks whether the program of this name may do what it says that its next step does.
    ///
    /// # Errors
    /// It may not, and why, for the program.
    fn ask(&self, program: &str, action: &str) -> LocalBoxFuture<'static, Result<(), String>>;
}

/// The session's capabilities, as tools.
#[allow(async_fn_in_trait)]
pub trait Tools {
    /// A call whose arguments have been checked.
    type Prepared: 'static;

    /// Reads the text of a call's arguments and checks them against the tool's parameters: the call, and the
    /// arguments in canonical JSON, which say all that the model says by the call. `label` is that of all that it has
    /// seen, for services that keep what it gives them.
    ///
    /// # Errors
    /// What is wrong with which argument.
    fn prepare(&self, tool: &Tool, arguments: &str, label: &Label) -> Result<(Self::Prepared, String), String>;

    /// Looks at what a call changes, immediately before it is made.
    async fn observe(&self, _tool: &Tool, _call: &ToolCall, prepared: Self::Prepared) -> Self::Prepared {
        prepared
    }

    /// Invokes the capability: the only effect there is. It begins when the future is first polled; dropping the
    /// future aborts the call. If it runs a program, that may ask `asker` before a step.
    fn invoke(
        &self,
        tool: &Tool,
        prepared: Self::Prepared,
        asker: Option<Rc<dyn Asker>>,
    ) -> LocalBoxFuture<'static, Result<Brought, String>>;

    /// Whether a call was put off that turns the machine off: no model is asked any more.
    fn is_leaving(&self) -> bool {
        false
    }

    /// Makes that call, when everything is recorded and kept. It returns only if it failed.
    ///
    /// # Errors
    /// Why the machine is still on.
    async fn leave(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Why a model was not asked: a message for the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unasked {
    /// A budget is used up, or there were too many requests lately.
    Limit(String),
    /// The model rejects the conversation in this form; the next request with it would fail too.
    Rejected(String),
    /// Its worker has ended, or has no room now. A moment later it may take the same request.
    Away(String),
    /// The model refused.
    Failed(String),
}

/// Why nothing more comes of a response: a message for the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It broke off, since its worker ended. The same request may bring a whole one.
    Off(String),
    /// The worker refused to continue, or has reached a bound.
    Failed(String),
}

/// Why it is not known what is left of the session's budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetError {
    /// Nothing is.
    Exhausted(String),
    /// The broker does not answer.
    Unavailable(String),
}

/// The broker's word on one call.
#[derive(Debug)]
pub struct Ruling<L> {
    /// What was decided.
    pub decision: Decision,
    /// Why, as a message.
    pub reason: String,
    /// Leave for one call, after a step-up.
    pub lease: Option<L>,
}

/// What the broker says of one call before anybody is asked about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// What the call takes. It may be stricter than what the tool takes otherwise.
    pub mode: PermissionMode,
    /// What the person is told before they agree; may be nothing.
    pub note: String,
    /// The number of the question whose answer covers the call, so that the person is not asked; may be nothing.
    pub approval: String,
    /// How much harm it could do.
    pub risk: Risk,
}

/// The authority broker, as the session sees it.
#[allow(async_fn_in_trait)]
pub trait Gate {
    /// Leave to run one call.
    type Lease: 'static;

    /// What one call takes, before anybody is asked.
    ///
    /// # Errors
    /// The broker does not answer; then the person is not asked.
    async fn review(&self, question: &ToolQuestion) -> Result<Review, String>;

    /// The decision on one call. `reply` is the person's where the mode asks for one, and `reach` how far their consent reaches.
    ///
    /// # Errors
    /// The broker does not answer; nothing runs then.
    async fn decide(
        &self,
        question: &ToolQuestion,
        mode: PermissionMode,
        reply: Reply,
        reach: &ConsentReach,
    ) -> Result<Ruling<Self::Lease>, String>;

    /// Authenticates the person again for exactly this call.
    ///
    /// # Errors
    /// The broker does not answer.
    async fn step_up(&self, question: &ToolQuestion, passphrase: &str) -> Result<Ruling<Self::Lease>, String>;

    /// Uses up the leave, immediately before the effect.
    ///
    /// # Errors
    /// It has expired, was used, or is for another call.
    async fn redeem(&self, lease: Self::Lease, question: &ToolQuestion) -> Result<(), String>;

    /// Tokens that are left of the session's budget.
    ///
    /// # Errors
    /// Used up, or the broker does not answer.
    async fn remaining(&self) -> Result<u64, BudgetError>;
}

/// What the person is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The tool.
    pub tool: &'a Tool,
    /// The arguments that will be used, as canonical JSON.
    pub arguments: &'a str,
    /// The call's id.
    pub call_id: &'a str,
    /// What the model has seen in this conversation.
    pub label: &'a Label,
    /// How many tool results of that were untrusted.
    pub untrusted: usize,
    /// What the broker has the person told, and that the same call failed before; one fact in a line, may be nothing.
    pub note: &'a str,
    /// The turn has neither read nor written the file that the call names.
    pub is_unread: bool,
    /// The person typed the call, and no model has a part in it.
    pub by_hand: bool,
    /// The question, with its id. An answer to another id, or after it expires, has no effect.
    pub approval: &'a Approval,
}

/// The person's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Yes.
    Yes,
    /// No, or just Enter.
    No,
    /// Ctrl-C.
    Interrupted,
    /// The terminal is gone, and the question with it.
    Lost,
}

/// The person's answer to a step-up.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// What was typed.
    Given(String),
    /// Nothing was.
    Declined,
    /// Ctrl-C.
    Interrupted,
    /// The terminal is gone, and the question with it.
    Lost,
    /// This surface does not ask for it.
    Elsewhere,
}

impl Secret {
    /// What was typed, or what the person replied instead.
    pub(crate) fn given(self) -> Result<String, Reply> {
        match self {
            Self::Given(passphrase) => Ok(passphrase),
            Self::Declined => Err(Reply::Declined),
            Self::Interrupted => Err(Reply::Interrupted),
            Self::Lost => Err(Reply::Lost),
            Self::Elsewhere => Err(Reply::Elsewhere),
        }
    }
}

/// The person.
#[allow(async_fn_in_trait)]
pub trait Approver {
    /// Asks whether a call may run, and how far that consent reaches. Type-ahead must not answer.
    ///
    /// # Errors
    /// What the person replied instead.
    async fn consent(&self, ask: &Ask<'_>) -> Result<ConsentReach, Reply>;

    /// Asks for the passphrase for one call.
    async fn passphrase(&self, ask: &Ask<'_>) -> Secret;

    /// Asks whether a turn in which the model was asked `calls` times continues for `more`.
    async fn go_on(&self, calls: u32, more: u32) -> Answer;

    /// Asks whether a run whose budget is used up may use more, and how much.
    async fn more(&self, excess: &Excess) -> More;
}

/// Why the audit log took no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditError {
    /// It is gone, full, or does not answer; later it may take the record.
    Unavailable(String),
    /// The record contradicts what it holds; it will never take it.
    Refused(String),
}

impl core::fmt::Display for AuditError {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (Self::Unavailable(why) | Self::Refused(why)) = self;
        formatter.write_str(why)
    }
}

/// The audit log.
#[allow(async_fn_in_trait)]
pub trait Audit {
    /// Appends a record about a tool call; its sequence number. Waits for the answer however long it takes: a caller
    /// that stops waiting does not know whether there is a record.
    ///
    /// # Errors
    /// The log is gone, full, or refuses the record; nothing may run then.
    async fn tool(&self, event: &ToolEvent) -> Result<u64, AuditError>;

    /// Appends another record. Gives up after a while, since nothing depends on it.
    ///
    /// # Errors
    /// The log is gone, full, does not answer, or refuses the record.
    async fn general(&self, event: &GeneralEvent) -> Result<u64, AuditError>;
}

/// Where conversations are saved.
#[allow(async_fn_in_trait)]
pub trait Keeper {
    /// Saves the messages that are not saved yet, and with the last of them where its run is. A run that is not `open` is not
    /// continued any more. Gives up after a while, and tells the person what could not be saved: the turn continues. Returns
    /// whether the point of the run is kept.
    async fn save(&self, conversation: &Conversation, run: Option<(&Checkpoint, bool)>) -> bool;

    /// Keeps a text beside the messages of the conversation, below this name and with what is said of it. False if this session
    /// keeps nothing.
    ///
    /// # Errors
    /// Why it is not kept.
    async fn keep(&self, name: &str, about: &str, text: &str) -> Result<bool, String>;
}

/// Time, chance, other tasks, and the person's Ctrl-C.
pub trait Host {
    /// Nanoseconds since boot.
    fn now(&self) -> u64;

    /// Ends at that time.
    fn sleep_until(&self, nanoseconds: u64) -> LocalBoxFuture<'static, ()>;

    /// Unguessable bytes.
    fn random(&self) -> [u8; 16];

    /// Runs a task in parallel with the loop, to its end.
    fn spawn(&self, task: LocalBoxFuture<'static, ()>);

    /// Ends at the next Ctrl-C that no prompt takes.
    fn interrupt(&self) -> LocalBoxFuture<'static, ()>;
}

/// What the person sees. A call is shown as a widget, never as text of the model.
#[derive(Clone, Copy, Debug)]
pub enum Show<'a> {
    /// The run enters this state.
    State(RunState),
    /// The model reads the conversation.
    Progress {
        /// Tokens read.
        done: u32,
        /// Of how many.
        total: u32,
    },
    /// A piece of the model's text.
    Text(&'a str),
    /// A piece of a call that the model is writing. It may never become one that is proposed.
    CallPiece {
        /// Which call of the answer.
        index: u32,
        /// More of the tool's name.
        name: &'a str,
        /// More of the arguments.
        arguments: &'a str,
    },
    /// The answer's calls of this tool are not held to all of its schema.
    Loose {
        /// The tool, one of those that the model was shown.
        tool: &'a str,
        /// What they are not held to, as the model's worker says.
        why: &'a str,
    },
    /// The model has finished this answer.
    AnswerEnd {
        /// What the worker says it used.
        usage: &'a TokenUsage,
    },
    /// The model's answer was dropped: interrupted, or its worker failed.
    AnswerDropped,
    /// The model proposes a call.
    Proposed {
        /// The call.
        call_id: &'a str,
        /// What it calls the tool.
        name: &'a str,
        /// With which arguments.
        arguments: &'a str,
    },
    /// A call begins.
    Started {
        /// The tool.
        tool: &'a Tool,
        /// The call.
        call_id: &'a str,
    },
    /// A call has its outcome.
    Finished {
        /// What the model called the tool.
        name: &'a str,
        /// With which arguments.
        arguments: &'a str,
        /// The call.
        call_id: &'a str,
        /// Outcome.
        outcome: Outcome,
        /// What the model will see of it.
        text: &'a str,
    },
    /// A summary stands for older messages from now on.
    Summarised {
        /// How many.
        messages: usize,
    },
    /// Something the person should know.
    Notice(&'a str),
}

/// The person's screen.
#[allow(async_fn_in_trait)]
pub trait Renderer {
    /// Shows something. Errors of the screen do not stop the loop.
    async fn show(&self, show: Show<'_>);
}

/// All of it.
pub trait World:
    Model + Tools + Gate + Budget + Approver + Audit + Keeper + Host + Renderer + Parent + 'static
{
}

impl<T: Model + Tools + Gate + Budget + Approver + Audit + Keeper + Host + Renderer + Parent + 'static> World for T {}

/// A field of a general audit record.
pub(crate) fn field(name: &str, value: impl Into<String>) -> capos_schema::audit::GeneralEventField {
    capos_schema::audit::GeneralEventField { name: String::from(name), value: value.into() }
}

/// Names of tools.
pub(crate) fn names<'a>(tools: impl Iterator<Item = &'a Tool>) -> Vec<String> {
    tools.map(|tool| tool.descriptor.name.clone()).collect()
}
