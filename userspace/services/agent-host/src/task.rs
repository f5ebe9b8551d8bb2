//! A task: a turn of the session, told in events.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};

use capos_agent::TurnEnd;
use capos_client_protocol::event::{Cause, Event, TaskCompleted};
use capos_client_protocol::result::TaskStatus;
use capos_plural::count;
use capos_runner::Session;
use capos_runner::escape::plain;

use crate::client::{self, Client};
use crate::host;
use crate::shared::{Shared, Tools};

/// The tools that a session has now.
fn tools(session: &Session<Client>) -> Tools {
    let grants = session.runner.grants.all();
    let capability = |at: u64| usize::try_from(at).ok().and_then(|at| grants.get(at)).map(|grant| grant.name.clone());
    let tools = session.snapshot.tools().iter();
    tools.map(|tool| (tool.descriptor.name.clone(), capability(tool.capability).unwrap_or_default())).collect()
}

/// Runs a task until it ends or pauses: one with this prompt, or what is left of the last one.
pub async fn run(session: &mut Session<Client>, shared: &Rc<Shared>, prompt: Option<&str>) {
    let (status, (cause, message)) = match turn(session, shared, prompt).await {
        Ok(end) => (client::status(session.course.last()), told(end)),
        Err(why) => (None, (Cause::Failed, why)),
    };
    session.follow_fork().await;
    shared.set_conversation(&session.agent.conversation().id);
    shared.set_task(status.unwrap_or(TaskStatus::TaskFailed));
    shared.end_task();
    shared.set_status(host::status(session.course.session_state()));
    shared.tell(Event::TaskCompleted(TaskCompleted { cause, message: plain(&message) }));
    shared.leave_task();
    if session.runner.is_lost() {
        shared.end("the authority broker restarted and has forgotten this session; begin a new one");
    }
}

async fn turn(session: &mut Session<Client>, shared: &Rc<Shared>, prompt: Option<&str>) -> Result<TurnEnd, String> {
    session.refresh().await.map_err(|why| format!("this task cannot begin: {why}"))?;
    shared.set_tools(tools(session));
    session.runner.need_model().await;
    let Some(model) = session.runner.model.info() else {
        let why = session.runner.model.why_none();
        return Err(format!("this session has no model: {why}; /models at the console lists those that there are"));
    };
    if !model.supports_tools {
        return Err(format!("the model {} cannot call tools; choose another in the machine's settings", model.id));
    }
    Ok(match prompt {
        Some(prompt) => session.turn(prompt).await,
        None => {
            session.record("conversation.continued", &session.agent.conversation().id).await;
            session.go_on().await
        }
    })
}

/// How a turn ended, for a client and its person.
fn told(end: TurnEnd) -> (Cause, String) {
    match end {
        TurnEnd::Answered | TurnEnd::Off => (Cause::Answered, String::new()),
        TurnEnd::Interrupted | TurnEnd::Stopped => (Cause::Cancelled, String::new()),
        TurnEnd::Iterations(most) => {
            let text = format!(
                "this task has made {}, which is the limit; another prompt begins another task",
                count(most, "model call")
            );
            (Cause::Steps, text)
        }
        TurnEnd::Unanswered(most) => {
            let text = format!(
                "this task has made {}, and nobody answered whether it goes on; another prompt begins another task",
                count(most, "model call")
            );
            (Cause::Steps, text)
        }
        TurnEnd::Scheduled(calls) => (
            Cause::Limit,
            format!(
                "{} of this task did not end yet; ContinueTask looks again, and another prompt begins another task",
                count(calls, "call")
            ),
        ),
        TurnEnd::Unmet(why) => (Cause::Failed, why),
        TurnEnd::Evidence(bytes) => {
            let text = format!(
                "the calls of this task that needed no consent have written {} KiB to the audit log, which is the limit; \
                 another prompt begins another task",
                bytes / 1024
            );
            (Cause::Limit, text)
        }
        TurnEnd::SessionEvidence(bytes) => {
            let text = format!(
                "the calls of this session that needed no consent have written {} KiB to the audit log, which is the limit; \
                 begin a new session",
                bytes / 1024
            );
            (Cause::Limit, text)
        }
        TurnEnd::Tokens(why) => (Cause::Tokens, why),
        TurnEnd::Rate(why) | TurnEnd::Budget { why, .. } => (Cause::Limit, why),
        TurnEnd::Time(seconds) => {
            (Cause::Limit, format!("the session's time limit of {seconds} s is reached; begin a new session"))
        }
        TurnEnd::Policy => (
            Cause::Limit,
            "the session's policy has expired; ResumeSession renews it, and another prompt begins another task"
                .to_string(),
        ),
        TurnEnd::Repeated => (Cause::Failed, "the answer repeated itself and was ended".to_string()),
        TurnEnd::Away(why) => (
            Cause::Away,
            format!(
                "the model does not answer: {why}; ContinueTask asks it again, and another prompt begins another task"
            ),
        ),
        TurnEnd::Filtered => (
            Cause::LlmGuardrailBlocked,
            "the model's own content filter stopped the answer; ask in other words, or choose another model"
                .to_string(),
        ),
        TurnEnd::Model(why) => {
            (Cause::Failed, format!("the model gave no answer: {why}; another prompt asks it again"))
        }
        TurnEnd::Rejected(why) => {
            (Cause::Rejected, format!("the model gave no answer: {why}; a new session begins a new conversation"))
        }
        TurnEnd::Refused(why) => (Cause::Failed, why),
    }
}
