//! Models for sessions.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::future::Future;

use capos_policy::ProfileRules;
use capos_schema::cap::{CallError, ExceptionKind};
use capos_schema::models::{LanguageModelClient, ModelCatalogClient, ModelInfo};

/// If a model is absent, the error lists this many others, each by this many letters of its name: a reason has room for
/// 512 bytes.
const NAMED: usize = 8;
const LETTERS: usize = 40;

/// How long the model service may take to answer, in nanoseconds: it starts a worker, whose program may come from a slow disk.
const PATIENCE: u64 = 120_000_000_000;

/// What the model service answers, within a bound: sessions wait for it.
async fn of_service<T>(asked: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
    match capos_rt::timeout(PATIENCE, asked).await {
        Ok(Ok(answered)) => answered.map_err(of_catalog),
        Ok(Err(_)) => Err(CallError::failed("the model service does not answer; try again later")),
        Err(why) => Err(CallError::failed(why.to_string())),
    }
}

/// The models that can be talked to: a session has no use for one that only embeds texts.
async fn known(catalog: &ModelCatalogClient) -> Result<Vec<ModelInfo>, CallError> {
    let mut models = of_service(catalog.list()).await?;
    models.retain(capos_model::writes);
    Ok(models)
}

/// The models that a session with these rules may use.
///
/// # Errors
/// The catalog is gone.
pub async fn allowed(catalog: &ModelCatalogClient, rules: &ProfileRules) -> Result<Vec<ModelInfo>, CallError> {
    let mut models = known(catalog).await?;
    // Remote models stay closed: there is no remote backend yet to opt in to.
    models.retain(|model| rules.may_use(&model.backend, false, false).is_ok());
    Ok(models)
}

/// That there is no such model, and which there are for a session with these rules.
fn not_there(wanted: &str, models: &[ModelInfo], rules: &ProfileRules) -> String {
    let mut names = models.iter().filter(|model| rules.may_use(&model.backend, false, false).is_ok()).map(|model| {
        let letters: String = model.display_name.trim_end().chars().take(LETTERS).collect();
        format!("{letters:?}")
    });
    let named: Vec<String> = names.by_ref().take(NAMED).collect();
    let wanted: String = wanted.chars().take(LETTERS).collect();
    match named.as_slice() {
        [] => "this session has no permission to use models".to_string(),
        [one] => format!("there is no model {wanted:?}, only {one}"),
        several => {
            let more = if names.next().is_some() { " and others" } else { "" };
            format!("there is no model {wanted:?}; there are {}{more}", several.join(", "))
        }
    }
}

/// How well a name is what a person typed: it may begin so, and in letters of either case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    BeginsInOtherCase,
    Begins,
    SameInOtherCase,
    Same,
}

impl Likeness {
    /// Of a name, which may be that of a file and so not ASCII; none where it is another.
    fn of(name: &str, typed: &str) -> Option<Self> {
        let mut letters = name.chars().flat_map(char::to_lowercase);
        let begins = typed.chars().flat_map(char::to_lowercase).all(|letter| letters.next() == Some(letter));
        begins.then(|| match (letters.next().is_none(), name.starts_with(typed)) {
            (true, true) => Self::Same,
            (true, false) => Self::SameInOtherCase,
            (false, true) => Self::Begins,
            (false, false) => Self::BeginsInOtherCase,
        })
    }
}

/// The models whose id or name is most like what is wanted.
fn fitting<'m>(models: &'m [ModelInfo], wanted: &str) -> Vec<&'m ModelInfo> {
    let likeness = |model: &ModelInfo| Likeness::of(&model.id, wanted).max(Likeness::of(&model.display_name, wanted));
    let most = models.iter().filter_map(likeness).max();
    models.iter().filter(|model| most.is_some() && likeness(model) == most).collect()
}

/// Opens a model: the only one whose id or name is `wanted`, or else begins so, in letters of either case; the first where
/// nothing is wanted.
///
/// # Errors
/// There is none, or it may not be used; says why.
pub async fn open(
    catalog: &ModelCatalogClient,
    rules: &ProfileRules,
    wanted: &str,
) -> Result<(LanguageModelClient, ModelInfo), CallError> {
    let models = known(catalog).await?;
    let found = match fitting(&models, wanted).as_slice() {
        [] if models.is_empty() => return Err(CallError::failed("no model is registered on this system")),
        [] => return Err(CallError::invalid_argument(not_there(wanted, &models, rules))),
        [first, ..] if wanted.is_empty() => *first,
        [one] => *one,
        several => {
            return Err(CallError::invalid_argument(format!(
                "{} models begin with {wanted:?}; give more of the id",
                several.len()
            )));
        }
    };
    rules.may_use(&found.backend, false, false).map_err(CallError::invalid_argument)?;
    let model = of_service(catalog.open_language_model(&found.id)).await?;
    Ok((model, found.clone()))
}

