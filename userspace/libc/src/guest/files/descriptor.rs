//! File descriptors, and the bytes that go through them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{c_int, c_ulong, c_void};

use spin::Once;

use crate::descriptor_table::{DescriptorTable, MAX_DESCRIPTORS};
use crate::guest::entropy;
use crate::guest::errno::{Errno, Result, answer, answer_size};
use crate::guest::files::description::{Description, Object};
use crate::guest::files::stream::{Input, Size};
use crate::guest::output::{Stream, Writer};
use crate::guest::threads::lock::Mutex;

type Table = DescriptorTable<Arc<Description>>;

/// Most pieces of one vectored call.
const MAX_PIECES: usize = 1024;

/// The process's descriptors. Held for lookups only: operations on a file, closing included, happen outside.
fn table() -> &'static Mutex<Table> {
    static TABLE: Once<Mutex<Table>> = Once::new();
    TABLE.call_once(|| {
        let mut table = Table::new();
        for (object, flags) in [
            (Object::Input(Input::granted()), libc::O_RDONLY),
            (Object::Output(Writer(Stream::Output)), libc::O_WRONLY),
            (Object::Output(Writer(Stream::Error)), libc::O_WRONLY),
        ] {
            table.add(Description::new(object, flags), 0, false);
        }
        Mutex::new(table)
    })
}

/// The object of a descriptor.
pub fn get(number: c_int) -> Result<Arc<Description>> {
    table().lock().get(number).ok_or(Errno(libc::EBADF))
}

/// A new descriptor.
pub fn add(open: Arc<Description>, close_on_exec: bool) -> Result<c_int> {
    add_from(open, 0, close_on_exec)
}

fn add_from(open: Arc<Description>, from: c_int, close_on_exec: bool) -> Result<c_int> {
    let from = usize::try_from(from).ok().filter(|from| *from < MAX_DESCRIPTORS).ok_or(Errno(libc::EINVAL))?;
    // An object without a free number is closed after the table was released.
    let kept = open.clone();
    let added = table().lock().add(open, from, close_on_exec);
    drop(kept);
    added.ok_or(Errno(libc::EMFILE))
}

/// Takes a descriptor out of use.
pub fn remove(number: c_int) -> Result<Arc<Description>> {
    table().lock().remove(number).ok_or(Errno(libc::EBADF))
}

#[unsafe(no_mangle)]
pub extern "C" fn close(number: c_int) -> c_int {
    answer(remove(number).map(|_| 0))
}

#[unsafe(no_mangle)]
extern "C" fn dup(number: c_int) -> c_int {
    answer(get(number).and_then(|open| add(open, false)))
}

#[unsafe(no_mangle)]
extern "C" fn dup2(number: c_int, to: c_int) -> c_int {
    answer(duplicate_to(number, to, false))
}

#[unsafe(no_mangle)]
extern "C" fn dup3(number: c_int, to: c_int, flags: c_int) -> c_int {
    if number == to || flags & !libc::O_CLOEXEC != 0 {
        return answer(Err(Errno(libc::EINVAL)));
    }
    answer(duplicate_to(number, to, flags & libc::O_CLOEXEC != 0))
}

fn duplicate_to(number: c_int, to: c_int, close_on_exec: bool) -> Result<c_int> {
    let open = get(number)?;
    if number != to {
        let before = table().lock().set(to, open, close_on_exec);
        // Closed here, after the table was released.
        drop(before.map_err(|_| Errno(libc::EBADF))?);
    }
    Ok(to)
}

/// C declares the last argument by the needs of the command: of the commands here, a number.
#[unsafe(no_mangle)]
extern "C" fn fcntl(number: c_int, command: c_int, value: c_int) -> c_int {
    answer(get(number).and_then(|open| control(number, &open, command, value)))
}

