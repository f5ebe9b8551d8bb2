//! Numbers that refer to nothing, to something else, or to a later file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write, pipe};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::thread;

use crate::{Outcome, c, check, refused, told};

type Use = fn(i32) -> io::Result<i64>;

/// The operations on a descriptor alone, by name.
const USES: &[(&str, Use)] = &[
    ("reading", |number| c::read(number, 16)),
    ("writing", |number| c::write(number, b"x")),
    ("reading at a place", |number| c::read_at(number, 0)),
    ("writing at a place", |number| c::write_at(number, 0)),
    ("reading pieces", |number| c::read_pieces(number, 1)),
    ("writing pieces", |number| c::write_pieces(number, 1)),
    ("seeking", |number| c::seek(number, 0, libc::SEEK_CUR)),
    ("emptying", |number| c::truncate(number, 0)),
    ("syncing", c::sync),
    ("syncing data", c::sync_data),
    ("locking", c::lock),
    ("asking", c::status),
    ("asking for flags", c::flags),
    ("closing on exec", c::close_on_exec),
    ("asking how much there is", c::available),
    ("asking for a terminal", c::is_terminal),
    ("duplicating", c::dup),
    ("duplicating it to 5", |number| c::dup2(number, 5)),
    ("duplicating it to 5 so", |number| c::dup3(number, 5)),
    ("duplicating from 10 on", |number| c::duplicate_from(number, 10)),
    ("working in", c::change_directory),
    ("changing the mode", c::change_mode),
    ("changing the time", c::touch),
    ("listing", c::open_stream),
    ("opening through it", |number| c::open_at(number, "mine", libc::O_RDONLY)),
    ("making through it", |number| c::make_directory_at(number, "new")),
    ("removing through it", |number| c::remove_at(number, "mine", 0)),
    ("renaming through it", |number| c::rename_at((number, "mine"), (number, "other"))),
    ("asking through it", |number| c::status_at(number, "mine")),
    ("mapping", |number| c::map(4096, libc::PROT_READ, libc::MAP_PRIVATE, number, 0).map(|_| 0)),
    ("closing", c::close),
];

/// Where C means the working directory; for all but paths it is not a descriptor.
const WORKING_DIRECTORY: i32 = libc::AT_FDCWD;

fn stands_for_nothing(number: i32) -> Outcome {
    for (what, attempt) in USES {
        if number == WORKING_DIRECTORY && what.contains("through") {
            continue;
        }
        refused(attempt(number), libc::EBADF, &format!("{what} descriptor {number}"))?;
    }
    let seen = c::poll(number).map_err(told("polling"))?;
    let wanted = if number < 0 { 0 } else { libc::POLLNVAL };
    check(seen == wanted, || format!("polling descriptor {number} says {seen:#x}"))
}

fn mine() -> Result<File, String> {
    fs::write("/home/mine", "0123456789").map_err(told("writing"))?;
    OpenOptions::new().read(true).write(true).open("/home/mine").map_err(told("opening"))
}