/// An error of the catalog, as a session hears of it.
pub fn of_catalog(error: CallError) -> CallError {
    unless_gone(error, "the model service does not answer")
}

/// An error of somebody whom the broker asks for a session. That they are gone, which is told as `what`, must not look as if
/// the broker were: the session's holder would take it for lost.
pub fn unless_gone(error: CallError, what: &str) -> CallError {
    if error.is_disconnected() { CallError::failed(format!("{what}: {error}")) } else { error }
}

/// What a session hears if a worker has ended or has no room: the same request may be taken a moment later. The session's own
/// limits are told as `overloaded`, and do not pass so soon.
#[must_use]
pub fn passing(error: &CallError) -> Option<CallError> {
    let why = match error {
        CallError::Exception(exception) if exception.kind == ExceptionKind::Overloaded => "the model has no room now",
        error if error.is_disconnected() => "the model's worker has ended",
        _ => return None,
    };
    Some(CallError::disconnected(format!("{why}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_rt::simulated::{self, Object};
    use capos_schema::authority::Profile;
    use capos_schema::cap::Status;
    use core::future::pending;

    #[test]
    fn who_asks_for_a_model_that_is_not_there_is_told_of_those_that_are() {
        let rules = ProfileRules::standard(Profile::Operator);
        let named = |name: &str, backend: &str| ModelInfo {
            display_name: name.to_string(),
            backend: backend.to_string(),
            ..ModelInfo::default()
        };
        let mut models = Vec::from([named("one", "local")]);
        assert_eq!(not_there("x", &models, &rules), "there is no model \"x\", only \"one\"");
        models.push(named(&"long\n".repeat(100), "local"));
        // Of what a session may not use it is told nothing.
        models.push(named("far", "remote"));
        let told = not_there(&"x".repeat(999), &models, &rules);
        assert!(told.contains("; there are \"one\", \"long\\n") && !told.contains("far") && told.len() < 200, "{told}");
        models.extend((0..NAMED).map(|_| named("more", "local")));
        assert!(not_there("x", &models, &rules).ends_with("\"more\" and others"));
        let none = ProfileRules::standard(Profile::Anonymous);
        assert_eq!(not_there("x", &models, &none), "this session has no permission to use models");
    }

    #[test]
    fn a_model_is_named_by_how_its_name_begins() {
        let models: Vec<ModelInfo> =
            [("sha256:1", "Qwen"), ("sha256:12", "Qwen Coder"), ("sha256:3", "qwen small"), ("id", "ÄHN")]
                .into_iter()
                .map(|(id, name)| ModelInfo {
                    id: id.to_string(),
                    display_name: name.to_string(),
                    ..ModelInfo::default()
                })
                .collect();
        for (wanted, found) in [
            ("sha256:1", &["sha256:1"][..]),
            ("SHA256:1", &["sha256:1"]),
            ("sha256:12", &["sha256:12"]),
            ("Qwen", &["sha256:1"]),
            ("qwen", &["sha256:1"]),
            ("qwen ", &["sha256:3"]),
            ("QWEN C", &["sha256:12"]),
            ("QWEN ", &["sha256:12", "sha256:3"]),
            ("ähn", &["id"]),
            ("other", &[]),
            ("Qwen Coders", &[]),
        ] {
            let ids: Vec<&str> = fitting(&models, wanted).into_iter().map(|model| model.id.as_str()).collect();
            assert_eq!(ids, found, "{wanted}");
        }
        assert_eq!(fitting(&models, "").len(), 4);
        assert!(fitting(&[], "x").is_empty());
    }

    #[test]
    fn a_catalog_that_is_gone_is_not_a_broker_that_is_gone() {
        for gone in [CallError::disconnected("the server ended"), CallError::Transport(Status::Disconnected)] {
            assert!(gone.is_disconnected());
            let told = of_catalog(gone);
            assert!(
                !told.is_disconnected() && told.to_string().contains("the model service does not answer"),
                "{told}"
            );
        }
        let silent = simulated::run(&[("timer", Object::Timer)], |_| of_service(pending::<Result<(), _>>()));
        assert!(silent.unwrap_err().to_string().contains("the model service does not answer"));
        let other = of_catalog(CallError::invalid_argument("no such model")).to_string();
        assert!(!other.contains("model service"), "{other}");
    }

    #[test]
    fn c32_a_session_can_tell_what_passes_from_its_own_limits() {
        for (error, why) in [
            (CallError::overloaded("all seats are taken"), "the model has no room now: "),
            (CallError::disconnected("it died"), "the model's worker has ended: "),
            (CallError::Transport(Status::Disconnected), "the model's worker has ended: "),
        ] {
            let told = passing(&error).unwrap();
            assert!(told.is_disconnected() && told.to_string().contains(why), "{told}");
        }
        for error in [CallError::failed("no"), CallError::invalid_argument("too long"), CallError::unimplemented("no")]
        {
            assert!(passing(&error).is_none(), "{error}");
        }
    }
}
