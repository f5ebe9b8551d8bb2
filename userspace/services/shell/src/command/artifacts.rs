//! `/artifacts`: results that were too long for the model, whole, and what calls changed in files.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_plural::count;
use capos_runner::attachments::{Artifact, artifact, list, read};
use capos_schema::conversations::{Attachment, ConversationStoreClient};
use capos_schema::terminal::Style;
use serde_json::json;

use super::{Done, own, refreshed, rows};
use crate::escape::{escape, in_quotes, name};
use crate::keeper::PURPOSE;
use crate::more::margined;
use crate::session::Session;

/// Characters of a path that is listed.
const PATH: usize = 96;
/// Bytes that one call writes: the arguments of a call have at most 64 KiB.
const PIECE: usize = 32 << 10;
const USAGE: &str = "usage: /artifacts, /artifacts show NAME, or /artifacts save NAME PATH";

/// The artifact of this name.
fn find_artifact(found: &[Attachment], wanted: &str) -> Result<Artifact, String> {
    let kept = found.iter().find(|kept| kept.name == wanted);
    kept.and_then(artifact)
        .ok_or_else(|| format!("this conversation has no artifact {:?}; /artifacts lists them", escape(wanted)))
}

/// `/artifacts`.
pub async fn artifacts(session: &mut Session, rest: &[&str]) -> Done {
    refreshed(session).await?;
    let store = session.runner.grants.find::<ConversationStoreClient>(PURPOSE)?;
    let id = session.runner.saving.id();
    // A conversation without messages is not in the store yet.
    let found = match session.runner.saving.saved() {
        0 => Vec::new(),
        _ => list(&session.runner, &store, &id).await?,
    };
    match rest {
        [] => {
            let artifacts = found.iter().filter_map(|kept| Some((kept, artifact(kept)?)));
            let told = |kept: &Attachment, artifact: &Artifact| {
                let path = artifact.path.as_ref().map(|path| format!(" to {}", in_quotes(path, PATH)));
                format!("{}, of {}{}", count(kept.bytes, "byte"), name(&artifact.tool), path.unwrap_or_default())
            };
            let text: Vec<(String, String)> =
                artifacts.map(|(kept, artifact)| (kept.name.clone(), told(kept, &artifact))).collect();
            if text.is_empty() {
                session.runner.screen.line(Style::Plain, "this conversation has no artifacts").await;
                return Ok(());
            }
            rows(session, &text).await;
            let text = "/artifacts show NAME shows one, /artifacts save NAME PATH writes it to a file";
            session.runner.screen.line(Style::Dim, text).await;
            Ok(())
        }
        ["show", wanted] => {
            find_artifact(&found, wanted)?;
            let text = read(&session.runner, &store, (&id, wanted)).await?;
            let screen = &session.runner.screen;
            let text = margined(&text, screen.size().await.0);
            let held = screen.hold().await;
            held.fresh_line().await;
            held.show(&[(Style::Plain, &text)]).await;
            Ok(())
        }
        ["save", wanted, path] => {
            let label = find_artifact(&found, wanted)?.label;
            let text = read(&session.runner, &store, (&id, wanted)).await?;
            let mut rest = text.as_str();
            let mut is_first = true;
            while is_first || !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
                let arguments = json!({ "path": path, "text": piece, "append": !is_first });
                if own::result(session, "write_file", &arguments, &label).await?.is_none() {
                    let written = text.len().saturating_sub(rest.len());
                    if written > 0 {
                        let text = format!(
                            "{} has the first {written} of {}; delete it or save again",
                            escape(path),
                            count(text.len(), "byte")
                        );
                        session.runner.screen.line(Style::Warning, &text).await;
                    }
                    return Ok(());
                }
                (rest, is_first) = (after, false);
            }
            let text = format!("{} written to {}", count(text.len(), "byte"), escape(path));
            session.runner.screen.line(Style::Success, &text).await;
            Ok(())
        }
        _ => Err(USAGE.to_string()),
    }
}
