//! What a model can make the audit log keep.
//!
//! The log is bounded and never forgets, so filling it stops the system. What a person agreed to, and what ran, is
//! recorded whole. What a model merely proposed is recorded by its beginning, its length and its hash. Bounds hold for what
//! one turn leaves there without a person's word, and for what all turns of a session do. That is the records of the calls,
//! the broker's of its decisions on them, and those of the messages: the model's answers and the calls' results.
//! If many calls of one answer are refused, the last of them are recorded together.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_schema::audit::{GeneralEvent, Phase, ToolEvent};
use capos_schema::models::{Outcome, ToolCall};
use sha2::{Digest, Sha256};

use crate::agent::Session;
use crate::conversation::hex;
use crate::world::field;

/// Bytes of arguments in the record of a call that does not run; the audit log takes no more.
const EXCERPT: usize = 2048;
/// What a record has besides its texts: member names, numbers, hashes, punctuation.
const FRAME: usize = 1024;
/// The same of a record that is not about a tool call, for each of its fields besides.
const GENERAL_FRAME: usize = 512;
const FIELD_FRAME: usize = 32;
/// The broker's reason for a decision in its record, at most, with the rest of what it writes there.
const RULING: usize = 1024;

/// The length and the hash of arguments that were longer than what is kept of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    pub bytes: u64,
    pub hash: [u8; 32],
}

/// Cuts the arguments of a record down to an excerpt. `received` tells of the whole where the event itself holds only
/// its beginning.
pub fn excerpt(event: &mut ToolEvent, received: Option<Whole>) {
    if event.phase != Phase::Refused || (event.arguments.len() <= EXCERPT && received.is_none()) {
        return;
    }
    let whole = received.unwrap_or_else(|| Whole {
        bytes: event.arguments.len() as u64,
        hash: Sha256::digest(event.arguments.as_bytes()).into(),
    });
    event.arguments.truncate(event.arguments.floor_char_boundary(EXCERPT));
    event.arguments_bytes = whole.bytes;
    event.arguments_hash = whole.hash.to_vec();
}

/// Bytes of the record's line, or a little more.
pub fn size(event: &ToolEvent) -> usize {
    let descriptor = &event.descriptor;
    let texts = [
        &event.session,
        &event.principal,
        &event.conversation,
        &event.call_id,
        &event.model_id,
        &event.backend,
        &event.arguments,
        &event.error,
        &event.reason,
        &descriptor.name,
        &descriptor.description,
        &descriptor.method_name,
        &descriptor.param_schema,
        &descriptor.category,
        &descriptor.handle,
    ];
    let lists = event.label.classes.iter().chain(&event.advertised);
    let all = texts.into_iter().chain(lists).map(|text| written(text).saturating_add(3));
    all.fold(FRAME, usize::saturating_add)
}

/// Bytes of the line of a record that is not about a tool call, or a little more.
pub fn general_size(event: &GeneralEvent) -> usize {
    let texts = [&event.kind, &event.session, &event.principal];
    let fields = event.fields.iter().flat_map(|field| [&field.name, &field.value]);
    let frames = GENERAL_FRAME.saturating_add(event.fields.len().saturating_mul(FIELD_FRAME));
    texts.into_iter().chain(fields).map(|text| written(text)).fold(frames, usize::saturating_add)
}

/// Bytes of the line in which the broker says what it decided on this call, or a little more.
pub fn ruling_size(event: &ToolEvent) -> usize {
    let descriptor = &event.descriptor;
    let texts = [
        &event.session,
        &event.principal,
        &event.conversation,
        &event.call_id,
        &descriptor.name,
        &descriptor.method_name,
    ];
    texts.into_iter().map(|text| written(text)).fold(GENERAL_FRAME.saturating_add(RULING), usize::saturating_add)
}

/// Bytes of a text inside a JSON string.
fn written(text: &str) -> usize {
    let letter = |letter: char| match letter {
        '"' | '\\' | '\u{8}' | '\u{c}' | '\n' | '\r' | '\t' => 2,
        '\0'..='\u{1f}' => 6,
        _ => letter.len_utf8(),
    };
    text.chars().map(letter).sum()
}

/// What may still be left in the log without a person's word: of one turn, and of all turns of its session.
#[derive(Debug)]
pub struct Allowance {
    left: Cell<usize>,
    session: Rc<Cell<usize>>,
}

impl Allowance {
    /// This many bytes, and no more than are left of the session's.
    pub fn new(bytes: usize, session: &Rc<Cell<usize>>) -> Self {
        Self { left: Cell::new(bytes), session: session.clone() }
    }

    /// Of what a person does themselves.
    pub fn of_person() -> Self {
        Self::new(usize::MAX, &Rc::new(Cell::new(usize::MAX)))
    }

    fn both(&self) -> [&Cell<usize>; 2] {
        [&self.left, &self.session]
    }

    /// Takes this many bytes if they are left.
    pub fn take(&self, bytes: usize) -> bool {
        let there = self.both().iter().all(|left| left.get() >= bytes);
        if there {
            self.count(bytes);
        }
        there
    }

    /// Counts a record that is written in any case.
    pub fn count(&self, bytes: usize) {
        for left in self.both() {
            left.set(left.get().saturating_sub(bytes));
        }
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.both().iter().any(|left| left.get() == 0)
    }
}

