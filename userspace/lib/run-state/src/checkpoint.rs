//! The checkpoint of a run: what is kept of it after each step, so that it continues after a restart.
//!
//! It refers to the messages of its conversation by their numbers and holds none of them. It is written in two parts. The head
//! has all members, and is written when the run begins in a session. After each step a point has those that change.
//! [`Checkpoint::read`] puts the last point on the head.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_budget::{Amounts, Dimension};
use serde_json::{Map, Value, json};

use crate::child::Children;
use crate::run::RunState;

/// The version that this system writes and reads.
pub const CHECKPOINT_VERSION: &str = "1.0";
/// Bytes of a run's conditions with their schemas as JSON, so that they have room in a head.
const MOST_CONDITIONS: usize = 16 << 10;
/// The member of a task that has its child runs, if there were some.
const CHILDREN: &str = "children";

/// A condition of a run, as it was declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// The condition, as it is typed.
    pub condition: String,
    /// The schema that was read when it was declared; null if there is none.
    pub schema: Value,
}

/// What changes of a run from step to step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Where the run is.
    pub state: RunState,
    /// The last step whose results are all saved.
    pub step: u32,
    /// Requests to the model that began.
    pub asked: u32,
    /// Requests that may begin before the next checkpoint: if the run is cut off, they count as begun.
    pub reserved: u32,
    /// How many may begin until the person, or the end of a segment, permits more.
    pub most: u32,
    /// The segment of a long run, counted from 1, and how many it may have; 1 for any other run.
    pub segments: (u32, u32),
    /// How often the model was told that a condition does not hold.
    pub reminders: u32,
    /// The messages of the run: the first, and the one after the last that is saved.
    pub messages: (u32, u32),
    /// Messages of the run that could not be saved.
    pub missing: u32,
    /// Tokens that models read and wrote in the run, as their workers say.
    pub tokens: (u64, u64),
    /// Tokens of the session so far.
    pub session_tokens: u64,
    /// What the run has used of each dimension.
    pub used: Amounts,
    /// What was added to its limits.
    pub granted: Amounts,
    /// What its last step used.
    pub spent: Amounts,
    /// The label of all that the model has seen.
    pub labels: Vec<String>,
    /// Its child runs.
    pub children: Children,
    /// Milliseconds since 1970.
    pub at: u64,
}

/// The checkpoint of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The session that the run is in.
    pub session: String,
    /// The home, without its user's name.
    pub workspace: String,
    /// Whose run it is.
    pub principal: String,
    /// The conversation, which names the run together with the turn.
    pub conversation: String,
    /// The turn.
    pub turn: u32,
    /// What has to hold before it is done.
    pub conditions: Vec<Declared>,
    /// Id of the model.
    pub model: String,
    /// What the run was permitted, as a digest; a later session compares it with its own.
    pub policy: String,
    /// What changes.
    pub progress: Progress,
}

fn conditions(declared: &[Declared]) -> Value {
    let one = |declared: &Declared| match &declared.schema {
        Value::Null => json!({ "condition": declared.condition }),
        schema => json!({ "condition": declared.condition, "schema": schema }),
    };
    declared.iter().map(one).collect()
}

/// Whether the conditions of a run have room in its checkpoint.
///
/// # Errors
/// They are too long.
pub fn check_conditions(declared: &[Declared]) -> Result<(), String> {
    let bytes = conditions(declared).to_string().len();
    if bytes > MOST_CONDITIONS {
        return Err(format!(
            "the conditions of a run with their schemas would take {bytes} bytes of its checkpoint, and {MOST_CONDITIONS} are \
             possible; shorten a schema, or declare fewer"
        ));
    }
    Ok(())
}

fn amounts(amounts: Amounts) -> Value {
    // Nothing is written as nothing: most dimensions of most steps are.
    let mut all: Vec<u64> = amounts.iter().map(|(_, amount)| amount).collect();
    while all.last() == Some(&0) {
        all.pop();
    }
    json!(all)
}

/// Puts the members of `over` into `value`; an object's are put into the object that is there.
fn merge(value: &mut Value, over: Value) {
    match (value, over) {
        (Value::Object(value), Value::Object(over)) => {
            for (name, over) in over {
                merge(value.entry(name).or_insert(Value::Null), over);
            }
        }
        (value, over) => *value = over,
    }
}

impl Checkpoint {
    /// The name of the run.
    #[must_use]
    pub fn run(&self) -> String {
        format!("{}-{}", self.conversation, self.turn)
    }

