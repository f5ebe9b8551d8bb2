//! Lines about background runs. None of them stands within an answer of the model, a question or a line that is edited.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use core::cell::{Cell, RefCell};

use capos_schema::terminal::Style;

use crate::screen::Screen;

/// Lines that wait for the screen.
pub struct Announcer {
    screen: Rc<Screen>,
    /// An answer of the model is being written at the prompt.
    pub speaking: Cell<bool>,
    waiting: RefCell<VecDeque<(Style, String)>>,
}

impl Announcer {
    /// At this screen.
    pub fn new(screen: Rc<Screen>) -> Rc<Self> {
        Rc::new(Self { screen, speaking: Cell::new(false), waiting: RefCell::default() })
    }

    /// Shows a line when there is a place for it. It does not wait for that.
    pub fn announce(self: &Rc<Self>, style: Style, text: &str) {
        self.waiting.borrow_mut().push_back((style, text.to_string()));
        let announcer = self.clone();
        drop(capos_rt::spawn(async move { announcer.show().await }));
    }

    fn next(&self) -> Option<(Style, String)> {
        if self.speaking.get() { None } else { self.waiting.borrow_mut().pop_front() }
    }

    /// Shows the lines that wait, unless an answer is being written. A question that is open is over first, and a line that is
    /// edited stays below them.
    pub async fn show(&self) {
        while let Some((style, text)) = self.next() {
            self.screen.wrapped(&[(style, &text)]).await;
        }
    }
}
