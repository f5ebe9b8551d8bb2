//! Paths that lead, or seem to lead, to objects that were not granted.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::{Outcome, c, check, refused, told};

/// The program's own grants, besides the common ones.
pub fn granted() -> &'static [&'static str] {
    if fs::metadata("/letter").is_ok() { &["books", "home", "letter"] } else { &["books", "home"] }
}

/// Everything that can be done with a path, each refused as not being there.
fn nothing_there(path: &str) -> Outcome {
    let number = libc::ENOENT;
    refused(File::open(path), number, &format!("opening {path}"))?;
    refused(OpenOptions::new().write(true).open(path), number, &format!("opening {path} to write"))?;
    refused(OpenOptions::new().append(true).open(path), number, &format!("opening {path} to append"))?;
    refused(File::create(path), number, &format!("making {path}"))?;
    refused(File::create_new(path), number, &format!("making {path} anew"))?;
    refused(fs::metadata(path), number, &format!("asking for {path}"))?;
    refused(fs::symlink_metadata(path), number, &format!("asking for {path} itself"))?;
    refused(fs::canonicalize(path), number, &format!("the true path of {path}"))?;
    refused(fs::read_dir(path), number, &format!("listing {path}"))?;
    refused(fs::read_link(path), number, &format!("reading {path} as a link"))?;
    refused(fs::create_dir(path), number, &format!("making a directory {path}"))?;
    refused(fs::remove_file(path), number, &format!("removing {path}"))?;
    refused(fs::remove_dir(path), number, &format!("removing the directory {path}"))?;
    refused(fs::remove_dir_all(path), number, &format!("removing all of {path}"))?;
    refused(fs::copy(path, "/home/stolen"), number, &format!("copying {path}"))?;
    refused(fs::rename(path, "/home/stolen"), number, &format!("taking {path}"))?;
    refused(fs::rename("/home/mine", path), number, &format!("putting something at {path}"))?;
    refused(env::set_current_dir(path), number, &format!("working in {path}"))?;
    refused(c::truncate_path(path, 0), number, &format!("emptying {path}"))?;
    refused(c::touch_path(path), number, &format!("the time of {path}"))
}

/// `..` in every place.
pub fn climbing() -> Outcome {
    fs::create_dir_all("/home/inner").map_err(told("making a directory"))?;
    fs::write("/home/mine", "mine").map_err(told("writing"))?;
    for path in [
        "/home/../other/diary",
        "/home/../../../../other/diary",
        "/home/inner/../../other/diary",
        "/home/./.././home/../other/diary",
        "/books/../other/diary",
        "/../other/diary",
        "//other///diary",
        "../other/diary",
        "../../../../../../other/diary",
        "./other/./diary",
    ] {
        nothing_there(path)?;
    }
    // From where it works.
    env::set_current_dir("/home/inner").map_err(told("working in a directory"))?;
    let looked = nothing_there("../../other/diary").and_then(|()| nothing_there("../../../other/diary"));
    let climbed = env::set_current_dir("../../../..").and_then(|()| env::current_dir());
    env::set_current_dir("/").map_err(told("going back"))?;
    looked?;
    let climbed = climbed.map_err(told("climbing"))?;
    check(climbed == Path::new("/"), || format!("above the top is {}", climbed.display()))?;
    // From a directory that it has open.
    let home = File::open("/home/inner").map_err(told("opening a directory"))?;
    let home = home.as_raw_fd();
    for path in ["../../other/diary", "../../../other/diary", "/other/diary", "x/../../../other/diary"] {
        let number = libc::ENOENT;
        let create = libc::O_RDWR | libc::O_CREAT;
        refused(c::open_at(home, path, libc::O_RDONLY), number, &format!("opening {path} there"))?;
        refused(c::open_at(home, path, create), number, &format!("making {path} there"))?;
        refused(c::status_at(home, path), number, &format!("asking for {path} there"))?;
        refused(c::make_directory_at(home, path), number, &format!("making a directory {path} there"))?;
        refused(c::remove_at(home, path, 0), number, &format!("removing {path} there"))?;
        refused(c::remove_at(home, path, libc::AT_REMOVEDIR), number, &format!("removing a directory {path} there"))?;
        refused(c::rename_at((home, path), (home, "stolen")), number, &format!("taking {path} there"))?;
        refused(c::rename_at((home, "../mine"), (home, path)), number, &format!("putting something at {path} there"))?;
    }
    fs::remove_dir_all("/home/inner").map_err(told("removing the directory"))
}

