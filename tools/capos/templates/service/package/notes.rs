//! The service's data. Nothing here knows of capabilities, so all of it is tested on the host.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Notes that are kept at most.
const MAX_NOTES: u32 = 100;
/// Bytes of a note at most.
const MAX_TEXT: usize = 1000;

/// Notes, oldest first. A caller that may add notes cannot make the service run out of memory.
#[derive(Debug, Default)]
pub struct Notes {
    texts: Vec<String>,
}

impl Notes {
    /// Keeps a note; returns how many there are then.
    ///
    /// # Errors
    /// The note is empty or too long, or there are too many: says which.
    pub fn add(&mut self, text: String) -> Result<u32, String> {
        if text.is_empty() || text.len() > MAX_TEXT {
            return Err(format!("a note has 1 to {MAX_TEXT} bytes; this one has {}", text.len()));
        }
        let count = u32::try_from(self.texts.len()).unwrap_or(MAX_NOTES);
        if count >= MAX_NOTES {
            return Err(format!("there are {MAX_NOTES} notes, and no more are kept"));
        }
        self.texts.push(text);
        Ok(count.saturating_add(1))
    }

    /// All of them.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_kept_in_order() {
        let mut notes = Notes::default();
        assert_eq!(notes.add("one".into()), Ok(1));
        assert_eq!(notes.add("two".into()), Ok(2));
        assert_eq!(notes.texts(), ["one", "two"]);
    }

    #[test]
    fn what_is_too_much_is_refused_in_words() {
        let mut notes = Notes::default();
        assert_eq!(notes.add(String::new()), Err("a note has 1 to 1000 bytes; this one has 0".into()));
        assert!(notes.add("x".repeat(MAX_TEXT + 1)).is_err());
        for _ in 0..MAX_NOTES {
            assert!(notes.add("x".into()).is_ok());
        }
        assert_eq!(notes.add("x".into()), Err("there are 100 notes, and no more are kept".into()));
    }
}
