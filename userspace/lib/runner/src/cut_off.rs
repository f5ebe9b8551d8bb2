//! Runs that were cut off, as a later session finds them.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};

use capos_agent::{Bounds, Conversation, Going};
use capos_budget::Amounts;
use capos_run_state::{Checkpoint, RunState};
use capos_schema::conversations::{ConversationStoreClient, RunInfo, RunPoint};
use capos_schema::terminal::Style;

use crate::budget::amounts;
use crate::runner::Runner;
use crate::session::Kept;
use crate::surface::Surface;

/// The last run of a saved conversation.
#[derive(Clone, Debug)]
pub enum Found {
    /// There is none that can be continued.
    Nothing,
    /// It continues where this says.
    Run(Box<Checkpoint>),
    /// It cannot be used, and was set aside: the message says what, where, and what to do.
    Aside(String),
}

/// What the store has of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    Run(Box<Checkpoint>),
    /// It cannot be used, and why. The store does not know that yet.
    Useless(u32, String),
    /// It cannot be used, as the store says.
    Aside(u32, String),
}

/// What the answer of the store says of a conversation's last run. `last` is its last turn.
fn left(info: &RunInfo, last: u32, principal: &str) -> Left {
    if !info.aside.is_empty() {
        // Of a record that cannot be read, the turn is not known.
        return if info.turn == 0 || info.turn == last { Left::Aside(last, info.aside.clone()) } else { Left::Nothing };
    }
    if info.turn == 0 || !info.open {
        return Left::Nothing;
    }
    match Checkpoint::read(&info.head, &info.json) {
        Ok(found) if found.turn != info.turn || found.principal != principal => {
            Left::Useless(info.turn, "it is of another turn or user".to_string())
        }
        Ok(found) if found.turn == last => Left::Run(found.into()),
        Ok(_) => Left::Nothing,
        Err(why) => Left::Useless(info.turn, why),
    }
}

/// Begins a run with the broker and pauses it at once. So it is known that it runs in no other session, which would do each of
/// its calls too. Returns what it has used, if the broker tells.
///
/// # Errors
/// It still runs in another session, or the broker does not answer.
async fn take<S: Surface>(runner: &Runner<S>, conversation: &str, turn: u32) -> Result<Option<Amounts>, String> {
    let begun = runner.within(runner.user.begin_run(conversation, turn, 0, 0, &[])).await;
    let begun = begun.map_err(|why| format!("{why}. Nothing of it was changed"))?;
    // A run whose budget is used up has none to look at, and says so when it continues.
    let Some(run) = begun.run else { return Ok(None) };
    let used = runner.within(run.used()).await.ok().map(|found| amounts(&found.used));
    let notices = runner.within(run.end("looked at, to be continued", false)).await.map_err(|why| why.to_string())?;
    for notice in notices {
        runner.tell(Style::Warning, &notice).await;
    }
    Ok(used)
}

/// Counts what the broker knows of a run's use where that is more: it has counted the step in which the run was cut off.
fn count_known(checkpoint: &mut Checkpoint, known: Amounts) {
    checkpoint.progress.used = checkpoint.progress.used.most(known);
}

