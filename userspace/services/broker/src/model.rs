//! Models for sessions.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_policy::ProfileRules;
use capos_schema::cap::CallError;
use capos_schema::models::{LanguageModelClient, ModelCatalogClient, ModelInfo};

/// How many models whoever asks for one that is not there is told of.
const NAMED: usize = 8;

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

/// Opens a model: the one whose id is `wanted`, or the only one whose id or name begins so; the first where nothing
/// is wanted.
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
        let begins = |model: &&ModelInfo| model.id.starts_with(wanted) || model.display_name.starts_with(wanted);
        fitting = models.iter().filter(begins).collect();
    }
    let found = match fitting.as_slice() {
        [] if models.is_empty() => return Err(CallError::failed("no model is registered on this system")),
        [] => {
            let may_use: Vec<_> =
                models.iter().filter(|model| rules.may_use(&model.backend, false, false).is_ok()).collect();
            let names: Vec<String> =
                may_use.iter().take(NAMED).map(|model| format!("{:?}", model.display_name.trim_end())).collect();
            let (there, more) = (names.join(", "), if may_use.len() > NAMED { " and others" } else { "" });
            return Err(CallError::invalid_argument(format!("there is no model {wanted:?}; there are {there}{more}")));
        }
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
    use capos_schema::cap::Status;

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
