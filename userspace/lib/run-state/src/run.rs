//! The states of a run.

use crate::table::NotPermitted;

/// Where a run is. Five of these end or pause it: `Completed`, `PausedForApproval`, `PausedForEvent`, `Failed`, `Cancelled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunState {
    /// There is none: the session waits for a request.
    #[default]
    Idle,
    /// A step begins: the request is put together.
    Running,
    /// The model answers.
    WaitingForModel,
    /// The answer is whole and is looked at.
    ProcessingResponse,
    /// The proposed calls are checked, one after the other.
    CheckingPolicy,
    /// The person is asked about at least one call. Calls that need no answer run meanwhile.
    WaitingForApproval,
    /// Calls run.
    ExecutingTools,
    /// A limit is reached, and the run waits for the person's word on going on.
    PausedForApproval,
    /// The run waits for something outside: time, a call that still runs, a policy that is refreshed.
    PausedForEvent,
    /// Its predicate holds, no question is open and nothing is scheduled.
    Completed,
    /// It ended by an error or at a limit.
    Failed,
    /// The person ended it.
    Cancelled,
}

/// What happens to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEvent {
    /// The person makes a request.
    Start,
    /// The request is sent to the model.
    Ask,
    /// The model's answer is whole.
    Answer,
    /// Another step follows: the answer was cut, or the predicate does not hold.
    Continue,
    /// The answer proposes calls.
    Propose,
    /// A call needs the person's answer.
    Question,
    /// All calls are checked, and those that needed an answer have one.
    Execute,
    /// All calls of the step have ended.
    StepEnd,
    /// The predicate holds, no question is open and nothing is scheduled.
    Done,
    /// A limit is reached at which the person decides.
    AwaitApproval,
    /// Something outside has to happen first.
    AwaitEvent,
    /// What it waited for has happened.
    Resume,
    /// An error, or a limit at which nobody is asked.
    Fail,
    /// The person ends it.
    Cancel,
    /// Its messages are saved, and the next request may come.
    Saved,
}

const ID: Option<RunState> = Some(RunState::Idle);
const RU: Option<RunState> = Some(RunState::Running);
const WM: Option<RunState> = Some(RunState::WaitingForModel);
const PR: Option<RunState> = Some(RunState::ProcessingResponse);
const CP: Option<RunState> = Some(RunState::CheckingPolicy);
const WA: Option<RunState> = Some(RunState::WaitingForApproval);
const EX: Option<RunState> = Some(RunState::ExecutingTools);
const PA: Option<RunState> = Some(RunState::PausedForApproval);
const PE: Option<RunState> = Some(RunState::PausedForEvent);
const CO: Option<RunState> = Some(RunState::Completed);
const FA: Option<RunState> = Some(RunState::Failed);
const CA: Option<RunState> = Some(RunState::Cancelled);
const NO: Option<RunState> = None;

/// The next state of each state (row) at each event (column).
#[rustfmt::skip]
const TABLE: [(Option<RunState>, [Option<RunState>; 15]); 12] = [
    //    start ask answer contin. propose question execute stepend done awaitapp awaitev resume fail cancel saved
    (ID, [RU,   NO, NO,    NO,     NO,     NO,      NO,     NO,     NO,  NO,      NO,     NO,    NO,  NO,    NO]),
    (RU, [NO,   WM, NO,    NO,     NO,     NO,      NO,     NO,     NO,  PA,      PE,     NO,    FA,  CA,    NO]),
    (WM, [NO,   NO, PR,    NO,     NO,     NO,      NO,     NO,     NO,  NO,      PE,     NO,    FA,  CA,    NO]),
    (PR, [NO,   NO, NO,    RU,     CP,     NO,      NO,     NO,     CO,  NO,      PE,     NO,    FA,  CA,    NO]),
    (CP, [NO,   NO, NO,    NO,     NO,     WA,      EX,     NO,     NO,  NO,      NO,     NO,    NO,  CA,    NO]),
    (WA, [NO,   NO, NO,    NO,     NO,     NO,      EX,     NO,     NO,  NO,      NO,     NO,    NO,  CA,    NO]),
    (EX, [NO,   NO, NO,    NO,     NO,     NO,      NO,     RU,     NO,  NO,      NO,     NO,    NO,  CA,    NO]),
    (PA, [NO,   NO, NO,    NO,     NO,     NO,      NO,     NO,     NO,  NO,      NO,     RU,    FA,  CA,    NO]),
    (PE, [NO,   NO, NO,    NO,     NO,     NO,      NO,     NO,     CO,  NO,      NO,     RU,    FA,  CA,    NO]),
    (CO, [NO,   NO, NO,    NO,     NO,     NO,      NO,     NO,     NO,  NO,      NO,     NO,    NO,  NO,    ID]),
    (FA, [NO,   NO, NO,    NO,     NO,     NO,      NO,     NO,     NO,  NO,      NO,     NO,    NO,  NO,    ID]),
    (CA, [NO,   NO, NO,    NO,     NO,     NO,      NO,     NO,     NO,  NO,      NO,     NO,    NO,  NO,    ID]),
];

