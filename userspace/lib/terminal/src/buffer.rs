//! The line being edited, and where in it.

use alloc::string::String;

use unicode_segmentation::UnicodeSegmentation;

/// A text and a cursor that stands between two of its graphemes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    text: String,
    /// Byte offset.
    cursor: usize,
    /// What was deleted last by a line- or word-wise command.
    killed: String,
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

    pub(crate) fn set(&mut self, text: &str) {
        self.text.clear();
        self.text.push_str(text);
        self.cursor = self.text.len();
    }

    pub(crate) fn take(&mut self) -> String {
        self.cursor = 0;
        core::mem::take(&mut self.text)
    }

    pub(crate) fn insert(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor = self.cursor.saturating_add(text.len());
    }

    pub(crate) fn yank(&mut self) {
        let killed = core::mem::take(&mut self.killed);
        self.insert(&killed);
        self.killed = killed;
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
        let start = self.cursor.saturating_sub(self.grapheme_before());
        self.text.drain(start..self.cursor);
        self.cursor = start;
    }

    pub(crate) fn delete(&mut self) {
        let end = self.cursor.saturating_add(self.grapheme_after());
        self.text.drain(self.cursor..end);
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
            self.killed = self.text.drain(start..end).collect();
            self.cursor = start;
        }
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