fn control(number: c_int, open: &Arc<Description>, command: c_int, value: c_int) -> Result<c_int> {
    match command {
        libc::F_DUPFD => add_from(open.clone(), value, false),
        libc::F_DUPFD_CLOEXEC => add_from(open.clone(), value, true),
        libc::F_GETFD => {
            let close = table().lock().close_on_exec(number).ok_or(Errno(libc::EBADF))?;
            Ok(if close { libc::FD_CLOEXEC } else { 0 })
        }
        libc::F_SETFD => {
            let close = value & libc::FD_CLOEXEC != 0;
            table().lock().set_close_on_exec(number, close).map(|()| 0).ok_or(Errno(libc::EBADF))
        }
        libc::F_GETFL => Ok(open.flags()),
        libc::F_SETFL => {
            open.set_flags(value);
            Ok(0)
        }
        // Locks of parts of files.
        libc::F_SETLK | libc::F_SETLKW | libc::F_GETLK => Err(Errno(libc::ENOLCK)),
        _ => Err(Errno(libc::EINVAL)),
    }
}

#[unsafe(no_mangle)]
extern "C" fn isatty(number: c_int) -> c_int {
    match get(number).and_then(|open| terminal(&open)) {
        Ok(_) => 1,
        Err(error) => {
            crate::guest::errno::set(error);
            0
        }
    }
}

/// The size of the terminal that a descriptor stands for.
fn terminal(open: &Description) -> Result<Size> {
    let size = match &open.object {
        Object::Input(input) => input.terminal(),
        Object::Output(writer) => writer.terminal(),
        _ => None,
    };
    size.ok_or(Errno(libc::ENOTTY))
}

/// # Safety
/// `argument` is what the request needs.
#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(number: c_int, request: c_ulong, argument: *mut c_int) -> c_int {
    let result = get(number).and_then(|open| match request {
        libc::FIONREAD if argument.is_null() => Err(Errno(libc::EFAULT)),
        libc::FIONREAD => {
            let count = available(&open)?;
            // SAFETY: the caller's place for the answer.
            unsafe { argument.write(c_int::try_from(count).unwrap_or(c_int::MAX)) };
            Ok(0)
        }
        libc::FIONBIO if argument.is_null() => Err(Errno(libc::EFAULT)),
        libc::FIONBIO => {
            // SAFETY: the caller's number.
            let block = unsafe { argument.read() } == 0;
            let flags = open.flags() & !libc::O_NONBLOCK;
            open.set_flags(if block { flags } else { flags | libc::O_NONBLOCK });
            Ok(0)
        }
        libc::TIOCGWINSZ if argument.is_null() => Err(Errno(libc::EFAULT)),
        libc::TIOCGWINSZ => {
            let (columns, rows) = terminal(&open)?;
            let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
            // SAFETY: the caller's place for the answer.
            unsafe { argument.cast::<libc::winsize>().write(size) };
            Ok(0)
        }
        libc::FIOCLEX | libc::FIONCLEX => {
            let close = table().lock().set_close_on_exec(number, request == libc::FIOCLEX);
            close.map(|()| 0).ok_or(Errno(libc::EBADF))
        }
        _ => Err(Errno(libc::ENOTTY)),
    });
    answer(result)
}

/// Bytes that can be read at once.
fn available(open: &Description) -> Result<u64> {
    match &open.object {
        Object::Null => Ok(0),
        Object::Input(input) => Ok(u64::try_from(input.available()).unwrap_or(u64::MAX)),
        Object::PipeReader(pipe) => Ok(u64::try_from(pipe.available()).unwrap_or(u64::MAX)),
        Object::File(file) => {
            let position = *open.position.lock();
            Ok(file.status()?.bytes.saturating_sub(position))
        }
        _ => Err(Errno(libc::ENOTTY)),
    }
}

fn count(done: usize) -> Result<isize> {
    isize::try_from(done).map_err(|_| Errno(libc::EINVAL))
}

fn offset(offset: i64) -> Result<u64> {
    u64::try_from(offset).map_err(|_| Errno(libc::EINVAL))
}