impl RunState {
    /// All states.
    pub const ALL: [Self; 12] = [
        Self::Idle,
        Self::Running,
        Self::WaitingForModel,
        Self::ProcessingResponse,
        Self::CheckingPolicy,
        Self::WaitingForApproval,
        Self::ExecutingTools,
        Self::PausedForApproval,
        Self::PausedForEvent,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The next state, if the table permits the event.
    #[must_use]
    pub fn next(self, event: RunEvent) -> Option<Self> {
        let (_, row) = TABLE.iter().find(|(state, _)| *state == Some(self))?;
        let column = RunEvent::ALL.iter().position(|known| *known == event)?;
        *row.get(column)?
    }

    /// Whether it has ended, for good.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Whether it waits for the person's word or for something outside, and may continue after it.
    #[must_use]
    pub fn is_paused(self) -> bool {
        matches!(self, Self::PausedForApproval | Self::PausedForEvent)
    }

    /// Whether a step of it is under way.
    #[must_use]
    pub fn is_active(self) -> bool {
        self != Self::Idle && !self.is_over() && !self.is_paused()
    }

    /// The name that clients and logs use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "IDLE",
            Self::Running => "TASK_RUNNING",
            Self::WaitingForModel => "WAITING_FOR_LLM",
            Self::ProcessingResponse => "PROCESSING_RESPONSE",
            Self::CheckingPolicy => "CHECKING_POLICY",
            Self::WaitingForApproval => "WAITING_FOR_APPROVAL",
            Self::ExecutingTools => "EXECUTING_TOOLS",
            Self::PausedForApproval => "PAUSED_FOR_APPROVAL",
            Self::PausedForEvent => "PAUSED_FOR_EVENT",
            Self::Completed => "TASK_COMPLETED",
            Self::Failed => "TASK_FAILED",
            Self::Cancelled => "TASK_CANCELLED",
        }
    }

    /// The state as a person reads it, after "the run".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Idle => "has not begun",
            Self::Running => "is running",
            Self::WaitingForModel => "waits for the model",
            Self::ProcessingResponse => "reads the model's answer",
            Self::CheckingPolicy => "checks tool calls",
            Self::WaitingForApproval => "waits for your answer",
            Self::ExecutingTools => "runs tool calls",
            Self::PausedForApproval => "is paused until you agree",
            Self::PausedForEvent => "is paused",
            Self::Completed => "is done",
            Self::Failed => "failed",
            Self::Cancelled => "was cancelled",
        }
    }
}

impl RunEvent {
    /// All events, in the order of the table's columns.
    pub const ALL: [Self; 15] = [
        Self::Start,
        Self::Ask,
        Self::Answer,
        Self::Continue,
        Self::Propose,
        Self::Question,
        Self::Execute,
        Self::StepEnd,
        Self::Done,
        Self::AwaitApproval,
        Self::AwaitEvent,
        Self::Resume,
        Self::Fail,
        Self::Cancel,
        Self::Saved,
    ];
}

/// A run that follows the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    state: RunState,
}

impl Run {
    /// Where it is.
    #[must_use]
    pub fn state(self) -> RunState {
        self.state
    }

