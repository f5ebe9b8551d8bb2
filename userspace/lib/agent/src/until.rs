//! Whether a run is done: the conditions that the person declared before it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_run_state::{Declared, Predicate, RunEvent, check_conditions};
use capos_schema::authority::{Label, Provenance};
use capos_schema::cap::LocalBoxFuture;
use capos_schema::models::{ChatMessage, Outcome, PermissionMode, Role};
use serde_json::Value;

use crate::agent::Agent;
use crate::call::time_limit;
use crate::race::{Either, race};
use crate::result::Brought;
use crate::snapshot::Tool;
use crate::turn_end::TurnEnd;
use crate::world::{Show, World};

/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// A condition that was declared: it is checked whenever the model has nothing more to do.
#[derive(Clone, Debug)]
pub struct Condition {
    predicate: Predicate,
    /// The call that tells whether it holds, with exactly these arguments.
    call: Option<(Tool, String)>,
    schema: Value,
    /// Why it cannot be checked; empty if it can.
    unchecked: String,
}

impl Condition {
    /// What was declared.
    #[must_use]
    pub fn predicate(&self) -> &Predicate {
        &self.predicate
    }

    /// The same as it was declared, with the schema that was read then.
    #[must_use]
    pub fn declared(&self) -> Declared {
        Declared { condition: self.predicate.to_string(), schema: self.schema.clone() }
    }

    /// A condition of an earlier session that cannot be checked in this one, and why: it does not hold.
    #[must_use]
    pub fn unchecked(predicate: Predicate, schema: Value, why: String) -> Self {
        Self { predicate, call: None, schema, unchecked: why }
    }
}

/// What the loop does when the model has nothing more to do.
pub(crate) enum Completion {
    /// The run ends or pauses.
    End(TurnEnd),
    /// A condition does not hold, and the model is told so.
    Continue,
}

/// Why a condition does not hold: constants and numbers for the model, and more for the person.
struct Unmet {
    why: String,
    more: String,
}

fn unmet(why: impl Into<String>, more: impl Into<String>) -> Unmet {
    Unmet { why: why.into(), more: more.into() }
}

impl<W: World> Agent<W> {
    /// Declares a condition after `earlier` ones of the same run. `tool` is the one that its predicate [calls](Predicate::call), and `schema` what the file of its
    /// schema says. The person consents to the call by declaring it, for exactly these arguments, and only for their next run.
    ///
    /// # Errors
    /// The arguments are not those of the tool, the schema is none, the conditions are too long for a checkpoint, or the call
    /// needs more than the person's consent.
    pub async fn declare(
        &self,
        earlier: &[Condition],
        predicate: Predicate,
        tool: Option<Tool>,
        schema: Value,
    ) -> Result<Condition, String> {
        if matches!(predicate, Predicate::Matches { .. }) {
            capos_reflect::check_schema(&schema).map_err(|bad| format!("the schema is not one: {bad}"))?;
        }
        let mut all: Vec<Declared> = earlier.iter().map(Condition::declared).collect();
        all.push(Declared { condition: predicate.to_string(), schema: schema.clone() });
        check_conditions(&all)?;
        let call = match (predicate.call(), tool) {
            (None, _) => None,
            (Some((name, _)), None) => return Err(format!("this session cannot check that: it has no tool {name}")),
            (Some((_, arguments)), Some(tool)) => {
                let (_, canonical) = self.world().prepare(&tool, &arguments.to_string(), &Label::default())?;
                match self.mode_of(&tool, &canonical).await? {
                    PermissionMode::Auto | PermissionMode::Consent => {}
                    PermissionMode::Forbidden => {
                        return Err(format!("this session does not permit {}", tool.descriptor.name));
                    }
                    PermissionMode::StepUp => {
                        return Err(format!(
                            "{} needs a passphrase for each call, so no condition can be made of it",
                            tool.descriptor.name
                        ));
                    }
                }
                Some((tool, canonical))
            }
        };
        Ok(Condition { predicate, call, schema, unchecked: String::new() })
    }

    /// The model has nothing more to do, and this is its answer.
    pub(crate) async fn complete(&mut self, answer: &str, interrupt: &mut LocalBoxFuture<'static, ()>) -> Completion {
        let mut found: Vec<(String, Unmet)> = Vec::new();
        for condition in &self.conditions {
            match self.holds(condition, answer, interrupt).await {
                Ok(()) => {}
                Err(Some(why)) => found.push((condition.predicate.to_string(), why)),
                Err(None) => return Completion::End(TurnEnd::Interrupted),
            }
        }
        let Some((first, why)) = found.first() else {
            return Completion::End(match self.course().late() {
                0 => TurnEnd::Answered,
                calls => TurnEnd::Scheduled(calls),
            });
        };
        let text = format!("the run is not done: `{first}` does not hold: {}", why.more);
        let reminders = self.going.as_ref().map_or(0, |going| going.reminders);
        if reminders >= self.bounds().reminders {
            return Completion::End(TurnEnd::Unmet(text));
        }
        if let Some(going) = &mut self.going {
            going.reminders = reminders.saturating_add(1);
        }
        self.world().show(Show::Notice(&format!("{text}; the model is told so"))).await;
        let mut message = String::from("(From the system, not from the person.) The task is not done yet:");
        for (predicate, why) in &found {
            message.push_str(&format!("\n- `{predicate}` does not hold: {}.", why.why));
        }
        message.push_str("\nContinue until all of this holds. If you cannot, say why.");
        // What a schema's check says quotes the model's own answer.
        let provenance = Provenance::Untrusted;
        let message = ChatMessage { role: Role::User, content: message, provenance, ..ChatMessage::default() };
        self.remind(message).await;
        Completion::Continue
    }

