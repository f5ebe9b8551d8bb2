//! What is kept of a conversation besides its messages.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::keys::{Id, digits};
use crate::limits::MAX_TITLE;

/// A conversation, as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// 32 hexadecimal digits.
    pub id: String,
    pub title: String,
    /// Milliseconds since 1970.
    pub created: u64,
    pub changed: u64,
    pub messages: u32,
    /// Id of the model that was used last.
    pub model: String,
    /// The conversation that this one continues from, and how many of its messages; empty if none.
    pub parent: String,
    pub parent_messages: u32,
    /// When it is deleted by itself; 0: never.
    pub expires: u64,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The message, counted from 0.
    pub index: u32,
    /// The part, counted from 0.
    pub part: u32,
    pub last: bool,
    pub text: String,
}

/// Messages that a conversation has of another's segment: those from where the one before ends, up to and without `end`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inherited {
    pub segment: u64,
    pub end: u32,
}

/// A conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub title: String,
    pub created: u64,
    pub changed: u64,
    pub messages: u32,
    /// Of all its messages.
    pub bytes: u64,
    pub model: String,
    pub parent: String,
    pub parent_messages: u32,
    /// Seconds that it lives after its last change; 0: it stays.
    pub lives: u64,
    /// The segment of its own messages.
    pub segment: u64,
    pub inherited: Vec<Inherited>,
}

impl Record {
    /// When it ends; 0: never.
    pub fn expires(&self) -> u64 {
        match self.lives {
            0 => 0,
            seconds => self.changed.saturating_add(seconds.saturating_mul(1000)),
        }
    }

    /// Whether it has ended.
    pub fn is_over(&self, now: u64) -> bool {
        self.lives != 0 && self.expires() <= now
    }

    /// The number of the first message of its own.
    pub fn own_start(&self) -> u32 {
        self.inherited.last().map_or(0, |inherited| inherited.end)
    }

    /// Its segments in order, each with the numbers of the first message that it has of it and of the first that it has not.
    pub fn segments(&self) -> Vec<(u64, u32, u32)> {
        let mut segments = Vec::new();
        let mut start = 0;
        for Inherited { segment, end } in &self.inherited {
            segments.push((*segment, start, *end));
            start = *end;
        }
        segments.push((self.segment, start, self.messages));
        segments
    }

    /// The segment that has a message.
    pub fn segment_of(&self, index: u32) -> u64 {
        let found = self.inherited.iter().find(|inherited| index < inherited.end);
        found.map_or(self.segment, |inherited| inherited.segment)
    }

    pub fn info(&self, id: &Id) -> Info {
        Info {
            id: digits(id),
            title: self.title.clone(),
            created: self.created,
            changed: self.changed,
            messages: self.messages,
            model: self.model.clone(),
            parent: self.parent.clone(),
            parent_messages: self.parent_messages,
            expires: self.expires(),
        }
    }
}

/// A message that is arriving in parts: all that is in the tables of it is not in a conversation yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arriving {
    pub segment: u64,
    pub index: u32,
    /// Parts and bytes so far.
    pub parts: u32,
    pub bytes: u64,
}

/// What a principal has used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    pub conversations: u32,
    pub bytes: u64,
    /// Segments that there have been.
    pub segments: u64,
    pub arriving: Option<Arriving>,
}

/// What is read of a message here; the rest is its writer's.
#[derive(Deserialize)]
pub struct Content {
    pub content: String,
}

/// The content of a message.
pub fn content(text: &str) -> Result<String, Error> {
    let read: Result<Content, _> = serde_json::from_str(text);
    Ok(read.map_err(|why| Error::Invalid(alloc::format!("this is not a message: {why}")))?.content)
}

/// A record as it is written.
pub fn bytes(record: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(record).map_err(|why| Error::damaged("a record", why))
}

/// A record as it was written.
pub fn read<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|why| Error::damaged(what, why))
}

/// Text of a table.
pub fn text(bytes: Vec<u8>) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(|why| Error::damaged("a message", why))
}

/// The beginning of a text as a title: one line.
pub fn title(text: &str) -> String {
    let mut title = String::new();
    for word in text.split_whitespace() {
        let word: String = word.chars().filter(|letter| !letter.is_control()).collect();
        let space = usize::from(!title.is_empty());
        if title.len().saturating_add(word.len()).saturating_add(space) > MAX_TITLE {
            if title.is_empty() {
                title = word.get(..word.floor_char_boundary(MAX_TITLE)).unwrap_or_default().to_string();
            }
            break;
        }
        if space > 0 {
            title.push(' ');
        }
        title.push_str(&word);
    }
    title
}