    /// Takes an event; the state after it.
    ///
    /// # Errors
    /// The table does not permit it. The state stays.
    pub fn apply(&mut self, event: RunEvent) -> Result<RunState, NotPermitted<RunState, RunEvent>> {
        let state = self.state;
        self.state = state.next(event).ok_or(NotPermitted { state, event })?;
        Ok(self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RunEvent as E;
    use RunState as S;

    /// The transitions, each as a line; all other pairs are errors.
    const PERMITTED: &[(S, E, S)] = &[
        (S::Idle, E::Start, S::Running),
        (S::Running, E::Ask, S::WaitingForModel),
        (S::WaitingForModel, E::Answer, S::ProcessingResponse),
        (S::ProcessingResponse, E::Continue, S::Running),
        (S::ProcessingResponse, E::Propose, S::CheckingPolicy),
        (S::ProcessingResponse, E::Done, S::Completed),
        (S::PausedForEvent, E::Done, S::Completed),
        (S::CheckingPolicy, E::Question, S::WaitingForApproval),
        (S::CheckingPolicy, E::Execute, S::ExecutingTools),
        (S::WaitingForApproval, E::Execute, S::ExecutingTools),
        (S::ExecutingTools, E::StepEnd, S::Running),
        (S::Running, E::AwaitApproval, S::PausedForApproval),
        (S::Running, E::AwaitEvent, S::PausedForEvent),
        (S::WaitingForModel, E::AwaitEvent, S::PausedForEvent),
        (S::ProcessingResponse, E::AwaitEvent, S::PausedForEvent),
        (S::PausedForApproval, E::Resume, S::Running),
        (S::PausedForEvent, E::Resume, S::Running),
        (S::Running, E::Fail, S::Failed),
        (S::WaitingForModel, E::Fail, S::Failed),
        (S::ProcessingResponse, E::Fail, S::Failed),
        (S::PausedForApproval, E::Fail, S::Failed),
        (S::PausedForEvent, E::Fail, S::Failed),
        (S::Running, E::Cancel, S::Cancelled),
        (S::WaitingForModel, E::Cancel, S::Cancelled),
        (S::ProcessingResponse, E::Cancel, S::Cancelled),
        (S::CheckingPolicy, E::Cancel, S::Cancelled),
        (S::WaitingForApproval, E::Cancel, S::Cancelled),
        (S::ExecutingTools, E::Cancel, S::Cancelled),
        (S::PausedForApproval, E::Cancel, S::Cancelled),
        (S::PausedForEvent, E::Cancel, S::Cancelled),
        (S::Completed, E::Saved, S::Idle),
        (S::Failed, E::Saved, S::Idle),
        (S::Cancelled, E::Saved, S::Idle),
    ];

    #[test]
    fn c15_each_pair_of_a_state_and_an_event_is_a_listed_transition_or_an_error() {
        let (mut permitted, mut refused) = (0, 0);
        for state in S::ALL {
            for event in E::ALL {
                let wanted = PERMITTED.iter().find(|(from, what, _)| (*from, *what) == (state, event));
                let mut run = Run { state };
                match (wanted, run.apply(event)) {
                    (Some((_, _, to)), Ok(found)) => {
                        assert_eq!((*to, *to), (found, run.state()), "{state:?} {event:?}");
                        permitted += 1;
                    }
                    (None, Err(error)) => {
                        assert_eq!(error, NotPermitted { state, event });
                        assert_eq!(run.state(), state, "an error changes nothing");
                        refused += 1;
                    }
                    (wanted, found) => panic!("{state:?} {event:?}: {wanted:?}, {found:?}"),
                }
            }
        }
        assert_eq!((permitted, refused), (PERMITTED.len(), 12 * 15 - PERMITTED.len()));
    }

    #[test]
    fn i01_a_run_ends_or_pauses_in_five_states_and_only_a_pause_goes_on() {
        let five: std::vec::Vec<S> = S::ALL.into_iter().filter(|state| state.is_over() || state.is_paused()).collect();
        assert_eq!(five, [S::PausedForApproval, S::PausedForEvent, S::Completed, S::Failed, S::Cancelled]);
        for state in S::ALL {
            assert_eq!(state.next(E::Resume).is_some(), state.is_paused(), "{state:?}");
            assert_eq!(state.next(E::Saved).is_some(), state.is_over(), "{state:?}");
            assert_eq!(state.next(E::Start).is_some(), state == S::Idle, "{state:?}");
            // The person can end whatever is not over.
            assert_eq!(state.next(E::Cancel).is_some(), state.is_active() || state.is_paused(), "{state:?}");
        }
        // Done comes after a whole answer alone, at once or when what was scheduled has ended: not from a question, nor from
        // a running call.
        let done = S::ALL.into_iter().filter(|state| state.next(E::Done).is_some());
        assert_eq!(done.collect::<std::vec::Vec<S>>(), [S::ProcessingResponse, S::PausedForEvent]);
    }

    #[test]
    fn c15_each_state_has_a_name_and_words_of_its_own() {
        let names: std::collections::BTreeSet<&str> = S::ALL.iter().map(|state| state.name()).collect();
        let words: std::collections::BTreeSet<&str> = S::ALL.iter().map(|state| state.words()).collect();
        assert_eq!((names.len(), words.len()), (12, 12));
    }
}
