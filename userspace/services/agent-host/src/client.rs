//! A client as a session's surface.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::world::{Answer, Ask, Host, RunState, Secret, Show};
use capos_agent::{Either, Tool, race};
use capos_client_protocol::event::{ApprovalRequest, ApprovalResolved, ApprovalTimeout, Details, Event, Kind, Risk};
use capos_client_protocol::request::{Decision, Reach};
use capos_client_protocol::result::TaskStatus;
use capos_policy::{category, may_stand};
use capos_run_state::Sink;
use capos_runner::change::PendingWrite;
use capos_runner::grants::{DELEGATION, REMINDING};
use capos_runner::{Form, Runner, Surface, loss};
use capos_schema::authority::{ConsentReach, MachineSetupClient, Reply, SettingsClient, Span, UsersClient};
use capos_schema::cap::{LocalBoxFuture, Message};
use capos_schema::models::ToolDescriptor;
use capos_schema::reflection::MethodInfo;
use capos_schema::system::ProgramApprovalClient;
use capos_schema::terminal::Style;
use serde_json::{Map, Value};

use crate::events::ToClient;
use crate::messages::cut;
use crate::questions::Said;
use crate::shared::{MILLISECOND, Shared};

/// A client.
pub struct Client {
    pub shared: Rc<Shared>,
    /// What it calls itself.
    name: String,
}

impl Client {
    /// The client of this name.
    pub fn new(shared: Rc<Shared>, name: String) -> Self {
        Self { shared, name }
    }
}

/// No call has a form here: the tools that have one are not offered.
pub enum NoForm {}

impl Form for NoForm {
    fn unfilled(&self, _: &MethodInfo, _: &Value) -> Result<Message, String> {
        match *self {}
    }

    async fn fill(&mut self, _: &mut Map<String, Value>) -> Result<(), String> {
        match *self {}
    }

    async fn done(self) {
        match self {}
    }
}

/// A question that is open. Dropped without an answer, it is closed, and the client is told.
struct Asked<'a> {
    shared: &'a Shared,
    id: String,
    since: u64,
    expires: u64,
}

impl<'a> Asked<'a> {
    /// Asks until then, in nanoseconds since boot; none if the question has no room in a line.
    fn new(shared: &'a Shared, request: ApprovalRequest, expires: u64, write: Option<PendingWrite>) -> Option<Self> {
        let since = shared.clock.now();
        let id = request.approval_id.clone();
        let left = expires.saturating_sub(since) / MILLISECOND;
        let request = ApprovalRequest { expires_in_ms: Some(left), ..request };
        shared.questions.open(request.clone(), expires, write);
        let asked = Self { shared, id, since, expires };
        if shared.tell(Event::ApprovalRequested(request)) {
            return Some(asked);
        }
        shared.questions.close(&asked.id);
        None
    }

    /// Waits for the answer; none if the task is cancelled before.
    async fn answer(&self) -> Option<Said> {
        let said = match race(self.shared.questions.answer(&self.id), self.shared.cancelled()).await {
            Either::Left(said) => Some(said),
            Either::Right(()) => None,
        };
        let (decision, reason) = match said {
            Some(Said::Yes(_)) => (Decision::Approved, None),
            Some(Said::No) => (Decision::Denied, None),
            None => (Decision::Denied, Some("the task was cancelled".to_string())),
        };
        self.close(decision, reason);
        said
    }

    fn close(&self, decision: Decision, reason: Option<String>) {
        if self.shared.questions.close(&self.id) {
            let latency_ms = self.shared.clock.now().saturating_sub(self.since) / MILLISECOND;
            let approval_id = self.id.clone();
            self.shared.tell(Event::ApprovalResolved(ApprovalResolved { approval_id, decision, reason, latency_ms }));
        }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.shared.clock.now() < self.expires {
            self.close(Decision::Denied, Some("the call does not wait any more".to_string()));
        } else if self.shared.questions.close(&self.id) {
            self.shared.tell(Event::ApprovalTimeout(ApprovalTimeout { approval_id: self.id.clone() }));
        }
    }
}

fn risk(of: capos_schema::authority::Risk) -> Risk {
    match of {
        capos_schema::authority::Risk::Low => Risk::Low,
        capos_schema::authority::Risk::Medium => Risk::Medium,
        capos_schema::authority::Risk::High => Risk::High,
    }
}

/// What the person has to know besides the call: what the broker says, what would be lost, what the model has read.
async fn notes(runner: &Runner<Client>, ask: &Ask<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(ask.note.lines().map(ToString::to_string));
    notes.extend(loss::facts(runner, ask).await);
    if ask.untrusted > runner.told_of.get() {
        notes.push("The model has read files, logs or output that others may have written.".to_string());
    }
    let classes = &ask.label.classes;
    if !classes.is_empty() {
        notes.push(format!("The model has read data labelled {}.", classes.join(", ")));
    }
    notes
}

impl Surface for Client {
    type Form = NoForm;