    fn value(&self) -> Value {
        let conditions = conditions(&self.conditions);
        let mut value = json!({
            "checkpointVersion": CHECKPOINT_VERSION,
            "sessionId": self.session,
            "workspaceId": self.workspace,
            "userId": self.principal,
            "conversationId": self.conversation,
            "model": self.model,
            "policyBundleVersion": self.policy,
            "task": { "taskId": self.run(), "turn": self.turn, "conditions": conditions },
        });
        merge(&mut value, self.changing());
        value
    }

    fn changing(&self) -> Value {
        let Progress { state, step, asked, reserved, most, segments, reminders, messages, missing, .. } =
            &self.progress;
        let Progress { tokens, session_tokens, used, granted, spent, labels, children, at, .. } = &self.progress;
        let mut value = json!({
            "task": {
                "status": state.name(),
                "stepCount": step,
                "asked": asked,
                "reserved": reserved,
                "maxSteps": most,
                "segments": [segments.0, segments.1],
                "reminders": reminders,
                "tokens": [tokens.0, tokens.1],
            },
            "stepCursor": format!("{}-{step}", self.run()),
            "messages": [messages.0, messages.1, missing],
            "sessionTokensUsed": session_tokens,
            "budget": { "used": amounts(*used), "granted": amounts(*granted), "step": amounts(*spent) },
            "labels": labels,
            "checkpointedAt": at,
        });
        if !children.is_none() {
            merge(&mut value, json!({ "task": { CHILDREN: children.value() } }));
        }
        value
    }

    /// All of it, as JSON.
    #[must_use]
    pub fn head(&self) -> String {
        self.value().to_string()
    }

    /// What changes from step to step, as JSON.
    #[must_use]
    pub fn point(&self) -> String {
        self.changing().to_string()
    }

    /// What the last step used, as JSON: the tokens that the run has read and written so far, and the amounts.
    #[must_use]
    pub fn step(&self) -> String {
        let (read, written) = self.progress.tokens;
        json!([read, written, amounts(self.progress.spent)]).to_string()
    }

    /// Reads a checkpoint. The point may be empty.
    ///
    /// # Errors
    /// It is of another version, or a member is missing or wrong: which.
    pub fn read(head: &str, point: &str) -> Result<Self, String> {
        let parse = |text: &str, what: &str| -> Result<Value, String> {
            serde_json::from_str(text).map_err(|bad| format!("its {what} is not JSON: {bad}"))
        };
        let mut value = parse(head, "head")?;
        let version = value.get("checkpointVersion").and_then(Value::as_str).unwrap_or("none");
        if version != CHECKPOINT_VERSION {
            return Err(format!("it is of version {version:?}; this system knows {CHECKPOINT_VERSION:?}"));
        }
        if !point.is_empty() {
            let point = parse(point, "last point")?;
            if !point.is_object() {
                return Err("its last point is no object".to_string());
            }
            merge(&mut value, point);
        }
        Reader(value.as_object().ok_or("it is no object")?).checkpoint()
    }
}

/// Reads what a run that has ended left: its last point alone.
///
/// # Errors
/// A member is missing or wrong: which.
pub fn read_progress(point: &str) -> Result<Progress, String> {
    let value: Value = serde_json::from_str(point).map_err(|bad| format!("it is not JSON: {bad}"))?;
    Reader(value.as_object().ok_or("it is no object")?).progress()
}

/// Reads what a step used: tokens read and written, and the amounts.
#[must_use]
pub fn read_step(text: &str) -> Option<((u64, u64), Amounts)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let [read, written, spent] = value.as_array()?.as_slice() else { return None };
    Some(((read.as_u64()?, written.as_u64()?), read_amounts(spent)?))
}

fn read_amounts(value: &Value) -> Option<Amounts> {
    let list = value.as_array().filter(|list| list.len() <= Dimension::ALL.len())?;
    let mut amounts = Amounts::default();
    for (dimension, amount) in Dimension::ALL.into_iter().zip(list) {
        amounts.set(dimension, amount.as_u64()?);
    }
    Some(amounts)
}

struct Reader<'a>(&'a Map<String, Value>);

fn wrong(name: &str) -> String {
    format!("its member {name:?} is missing or wrong")
}

