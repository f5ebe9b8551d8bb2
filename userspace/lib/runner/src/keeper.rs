//! Saving the conversation, message by message.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_agent::Conversation;
use capos_agent::world::{Host, Keeper};
use capos_run_state::Checkpoint;
use capos_schema::authority::Profile;
use capos_schema::conversations::{ConversationStoreClient, MessagePart, RunPoint};
use capos_schema::terminal::Style;

use crate::escape::plain;
use crate::runner::Runner;
use crate::surface::Surface;

/// Bytes of a part of a message.
const PART: usize = 64 << 10;
/// The capability's name in a session.
const NAME: &str = "conversations";
/// What a session does with its conversations' store.
pub const PURPOSE: &str = "save conversations";

/// How far the conversation at the prompt is saved.
#[derive(Debug, Default)]
pub struct Saving {
    /// The id below which it is saved: that of a fork, after another session has continued it.
    id: RefCell<String>,
    saved: Cell<usize>,
    /// The turn in which it could not be saved; then it is tried again in the next one.
    failed: Cell<Option<u32>>,
    /// The turn whose run has its head below the id.
    head: Cell<u32>,
    /// A checkpoint could not be written; the person was told.
    unkept: Cell<bool>,
}

impl Saving {
    /// Another conversation, of which this many messages are saved.
    pub fn begin(&self, conversation: &str, saved: usize) {
        *self.id.borrow_mut() = conversation.to_string();
        self.saved.set(saved);
        self.failed.set(None);
        self.head.set(0);
    }

    /// What is written of a run. Its messages are those that are saved once it is there.
    fn point(&self, run: &(Checkpoint, bool), saved: usize, messages: usize, at: u64) -> RunPoint {
        let (mut checkpoint, open) = run.clone();
        let (saved, messages) = (u32::try_from(saved).unwrap_or(u32::MAX), u32::try_from(messages).unwrap_or(u32::MAX));
        checkpoint.progress.messages.1 = saved;
        checkpoint.progress.missing = messages.saturating_sub(saved);
        checkpoint.progress.at = at;
        if !open {
            // The store removes the head with this point. So a run that is continued begins with its head again.
            self.head.set(0);
        }
        let is_new = self.head.get() != checkpoint.turn && open;
        let (turn, step) = (checkpoint.turn, checkpoint.progress.step);
        let head = if is_new { checkpoint.head() } else { String::new() };
        let used = if step > 0 { checkpoint.step() } else { String::new() };
        RunPoint { turn, step, open, head, json: checkpoint.point(), used }
    }

    /// A point of this run is in the store, and its head, if it is open.
    fn kept(&self, (checkpoint, open): &(Checkpoint, bool)) {
        if *open {
            self.head.set(checkpoint.turn);
        }
    }

    /// The id below which it is saved.
    pub fn id(&self) -> String {
        self.id.borrow().clone()
    }

    /// How many messages are saved.
    pub fn saved(&self) -> usize {
        self.saved.get()
    }
}

/// Where the messages of a child run are kept: as an attachment of its parent's conversation.
pub struct Beneath {
    conversation: String,
    name: String,
    parts: Cell<u32>,
    failed: Cell<bool>,
}

impl Beneath {
    /// Below this name of a conversation.
    pub fn new(conversation: String, name: String) -> Self {
        Self { conversation, name, parts: Cell::new(0), failed: Cell::new(false) }
    }
}

/// Adds a message with the point of its run: twice if the first answer is lost, and then without the point, for the store may
/// have rejected only that. Returns whether the point is kept.
///
/// # Errors
/// The first error, if the message is not added.
async fn added<E>(mut add: impl AsyncFnMut(&RunPoint) -> Result<(), E>, point: &RunPoint) -> Result<bool, E> {
    let Err(first) = add(point).await else { return Ok(true) };
    if add(point).await.is_ok() {
        return Ok(true);
    }
    let none = RunPoint::default();
    if *point != none && add(&none).await.is_ok() {
        return Ok(false);
    }
    Err(first)
}