/// The calls of one answer that were not looked at, which are recorded together.
#[derive(Default)]
pub struct Unexamined {
    ids: RefCell<Vec<String>>,
    /// How many of them were not kept.
    dropped: Cell<u64>,
    hash: RefCell<Sha256>,
}

impl Unexamined {
    /// One more of them, and `dropped` ones of which nothing is kept.
    pub fn add(&self, call: &ToolCall, dropped: u64) {
        self.dropped.set(self.dropped.get().saturating_add(dropped));
        let mut hash = self.hash.borrow_mut();
        // Lengths keep the texts apart, whatever they hold.
        for text in [&call.id, &call.name, &call.handle, &call.arguments] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        self.ids.borrow_mut().push(call.id.clone());
    }

    /// Whether a call is one of them.
    pub fn has(&self, id: &str) -> bool {
        self.ids.borrow().iter().any(|of| of == id)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.dropped.get().saturating_add(self.ids.borrow().len() as u64)
    }

    /// Their record: how many there are, the first and the last of those that are kept, and a hash of these.
    pub fn event(&self, session: &Session, conversation: &str, turn: u32) -> Option<GeneralEvent> {
        let ids = self.ids.borrow();
        let (first, last) = (ids.first()?, ids.last()?);
        let fields = Vec::from([
            field("conversation", conversation),
            field("turn", turn.to_string()),
            field("calls", self.count().to_string()),
            field("first", first.as_str()),
            field("last", last.as_str()),
            field("hash", hex(&self.hash.borrow().clone().finalize())),
            field("outcome", Outcome::RefusedByPolicy.name()),
        ]);
        let (session, principal) = (session.id.clone(), session.principal.clone());
        Some(GeneralEvent { kind: "calls.refused".to_string(), session, principal, fields })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_falls_between_characters_and_tells_of_the_whole() {
        let arguments: String = "é".repeat(3000);
        let hash: [u8; 32] = Sha256::digest(arguments.as_bytes()).into();
        let mut event =
            ToolEvent { phase: Phase::Refused, arguments: alloc::format!("x{arguments}"), ..Default::default() };
        excerpt(&mut event, Some(Whole { bytes: 9000, hash }));
        assert_eq!((event.arguments.len(), event.arguments_bytes), (2047, 9000));
        let mut event = ToolEvent { phase: Phase::Refused, arguments: arguments.clone(), ..Default::default() };
        excerpt(&mut event, None);
        assert_eq!((event.arguments.len(), event.arguments_bytes), (2048, 6000));
        assert_eq!(event.arguments_hash, hash);
        let ran = ToolEvent { phase: Phase::Before, arguments, ..Default::default() };
        let mut same = ran.clone();
        excerpt(&mut same, None);
        assert_eq!(same, ran);
    }

    #[test]
    fn a_text_counts_as_it_is_written() {
        for text in ["", "plain", "\"\\\n\u{1}\u{1f}\u{7f}é\u{2028}"] {
            assert_eq!(written(text) + 2, serde_json::Value::from(text).to_string().len());
        }
    }

    #[test]
    fn what_the_broker_says_of_a_call_is_as_long_as_its_names() {
        let mut event = ToolEvent { arguments: "x".repeat(100), ..Default::default() };
        assert_eq!(ruling_size(&event), GENERAL_FRAME + RULING);
        (event.session, event.principal, event.conversation) = ("s1".into(), "ada".into(), "c1".into());
        (event.call_id, event.descriptor.name, event.descriptor.method_name) = ("\"1\"".into(), "a".into(), "b".into());
        assert_eq!(ruling_size(&event), GENERAL_FRAME + RULING + 2 + 3 + 2 + 5 + 2);
    }

    #[test]
    fn an_allowance_is_used_up_and_not_exceeded() {
        let session = Rc::new(Cell::new(18));
        let allowance = Allowance::new(10, &session);
        assert!(allowance.take(6) && !allowance.take(5) && !allowance.is_spent());
        allowance.count(9);
        assert!(allowance.is_spent() && !allowance.take(1));
        // The next turn has what is left of the session's.
        let allowance = Allowance::new(10, &session);
        assert!(!allowance.take(4) && allowance.take(3) && allowance.is_spent());
    }

    #[test]
    fn what_is_recorded_together_says_how_much_it_is() {
        let session = Session {
            id: "s".into(),
            principal: "p".into(),
            limits: Default::default(),
            started: 0,
            policy_expires: Rc::new(Cell::new(u64::MAX)),
        };
        let call = |id: &str| ToolCall { id: id.into(), name: "read".into(), ..ToolCall::default() };
        let event = |ids: &[&str]| {
            let unexamined = Unexamined::default();
            ids.iter().for_each(|id| unexamined.add(&call(id), 2));
            unexamined.event(&session, "c", 7)
        };
        assert_eq!(event(&[]), None);
        let found = event(&["a", "b", "c"]).unwrap();
        let value = |name: &str| found.fields.iter().find(|field| field.name == name).unwrap().value.as_str();
        assert_eq!([value("calls"), value("first"), value("last"), value("turn")], ["9", "a", "c", "7"]);
        assert_ne!(found, event(&["a", "x", "c"]).unwrap());
    }
}
