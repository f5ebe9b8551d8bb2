//! A person's consents, and how far they reach.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_schema::annotations::Pattern;
use capos_schema::authority::{ConsentReach, Label, Reply, Span, ToolQuestion};
use capos_schema::models::PermissionMode;

use crate::binding::Binding;
use crate::category::Category;
use crate::labels::label_below;
use crate::scope::{normalise, texts};

/// A person's answer to "may this run?".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There was no question.
    NotAsked,
    No,
    Yes(ConsentReach),
}

impl Answer {
    /// A person's reply, with the reach that they gave it.
    #[must_use]
    pub fn of(reply: Reply, reach: ConsentReach) -> Self {
        match reply {
            Reply::Agreed => Self::Yes(reach),
            Reply::NotAsked => Self::NotAsked,
            _ => Self::No,
        }
    }
}

/// Why a call does not run to which the person has not agreed, for the person, the record and the model.
#[must_use]
pub fn unagreed(reply: Reply, mode: PermissionMode) -> &'static str {
    match reply {
        Reply::Late => "nobody answered in time",
        Reply::Lost => "the terminal was lost before anybody answered",
        Reply::Interrupted => "the person pressed Ctrl-C",
        Reply::Withdrawn => "the program that asked has ended",
        Reply::NotAsked => "nobody was asked",
        Reply::Elsewhere if mode == PermissionMode::StepUp => {
            "a client takes no passphrase for a call; make it at the console of the machine"
        }
        Reply::Elsewhere => "it is too long for a client's question; make the call at the console of the machine",
        Reply::Agreed | Reply::Declined if mode == PermissionMode::StepUp => "no passphrase was entered",
        Reply::Agreed | Reply::Declined => "the person said no",
    }
}

/// How many consents beyond a single call a session may have at a time.
const MOST: usize = 16;

/// A consent that covers further calls of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The question that it was the answer to.
    pub number: u64,
    /// Calls that it has covered since.
    pub uses: u32,
    /// The call that the person agreed to.
    bound: Binding,
    /// What the argument matches that selects the calls; none where all arguments are the same.
    pattern: Option<String>,
    /// It holds in the turn of its call alone; otherwise in the session.
    in_turn: bool,
    /// What the model had seen when the person agreed.
    labels: Label,
    /// It is not recorded yet, and covers nothing before that.
    withheld: bool,
}

/// The consents of one session that cover further calls. None replaces a step-up, and they end with the session.
#[derive(Clone, Debug, Default)]
pub struct Approvals {
    list: Vec<Standing>,
}

/// What the consents of a tool may depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub question: &'a ToolQuestion,
    pub category: Category,
    /// The argument by which calls may be agreed to together.
    pub pattern: Option<(&'static str, Pattern)>,
}

impl Subject<'_> {
    /// The text of the argument that may select calls.
    fn argument(&self) -> Option<(Pattern, String)> {
        let (name, kind) = self.pattern?;
        let found = texts(&self.question.arguments, |member| member == name).ok()?.remove(name)?;
        Some((kind, found?))
    }
}

/// Whether calls of this category may be agreed to together, by a pattern.
#[must_use]
pub fn may_stand(category: Category) -> bool {
    matches!(category, Category::ReadOnly | Category::Mutating)
}

/// Whether an argument is one of those that a pattern selects. A path is taken by whole components, and one that leads out
/// of its tree is in no directory.
#[must_use]
pub fn matches(kind: Pattern, pattern: &str, argument: &str) -> bool {
    match kind {
        Pattern::Same => pattern == argument,
        Pattern::Directory => match (normalise(pattern), normalise(argument)) {
            (Ok(directory), Ok(path)) => path.get(..directory.len()) == Some(&directory),
            _ => false,
        },
    }
}