/// The parts of a message.
fn parts(index: u32, json: &str) -> Vec<MessagePart> {
    let (mut parts, mut rest) = (Vec::new(), json);
    for part in 0.. {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PART));
        rest = after;
        parts.push(MessagePart { index, part, last: rest.is_empty(), json: piece.to_string() });
        if rest.is_empty() {
            break;
        }
    }
    parts
}

/// Parts of a text, each of as many bytes as a part may have.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    core::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(PART));
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

impl<S: Surface> Runner<S> {
    /// Whether this session is one that saves nothing: a guest's, or one that has put the capability for it away.
    pub(crate) fn saves_nothing(&self) -> bool {
        let meant = self.info.profile != Profile::Operator || self.grants.dropped.borrow().contains(NAME);
        meant && self.grants.find::<ConversationStoreClient>(PURPOSE).is_err()
    }

    /// Adds a text to an attachment of a conversation, from this part on. Returns the next part.
    async fn attach(&self, id: &str, (name, about): (&str, &str), from: u32, text: &str) -> Result<u32, String> {
        let store = self.grants.find::<ConversationStoreClient>(PURPOSE)?;
        let mut next = from;
        for piece in pieces(text) {
            // Again if the first answer is lost: what is there already is accepted.
            if let Err(why) = self.audited(store.attach(id, name, about, next, piece)).await
                && self.audited(store.attach(id, name, about, next, piece)).await.is_err()
            {
                return Err(why);
            }
            next = next.saturating_add(1);
        }
        Ok(next)
    }

    /// Keeps the new messages of a child run, a line each.
    async fn save_child(&self, beneath: &Beneath, conversation: &Conversation) {
        for entry in conversation.entries().iter().skip(self.saving.saved()) {
            if beneath.failed.get() {
                return;
            }
            let text = format!("{}\n", entry.dump());
            match self.attach(&beneath.conversation, (&beneath.name, ""), beneath.parts.get(), &text).await {
                Ok(parts) => beneath.parts.set(parts),
                Err(why) => {
                    beneath.failed.set(true);
                    let text = format!("the messages of this child run are not saved: {}; it goes on", plain(&why));
                    self.tell(Style::Warning, &text).await;
                }
            }
            self.saving.saved.set(self.saving.saved().saturating_add(1));
        }
    }

    /// Whether the conversation has messages of another session in place of those that are not saved.
    async fn is_taken(&self, store: &ConversationStoreClient, id: &str) -> bool {
        let saved = self.saving.saved();
        let found = self.audited(store.info(id)).await;
        found.is_ok_and(|info| usize::try_from(info.messages).is_ok_and(|messages| messages > saved))
    }

    /// Continues in a fork of the messages that are saved: another session has continued the conversation.
    async fn fork(&self, store: &ConversationStoreClient, id: &str) -> Result<(), String> {
        let fork = hex::encode(self.random());
        let saved = u32::try_from(self.saving.saved()).map_err(|_| "the conversation is too long".to_string())?;
        self.audited(store.fork(id, saved, &fork, "")).await?;
        *self.saving.id.borrow_mut() = fork;
        self.saving.head.set(0);
        let text =
            "another session has continued this conversation; here it goes on as a fork, and /conversations lists both";
        self.tell(Style::Warning, text).await;
        Ok(())
    }

    /// Saves the messages that are not saved yet, the last one with the point of its run. Returns whether the point is kept.
    async fn save_rest(&self, conversation: &Conversation, run: Option<&(Checkpoint, bool)>) -> Result<bool, String> {
        let store = self.grants.find::<ConversationStoreClient>(PURPOSE)?;
        if self.saving.saved() == 0 {
            self.audited(store.create(&self.saving.id(), "")).await?;
        }
        let (messages, mut is_kept) = (conversation.entries().len(), true);
        for (index, entry) in conversation.entries().iter().enumerate().skip(self.saving.saved()) {
            let run = run.filter(|_| index.saturating_add(1) == messages);
            let point = || run.map(|run| self.saving.point(run, messages, messages, self.unix())).unwrap_or_default();
            let number = u32::try_from(index).map_err(|_| "the conversation is too long".to_string())?;
            let parts = parts(number, &entry.dump());
            let id = self.saving.id();
            let add = async |id: &str| {
                added(async |point| self.append(&store, id, &parts, (&entry.model, point)).await, &point()).await
            };
            is_kept = match add(&id).await {
                Ok(is_kept) => is_kept,
                Err(_) if self.is_taken(&store, &id).await => {
                    self.fork(&store, &id).await?;
                    add(&self.saving.id()).await?
                }
                Err(why) => return Err(why),
            };
            self.saving.saved.set(index.saturating_add(1));
            if let Some(run) = run.filter(|_| is_kept) {
                self.saving.kept(run);
            }
        }
        Ok(is_kept)
    }

