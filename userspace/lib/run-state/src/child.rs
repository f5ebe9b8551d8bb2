//! Child runs, as the checkpoint of their parent has them.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};

use crate::run::RunState;

/// Child runs whose state is at hand. Of more, those that began first are only counted.
const MOST: usize = 8;
/// Bytes of the beginning of a task.
const TASK: usize = 60;

/// A child run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Child {
    /// Its number in its parent, from 1.
    pub number: u32,
    /// The beginning of its task, in one line.
    pub task: String,
    /// How it ended. Idle until its call is permitted, and running then; whatever is not over was cut off with its parent.
    pub state: RunState,
    /// Requests to the model that it made.
    pub asked: u32,
    /// Tokens that models read and wrote in it, as their workers say.
    pub tokens: u64,
}

/// The child runs of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Children {
    /// The number of the last one.
    pub last: u32,
    /// Requests to the model that those that have ended made together.
    pub asked: u32,
    /// Requests that those whose calls have not ended may make at most, all together.
    pub reserved: u32,
    /// The latest ones, the last at the end.
    pub list: Vec<Child>,
}

impl Children {
    /// One more, whose call is proposed and which may make this many requests to the model; its number.
    pub fn announce(&mut self, task: &str, calls: u32) -> u32 {
        self.last = self.last.saturating_add(1);
        self.reserved = self.reserved.saturating_add(calls);
        let line: String = task.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        let task = line.get(..line.floor_char_boundary(TASK)).unwrap_or_default().to_string();
        if self.list.len() >= MOST {
            self.list.remove(0);
        }
        self.list.push(Child { number: self.last, task, ..Child::default() });
        self.last
    }

    /// The one with this number begins.
    pub fn begin(&mut self, number: u32) {
        if let Some(child) = self.list.iter_mut().find(|child| child.number == number) {
            child.state = RunState::Running;
        }
    }

    /// The one with this number has ended in this state, after `asked` of `most` requests to the model and `tokens` tokens.
    pub fn end(&mut self, number: u32, state: RunState, (asked, most): (u32, u32), tokens: u64) {
        self.asked = self.asked.saturating_add(asked);
        self.reserved = self.reserved.saturating_sub(most);
        if let Some(child) = self.list.iter_mut().find(|child| child.number == number) {
            (child.state, child.asked, child.tokens) = (state, asked, tokens);
        }
    }

    /// Their run was cut off, and had `room` requests left: how many those that had not ended have made is not known, so all that
    /// they were permitted count.
    pub fn cut_off(&mut self, room: u32) {
        self.asked = self.asked.saturating_add(self.reserved.min(room));
        self.reserved = 0;
    }

    /// The calls of an answer have ended. Those that were not permitted are forgotten.
    pub fn forget_idle(&mut self) {
        self.reserved = 0;
        self.list.retain(|child| child.state != RunState::Idle);
    }

    /// Whether there was none.
    pub(crate) fn is_none(&self) -> bool {
        self.last == 0
    }

    pub(crate) fn value(&self) -> Value {
        let list = self.list.iter();
        let list: Vec<Value> = list
            .map(|Child { number, task, state, asked, tokens }| json!([number, task, state.name(), asked, tokens]))
            .collect();
        json!({ "last": self.last, "asked": self.asked, "reserved": self.reserved, "list": list })
    }

    /// Reads what [`value`](Self::value) has written.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let number = |value: &Value| u32::try_from(value.as_u64()?).ok();
        let list = value.get("list")?.as_array().filter(|list| list.len() <= MOST)?;
        let child = |value: &Value| {
            let [of, task, state, asked, tokens] = value.as_array()?.as_slice() else { return None };
            let name = state.as_str()?;
            Some(Child {
                number: number(of)?,
                task: task.as_str()?.to_string(),
                state: RunState::ALL.into_iter().find(|state| state.name() == name)?,
                asked: number(asked)?,
                tokens: tokens.as_u64()?,
            })
        };
        let list = list.iter().map(child).collect::<Option<_>>()?;
        // Checkpoints of earlier versions have no such member.
        let reserved = value.get("reserved").map_or(Some(0), number)?;
        Some(Self { last: number(value.get("last")?)?, asked: number(value.get("asked")?)?, reserved, list })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requirement I15: a parent's checkpoint names its child runs, in a bounded room.
    #[test]
    fn i15_the_child_runs_of_a_checkpoint_are_bounded_and_read_as_written() {
        let mut children = Children::default();
        assert!(children.is_none());
        for number in 1..=20 {
            assert_eq!(children.announce(&"\"\n\u{1}é".repeat(100), 2), number);
            if number % 2 == 0 {
                children.begin(number);
            }
        }
        children.end(20, RunState::Completed, (1, 2), 70);
        let text = children.value().to_string();
        assert!(text.len() < 2048, "{} bytes", text.len());
        assert!(!text.contains("\\n") && !text.contains("\\u"));
        assert_eq!(Children::read(&serde_json::from_str(&text).unwrap()), Some(children.clone()));
        assert_eq!((children.asked, children.reserved), (1, 38));
        let earlier = text.replace(",\"reserved\":38", "");
        assert_eq!(Children::read(&serde_json::from_str(&earlier).unwrap()).unwrap().reserved, 0);
        for (room, asked) in [(5, 6), (38, 39), (100, 39)] {
            let mut cut = children.clone();
            cut.cut_off(room);
            assert_eq!((cut.asked, cut.reserved), (asked, 0));
        }
        assert!(children.list.iter().all(|child| child.task.starts_with("\"  é") && child.task.len() <= TASK));
        children.forget_idle();
        assert_eq!(children.list.iter().map(|child| child.number).collect::<Vec<_>>(), [14, 16, 18, 20]);
        assert_eq!((children.last, children.asked, children.reserved), (20, 1, 0));
        for damaged in ["[]", "{}", "{\"last\":1,\"asked\":1,\"list\":[[1]]}", "{\"last\":-1,\"asked\":1,\"list\":[]}"]
        {
            assert_eq!(Children::read(&serde_json::from_str(damaged).unwrap()), None);
        }
    }
}