/// Numbers that were never given out, or were given back, and invalid ranges.
pub fn wrong() -> Outcome {
    let file = mine()?;
    for number in [-1, i32::MIN, i32::MAX, 500, 1023, 1024, 65_536, WORKING_DIRECTORY] {
        stands_for_nothing(number)?;
    }
    let closed = file.try_clone().map_err(told("a duplicate"))?.into_raw_fd();
    c::close(closed).map_err(told("closing"))?;
    stands_for_nothing(closed)?;
    // A valid descriptor, with arguments out of range.
    let number = file.as_raw_fd();
    for to in [-1, i32::MIN, 1024, i32::MAX] {
        refused(c::dup2(number, to), libc::EBADF, &format!("duplicating to {to}"))?;
        refused(c::dup3(number, to), libc::EBADF, &format!("duplicating so to {to}"))?;
        refused(c::duplicate_from(number, to), libc::EINVAL, &format!("duplicating from {to} on"))?;
    }
    refused(c::dup3(number, number), libc::EINVAL, "duplicating to itself")?;
    for length in [usize::MAX, usize::MAX / 2 + 1] {
        refused(c::read(number, length), libc::EINVAL, "reading more than there can be")?;
    }
    refused(c::read_to_nowhere(number, 16), libc::EFAULT, "reading to nowhere")?;
    for count in [-1, i32::MIN, 1025, i32::MAX] {
        refused(c::read_pieces(number, count), libc::EINVAL, &format!("reading {count} pieces"))?;
        refused(c::write_pieces(number, count), libc::EINVAL, &format!("writing {count} pieces"))?;
    }
    for at in [-1, i64::MIN] {
        refused(c::read_at(number, at), libc::EINVAL, &format!("reading at {at}"))?;
        refused(c::write_at(number, at), libc::EINVAL, &format!("writing at {at}"))?;
        refused(c::truncate(number, at), libc::EINVAL, &format!("a length of {at}"))?;
        refused(c::seek(number, at, libc::SEEK_SET), libc::EINVAL, &format!("seeking to {at}"))?;
    }
    refused(c::seek(number, 0, 77), libc::EINVAL, "seeking from nowhere")?;
    for far in [1 << 40, i64::MAX - 16] {
        // Where files may have holes, it takes no room, and the file is cut again.
        if c::write_at(number, far).is_err() {
            refused(c::write_at(number, far), libc::ENOSPC, &format!("writing at {far}"))
                .or_else(|_| refused(c::write_at(number, far), libc::EFBIG, &format!("writing at {far}")))?;
        }
        check(c::truncate(number, 10).is_ok(), || "cutting the file".into())?;
        check(c::read_at(number, far).is_ok_and(|count| count == 0), || format!("bytes at {far}"))?;
    }
    refused(c::poll_none(1025), libc::EINVAL, "polling more than there can be")?;
    refused(c::poll_none(u64::MAX), libc::EINVAL, "polling all there are")?;
    refused(c::poll_none(4), libc::EFAULT, "polling what is nowhere")?;
    check(fs::read("/home/mine").is_ok_and(|bytes| bytes == b"0123456789"), || "the file changed".into())
}

/// Operations that are valid for another kind of file.
pub fn of_the_wrong_kind() -> Outcome {
    let file = mine()?;
    let directory = File::open("/home").map_err(told("opening a directory"))?;
    let top = File::open("/").map_err(told("opening the top"))?;
    let (reader, writer) = pipe().map_err(told("making a pipe"))?;
    let counter = i32::try_from(c::counter(0).map_err(told("making a counter"))?).map_err(told("a descriptor"))?;
    for directory in [directory.as_raw_fd(), top.as_raw_fd()] {
        refused(c::read(directory, 16), libc::EISDIR, "reading a directory")?;
        refused(c::read_at(directory, 0), libc::EISDIR, "reading a directory at a place")?;
        refused(c::write(directory, b"x"), libc::EBADF, "writing a directory")?;
        refused(c::truncate(directory, 0), libc::EINVAL, "emptying a directory")?;
        refused(c::lock(directory), libc::EINVAL, "locking a directory")?;
        let mapped = c::map(4096, libc::PROT_READ, libc::MAP_PRIVATE, directory, 0);
        refused(mapped, libc::ENODEV, "mapping a directory")?;
    }
    for (what, number) in [
        ("a file", file.as_raw_fd()),
        ("a pipe", reader.as_raw_fd()),
        ("a counter", counter),
        ("standard input", 0),
        ("standard output", 1),
    ] {
        refused(c::open_at(number, "mine", libc::O_RDONLY), libc::ENOTDIR, &format!("opening through {what}"))?;
        refused(c::open_at(number, "..", libc::O_RDONLY), libc::ENOTDIR, &format!("climbing through {what}"))?;
        refused(c::change_directory(number), libc::ENOTDIR, &format!("working in {what}"))?;
        refused(c::open_stream(number), libc::ENOTDIR, &format!("listing {what}"))?;
        refused(c::remove_at(number, "mine", 0), libc::ENOTDIR, &format!("removing through {what}"))?;
    }
    for (what, number) in [("a pipe", reader.as_raw_fd()), ("a counter", counter), ("standard input", 0)] {
        refused(c::seek(number, 0, libc::SEEK_SET), libc::ESPIPE, &format!("seeking in {what}"))?;
        refused(c::read_at(number, 0), libc::ESPIPE, &format!("reading {what} at a place"))?;
        refused(c::truncate(number, 0), libc::EINVAL, &format!("emptying {what}"))?;
        refused(c::lock(number), libc::EINVAL, &format!("locking {what}"))?;
        refused(c::sync(number), libc::EINVAL, &format!("syncing {what}"))?;
        let mapped = c::map(4096, libc::PROT_READ, libc::MAP_PRIVATE, number, 0);
        refused(mapped, libc::ENODEV, &format!("mapping {what}"))?;
    }
    refused(c::write(reader.as_raw_fd(), b"x"), libc::EBADF, "writing where a pipe is read")?;
    refused(c::read(writer.as_raw_fd(), 1), libc::EBADF, "reading where a pipe is written")?;
    refused(c::write(0, b"x"), libc::EBADF, "writing to standard input")?;
    refused(c::read(1, 1), libc::EBADF, "reading standard output")?;
    refused(c::read(counter, 7), libc::EINVAL, "reading 7 bytes of a counter")?;
    refused(c::write(counter, b"1234567"), libc::EINVAL, "writing 7 bytes to a counter")?;
    refused(c::write(counter, &[0xff; 8]), libc::EINVAL, "adding all there is to a counter")?;
    refused(c::read(counter, 8), libc::EAGAIN, "reading a counter of 0")?;
    c::close(counter).map(drop).map_err(told("closing"))
}

