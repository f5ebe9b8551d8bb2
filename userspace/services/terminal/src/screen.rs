//! The console on the wire: keyboard in, screen out, one reader at a time.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use capos_async_lock::Happenings;
use capos_rt::{Clock, Error};
use capos_terminal::{Clean, Console, Event, Question, Read, Settings, Style};
use capos_uart::{FIFO, Uart};
use core::cell::{Cell, RefCell};

/// Output that may wait for the wire before writers wait, in bytes.
const HIGH_WATER: usize = 8 * 1024;

/// How long a person has to be silent for what comes next to be theirs and not the rest of what came before, in
/// nanoseconds.
const PAUSE: u64 = 300_000_000;
/// How long a terminal may take to tell its size before what was typed is drawn without that.
const ANSWER: u64 = 100_000_000;
/// How often a port is asked whether its last byte has left. A full FIFO takes 1.4 ms.
const BYTE: u64 = 1_000_000;
/// Bytes that end the style of a question, behind its last letter.
const STYLE_END: u64 = 4;

/// How a read ended.
pub enum Answer {
    /// A line.
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D on an empty line.
    End,
    /// Another read took its place, or the screen has another size than it was laid out for.
    Superseded,
}

/// The one screen.
pub struct Screen {
    uart: Uart,
    clock: Clock,
    console: RefCell<Console>,
    size: Cell<(u16, u16)>,
    out: RefCell<VecDeque<u8>>,
    /// Something was put into `out`, or taken from it.
    moved: Happenings,
    /// Bytes that were ever put into `out`, and taken from it.
    queued: Cell<u64>,
    sent: Cell<u64>,
    /// The question that is read, until it is heard, and how much of it has to be out for it to have been seen.
    question: Cell<Option<(Question, u64)>>,
    /// Bytes are on their way from the port to the console.
    receiving: Cell<bool>,
    received: Happenings,
    /// The transmit FIFO became empty.
    room: Happenings,
    /// Something came from the keyboard.
    typed: Happenings,
    /// When that last was, in nanoseconds since boot.
    typed_at: Cell<u64>,
    /// What was typed waits for the terminal to tell its size.
    held: Happenings,
    /// Input counts again, or the terminal has told its size, or will not.
    settled: Happenings,
    /// A read ended.
    answered: Happenings,
    answer: RefCell<Option<Answer>>,
    /// Names the read that is under way.
    reader: Cell<u64>,
    /// A Ctrl-C that no read took.
    interrupts: Happenings,
}

impl Screen {
    /// The screen on a port.
    pub fn new(uart: Uart, clock: Clock) -> Rc<Self> {
        let (settings, now) = (Settings::default(), clock.now());
        let screen = Self {
            uart,
            clock,
            console: RefCell::new(Console::new(settings)),
            size: Cell::new((settings.columns, settings.rows)),
            out: RefCell::default(),
            moved: Happenings::default(),
            queued: Cell::new(0),
            sent: Cell::new(0),
            question: Cell::new(None),
            receiving: Cell::new(false),
            received: Happenings::default(),
            room: Happenings::default(),
            typed: Happenings::default(),
            typed_at: Cell::new(now),
            held: Happenings::default(),
            settled: Happenings::default(),
            answered: Happenings::default(),
            answer: RefCell::default(),
            reader: Cell::new(0),
            interrupts: Happenings::default(),
        };
        screen.with(|console| {
            match screen.uart.was_used() {
                true => console.restart(),
                false => console.start(),
            }
            console.ask_size();
        });
        Rc::new(screen)
    }

    /// Works on the console, then deals with what came of it. Where the wire is far behind, what has changed is drawn later.
    fn with<R>(&self, act: impl FnOnce(&mut Console) -> R) -> R {
        let mut console = self.console.borrow_mut();
        let (held, unsettled) = (console.is_held(), console.is_unsettled());
        let result = act(&mut console);
        let room = self.out.borrow().len() <= HIGH_WATER;
        let bytes = if room { console.take_output() } else { Vec::new() };
        while let Some(event) = console.next_event() {
            self.happened(event);
        }
        if console.is_held() && !held {
            self.held.happen();
        }
        if (unsettled && !console.is_unsettled()) || (held && !console.is_held()) {
            self.settled.happen();
        }
        drop(console);
        if !bytes.is_empty() {
            self.queued.set(self.queued.get().wrapping_add(bytes.len() as u64));
            self.out.borrow_mut().extend(bytes);
            self.moved.happen();
        }
        result
    }

