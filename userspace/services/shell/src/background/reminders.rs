//! Lines that the person wants to be shown at a time.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_agent::Signal;
use capos_plural::count;
use capos_schema::terminal::Style;

use super::schedule::{self, When, until};
use crate::console::Runner;

/// Reminders of a session that wait, at most.
const MOST: usize = 16;
/// Letters of one, at most.
pub const LETTERS: usize = 200;

/// A text that the person is shown later.
pub struct Reminder {
    pub number: u32,
    text: String,
    when: When,
    cancel: Signal,
}

impl Reminder {
    /// Its text, and how long it waits. `unix` is the time of the day, in milliseconds since 1970.
    pub fn status(&self, now: u64, unix: Option<u64>) -> String {
        format!("in {}: {}", schedule::text(self.when.left(now, unix)), self.text)
    }
}

/// The reminders of a session that wait. They end with it.
#[derive(Default)]
pub struct Reminders {
    list: RefCell<Vec<Rc<Reminder>>>,
    number: Cell<u32>,
}

impl Reminders {
    /// All, oldest first.
    pub fn all(&self) -> Vec<Rc<Reminder>> {
        self.list.borrow().clone()
    }

    /// Adds one; the caller waits for its time.
    ///
    /// # Errors
    /// As many wait as may.
    fn add(&self, text: &str, when: When) -> Result<Rc<Reminder>, String> {
        let mut list = self.list.borrow_mut();
        if list.len() >= MOST {
            let most = count(MOST, "reminder");
            return Err(format!("{most} of this session wait, which is the limit; /remind cancel N drops one"));
        }
        self.number.set(self.number.get().saturating_add(1));
        let (number, text) = (self.number.get(), text.to_string());
        let reminder = Rc::new(Reminder { number, text, when, cancel: Signal::default() });
        list.push(reminder.clone());
        Ok(reminder)
    }

    /// Drops one; whether it waited.
    pub fn cancel(&self, number: u32) -> bool {
        let found = self.take(number);
        found.inspect(|reminder| reminder.cancel.set()).is_some()
    }

    fn take(&self, number: u32) -> Option<Rc<Reminder>> {
        let mut list = self.list.borrow_mut();
        let at = list.iter().position(|one| one.number == number)?;
        Some(list.remove(at))
    }

    /// Drops all; how many waited.
    pub fn cancel_all(&self) -> usize {
        let list = self.list.take();
        list.iter().for_each(|reminder| reminder.cancel.set());
        list.len()
    }
}

/// Has the person shown a text at a time.
///
/// # Errors
/// As many reminders wait as may, or the session ends before that time.
pub fn remind(runner: &Rc<Runner>, text: &str, when: When) -> Result<Rc<Reminder>, String> {
    schedule::check_end(when, runner).map_err(|why| format!("{why}, and its reminders end with it"))?;
    let reminder = runner.reminders.add(text, when)?;
    let (runner, waiting) = (runner.clone(), reminder.clone());
    drop(capos_rt::spawn(async move {
        let is_time = until(waiting.when, &runner, &waiting.cancel).await;
        if is_time && runner.reminders.take(waiting.number).is_some() {
            runner.announcer.announce(Style::Warning, &format!("reminder {}: {}", waiting.number, waiting.text));
        }
    }));
    Ok(reminder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reminders_are_bounded_and_keep_their_numbers() {
        let reminders = Reminders::default();
        for number in 1..=MOST {
            assert_eq!(reminders.add("tea", When::After(0)).map(|one| one.number as usize), Ok(number));
        }
        assert!(reminders.add("tea", When::After(0)).is_err_and(|why| why.starts_with("16 reminders")));
        let third = reminders.all().remove(2);
        assert!(reminders.cancel(3) && third.cancel.is_set() && !reminders.cancel(3));
        assert_eq!(reminders.add("tea", When::After(0)).map(|one| one.number), Ok(17));
        assert_eq!((reminders.cancel_all(), reminders.all().len()), (16, 0));
    }

    #[test]
    fn a_reminder_says_how_long_it_waits() {
        let reminder = Reminders::default().add("tea", When::After(65_000_000_000)).unwrap();
        assert_eq!(reminder.status(0, None), "in 1 min 5 s: tea");
    }
}