    /// Keeps where a run is without a message: there is none, or it could not be saved. The messages that are saved stay its
    /// messages, so a conversation of any length has a checkpoint of the same size.
    async fn save_point(&self, conversation: &Conversation, run: &(Checkpoint, bool)) -> Result<(), String> {
        let store = self.grants.find::<ConversationStoreClient>(PURPOSE)?;
        let (saved, messages) = (self.saving.saved(), conversation.entries().len());
        let point = self.saving.point(run, saved, messages, self.unix());
        self.audited(store.checkpoint(&self.saving.id(), &point)).await?;
        self.saving.kept(run);
        Ok(())
    }

    /// Milliseconds since 1970; 0 if that is not known.
    fn unix(&self) -> u64 {
        self.clock.wall_clock().unwrap_or_default()
    }

    /// Adds a message.
    async fn append(
        &self,
        store: &ConversationStoreClient,
        id: &str,
        parts: &[MessagePart],
        (model, point): (&str, &RunPoint),
    ) -> Result<(), String> {
        for part in parts {
            let none = RunPoint::default();
            self.audited(store.append(id, part, model, if part.last { point } else { &none })).await?;
        }
        Ok(())
    }
}

impl<S: Surface> Keeper for Runner<S> {
    async fn keep(&self, name: &str, about: &str, text: &str) -> Result<bool, String> {
        if self.saves_nothing() {
            return Ok(false);
        }
        let (id, name) = match &self.beneath {
            Some(beneath) => (beneath.conversation.clone(), format!("{}.{name}", beneath.name)),
            None => (self.saving.id(), name.to_string()),
        };
        let kept = self.attach(&id, (&name, about), 0, text).await;
        kept.map(|_| true).map_err(|why| plain(&why).to_string())
    }

    async fn save(&self, conversation: &Conversation, run: Option<(&Checkpoint, bool)>) -> bool {
        if self.saves_nothing() {
            return false;
        }
        // Of a child run its parent's checkpoint tells.
        if let Some(beneath) = &self.beneath {
            self.save_child(beneath, conversation).await;
            return false;
        }
        let run = run.map(|(checkpoint, open)| (checkpoint.clone(), open));
        let turn = conversation.last_turn();
        let is_all_saved = self.saving.saved() == conversation.entries().len();
        // What could not be saved in this turn is tried again in the next one.
        if !is_all_saved && self.saving.failed.get() != Some(turn) {
            match (self.save_rest(conversation, run.as_ref()).await, self.saving.failed.get()) {
                (Ok(true), None) => return true,
                // The message is saved and the point is not, which is told below.
                (Ok(false), None) => {}
                (Ok(is_kept), Some(_)) => {
                    self.saving.failed.set(None);
                    self.tell(Style::Dim, "the conversation is saved again").await;
                    if is_kept {
                        return true;
                    }
                }
                (Err(why), earlier) => {
                    self.saving.failed.set(Some(turn));
                    if earlier.is_none() {
                        let text = format!("this conversation is not saved: {}; the session continues", plain(&why));
                        self.tell(Style::Warning, &text).await;
                    }
                }
            }
        }
        // A run of a conversation that was never saved has no place.
        let Some(run) = run.filter(|_| self.saving.saved() > 0) else { return false };
        let found = self.save_point(conversation, &run).await;
        let is_kept = found.is_ok();
        match found {
            Ok(()) => self.saving.unkept.set(false),
            // The next point tries again, and the run continues meanwhile.
            Err(why) if !self.saving.unkept.replace(true) && self.saving.failed.get() != Some(turn) => {
                let text = format!("no checkpoint of this run is written: {}; the run continues", plain(&why));
                self.tell(Style::Warning, &text).await;
            }
            Err(_) => {}
        }
        is_kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_are_the_message(letter in prop_oneof!["x", "é", "日"], count in 0_usize..150_000) {
            let text = letter.repeat(count);
            let parts = parts(7, &text);
            prop_assert!(parts.iter().all(|part| part.index == 7 && part.json.len() <= PART));
            let last: Vec<bool> = parts.iter().map(|part| part.last).collect();
            prop_assert_eq!(last.iter().position(|last| *last), Some(parts.len() - 1));
            prop_assert_eq!(parts.iter().map(|part| part.json.as_str()).collect::<String>(), text);
        }
    }

