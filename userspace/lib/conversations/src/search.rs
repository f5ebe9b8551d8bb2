//! Searching: page by page, in bounded memory.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_keyspace::{Keyspace, Range};

use crate::conversations::{Conversations, cursor, position};
use crate::error::Error;
use crate::keys::{self, MESSAGES, Owner};
use crate::limits::{MAX_MESSAGE, MAX_PAGE, MAX_SEARCH};
use crate::messages::part;
use crate::record::{self, Info, Part, Record};

/// Messages that are read at once, if they are not too long.
const AT_ONCE: u32 = 32;
/// Times that a call reads messages.
const READS: u32 = 32;
/// Bytes of a place in a message, and how many of them come before what was found.
const PLACE: usize = 200;
const BEFORE: usize = 60;

/// A message that contains the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub conversation: Info,
    pub index: u32,
    /// The place in it.
    pub text: String,
}

/// A page of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    pub found: Vec<Found>,
    /// Where the next page begins; empty at the end.
    pub next: String,
}

impl<K: Keyspace> Conversations<K> {
    /// Messages that contain a text, without regard to case: those of the last changed conversation first, and of each the
    /// newest first. A call reads a bounded number of messages, so a page may be empty although there is a next one.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn search(&self, owner: Owner, text: &str, from: &str, most: u32, now: u64) -> Result<Results, Error> {
        if text.trim().is_empty() {
            return Err(Error::Invalid("there is no text to search for".to_string()));
        }
        if text.len() > MAX_SEARCH {
            return Err(Error::too_long("a text to search for", text.len(), MAX_SEARCH));
        }
        let wanted = folded(text);
        let most = usize::try_from(most.clamp(1, MAX_PAGE)).unwrap_or(1);
        // The conversation, and the number of the message that comes next.
        let mut at = match cursor::<28>(from)? {
            Some(bytes) => {
                let (place, index) = bytes.split_at(24);
                Some((place.to_vec(), keys::number(index)?))
            }
            None => None,
        };
        drop(self.begin(now).await?);
        let mut results = Results::default();
        let mut reads = 0_u32;
        loop {
            if let Some((place, index)) = at.as_ref().filter(|_| reads >= READS) {
                results.next = format!("{}{index:08x}", hex::encode(place));
                return Ok(results);
            }
            let start = at.as_ref().map(|(place, index)| (place.as_slice(), *index == u32::MAX));
            let (mut page, _) = self.page(owner, start, 1).await?;
            let Some((id, record)) = page.pop() else { return Ok(results) };
            let place = position(&record, &id);
            let key = keys::conversation(owner, record.changed, &id).split_off(4);
            let mut left = match &at {
                Some((wanted, index)) if *wanted == key => index.saturating_add(1).min(record.messages),
                _ => record.messages,
            };
            while left > 0 && !record.is_over(now) {
                if reads >= READS {
                    results.next = format!("{place}{:08x}", left.saturating_sub(1));
                    return Ok(results);
                }
                reads = reads.saturating_add(1);
                let messages = self.last_before(owner, &record, left).await?;
                if messages.is_empty() {
                    // It was removed meanwhile.
                    break;
                }
                for (index, message) in messages {
                    left = index;
                    if let Some(text) = find(&record::content(&message)?, &wanted) {
                        results.found.push(Found { conversation: record.info(&id), index, text });
                    }
                    if results.found.len() >= most {
                        let next = index.checked_sub(1).unwrap_or(u32::MAX);
                        results.next = format!("{place}{next:08x}");
                        return Ok(results);
                    }
                }
            }
            at = Some((key, u32::MAX));
            reads = reads.saturating_add(1);
        }
    }

    /// The last messages before number `end`, the last one first: several if they are short.
    async fn last_before(&self, owner: Owner, record: &Record, end: u32) -> Result<Messages, Error> {
        let last = end.saturating_sub(1);
        let segments = record.segments();
        let Some((segment, start, _)) = segments.into_iter().find(|(_, _, until)| last < *until) else {
            return Ok(Vec::new());
        };
        let first = start.max(end.saturating_sub(AT_ONCE));
        let (from, to) = (keys::message(owner, segment, first), keys::message(owner, segment, end));
        let range = Range { from: &from, to: &to, reverse: true, ..Range::all(MESSAGES) };
        let found = self.range(range).await?;
        let mut messages: BTreeMap<u32, Vec<Part>> = BTreeMap::new();
        for (key, value) in found.entries {
            let part = part(&key, value)?;
            messages.entry(part.index).or_default().push(part);
        }
        if found.more {
            // The first of them may not be whole.
            let first = messages.pop_first();
            if messages.is_empty()
                && let Some((index, _)) = first
            {
                messages.insert(index, self.parts(owner, segment, index).await?);
            }
        }
        let whole = |(index, mut parts): (u32, Vec<Part>)| {
            parts.sort_by_key(|part| part.part);
            (index, parts.into_iter().map(|part| part.text).collect())
        };
        Ok(messages.into_iter().rev().map(whole).collect())
    }

    /// All parts of one message.
    async fn parts(&self, owner: Owner, segment: u64, index: u32) -> Result<Vec<Part>, Error> {
        let (prefix, mut parts) = (keys::message(owner, segment, index), Vec::new());
        let (mut from, to, mut bytes) = (prefix.clone(), keys::after(&prefix), 0_usize);
        loop {
            let found = self.range(Range { from: &from, to: &to, ..Range::all(MESSAGES) }).await?;
            for (key, value) in found.entries {
                bytes = bytes.saturating_add(value.len());
                from.clone_from(&key);
                from.push(0);
                parts.push(part(&key, value)?);
            }
            if !found.more || bytes > MAX_MESSAGE.saturating_mul(2) {
                return Ok(parts);
            }
        }
    }
}

/// Messages, each with its number, the last one first.
type Messages = Vec<(u32, String)>;

/// A text without regard to case.
fn folded(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// The place in a text that contains what is wanted, which is folded: one line.
fn find(text: &str, wanted: &str) -> Option<String> {
    let found = folded(text).find(wanted)?;
    // The letter whose folded form is there.
    let mut length = 0_usize;
    let at = text
        .char_indices()
        .find(|(_, letter)| {
            length = letter.to_lowercase().fold(length, |length, lower| length.saturating_add(lower.len_utf8()));
            length > found
        })
        .map_or(0, |(at, _)| at);
    let begin = text.floor_char_boundary(at.saturating_sub(BEFORE));
    let around = text.get(begin..text.floor_char_boundary(begin.saturating_add(PLACE))).unwrap_or_default();
    Some(around.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn case_does_not_matter_and_the_place_is_around_it() {
        assert_eq!(find("Straße, GRÜN und\nblau", &folded("strasse")), None);
        assert_eq!(find("Straße, GRÜN und\nblau", &folded("grün Und")).unwrap(), "Straße, GRÜN und blau");
        let long = alloc::format!("{}needle{}", "x".repeat(999), "y".repeat(999));
        let place = find(&long, &folded("NEEDLE")).unwrap();
        assert!(place.len() == PLACE && place.starts_with(&alloc::format!("{}needle", "x".repeat(BEFORE))), "{place}");
    }

    proptest! {
        #[test]
        fn what_is_in_a_text_is_found(before in "\\PC{0,80}", word in "[A-Za-zİßŉΣ]{1,8}", after in "\\PC{0,300}") {
            let place = find(&alloc::format!("{before}{word}{after}"), &folded(&word));
            prop_assert!(place.is_some_and(|place| place.len() <= PLACE));
        }
    }
}