    /// The machine is set up and managed at its console. Clients are not told of child runs, and show no reminders.
    const NEVER_OFFERED: &'static [u64] = &[
        MachineSetupClient::INTERFACE_ID,
        UsersClient::INTERFACE_ID,
        SettingsClient::INTERFACE_ID,
        DELEGATION,
        REMINDING,
    ];

    fn name(&self) -> String {
        format!("client {}", self.name)
    }

    fn sink(&self) -> Option<Rc<dyn Sink>> {
        Some(Rc::new(ToClient(self.shared.clone())))
    }

    async fn tell(&self, _: Style, text: &str) {
        self.shared.notice(text);
    }

    fn teller(&self) -> impl Fn(String) -> LocalBoxFuture<'static, ()> + 'static {
        let shared = self.shared.clone();
        move |_| {
            // A secret is for the person at the console, and not for what holds the other end of a line.
            shared.notice("the result has a part that is shown at the console alone");
            Box::pin(async {})
        }
    }

    fn interrupt(&self) -> LocalBoxFuture<'static, ()> {
        let shared = self.shared.clone();
        Box::pin(async move { shared.cancelled().await })
    }

    fn form(_: &Runner<Self>, _: &Tool) -> Option<NoForm> {
        None
    }

    async fn consent(runner: &Runner<Self>, ask: &Ask<'_>) -> Result<ConsentReach, Reply> {
        let (shared, tool) = (&runner.shared, &ask.tool.descriptor);
        let reaches: &[Reach] = match may_stand(category(&tool.category)) {
            true => &[Reach::Once, Reach::Turn, Reach::Session],
            false => &[Reach::Once],
        };
        let request = ApprovalRequest {
            approval_id: ask.approval.id.clone(),
            kind: Kind::ToolCall,
            title: title(tool),
            action_summary: cut(&ask.approval.summary, &mut 512).0,
            risk_level: risk(ask.approval.risk),
            reaches: reaches.to_vec(),
            expires_in_ms: None,
            details: Some(Details {
                call_id: ask.call_id.to_string(),
                tool_name: tool.name.clone(),
                capability: shared.tool(&tool.name),
                category: tool.category.clone(),
                description: tool.description.clone(),
                arguments: ask.arguments.to_string(),
                notes: notes(runner, ask).await,
            }),
        };
        let write = PendingWrite::of(runner, ask.tool, ask.arguments).await;
        let Some(asked) = Asked::new(shared, request, ask.approval.expires, write) else {
            shared.notice("a call was rejected: its arguments are too long to be shown to a client");
            return Err(Reply::Elsewhere);
        };
        let said = asked.answer().await;
        if said.is_some() {
            runner.told_of.set(ask.untrusted);
        }
        match said {
            Some(Said::Yes(reach)) => {
                let span = match reach {
                    Reach::Once => Span::Once,
                    Reach::Turn => Span::Turn,
                    Reach::Session => Span::Session,
                };
                Ok(ConsentReach { span, pattern: String::new() })
            }
            Some(Said::No) => Err(Reply::Declined),
            None => Err(Reply::Interrupted),
        }
    }

    async fn passphrase(runner: &Runner<Self>, ask: &Ask<'_>) -> Secret {
        let name = &ask.tool.descriptor.name;
        runner.shared.notice(&format!(
            "{name} takes the passphrase, which a client is not asked for: make this call at the console of the machine"
        ));
        Secret::Elsewhere
    }

    async fn go_on(runner: &Runner<Self>, calls: u32, more: u32) -> Answer {
        let shared = &runner.shared;
        let request = ApprovalRequest {
            approval_id: hex::encode(runner.random()),
            kind: Kind::GoOn,
            title: "Go on?".to_string(),
            action_summary: format!("{calls} model calls made in this task. Continue for up to {more} more?"),
            risk_level: Risk::Low,
            reaches: Vec::from([Reach::Once]),
            expires_in_ms: None,
            details: None,
        };
        // The agent's own wait began before.
        let limit = u64::from(runner.info.limits.approval_timeout_ms.saturating_sub(1)).saturating_mul(MILLISECOND);
        let expires = shared.clock.now().saturating_add(limit);
        let Some(asked) = Asked::new(shared, request, expires, None) else { return Answer::Lost };
        match asked.answer().await {
            Some(Said::Yes(_)) => {
                shared.add_steps(more);
                Answer::Yes
            }
            Some(Said::No) => Answer::No,
            None => Answer::Interrupted,
        }
    }

    async fn show(runner: &Runner<Self>, show: Show<'_>) {
        match show {
            Show::State(state) => {
                if let Some(status) = status(state) {
                    runner.shared.set_task(status);
                }
            }
            Show::Notice(text) => runner.shared.notice(text),
            Show::Summarised { messages } => {
                let text = format!("{} replaced by a summary", capos_plural::count(messages, "earlier message"));
                runner.shared.notice(&text);
            }
            // The sink tells of it.
            _ => {}
        }
    }
}

/// The state of a task whose run is in this one; none if there is no run.
pub fn status(state: RunState) -> Option<TaskStatus> {
    Some(match state {
        RunState::Idle => return None,
        RunState::Running => TaskStatus::TaskRunning,
        RunState::WaitingForModel => TaskStatus::WaitingForLlm,
        RunState::ProcessingResponse => TaskStatus::ProcessingResponse,
        RunState::CheckingPolicy => TaskStatus::CheckingPolicy,
        RunState::WaitingForApproval => TaskStatus::WaitingForApproval,
        RunState::ExecutingTools => TaskStatus::ExecutingTools,
        RunState::PausedForApproval => TaskStatus::PausedForApproval,
        RunState::PausedForEvent => TaskStatus::PausedForEvent,
        RunState::Completed => TaskStatus::TaskCompleted,
        RunState::Failed => TaskStatus::TaskFailed,
        RunState::Cancelled => TaskStatus::TaskCancelled,
    })
}

/// What a client is shown as the title of a question.
fn title(tool: &ToolDescriptor) -> String {
    match tool.interface_id {
        ProgramApprovalClient::INTERFACE_ID => format!("A program that runs asks before its next step: {}", tool.name),
        _ => format!("The model wants to run {}", tool.name),
    }
}
