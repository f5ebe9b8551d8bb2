//! The line being edited, and where in it.

use alloc::string::String;

use unicode_segmentation::UnicodeSegmentation;

/// The longest line, in bytes. With what is around it it fits into the 64 KiB of an answer to who reads it.
pub(crate) const LINE_LIMIT: usize = 63 * 1024;

/// A text of at most [`LINE_LIMIT`] bytes, whoever writes to it, and a cursor that stands between two of its graphemes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    text: String,
    /// Byte offset.
    cursor: usize,
    /// What was deleted last by a line- or word-wise command.
    killed: String,
    /// From which byte on the text has changed since the last question.
    changed: Option<usize>,
}

impl Buffer {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn at_end(&self) -> bool {
        self.cursor == self.text.len()
    }

    pub(crate) fn before(&self) -> &str {
        self.text.get(..self.cursor).unwrap_or_default()
    }

    pub(crate) fn after(&self) -> &str {
        self.text.get(self.cursor..).unwrap_or_default()
    }

    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    /// How many bytes there is room for.
    pub(crate) fn room(&self) -> usize {
        LINE_LIMIT.saturating_sub(self.text.len())
    }

    /// From which byte on the text has changed since the last call; nothing where it has not.
    pub(crate) fn take_change(&mut self) -> Option<usize> {
        self.changed.take()
    }

    fn change(&mut self, from: usize) {
        self.changed = Some(self.changed.map_or(from, |before| before.min(from)));
    }

    pub(crate) fn set(&mut self, text: &str) {
        self.change(0);
        self.text.clear();
        self.text.push_str(text);
        self.cursor = self.text.len();
    }

    pub(crate) fn take(&mut self) -> String {
        self.change(0);
        self.cursor = 0;
        core::mem::take(&mut self.text)
    }

    /// Inserts a text before the cursor, whole or not at all; says whether there was room for it.
    #[must_use]
    pub(crate) fn insert(&mut self, text: &str) -> bool {
        let fits = text.len() <= self.room();
        if fits && !text.is_empty() {
            self.change(self.cursor);
            self.text.insert_str(self.cursor, text);
            self.cursor = self.cursor.saturating_add(text.len());
        }
        fits
    }

    #[must_use]
    pub(crate) fn yank(&mut self) -> bool {
        let killed = core::mem::take(&mut self.killed);
        let fits = self.insert(&killed);
        self.killed = killed;
        fits
    }

    /// Removes what is between this byte and the cursor.
    pub(crate) fn remove(&mut self, start: usize) {
        if start < self.cursor {
            self.change(start);
            self.text.drain(start..self.cursor);
            self.cursor = start;
        }
    }

    pub(crate) fn left(&mut self) {
        self.cursor = self.cursor.saturating_sub(self.grapheme_before());
    }

    pub(crate) fn right(&mut self) {
        self.cursor = self.cursor.saturating_add(self.grapheme_after());
    }

    pub(crate) fn home(&mut self) {
        self.cursor = 0;
    }

    pub(crate) fn end(&mut self) {
        self.cursor = self.text.len();
    }

    pub(crate) fn word_left(&mut self) {
        self.cursor = self.word_start();
    }

    pub(crate) fn word_right(&mut self) {
        self.cursor = self.word_end();
    }

    pub(crate) fn backspace(&mut self) {
        self.remove(self.cursor.saturating_sub(self.grapheme_before()));
    }

    pub(crate) fn delete(&mut self) {
        let end = self.cursor.saturating_add(self.grapheme_after());
        if self.cursor < end {
            self.change(self.cursor);
            self.text.drain(self.cursor..end);
        }
    }

    pub(crate) fn kill_to_start(&mut self) {
        self.kill(0, self.cursor);
    }

    pub(crate) fn kill_to_end(&mut self) {
        self.kill(self.cursor, self.text.len());
    }

    /// Deletes back to the start of the word, words being parted by white space, as Ctrl-W does.
    pub(crate) fn kill_word_left(&mut self) {
        let word = self.before().trim_end().rfind(char::is_whitespace);
        let start = word.map_or(0, |at| {
            let space = self.before().get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
            at.saturating_add(space)
        });
        self.kill(start, self.cursor);
    }

    pub(crate) fn kill_word_right(&mut self) {
        self.kill(self.cursor, self.word_end());
    }

    fn kill(&mut self, start: usize, end: usize) {
        if start < end {
            self.change(start);
            self.killed = self.text.drain(start..end).collect();
            self.cursor = start;
        }
    }

    /// Overwrites what it holds, and what it held last.
    pub(crate) fn wipe(&mut self) {
        for text in [core::mem::take(&mut self.text), core::mem::take(&mut self.killed)] {
            let mut bytes = text.into_bytes();
            bytes.fill(0);
            core::hint::black_box(&bytes);
        }
        self.cursor = 0;
        self.change(0);
    }

    /// Length in bytes of the grapheme before the cursor.
    fn grapheme_before(&self) -> usize {
        self.before().graphemes(true).next_back().map_or(0, str::len)
    }

    fn grapheme_after(&self) -> usize {
        self.after().graphemes(true).next().map_or(0, str::len)
    }

    fn word_start(&self) -> usize {
        let mut words = self.before().unicode_word_indices();
        words.next_back().map_or(0, |(at, _)| at)
    }

    fn word_end(&self) -> usize {
        let mut words = self.after().unicode_word_indices();
        words.next().map_or(self.text.len(), |(at, word)| self.cursor.saturating_add(at).saturating_add(word.len()))
    }
}
