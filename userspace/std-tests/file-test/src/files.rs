//! Files and their bytes.

use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::{Outcome, Test, check, fails, told};

pub const TESTS: &[(&str, Test)] = &[
    ("files keep what was written", files_keep_what_was_written),
    ("options decide how a file is opened", options_decide_how_a_file_is_opened),
    ("positions move", positions_move),
    ("offsets leave the position alone", offsets_leave_the_position_alone),
    ("pieces are read and written together", pieces_are_read_and_written_together),
    ("appending goes to the end", appending_goes_to_the_end),
    ("large files are whole", large_files_are_whole),
    ("lines are read", lines_are_read),
    ("copies are equal", copies_are_equal),
    ("a clone shares the position", a_clone_shares_the_position),
    ("threads get different bytes", threads_get_different_bytes),
    ("a removed file stays open", a_removed_file_stays_open),
    ("times are kept", times_are_kept),
    ("what is there is told", what_is_there_is_told),
    ("locks exclude", locks_exclude),
    ("a lock is waited for", a_lock_is_waited_for),
];

fn files_keep_what_was_written(folder: &Path) -> Outcome {
    let path = folder.join("note");
    fs::write(&path, "hello").map_err(told("writing"))?;
    check(fs::read_to_string(&path).map_err(told("reading"))? == "hello", "the text differs")?;
    fs::write(&path, "hi").map_err(told("writing again"))?;
    check(fs::read(&path).map_err(told("reading"))? == b"hi", "the old text is still there")?;
    let empty = folder.join("empty");
    File::create(&empty).map_err(told("making an empty file"))?.sync_all().map_err(told("syncing"))?;
    check(fs::read(&empty).map_err(told("reading"))?.is_empty(), "an empty file has bytes")
}

fn options_decide_how_a_file_is_opened(folder: &Path) -> Outcome {
    let path = folder.join("file");
    fails(File::open(&path), ErrorKind::NotFound, "opening what is not there")?;
    fails(OpenOptions::new().write(true).open(&path), ErrorKind::NotFound, "writing what is not there")?;
    drop(File::create_new(&path).map_err(told("making"))?);
    let mut file = OpenOptions::new().write(true).open(&path).map_err(told("opening to write"))?;
    fails(File::create_new(&path), ErrorKind::AlreadyExists, "making it twice")?;
    file.write_all(b"0123456789").map_err(told("writing"))?;
    check(file.read(&mut [0; 4]).is_err(), "what is open to write was read")?;
    let mut file = File::open(&path).map_err(told("opening"))?;
    check(file.write(b"x").is_err(), "what is open to read was written")?;
    check(file.set_len(1).is_err(), "what is open to read was cut")?;
    let mut file = OpenOptions::new().read(true).write(true).open(&path).map_err(told("opening for both"))?;
    file.write_all(b"ab").map_err(told("overwriting"))?;
    let mut rest = String::new();
    file.read_to_string(&mut rest).map_err(told("reading on"))?;
    check(rest == "23456789", "reading did not go on after writing")?;
    let file = OpenOptions::new().write(true).truncate(true).open(&path).map_err(told("emptying"))?;
    check(file.metadata().map_err(told("asking"))?.len() == 0, "it was not emptied")
}

fn positions_move(folder: &Path) -> Outcome {
    let path = folder.join("file");
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(told("opening"))?;
    file.write_all(b"abcdef").map_err(told("writing"))?;
    check(file.stream_position().map_err(told("asking"))? == 6, "writing did not move the position")?;
    check(file.seek(SeekFrom::End(-2)).map_err(told("seeking"))? == 4, "the end is elsewhere")?;
    let mut two = [0; 2];
    file.read_exact(&mut two).map_err(told("reading"))?;
    check(&two == b"ef", "other bytes are at the end")?;
    check(file.seek(SeekFrom::Current(-100)).is_err(), "the position went below the start")?;
    check(file.seek(SeekFrom::Start(8)).map_err(told("seeking past the end"))? == 8, "the position differs")?;
    check(file.read(&mut two).map_err(told("reading past the end"))? == 0, "bytes past the end")?;
    file.write_all(b"!").map_err(told("writing past the end"))?;
    file.rewind().map_err(told("rewinding"))?;
    let mut whole = Vec::new();
    file.read_to_end(&mut whole).map_err(told("reading all"))?;
    check(whole == b"abcdef\0\0!", "the gap is not zero")?;
    file.set_len(3).map_err(told("cutting"))?;
    file.set_len(5).map_err(told("extending"))?;
    file.rewind().map_err(told("rewinding"))?;
    whole.clear();
    file.read_to_end(&mut whole).map_err(told("reading all"))?;
    check(whole == b"abc\0\0", "cutting and extending gave other bytes")
}

