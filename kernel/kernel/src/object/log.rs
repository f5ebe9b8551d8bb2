//! DebugLog: the kernel's log.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicUsize, Ordering};

use alloc::vec;
use capos_abi::Rights;
use capos_captable::{KeyedList, ListKey};
use capos_schema::kernel_capnp::debug_log as m;
use capos_schema::kernel_dispatch::DebugLogKernel;
use capos_schema::sync::{Completion, Exception};
use spin::Mutex;

use crate::cpu::kernel_lock::Exclusive;
use crate::cpu::log;
use crate::log;
use crate::object::Answer;
use crate::object::invocation::{self, Invocation};
use crate::object::operation::{Kind, OperationRef};

/// The most that one read gives, in bytes.
const MAX_READ: usize = 16 * 1024;
/// What results need beside the data, in bytes.
const OVERHEAD: usize = 64;

/// Who waits for the log to grow.
static READERS: Mutex<KeyedList<OperationRef>> = Mutex::new(KeyedList::new());
static READER_COUNT: AtomicUsize = AtomicUsize::new(0);

/// The log as processes see it.
pub struct DebugLog;

/// A line whose control characters, which could deceive a terminal, are escaped.
struct Visible<'a>(&'a str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if character.is_control() && character != '\t' {
                write!(f, "{}", character.escape_default())?;
            } else {
                f.write_char(character)?;
            }
        }
        Ok(())
    }
}

/// How many bytes a read gives that begins at a position.
fn room(position: u64, capacity: usize) -> usize {
    let there = usize::try_from(log::end().saturating_sub(position)).unwrap_or(MAX_READ);
    capacity.saturating_sub(OVERHEAD).min(MAX_READ).min(there)
}

/// Writes what is there. The caller has made sure of the memory for [`room`] bytes.
fn write_results(position: u64, room: usize, mut results: m::read_results::Builder<'_>) {
    let mut data = vec![0; room];
    let read = log::read_from(position, &mut data);
    results.set_data(data.get(..read.length).unwrap_or_default());
    results.set_next(read.start.saturating_add(read.length as u64));
    results.set_lost(read.start.saturating_sub(position));
}

/// Takes a reader out of the list.
pub fn forget_reader(key: ListKey) {
    let reader = {
        let mut readers = READERS.lock();
        let reader = readers.remove(key);
        READER_COUNT.store(readers.len(), Ordering::Relaxed);
        reader
    };
    drop(reader);
}

/// Whether somebody waits for lines, and there may be such.
#[inline(always)]
pub fn has_to_serve() -> bool {
    READER_COUNT.load(Ordering::Relaxed) != 0 && log::has_news()
}

/// Answers who waits, where the log has grown. Called on the way out of the kernel, since a line is
/// written while locks are held.
#[inline]
pub fn serve(lock: &mut Exclusive) {
    if has_to_serve() {
        serve_readers(lock);
    }
}

#[cold]
#[inline(never)]
fn serve_readers(lock: &mut Exclusive) {
    log::take_news();
    let end = log::end();
    loop {
        let reader = {
            let mut readers = READERS.lock();
            let grown = readers.front().is_some_and(|reader| !waits_at(reader, end));
            let reader = if grown { readers.pop() } else { None };
            READER_COUNT.store(readers.len(), Ordering::Relaxed);
            reader
        };
        let Some(reader) = reader else { return };
        let Some(Kind::Log { call, position, .. }) = reader.peek().map(|operation| operation.kind) else { continue };
        let room = room(position, call.results.length as usize);
        let _secured = match invocation::secure(room) {
            Ok(secured) => secured,
            Err(status) => {
                reader.complete(lock, status);
                continue;
            }
        };
        invocation::answer_later(lock, &reader, |mut results| {
            let results = results.reborrow().init_as::<m::read_results::Builder<'_>>();
            write_results(position, room, results);
            Ok(Completion::Done)
        });
    }
}

/// Whether a reader has read all there is.
fn waits_at(reader: &OperationRef, end: u64) -> bool {
    matches!(reader.peek().map(|operation| operation.kind), Some(Kind::Log { position, .. }) if position >= end)
}

impl DebugLogKernel<Invocation<'_>> for DebugLog {
    fn write(
        &self,
        cx: &mut Invocation<'_>,
        params: m::write_params::Reader<'_>,
        _results: m::write_results::Builder<'_>,
    ) -> Answer {
        let text = params.get_text()?.to_str().map_err(|_| Exception::invalid_argument("log lines are UTF-8"))?;
        for line in text.lines() {
            log!("{}: {}", cx.process().name, Visible(line));
        }
        Ok(Completion::Done)
    }

    fn read(
        &self,
        cx: &mut Invocation<'_>,
        params: m::read_params::Reader<'_>,
        results: m::read_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::RECEIVE)?;
        // Readers wait in the order of their positions: none may wait for what lies farther away than the
        // next line.
        let position = params.get_position().min(log::end());
        if position < log::end() {
            let room = room(position, cx.capacity());
            cx.expect(room)?;
            write_results(position, room, results);
            return Ok(Completion::Done);
        }
        let operation = cx.defer(|call| Kind::Delivered { call })?;
        let mut readers = READERS.lock();
        let Some(key) = readers.push(operation.clone()) else {
            return Err(Exception::overloaded("no memory to wait for the log"));
        };
        READER_COUNT.store(readers.len(), Ordering::Relaxed);
        operation.thread.update(operation.ticket, |kind| {
            if let Some(call) = kind.call() {
                *kind = Kind::Log { call, position, key };
            }
        });
        Ok(Completion::Pending)
    }
}
