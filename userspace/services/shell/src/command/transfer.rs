//! `/volumes`, `/import` and `/export`: files from and to transfer volumes.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_plural::count;
use capos_schema::authority::Label;
use capos_schema::cap::CallError;
use capos_schema::storage::{DirectoryClient, DiskContent, EntryKind};
use capos_schema::terminal::Style;
use capos_schema::transfer::{CopiedFile, TransferVolume, TransferVolumesClient};

use serde_json::json;

use super::own::attend;
use super::{Done, rows};
use crate::copying::{COPIED, watch};
use crate::escape::first_line;
use crate::session::Session;

/// Letters of what a volume says of itself.
const MOST: usize = 100;
/// What a copy that Ctrl-C has ended comes to.
const CONTINUES: &str = "the same command continues the copy where it stopped";
/// What separates the two paths of a copy.
const TO: &str = " to ";

fn client(session: &Session) -> Result<TransferVolumesClient, String> {
    session.runner.grants.find("use transfer volumes")
}

/// The session's home directory.
fn home(session: &Session) -> Result<DirectoryClient, String> {
    session.runner.grants.find("use files")
}

/// A volume and a path on it.
fn place(text: &str) -> Result<(&str, &str), String> {
    let (volume, path) =
        text.trim().split_once(':').ok_or("name a volume and a path on it: VOLUME:PATH; /volumes lists the volumes")?;
    Ok((volume, path))
}

pub async fn volumes(session: &Session, text: &str) -> Done {
    let client = client(session)?;
    if !text.is_empty() {
        let (volume, path) = place(text)?;
        let found = session.runner.audited(client.list(volume, path)).await?;
        let text: Vec<(String, String)> = found
            .entries
            .iter()
            .map(|entry| {
                let what = match entry.kind {
                    EntryKind::File => count(entry.bytes, "byte").to_string(),
                    EntryKind::Directory => "folder".to_string(),
                    EntryKind::Link => "link".to_string(),
                };
                (first_line(&entry.name, MOST), what)
            })
            .collect();
        rows(session, &text).await;
        if found.left_out > 0 {
            let text = format!("left out {} whose names break the rules", count(found.left_out, "entry"));
            session.runner.screen.line(Style::Dim, &text).await;
        }
        return Ok(());
    }
    let found = session.runner.audited(client.volumes()).await?;
    if found.is_empty() {
        session.runner.screen.line(Style::Plain, "no FAT or ISO 9660 volume is attached").await;
    }
    let text: Vec<(String, String)> =
        found.iter().map(|volume| (first_line(&volume.name, MOST), description(volume))).collect();
    rows(session, &text).await;
    Ok(())
}

fn description(volume: &TransferVolume) -> String {
    let kind = if volume.content == DiskContent::Fat { "FAT volume" } else { "ISO 9660 volume" };
    let mut parts = [kind.to_string(), first_line(&volume.place, MOST)].to_vec();
    if !volume.problem.is_empty() {
        parts.push(first_line(&volume.problem, MOST));
    } else if !volume.writable {
        parts.push("read-only".to_string());
    }
    parts.join(", ")
}

/// The last name of a path; the path itself if it has none.
fn last_name(path: &str) -> &str {
    path.rsplit('/').find(|name| !name.is_empty()).unwrap_or(path)
}

pub async fn import(session: &Session, text: &str) -> Done {
    let (from, to) = text.rsplit_once(TO).unwrap_or((text, ""));
    let (volume, path) = place(from).map_err(|why| format!("usage: /import VOLUME:PATH to PATH; {why}"))?;
    let client = client(session)?;
    let to = match to.trim() {
        // The rules on paths, the question and the record are about the path that is written.
        "" => last_name(path),
        to => to,
    };
    let call = ("import_file", &json!({ "volume": volume, "path": path, "to": to }));
    let home = home(session)?;
    let copy = watched(session, &client, client.import_file(volume, path, &home, to));
    if let Some(copied) = attend(session, call, copy, CONTINUES).await? {
        tell(session, "imported", copied).await;
    }
    Ok(())
}

pub async fn export(session: &Session, text: &str) -> Done {
    let usage = "usage: /export PATH to VOLUME:PATH";
    let (path, to) = text.rsplit_once(TO).ok_or(usage)?;
    let (volume, to) = place(to).map_err(|why| format!("{usage}; {why}"))?;
    let client = client(session)?;
    let (path, label) = (path.trim(), Label::default());
    let call = ("export_file", &json!({ "path": path, "volume": volume, "to": to }));
    let home = home(session)?;
    let copy = watched(session, &client, client.export_file(&home, path, volume, to, &label));
    if let Some(copied) = attend(session, call, copy, CONTINUES).await? {
        tell(session, "exported", copied).await;
    }
    Ok(())
}

/// Shows how far the copy is.
async fn watched(
    session: &Session,
    client: &TransferVolumesClient,
    copy: impl Future<Output = Result<CopiedFile, CallError>>,
) -> Result<CopiedFile, CallError> {
    let (screen, clock) = (&session.runner.screen, &session.runner.clock);
    let progress = async || {
        let now = client.copying().await?;
        Ok((now.done, now.total))
    };
    watch(screen, clock, COPIED, copy, progress).await
}

async fn tell(session: &Session, done: &str, copied: CopiedFile) {
    let mut text = format!("{done} {}, SHA-256 {}", count(copied.bytes, "byte"), first_line(&copied.sha256, MOST));
    if copied.resumed > 0 {
        text.push_str(&format!("; {} were there from an earlier attempt", copied.resumed));
    }
    session.runner.screen.line(Style::Plain, &text).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_without_a_name_has_that_of_the_original() {
        for (path, name) in [("a.txt", "a.txt"), ("lists/a.txt", "a.txt"), ("lists//a/", "a"), ("", ""), ("/", "/")] {
            assert_eq!(last_name(path), name);
        }
    }
}
