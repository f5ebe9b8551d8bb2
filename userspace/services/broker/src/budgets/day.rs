//! What of budgets depends on the clock of the day, which people set, and may set back.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_schema::authority::Profile;
use capos_setup::CLOCK_IS_SET;

use super::{Budgets, DAY, Table};

/// Whether a day that began then is over. If the clock is not known, it is not.
pub(super) fn is_over(began: u64, unix: u64, period: u64) -> bool {
    began > 0 && unix > began && unix.saturating_sub(began) >= period
}

/// Corrects a time at which something began that is behind the present one: the clock was ahead then.
fn correct(began: &mut u64, unix: u64) -> bool {
    let is_ahead = *began > unix;
    *began = unix.min(*began);
    is_ahead
}

impl Budgets {
    /// What began in the future began now, so that it is over in its time. It gives nothing back that was used. A clock that was
    /// never set says nothing.
    fn turn_back(&mut self, unix: u64) {
        if unix < CLOCK_IS_SET {
            return;
        }
        let mut changed: Vec<(Table, String)> = Vec::new();
        let mut note = |table, name: &String, began: &mut u64| {
            if correct(began, unix) {
                changed.push((table, name.to_string()));
            }
        };
        for (name, principal) in &mut self.principals {
            note(Table::Principals, name, &mut principal.began);
        }
        for (name, (began, _)) in &mut self.absent {
            note(Table::Principals, name, began);
        }
        for (id, session) in &mut self.sessions {
            note(Table::Sessions, id, &mut session.began_unix);
        }
        for (id, lost) in &mut self.lost {
            note(Table::Sessions, id, &mut lost.began_unix);
        }
        for (name, run) in &mut self.paused {
            note(Table::Runs, name, &mut run.at);
        }
        self.changed.extend(changed);
    }

    /// Forgets lost sessions of a profile that would be over by its time.
    pub(super) fn forget_over(&mut self, profile: Profile, most: u64, unix: u64) {
        let over: Vec<String> = self
            .lost
            .iter()
            .filter(|(_, lost)| lost.profile == profile && is_over(lost.began_unix, unix, most))
            .map(|(id, _)| id.clone())
            .collect();
        for id in over {
            self.lost.remove(&id);
            self.changed.insert((Table::Sessions, id));
        }
    }

    /// Begins the day of principals whose last one is over.
    pub(super) fn renew(&mut self, unix: u64) {
        self.turn_back(unix);
        for (name, principal) in &mut self.principals {
            if is_over(principal.began, unix, DAY) {
                principal.began = unix;
                self.ledger.renew(principal.scope);
                self.changed.insert((Table::Principals, name.clone()));
            } else if principal.began == 0 {
                principal.began = unix;
            }
        }
        let over: Vec<String> = self
            .absent
            .iter()
            .filter(|(_, (began, _))| is_over(*began, unix, DAY))
            .map(|(name, _)| name.clone())
            .collect();
        for name in over {
            self.absent.remove(&name);
            self.changed.insert((Table::Principals, name));
        }
    }
}