    /// Requirement F17: a point without messages says how many are missing, and the head comes once.
    #[test]
    fn f17_a_point_names_the_messages_that_could_not_be_saved() {
        let saving = Saving::default();
        let mut checkpoint = Checkpoint { conversation: "c1".into(), turn: 2, ..Checkpoint::default() };
        (checkpoint.progress.step, checkpoint.progress.messages) = (3, (4, 9));
        let run = (checkpoint, true);
        let point = saving.point(&run, 7, 9, 5);
        let read = Checkpoint::read(&point.head, &point.json).unwrap().progress;
        assert_eq!((read.messages, read.missing, read.at), ((4, 7), 2, 5));
        assert_eq!((point.turn, point.step, point.open), (2, 3, true));
        saving.head.set(2);
        let point = saving.point(&run, 9, 9, 5);
        assert!(point.head.is_empty() && !point.used.is_empty());
        saving.begin("c2", 0);
        assert!(!saving.point(&run, 9, 9, 5).head.is_empty());
    }

    /// The store removes the head of a run that is closed, so the point that opens it again comes with it.
    #[test]
    fn a_run_that_is_closed_and_continued_has_its_head_again() {
        let saving = Saving::default();
        let run = (Checkpoint { turn: 2, ..Checkpoint::default() }, true);
        saving.kept(&run);
        assert!(saving.point(&run, 1, 1, 5).head.is_empty());
        let closed = (run.0.clone(), false);
        assert!(saving.point(&closed, 1, 1, 5).head.is_empty());
        saving.kept(&closed);
        assert!(!saving.point(&run, 1, 1, 5).head.is_empty());
    }

    /// Adds to a store that does not answer at these attempts, and rejects points if it `rejects` them. Returns what came of it
    /// and the attempts with a point, and all attempts.
    fn add(point: &RunPoint, lost: &[usize], rejects: bool) -> (Result<bool, usize>, usize, usize) {
        let (with, all) = (Cell::new(0), Cell::new(0));
        let attempt = async |point: &RunPoint| {
            all.set(all.get() + 1);
            let has_point = *point != RunPoint::default();
            with.set(with.get() + usize::from(has_point));
            if lost.contains(&all.get()) || (rejects && has_point) { Err(all.get()) } else { Ok(()) }
        };
        let mut added = core::pin::pin!(added(attempt, point));
        let core::task::Poll::Ready(result) =
            added.as_mut().poll(&mut core::task::Context::from_waker(core::task::Waker::noop()))
        else {
            panic!("it waits for nothing");
        };
        (result, with.get(), all.get())
    }

    /// A point that the store rejects does not keep a message out of the conversation.
    #[test]
    fn a_message_is_saved_though_its_point_is_rejected() {
        let point = RunPoint { turn: 1, ..RunPoint::default() };
        assert_eq!(add(&point, &[], false), (Ok(true), 1, 1));
        assert_eq!(add(&point, &[1], false), (Ok(true), 2, 2));
        assert_eq!(add(&point, &[], true), (Ok(false), 2, 3));
        assert_eq!(add(&point, &[1, 2, 3], false), (Err(1), 2, 3));
        assert_eq!(add(&RunPoint::default(), &[1, 2], false), (Err(1), 0, 2), "there is nothing else to try");
    }
}