/// A number that is reused while a thread waits for its earlier object.
pub fn reused() -> Outcome {
    let file = mine()?;
    let (mut reader, mut writer) = pipe().map_err(told("making a pipe"))?;
    let number = reader.as_raw_fd();
    let (ready, begun) = std::sync::mpsc::channel();
    let waiting = thread::spawn(move || {
        let mut byte = [0];
        reader.read_exact(&mut byte).and_then(|()| ready.send(()).map_err(io::Error::other))?;
        let mut bytes = [0; 4];
        let read = reader.read_exact(&mut bytes);
        // The number is another's now.
        let _ = reader.into_raw_fd();
        read.map(|()| bytes)
    });
    // It has the pipe in its hand.
    writer.write_all(b"!").map_err(told("writing"))?;
    begun.recv().map_err(told("waiting"))?;
    // It reads, or is about to: it then finds the file under the number.
    c::dup2(file.as_raw_fd(), number).map_err(told("taking the number"))?;
    let written = writer.write(b"pipe");
    let read = waiting.join().map_err(|_| "a thread panicked".to_owned())?.map_err(told("reading"))?;
    match written {
        Ok(_) => check(read == *b"pipe" || read == *b"0123", || format!("it read {read:?}"))?,
        // The waiting thread had not begun: the pipe had no reader any more.
        Err(error) => refused(Err::<(), _>(error), libc::EPIPE, "writing")?,
    }
    c::close(number).map_err(told("closing"))?;
    stands_for_nothing(number)
}

/// Threads that open and write, and one that closes and duplicates all existing numbers.
pub fn across_threads() -> Outcome {
    const ROUNDS: i32 = 150;
    let fitting = |result: io::Result<i64>, what: &str| match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(None),
        Err(error) => Err(format!("{what}: {error}")),
    };
    let works = |name: &str| {
        for _ in 0..ROUNDS {
            let flags = libc::O_RDWR | libc::O_CREAT;
            let Some(number) = fitting(c::open_at(WORKING_DIRECTORY, name, flags), "opening")? else {
                return Err("opening needs no descriptor".into());
            };
            let number = i32::try_from(number).map_err(told("a descriptor"))?;
            fitting(c::write_at(number, 0), "writing")?;
            fitting(c::read_at(number, 0), "reading")?;
            fitting(c::status(number), "asking")?;
            fitting(c::close(number), "closing")?;
        }
        Ok(())
    };
    let meddles = || {
        for round in 0..ROUNDS {
            // Not the standard streams, which say how it went.
            let number = 3 + round % 6;
            fitting(c::close(number), "closing another's")?;
            fitting(c::dup2(3 + (round + 1) % 6, number), "duplicating over another's")?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads = [scope.spawn(|| works("/home/one")), scope.spawn(|| works("/home/two")), scope.spawn(meddles)];
        let ended = threads.map(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?);
        ended.into_iter().collect::<Outcome>()
    })?;
    // Each descriptor can be closed, and numbers start over.
    for number in 3..1024 {
        fitting(c::close(number), "closing what is left")?;
    }
    let first = File::open("/home").map_err(told("opening"))?.as_raw_fd();
    check(first == 3, || format!("the first number is {first}"))?;
    for name in ["/home/one", "/home/two"] {
        fs::remove_file(name).map_err(told("removing"))?;
    }
    Ok(())
}
