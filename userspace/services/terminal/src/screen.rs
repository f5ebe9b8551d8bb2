//! The console on the wire: keyboard in, screen out, one reader at a time.

use crate::event::Happenings;
use crate::uart::{FIFO, Uart};
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::string::String;
use capos_rt::Error;
use capos_terminal::{Clean, Console, Event, Read, Settings, Style};
use core::cell::{Cell, RefCell};

/// Output that may wait for the wire before writers wait, in bytes.
const HIGH_WATER: usize = 8 * 1024;

/// How a read ended.
pub enum Answer {
    /// A line.
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D on an empty line.
    End,
    /// Another read took its place.
    Superseded,
}

/// The one screen.
pub struct Screen {
    uart: Uart,
    console: RefCell<Console>,
    size: Cell<(u16, u16)>,
    out: RefCell<VecDeque<u8>>,
    /// Something was put into `out`, or taken from it.
    moved: Happenings,
    /// The transmit FIFO became empty.
    room: Happenings,
    /// A read ended.
    answered: Happenings,
    answer: RefCell<Option<Answer>>,
    /// Names the read that is under way.
    reader: Cell<u64>,
    /// A Ctrl-C that nobody's read took.
    interrupts: Happenings,
}

impl Screen {
    /// The screen on a port.
    pub fn new(uart: Uart) -> Rc<Self> {
        let settings = Settings::default();
        let screen = Self {
            uart,
            console: RefCell::new(Console::new(settings)),
            size: Cell::new((settings.columns, settings.rows)),
            out: RefCell::default(),
            moved: Happenings::default(),
            room: Happenings::default(),
            answered: Happenings::default(),
            answer: RefCell::default(),
            reader: Cell::new(0),
            interrupts: Happenings::default(),
        };
        screen.with(|console| {
            console.start();
            console.ask_size();
        });
        Rc::new(screen)
    }

    /// Works on the console, then deals with what came of it.
    fn with<R>(&self, act: impl FnOnce(&mut Console) -> R) -> R {
        let mut console = self.console.borrow_mut();
        let result = act(&mut console);
        let bytes = console.take_output();
        while let Some(event) = console.next_event() {
            self.happened(event);
        }
        drop(console);
        if !bytes.is_empty() {
            self.out.borrow_mut().extend(bytes);
            self.moved.happen();
        }
        result
    }

    fn happened(&self, event: Event) {
        let answer = match event {
            Event::Line(line) => Answer::Line(line),
            Event::End => Answer::End,
            Event::Interrupt if self.reader.get() != 0 => Answer::Interrupted,
            Event::Interrupt => {
                self.interrupts.happen();
                return;
            }
            Event::Size { columns, rows } => {
                self.size.set((columns, rows));
                return;
            }
        };
        *self.answer.borrow_mut() = Some(answer);
        self.reader.set(0);
        self.answered.happen();
    }

    /// Columns and rows.
    pub fn size(&self) -> (u16, u16) {
        self.size.get()
    }

    /// Shows text; waits where the wire is far behind.
    pub async fn write(&self, style: Style, text: &Clean) {
        self.with(|console| console.write(style, text));
        self.drained(HIGH_WATER).await;
    }

    /// Shows a line that stands until anything else is shown; waits as `write` does.
    pub async fn status(&self, style: Style, text: &Clean) {
        self.with(|console| console.status(style, text));
        self.drained(HIGH_WATER).await;
    }

    /// Clears the screen.
    pub fn clear(&self) {
        self.with(Console::clear);
    }

    async fn drained(&self, below: usize) {
        loop {
            let known = self.moved.count();
            if self.out.borrow().len() <= below {
                return;
            }
            self.moved.after(known).await;
        }
    }

    /// Reads a line. A read that was under way ends as superseded.
    pub async fn read(self: &Rc<Self>, read: Read) -> Answer {
        if self.reader.get() != 0 {
            *self.answer.borrow_mut() = Some(Answer::Superseded);
            self.reader.set(0);
            self.answered.happen();
            // Let the other one take its answer first.
            capos_rt::yield_now().await;
        }
        let known = self.answered.count();
        let number = known.wrapping_add(1).max(1);
        self.reader.set(number);
        let guard = Reading { screen: self.clone(), number };
        self.with(|console| console.read(read));
        self.answered.after(known).await;
        core::mem::forget(guard);
        self.answer.borrow_mut().take().unwrap_or(Answer::Superseded)
    }

    /// Ends the read that is under way, if there is one.
    pub fn give_up(&self) {
        if self.reader.get() != 0 {
            self.with(Console::cancel_read);
            *self.answer.borrow_mut() = Some(Answer::Superseded);
            self.reader.set(0);
            self.answered.happen();
        }
    }

    /// Waits for the next Ctrl-C that no read takes; how many there have been.
    pub async fn interrupt(&self) -> u64 {
        self.interrupts.after(self.interrupts.count()).await;
        self.interrupts.count()
    }

    /// Moves bytes from the keyboard, for ever.
    ///
    /// # Errors
    /// The port is gone.
    pub async fn listen(&self) -> Result<(), Error> {
        loop {
            // What comes meanwhile raises no interrupt while the line is up, so the port is served until it is down.
            loop {
                let bytes = self.uart.receive().await?;
                if !bytes.is_empty() {
                    self.with(|console| console.input(&bytes));
                    continue;
                }
                if self.uart.may_send().await? {
                    self.room.happen();
                }
                if self.uart.is_quiet().await? {
                    break;
                }
            }
            self.uart.acknowledge().await?;
            self.uart.interrupted().await?;
        }
    }

    /// Moves bytes to the screen, for ever.
    ///
    /// # Errors
    /// The port is gone.
    pub async fn show(&self) -> Result<(), Error> {
        loop {
            let known = self.moved.count();
            let piece: alloc::vec::Vec<u8> = {
                let mut out = self.out.borrow_mut();
                let length = out.len().min(FIFO);
                out.drain(..length).collect()
            };
            if piece.is_empty() {
                self.moved.after(known).await;
                continue;
            }
            let before = self.room.count();
            if !self.uart.may_send().await? {
                self.uart.ask_for_room(true).await?;
                self.room.after(before).await;
                self.uart.ask_for_room(false).await?;
            }
            self.uart.send(&piece).await?;
            self.moved.happen();
        }
    }
}

/// A read that is under way; dropping it takes the line off the screen.
struct Reading {
    screen: Rc<Screen>,
    number: u64,
}

impl Drop for Reading {
    fn drop(&mut self) {
        if self.screen.reader.get() == self.number {
            self.screen.reader.set(0);
            self.screen.with(Console::cancel_read);
        }
    }
}
