//! Changing what was granted to be read.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::SystemTime;

use crate::{Outcome, c, check, refused, told};

/// Every way to open a file that would change it.
fn opened_to_change(path: &str) -> Outcome {
    for (what, mut options) in [
        ("to write", OpenOptions::new().write(true).clone()),
        ("for both", OpenOptions::new().read(true).write(true).clone()),
        ("to append", OpenOptions::new().append(true).clone()),
        ("to empty it", OpenOptions::new().write(true).truncate(true).clone()),
        ("to make it", OpenOptions::new().write(true).create(true).clone()),
    ] {
        refused(options.open(path), libc::EROFS, &format!("opening {path} {what}"))?;
        refused(options.custom_flags(libc::O_NOFOLLOW).open(path), libc::EROFS, &format!("opening {path} {what} so"))?;
    }
    refused(c::truncate_path(path, 0), libc::EROFS, &format!("emptying {path}"))?;
    refused(c::touch_path(path), libc::EROFS, &format!("the time of {path}"))
}

/// A directory that may be read.
pub fn grants() -> Outcome {
    fs::write("/home/mine", "mine").map_err(told("writing"))?;
    let book = "/books/book";
    let before = fs::read(book).map_err(told("reading what may be read"))?;
    opened_to_change(book)?;
    refused(fs::write("/books/new", "x"), libc::EROFS, "a new file")?;
    refused(File::create_new(book), libc::EEXIST, "making anew what is there")?;
    refused(fs::create_dir("/books/new"), libc::EROFS, "a new directory")?;
    refused(fs::remove_file(book), libc::EROFS, "removing a file")?;
    refused(fs::remove_dir("/books/shelf"), libc::EROFS, "removing a directory")?;
    refused(fs::remove_dir_all("/books/shelf"), libc::EROFS, "removing all of it")?;
    refused(fs::rename(book, "/books/other"), libc::EROFS, "renaming")?;
    refused(fs::rename("/books/shelf", "/books/other"), libc::EROFS, "renaming a directory")?;
    refused(fs::rename(book, "/home/book"), libc::EXDEV, "taking it away")?;
    refused(fs::rename("/home/mine", book), libc::EXDEV, "putting something in its place")?;
    // Through the open directory; and through one inside it.
    for path in ["/books", "/books/shelf"] {
        let open = File::open(path).map_err(told("opening a directory"))?;
        let there = open.as_raw_fd();
        let name = if path == "/books" { "book" } else { "second" };
        let write = libc::O_WRONLY;
        refused(c::open_at(there, name, write), libc::EROFS, "opening to write there")?;
        refused(c::open_at(there, name, write | libc::O_TRUNC), libc::EROFS, "emptying there")?;
        refused(c::open_at(there, "new", write | libc::O_CREAT), libc::EROFS, "making there")?;
        refused(c::make_directory_at(there, "new"), libc::EROFS, "making a directory there")?;
        refused(c::remove_at(there, name, 0), libc::EROFS, "removing there")?;
        refused(c::rename_at((there, name), (there, "other")), libc::EROFS, "renaming there")?;
        refused(c::touch(there), libc::EROFS, "the time of the directory")?;
        refused(open.set_len(0), libc::EINVAL, "emptying a directory")?;
    }
    // A file that was opened to read is read-only however it is asked.
    let file = File::open(book).map_err(told("opening"))?;
    descriptor_to_read(&file)?;
    check(fs::read(book).is_ok_and(|after| after == before), || "it changed".into())
}

/// Operations that an open file rejects if it was opened to read.
fn descriptor_to_read(file: &File) -> Outcome {
    let number = file.as_raw_fd();
    refused(c::write(number, b"x"), libc::EBADF, "writing what is open to read")?;
    refused(c::write_at(number, 0), libc::EBADF, "writing at a place")?;
    refused(c::write_pieces(number, 1), libc::EBADF, "writing pieces")?;
    refused(file.set_len(0), libc::EINVAL, "emptying it")?;
    refused(file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH)), libc::EBADF, "its time")?;
    let shared = c::map(4096, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, number, 0);
    refused(shared, libc::ENODEV, "mapping it to write")?;
    // Flags that a program may change do not open it further.
    let copy = file.try_clone().map_err(told("a duplicate"))?;
    refused(c::write(copy.as_raw_fd(), b"x"), libc::EBADF, "writing to its duplicate")
}

/// A file that was granted alone.
pub fn files() -> Outcome {
    let letter = "/letter";
    if fs::metadata(letter).is_err() {
        // Only some launchers grant one.
        return Ok(());
    }
    fs::write("/home/mine", "mine").map_err(told("writing"))?;
    let before = fs::read(letter).map_err(told("reading what may be read"))?;
    check(!before.is_empty(), || "it is empty".into())?;
    opened_to_change(letter)?;
    refused(fs::remove_file(letter), libc::EBUSY, "removing it")?;
    refused(fs::rename(letter, "/home/letter"), libc::EBUSY, "taking it away")?;
    refused(fs::rename("/home/mine", letter), libc::EBUSY, "putting something in its place")?;
    refused(fs::create_dir(letter), libc::EEXIST, "making a directory of it")?;
    refused(File::create_new(letter), libc::EEXIST, "making it anew")?;
    refused(fs::read_dir(letter), libc::ENOTDIR, "listing it")?;
    for path in ["/letter/", "/letter/.", "/letter/below", "/letter/../other/diary"] {
        let number = if path.contains("..") { libc::ENOENT } else { libc::ENOTDIR };
        refused(File::open(path), number, &format!("opening {path}"))?;
    }
    let file = File::open(letter).map_err(told("opening"))?;
    descriptor_to_read(&file)?;
    check(fs::read(letter).is_ok_and(|after| after == before), || "it changed".into())
}
