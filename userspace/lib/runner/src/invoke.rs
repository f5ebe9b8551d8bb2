//! Calling a tool: JSON to a call of the session's capability, and its results back.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::world::{Asker, Tools};
use capos_agent::{Brought, Patch, Piece, Tool};
use capos_schema::authority::Label;
use capos_schema::cap::{AsCap, Client, Message};
use capos_schema::models::ToolCall;
use capos_schema::reflection::{self, MethodInfo};
use capos_schema::system::{LauncherClient, PowerClient};
use serde_json::{Map, Value, json};

use crate::asking::Asking;
use crate::change::Change;
use crate::runner::{Calling, Runner};
use crate::surface::{Form, OwnCall, Surface};

/// Bytes of results that one call may bring: the most that a message holds.
const RESULTS: u32 = 1 << 20;

/// The parameter and the result in which labels go.
const LABEL: &str = "label";
/// The parameter in which goes who answers a program's questions.
const APPROVAL: &str = "approval";
/// The parameter in which goes what the person was shown of a file.
const BASIS: &str = "basis";

fn method(tool: &Tool) -> Result<&'static MethodInfo, String> {
    let interface = reflection::interface(tool.descriptor.interface_id);
    interface
        .and_then(|interface| interface.methods.iter().find(|method| method.ordinal == tool.method))
        .ok_or_else(|| format!("the method of {} is not in this system's schema", tool.descriptor.name))
}

/// A call whose arguments have been checked.
pub struct Prepared {
    message: Message,
    /// The arguments as they were given, with the runner's.
    given: Map<String, Value>,
    /// What it changes, and whether the person was shown that.
    change: Option<(Change, bool)>,
    /// Makes a call that the session's surface serves itself.
    own: Option<OwnCall>,
}

impl<S: Surface> Tools for Runner<S> {
    type Prepared = Prepared;

    fn prepare(&self, tool: &Tool, arguments: &str, label: &Label) -> Result<(Prepared, String), String> {
        let value = capos_reflect::parse(arguments).map_err(|bad| bad.to_string())?;
        let found = method(tool)?;
        let canonical = capos_reflect::canonical(&value);
        if let Some(form) = S::form(self, tool) {
            let (message, given) = (form.unfilled(found, &value)?, value.as_object().cloned().unwrap_or_default());
            return Ok((Prepared { message, given, change: None, own: None }, canonical));
        }
        let mut whole = Map::new();
        let encoded = capos_reflect::encode_call(found, &value, |given| {
            if let Some(piece) = Piece::asked(tool, given) {
                piece.widen(given);
            }
            if found.runner_params.contains(&LABEL) && !label.classes.is_empty() {
                given.insert(LABEL.to_string(), json!({ "classes": label.classes }));
            }
            whole.clone_from(given);
        });
        let message = encoded.map_err(|bad| bad.to_string())?;
        // The person is not asked about a call that cannot be made. What they agree to is this one: a time of the day is the
        // next one now, not when they answer.
        let own = S::own_call(self.base(), tool, &whole).transpose()?;
        Ok((Prepared { message, given: whole, change: None, own }, canonical))
    }

    async fn observe(&self, tool: &Tool, call: &ToolCall, prepared: Prepared) -> Prepared {
        Prepared { change: self.change(tool, call).await, ..prepared }
    }

    fn invoke(&self, tool: &Tool, prepared: Prepared, asker: Option<Rc<dyn Asker>>) -> Calling {
        let cap = self.grants.capability(tool.capability, tool.descriptor.interface_id);
        let (interface, ordinal, found) = (tool.descriptor.interface_id, tool.method, method(tool));
        let (form, tell) = (S::form(self, tool), self.surface.teller());
        let runs = found.as_ref().is_ok_and(|found| found.runner_params.contains(&APPROVAL));
        let asker = asker.filter(|_| runs && interface == LauncherClient::INTERFACE_ID);
        let table = self.table.clone();
        let calling: Calling = Box::pin(async move {
            let (cap, found) = (cap?, found?);
            let Prepared { message, mut given, change, own } = prepared;
            if let Some(own) = own {
                return Ok(brought(found, own()?));
            }
            let shown = change.as_ref().filter(|(_, is_shown)| *is_shown);
            let basis = shown.and_then(|(change, _)| change.basis()).filter(|_| found.runner_params.contains(&BASIS));
            // It answers the program's questions until the call has ended.
            let asking = match asker {
                Some(asker) => Asking::of(&cap.clone().cast(), asker, table).await,
                None => None,
            };
            let (message, form) = match (form, basis) {
                (None, None) if asking.is_some() => {
                    let number = asking.as_ref().map(|asking| asking.number);
                    given.insert(APPROVAL.to_string(), json!(number));
                    (encode(found, given)?, None)
                }
                (None, None) => (message, None),
                (None, Some(basis)) => {
                    given.insert(BASIS.to_string(), json!({ "hash": basis }));
                    (encode(found, given)?, None)
                }
                (Some(mut form), _) => {
                    form.fill(&mut given).await?;
                    (encode(found, given)?, Some(form))
                }
            };
            let wide = capos_rt::with_results(&cap, RESULTS);
            let results = wide.as_cap().call(interface, ordinal, message).await.map_err(|error| error.to_string())?;
            let value = capos_reflect::decode_results(found, &results).map_err(|bad| bad.to_string())?;
            for secret in secrets(found, &value) {
                tell(secret).await;
            }
            if let Some(form) = form {
                form.done().await;
            }
            Ok(Brought { patch: change.and_then(|(change, _)| patch(change)), ..brought(found, value) })
        });
        if interface != PowerClient::INTERFACE_ID {
            return calling;
        }
        // It would end the machine before its own record.
        let off = self.off.clone();
        Box::pin(async move {
            off.replace(Some(calling));
            Ok(present(&json!({})).into())
        })
    }