/// The run of a conversation's last turn. What cannot be used is set aside.
///
/// # Errors
/// The run still runs in another session, or the store or the broker does not answer. What they hold stays unchanged.
pub async fn find<S: Surface>(
    runner: &Runner<S>,
    store: &ConversationStoreClient,
    conversation: &Conversation,
) -> Result<Found, String> {
    let id = &conversation.id;
    let info = runner.audited(store.run(id)).await;
    let info =
        info.map_err(|why| format!("the checkpoint of its run was not read: {why}. It stays as it is; try again"))?;
    let mut found = left(&info, conversation.last_turn(), &runner.info.principal);
    match &mut found {
        Left::Run(found) => {
            let used = take(runner, &found.conversation, found.turn).await?;
            count_known(found, used.unwrap_or_default());
        }
        _ if conversation.is_answered() => {}
        // Its calls without a result would be told as not run.
        _ => drop(take(runner, id, conversation.last_turn()).await?),
    }
    let (turn, why, kept) = match found {
        Left::Nothing => return Ok(Found::Nothing),
        Left::Run(found) => return Ok(Found::Run(found)),
        Left::Aside(turn, why) => (turn, why, "It stays where it is until another run of this turn begins"),
        Left::Useless(turn, why) => {
            let is_aside = runner.audited(store.set_aside(id, turn, &why)).await.is_ok();
            let kept = match is_aside {
                true => "It was set aside, and stays in the store until another run of this turn begins",
                false => "It stays where it is until another run of this turn begins",
            };
            (turn, why, kept)
        }
    };
    let short = id.get(..8).unwrap_or(id);
    Ok(Found::Aside(format!(
        "the checkpoint of turn {turn} of conversation {short} cannot be used: {why}. {kept}; the messages are whole. \
         /continue begins a new run with them, and any other line a new request"
    )))
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
/// It cannot be continued already, it still runs in another session, or the store does not answer.
pub async fn cancel<S: Surface>(
    runner: &Runner<S>,
    store: &ConversationStoreClient,
    info: &RunInfo,
) -> Result<(), String> {
    if !info.open {
        return Err("this run has ended already".to_string());
    }
    let mut checkpoint = Checkpoint::read(&info.head, &info.json)?;
    take(runner, &checkpoint.conversation, checkpoint.turn).await?;
    checkpoint.progress.state = RunState::Cancelled;
    let (turn, step) = (info.turn, checkpoint.progress.step);
    let point = RunPoint { turn, step, json: checkpoint.point(), ..RunPoint::default() };
    runner.audited(store.checkpoint(&info.conversation, &point)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_budget::Dimension;

    fn checkpoint() -> Checkpoint {
        let (conversation, principal) = ("c1".to_string(), "ada".to_string());
        Checkpoint { conversation, principal, turn: 2, ..Checkpoint::default() }
    }

    fn info() -> RunInfo {
        let found = checkpoint();
        RunInfo { turn: 2, open: true, head: found.head(), json: found.point(), ..RunInfo::default() }
    }

    #[test]
    fn a_run_is_continued_only_if_all_of_it_can_be_used() {
        let of = |info: &RunInfo| left(info, 2, "ada");
        assert_eq!(of(&info()), Left::Run(checkpoint().into()));
        assert_eq!(of(&RunInfo { open: false, ..info() }), Left::Nothing);
        assert_eq!(of(&RunInfo::default()), Left::Nothing);
        assert_eq!(left(&info(), 3, "ada"), Left::Nothing, "another request came after it");
        for bad in [RunInfo { head: String::new(), ..info() }, RunInfo { turn: 1, ..info() }] {
            assert!(matches!(of(&bad), Left::Useless(..)), "{bad:?}");
        }
        assert!(matches!(left(&info(), 2, "eve"), Left::Useless(..)));
    }

    /// The person is told of, and the run continues with, no less than the broker has counted.
    #[test]
    fn what_a_run_used_when_it_was_cut_off_is_the_brokers_to_say() {
        let of = |steps, tokens| Amounts::of(Dimension::Steps, steps).with(Dimension::Tokens, tokens);
        let mut found = checkpoint();
        found.progress.used = of(2, 40);
        count_known(&mut found, of(3, 0));
        assert_eq!(found.progress.used, of(3, 40));
        count_known(&mut found, Amounts::default());
        assert_eq!(found.progress.used, of(3, 40));
    }

    /// Nothing is written over a record that the store cannot read.
    #[test]
    fn what_the_store_cannot_read_stays_as_it_is() {
        let damaged = RunInfo { aside: "the record of a run cannot be read".into(), ..RunInfo::default() };
        assert_eq!(left(&damaged, 2, "ada"), Left::Aside(2, damaged.aside.clone()));
        assert_eq!(left(&RunInfo { turn: 1, ..damaged }, 2, "ada"), Left::Nothing);
    }
}
