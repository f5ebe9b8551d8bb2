//! Asking the terminal how large it is, and what a terminal does with rows that it has become too narrow for.

#![deny(clippy::arithmetic_side_effects)]

use alloc::vec::Vec;

use crate::view::View;

/// A question that is answered twice: where the cursor is, and where it gets when it goes as far as it can.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Probe {
    /// Answers to come.
    due: u8,
    /// The first of the two.
    cursor: (u16, u16),
    /// How many bytes had been made when it was asked last.
    asked_at: u64,
    /// The terminal answers such questions.
    answered: bool,
    /// Nothing is drawn until it is answered.
    holds: bool,
    /// Whether the terminal wraps rows that no longer fit, where it has shown that.
    wraps: Option<bool>,
}

/// What the terminal has told.
pub(crate) struct Answer {
    /// Row and column of the cursor when it was asked, from 1.
    pub cursor: (u16, u16),
    pub columns: u16,
    pub rows: u16,
    pub asked_at: u64,
}

/// Answers to one question.
const ANSWERS: u8 = 2;
/// The most answers that are waited for.
const MOST_DUE: u8 = 8;
/// The smallest screen that is believed: what claims less is a key that looks like an answer.
const LEAST: (u16, u16) = (2, 8);

impl Probe {
    pub(crate) fn ask(&mut self, out: &mut Vec<u8>) {
        // Of a terminal that has never answered no old answers are waited for.
        let before = if self.answered { self.due } else { 0 };
        self.due = before.saturating_add(ANSWERS).min(MOST_DUE);
        out.extend_from_slice(b"\x1b[6n\x1b7\x1b[999;999H\x1b[6n\x1b8");
    }

    pub(crate) fn asked_at(&mut self, made: u64) {
        self.asked_at = made;
    }

    /// Takes one answer. The second to the last question completes it; an answer to no question is ignored.
    pub(crate) fn answer(&mut self, row: u16, column: u16) -> Option<Answer> {
        self.due = self.due.checked_sub(1)?;
        if self.due == 1 {
            self.cursor = (row, column);
        }
        if self.due > 0 {
            return None;
        }
        self.holds = false;
        if row < LEAST.0 || column < LEAST.1 {
            return None;
        }
        self.answered = true;
        Some(Answer { cursor: self.cursor, columns: column, rows: row, asked_at: self.asked_at })
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }

    pub(crate) fn holds(&self) -> bool {
        self.holds
    }

    pub(crate) fn hold(&mut self) {
        self.holds = true;
    }

    pub(crate) fn release(&mut self) {
        self.holds = false;
    }

    /// No answer came: the next one that does is to a later question.
    pub(crate) fn give_up(&mut self) {
        (self.due, self.holds, self.answered) = (0, false, false);
    }

    /// How many rows above its cursor a line begins on a terminal that has become narrower. Some terminals wrap rows then, and
    /// some cut them off; the cursor's column tells where it can. Until one has told, it is taken for one that wraps: so do
    /// most.
    pub(crate) fn rows_above(&mut self, view: &View, (_, column): (u16, u16), columns: usize) -> usize {
        let column = usize::from(column).saturating_sub(1);
        let was = view.cursor().column;
        if was >= columns {
            let wrapped = was.checked_rem(columns).unwrap_or(0);
            let cut = columns.saturating_sub(1);
            if wrapped != cut {
                self.wraps = Some(column == wrapped);
            }
        }
        view.above(columns, self.wraps.unwrap_or(true))
    }
}
