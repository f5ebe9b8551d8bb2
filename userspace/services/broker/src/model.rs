//! Models for sessions.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_policy::ProfileRules;
use capos_schema::cap::CallError;
use capos_schema::models::{LanguageModelClient, ModelCatalogClient, ModelInfo};

/// How many models whoever asks for one that is not there is told of, and by how many letters of their names: a reason has room
/// for 512 bytes.
const NAMED: usize = 8;
const LETTERS: usize = 40;

/// The models that can be talked to: a session has no use for one that only embeds texts.
async fn known(catalog: &ModelCatalogClient) -> Result<Vec<ModelInfo>, CallError> {
    let mut models = catalog.list().await.map_err(of_catalog)?;
    models.retain(capos_model::writes);
    Ok(models)
}

/// The models that a session with these rules may use.
///
/// # Errors
/// The catalog is gone.
pub async fn allowed(catalog: &ModelCatalogClient, rules: &ProfileRules) -> Result<Vec<ModelInfo>, CallError> {
    let mut models = known(catalog).await?;
    // Nobody has opted in to remote models or stepped up for one: there is no remote backend yet to opt in to.
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
        [] => "this session may use no model".to_string(),
        [one] => format!("there is no model {wanted:?}, only {one}"),
        several => {
            let more = if names.next().is_some() { " and others" } else { "" };
            format!("there is no model {wanted:?}; there are {}{more}", several.join(", "))
        }
    }
}

/// Whether a name begins with what a person typed, in letters of either case. Names may be those of files: not ASCII.
fn begins(name: &str, typed: &str) -> bool {
    let mut letters = name.chars().flat_map(char::to_lowercase);
    typed.chars().flat_map(char::to_lowercase).all(|letter| letters.next() == Some(letter))
}

/// Opens a model: the one whose id is `wanted`, or the only one whose id or name begins so, in letters of either case; the
/// first where nothing is wanted.
///
/// # Errors
/// There is none, or it may not be used; says why.
pub async fn open(
    catalog: &ModelCatalogClient,
    rules: &ProfileRules,
    wanted: &str,
) -> Result<(LanguageModelClient, ModelInfo), CallError> {
    let models = known(catalog).await?;
    let mut fitting: Vec<&ModelInfo> = models.iter().filter(|model| model.id == wanted).collect();
    if fitting.is_empty() {
        fitting =
            models.iter().filter(|model| begins(&model.id, wanted) || begins(&model.display_name, wanted)).collect();
    }
    let found = match fitting.as_slice() {
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
    let model = catalog.open_language_model(&found.id).await.map_err(of_catalog)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use capos_schema::authority::Profile;
    use capos_schema::cap::Status;

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
        assert_eq!(not_there("x", &models, &none), "this session may use no model");
    }

    #[test]
    fn a_model_is_named_by_how_its_name_begins() {
        assert!(begins("Qwen2.5 Coder 1.5B Instruct GGUF", "qwen2.5") && begins("ÄHNLICH", "ähn") && begins("x", ""));
        assert!(!begins("Qwen2.5 Coder", "qwen3") && !begins("capOS", "capOS assistant") && !begins("", "x"));
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
        let other = of_catalog(CallError::invalid_argument("no such model")).to_string();
        assert!(!other.contains("model service"), "{other}");
    }
}