    fn is_leaving(&self) -> bool {
        self.off.borrow().is_some()
    }

    async fn leave(&self) -> Result<(), String> {
        match self.off.take() {
            Some(calling) => calling.await.map(drop),
            None => Ok(()),
        }
    }
}

/// What a call has changed, in the form that is kept.
fn patch(change: Change) -> Option<Patch> {
    Some(Patch { text: change.patch()?, path: change.path, label: change.label })
}

/// The call with these parameters.
///
/// # Errors
/// They are not those of the method.
pub fn encode(found: &MethodInfo, members: Map<String, Value>) -> Result<Message, String> {
    capos_reflect::encode((found.params_type)(), &Value::Object(members)).map_err(|bad| bad.to_string())
}

/// Texts among the runner's results are for the person alone: a first passphrase, a recovery code.
fn secrets(found: &MethodInfo, value: &Value) -> Vec<String> {
    let texts = found.runner_results.iter().filter_map(|name| Some((name, value.get(*name)?.as_str()?)));
    texts.map(|(name, text)| format!("{}: {text}", capos_reflect::words(name))).collect()
}

/// Results without those that are the runner's, which say what they are of and how they are labelled.
fn brought(found: &MethodInfo, mut value: Value) -> Brought {
    let mut own = Map::new();
    if let Some(members) = value.as_object_mut() {
        own.extend(found.runner_results.iter().filter_map(|name| members.remove_entry(*name)));
    }
    let number = |name: &str| own.get(name).and_then(Value::as_u64);
    let classes = own.get(LABEL).and_then(|label| label.get("classes")?.as_array());
    let classes = classes.into_iter().flatten().filter_map(Value::as_str).map(ToString::to_string).collect();
    Brought {
        text: present(&value),
        of: number("start").zip(number("bytes")),
        label: Label { classes },
        ..Brought::default()
    }
}

/// Results in the form that the model reads: a single text unchanged, nothing as `done`, anything else as JSON.
fn present(value: &Value) -> String {
    match value.as_object() {
        Some(members) if members.is_empty() => "done".to_string(),
        Some(members) if members.len() == 1 => match members.values().next() {
            Some(Value::String(text)) => text.clone(),
            _ => value.to_string(),
        },
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_schema::authority::UsersClient;
    use capos_schema::storage::DirectoryClient;
    use capos_schema::system::LauncherClient;

    #[test]
    fn results_are_presented_plainly() {
        assert_eq!(present(&json!({})), "done");
        assert_eq!(present(&json!({"text": "a\nb"})), "a\nb");
        assert_eq!(present(&json!({"entries": []})), "{\"entries\":[]}");
        assert_eq!(present(&json!({"a": "x", "b": 1})), "{\"a\":\"x\",\"b\":1}");
    }

    #[test]
    fn what_is_the_runners_is_not_in_the_text() {
        let method = |interface: u64, name: &str| reflection::interface(interface).unwrap().method(name).unwrap();
        let read = method(DirectoryClient::INTERFACE_ID, "readText");
        let label = json!({"classes": ["pii.log"]});
        let found = brought(read, json!({"text": "a", "start": 3, "bytes": 9, "label": label}));
        let label = Label { classes: Vec::from(["pii.log".to_string()]) };
        assert_eq!(found, Brought { text: "a".into(), of: Some((3, 9)), label: label.clone(), ..Brought::default() });
        let run = method(LauncherClient::INTERFACE_ID, "run");
        let result = json!({"code": 0, "output": "x", "report": ""});
        let found = brought(run, json!({"result": result, "label": {"classes": ["pii.log"]}}));
        let text = r#"{"result":{"code":0,"output":"x","report":""}}"#;
        assert_eq!(found, Brought { text: text.into(), label, ..Brought::default() });
        // A first passphrase is the person's alone.
        let add = method(UsersClient::INTERFACE_ID, "add");
        let value = json!({"passphrase": "abcd-efgh"});
        assert_eq!(secrets(add, &value), ["passphrase: abcd-efgh"]);
        assert_eq!(brought(add, value), Brought { text: "done".into(), ..Brought::default() });
        let renewed = method(UsersClient::INTERFACE_ID, "renewRecoveryCode");
        assert_eq!(secrets(renewed, &json!({"recoveryCode": "ABCDE"})), ["recovery code: ABCDE"]);
        assert!(secrets(read, &json!({"text": "a", "start": 3, "label": {"classes": []}})).is_empty());
        // A model neither sees nor gives it.
        for (method, given) in [
            (run, json!({"program": "cat", "label": {"classes": []}})),
            (
                method(DirectoryClient::INTERFACE_ID, "writeText"),
                json!({"path": "a", "text": "", "label": {"classes": []}}),
            ),
        ] {
            assert!(!method.params_schema.contains("label"));
            let refused = capos_reflect::encode_params(method, &given).unwrap_err();
            assert_eq!(refused.to_string(), "$.label: there is no field of this name");
        }
    }
}
