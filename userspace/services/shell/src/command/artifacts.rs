//! `/artifacts`: results that were too long for the model, whole.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_plural::count;
use capos_runner::attachments::{list, read, result};
use capos_schema::conversations::ConversationStoreClient;
use capos_schema::terminal::Style;
use serde_json::json;

use super::{Done, own, refreshed, rows};
use crate::escape::{escape, name};
use crate::keeper::PURPOSE;
use crate::session::Session;

/// Bytes that one call writes: the arguments of a call have at most 64 KiB.
const PIECE: usize = 32 << 10;
const USAGE: &str = "usage: /artifacts, or /artifacts save NAME PATH";

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
            let results = found.iter().filter_map(|kept| Some((kept, result(kept)?.0)));
            let text: Vec<(String, String)> = results
                .map(|(kept, tool)| (kept.name.clone(), format!("{}, of {}", count(kept.bytes, "byte"), name(&tool))))
                .collect();
            if text.is_empty() {
                session.runner.screen.line(Style::Plain, "this conversation has no artifacts").await;
                return Ok(());
            }
            rows(session, &text).await;
            session.runner.screen.line(Style::Dim, "/artifacts save NAME PATH writes one to a file").await;
            Ok(())
        }
        ["save", wanted, path] => {
            let kept = found.iter().find(|kept| kept.name == *wanted);
            let (_, label) = kept.and_then(result).ok_or_else(|| {
                format!("this conversation has no artifact {:?}; /artifacts lists them", escape(wanted))
            })?;
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
