//! The states of a session.

use crate::table::NotPermitted;

/// Where a session is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionState {
    /// The broker has issued it, and no run can begin yet.
    #[default]
    Created,
    /// Runs can begin.
    Running,
    /// No run begins and none continues until the session is resumed.
    Paused,
    /// It was ended while no run was active.
    Completed,
    /// It ended by an error.
    Failed,
    /// It was ended while a run was active, or while it was paused.
    Cancelled,
}

/// What happens to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// Its capabilities, policy and model are there.
    Open,
    /// Its policy has expired, or what it needs cannot be reached.
    Pause,
    /// It has a valid policy again.
    Resume,
    /// The person or a client ends it while no run is active.
    Close,
    /// The person or a client ends it while a run is active.
    Cancel,
    /// It cannot continue.
    Fail,
}

const CR: Option<SessionState> = Some(SessionState::Created);
const RU: Option<SessionState> = Some(SessionState::Running);
const PA: Option<SessionState> = Some(SessionState::Paused);
const CO: Option<SessionState> = Some(SessionState::Completed);
const FA: Option<SessionState> = Some(SessionState::Failed);
const CA: Option<SessionState> = Some(SessionState::Cancelled);
const NO: Option<SessionState> = None;

/// The next state of each state (row) at each event (column).
#[rustfmt::skip]
const TABLE: [(Option<SessionState>, [Option<SessionState>; 6]); 6] = [
    //    open pause resume close cancel fail
    (CR, [RU,  NO,   NO,    NO,   NO,    NO]),
    (RU, [NO,  PA,   NO,    CO,   CA,    FA]),
    (PA, [NO,  NO,   RU,    NO,   CA,    NO]),
    (CO, [NO,  NO,   NO,    NO,   NO,    NO]),
    (FA, [NO,  NO,   NO,    NO,   NO,    NO]),
    (CA, [NO,  NO,   NO,    NO,   NO,    NO]),
];

impl SessionState {
    /// All states.
    pub const ALL: [Self; 6] =
        [Self::Created, Self::Running, Self::Paused, Self::Completed, Self::Failed, Self::Cancelled];

    /// The next state, if the table permits the event.
    #[must_use]
    pub fn next(self, event: SessionEvent) -> Option<Self> {
        let (_, row) = TABLE.iter().find(|(state, _)| *state == Some(self))?;
        let column = SessionEvent::ALL.iter().position(|known| *known == event)?;
        *row.get(column)?
    }

    /// Whether nothing follows.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// The name that clients and logs use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "SESSION_CREATED",
            Self::Running => "SESSION_RUNNING",
            Self::Paused => "SESSION_PAUSED",
            Self::Completed => "SESSION_COMPLETED",
            Self::Failed => "SESSION_FAILED",
            Self::Cancelled => "SESSION_CANCELLED",
        }
    }
}

impl SessionEvent {
    /// All events, in the order of the table's columns.
    pub const ALL: [Self; 6] = [Self::Open, Self::Pause, Self::Resume, Self::Close, Self::Cancel, Self::Fail];
}

/// A session that follows the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    state: SessionState,
}

impl Session {
    /// Where it is.
    #[must_use]
    pub fn state(self) -> SessionState {
        self.state
    }

    /// Takes an event; the state after it.
    ///
    /// # Errors
    /// The table does not permit it. The state stays.
    pub fn apply(&mut self, event: SessionEvent) -> Result<SessionState, NotPermitted<SessionState, SessionEvent>> {
        let state = self.state;
        self.state = state.next(event).ok_or(NotPermitted { state, event })?;
        Ok(self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SessionEvent as E;
    use SessionState as S;

    /// The seven transitions.
    const PERMITTED: [(S, E, S); 7] = [
        (S::Created, E::Open, S::Running),
        (S::Running, E::Pause, S::Paused),
        (S::Paused, E::Resume, S::Running),
        (S::Paused, E::Cancel, S::Cancelled),
        (S::Running, E::Close, S::Completed),
        (S::Running, E::Cancel, S::Cancelled),
        (S::Running, E::Fail, S::Failed),
    ];

    #[test]
    fn c14_each_pair_of_a_state_and_an_event_is_one_of_seven_transitions_or_an_error() {
        let mut permitted = 0;
        for state in S::ALL {
            for event in E::ALL {
                let wanted = PERMITTED.iter().find(|(from, what, _)| (*from, *what) == (state, event));
                let mut session = Session { state };
                match (wanted, session.apply(event)) {
                    (Some((_, _, to)), Ok(found)) => {
                        assert_eq!((*to, *to), (found, session.state()), "{state:?} {event:?}");
                        permitted += 1;
                    }
                    (None, Err(error)) => {
                        assert_eq!(error, NotPermitted { state, event });
                        assert_eq!(session.state(), state, "an error changes nothing");
                        let text = std::format!("the state {state:?} does not permit the event {event:?}");
                        assert_eq!(std::string::ToString::to_string(&error), text);
                    }
                    (wanted, found) => panic!("{state:?} {event:?}: {wanted:?}, {found:?}"),
                }
            }
        }
        assert_eq!(permitted, 7);
        assert_eq!(Session::default().state(), S::Created);
    }

    #[test]
    fn c14_a_session_that_is_over_takes_no_event() {
        for state in S::ALL {
            assert_eq!(state.is_over(), E::ALL.iter().all(|event| state.next(*event).is_none()), "{state:?}");
        }
        let names: std::collections::BTreeSet<&str> = S::ALL.iter().map(|state| state.name()).collect();
        assert_eq!(names.len(), 6);
        assert!(names.iter().all(|name| name.starts_with("SESSION_")));
    }
}
