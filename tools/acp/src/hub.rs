//! Bounded queues between the threads that read and write.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capos_client_protocol::{Line, Lines};

/// Lines that were read and not yet taken.
const READ: usize = 16;
/// Bytes for one side that were not yet written, from which on nothing more is taken that could add to them.
pub const UNWRITTEN: usize = 4 << 20;

/// A side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The editor.
    Editor,
    /// The machine.
    Machine,
}

/// What happened.
pub enum Input {
    /// A side sent a line.
    Line(Side, Line),
    /// A side closed its end, or failed.
    End(Side),
    /// The time is over.
    Time,
}

#[derive(Default)]
struct Queues {
    read: VecDeque<Line>,
    is_read_out: bool,
    is_end_told: bool,
    write: VecDeque<String>,
    unwritten: usize,
    is_broken: bool,
    is_closed: bool,
}

#[derive(Default)]
struct State {
    editor: Queues,
    machine: Queues,
}

impl State {
    fn of(&mut self, side: Side) -> &mut Queues {
        match side {
            Side::Editor => &mut self.editor,
            Side::Machine => &mut self.machine,
        }
    }

    /// The next line of a side, or its end.
    fn next(&mut self, side: Side) -> Option<Input> {
        let queues = self.of(side);
        if let Some(line) = queues.read.pop_front() {
            return Some(Input::Line(side, line));
        }
        let is_end = (queues.is_read_out || queues.is_broken) && !queues.is_end_told;
        queues.is_end_told |= is_end;
        is_end.then_some(Input::End(side))
    }
}

/// Queues in both directions for both sides.
#[derive(Clone, Default)]
pub struct Hub(Arc<(Mutex<State>, Condvar)>);

impl Hub {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.0.1.notify_all();
    }

    /// Reads lines of a side until its end. Waits while those that were read are not taken.
    pub fn read(&self, side: Side, mut from: impl Read, most: usize) {
        let mut lines = Lines::of_at_most(most);
        let mut buffer = vec![0_u8; 64 << 10];
        loop {
            let count = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let mut rest = buffer.get(..count).unwrap_or_default();
            while !rest.is_empty() {
                let (taken, line) = lines.take(rest);
                rest = rest.get(taken..).unwrap_or_default();
                let Some(line) = line else { continue };
                let mut state = self.state();
                while state.of(side).read.len() >= READ {
                    state = self.wait(state);
                }
                state.of(side).read.push_back(line);
                self.changed();
            }
        }
        self.state().of(side).is_read_out = true;
        self.changed();
    }

    /// Writes what is for a side until it is closed.
    pub fn write(&self, side: Side, mut to: impl Write) {
        loop {
            let mut state = self.state();
            let line = loop {
                let queues = state.of(side);
                match queues.write.pop_front() {
                    Some(line) => break line,
                    None if queues.is_closed => return,
                    None => state = self.wait(state),
                }
            };
            drop(state);
            let written = to.write_all(line.as_bytes()).and_then(|()| to.flush());
            let mut state = self.state();
            let queues = state.of(side);
            queues.unwritten = queues.unwritten.saturating_sub(line.len());
            if written.is_err() {
                queues.is_broken = true;
                queues.write.clear();
                queues.unwritten = 0;
                self.changed();
                return;
            }
            self.changed();
        }
    }

    /// Puts lines into the queue for a side.
    pub fn send(&self, side: Side, lines: Vec<String>) {
        let mut state = self.state();
        let queues = state.of(side);
        if queues.is_broken {
            return;
        }
        for line in lines {
            queues.unwritten = queues.unwritten.saturating_add(line.len());
            queues.write.push_back(line);
        }
        self.changed();
    }

    /// The next thing that happened. What a side sends is not taken while the other has not read what it was sent before:
    /// a side that reads nothing takes no memory. The editor is heard longer than the machine, so that it can cancel.
    pub fn next(&self, mut limit: Option<Duration>) -> Input {
        let mut state = self.state();
        loop {
            let (editor, machine) = (state.editor.unwritten, state.machine.unwritten);
            if editor < UNWRITTEN.saturating_mul(2)
                && machine < UNWRITTEN
                && let Some(input) = state.next(Side::Editor)
            {
                self.changed();
                return input;
            }
            if editor < UNWRITTEN
                && machine < UNWRITTEN.saturating_mul(2)
                && let Some(input) = state.next(Side::Machine)
            {
                self.changed();
                return input;
            }
            match limit {
                None => state = self.wait(state),
                Some(Duration::ZERO) => return Input::Time,
                Some(time) => {
                    let began = std::time::Instant::now();
                    let waited = self.0.1.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner);
                    state = waited.0;
                    limit = Some(time.saturating_sub(began.elapsed()));
                }
            }
        }
    }

    /// Writes what is left for a side, for at most that long.
    pub fn close(&self, side: Side, limit: Duration) {
        let mut state = self.state();
        state.of(side).is_closed = true;
        self.changed();
        let is_left = |state: &mut State| state.of(side).unwritten > 0;
        drop(self.0.1.wait_timeout_while(state, limit, is_left));
    }

    /// Bytes that wait, in all queues.
    #[cfg(test)]
    fn held(&self) -> usize {
        let state = self.state();
        let read = |queues: &Queues| -> usize {
            let bytes = |line: &Line| if let Line::Whole(line) = line { line.len() } else { 0 };
            queues.read.iter().map(bytes).sum()
        };
        read(&state.editor) + read(&state.machine) + state.editor.unwritten + state.machine.unwritten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    /// A side that reads nothing holds the other back: what waits stays bounded, however much is sent.
    #[test]
    fn a_side_that_reads_nothing_takes_no_memory() {
        let hub = Hub::default();
        let (stalled, ours) = UnixStream::pair().unwrap();
        let (flood, theirs) = UnixStream::pair().unwrap();
        let hubs = [hub.clone(), hub.clone(), hub.clone()];
        let [writer, reader, flooder] = hubs;
        std::thread::spawn(move || writer.write(Side::Editor, ours));
        std::thread::spawn(move || reader.read(Side::Machine, theirs, 1 << 20));
        std::thread::spawn(move || {
            let line = format!("{}\n", "x".repeat(100_000));
            let mut flood = flood;
            while flood.write_all(line.as_bytes()).is_ok() {}
            drop(flooder);
        });
        let mut taken = 0_u32;
        while let Input::Line(_, Line::Whole(line)) = hub.next(Some(Duration::from_millis(500))) {
            taken += 1;
            hub.send(Side::Editor, vec![String::from_utf8(line).unwrap()]);
            assert!(hub.held() < 2 * UNWRITTEN + READ * 110_000, "{}", hub.held());
            assert!(taken < 1000, "the flood goes on");
        }
        assert!(taken > 20);
        drop(stalled);
    }

    #[test]
    fn an_end_comes_after_the_lines_and_once() {
        let hub = Hub::default();
        hub.read(Side::Editor, &b"a\nb"[..], 100);
        assert!(matches!(hub.next(None), Input::Line(Side::Editor, Line::Whole(line)) if line == b"a"));
        assert!(matches!(hub.next(None), Input::End(Side::Editor)));
        assert!(matches!(hub.next(Some(Duration::from_millis(1))), Input::Time));
    }
}
