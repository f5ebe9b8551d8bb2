//! What programs of a job read and write: the terminal, each other, and what is kept of a job in the background.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_rt::{CancelToken, TaskGroup};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::system::{
    StandardInputReadResults, StandardInputReadyResults, StandardInputScreenResults, StandardInputServer,
    StandardReadyResults, StandardScreenResults, StandardServer, StandardWriteBytesResults,
};
use capos_schema::terminal::{LineEnd, Style};

use super::pipe::{Piece, Pipe};
use crate::screen::Screen;

/// Bytes of one read.
const MOST_READ: usize = 32 << 10;
/// Bytes that are kept of what a job in the background writes: the newest.
const KEPT: usize = 16 << 10;

/// Where a job shows what it writes: on the screen, while it is in the foreground.
pub struct Output {
    screen: Rc<Screen>,
    foreground: Cell<bool>,
    kept: RefCell<VecDeque<u8>>,
    /// Bytes that were not kept.
    lost: Cell<u64>,
    /// While what was kept is shown before the rest: cancelled once that is done.
    showing: RefCell<Option<CancelToken>>,
}

impl Output {
    pub fn new(screen: Rc<Screen>, foreground: bool) -> Rc<Self> {
        Rc::new(Self {
            screen,
            foreground: Cell::new(foreground),
            kept: RefCell::default(),
            lost: Cell::new(0),
            showing: RefCell::default(),
        })
    }

    /// Shows what was kept, and from now on what comes. A writer waits meanwhile, so that all is shown in order.
    pub async fn to_foreground(&self) {
        let shown = CancelToken::new();
        *self.showing.borrow_mut() = Some(shown.clone());
        self.show_kept().await;
        self.foreground.set(true);
        *self.showing.borrow_mut() = None;
        shown.cancel();
    }

    /// Shows what was kept, once.
    pub async fn show_kept(&self) {
        let lost = self.lost.take();
        if lost > 0 {
            let text = alloc::format!("[the first {lost} bytes of its output were dropped]");
            self.screen.line(Style::Dim, &text).await;
        }
        let kept: Vec<u8> = self.kept.take().into();
        self.screen.write(Style::Plain, &String::from_utf8_lossy(&kept)).await;
    }

    async fn text(&self, text: &str) {
        let showing = self.showing.borrow().clone();
        if let Some(shown) = showing {
            shown.cancelled().await;
        }
        if self.foreground.get() {
            return self.screen.write(Style::Plain, text).await;
        }
        let mut kept = self.kept.borrow_mut();
        kept.extend(text.as_bytes());
        let more = kept.len().saturating_sub(KEPT);
        kept.drain(..more);
        self.lost.set(self.lost.get().saturating_add(more as u64));
    }
}

/// One program's way to its job's output.
pub struct Printer {
    output: Rc<Output>,
    /// The beginning of a letter that is not whole yet.
    beginning: RefCell<Vec<u8>>,
    open: Cell<bool>,
}

impl Printer {
    pub fn new(output: Rc<Output>) -> Rc<Self> {
        Rc::new(Self { output, beginning: RefCell::default(), open: Cell::new(true) })
    }

    /// The text that has become whole with these bytes.
    fn whole(&self, data: &[u8]) -> String {
        let mut bytes = self.beginning.take();
        bytes.extend_from_slice(data);
        let rest = match core::str::from_utf8(&bytes) {
            Err(error) if error.error_len().is_none() => bytes.split_off(error.valid_up_to()),
            // The end may be the beginning of a letter also where there are other bytes before that are no text.
            Err(_) => (1..=3)
                .filter_map(|count| bytes.len().checked_sub(count))
                .find(|at| {
                    let end = bytes.get(*at..).map(core::str::from_utf8);
                    matches!(end, Some(Err(error)) if error.valid_up_to() == 0 && error.error_len().is_none())
                })
                .map_or_else(Vec::new, |at| bytes.split_off(at)),
            Ok(_) => Vec::new(),
        };
        *self.beginning.borrow_mut() = rest;
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Shows what is left: nothing makes it whole any more.
    pub async fn finish(&self) {
        let rest = self.beginning.take();
        if !rest.is_empty() {
            self.output.text(&String::from_utf8_lossy(&rest)).await;
        }
    }
}

impl StandardServer for Printer {
    async fn write(&self, _cx: &CallContext, text: String) -> Result<(), CallError> {
        let text = self.whole(text.as_bytes());
        self.output.text(&text).await;
        Ok(())
    }

    async fn write_bytes(
        &self,
        _cx: &CallContext,
        data: Vec<u8>,
        _wait: bool,
    ) -> Result<StandardWriteBytesResults, CallError> {
        if !self.open.get() {
            return Ok(StandardWriteBytesResults { written: 0, open: false });
        }
        let text = self.whole(&data);
        self.output.text(&text).await;
        Ok(StandardWriteBytesResults { written: u32::try_from(data.len()).unwrap_or(u32::MAX), open: true })
    }

    async fn ready(&self, _cx: &CallContext, _wait: bool) -> Result<StandardReadyResults, CallError> {
        Ok(StandardReadyResults { ready: true, open: self.open.get() })
    }

    async fn screen(&self, _cx: &CallContext) -> Result<StandardScreenResults, CallError> {
        let (columns, rows) = size(&self.output.screen).await;
        Ok(StandardScreenResults { terminal: self.output.foreground.get(), columns, rows })
    }

