//! What shows a session and asks its person.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;

use capos_agent::Tool;
use capos_agent::world::{Answer, Approver, Ask, Excess, More, Renderer, RunState, Secret, Show};
use capos_run_state::Sink;
use capos_schema::authority::{ConsentReach, Reply};
use capos_schema::cap::{LocalBoxFuture, Message};
use capos_schema::reflection::MethodInfo;
use capos_schema::terminal::Style;
use serde_json::{Map, Value};

use crate::runner::{Base, Runner};
use crate::writes::Asked;

/// A call of a tool that a surface serves itself, once its arguments are checked. It returns the results as JSON, or why it failed.
pub type OwnCall = Box<dyn FnOnce() -> Result<Value, String>>;

/// A surface of a session: the console, or a client of the agent host.
#[allow(async_fn_in_trait)]
pub trait Surface: Sized + 'static {
    /// What it has the person fill in for a call, unseen by the model.
    type Form: Form;

    /// Its name, as the audit log has it.
    fn name(&self) -> String;

    /// Interfaces whose tools are never offered at this surface.
    const NEVER_OFFERED: &'static [u64] = &[];

    /// What else is told of the events of the session and its runs. It never waits.
    fn sink(&self) -> Option<Rc<dyn Sink>> {
        None
    }

    /// Tells the person something of the runner's own, as a line of its own.
    async fn tell(&self, style: Style, text: &str);

    /// What tells results that are for the person alone.
    fn teller(&self) -> impl Fn(String) -> LocalBoxFuture<'static, ()> + 'static;

    /// Ends at the next interrupt that no question takes.
    fn interrupt(&self) -> LocalBoxFuture<'static, ()>;

    /// The form of a call that has one.
    fn form(runner: &Runner<Self>, tool: &Tool) -> Option<Self::Form>;

    /// The call of a tool that the surface serves itself, with these arguments; none if an object serves the tool. It has no effect
    /// before it is made.
    ///
    /// # Errors
    /// What is wrong with which argument.
    fn own_call(_base: &Rc<Base<Self>>, _tool: &Tool, _given: &Map<String, Value>) -> Option<Result<OwnCall, String>> {
        None
    }

    /// Asks whether a call may run, and how far that consent reaches.
    ///
    /// # Errors
    /// What the person replied instead.
    async fn consent(runner: &Runner<Self>, ask: &Ask<'_>) -> Result<ConsentReach, Reply>;

    /// Asks for the passphrase for one call.
    async fn passphrase(runner: &Runner<Self>, ask: &Ask<'_>) -> Secret;

    /// Asks whether a turn in which the model was asked `calls` times continues for `more`.
    async fn go_on(runner: &Runner<Self>, calls: u32, more: u32) -> Answer;

    /// Asks whether a run whose budget is used up may use more, and how much. A surface that cannot ask allows nothing.
    async fn more(_runner: &Runner<Self>, _excess: &Excess) -> More {
        More::No
    }

    /// Shows something of a turn.
    async fn show(runner: &Runner<Self>, show: Show<'_>);
}

/// What a person fills in for a call.
#[allow(async_fn_in_trait)]
pub trait Form: 'static {
    /// The call as it is before, which says whether the given arguments are right.
    ///
    /// # Errors
    /// They are not those of the method.
    fn unfilled(&self, method: &MethodInfo, given: &Value) -> Result<Message, String>;

    /// Asks the person for what the call does not say.
    ///
    /// # Errors
    /// They gave none.
    async fn fill(&mut self, members: &mut Map<String, Value>) -> Result<(), String>;

    /// The call has been made.
    async fn done(self);
}

impl<S: Surface> Approver for Runner<S> {
    async fn consent(&self, ask: &Ask<'_>) -> Result<ConsentReach, Reply> {
        let asked = Asked::of(self, ask);
        let reply = S::consent(self, ask).await;
        asked.end(reply.is_ok());
        reply
    }

    async fn passphrase(&self, ask: &Ask<'_>) -> Secret {
        let asked = Asked::of(self, ask);
        let secret = S::passphrase(self, ask).await;
        asked.end(matches!(secret, Secret::Given(_)));
        secret
    }

    async fn go_on(&self, calls: u32, more: u32) -> Answer {
        S::go_on(self, calls, more).await
    }

    async fn more(&self, excess: &Excess) -> More {
        S::more(self, excess).await
    }
}

impl<S: Surface> Renderer for Runner<S> {
    async fn show(&self, show: Show<'_>) {
        if !self.is_child() {
            return S::show(self, show).await;
        }
        // Its answer is a result of its parent's call. Its calls and what it waits for are shown.
        let named = |name: &str| format!("{}{name}", self.whose());
        match show {
            Show::Text(_) | Show::CallPiece { .. } | Show::Loose { .. } => {}
            Show::State(RunState::WaitingForModel) => S::show(self, show).await,
            Show::State(_) => {}
            Show::Proposed { call_id, name, arguments } => {
                S::show(self, Show::Proposed { call_id, name: &named(name), arguments }).await;
            }
            Show::Finished { name, arguments, call_id, outcome, text } => {
                S::show(self, Show::Finished { name: &named(name), arguments, call_id, outcome, text }).await;
            }
            Show::Notice(text) => S::show(self, Show::Notice(&named(text))).await,
            show => S::show(self, show).await,
        }
    }
}
