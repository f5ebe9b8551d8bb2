//! What a call on files would do away with: looked up before the person is asked, so that they decide with it before them.
//!
//! It tells the state at that moment. Other writers can change it until the answer: programs, and calls of
//! the same turn that still run.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::world::Ask;
use capos_agent::{Either, Tool, race};
use capos_plural::count;
use capos_schema::cap::Client;
use capos_schema::storage::{DirectoryClient, EntryKind, FileError, FileStatus};
use serde_json::Value;

use crate::escape::{in_quotes, one_line, plain};
use crate::missing;
use crate::runner::Runner;
use crate::surface::Surface;

/// How long a person's question waits for this at most, in nanoseconds.
const PATIENCE: u64 = 2_000_000_000;

/// Characters of a path that a fact shows.
const PATH: usize = 96;

/// How a call does away with the contents of the file at its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// Others take their place.
    Replaced,
    /// The file goes with them.
    Deleted,
}

impl Loss {
    fn of(interface: u64, method: &str) -> Option<Self> {
        match method {
            _ if interface != DirectoryClient::INTERFACE_ID => None,
            "writeText" => Some(Self::Replaced),
            "remove" => Some(Self::Deleted),
            _ => None,
        }
    }

    /// What to tell of a file: nothing where nothing is lost.
    fn note(self, status: &FileStatus) -> Option<String> {
        if status.kind != EntryKind::File || status.bytes == 0 {
            return None;
        }
        let bytes = count(status.bytes, "byte");
        Some(match self {
            Self::Replaced => format!("It replaces the current content of the file: {bytes}."),
            Self::Deleted => format!("The file holds {bytes}."),
        })
    }
}

/// The path that a call's arguments name.
fn path(arguments: &str) -> Option<String> {
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    arguments.get("path")?.as_str().map(ToString::to_string)
}

/// Whether a call adds to what is there and does away with nothing.
fn appends(arguments: &str) -> bool {
    let arguments: Option<Value> = serde_json::from_str(arguments).ok();
    arguments.and_then(|arguments| arguments.get("append")?.as_bool()).unwrap_or(false)
}

/// What the person is told of what a call names: that it does not exist, or what of it would be lost, and then whether the turn has read
/// it. Each fact is a line.
pub async fn facts<S: Surface>(runner: &Runner<S>, ask: &Ask<'_>) -> Vec<String> {
    let mut facts: Vec<String> = missing::note(runner, ask.tool, ask.arguments).await.into_iter().collect();
    match look(runner, ask.tool, ask.arguments).await {
        Some(Looked::Missing(path)) => facts.push(format!("There is no file or folder {}.", in_quotes(&path, PATH))),
        Some(Looked::Lost(path, note)) => {
            facts.push(note);
            if ask.is_unread {
                facts.push(format!("This turn has not read {}.", in_quotes(&path, PATH)));
            }
        }
        Some(Looked::Unknown(why)) => facts.push(why),
        None => {}
    }
    facts
}

/// What there is at the path of a call that does away with something.
enum Looked {
    /// Nothing.
    Missing(String),
    /// A file with content, and what becomes of that.
    Lost(String, String),
    /// It could not be looked at.
    Unknown(String),
}

async fn look<S: Surface>(runner: &Runner<S>, tool: &Tool, arguments: &str) -> Option<Looked> {
    let loss = Loss::of(tool.descriptor.interface_id, &tool.descriptor.method_name)?;
    if loss == Loss::Replaced && appends(arguments) {
        return None;
    }
    let path = path(arguments)?;
    let directory: DirectoryClient =
        runner.grants.capability(tool.capability, tool.descriptor.interface_id).ok()?.cast();
    // A link is deleted itself, and what is written goes to where it leads.
    let looked = directory.status(&path, loss == Loss::Replaced);
    match race(looked, runner.clock.sleep(PATIENCE)).await {
        Either::Left(Ok(found)) if found.error == FileError::None => {
            loss.note(&found.status).map(|note| Looked::Lost(path, note))
        }
        Either::Left(Ok(found)) if loss == Loss::Deleted && found.error == FileError::NotFound => {
            Some(Looked::Missing(path))
        }
        // A new file, or the call itself will say what is wrong.
        Either::Left(Ok(_)) => None,
        Either::Left(Err(why)) => {
            let why = one_line(&plain(&why.to_string()));
            Some(Looked::Unknown(format!("The current content could not be checked: {why}.")))
        }
        Either::Right(()) => Some(Looked::Unknown("The current content could not be checked within 2 s.".to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d01_only_what_is_lost_is_told_of() {
        let directory = DirectoryClient::INTERFACE_ID;
        assert_eq!(Loss::of(directory, "writeText"), Some(Loss::Replaced));
        assert_eq!(Loss::of(directory, "remove"), Some(Loss::Deleted));
        for (interface, method) in [(directory, "readText"), (directory, "makeDirectory"), (directory ^ 1, "remove")] {
            assert_eq!(Loss::of(interface, method), None);
        }
        let of = |kind, bytes| FileStatus { kind, bytes, ..FileStatus::default() };
        let text = Loss::Replaced.note(&of(EntryKind::File, 52)).unwrap();
        assert_eq!(text, "It replaces the current content of the file: 52 bytes.");
        assert_eq!(Loss::Deleted.note(&of(EntryKind::File, 1)).unwrap(), "The file holds 1 byte.");
        assert_eq!(Loss::Replaced.note(&of(EntryKind::File, 0)), None);
        assert_eq!(Loss::Deleted.note(&of(EntryKind::Directory, 9)), None);
    }

    #[test]
    fn the_names_are_those_of_the_schema() {
        let interface = capos_schema::reflection::interface(DirectoryClient::INTERFACE_ID).unwrap();
        for name in ["writeText", "remove"] {
            let method = interface.methods.iter().find(|method| method.name == name).unwrap();
            assert!(method.params_schema.contains("\"path\""), "{name}");
        }
    }

    #[test]
    fn the_path_is_that_of_the_arguments() {
        assert_eq!(path(r#"{"path":"a\nb","text":""}"#).unwrap(), "a\nb");
        assert_eq!(path(r#"{"path":1}"#), None);
        assert_eq!(path("{}"), None);
    }

    #[test]
    fn who_appends_loses_nothing() {
        assert!(appends(r#"{"append":true,"path":"a","text":""}"#));
        for replaces in [r#"{"append":false,"path":"a"}"#, r#"{"append":"true"}"#, "{}", "append"] {
            assert!(!appends(replaces), "{replaces}");
        }
        let interface = capos_schema::reflection::interface(DirectoryClient::INTERFACE_ID).unwrap();
        assert!(interface.method("writeText").unwrap().params_schema.contains("\"append\""));
    }
}
