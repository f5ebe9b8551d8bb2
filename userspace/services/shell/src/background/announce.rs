//! Lines about background runs, and reminders. None of them stands within an answer of the model, a question or a line that is
//! edited, and none is shown while the terminal is locked.

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
    /// The terminal is locked.
    locked: Cell<bool>,
    waiting: RefCell<VecDeque<(Style, String)>>,
}

impl Announcer {
    /// At this screen.
    pub fn new(screen: Rc<Screen>) -> Rc<Self> {
        Rc::new(Self { screen, speaking: Cell::new(false), locked: Cell::new(false), waiting: RefCell::default() })
    }

    /// Shows a line when there is a place for it. It does not wait for that.
    pub fn announce(self: &Rc<Self>, style: Style, text: &str) {
        self.waiting.borrow_mut().push_back((style, text.to_string()));
        let announcer = self.clone();
        drop(capos_rt::spawn(async move { announcer.show().await }));
    }

    fn is_quiet(&self) -> bool {
        self.speaking.get() || self.locked.get() || self.waiting.borrow().is_empty()
    }

    /// Nothing is shown while the terminal is locked; what waits is shown after that.
    pub async fn lock(&self, locked: bool) {
        self.locked.set(locked);
        self.show().await;
    }

    /// Forgets what waits, as its session ends.
    pub fn forget(&self) {
        self.waiting.borrow_mut().clear();
    }

    /// Shows the lines that wait, unless an answer is being written. A question that is open is over first, and a line that is
    /// edited stays below them.
    pub async fn show(&self) {
        while !self.is_quiet() {
            let columns = self.screen.size().await.0;
            let held = self.screen.hold().await;
            // The terminal may have been locked while the screen was held.
            if self.is_quiet() {
                return;
            }
            let Some((style, text)) = self.waiting.borrow_mut().pop_front() else { return };
            held.wrapped(columns, &[(style, &text)]).await;
        }
    }
}