/// Names that mean something elsewhere, or resemble granted ones.
pub fn other_names() -> Outcome {
    fs::write("/home/mine", "mine").map_err(told("writing"))?;
    let names = fs::read_dir("/").map_err(told("listing the top"))?;
    let mut names: Vec<_> = names.filter_map(Result::ok).map(|entry| entry.file_name()).collect();
    names.sort();
    check(names == granted(), || format!("the top has {names:?}"))?;
    for path in [
        "/other",
        "/other/diary",
        "/secret",
        "/etc/passwd",
        "/etc/manifest.toml",
        "/bin/hostile-std",
        "/boot/models/scripted.gguf",
        "/scenario/terminal.txt",
        "/tmp/file",
        "/sys/kernel",
        "/dev/mem",
        "/dev/tty",
        "/dev/urandom",
        "/dev/random",
        "/dev/fd/0",
        "/proc/self/maps",
        "/proc/self/mem",
        "/proc/self/fd/0",
        "/proc/self/root/other/diary",
        "/proc/1/environ",
        "/hom",
        "/homes",
        "/Home",
        "/home\u{200b}",
        "/h\u{43e}me",
        "/home\\mine",
        "/libr",
        // Capabilities that are not files.
        "/account",
        "/space",
        "/table",
        "/process",
        "/timer",
        "/log",
        "/in",
        "/out",
    ] {
        nothing_there(path)?;
    }
    // The names of grants themselves.
    refused(fs::remove_dir("/home"), libc::EBUSY, "removing a grant")?;
    refused(fs::remove_dir("/"), libc::EBUSY, "removing the top")?;
    refused(fs::rename("/home", "/books"), libc::EBUSY, "renaming a grant")?;
    refused(fs::rename("/home/mine", "/books/mine"), libc::EXDEV, "moving to another grant")?;
    refused(fs::create_dir("/home"), libc::EEXIST, "making a grant")?;
    refused(File::create("/home"), libc::EISDIR, "making a grant a file")
}

/// Invalid paths.
pub fn malformed() -> Outcome {
    let raw = |bytes: &[u8]| File::open(OsStr::from_bytes(bytes));
    refused(raw(b""), libc::ENOENT, "an empty path")?;
    refused(c::open_nothing(), libc::EFAULT, "no path at all")?;
    let zero = raw(b"/home/mine\0/../../other/diary");
    check(zero.is_err_and(|error| error.kind() == ErrorKind::InvalidInput), || "a zero in a path was taken".into())?;
    for path in ["/home/a\nb", "/home/\u{1b}[2J", "/home/\u{7f}", "/home/\u{85}", "/home/\u{9b}31m", "/home/x/\t/y"] {
        refused(File::open(path), libc::EINVAL, &format!("opening {path:?}"))?;
        refused(File::create(path), libc::EINVAL, &format!("making {path:?}"))?;
        refused(fs::create_dir(path), libc::EINVAL, &format!("making a directory {path:?}"))?;
        refused(fs::rename("/home", path), libc::EBUSY, "renaming a grant to it")?;
    }
    for path in [&b"/home/\xff"[..], b"\xff", b"/home/\xc0\xaf..", b"/home/\xed\xa0\x80", b"/home/\xf5\x80\x80\x80"] {
        refused(raw(path), libc::EILSEQ, &format!("opening {path:?}"))?;
    }
    let long = |name: &str, count: usize| name.repeat(count);
    for path in [
        format!("/home/{}", long("n", 256)),
        format!("/{}", long("n", 256)),
        format!("/home/{}", long("\u{e4}", 128)),
        format!("/home/{}x", long("d/", 65)),
        format!("/home/{}x", long("./", 2048)),
        format!("/home/{}x", long("../", 1400)),
        format!("/{}", long("home/../", 1 << 17)),
    ] {
        let what = format!("a path of {} bytes", path.len());
        refused(File::open(&path), libc::ENAMETOOLONG, &what)?;
        refused(File::create(&path), libc::ENAMETOOLONG, &what)?;
        refused(fs::create_dir(&path), libc::ENAMETOOLONG, &what)?;
        refused(fs::metadata(&path), libc::ENAMETOOLONG, &what)?;
    }
    // The longest valid ones lead to their targets.
    let longest = format!("/home/{}", long("./", 2044));
    check(fs::metadata(&longest).is_ok_and(|found| found.is_dir()), || "4,095 bytes are no path".into())?;
    let name = format!("/home/{}", long("n", 255));
    fs::write(&name, "long").map_err(told("the longest name"))?;
    fs::remove_file(&name).map_err(told("removing it"))
}

/// Links, which could lead out of a directory: programs cannot make any.
pub fn links() -> Outcome {
    fs::write("/home/mine", "mine").map_err(told("writing"))?;
    let home = File::open("/home").map_err(told("opening a directory"))?;
    for target in ["/other/diary", "../other/diary", "/", "/home/mine", "/proc/self/fd/0"] {
        refused(symlink(target, "/home/link"), libc::EPERM, &format!("a link to {target}"))?;
        refused(symlink(target, "/link"), libc::EPERM, &format!("a link at the top to {target}"))?;
        refused(fs::hard_link(target, "/home/link"), libc::EPERM, &format!("a second name of {target}"))?;
        let made = c::symlink_at(target, home.as_raw_fd(), "link");
        refused(made, libc::EPERM, &format!("a link there to {target}"))?;
    }
    let (mine, there) = (File::open("/home/mine").map_err(told("opening"))?, home.as_raw_fd());
    refused(c::link_at((mine.as_raw_fd(), ""), (there, "again")), libc::EPERM, "a second name of an open file")?;
    refused(fs::read_link("/home/mine"), libc::EINVAL, "reading a file as a link")?;
    refused(fs::read_link("/home"), libc::EINVAL, "reading a grant as a link")?;
    refused(c::make_pipe("/home/pipe"), libc::ENOSYS, "a named pipe")?;
    refused(c::own("/home/mine"), libc::ENOSYS, "another owner")?;
    for left in ["/home/link", "/home/again", "/home/pipe", "/link"] {
        refused(fs::symlink_metadata(left), libc::ENOENT, &format!("what {left} is"))?;
    }
    Ok(())
}
