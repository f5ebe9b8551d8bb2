//! Pipes and counters inside the process.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::ffi::{c_int, c_uint};

use crate::guest::errno::{Errno, Result, answer};
use crate::guest::files::description::{Description, Object};
use crate::guest::files::descriptor;
use crate::guest::files::poll;
use crate::guest::threads::lock::Mutex;

/// Bytes that a pipe holds.
const CAPACITY: usize = 64 << 10;
/// Bytes that are written in one piece, never mixed with another writer's.
const WHOLE: usize = 4096;

#[derive(Debug)]
struct Pipe {
    bytes: VecDeque<u8>,
    reader: bool,
    writer: bool,
}

/// The end that is read.
#[derive(Debug)]
pub struct PipeReader(Arc<Mutex<Pipe>>);

/// The end that is written.
#[derive(Debug)]
pub struct PipeWriter(Arc<Mutex<Pipe>>);

fn ends() -> (PipeReader, PipeWriter) {
    let pipe = Arc::new(Mutex::new(Pipe { bytes: VecDeque::new(), reader: true, writer: true }));
    (PipeReader(pipe.clone()), PipeWriter(pipe))
}

/// Tries until it is done or, if it may not block, once.
fn until<T>(blocks: bool, mut attempt: impl FnMut() -> Option<Result<T>>) -> Result<T> {
    loop {
        let seen = poll::seen();
        if let Some(done) = attempt() {
            poll::changed();
            return done;
        }
        if !blocks {
            return Err(Errno(libc::EAGAIN));
        }
        poll::wait(seen, capos_abi::syscall::NO_DEADLINE);
    }
}

impl PipeReader {
    /// Reads the available bytes, at least one; nothing once the writers are gone.
    pub fn read(&self, buffer: &mut [u8], blocks: bool) -> Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        until(blocks, || {
            let mut pipe = self.0.lock();
            let count = buffer.len().min(pipe.bytes.len());
            for (to, from) in buffer.iter_mut().zip(pipe.bytes.drain(..count)) {
                *to = from;
            }
            (count > 0 || !pipe.writer).then_some(Ok(count))
        })
    }

    pub fn available(&self) -> usize {
        self.0.lock().bytes.len()
    }

    pub fn events(&self) -> i16 {
        let pipe = self.0.lock();
        let readable = if pipe.bytes.is_empty() { 0 } else { libc::POLLIN };
        readable | if pipe.writer { 0 } else { libc::POLLHUP }
    }
}

impl PipeWriter {
    /// Writes all, or as much as there is room for if it may not block. `EPIPE` once the readers are gone.
    pub fn write(&self, bytes: &[u8], blocks: bool) -> Result<usize> {
        let mut done = 0_usize;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let piece = until(blocks, || {
                let mut pipe = self.0.lock();
                if !pipe.reader {
                    return Some(Err(Errno(libc::EPIPE)));
                }
                let room = CAPACITY.saturating_sub(pipe.bytes.len());
                let needed = if bytes.len() <= WHOLE { rest.len() } else { 1 };
                if room < needed {
                    return None;
                }
                let piece = rest.get(..room).unwrap_or(rest);
                pipe.bytes.extend(piece);
                Some(Ok(piece.len()))
            });
            match piece {
                Ok(count) => done = done.saturating_add(count),
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    pub fn events(&self) -> i16 {
        let pipe = self.0.lock();
        if !pipe.reader {
            return libc::POLLERR | libc::POLLOUT;
        }
        if CAPACITY.saturating_sub(pipe.bytes.len()) >= WHOLE { libc::POLLOUT } else { 0 }
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        self.0.lock().reader = false;
        poll::changed();
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        self.0.lock().writer = false;
        poll::changed();
    }
}

/// # Safety
/// As in C: `out` has room for two descriptors.
#[unsafe(no_mangle)]
unsafe extern "C" fn pipe2(out: *mut c_int, flags: c_int) -> c_int {
    if out.is_null() {
        return answer(Err(Errno(libc::EFAULT)));
    }
    if flags & !(libc::O_CLOEXEC | libc::O_NONBLOCK) != 0 {
        return answer(Err(Errno(libc::EINVAL)));
    }
    let close = flags & libc::O_CLOEXEC != 0;
    let (reader, writer) = ends();
    let reader = Description::new(Object::PipeReader(reader), libc::O_RDONLY | flags & libc::O_NONBLOCK);
    let writer = Description::new(Object::PipeWriter(writer), libc::O_WRONLY | flags & libc::O_NONBLOCK);
    answer(descriptor::add(reader, close).and_then(|reader| {
        let writer = descriptor::add(writer, close).inspect_err(|_| {
            descriptor::close(reader);
        })?;
        // SAFETY: the caller's places for the answer.
        unsafe {
            out.write(reader);
            out.add(1).write(writer);
        }
        Ok(0)
    }))
}

/// # Safety
/// As in C: `out` has room for two descriptors.
#[unsafe(no_mangle)]
unsafe extern "C" fn pipe(out: *mut c_int) -> c_int {
    // SAFETY: the caller's.
    unsafe { pipe2(out, 0) }
}

/// A number that is added to and taken.
#[derive(Debug)]
pub struct Counter {
    value: Mutex<u64>,
    /// Gives one at a time.
    by_ones: bool,
}

impl Counter {
    pub fn read(&self, buffer: &mut [u8], blocks: bool) -> Result<usize> {
        let place = buffer.first_chunk_mut::<8>().ok_or(Errno(libc::EINVAL))?;
        let taken = until(blocks, || {
            let mut value = self.value.lock();
            let taken = if self.by_ones { (*value).min(1) } else { *value };
            *value = value.saturating_sub(taken);
            (taken > 0).then_some(Ok(taken))
        })?;
        *place = taken.to_ne_bytes();
        Ok(8)
    }

    pub fn write(&self, bytes: &[u8], blocks: bool) -> Result<usize> {
        let added = u64::from_ne_bytes(*bytes.first_chunk::<8>().ok_or(Errno(libc::EINVAL))?);
        if added == u64::MAX {
            return Err(Errno(libc::EINVAL));
        }
        until(blocks, || {
            let mut value = self.value.lock();
            // The largest number is never reached.
            *value = value.checked_add(added).filter(|sum| *sum < u64::MAX)?;
            Some(Ok(8))
        })
    }

    pub fn events(&self) -> i16 {
        let value = *self.value.lock();
        let readable = if value > 0 { libc::POLLIN } else { 0 };
        readable | if value < u64::MAX.saturating_sub(1) { libc::POLLOUT } else { 0 }
    }
}

#[unsafe(no_mangle)]
extern "C" fn eventfd(value: c_uint, flags: c_int) -> c_int {
    if flags & !(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK | libc::EFD_SEMAPHORE) != 0 {
        return answer(Err(Errno(libc::EINVAL)));
    }
    let counter = Counter { value: Mutex::new(value.into()), by_ones: flags & libc::EFD_SEMAPHORE != 0 };
    let open = Description::new(Object::Counter(counter), libc::O_RDWR | flags & libc::O_NONBLOCK);
    answer(descriptor::add(open, flags & libc::EFD_CLOEXEC != 0))
}
