//! The step of images that are there to try migration. It does what can be seen on the screen.

use alloc::string::String;
use alloc::vec::Vec;

use crate::{Step, Tables};

/// Puts a mark at the beginning of each title.
pub const TITLES: Step = Step { says: "get the mark `(2)` before their titles", run: mark };

const TABLE: &str = "conversations";
const BEFORE: &[u8] = b"{\"title\":\"";

fn mark(tables: &mut dyn Tables) -> Result<(), String> {
    let mut key = Vec::new();
    while let Some((next, value)) = tables.after(TABLE, &key)? {
        let rest = value.strip_prefix(BEFORE).ok_or("a conversation is not as format 1 has it")?;
        tables.put(TABLE, &next, &[BEFORE, b"(2) ", rest].concat())?;
        key = next;
    }
    Ok(())
}