fn offsets_leave_the_position_alone(folder: &Path) -> Outcome {
    let path = folder.join("file");
    fs::write(&path, "0123456789").map_err(told("writing"))?;
    let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(told("opening"))?;
    let mut three = [0; 3];
    file.read_exact_at(&mut three, 4).map_err(told("reading at 4"))?;
    check(&three == b"456", "other bytes are at 4")?;
    file.write_all_at(b"xyz", 7).map_err(told("writing at 7"))?;
    let mut whole = String::new();
    file.read_to_string(&mut whole).map_err(told("reading all"))?;
    check(whole == "0123456xyz", "the position was moved, or other bytes written")
}

fn pieces_are_read_and_written_together(folder: &Path) -> Outcome {
    let path = folder.join("file");
    let mut file = File::create(&path).map_err(told("making"))?;
    let pieces = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")];
    check(file.write_vectored(&pieces).map_err(told("writing"))? == 5, "not all was written")?;
    let mut file = File::open(&path).map_err(told("opening"))?;
    let (mut one, mut two) = ([0; 3], [0; 9]);
    let count = file.read_vectored(&mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)]);
    check(count.map_err(told("reading"))? == 5, "another count was read")?;
    check(&one == b"abc" && two.starts_with(b"de\0"), "the pieces differ")
}

fn appending_goes_to_the_end(folder: &Path) -> Outcome {
    let path = folder.join("log");
    let mut one = OpenOptions::new().append(true).create(true).open(&path).map_err(told("opening"))?;
    let mut other = OpenOptions::new().append(true).open(&path).map_err(told("opening again"))?;
    for n in 0..10 {
        writeln!(one, "one {n}").map_err(told("appending"))?;
        writeln!(other, "other {n}").map_err(told("appending"))?;
    }
    let text = fs::read_to_string(&path).map_err(told("reading"))?;
    check(text.lines().count() == 20 && text.ends_with("one 9\nother 9\n"), "lines were lost")
}

fn large_files_are_whole(folder: &Path) -> Outcome {
    let path = folder.join("large");
    let pattern: Vec<u8> =
        (0..(1_u32 << 20) + 77).map(|n| (n.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]).collect();
    fs::write(&path, &pattern).map_err(told("writing"))?;
    check(fs::metadata(&path).map_err(told("asking"))?.len() == pattern.len() as u64, "the length differs")?;
    check(fs::read(&path).map_err(told("reading"))? == pattern, "the bytes differ")?;
    let mut file = File::open(&path).map_err(told("opening"))?;
    let mut buffer = vec![0; 1 << 20];
    check(file.read(&mut buffer).map_err(told("reading"))? == buffer.len(), "one read gave less than was asked for")?;
    check(pattern.starts_with(&buffer), "the bytes differ")
}

fn lines_are_read(folder: &Path) -> Outcome {
    let path = folder.join("lines");
    let mut writer = BufWriter::new(File::create(&path).map_err(told("making"))?);
    for n in 0..1000 {
        writeln!(writer, "line {n}").map_err(told("writing"))?;
    }
    writer.into_inner().map_err(told("flushing"))?;
    let reader = BufReader::new(File::open(&path).map_err(told("opening"))?);
    for (n, line) in reader.lines().enumerate() {
        check(line.map_err(told("reading"))? == format!("line {n}"), "a line differs")?;
    }
    Ok(())
}

fn copies_are_equal(folder: &Path) -> Outcome {
    let (from, to) = (folder.join("from"), folder.join("to"));
    fs::write(&from, vec![7; 300_000]).map_err(told("writing"))?;
    check(fs::copy(&from, &to).map_err(told("copying"))? == 300_000, "another count was copied")?;
    check(fs::read(&to).map_err(told("reading"))? == vec![7; 300_000], "the copy differs")?;
    fails(fs::copy(folder.join("none"), &to), ErrorKind::NotFound, "copying what is not there")
}

fn a_clone_shares_the_position(folder: &Path) -> Outcome {
    let path = folder.join("file");
    fs::write(&path, "abcdef").map_err(told("writing"))?;
    let mut one = File::open(&path).map_err(told("opening"))?;
    let mut other = one.try_clone().map_err(told("cloning"))?;
    let mut two = [0; 2];
    one.read_exact(&mut two).map_err(told("reading"))?;
    drop(one);
    other.read_exact(&mut two).map_err(told("reading the clone"))?;
    check(&two == b"cd", "the clone has a position of its own")
}

fn threads_get_different_bytes(folder: &Path) -> Outcome {
    let path = folder.join("file");
    let records: Vec<u8> = (0..400_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(&path, records).map_err(told("writing"))?;
    let file = File::open(&path).map_err(told("opening"))?;
    let read = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let (mut mine, mut four) = (Vec::new(), [0; 4]);
                    while (&file).read(&mut four)? == 4 {
                        mine.push(u32::from_le_bytes(four));
                    }
                    Ok::<_, std::io::Error>(mine)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())).collect::<Vec<_>>()
    });
    let mut all = Vec::new();
    for mine in read {
        all.extend(mine?.map_err(told("reading"))?);
    }
    check(all.len() == 400, "a record was read twice, or not")?;
    check(all.into_iter().collect::<BTreeSet<_>>().len() == 400, "a record was read twice")
}