/// Reads from a descriptor: at its position, which moves on, or at an offset.
fn read_at(open: &Description, buffer: &mut [u8], at: Option<u64>) -> Result<usize> {
    open.may_read()?;
    match (&open.object, at) {
        (Object::File(file), Some(at)) => file.read(at, buffer),
        (Object::File(file), None) => {
            let mut position = open.position.lock();
            let done = file.read(*position, buffer)?;
            *position = position.saturating_add(u64::try_from(done).unwrap_or(0));
            Ok(done)
        }
        (Object::Null, _) => Ok(0),
        (Object::Random, _) => entropy::fill(buffer).map(|()| buffer.len()),
        (Object::Directory(_), _) => Err(Errno(libc::EISDIR)),
        (_, Some(_)) => Err(Errno(libc::ESPIPE)),
        (Object::Input(input), None) => input.read(buffer, open.blocks()),
        (Object::PipeReader(pipe), None) => pipe.read(buffer, open.blocks()),
        (Object::Counter(counter), None) => counter.read(buffer, open.blocks()),
        (Object::Output(_) | Object::PipeWriter(_), None) => Err(Errno(libc::EBADF)),
    }
}

/// Writes to a descriptor: at its position, which moves on, or at an offset.
fn write_at(open: &Description, bytes: &[u8], at: Option<u64>) -> Result<usize> {
    open.may_write()?;
    match (&open.object, at) {
        (Object::File(file), None) if open.flags() & libc::O_APPEND != 0 => {
            let mut position = open.position.lock();
            let (done, end) = file.append(bytes)?;
            *position = end;
            Ok(done)
        }
        (Object::File(file), Some(at)) => file.write(at, bytes),
        (Object::File(file), None) => {
            let mut position = open.position.lock();
            let done = file.write(*position, bytes)?;
            *position = position.saturating_add(u64::try_from(done).unwrap_or(0));
            Ok(done)
        }
        (Object::Null, _) => Ok(bytes.len()),
        (_, Some(_)) => Err(Errno(libc::ESPIPE)),
        (Object::Output(writer), None) => writer.write(bytes, open.blocks()),
        (Object::PipeWriter(pipe), None) => pipe.write(bytes, open.blocks()),
        (Object::Counter(counter), None) => counter.write(bytes, open.blocks()),
        (Object::Random, _) => Err(Errno(libc::EPERM)),
        (Object::Input(_) | Object::Directory(_) | Object::PipeReader(_), None) => Err(Errno(libc::EBADF)),
    }
}

/// The caller's buffer.
///
/// # Safety
/// `data` is null or `length` readable bytes.
unsafe fn bytes<'a>(data: *const c_void, length: usize) -> Result<&'a [u8]> {
    match length {
        0 => Ok(&[]),
        _ if data.is_null() => Err(Errno(libc::EFAULT)),
        _ if isize::try_from(length).is_err() => Err(Errno(libc::EINVAL)),
        // SAFETY: the caller's.
        _ => Ok(unsafe { core::slice::from_raw_parts(data.cast(), length) }),
    }
}

