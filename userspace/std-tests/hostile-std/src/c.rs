//! C's functions with any arguments, and their results.

use std::ffi::{CStr, CString, c_int, c_long, c_void};
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

/// A function's result, or the error that it left.
fn answer(answered: impl Into<i64>) -> io::Result<i64> {
    let answered = answered.into();
    if answered == -1 { Err(io::Error::last_os_error()) } else { Ok(answered) }
}

fn pointer<T>(pointer: *mut T) -> io::Result<i64> {
    if pointer.is_null() { Err(io::Error::last_os_error()) } else { Ok(0) }
}

fn text(path: &str) -> CString {
    CString::new(path.replace('\0', "")).unwrap_or_default()
}

/// A call with a buffer of 512 bytes.
fn with_buffer(call: impl FnOnce(*mut c_void) -> i64) -> io::Result<i64> {
    let mut buffer = [0_u64; 64];
    answer(call(buffer.as_mut_ptr().cast()))
}

/// Defines functions that need nothing but the arguments that are written here: numbers, whose meaning is C's.
macro_rules! plain {
    ($($(#[$about:meta])* $name:ident($($arg:ident: $type:ty),*) = $call:expr;)*) => {
        $(
            $(#[$about])*
            pub fn $name($($arg: $type),*) -> io::Result<i64> {
                // SAFETY: the function is given numbers, or pointers to whole values that live until it has answered.
                answer(unsafe { $call })
            }
        )*
    };
}

plain! {
    close(number: c_int) = libc::close(number);
    dup(number: c_int) = libc::dup(number);
    dup2(number: c_int, to: c_int) = libc::dup2(number, to);
    dup3(number: c_int, to: c_int) = libc::dup3(number, to, libc::O_CLOEXEC);
    duplicate_from(number: c_int, from: c_int) = libc::fcntl(number, libc::F_DUPFD, from);
    flags(number: c_int) = libc::fcntl(number, libc::F_GETFL, 0);
    close_on_exec(number: c_int) = libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC);
    seek(number: c_int, distance: i64, from: c_int) = libc::lseek(number, distance, from);
    truncate(number: c_int, length: i64) = libc::ftruncate(number, length);
    sync(number: c_int) = libc::fsync(number);
    sync_data(number: c_int) = libc::fdatasync(number);
    lock(number: c_int) = libc::flock(number, libc::LOCK_EX | libc::LOCK_NB);
    change_directory(number: c_int) = libc::fchdir(number);
    change_mode(number: c_int) = libc::fchmod(number, 0o777);
    touch(number: c_int) = libc::futimens(number, std::ptr::null());
    open_at(directory: c_int, path: &str, flags: c_int) = libc::openat(directory, text(path).as_ptr(), flags, 0o666);
    make_directory_at(directory: c_int, path: &str) = libc::mkdirat(directory, text(path).as_ptr(), 0o777);
    remove_at(directory: c_int, path: &str, flags: c_int) = libc::unlinkat(directory, text(path).as_ptr(), flags);
    rename_at(from: (c_int, &str), to: (c_int, &str)) =
        libc::renameat(from.0, text(from.1).as_ptr(), to.0, text(to.1).as_ptr());
    link_at(from: (c_int, &str), to: (c_int, &str)) =
        libc::linkat(from.0, text(from.1).as_ptr(), to.0, text(to.1).as_ptr(), libc::AT_EMPTY_PATH);
    symlink_at(target: &str, directory: c_int, path: &str) =
        libc::symlinkat(text(target).as_ptr(), directory, text(path).as_ptr());
    truncate_path(path: &str, length: i64) = libc::truncate(text(path).as_ptr(), length);
    touch_path(path: &str) = libc::utimensat(libc::AT_FDCWD, text(path).as_ptr(), std::ptr::null(), 0);
    own(path: &str) = libc::chown(text(path).as_ptr(), 0, 0);
    make_pipe(path: &str) = libc::mkfifo(text(path).as_ptr(), 0o666);
    change_root(path: &str) = libc::chroot(text(path).as_ptr());
    kill(process: c_int, signal: c_int) = libc::kill(process, signal);
    raise(signal: c_int) = libc::raise(signal);
    fork() = libc::fork();
    wait_for(process: c_int) = libc::waitpid(process, std::ptr::null_mut(), 0);
    become_user(user: u32) = libc::setuid(user);
    become_group(group: u32) = libc::setgid(group);
    new_session() = libc::setsid();
    counter(value: u32) = libc::eventfd(value, libc::EFD_NONBLOCK);
    unmap(address: usize, length: usize) = libc::munmap(std::ptr::without_provenance_mut(address), length);
    protect(address: usize, length: usize, protection: c_int) =
        libc::mprotect(std::ptr::without_provenance_mut(address), length, protection);
    /// A system call by its number, with arguments that mean nothing.
    system_call(number: c_long) = libc::syscall(number, 1_usize, 2_usize, 3_usize, 4_usize, 5_usize, 6_usize);
    /// `futex` on a word at an address, which C does not touch itself.
    futex(address: usize, operation: c_int, value: u32) =
        libc::syscall(libc::SYS_futex, address, operation, value, 0_usize, 0_usize, 0_u32);
    set_variable(name: &str, value: &str) = libc::setenv(text(name).as_ptr(), text(value).as_ptr(), 1);
    /// Polls, without waiting, a number of descriptors; the array is absent.
    poll_none(count: u64) = libc::poll(std::ptr::null_mut(), count, 0);
}

/// `open` without a path.
pub fn open_nothing() -> io::Result<i64> {
    // SAFETY: a null pointer is not a string, and is rejected.
    answer(unsafe { libc::open(std::ptr::null(), libc::O_RDONLY) })
}

/// `read` of `length` bytes into a buffer of 512.
pub fn read(number: c_int, length: usize) -> io::Result<i64> {
    // SAFETY: the descriptors that it is called with have no more bytes than fit, or the length is refused.
    with_buffer(|buffer| unsafe { libc::read(number, buffer, length) as i64 })
}

/// `read` to nowhere.
pub fn read_to_nowhere(number: c_int, length: usize) -> io::Result<i64> {
    // SAFETY: a null pointer is not a buffer, and is rejected.
    answer(unsafe { libc::read(number, std::ptr::null_mut(), length) } as i64)
}

/// `pread` of 16 bytes.
pub fn read_at(number: c_int, at: i64) -> io::Result<i64> {
    // SAFETY: the buffer has more bytes.
    with_buffer(|buffer| unsafe { libc::pread(number, buffer, 16, at) as i64 })
}

/// `write` of some bytes.
pub fn write(number: c_int, bytes: &[u8]) -> io::Result<i64> {
    // SAFETY: the bytes live until it has answered.
    answer(unsafe { libc::write(number, bytes.as_ptr().cast(), bytes.len()) } as i64)
}

/// `pwrite` of 16 bytes.
pub fn write_at(number: c_int, at: i64) -> io::Result<i64> {
    // SAFETY: the buffer has more bytes.
    with_buffer(|buffer| unsafe { libc::pwrite(number, buffer, 16, at) as i64 })
}

/// `readv` and `writev` of `count` pieces, from an array of one.
pub fn read_pieces(number: c_int, count: c_int) -> io::Result<i64> {
    with_buffer(|buffer| {
        let piece = libc::iovec { iov_base: buffer, iov_len: 16 };
        // SAFETY: one piece of 16 bytes is there, and other counts are refused.
        unsafe { libc::readv(number, &raw const piece, count) as i64 }
    })
}

/// The same to write.
pub fn write_pieces(number: c_int, count: c_int) -> io::Result<i64> {
    with_buffer(|buffer| {
        let piece = libc::iovec { iov_base: buffer, iov_len: 16 };
        // SAFETY: as in `read_pieces`.
        unsafe { libc::writev(number, &raw const piece, count) as i64 }
    })
}

/// `fstat`.
pub fn status(number: c_int) -> io::Result<i64> {
    // SAFETY: the buffer has room for the answer.
    with_buffer(|buffer| unsafe { libc::fstat(number, buffer.cast()).into() })
}

/// `fstatat`.
pub fn status_at(directory: c_int, path: &str) -> io::Result<i64> {
    // SAFETY: the buffer has room for the answer.
    with_buffer(|buffer| unsafe { libc::fstatat(directory, text(path).as_ptr(), buffer.cast(), 0).into() })
}

/// `ioctl(FIONREAD)`.
pub fn available(number: c_int) -> io::Result<i64> {
    // SAFETY: the buffer has room for the answer.
    with_buffer(|buffer| unsafe { libc::ioctl(number, libc::FIONREAD, buffer).into() })
}

/// `isatty`, whose answer for "no" is 0.
pub fn is_terminal(number: c_int) -> io::Result<i64> {
    // SAFETY: a number.
    let answered = unsafe { libc::isatty(number) };
    if answered == 0 { Err(io::Error::last_os_error()) } else { Ok(answered.into()) }
}

/// `fdopendir`.
pub fn open_stream(number: c_int) -> io::Result<i64> {
    // SAFETY: a number. A stream that it gives is not used.
    pointer(unsafe { libc::fdopendir(number) })
}

/// Maps memory, of a descriptor or of nothing, at a place of the system's choice. Where it is.
pub fn map(length: usize, protection: c_int, flags: c_int, number: c_int, offset: i64) -> io::Result<usize> {
    // SAFETY: without a fixed address nothing that is mapped already is touched; with one it is refused.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, number, offset) };
    if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(start.expose_provenance()) }
}

/// `poll` without time: its result for one descriptor.
pub fn poll(number: c_int) -> io::Result<i16> {
    let mut watched = libc::pollfd { fd: number, events: libc::POLLIN | libc::POLLOUT, revents: 0 };
    // SAFETY: one that lives until it has answered.
    answer(unsafe { libc::poll(&raw mut watched, 1, 0) }).map(|_| watched.revents)
}

/// `malloc`, freed at once.
pub fn allocate(size: usize) -> io::Result<i64> {
    // SAFETY: its result is freed, and not used.
    unsafe {
        // The compiler must not see that the memory is unused.
        let place = std::hint::black_box(libc::malloc(size));
        let answered = pointer(place);
        libc::free(place);
        answered
    }
}

/// `calloc`, freed at once.
pub fn allocate_many(count: usize, size: usize) -> io::Result<i64> {
    // SAFETY: its result is freed, and not used.
    unsafe {
        // The compiler must not see that the memory is unused.
        let place = std::hint::black_box(libc::calloc(count, size));
        let answered = pointer(place);
        libc::free(place);
        answered
    }
}

/// `posix_memalign`, freed at once. Its error is its answer.
pub fn allocate_aligned(alignment: usize, size: usize) -> io::Result<i64> {
    let mut place = std::ptr::null_mut();
    // SAFETY: its result is freed, and not used.
    let error = unsafe {
        let error = libc::posix_memalign(&raw mut place, alignment, size);
        libc::free(std::hint::black_box(place));
        error
    };
    if error == 0 { Ok(0) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// `realloc` of a small allocation to a size that it cannot have. Whether what was in it is still there.
pub fn grow(size: usize) -> (io::Result<i64>, bool) {
    // SAFETY: an allocation of 16 bytes, used within them and freed once.
    unsafe {
        let small = std::hint::black_box(libc::malloc(16)).cast::<[u8; 16]>();
        if small.is_null() {
            return (Err(io::Error::last_os_error()), false);
        }
        small.write([7; 16]);
        let large = std::hint::black_box(libc::realloc(small.cast(), size));
        let answered = pointer(large);
        let kept = if large.is_null() { small } else { large.cast() };
        let whole = kept.read() == [7; 16];
        libc::free(kept.cast());
        (answered, whole)
    }
}

/// `execvp` of a program of the boot medium.
pub fn execute(program: &CStr) -> io::Result<i64> {
    let arguments = [program.as_ptr(), std::ptr::null()];
    // SAFETY: a string, and an array of strings with a null at its end.
    answer(unsafe { libc::execvp(program.as_ptr(), arguments.as_ptr()) })
}

/// Sets a function that answers a signal.
pub fn handle(signal: c_int, handler: extern "C" fn(c_int)) -> io::Result<i64> {
    // SAFETY: the function does nothing that a signal would forbid, and an action of zeros is one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        answer(libc::sigaction(signal, &raw const action, std::ptr::null_mut()))
    }
}

/// The bytes of a path that another thread changes meanwhile.
pub struct ChangingPath(Vec<AtomicU8>);

impl ChangingPath {
    /// A path, with the zero at its end.
    pub fn new(path: &str) -> Self {
        Self(path.bytes().chain([0]).map(AtomicU8::new).collect())
    }

    /// Puts other names of the same length in its place, byte by byte.
    pub fn put(&self, path: &str) {
        let names = self.0.split_last().map_or(&[][..], |(_, names)| names);
        for (place, byte) in names.iter().zip(path.bytes()) {
            place.store(byte, Ordering::Relaxed);
        }
    }

    /// `open` of a path that changes while it is read.
    pub fn open(&self) -> io::Result<i64> {
        // SAFETY: the bytes end with a zero that is never overwritten. That they change meanwhile is the attack, which
        // may harm this program only.
        answer(unsafe { libc::open(self.0.as_ptr().cast(), libc::O_RDONLY) })
    }
}

/// `getrandom`.
pub fn random(bytes: &mut [u8; 16]) -> io::Result<i64> {
    // SAFETY: the buffer lives until it has answered.
    answer(unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) } as i64)
}
