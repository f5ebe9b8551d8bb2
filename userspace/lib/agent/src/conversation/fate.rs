//! What is known of a call whose result was not saved, because its session ended first.

use alloc::format;
use alloc::string::{String, ToString};

use capos_schema::models::Outcome;

/// What the audit log says of such a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It had no effect; with its outcome, if it had one.
    NotRun(Option<String>),
    /// It ran to its end, with this outcome.
    Ran(String),
    /// It began, and its end is not recorded: whether it had its effect is not known.
    Unknown,
}

impl Fate {
    /// Of a call by its records: of each whether it began, and its outcome. The log has a record before each effect, so a call
    /// without any record had none, if the log `covers` all of its time. Of several records, as of calls with one id, the one
    /// that warns most counts.
    #[must_use]
    pub fn of<'a>(records: impl IntoIterator<Item = (bool, Option<&'a str>)>, covers: bool) -> Self {
        let mut fate = if covers { Self::NotRun(None) } else { Self::Unknown };
        let mut is_first = true;
        for (began, outcome) in records {
            let found = match (began, outcome) {
                (false, outcome) => Self::NotRun(outcome.map(ToString::to_string)),
                (true, Some(outcome)) => Self::Ran(outcome.to_string()),
                (true, None) => Self::Unknown,
            };
            if core::mem::take(&mut is_first) || found.rank() > fate.rank() {
                fate = found;
            }
        }
        fate
    }

    /// The outcome that stands beside the text. A call whose end is not known counts as failed.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::NotRun(None) => Some(Outcome::Cancelled),
            Self::NotRun(Some(outcome)) | Self::Ran(outcome) => Outcome::from_name(outcome),
            Self::Unknown => Some(Outcome::ExecutionError),
        }
    }

    /// How much it warns of.
    fn rank(&self) -> u8 {
        match self {
            Self::NotRun(_) => 0,
            Self::Ran(_) => 1,
            Self::Unknown => 2,
        }
    }

    /// What the model is told in place of the result. It quotes no one.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::NotRun(None) => {
                "not run: the session ended, and the audit log has no record that this call began".to_string()
            }
            Self::NotRun(Some(outcome)) => {
                format!("not run ({outcome}): the session ended before its result was saved")
            }
            Self::Ran(outcome) => format!(
                "it ran and ended as {outcome}, but the session ended before its result was saved; do not repeat it to see the result"
            ),
            Self::Unknown => {
                "unknown: this call began, and the session ended before its end was recorded. It may have had its \
                              effect. Find out before you repeat it"
                    .to_string()
            }
        }
    }
}
