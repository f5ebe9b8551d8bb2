//! How long a worker may take over one answer.
//!
//! Only progress shows that a worker is at work: more tokens that it has read, or bytes that it has written. Time counts while somebody
//! waits for it, since it works at no other time.

use alloc::string::ToString;
use core::fmt;

use capos_plural::count;
use capos_policy::Patience;
use capos_schema::cap::CallError;

const SECOND: u64 = 1_000_000_000;
/// Pieces in a row that carry nothing.
const EMPTY: u32 = 4096;

/// What is left of the patience with one answer.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    patience: Patience,
    /// Nanoseconds that were waited since the last sign of work, and in all.
    silent: u64,
    all: u64,
    /// Pieces since the last sign of work.
    empty: u32,
}

/// A bound that a worker has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    Silent { seconds: u32 },
    Slow { seconds: u32 },
    Empty { pieces: u32 },
}

impl Overdue {
    /// What a session hears. A worker that is silent may answer the next request, as may the one that takes the place of one that
    /// ended; so both are told the same way.
    pub fn error(self) -> CallError {
        match self {
            Self::Silent { .. } => CallError::disconnected(self.to_string()),
            Self::Slow { .. } | Self::Empty { .. } => CallError::failed(self.to_string()),
        }
    }
}

impl fmt::Display for Overdue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent { seconds } => write!(
                formatter,
                "the model made no progress for {}, which is the limit (max_silence_seconds)",
                count(*seconds, "second")
            ),
            Self::Slow { seconds } => write!(
                formatter,
                "the model did not finish its answer in {}, which is the limit (max_answer_seconds)",
                count(*seconds, "second")
            ),
            Self::Empty { pieces } => {
                write!(formatter, "the model has sent {pieces} empty pieces in a row, which is the limit")
            }
        }
    }
}

impl Waiting {
    /// Nothing was waited yet.
    #[must_use]
    pub fn new(patience: Patience) -> Self {
        Self { patience, silent: 0, all: 0, empty: 0 }
    }

    /// The same for an answer that comes whole: there is no sign of work before its end.
    #[must_use]
    pub fn for_whole(patience: Patience) -> Self {
        Self::new(Patience { silence_seconds: patience.answer_seconds, ..patience })
    }

    fn limits(&self) -> (u64, u64) {
        let Patience { silence_seconds, answer_seconds } = self.patience;
        (u64::from(silence_seconds).saturating_mul(SECOND), u64::from(answer_seconds).saturating_mul(SECOND))
    }

    /// Nanoseconds that may still be waited before a bound is reached.
    #[must_use]
    pub fn left(&self) -> u64 {
        let (silence, answer) = self.limits();
        silence.saturating_sub(self.silent).min(answer.saturating_sub(self.all))
    }

    /// So long was waited.
    pub fn waited(&mut self, nanoseconds: u64) {
        self.silent = self.silent.saturating_add(nanoseconds);
        self.all = self.all.saturating_add(nanoseconds);
    }

    /// A piece came, which went on or carried nothing.
    pub fn piece(&mut self, goes_on: bool) {
        if goes_on {
            (self.silent, self.empty) = (0, 0);
        } else {
            self.empty = self.empty.saturating_add(1);
        }
    }

    /// The bound that is reached.
    #[must_use]
    pub fn overdue(&self) -> Option<Overdue> {
        let (silence, answer) = self.limits();
        let Patience { silence_seconds, answer_seconds } = self.patience;
        if self.empty >= EMPTY {
            return Some(Overdue::Empty { pieces: self.empty });
        }
        if self.all >= answer {
            return Some(Overdue::Slow { seconds: answer_seconds });
        }
        (self.silent >= silence).then_some(Overdue::Silent { seconds: silence_seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience { silence_seconds: 300, answer_seconds: 3600 };

    #[test]
    fn silence_has_an_end_and_a_sign_of_work_begins_it_again() {
        let mut waiting = Waiting::new(PATIENCE);
        waiting.waited(299 * SECOND);
        assert_eq!((waiting.left(), waiting.overdue()), (SECOND, None));
        waiting.piece(false);
        assert_eq!(waiting.left(), SECOND, "an empty piece is none");
        waiting.piece(true);
        assert_eq!(waiting.left(), 300 * SECOND);
        waiting.waited(300 * SECOND);
        assert_eq!((waiting.left(), waiting.overdue()), (0, Some(Overdue::Silent { seconds: 300 })));
    }

    #[test]
    fn c32_who_is_silent_may_be_asked_again_and_who_goes_on_without_end_may_not() {
        let again = |bound: Overdue| bound.error().is_disconnected();
        assert!(again(Overdue::Silent { seconds: 300 }));
        assert!(!again(Overdue::Slow { seconds: 3600 }) && !again(Overdue::Empty { pieces: 4096 }));
    }

    /// One token in 30 seconds is a sign of work each time, and ends all the same.
    #[test]
    fn an_answer_that_drips_has_an_end() {
        let mut waiting = Waiting::new(PATIENCE);
        let mut tokens = 0;
        while waiting.overdue().is_none() {
            waiting.waited(waiting.left().min(30 * SECOND));
            waiting.piece(true);
            tokens += 1;
        }
        assert_eq!((tokens, waiting.overdue()), (120, Some(Overdue::Slow { seconds: 3600 })));
    }

    #[test]
    fn pieces_that_carry_nothing_have_an_end_however_quick_they_are() {
        let mut waiting = Waiting::new(PATIENCE);
        let pieces = (1..).find(|_| {
            waiting.waited(1);
            waiting.piece(false);
            waiting.overdue().is_some()
        });
        assert_eq!((pieces, waiting.overdue()), (Some(EMPTY), Some(Overdue::Empty { pieces: EMPTY })));
    }

    #[test]
    fn an_answer_that_comes_whole_has_all_its_time_to_come() {
        let mut waiting = Waiting::for_whole(PATIENCE);
        waiting.waited(3599 * SECOND);
        assert_eq!(waiting.overdue(), None);
        waiting.waited(SECOND);
        assert_eq!(waiting.overdue(), Some(Overdue::Slow { seconds: 3600 }));
    }
}
