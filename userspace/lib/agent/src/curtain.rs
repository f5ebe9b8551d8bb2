//! Lines about calls, which wait while a question is open.

use alloc::collections::VecDeque;
use alloc::string::String;
use core::cell::{Cell, RefCell};

use capos_schema::models::Outcome;

use crate::call::Context;
use crate::snapshot::Tool;
use crate::world::{Show, World};

/// A line about a call.
#[derive(Clone, Debug)]
pub enum Line {
    Started { tool: Tool, call_id: String },
    Finished { name: String, arguments: String, call_id: String, outcome: Outcome, text: String },
    Notice(String),
}

impl Line {
    fn show(&self) -> Show<'_> {
        match self {
            Self::Started { tool, call_id } => Show::Started { tool, call_id },
            Self::Finished { name, arguments, call_id, outcome, text } => {
                Show::Finished { name, arguments, call_id, outcome: *outcome, text }
            }
            Self::Notice(text) => Show::Notice(text),
        }
    }
}

/// Keeps the lines of calls that run while a question is open. There are no more than three for each call of an answer.
#[derive(Default)]
pub struct Curtain {
    is_closed: Cell<bool>,
    waiting: RefCell<VecDeque<Line>>,
}

impl Curtain {
    /// A question opens: lines wait.
    pub fn close(&self) {
        self.is_closed.set(true);
    }

    /// Keeps a line while a question is open; gives it back otherwise.
    fn keep(&self, line: Line) -> Option<Line> {
        // A line that waits for those before it keeps its order.
        if !self.is_closed.get() && self.waiting.borrow().is_empty() {
            return Some(line);
        }
        let mut waiting = self.waiting.borrow_mut();
        if let Line::Finished { call_id: ended, .. } = &line {
            // That it runs is not worth telling any more.
            waiting.retain(|other| !matches!(other, Line::Started { call_id, .. } if call_id == ended));
        }
        waiting.push_back(line);
        None
    }

    fn next(&self) -> Option<Line> {
        if self.is_closed.get() { None } else { self.waiting.borrow_mut().pop_front() }
    }
}

impl<W: World> Context<W> {
    /// Shows a line about a call, once no question is open. It waits for the screen, and for no question.
    pub(crate) async fn tell(&self, line: Line) {
        if let Some(line) = self.curtain.keep(line) {
            self.world.show(line.show()).await;
        }
    }

    /// No question is open any more: shows what has waited.
    pub(crate) async fn open_curtain(&self) {
        self.curtain.is_closed.set(false);
        while let Some(line) = self.curtain.next() {
            self.world.show(line.show()).await;
        }
    }
}