impl Approvals {
    /// Keeps a consent that reaches beyond its one call; tells how far it reaches.
    ///
    /// # Errors
    /// It reaches further than the tool permits, or the session has as many as it may: then it counts for its own call.
    pub(crate) fn add(&mut self, number: u64, reach: &ConsentReach, of: &Subject<'_>) -> Result<String, String> {
        let question = of.question;
        let (in_turn, until) = match reach.span {
            Span::Once => return Ok(String::new()),
            Span::Turn => (true, "in this turn"),
            Span::Session => (false, "in this session"),
        };
        // The list is one session's, and ends with it.
        let bound = Binding::new("", question, u64::MAX);
        let (pattern, what) = match reach.pattern.as_str() {
            "" => (None, "for the same call".to_string()),
            pattern => {
                let (kind, argument) = of.argument().ok_or("calls of this tool cannot be agreed to together")?;
                if !may_stand(of.category) {
                    return Err(format!("calls that are {} are agreed to one by one", of.category.name()));
                }
                if !matches(kind, pattern, &argument) {
                    return Err(format!("the call itself is not in {pattern:?}"));
                }
                let what = match kind {
                    Pattern::Directory => format!("for all paths in {pattern:?}"),
                    Pattern::Same => format!("for all calls with {pattern:?}"),
                };
                (Some(pattern.to_string()), what)
            }
        };
        // Those of turns that are over cover nothing any more. Another conversation's turn, as that of a background run, may go on.
        self.end_turns(|consent| consent.is_over(&bound));
        if self.list.len() >= MOST {
            return Err(format!("there are {MOST} consents for further calls; /approvals revoke ends some"));
        }
        let labels = question.labels.clone();
        self.list.push(Standing { number, uses: 0, bound, pattern, in_turn, labels, withheld: false });
        Ok(format!("{what} {until}"))
    }

    /// The question whose consent covers this call.
    pub(crate) fn cover(&self, of: &Subject<'_>) -> Option<u64> {
        if self.list.is_empty() {
            return None;
        }
        let asked = Binding::new("", of.question, u64::MAX);
        let argument = of.argument();
        let covers = |one: &&Standing| {
            let in_turn = !one.in_turn || one.bound.same_turn(&asked);
            let selected = match &one.pattern {
                None => one.bound.same_call(&asked),
                Some(pattern) => {
                    one.bound.same_tool(&asked)
                        && argument.as_ref().is_some_and(|(kind, argument)| matches(*kind, pattern, argument))
                }
            };
            // What leaves the machine holds more than the person knew of, if the model has read on since.
            let known = of.category != Category::Outbound || label_below(&of.question.labels, &one.labels);
            in_turn && selected && known && !one.withheld
        };
        self.list.iter().find(covers).map(|one| one.number)
    }

    /// Lets the consent of a question, if it covers further calls, cover none until it is recorded.
    pub fn withhold(&mut self, number: u64) {
        self.set_withheld(number, true);
    }

    /// Lets it cover calls: it is recorded.
    pub fn recorded(&mut self, number: u64) {
        self.set_withheld(number, false);
    }

    fn set_withheld(&mut self, number: u64, withheld: bool) {
        if let Some(one) = self.list.iter_mut().find(|one| one.number == number) {
            one.withheld = withheld;
        }
    }

    /// A request of the person begins or continues: consents for the turns of others have ended. A call that the person makes is a
    /// turn of its own, and may still run.
    pub fn begin_turn(&mut self, conversation: &str, turn: u32) {
        self.end_turns(|consent| !consent.is_by_hand() && !consent.is_of(conversation, turn));
    }

    /// A turn has ended, and with it the consents for it and for the turns of its child runs.
    pub fn end_turn(&mut self, conversation: &str, turn: u32) {
        self.end_turns(|consent| !consent.is_by_hand() && consent.is_of(conversation, turn));
    }

    /// Ends the consents for a turn that is over.
    fn end_turns(&mut self, is_over: impl Fn(&Binding) -> bool) {
        self.list.retain(|one| !one.in_turn || !is_over(&one.bound));
    }

    /// Counts a call that this consent has covered.
    pub(crate) fn used(&mut self, number: u64) {
        if let Some(one) = self.list.iter_mut().find(|one| one.number == number) {
            one.uses = one.uses.saturating_add(1);
        }
    }

    /// The consent of this question, if it covers further calls.
    #[must_use]
    pub fn standing(&self, number: u64) -> Option<&Standing> {
        self.list.iter().find(|one| one.number == number)
    }

    /// Ends the consent of a question, or all of them; tells how many ended.
    pub fn revoke(&mut self, number: Option<u64>) -> usize {
        let before = self.list.len();
        self.list.retain(|one| number.is_some_and(|number| one.number != number));
        before.saturating_sub(self.list.len())
    }
}
