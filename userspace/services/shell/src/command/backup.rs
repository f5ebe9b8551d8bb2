//! `/backup`: the data disk, encrypted, onto a transfer volume.

use alloc::format;
use alloc::string::{String, ToString};

use capos_plural::count;
use capos_schema::authority::BackupsClient;
use capos_schema::terminal::Style;
use serde_json::json;

use super::own::attend;
use super::{Done, refreshed};
use crate::copying::{COPIED, watch};
use crate::escape::first_line;
use crate::session::Session;

/// Letters of a hash.
const MOST: usize = 64;

pub async fn backup(session: &mut Session, volume: &str) -> Done {
    refreshed(session).await?;
    let runner = session.runner.clone();
    let client = runner.grants.find::<BackupsClient>("back up a data disk")?;
    if volume.is_empty() {
        return Err("usage: /backup VOLUME; /volumes lists the volumes".to_string());
    }
    let call = client.back_up(volume);
    let watched = watch(&runner.screen, &runner.clock, COPIED, call, async || {
        let state = client.progress().await?;
        Ok((state.bytes, state.total))
    });
    let after = "nothing is lost; the same command continues the backup";
    let call = ("back_up", &json!({ "volume": volume }));
    if let Some(done) = attend(session, call, watched, after).await? {
        let kept = match done.kept {
            0 => String::new(),
            kept => format!(", {kept} of them from earlier"),
        };
        let text = format!(
            "backed up {} in {}{kept}; SHA-256 {}",
            count(done.records, "record"),
            count(done.chunks, "chunk"),
            first_line(&done.sha256, MOST)
        );
        runner.screen.line(Style::Success, &text).await;
    }
    Ok(())
}