/// The same to write into.
///
/// # Safety
/// `data` is null or `length` writable bytes.
pub unsafe fn bytes_mut<'a>(data: *mut c_void, length: usize) -> Result<&'a mut [u8]> {
    match length {
        0 => Ok(&mut []),
        _ if data.is_null() => Err(Errno(libc::EFAULT)),
        _ if isize::try_from(length).is_err() => Err(Errno(libc::EINVAL)),
        // SAFETY: the caller's.
        _ => Ok(unsafe { core::slice::from_raw_parts_mut(data.cast(), length) }),
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn read(number: c_int, data: *mut c_void, length: usize) -> isize {
    answer_size(get(number).and_then(|open| {
        // SAFETY: the caller's buffer.
        count(read_at(&open, unsafe { bytes_mut(data, length) }?, None)?)
    }))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pread64(number: c_int, data: *mut c_void, length: usize, at: i64) -> isize {
    answer_size(get(number).and_then(|open| {
        // SAFETY: the caller's buffer.
        count(read_at(&open, unsafe { bytes_mut(data, length) }?, Some(offset(at)?))?)
    }))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn write(number: c_int, data: *const c_void, length: usize) -> isize {
    answer_size(get(number).and_then(|open| {
        // SAFETY: the caller's buffer.
        count(write_at(&open, unsafe { bytes(data, length) }?, None)?)
    }))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(number: c_int, data: *const c_void, length: usize, at: i64) -> isize {
    answer_size(get(number).and_then(|open| {
        // SAFETY: the caller's buffer.
        count(write_at(&open, unsafe { bytes(data, length) }?, Some(offset(at)?))?)
    }))
}

/// The caller's array of buffers.
///
/// # Safety
/// `pieces` is null or `number` of them.
unsafe fn pieces<'a>(pieces: *const libc::iovec, number: c_int) -> Result<&'a [libc::iovec]> {
    let number = usize::try_from(number).ok().filter(|number| *number <= MAX_PIECES).ok_or(Errno(libc::EINVAL))?;
    match number {
        0 => Ok(&[]),
        _ if pieces.is_null() => Err(Errno(libc::EFAULT)),
        // SAFETY: the caller's.
        _ => Ok(unsafe { core::slice::from_raw_parts(pieces, number) }),
    }
}

/// Does something with one buffer after another, until one is not done whole.
fn each(
    pieces: &[libc::iovec],
    at: Option<u64>,
    mut one: impl FnMut(&libc::iovec, Option<u64>) -> Result<usize>,
) -> Result<isize> {
    let mut done = 0_usize;
    // An empty operation is still an operation: errors of the descriptor are reported.
    if pieces.iter().all(|piece| piece.iov_len == 0) {
        let none = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };
        return count(one(&none, at)?);
    }
    for piece in pieces.iter().filter(|piece| piece.iov_len > 0) {
        let at = at.map(|at| at.saturating_add(u64::try_from(done).unwrap_or(u64::MAX)));
        match one(piece, at) {
            Ok(count) => {
                done = done.saturating_add(count);
                if count < piece.iov_len {
                    break;
                }
            }
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    count(done)
}

/// # Safety
/// As `preadv`.
unsafe fn read_pieces(number: c_int, array: *const libc::iovec, length: c_int, at: Option<u64>) -> Result<isize> {
    let open = get(number)?;
    // SAFETY: the caller's array.
    let mut pieces = unsafe { pieces(array, length) }?;
    // A second buffer would wait for data that may never come, while there is something in the first.
    if !matches!(open.object, Object::File(_))
        && let Some(first) = pieces.iter().position(|piece| piece.iov_len > 0)
    {
        pieces = pieces.get(first..=first).unwrap_or_default();
    }
    each(pieces, at, |piece, at| {
        // SAFETY: the caller's buffers.
        read_at(&open, unsafe { bytes_mut(piece.iov_base, piece.iov_len) }?, at)
    })
}

/// # Safety
/// As `pwritev`.
unsafe fn write_pieces(number: c_int, array: *const libc::iovec, length: c_int, at: Option<u64>) -> Result<isize> {
    let open = get(number)?;
    // SAFETY: the caller's array.
    let pieces = unsafe { pieces(array, length) }?;
    let sum = pieces.iter().fold(0_usize, |sum, piece| sum.saturating_add(piece.iov_len));
    // Data that is short enough is written to a pipe in one piece, and is not mixed with the writes of others.
    if !matches!(open.object, Object::File(_)) && sum <= libc::PIPE_BUF {
        let mut whole = Vec::with_capacity(sum);
        for piece in pieces {
            // SAFETY: the caller's buffers.
            whole.extend_from_slice(unsafe { bytes(piece.iov_base, piece.iov_len) }?);
        }
        return count(write_at(&open, &whole, at)?);
    }
    each(pieces, at, |piece, at| {
        // SAFETY: the caller's buffers.
        write_at(&open, unsafe { bytes(piece.iov_base, piece.iov_len) }?, at)
    })
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn readv(number: c_int, array: *const libc::iovec, length: c_int) -> isize {
    // SAFETY: the caller's array.
    answer_size(unsafe { read_pieces(number, array, length, None) })
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn writev(number: c_int, array: *const libc::iovec, length: c_int) -> isize {
    // SAFETY: the caller's array.
    answer_size(unsafe { write_pieces(number, array, length, None) })
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn preadv64(number: c_int, array: *const libc::iovec, length: c_int, at: i64) -> isize {
    // SAFETY: the caller's array.
    answer_size(offset(at).and_then(|at| unsafe { read_pieces(number, array, length, Some(at)) }))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev64(number: c_int, array: *const libc::iovec, length: c_int, at: i64) -> isize {
    // SAFETY: the caller's array.
    answer_size(offset(at).and_then(|at| unsafe { write_pieces(number, array, length, Some(at)) }))
}

fn seek(open: &Description, distance: i64, from: c_int) -> Result<i64> {
    let file = match &open.object {
        Object::File(file) => Some(file),
        Object::Null | Object::Random | Object::Directory(_) => None,
        _ => return Err(Errno(libc::ESPIPE)),
    };
    let mut position = open.position.lock();
    let base = match from {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => *position,
        libc::SEEK_END => file.map_or(Ok(0), |file| file.status().map(|status| status.bytes))?,
        _ => return Err(Errno(libc::EINVAL)),
    };
    let to = base.checked_add_signed(distance).ok_or(Errno(libc::EINVAL))?;
    let answer = i64::try_from(to).map_err(|_| Errno(libc::EOVERFLOW))?;
    *position = to;
    Ok(answer)
}

#[unsafe(no_mangle)]
extern "C" fn lseek64(number: c_int, distance: i64, from: c_int) -> i64 {
    get(number).and_then(|open| seek(&open, distance, from)).unwrap_or_else(|error| {
        crate::guest::errno::set(error);
        -1
    })
}

#[unsafe(no_mangle)]
extern "C" fn ftruncate64(number: c_int, length: i64) -> c_int {
    answer(get(number).and_then(|open| {
        let length = offset(length)?;
        match &open.object {
            Object::File(file) if open.may_write().is_ok() => file.truncate(length).map(|()| 0),
            _ => Err(Errno(libc::EINVAL)),
        }
    }))
}

/// Locks a whole file against all other openers, in other processes too: its server keeps the lock.
#[unsafe(no_mangle)]
extern "C" fn flock(number: c_int, operation: c_int) -> c_int {
    answer(get(number).and_then(|open| {
        let Object::File(file) = &open.object else { return Err(Errno(libc::EINVAL)) };
        let wait = operation & libc::LOCK_NB == 0;
        match operation & !libc::LOCK_NB {
            libc::LOCK_EX => file.lock(true, wait)?,
            libc::LOCK_SH => file.lock(false, wait)?,
            libc::LOCK_UN => file.unlock()?,
            _ => return Err(Errno(libc::EINVAL)),
        }
        Ok(0)
    }))
}

/// Waits until the server has every change on its medium.
#[unsafe(no_mangle)]
extern "C" fn fsync(number: c_int) -> c_int {
    answer(get(number).and_then(|open| match &open.object {
        Object::File(file) => file.sync().map(|()| 0),
        Object::Directory(directory) => directory.sync().map(|()| 0),
        _ => Err(Errno(libc::EINVAL)),
    }))
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(number: c_int) -> c_int {
    fsync(number)
}

macro_rules! unsupported {
    ($($name:ident: $type:ty),* $(,)?) => {
        $(
            /// Fails with `ENOSYS`: callers copy by reading and writing.
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> $type {
                crate::guest::errno::unsupported().into()
            }
        )*
    };
}

unsupported!(copy_file_range: i64, sendfile64: i64, splice: i64);