impl<'a> Reader<'a> {
    fn of(&self, name: &str) -> Result<&'a Value, String> {
        self.0.get(name).ok_or_else(|| wrong(name))
    }

    fn inner(&self, name: &str) -> Result<Self, String> {
        self.of(name)?.as_object().map(Reader).ok_or_else(|| wrong(name))
    }

    fn text(&self, name: &str) -> Result<String, String> {
        self.of(name)?.as_str().map(ToString::to_string).ok_or_else(|| wrong(name))
    }

    fn long(&self, name: &str) -> Result<u64, String> {
        self.of(name)?.as_u64().ok_or_else(|| wrong(name))
    }

    fn number(&self, name: &str) -> Result<u32, String> {
        u32::try_from(self.long(name)?).map_err(|_| wrong(name))
    }

    fn numbers<const N: usize>(&self, name: &str) -> Result<[u64; N], String> {
        let list = self.of(name)?.as_array().ok_or_else(|| wrong(name))?;
        let numbers: Option<Vec<u64>> = list.iter().map(Value::as_u64).collect();
        numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(|| wrong(name))
    }

    fn small<const N: usize>(&self, name: &str) -> Result<[u32; N], String> {
        let mut small = [0; N];
        for (small, number) in small.iter_mut().zip(self.numbers::<N>(name)?) {
            *small = u32::try_from(number).map_err(|_| wrong(name))?;
        }
        Ok(small)
    }

    fn amounts(&self, name: &str) -> Result<Amounts, String> {
        read_amounts(self.of(name)?).ok_or_else(|| wrong(name))
    }

    fn progress(&self) -> Result<Progress, String> {
        let (task, budget) = (self.inner("task")?, self.inner("budget")?);
        let status = task.text("status")?;
        let state = RunState::ALL.into_iter().find(|state| state.name() == status).ok_or_else(|| wrong("status"))?;
        let [segment, segments] = task.small("segments")?;
        let [from, to, missing] = self.small("messages")?;
        let [read, written] = task.numbers("tokens")?;
        let labels = self.of("labels")?.as_array().ok_or_else(|| wrong("labels"))?;
        let labels = labels.iter().map(|label| label.as_str().map(ToString::to_string));
        Ok(Progress {
            state,
            step: task.number("stepCount")?,
            asked: task.number("asked")?,
            // Checkpoints of earlier versions have no such member.
            reserved: if task.0.get("reserved").is_some() { task.number("reserved")? } else { 0 },
            most: task.number("maxSteps")?,
            segments: (segment, segments),
            reminders: task.number("reminders")?,
            messages: (from, to),
            missing,
            tokens: (read, written),
            session_tokens: self.long("sessionTokensUsed")?,
            used: budget.amounts("used")?,
            granted: budget.amounts("granted")?,
            spent: budget.amounts("step")?,
            labels: labels.collect::<Option<_>>().ok_or_else(|| wrong("labels"))?,
            children: match task.0.get(CHILDREN) {
                Some(children) => Children::read(children).ok_or_else(|| wrong(CHILDREN))?,
                None => Children::default(),
            },
            at: self.long("checkpointedAt")?,
        })
    }

    fn checkpoint(&self) -> Result<Checkpoint, String> {
        let task = self.inner("task")?;
        let mut conditions = Vec::new();
        for declared in task.of("conditions")?.as_array().ok_or_else(|| wrong("conditions"))? {
            let condition = declared.get("condition").and_then(Value::as_str).ok_or_else(|| wrong("condition"))?;
            let schema = declared.get("schema").cloned().unwrap_or_default();
            conditions.push(Declared { condition: condition.to_string(), schema });
        }
        let found = Checkpoint {
            session: self.text("sessionId")?,
            workspace: self.text("workspaceId")?,
            principal: self.text("userId")?,
            conversation: self.text("conversationId")?,
            turn: task.number("turn")?,
            conditions,
            model: self.text("model")?,
            policy: self.text("policyBundleVersion")?,
            progress: self.progress()?,
        };
        // What names a step of another run is of another run.
        match self.text("stepCursor")? == format!("{}-{}", found.run(), found.progress.step) {
            true => Ok(found),
            false => Err(wrong("stepCursor")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn some() -> impl Strategy<Value = Checkpoint> {
        let amounts = || {
            proptest::array::uniform8(any::<u64>()).prop_map(|all| {
                let mut amounts = Amounts::default();
                for (dimension, amount) in Dimension::ALL.into_iter().zip(all) {
                    amounts.set(dimension, if amount % 3 == 0 { 0 } else { amount });
                }
                amounts
            })
        };
        let numbers = proptest::array::uniform8(any::<u32>());
        let texts = proptest::array::uniform6("\\PC{0,12}");
        (numbers, any::<[u64; 4]>(), texts, (amounts(), amounts(), amounts()), 0..RunState::ALL.len()).prop_map(
            |(n, l, [session, workspace, principal, model, policy, label], (used, granted, spent), state)| {
                let schema = if n[0] % 2 == 0 { Value::Null } else { json!({ "type": label }) };
                Checkpoint {
                    session,
                    workspace,
                    principal,
                    conversation: "c0ffee".to_string(),
                    turn: n[0],
                    conditions: Vec::from([Declared { condition: "exists \"a b\"".to_string(), schema }]),
                    model,
                    policy,
                    progress: Progress {
                        state: RunState::ALL[state],
                        step: n[1],
                        asked: n[2],
                        reserved: n[4],
                        most: n[3],
                        segments: (n[4], n[5]),
                        reminders: n[6],
                        messages: (n[7], n[1]),
                        missing: n[2],
                        tokens: (l[0], l[1]),
                        session_tokens: l[2],
                        used,
                        granted,
                        spent,
                        children: {
                            let mut children = Children::default();
                            for _ in 0..n[5] % 12 {
                                let number = children.announce(&label, n[5]);
                                children.end(number, RunState::ALL[state], (n[6], n[5]), l[0]);
                            }
                            children
                        },
                        labels: Vec::from([label]),
                        at: l[3],
                    },
                }
            },
        )
    }

    proptest! {
        /// Requirement F09: whatever a run is, its checkpoint is read as it was written: alone, and as a point on an earlier head.
        #[test]
        fn f09_a_checkpoint_is_read_as_it_was_written(first in some(), later in some()) {
            prop_assert_eq!(Checkpoint::read(&first.head(), ""), Ok(first.clone()));
            let mut later = Checkpoint { progress: later.progress, ..first.clone() };
            if later.progress.children.is_none() {
                // A run forgets none of them.
                later.progress.children = first.progress.children.clone();
            }
            prop_assert_eq!(Checkpoint::read(&first.head(), &later.point()), Ok(later.clone()));
            prop_assert_eq!(read_progress(&later.point()), Ok(later.progress.clone()));
            let step = (later.progress.tokens, later.progress.spent);
            prop_assert_eq!(read_step(&later.step()), Some(step));
        }

        /// Requirement F12: whatever bytes are lost or changed, it is another checkpoint of this version or none.
        #[test]
        fn f12_what_is_damaged_is_read_or_rejected(found in some(), cut in 0_usize..2000, put in "[\"{}0-9a]{0,3}") {
            let text = found.head();
            let at = text.floor_char_boundary(cut.min(text.len()));
            let _ = Checkpoint::read(&text[..at], &found.point());
            let _ = Checkpoint::read(&format!("{}{put}{}", &text[..at], &text[at..]), "");
            prop_assert!(Checkpoint::read(&text[..at], "").is_err() || at == text.len());
        }
    }

    /// A head with the longest conditions, and with the longest names and labels that there can be, is within the store's
    /// bound.
    #[test]
    fn conditions_that_are_accepted_have_room_in_a_head() {
        let declared = |bytes: usize| Declared { condition: "\"".repeat(bytes), schema: Value::Null };
        let most = (MOST_CONDITIONS - 18) / 2;
        assert!(check_conditions(&[declared(most)]).is_ok());
        assert!(check_conditions(&[declared(most + 1)]).unwrap_err().contains("16384 are possible"));
        assert!(check_conditions(&[declared(most / 2), declared(most / 2)]).is_err(), "all of them count");
        let mut used = Amounts::default();
        for dimension in Dimension::ALL {
            used.set(dimension, u64::MAX);
        }
        let name = |bytes: usize| "\u{1}".repeat(bytes);
        let progress = Progress { labels: Vec::from([name(512)]), used, granted: used, ..Progress::default() };
        let longest = Checkpoint {
            session: name(32),
            workspace: name(32),
            principal: name(64),
            conversation: name(32),
            model: name(256),
            policy: name(32),
            conditions: Vec::from([declared(most)]),
            progress: Progress { spent: used, ..progress },
            ..Checkpoint::default()
        };
        assert!(longest.head().len() <= 24 << 10, "{}", longest.head().len());
    }

    /// Requirement F12: the message says what is wrong.
    #[test]
    fn f12_a_checkpoint_of_a_later_version_is_rejected_by_its_version() {
        let found = Checkpoint { conversation: "c1".to_string(), turn: 2, ..Checkpoint::default() };
        let later = found.head().replace("\"1.0\"", "\"1.1\"");
        let why = Checkpoint::read(&later, &found.point()).unwrap_err();
        assert_eq!(why, "it is of version \"1.1\"; this system knows \"1.0\"");
        let why = Checkpoint::read(&found.head().replace("\"turn\"", "\"tern\""), "").unwrap_err();
        assert_eq!(why, "its member \"turn\" is missing or wrong");
        let other = Checkpoint { turn: 3, ..found.clone() };
        assert_eq!(Checkpoint::read(&found.head(), &other.point()).unwrap_err(), wrong("stepCursor"));
    }
}
