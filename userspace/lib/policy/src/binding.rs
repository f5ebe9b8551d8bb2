//! Exactly what a person agreed to, and until when.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use capos_schema::authority::ToolQuestion;
use sha2::{Digest, Sha256};

/// Begins the id of a call that a person makes.
pub const BY_HAND: &str = "direct-";

/// Stands behind the id of a call, before the number of a question of its program. No call of a model has an id with it.
pub const STEP: &str = ".step-";

/// One call of one session, and the time until which an answer about it counts. A question, a step-up's lease, a consent and
/// the record of a decision are all bound to it. It has the tool as it was described, the canonical arguments (RFC 8785), the
/// conversation, the turn and the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    session: String,
    interface: u64,
    method: String,
    tool: String,
    descriptor: Vec<u8>,
    /// SHA-256 of the canonical arguments.
    arguments: [u8; 32],
    conversation: String,
    turn: u32,
    call_id: String,
    /// First time at which it no longer counts.
    expires: u64,
}

/// Why something that is bound to one call does not cover another, or not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingError {
    Expired,
    OtherSession,
    OtherTool,
    OtherArguments,
    OtherConversation,
    OtherTurn,
    OtherCall,
}

impl fmt::Display for BindingError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Expired => "has expired",
            Self::OtherSession => "was given to another session",
            Self::OtherTool => "is for another tool",
            Self::OtherArguments => "is for other arguments",
            Self::OtherConversation => "is for another conversation",
            Self::OtherTurn => "is for another turn",
            Self::OtherCall => "is for another call",
        })
    }
}

impl core::error::Error for BindingError {}

impl Binding {
    /// Bound to the call in question, before `expires`.
    #[must_use]
    pub fn new(session: &str, question: &ToolQuestion, expires: u64) -> Self {
        Self {
            session: session.into(),
            interface: question.interface_id,
            method: question.method_name.clone(),
            tool: question.tool.clone(),
            descriptor: question.descriptor.clone(),
            arguments: Sha256::digest(question.arguments.as_bytes()).into(),
            conversation: question.conversation.clone(),
            turn: question.turn,
            call_id: question.call_id.clone(),
            expires,
        }
    }

    pub(crate) fn no_later(self, expires: u64) -> Self {
        Self { expires: self.expires.min(expires), ..self }
    }

    /// First time at which it no longer counts.
    #[must_use]
    pub fn expires(&self) -> u64 {
        self.expires
    }

