//! `/until`: what has to hold before the next run is done.

use alloc::format;
use alloc::string::{String, ToString};

use capos_agent::world::Tools as _;
use capos_plural::count;
use capos_run_state::Predicate;
use capos_schema::authority::Label;
use capos_schema::models::Outcome;
use capos_schema::terminal::Style;
use serde_json::{Value, json};

use super::{Done, refreshed};
use crate::escape::escape;
use crate::session::Session;
use crate::table;

/// How many conditions one run may have.
const MOST: usize = 8;

pub async fn until(session: &mut Session, text: &str) -> Done {
    match text.trim() {
        "" => list(session).await,
        "off" => {
            let conditions = core::mem::take(&mut session.conditions);
            let text = format!("{} removed", count(conditions.len(), "condition"));
            session.runner.screen.line(Style::Dim, &text).await;
            Ok(())
        }
        text => declare(session, text).await,
    }
}

async fn list(session: &Session) -> Done {
    let screen = &session.runner.screen;
    if session.conditions.is_empty() {
        let text = "the next run has no condition: it is done when the model has nothing more to do";
        screen.line(Style::Plain, text).await;
    }
    for condition in &session.conditions {
        let text = format!("  {}", escape(&condition.predicate().to_string()));
        screen.wrapped(&[(Style::Plain, &text)]).await;
    }
    Ok(())
}

async fn declare(session: &mut Session, text: &str) -> Done {
    let predicate = Predicate::parse(text)?;
    if session.conditions.len() >= MOST {
        return Err(format!("a run has at most {MOST} conditions; /until off removes them"));
    }
    refreshed(session).await?;
    let schema = match &predicate {
        Predicate::Matches { schema, .. } => {
            let text = read(session, schema).await?;
            capos_reflect::parse(&text).map_err(|bad| format!("{} is no JSON Schema: {bad}", escape(schema)))?
        }
        Predicate::Exists { .. } | Predicate::Check { .. } => Value::Null,
    };
    let grants = session.runner.grants.all();
    let tool = predicate.call().and_then(|(name, _)| table::own(&grants, name));
    let is_program = matches!(predicate, Predicate::Check { .. });
    let condition = session.agent.declare(&session.conditions, predicate, tool, schema).await?;
    let shown = escape(&condition.predicate().to_string()).to_string();
    session.conditions.push(condition);
    let more = if is_program {
        "; the program runs, with these arguments, whenever the model has nothing more to do"
    } else {
        ""
    };
    let text = format!("your next request is done when `{shown}` holds{more}");
    session.runner.screen.wrapped(&[(Style::Dim, &text)]).await;
    Ok(())
}

/// A file of the home directory, whole: it is read as the model would read it, with a record.
async fn read(session: &Session, path: &str) -> Result<String, String> {
    let tool = table::own(&session.runner.grants.all(), "read_file");
    let tool = tool.ok_or("this session cannot read files: it has no tool read_file")?;
    let arguments = json!({ "path": path }).to_string();
    let (prepared, arguments) = session.runner.prepare(&tool, &arguments, &Label::default())?;
    let Some(begun) = session.agent.begin_direct(&tool, arguments).await else {
        return Err("reading the schema was not permitted".to_string());
    };
    match session.runner.invoke(&tool, prepared, None).await {
        Ok(brought) => {
            begun.finish(Outcome::Ok, "").await;
            let is_whole = brought.of.is_none_or(|(start, bytes)| start == 0 && bytes == brought.text.len() as u64);
            if is_whole { Ok(brought.text) } else { Err(format!("{} is longer than is read at once", escape(path))) }
        }
        Err(why) => {
            begun.finish(Outcome::ExecutionError, &why).await;
            Err(format!("{}: {why}", escape(path)))
        }
    }
}
