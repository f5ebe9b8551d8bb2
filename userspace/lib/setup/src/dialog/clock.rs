//! A clock that was never set.

use alloc::borrow::ToOwned;
use alloc::format;

use capos_schema::authority::Profile;
use capos_schema::store::VolumeState;
use capos_schema::terminal::Style;

use super::says::{Says, ask, moment};
use super::{CLOCK_IS_SET, Call, Dialog, Next, State, Step};

/// Where the time of such a clock goes.
const WHERE: &str = "records and files get this time";

impl Dialog {
    /// Asks for the time, once at a start, if there is a person at the console who is asked something anyway or whose session it
    /// is. None if the clock is set, or nobody is to be asked.
    pub(super) fn clock(&mut self, now: u64) -> Option<Step> {
        let waits = self.initial == Profile::Operator && self.volume.state != VolumeState::Open && !self.has_plan();
        if now >= CLOCK_IS_SET || self.clock_asked || !waits {
            return None;
        }
        let text = format!("the clock is not set: it says {}; {WHERE}", moment(now));
        Some(self.time(Says::none().add(Style::Warning, text)))
    }

    /// The same as a warning alone.
    pub(super) fn clock_warning(&self, now: u64) -> Says {
        if now >= CLOCK_IS_SET {
            return Says::none();
        }
        let text =
            format!("the clock is not set: it says {}; {WHERE}; an operator sets it: /clock set TIME", moment(now));
        Says::none().add(Style::Warning, text)
    }

    fn time(&mut self, says: Says) -> Step {
        self.state = State::Clock;
        says.then(ask("Date and time in UTC, as 2026-11-26 14:05 (Enter: leave it): "))
    }

    /// The answer to that.
    pub(super) fn clock_line(&mut self, line: &str) -> Step {
        let time = line.trim();
        if time.is_empty() {
            return self.clock_done(Says::none());
        }
        self.state = State::SettingClock;
        Says::none().then(Next::Call(Call::SetClock(time.to_owned())))
    }

    /// Continues with what the machine is.
    pub(super) fn clock_done(&mut self, says: Says) -> Step {
        self.clock_asked = true;
        self.state = State::Look { greet: true };
        says.then(Next::Look)
    }

    /// The clock does not have this time.
    pub(super) fn clock_failed(&mut self, why: &str) -> Step {
        self.time(Says::error(why))
    }
}