    /// The digest of all that it is bound to, except the time: 128 bits in hexadecimal. It names a question, and the record
    /// of the decision has it.
    #[must_use]
    pub fn id(&self) -> String {
        let Self { session, interface, method, tool, descriptor, arguments, conversation, turn, call_id, expires: _ } =
            self;
        let mut digest = Sha256::new();
        digest.update(interface.to_be_bytes());
        digest.update(turn.to_be_bytes());
        digest.update(arguments);
        // Lengths first, so that no part can stand for another.
        let texts = [session, method, tool, conversation, call_id].map(String::as_bytes);
        for part in texts.into_iter().chain([descriptor.as_slice()]) {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        let digest = digest.finalize();
        hex::encode(digest.get(..16).unwrap_or(&digest))
    }

    /// Whether both are for the same tool, described alike.
    pub(crate) fn same_tool(&self, other: &Self) -> bool {
        self.interface == other.interface
            && self.method == other.method
            && self.tool == other.tool
            && self.descriptor == other.descriptor
    }

    /// Whether both are for the same tool and arguments. Arguments are the same when their canonical text is, byte for byte.
    pub(crate) fn same_call(&self, other: &Self) -> bool {
        self.same_tool(other) && self.arguments == other.arguments
    }

    /// Whether both are for the same turn of the same conversation. A call that a person makes is a turn of its own, with the
    /// questions of its program.
    pub(crate) fn same_turn(&self, other: &Self) -> bool {
        self.same_conversation(other) && self.turn == other.turn && self.by_hand() == other.by_hand()
    }

    fn same_conversation(&self, other: &Self) -> bool {
        self.conversation == other.conversation
    }

    /// Whether the turn of this is over when the other is asked about. It is over if it was that of an earlier request, of an
    /// earlier call of the person's, or of an earlier child run of the same run. A run has one child run at a time. The turn of a
    /// child run is over with that of its parent.
    pub(crate) fn is_over(&self, other: &Self) -> bool {
        if self.same_conversation(other) {
            return self.turn != other.turn || (self.by_hand().is_some() && self.by_hand() != other.by_hand());
        }
        let (parent, other_parent) = (self.parent(), other.parent());
        let ((conversation, turn), (other_conversation, other_turn)) = (self.request(), other.request());
        conversation == other_conversation && (turn != other_turn || (parent.is_some() && other_parent.is_some()))
    }

    /// The run that has begun the child run whose conversation this is.
    fn parent(&self) -> Option<&str> {
        self.conversation.rsplit_once('.').map(|(parent, _)| parent)
    }

    /// Whether it is of this turn, or of the turn of a child run of it.
    pub(crate) fn is_of(&self, conversation: &str, turn: u32) -> bool {
        (self.conversation == conversation && self.turn == turn) || self.request() == (conversation, Some(turn))
    }

    /// The conversation and the turn of the person's request: those of a child run's parent, or its own.
    fn request(&self) -> (&str, Option<u32>) {
        match self.parent().and_then(|parent| parent.rsplit_once('-')) {
            Some((conversation, turn)) => (conversation, turn.parse().ok()),
            None => (&self.conversation, Some(self.turn)),
        }
    }

    /// Whether it is of a call that a person has made, or of its program.
    pub(crate) fn is_by_hand(&self) -> bool {
        self.by_hand().is_some()
    }

    /// The id of the call that a person has made, where this is one or a question of its program.
    fn by_hand(&self) -> Option<&str> {
        self.call_id.starts_with(BY_HAND).then(|| self.call_id.split(STEP).next().unwrap_or_default())
    }

    /// Whether it covers a call at this time.
    ///
    /// # Errors
    /// Why not.
    pub fn covers(&self, session: &str, question: &ToolQuestion, now: u64) -> Result<(), BindingError> {
        let other = Self::new(session, question, self.expires);
        let checks = [
            (now >= self.expires, BindingError::Expired),
            (other.session != self.session, BindingError::OtherSession),
            (!other.same_tool(self), BindingError::OtherTool),
            (!other.same_call(self), BindingError::OtherArguments),
            (other.conversation != self.conversation, BindingError::OtherConversation),
            (other.turn != self.turn, BindingError::OtherTurn),
            (other.call_id != self.call_id, BindingError::OtherCall),
        ];
        checks.into_iter().find(|(failed, _)| *failed).map_or(Ok(()), |(_, error)| Err(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> ToolQuestion {
        ToolQuestion {
            interface_id: 7,
            method_name: "writeText".into(),
            tool: "write_file".into(),
            arguments: "{\"path\":\"a\"}".into(),
            conversation: "c1".into(),
            turn: 3,
            call_id: "call-1".into(),
            descriptor: Vec::from([1; 32]),
            ..ToolQuestion::default()
        }
    }

    /// Each of what a call is bound to, changed alone.
    fn others() -> Vec<(ToolQuestion, BindingError)> {
        let change = |edit: fn(&mut ToolQuestion), error| {
            let mut other = question();
            edit(&mut other);
            (other, error)
        };
        Vec::from([
            change(|other| other.interface_id = 8, BindingError::OtherTool),
            change(|other| other.method_name = "remove".into(), BindingError::OtherTool),
            change(|other| other.tool = "delete_file".into(), BindingError::OtherTool),
            change(|other| other.descriptor = Vec::from([2; 32]), BindingError::OtherTool),
            change(|other| other.arguments = "{\"path\":\"b\"}".into(), BindingError::OtherArguments),
            change(|other| other.conversation = "c2".into(), BindingError::OtherConversation),
            change(|other| other.turn = 4, BindingError::OtherTurn),
            change(|other| other.call_id = "call-2".into(), BindingError::OtherCall),
        ])
    }

    #[test]
    fn a_binding_covers_exactly_its_call_until_it_expires() {
        let bound = Binding::new("s1", &question(), 100);
        assert_eq!(bound.covers("s1", &question(), 99), Ok(()));
        assert_eq!(bound.covers("s1", &question(), 100), Err(BindingError::Expired));
        assert_eq!(bound.covers("s2", &question(), 0), Err(BindingError::OtherSession));
        for (other, error) in others() {
            assert_eq!(bound.covers("s1", &other, 0), Err(error));
        }
    }

    #[test]
    fn an_id_is_of_all_that_it_is_bound_to() {
        let id = |session: &str, question: &ToolQuestion| Binding::new(session, question, 5).id();
        let own = id("s1", &question());
        assert_eq!((own.len(), &own), (32, &Binding::new("s1", &question(), 9).id()), "the time is no part of it");
        let mut all: Vec<String> = others().iter().map(|(other, _)| id("s1", other)).collect();
        all.push(id("s2", &question()));
        // A part cannot stand for another.
        all.push(id("s1", &ToolQuestion { conversation: "c1call-".into(), call_id: "1".into(), ..question() }));
        all.push(own);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 11);
    }
}