    /// The end of a run that was paused when the model had answered, if it is done. Otherwise it continues.
    pub(crate) async fn end_answered(&mut self, interrupt: &mut LocalBoxFuture<'static, ()>) -> Option<TurnEnd> {
        let answer = self.conversation().answer().filter(|_| self.course().run_state().is_paused())?.to_string();
        match self.complete(&answer, interrupt).await {
            Completion::End(end) => Some(end),
            Completion::Continue => {
                self.course().advance(&**self.world(), RunEvent::Resume).await;
                None
            }
        }
    }

    /// Whether a condition holds; why not, or nothing if the person interrupted.
    async fn holds(
        &self,
        condition: &Condition,
        answer: &str,
        interrupt: &mut LocalBoxFuture<'static, ()>,
    ) -> Result<(), Option<Unmet>> {
        let Condition { predicate, call, schema, unchecked } = condition;
        if !unchecked.is_empty() {
            return Err(Some(unmet("it cannot be checked in this session", unchecked.as_str())));
        }
        let told = match call {
            None => Ok(Brought::from(answer.to_string())),
            Some((tool, arguments)) => self.look(tool, arguments, interrupt).await.ok_or(None)?,
        };
        judge(predicate, schema, told).map_err(Some)
    }
    /// Makes the call of a condition, at the same gate and with the same records as any other. Nothing if the person
    /// interrupted it.
    async fn look(
        &self,
        tool: &Tool,
        arguments: &str,
        interrupt: &mut LocalBoxFuture<'static, ()>,
    ) -> Option<Result<Brought, String>> {
        let world = self.world().clone();
        let (prepared, canonical) = match world.prepare(tool, arguments, &Label::default()) {
            Ok(prepared) => prepared,
            Err(why) => return Some(Err(why)),
        };
        // What is recorded as begun gets an end, so the record is waited for, whatever the person does meanwhile.
        let Some(begun) = self.begin_direct(tool, canonical).await else {
            return Some(Err("the call that tells was not permitted".to_string()));
        };
        let limit = time_limit(&tool.descriptor, &self.session().limits);
        let deadline = world.now().saturating_add(u64::from(limit).saturating_mul(MILLISECOND));
        let stop = race(interrupt.as_mut(), world.sleep_until(deadline));
        let (outcome, told) = match race(world.invoke(tool, prepared, None), stop).await {
            Either::Left(Ok(told)) => (Outcome::Ok, Some(Ok(told))),
            Either::Left(Err(why)) => (Outcome::ExecutionError, Some(Err(why))),
            Either::Right(Either::Left(())) => (Outcome::Cancelled, None),
            Either::Right(Either::Right(())) => {
                (Outcome::TimedOut, Some(Err(format!("it did not end within {limit} ms"))))
            }
        };
        let why = match &told {
            Some(Ok(_)) => "",
            Some(Err(why)) => why,
            None => "cancelled by the person",
        };
        begun.finish(outcome, why).await;
        told
    }
}

/// Whether a condition holds by what its call or the model told.
fn judge(predicate: &Predicate, schema: &Value, told: Result<Brought, String>) -> Result<(), Unmet> {
    match (predicate, told) {
        (Predicate::Exists { .. }, Ok(_)) => Ok(()),
        (Predicate::Exists { .. }, Err(why)) => Err(unmet("no file or folder is there", why)),
        (Predicate::Check { .. }, Ok(told)) => {
            let code = serde_json::from_str::<Value>(&told.text)
                .ok()
                .and_then(|told| told.get("result")?.get("code")?.as_i64());
            match code {
                Some(0) => Ok(()),
                Some(code) => {
                    let why = format!("the program ended with exit code {code}");
                    Err(unmet(why.clone(), why))
                }
                None => Err(unmet("the program told no exit code", told.text)),
            }
        }
        (Predicate::Check { .. }, Err(why)) => Err(unmet("the program did not run to its end", why)),
        (Predicate::Matches { file, .. }, Ok(told)) => {
            if told.of.is_some_and(|(start, bytes)| start != 0 || bytes != told.text.len() as u64) {
                let why = "the file is longer than is read at once";
                return Err(unmet(why, why));
            }
            let text = if file.is_none() { without_fence(&told.text) } else { told.text.as_str() };
            let value = capos_reflect::parse(text).map_err(|bad| unmet("it is not JSON", bad.to_string()))?;
            capos_reflect::validate(schema, &value).map_err(|bad| {
                let why =
                    if file.is_none() { bad.to_string() } else { "it does not conform to the schema".to_string() };
                unmet(why, bad.to_string())
            })
        }
        (Predicate::Matches { .. }, Err(why)) => Err(unmet("the file cannot be read", why)),
    }
}

/// An answer without the fence of Markdown that models put around JSON.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```json").or_else(|| text.strip_prefix("```"));
    inner.and_then(|inner| inner.strip_suffix("```")).unwrap_or(text).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part of a file is not judged as the whole, wherever it begins.
    #[test]
    fn i02_only_a_whole_file_matches() {
        let predicate = Predicate::parse("matches s.json in a.json").unwrap();
        for (of, holds) in [(None, true), (Some((0, 4)), true), (Some((0, 5)), false), (Some((1, 4)), false)] {
            let told = Brought { of, ..Brought::from("true".to_string()) };
            assert_eq!(judge(&predicate, &Value::Bool(true), Ok(told)).is_ok(), holds, "{of:?}");
        }
    }
}
