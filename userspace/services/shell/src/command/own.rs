//! Calls of the person: at the same gate as those of a model, and with the same records.

use alloc::format;
use alloc::string::{String, ToString};

use capos_agent::world::{Host as _, Tools as _};
use capos_agent::{Brought, Tool};
use capos_rt::{Either, select};
use capos_schema::authority::Label;
use capos_schema::cap::CallError;
use capos_schema::models::Outcome;
use capos_schema::terminal::Style;
use serde_json::{Value, json};

use super::Done;
use crate::escape::plain;
use crate::session::Session;
use crate::table;

/// Makes a call of a tool that is the person's alone, however long it takes; Ctrl-C ends it if it can be aborted.
/// None if it was not permitted: the person has been told why.
///
/// # Errors
/// The session has no such tool, the call failed, or Ctrl-C ended it; `after` says what then holds.
pub async fn attend<T>(
    session: &Session,
    (name, arguments): (&str, &Value),
    call: impl Future<Output = Result<T, CallError>>,
    after: &str,
) -> Result<Option<T>, String> {
    let tool = tool(session, name)?;
    let Some(begun) = session.agent.begin_direct(&tool, arguments.to_string()).await else { return Ok(None) };
    // What cannot be aborted ends whatever is typed meanwhile, and the record says how.
    let interrupt = async {
        if !tool.descriptor.abortable {
            core::future::pending::<()>().await;
        }
        session.runner.interrupt().await;
    };
    match select(call, interrupt).await {
        Either::First(Ok(done)) => {
            begun.finish(Outcome::Ok, "").await;
            Ok(Some(done))
        }
        Either::First(Err(error)) => {
            let why = plain(&error.to_string()).to_string();
            begun.finish(Outcome::ExecutionError, &why).await;
            Err(why)
        }
        Either::Second(()) => {
            begun.finish(Outcome::Cancelled, "the person pressed Ctrl-C").await;
            Err(format!("interrupted; {after}"))
        }
    }
}

/// `/poweroff`. It comes back only if the machine stays on, or the call was not permitted: the person has been told why.
pub async fn power_off(session: &Session) -> Done {
    const NAME: &str = "power_off";
    let (tool, nothing) = (tool(session, NAME)?, json!({}));
    let (prepared, _) = session.runner.prepare(&tool, &nothing.to_string(), &Label::default())?;
    let call = async {
        session.runner.screen.line(Style::Success, "The machine turns itself off.").await;
        session.runner.invoke(&tool, prepared, None).await.map_err(CallError::failed)
    };
    attend(session, (NAME, &nothing), call, "the machine is still on").await.map(|_| ())
}

/// A tool of the session, whether the model is offered it or not.
fn tool(session: &Session, name: &str) -> Result<Tool, String> {
    let tool = table::own(&session.runner.grants.all(), name);
    tool.ok_or_else(|| format!("this session cannot do that: it has no tool {name}"))
}

/// Calls a tool that models can have too, and shows what it brought. False if it was not permitted: the person has been told why.
///
/// # Errors
/// The session has no such tool, or the call failed.
pub async fn call(session: &Session, name: &str, arguments: &Value) -> Result<bool, String> {
    let Some(brought) = result(session, name, arguments, &Label::default()).await? else { return Ok(false) };
    session.runner.screen.line(Style::Success, &brought.text).await;
    Ok(true)
}

/// Calls a tool that models can have too, with data of this label. None if it was not permitted: the person has been told why.
///
/// # Errors
/// The session has no such tool, or the call failed.
pub async fn result(
    session: &Session,
    name: &str,
    arguments: &Value,
    label: &Label,
) -> Result<Option<Brought>, String> {
    let tool = &tool(session, name)?;
    let runner = &session.runner;
    let (prepared, arguments) = runner.prepare(tool, &arguments.to_string(), label)?;
    let Some(begun) = session.agent.begin_direct(tool, arguments).await else { return Ok(None) };
    // A change that was shown is made, or none.
    let prepared = runner.observe(tool, &begun.call(), prepared).await;
    match runner.invoke(tool, prepared, None).await {
        Ok(brought) => {
            begun.finish(Outcome::Ok, &brought.text).await;
            Ok(Some(brought))
        }
        Err(why) => {
            begun.finish(Outcome::ExecutionError, &why).await;
            Err(why)
        }
    }
}