    fn happened(&self, event: Event) {
        let answer = match event {
            Event::Line(line) => Answer::Line(line),
            Event::End => Answer::End,
            Event::Resized => Answer::Superseded,
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

    /// Shows text; waits where the wire is far behind, before and after.
    pub async fn write(&self, style: Style, text: &Clean) {
        self.drained().await;
        self.with(|console| console.write(style, text));
        self.drained().await;
    }

    /// Shows a line that stands until anything else is shown; waits as `write` does.
    pub async fn status(&self, style: Style, text: &Clean) {
        self.drained().await;
        self.with(|console| console.status(style, text));
        self.drained().await;
    }

    /// Clears the screen.
    pub async fn clear(&self) {
        self.drained().await;
        self.with(Console::clear);
    }

    async fn drained(&self) {
        loop {
            let known = self.moved.count();
            if self.out.borrow().len() <= HIGH_WATER {
                return;
            }
            self.moved.after(known).await;
        }
    }

    /// Waits until that does not hold of the console any more.
    async fn settled(&self, waits: impl Fn(&Console) -> bool) {
        loop {
            let known = self.settled.count();
            if !waits(&self.console.borrow()) {
                return;
            }
            self.settled.after(known).await;
        }
    }

    /// Waits until the terminal has told its size, where it does that. It is asked when all that was shown is out: it answers
    /// in its turn.
    async fn measured(&self) {
        loop {
            let known = self.moved.count();
            if self.out.borrow().is_empty() && !self.console.borrow().has_output() {
                break;
            }
            self.moved.after(known).await;
        }
        self.with(Console::check_size);
        self.settled(Console::is_held).await;
    }

    /// Shows the prompt of a read. Does not end.
    async fn prompt(&self, read: Read) {
        // After a restart input does not count at once.
        self.settled(Console::is_unsettled).await;
        if read.laid_out.is_some() {
            self.measured().await;
        }
        self.drained().await;
        let question = self.with(|console| console.read(read));
        self.question.set(question.map(|question| (question, self.queued.get().wrapping_sub(STYLE_END))));
        core::future::pending().await
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
        capos_rt::select(self.answered.after(known), self.prompt(read)).await;
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

    /// Milliseconds since anything was typed, or since the terminal was started.
    pub fn idle(&self) -> u64 {
        self.clock.now().saturating_sub(self.typed_at.get()) / 1_000_000
    }

    /// Waits for the next Ctrl-C that no read takes; how many there have been.
    pub async fn interrupt(&self) -> u64 {
        self.interrupts.after(self.interrupts.count()).await;
        self.interrupts.count()
    }

    /// Waits until no other caller moves bytes from the port to the console. Until the guard is dropped none does.
    pub async fn port(&self) -> Receiving<'_> {
        loop {
            let known = self.received.count();
            if !self.receiving.replace(true) {
                return Receiving { screen: self };
            }
            self.received.after(known).await;
        }
    }

    /// Moves bytes from the keyboard, for ever.
    ///
    /// # Errors
    /// The port is gone.
    pub async fn listen(&self) -> Result<(), Error> {
        loop {
            // What comes meanwhile raises no interrupt while the line is up, so the port is served until it is down.
            loop {
                if self.port().await.receive().await? {
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
            let piece: Vec<u8> = {
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
            let sent = self.sent.get().wrapping_add(piece.len() as u64);
            let shown = self.question.get().filter(|(_, end)| *end <= sent);
            if let Some((question, _)) = shown {
                self.show_last(question, &piece).await?;
                // It may have ended meanwhile, and another be read.
                if self.question.get() == shown {
                    self.question.set(None);
                }
            } else {
                self.uart.send(&piece).await?;
            }
            self.sent.set(sent);
            if self.console.borrow().has_output() {
                self.with(|_| ());
            }
            self.moved.happen();
        }
    }

    /// Sends the last bytes of a question. Keys that come before those bytes are sent were typed without sight of the question,
    /// and are dropped. Keys that come later count, however soon. Keys between the last look at the port that finds bytes and
    /// the first that finds none may be either, so they count. There are few, since all earlier bytes are sent first.
    async fn show_last(&self, question: Question, piece: &[u8]) -> Result<(), Error> {
        let port = self.port().await;
        loop {
            port.receive().await?;
            if self.uart.is_idle().await? {
                break;
            }
            self.clock.sleep(BYTE).await;
        }
        port.receive().await?;
        self.uart.send(piece).await?;
        loop {
            let typed = self.uart.receive().await?;
            let is_out = self.uart.is_idle().await?;
            if is_out {
                self.with(|console| console.hear(question));
            }
            port.type_in(&typed);
            if is_out || !self.console.borrow().is_asking(question) {
                return Ok(());
            }
            self.clock.sleep(BYTE).await;
        }
    }

    /// Tells the console when the person pauses, for ever.
    pub async fn notice_pauses(&self) {
        loop {
            let known = self.typed.count();
            self.clock.sleep(PAUSE).await;
            if self.typed.count() == known {
                self.with(Console::pause);
                self.typed.after(known).await;
            }
        }
    }

    /// Tells the console when the terminal does not tell its size in time, for ever.
    pub async fn notice_silence(&self) {
        loop {
            let known = self.held.count();
            self.clock.sleep(ANSWER).await;
            if self.held.count() == known {
                if self.console.borrow().is_held() {
                    self.with(Console::late);
                }
                self.held.after(known).await;
            }
        }
    }
}

/// The right to move bytes from the port to the console.
pub struct Receiving<'a> {
    screen: &'a Screen,
}

impl Receiving<'_> {
    /// Moves the bytes that have come from the keyboard; says whether there were any.
    ///
    /// # Errors
    /// The port is gone.
    pub async fn receive(&self) -> Result<bool, Error> {
        let bytes = self.screen.uart.receive().await?;
        self.type_in(&bytes);
        Ok(!bytes.is_empty())
    }

    /// Gives the console what has come.
    fn type_in(&self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.screen.with(|console| console.input(bytes));
            self.screen.typed.happen();
            self.screen.typed_at.set(self.screen.clock.now());
        }
    }
}

impl Drop for Receiving<'_> {
    fn drop(&mut self) {
        self.screen.receiving.set(false);
        self.screen.received.happen();
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
