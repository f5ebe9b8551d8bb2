//! Lines that the person wants to be shown at a time.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_agent::world::Ask;
use capos_agent::{Signal, Tool};
use capos_plural::count;
use capos_runner::OwnCall;
use capos_runner::grants::REMINDING;
use capos_schema::terminal::Style;
use serde_json::{Map, Value, json};

use super::schedule::{self, When, until};
use crate::console::Base;
use crate::escape::escape;

/// Reminders of a session that wait, at most.
const MOST: usize = 16;
/// Those among them that the assistant set, at most.
const MOST_OF_ASSISTANT: usize = 8;
/// Letters of one, at most.
const LETTERS: usize = 200;

/// The one who set a reminder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setter {
    /// The person, by the command.
    Person,
    /// The model, by a call: its text may be of others.
    Assistant,
}

/// A text that the person is shown later.
pub struct Reminder {
    pub number: u32,
    text: String,
    setter: Setter,
    when: When,
    cancel: Signal,
}

impl Reminder {
    /// Its text, and how long it waits. `unix` is the time of the day, in milliseconds since 1970.
    pub fn status(&self, now: u64, unix: Option<u64>) -> String {
        format!("in {}{}: {}", self.left(now, unix), self.by(), self.text)
    }

    /// How long it waits, for a person.
    pub fn left(&self, now: u64, unix: Option<u64>) -> String {
        schedule::text(self.when.left(now, unix))
    }

    /// What the person is shown at its time.
    fn shown(&self) -> String {
        format!("reminder {}{}: {}", self.number, self.by(), self.text)
    }

    /// A model's words do not look like the system's.
    fn style(&self) -> Style {
        match self.setter {
            Setter::Person => Style::Warning,
            Setter::Assistant => Style::Plain,
        }
    }