    async fn close(&self, _cx: &CallContext) -> Result<(), CallError> {
        self.open.set(false);
        Ok(())
    }
}

async fn size(screen: &Screen) -> (u16, u16) {
    let (columns, rows) = screen.size().await;
    (u16::try_from(columns).unwrap_or(u16::MAX), u16::try_from(rows).unwrap_or(u16::MAX))
}

/// The end of a pipe that is written.
pub struct PipeWriter(pub Rc<Pipe>);

impl StandardServer for PipeWriter {
    async fn write(&self, _cx: &CallContext, text: String) -> Result<(), CallError> {
        match self.0.write(text.as_bytes(), true).await {
            (written, _) if written == text.len() => Ok(()),
            _ => Err(CallError::disconnected("the program that reads this has ended")),
        }
    }

    async fn write_bytes(
        &self,
        _cx: &CallContext,
        data: Vec<u8>,
        wait: bool,
    ) -> Result<StandardWriteBytesResults, CallError> {
        let (written, open) = self.0.write(&data, wait).await;
        Ok(StandardWriteBytesResults { written: u32::try_from(written).unwrap_or(u32::MAX), open })
    }

    async fn ready(&self, _cx: &CallContext, wait: bool) -> Result<StandardReadyResults, CallError> {
        let (ready, open) = self.0.writable(wait).await;
        Ok(StandardReadyResults { ready, open })
    }

    async fn screen(&self, _cx: &CallContext) -> Result<StandardScreenResults, CallError> {
        Ok(StandardScreenResults { terminal: false, columns: 0, rows: 0 })
    }

    async fn close(&self, _cx: &CallContext) -> Result<(), CallError> {
        self.0.close_writer();
        Ok(())
    }
}

/// Lines of the terminal, read when a program wants one.
pub struct Keyboard {
    screen: Rc<Screen>,
    /// Stands before each line, so that the person sees who reads it.
    prompt: String,
    reading: Cell<bool>,
    /// Ctrl-C was pressed in a line.
    interrupted: CancelToken,
    tasks: TaskGroup,
}

/// What a program reads.
pub struct Reader {
    pipe: Rc<Pipe>,
    keyboard: Option<Rc<Keyboard>>,
}

impl Reader {
    /// The end of a pipe.
    pub fn pipe(pipe: Rc<Pipe>) -> Rc<Self> {
        Rc::new(Self { pipe, keyboard: None })
    }

    /// The terminal, for a program of this name.
    pub fn keyboard(screen: Rc<Screen>, program: &str, interrupted: CancelToken) -> Rc<Self> {
        let keyboard = Keyboard {
            screen,
            prompt: alloc::format!("{program}< "),
            reading: Cell::new(false),
            interrupted,
            tasks: TaskGroup::new(),
        };
        Rc::new(Self { pipe: Rc::default(), keyboard: Some(Rc::new(keyboard)) })
    }

    /// Nothing more is read, by whomever.
    pub fn close_now(&self) {
        self.pipe.close_reader();
        if let Some(keyboard) = &self.keyboard {
            keyboard.tasks.cancel();
        }
    }

    /// Has a line read, unless there is one or it is under way.
    fn want(&self) {
        let Some(keyboard) = &self.keyboard else { return };
        if self.pipe.len() > 0 || self.pipe.is_at_end() || keyboard.reading.replace(true) {
            return;
        }
        let (pipe, within) = (self.pipe.clone(), Rc::downgrade(keyboard));
        let (screen, prompt) = (keyboard.screen.clone(), keyboard.prompt.clone());
        keyboard.tasks.spawn(async move {
            // A question takes the place of the line, and the line is asked for again behind it.
            let answer = loop {
                match screen.input(&prompt).await {
                    Ok((_, LineEnd::Cancelled)) => {}
                    answer => break answer,
                }
            };
            let Some(keyboard) = within.upgrade() else { return };
            keyboard.reading.set(false);
            match answer {
                Ok((line, LineEnd::Entered)) => pipe.push(alloc::format!("{line}\n").as_bytes()),
                Ok((_, LineEnd::Interrupted)) => keyboard.interrupted.cancel(),
                // The end, or a terminal that is gone.
                _ => pipe.close_writer(),
            }
        });
    }
}

impl StandardInputServer for Reader {
    async fn read(&self, _cx: &CallContext, most: u32, wait: bool) -> Result<StandardInputReadResults, CallError> {
        let most = usize::try_from(most).unwrap_or(MOST_READ).min(MOST_READ);
        if most == 0 {
            return Ok(StandardInputReadResults { data: Vec::new(), end: self.pipe.is_at_end() });
        }
        self.want();
        let nothing = Piece { data: Vec::new(), end: false };
        let piece = if wait { self.pipe.read(most).await } else { self.pipe.take(most).unwrap_or(nothing) };
        Ok(StandardInputReadResults { data: piece.data, end: piece.end })
    }

    async fn ready(&self, _cx: &CallContext, wait: bool) -> Result<StandardInputReadyResults, CallError> {
        // A program that only looks, as each one on `std` does when it starts, does not want a line.
        if wait {
            self.want();
        }
        let ready = self.pipe.readable(wait).await;
        let bytes = u32::try_from(self.pipe.len()).unwrap_or(u32::MAX);
        Ok(StandardInputReadyResults { ready, end: self.pipe.is_at_end(), bytes })
    }

    async fn screen(&self, _cx: &CallContext) -> Result<StandardInputScreenResults, CallError> {
        let Some(keyboard) = &self.keyboard else {
            return Ok(StandardInputScreenResults { terminal: false, columns: 0, rows: 0 });
        };
        let (columns, rows) = size(&keyboard.screen).await;
        Ok(StandardInputScreenResults { terminal: true, columns, rows })
    }

    async fn close(&self, _cx: &CallContext) -> Result<(), CallError> {
        self.close_now();
        Ok(())
    }
}
