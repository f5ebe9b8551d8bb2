//! `/models`: the models that were installed on this machine.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_schema::models::{InstalledModel, ModelStoreClient};
use capos_schema::storage::DirectoryClient;
use capos_schema::terminal::Style;
use capos_schema::transfer::TransferVolumesClient;
use serde_json::json;

use super::own::attend;
use super::{Done, rows};
use crate::copying::{COPIED, watch};
use crate::escape::first_line;
use crate::session::Session;

/// Letters of what a file says of itself.
const MOST: usize = 200;
const USAGE: &str = "usage: /models, /models install PATH or VOLUME:PATH, /models remove NAME";

pub async fn models(session: &Session, text: &str) -> Done {
    let client = session.runner.grants.find::<ModelStoreClient>("install models")?;
    let (command, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
    match (command, rest.trim()) {
        ("", "") => list(session, &client).await,
        ("install", path) if !path.is_empty() => install(session, &client, path).await,
        ("remove", name) if !name.is_empty() => {
            let call = ("remove_model", &json!({ "name": name }));
            let after = "/models lists what is left";
            if attend(session, call, client.remove(name), after).await?.is_some() {
                let text = "removed; a session that used it chooses another with /model";
                session.runner.screen.line(Style::Plain, text).await;
            }
            Ok(())
        }
        _ => Err(USAGE.to_string()),
    }
}

async fn list(session: &Session, client: &ModelStoreClient) -> Done {
    let found = session.runner.audited(client.installed()).await?;
    if found.is_empty() {
        session
            .runner
            .screen
            .line(Style::Plain, "no model is installed; /models install VOLUME:PATH installs one")
            .await;
    }
    let text: Vec<(String, String)> =
        found.iter().map(|model| (first_line(&model.name, MOST), description(model))).collect();
    rows(session, &text).await;
    Ok(())
}

/// Size, id and state of a model, as a text.
fn description(model: &InstalledModel) -> String {
    let mut parts = [size(model.bytes)].to_vec();
    if !model.id.is_empty() {
        parts.push(first_line(&model.id, MOST));
    }
    if !model.problem.is_empty() {
        parts.push(first_line(&model.problem, MOST));
    }
    parts.join(", ")
}

/// Bytes in MiB, or in KiB if there are less.
fn size(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes.div_ceil(1 << 10)),
        mebibytes => format!("{mebibytes} MiB"),
    }
}

/// The tree that a path is in, and the path there: a path on a transfer volume has the volume's name and a colon before it.
async fn place(session: &Session, path: &str) -> Result<(DirectoryClient, String), String> {
    if let Some((volume, path)) = path.split_once(':') {
        let volumes = session.runner.grants.find::<TransferVolumesClient>("use transfer volumes")?;
        return Ok((session.runner.audited(volumes.open(volume)).await?, path.to_string()));
    }
    let home = session.runner.grants.find::<DirectoryClient>("use files")?;
    Ok((session.runner.audited(home.read_only()).await?, path.to_string()))
}

async fn install(session: &Session, client: &ModelStoreClient, path: &str) -> Done {
    let (source, path) = place(session, path).await?;
    let runner = &session.runner;
    let watched = watch(&runner.screen, &runner.clock, COPIED, client.install(&source, &path), async || {
        let now = client.installing().await?;
        Ok((now.done, now.total))
    });
    let call = ("install_model", &json!({ "path": path }));
    let after = "the same command continues where it stopped";
    let Some(model) = attend(session, call, watched, after).await? else { return Ok(()) };
    let text = format!("installed {}, {}; /model chooses it", first_line(&model.name, MOST), description(&model));
    runner.screen.line(Style::Plain, &text).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_described_by_size_id_and_problem() {
        let model =
            InstalledModel { name: "a.gguf".into(), id: "1-qwen3".into(), bytes: 3 << 20, ..Default::default() };
        assert_eq!(description(&model), "3 MiB, 1-qwen3");
        let part = InstalledModel { bytes: 1025, problem: "it is not complete\nx".into(), ..Default::default() };
        assert!(description(&part).starts_with("2 KiB, it is not complete"));
        assert!(!description(&part).contains('\n'));
    }
}
