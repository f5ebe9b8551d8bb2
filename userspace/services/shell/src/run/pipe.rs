//! Bytes from one program to another: a bounded buffer that makes the faster side wait.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_async_lock::Waiters;

/// Bytes that a pipe holds.
const CAPACITY: usize = 64 << 10;
/// Bytes that are written in one piece, never mixed with another writer's.
const WHOLE: usize = 4096;

/// A pipe.
#[derive(Debug)]
pub struct Pipe {
    bytes: RefCell<VecDeque<u8>>,
    reader: Cell<bool>,
    writer: Cell<bool>,
    changed: Waiters,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The bytes.
    pub data: Vec<u8>,
    /// Whether nothing more comes.
    pub end: bool,
}

impl Default for Pipe {
    fn default() -> Self {
        Self {
            bytes: RefCell::default(),
            reader: Cell::new(true),
            writer: Cell::new(true),
            changed: Waiters::default(),
        }
    }
}

impl Pipe {
    /// Takes up to `most` bytes of what is in the pipe; nothing at the end. `None` where that is not known yet.
    pub fn take(&self, most: usize) -> Option<Piece> {
        let mut bytes = self.bytes.borrow_mut();
        if bytes.is_empty() {
            return (!self.writer.get()).then_some(Piece { data: Vec::new(), end: true });
        }
        let count = bytes.len().min(most);
        let data = bytes.drain(..count).collect();
        let end = bytes.is_empty() && !self.writer.get();
        drop(bytes);
        self.changed.wake();
        Some(Piece { data, end })
    }

    /// The same, when there is something or this is the end.
    pub async fn read(&self, most: usize) -> Piece {
        self.changed.until(|| self.take(most)).await
    }

    /// Puts in what there is room for; what is to be one piece, whole or not at all. How many bytes: 0 where it has to
    /// wait, `None` if no reader is left.
    pub fn put(&self, data: &[u8], whole: bool) -> Option<usize> {
        if !self.reader.get() {
            return None;
        }
        let mut bytes = self.bytes.borrow_mut();
        let room = CAPACITY.saturating_sub(bytes.len());
        if whole && room < data.len() {
            return Some(0);
        }
        let piece = data.get(..room).unwrap_or(data);
        bytes.extend(piece);
        drop(bytes);
        if !piece.is_empty() {
            self.changed.wake();
        }
        Some(piece.len())
    }

    /// Puts in all of it, or without `wait` what there is room for: how many bytes, and whether somebody still reads.
    pub async fn write(&self, data: &[u8], wait: bool) -> (usize, bool) {
        let whole = data.len() <= WHOLE;
        let mut done = 0_usize;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            let put = if wait {
                self.changed.until(|| self.put(rest, whole).map_or(Some(None), |n| (n > 0).then_some(Some(n)))).await
            } else {
                self.put(rest, whole)
            };
            match put {
                None => return (done, false),
                Some(0) => break,
                Some(count) => done = done.saturating_add(count),
            }
        }
        (done, self.reader.get())
    }

    /// Puts in bytes however many there are.
    pub fn push(&self, data: &[u8]) {
        self.bytes.borrow_mut().extend(data);
        self.changed.wake();
    }

    /// Bytes that can be read at once.
    pub fn len(&self) -> usize {
        self.bytes.borrow().len()
    }

    /// Whether nothing more is ever read.
    pub fn is_at_end(&self) -> bool {
        self.len() == 0 && !self.writer.get()
    }

    /// Whether a read would not have to wait. With `wait`, when that is so.
    pub async fn readable(&self, wait: bool) -> bool {
        let ready = || self.len() > 0 || !self.writer.get();
        if wait {
            self.changed.until(|| ready().then_some(())).await;
        }
        ready()
    }

    /// Whether a write would not have to wait, and whether somebody still reads. With `wait`, when one of them changes.
    pub async fn writable(&self, wait: bool) -> (bool, bool) {
        let ready = || !self.reader.get() || CAPACITY.saturating_sub(self.len()) >= WHOLE;
        if wait {
            self.changed.until(|| ready().then_some(())).await;
        }
        (ready(), self.reader.get())
    }

    /// Nothing more is written.
    pub fn close_writer(&self) {
        self.writer.set(false);
        self.changed.wake();
    }

    /// Nothing more is read.
    pub fn close_reader(&self) {
        self.reader.set(false);
        self.bytes.borrow_mut().clear();
        self.changed.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_schema::local::run;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let pipe = Pipe::default();
        assert_eq!(pipe.take(10), None);
        assert_eq!(run(pipe.write(b"one two", true)), Some((7, true)));
        assert_eq!(pipe.take(3), Some(Piece { data: b"one".to_vec(), end: false }));
        pipe.close_writer();
        assert_eq!(run(pipe.read(10)), Some(Piece { data: b" two".to_vec(), end: true }));
        assert_eq!(pipe.take(10), Some(Piece { data: Vec::new(), end: true }));
    }

    #[test]
    fn a_full_pipe_holds_up_its_writer() {
        let pipe = Pipe::default();
        let much = vec![7; CAPACITY + 1];
        assert_eq!(run(pipe.write(&much, false)), Some((CAPACITY, true)));
        assert_eq!(run(pipe.write(b"x", false)), Some((0, true)));
        assert_eq!(run(pipe.write(b"x", true)), None, "it waits");
        assert_eq!(run(pipe.writable(false)), Some((false, true)));
        assert_eq!(pipe.take(WHOLE - 1).map(|piece| piece.data.len()), Some(WHOLE - 1));
        // A short piece is written whole or not at all.
        assert_eq!(run(pipe.write(&much[..WHOLE], false)), Some((0, true)));
        assert_eq!(pipe.take(1).map(|piece| piece.data.len()), Some(1));
        assert_eq!(run(pipe.writable(true)), Some((true, true)));
        assert_eq!(run(pipe.write(&much[..WHOLE], false)), Some((WHOLE, true)));
    }

    #[test]
    fn a_reader_that_is_gone_is_told_of() {
        let pipe = Pipe::default();
        run(pipe.write(&vec![0; CAPACITY], true)).unwrap();
        pipe.close_reader();
        assert_eq!(run(pipe.write(b"x", true)), Some((0, false)));
        assert_eq!(run(pipe.writable(true)), Some((true, false)));
    }
}