    fn by(&self) -> &'static str {
        match self.setter {
            Setter::Person => "",
            Setter::Assistant => " (set by the assistant)",
        }
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
    fn add(&self, (text, setter): (&str, Setter), when: When) -> Result<Rc<Reminder>, String> {
        let mut list = self.list.borrow_mut();
        if list.len() >= MOST {
            let most = count(MOST, "reminder");
            return Err(format!("{most} of this session wait, which is the limit; /remind cancel N drops one"));
        }
        // The person's own ones always find room.
        let of_assistant = list.iter().filter(|one| matches!(one.setter, Setter::Assistant)).count();
        if matches!(setter, Setter::Assistant) && of_assistant >= MOST_OF_ASSISTANT {
            let most = count(MOST_OF_ASSISTANT, "reminder");
            return Err(format!(
                "{most} that the assistant set wait, which is the limit; the person can drop one with /remind cancel N"
            ));
        }
        self.number.set(self.number.get().saturating_add(1));
        let (number, text) = (self.number.get(), text.to_string());
        let reminder = Rc::new(Reminder { number, text, setter, when, cancel: Signal::default() });
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

/// A reminder's text in the form that is shown.
///
/// # Errors
/// It is empty or too long.
pub fn wording(text: &str) -> Result<String, String> {
    // Counted as it was written: a character that is escaped takes more letters.
    let letters = text.trim().chars().count();
    let text = escape(text.trim());
    match letters {
        0 => Err("a reminder needs a text".to_string()),
        letters if letters > LETTERS => {
            Err(format!("a reminder has at most {LETTERS} letters, and this one has {letters}"))
        }
        _ => Ok(text),
    }
}

/// Has the person shown a text, as [`wording`] gives it, at a time.
///
/// # Errors
/// As many reminders wait as may, or the session ends before that time.
pub fn remind(base: &Rc<Base>, said: (&str, Setter), when: When) -> Result<Rc<Reminder>, String> {
    check_end(base, when)?;
    let reminder = base.reminders.add(said, when)?;
    let (base, waiting) = (base.clone(), reminder.clone());
    drop(capos_rt::spawn(async move {
        let is_time = until(waiting.when, &base, &waiting.cancel).await;
        if is_time && base.reminders.take(waiting.number).is_some() {
            base.announcer.announce(waiting.style(), &waiting.shown());
        }
    }));
    Ok(reminder)
}

fn check_end(base: &Base, when: When) -> Result<(), String> {
    schedule::check_end(when, base).map_err(|why| format!("{why}, and its reminders end with it"))
}

/// A model's call that sets a reminder; none if the tool is another one.
///
/// # Errors
/// What is wrong with which argument.
pub fn call(base: &Rc<Base>, tool: &Tool, given: &Map<String, Value>) -> Option<Result<OwnCall, String>> {
    (tool.descriptor.interface_id == REMINDING).then(|| {
        let text = text_of(given)?;
        let when = when_of(base, given)?;
        check_end(base, when).map_err(|why| format!("{}: {why}", place(when)))?;
        let base = base.clone();
        let set: OwnCall = Box::new(move || {
            let set = remind(&base, (&text, Setter::Assistant), when)?;
            let left = set.left(base.clock.now(), base.clock.wall_clock().ok());
            let number = set.number;
            Ok(json!({ "reminder": format!("reminder {number} comes in {left}; /remind cancel {number} drops it") }))
        });
        Ok(set)
    })
}

/// What a person is told before they agree to such a call: arguments name seconds. None for calls of other tools.
pub fn note(base: &Base, ask: &Ask<'_>) -> Option<String> {
    if ask.tool.descriptor.interface_id != REMINDING {
        return None;
    }
    let given: Value = serde_json::from_str(ask.arguments).ok()?;
    let when = when_of(base, given.as_object()?).ok()?;
    let left = schedule::text(when.left(base.clock.now(), base.clock.wall_clock().ok()));
    Some(format!("You are shown the text in {left}, if this session lasts until then."))
}

fn text_of(given: &Map<String, Value>) -> Result<String, String> {
    wording(given.get("text").and_then(Value::as_str).unwrap_or_default()).map_err(|why| format!("$.text: {why}"))
}

fn when_of(base: &Base, given: &Map<String, Value>) -> Result<When, String> {
    let seconds = given.get("afterSeconds").and_then(Value::as_u64).unwrap_or_default();
    let time = given.get("time").and_then(Value::as_str).unwrap_or_default();
    schedule::of_call((seconds, time), base.clock.now(), schedule::clock(base))
}

/// The argument that a time comes from.
fn place(when: When) -> &'static str {
    match when {
        When::After(_) => "$.afterSeconds",
        When::At(_) => "$.time",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEA: (&str, Setter) = ("tea", Setter::Person);

    #[test]
    fn reminders_are_bounded_and_keep_their_numbers() {
        let reminders = Reminders::default();
        for number in 1..=MOST {
            assert_eq!(reminders.add(TEA, When::After(0)).map(|one| one.number as usize), Ok(number));
        }
        assert!(reminders.add(TEA, When::After(0)).is_err_and(|why| why.starts_with("16 reminders")));
        let third = reminders.all().remove(2);
        assert!(reminders.cancel(3) && third.cancel.is_set() && !reminders.cancel(3));
        assert_eq!(reminders.add(TEA, When::After(0)).map(|one| one.number), Ok(17));
        assert_eq!((reminders.cancel_all(), reminders.all().len()), (16, 0));
        // The assistant leaves room for the person's.
        for _ in 0..MOST_OF_ASSISTANT {
            assert!(reminders.add(("tea", Setter::Assistant), When::After(0)).is_ok());
        }
        assert!(
            reminders.add(("tea", Setter::Assistant), When::After(0)).is_err_and(|why| why.starts_with("8 reminders"))
        );
        assert!(reminders.add(TEA, When::After(0)).is_ok());
    }

    #[test]
    fn a_reminder_says_how_long_it_waits_and_who_has_set_it() {
        let reminders = Reminders::default();
        let when = When::After(65_000_000_000);
        let person = reminders.add(TEA, when).unwrap();
        assert_eq!(person.status(0, None), "in 1 min 5 s: tea");
        assert_eq!(person.shown(), "reminder 1: tea");
        let assistant = reminders.add(("tea", Setter::Assistant), when).unwrap();
        assert_eq!(assistant.status(0, None), "in 1 min 5 s (set by the assistant): tea");
        assert_eq!(assistant.shown(), "reminder 2 (set by the assistant): tea");
    }

    #[test]
    fn the_text_of_a_call_is_bounded_and_cannot_hide_anything() {
        let of = |text: &str| text_of(json!({ "text": text }).as_object().unwrap());
        assert_eq!(of(" tea\u{1b}[2J\n "), Ok("tea\\u{1b}[2J".to_string()));
        assert_eq!(of("  "), Err("$.text: a reminder needs a text".to_string()));
        assert_eq!(text_of(&Map::new()), Err("$.text: a reminder needs a text".to_string()));
        let long = "x".repeat(LETTERS);
        assert_eq!(of(&long), Ok(long.clone()));
        let why = "$.text: a reminder has at most 200 letters, and this one has 201";
        assert_eq!(of(&format!("{long}x")), Err(why.to_string()));
        // An escaped character counts once.
        assert!(of(&"\u{1b}".repeat(LETTERS)).is_ok());
    }

    /// The first sentence is all that a small model reads of a tool.
    #[test]
    fn the_tool_is_described_in_one_short_sentence() {
        let interface = capos_schema::reflection::interface(REMINDING).unwrap();
        let (method, tool) = interface.tool("remind").unwrap();
        assert!(tool.description.split(". ").next().unwrap().chars().count() <= 60);
        assert!(method.changes() && !method.on_request && !method.person);
        let schema: Value = serde_json::from_str(method.params_schema).unwrap();
        assert_eq!(schema["required"], json!(["text"]));
    }
}
