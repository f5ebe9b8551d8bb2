//! Runs that were cut off, as a later session finds them.

use alloc::format;
use alloc::string::{String, ToString};

use capos_agent::{Bounds, Conversation, Going};
use capos_run_state::{Checkpoint, RunState};
use capos_schema::conversations::{ConversationStoreClient, RunInfo, RunPoint};

use crate::runner::Runner;
use crate::session::Kept;
use crate::surface::Surface;

/// The last run of a saved conversation.
#[derive(Clone, Debug)]
pub enum Found {
    /// There is none that can be continued.
    Nothing,
    /// It continues where this says.
    Run(alloc::boxed::Box<Checkpoint>),
    /// It cannot be used, and was set aside: the message says what, where, and what to do.
    Aside(String),
}

/// Reads what a run left. What cannot be read is set aside.
async fn read<S: Surface>(
    runner: &Runner<S>,
    store: &ConversationStoreClient,
    id: &str,
    (turn, info): (u32, Result<RunInfo, String>),
) -> Found {
    let (turn, why) = match info {
        Ok(info) if info.turn == 0 || !info.open => return Found::Nothing,
        Ok(info) => match Checkpoint::read(&info.head, &info.json) {
            Ok(found) if found.turn == info.turn && found.principal == runner.info.principal => {
                return Found::Run(found.into());
            }
            Ok(_) => (info.turn, "it is of another turn or user".to_string()),
            Err(why) => (info.turn, why),
        },
        Err(why) => (turn, why),
    };
    let kept = match runner.audited(store.set_aside(id, turn, &why)).await {
        Ok(()) => "It was set aside and stays in the store",
        Err(_) => "It stays where it is",
    };
    let short = id.get(..8).unwrap_or(id);
    Found::Aside(format!(
        "the checkpoint of turn {turn} of conversation {short} cannot be used: {why}. {kept}; the messages are whole. \
         /continue begins a new run with them, and any other line a new request"
    ))
}

/// The run of a conversation's last turn.
pub async fn find<S: Surface>(
    runner: &Runner<S>,
    store: &ConversationStoreClient,
    conversation: &Conversation,
) -> Found {
    let info = runner.audited(store.run(&conversation.id)).await;
    match read(runner, store, &conversation.id, (conversation.last_turn(), info)).await {
        Found::Run(found) if found.turn != conversation.last_turn() => Found::Nothing,
        found => found,
    }
}

/// A conversation of the store, to be continued with its run.
pub fn kept(conversation: Conversation, found: &Found) -> Kept {
    let saved = conversation.entries().len();
    let run = match found {
        Found::Run(checkpoint) => {
            Some((Going::of(checkpoint, Bounds::default().failures), checkpoint.conditions.clone()))
        }
        Found::Nothing | Found::Aside(_) => None,
    };
    Kept { conversation, saved, run }
}

/// Ends a run that can be continued: nothing continues it.
///
/// # Errors
/// It cannot be continued already, or the store does not answer.
pub async fn cancel<S: Surface>(
    runner: &Runner<S>,
    store: &ConversationStoreClient,
    info: &RunInfo,
) -> Result<(), String> {
    if !info.open {
        return Err("this run has ended already".to_string());
    }
    let mut checkpoint = Checkpoint::read(&info.head, &info.json)?;
    checkpoint.progress.state = RunState::Cancelled;
    let (turn, step) = (info.turn, checkpoint.progress.step);
    let point = RunPoint { turn, step, json: checkpoint.point(), ..RunPoint::default() };
    runner.audited(store.checkpoint(&info.conversation, &point)).await
}