fn a_removed_file_stays_open(folder: &Path) -> Outcome {
    let path = folder.join("file");
    fs::write(&path, "kept").map_err(told("writing"))?;
    let mut file = OpenOptions::new().read(true).write(true).open(&path).map_err(told("opening"))?;
    fs::remove_file(&path).map_err(told("removing"))?;
    fails(fs::metadata(&path), ErrorKind::NotFound, "asking for what was removed")?;
    fails(fs::remove_file(&path), ErrorKind::NotFound, "removing it twice")?;
    fs::write(&path, "new").map_err(told("writing another"))?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(told("reading"))?;
    check(text == "kept", "the open file is another")?;
    file.write_all(b" on").map_err(told("writing"))?;
    check(file.metadata().map_err(told("asking"))?.len() == 7, "the open file was not written")?;
    check(fs::read(&path).map_err(told("reading"))? == b"new", "the new file was written")
}

fn times_are_kept(folder: &Path) -> Outcome {
    let path = folder.join("file");
    let before = SystemTime::now() - Duration::from_secs(2);
    let file = File::create(&path).map_err(told("making"))?;
    let made = file.metadata().and_then(|data| data.modified()).map_err(told("asking"))?;
    check(made >= before && made <= SystemTime::now() + Duration::from_secs(2), "it was not made now")?;
    let then = SystemTime::UNIX_EPOCH + Duration::from_millis(1_234_567_890_123);
    file.set_modified(then).map_err(told("setting"))?;
    check(fs::metadata(&path).and_then(|data| data.modified()).map_err(told("asking"))? == then, "the time differs")?;
    let later = then + Duration::from_secs(60);
    file.set_times(FileTimes::new().set_modified(later).set_accessed(later)).map_err(told("setting both"))?;
    check(file.metadata().and_then(|data| data.modified()).map_err(told("asking"))? == later, "the time differs")
}

fn what_is_there_is_told(folder: &Path) -> Outcome {
    let path = folder.join("file");
    fs::write(&path, "12345").map_err(told("writing"))?;
    let data = fs::metadata(&path).map_err(told("asking"))?;
    check(data.is_file() && !data.is_dir() && !data.is_symlink(), "a file is not a file")?;
    check(data.len() == 5, "the length differs")?;
    let open = File::open(&path).and_then(|file| file.metadata()).map_err(told("asking the open file"))?;
    check((open.dev(), open.ino()) == (data.dev(), data.ino()), "one file has two identities")?;
    fs::write(folder.join("other"), "").map_err(told("writing another"))?;
    let other = fs::symlink_metadata(folder.join("other")).map_err(told("asking"))?;
    check(other.ino() != data.ino(), "two files have one identity")?;
    check(fs::metadata(folder).map_err(told("asking"))?.is_dir(), "a directory is not a directory")?;
    fails(fs::metadata(folder.join("file/")), ErrorKind::NotADirectory, "a file as a directory")?;
    fails(fs::metadata(folder.join("file/below")), ErrorKind::NotADirectory, "a name below a file")?;
    fails(fs::metadata(folder.join("n".repeat(300))), ErrorKind::InvalidFilename, "too long a name")?;
    check(!fs::exists(folder.join("none")).map_err(told("asking"))?, "what is not there exists")?;
    fs::set_permissions(&path, data.permissions()).map_err(told("keeping the permissions"))
}

fn would_block(result: Result<(), TryLockError>, what: &str) -> Outcome {
    match result {
        Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(format!("{what}: {error}")),
        Ok(()) => Err(format!("{what}: it was locked")),
    }
}

fn locks_exclude(folder: &Path) -> Outcome {
    let path = folder.join("file");
    let one = File::create(&path).map_err(told("making"))?;
    let other = File::open(&path).map_err(told("opening"))?;
    one.lock().map_err(told("locking"))?;
    would_block(other.try_lock(), "locking what is locked")?;
    would_block(other.try_lock_shared(), "sharing what is locked")?;
    one.lock_shared().map_err(told("sharing instead"))?;
    other.try_lock_shared().map_err(told("sharing"))?;
    would_block(one.try_lock(), "locking what is shared")?;
    other.unlock().map_err(told("unlocking"))?;
    one.try_lock().map_err(told("locking"))?;
    drop(one);
    other.try_lock().map_err(told("locking after the holder was closed"))
}

fn a_lock_is_waited_for(folder: &Path) -> Outcome {
    let path = folder.join("file");
    let one = File::create(&path).map_err(told("making"))?;
    one.lock().map_err(told("locking"))?;
    let (send, receive) = mpsc::channel();
    let waiting = thread::spawn(move || {
        let other = File::open(&path)?;
        other.lock()?;
        send.send(()).map_err(std::io::Error::other)
    });
    check(receive.recv_timeout(Duration::from_millis(50)).is_err(), "two hold the lock")?;
    one.unlock().map_err(told("unlocking"))?;
    receive.recv().map_err(told("waiting"))?;
    waiting.join().map_err(|_| "a thread panicked".to_owned())?.map_err(told("locking in a thread"))
}
