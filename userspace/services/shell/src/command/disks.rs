//! `/disks`: the disks of the machine, and what they hold.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_plural::count;
use capos_schema::storage::{DiskContent, DiskInfo, DisksClient};
use capos_schema::terminal::Style;
use capos_setup::disks::{content, size};

use super::{Done, rows};
use crate::escape::first_line;
use crate::session::Session;

/// Letters of what a disk says of itself.
const MOST: usize = 100;

pub async fn disks(session: &Session) -> Done {
    let disks = session.runner.grants.find::<DisksClient>("see the disks")?;
    let found = session.runner.audited(disks.list()).await?;
    if found.is_empty() {
        session.runner.screen.line(Style::Plain, "there is no disk with a driver").await;
    }
    let text: Vec<(String, String)> =
        found.iter().map(|disk| (first_line(&disk.place, MOST), description(disk))).collect();
    rows(session, &text).await;
    Ok(())
}

/// What a disk is, its size and its health, as a text.
fn description(disk: &DiskInfo) -> String {
    let mut parts = Vec::new();
    let held = content(disk.content);
    parts.push(match disk.content {
        DiskContent::DataDisk => format!("{held} {}", first_line(&disk.id, MOST)),
        _ => held.to_string(),
    });
    if !disk.details.is_empty() {
        parts.push(first_line(&disk.details, MOST));
    }
    if disk.blocks > 0 {
        parts.push(size(disk.blocks.saturating_mul(disk.block_bytes.into())));
        parts.push(format!("{} of {} bytes", count(disk.blocks, "block"), disk.block_bytes));
    }
    if disk.read_only {
        parts.push("read-only".to_string());
    }
    if !disk.problem.is_empty() {
        parts.push(first_line(&disk.problem, MOST));
    }
    parts.join(", ")
}
