//! Specific to capOS: a program sees its grants, under their names.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use crate::{Outcome, Test, check, fails, told};

pub const TESTS: &[(&str, Test)] = &[
    ("the top has the names of grants", the_top_has_the_names_of_grants),
    ("nothing else is there", nothing_else_is_there),
    ("names of grants cannot be changed", names_of_grants_cannot_be_changed),
    ("what is read-only stays as it is", what_is_read_only_stays_as_it_is),
    ("built-in files work", built_in_files_work),
    ("the program's own file is what was granted", the_programs_own_file_is_what_was_granted),
    ("permissions are not kept", permissions_are_not_kept),
    ("budgets end", budgets_end),
];

fn the_top_has_the_names_of_grants(_: &Path) -> Outcome {
    let mut names = Vec::new();
    for entry in fs::read_dir("/").map_err(told("listing"))? {
        let entry = entry.map_err(told("reading an entry"))?;
        check(entry.metadata().map_err(told("asking"))?.is_dir(), "a granted directory is none")?;
        names.push(entry.file_name());
    }
    names.sort();
    check(names == ["home", "medium"], &format!("the top has {names:?}"))?;
    check(env::current_dir().map_err(told("asking"))? == Path::new("/home"), "it does not begin in its home")?;
    check(fs::metadata("../home").map_err(told("asking"))?.is_dir(), "a relative path does not lead there")
}

fn nothing_else_is_there(folder: &Path) -> Outcome {
    for path in ["/etc/passwd", "/home/../etc/passwd", "/homework", "/hom", "/medium/../../proc/self/maps", "/.."] {
        let Some(name) = Path::new(path).file_name() else {
            fs::read_dir(path).map_err(told("listing what is above the top"))?;
            continue;
        };
        fails(fs::read(path), ErrorKind::NotFound, &name.to_string_lossy())?;
    }
    fails(fs::write("/etc/passwd", "x"), ErrorKind::NotFound, "writing outside")?;
    fails(fs::create_dir("/new/one"), ErrorKind::NotFound, "making outside")?;
    let outside = folder.join("../../../../../home/file-test");
    check(fs::metadata(outside).map_err(told("asking"))?.is_dir(), "`..` does not end at the top")?;
    fails(fs::metadata("/home/a\nb"), ErrorKind::InvalidInput, "a control character")
}

fn names_of_grants_cannot_be_changed(folder: &Path) -> Outcome {
    fails(fs::remove_dir("/home"), ErrorKind::ResourceBusy, "removing a grant")?;
    fails(fs::rename("/home", "/house"), ErrorKind::NotFound, "renaming to nowhere")?;
    fails(fs::rename("/home", "/medium"), ErrorKind::ResourceBusy, "renaming a grant")?;
    fails(fs::rename(folder, "/medium/folder"), ErrorKind::CrossesDevices, "moving to another grant")?;
    fails(fs::create_dir("/home"), ErrorKind::AlreadyExists, "making a grant")
}

fn what_is_read_only_stays_as_it_is(folder: &Path) -> Outcome {
    let mut start = [0; 4];
    File::open("/medium/bin/file-test").and_then(|mut file| file.read_exact(&mut start)).map_err(told("reading"))?;
    check(&start == b"\x7fELF", "the program's own file is not one")?;
    let refused = OpenOptions::new().write(true).open("/medium/bin/file-test");
    fails(refused, ErrorKind::ReadOnlyFilesystem, "writing the medium")?;
    fails(File::create("/medium/new"), ErrorKind::ReadOnlyFilesystem, "making a file")?;
    fails(fs::create_dir("/medium/new"), ErrorKind::ReadOnlyFilesystem, "making a directory")?;
    fails(fs::remove_file("/medium/bin/file-test"), ErrorKind::ReadOnlyFilesystem, "removing a file")?;
    fails(fs::rename("/medium/bin", "/medium/cab"), ErrorKind::ReadOnlyFilesystem, "renaming")?;
    let names = fs::read_dir("/medium/bin").map_err(told("listing"))?;
    check(names.filter_map(Result::ok).any(|entry| entry.file_name() == "file-test"), "it is not listed")?;
    let (from, to) = ("/medium/bin/file-test", folder.join("copy"));
    let bytes = fs::copy(from, &to).map_err(told("copying from the medium"))?;
    check(bytes == fs::metadata(from).map_err(told("asking"))?.len(), "the copy is shorter")?;
    check(fs::read(from).map_err(told("reading"))? == fs::read(to).map_err(told("reading"))?, "the copy differs")
}

fn built_in_files_work(_: &Path) -> Outcome {
    fs::write("/dev/null", "gone").map_err(told("writing to nothing"))?;
    check(fs::read("/dev/null").map_err(told("reading nothing"))?.is_empty(), "nothing has bytes")?;
    let (mut one, mut other) = ([0; 16], [0; 16]);
    let mut random = File::open("/dev/urandom").map_err(told("opening"))?;
    random.read_exact(&mut one).and_then(|()| random.read_exact(&mut other)).map_err(told("reading"))?;
    check(one != other, "random bytes came twice")
}

/// A launcher may grant the program's file under the name `program`, and then it is the program's own to ask for.
fn the_programs_own_file_is_what_was_granted(_: &Path) -> Outcome {
    let exe = "/proc/self/exe";
    let Ok(granted) = fs::read("/program") else {
        fails(fs::read(exe), ErrorKind::NotFound, "reading what was not granted")?;
        fails(fs::read_link(exe), ErrorKind::NotFound, "asking where it lies")?;
        return check(env::current_exe().is_err(), "it has a path that was not granted");
    };
    check(granted.starts_with(b"\x7fELF"), "it is no program")?;
    check(env::current_exe().map_err(told("asking"))? == Path::new("/program"), "it lies elsewhere")?;
    check(fs::read(exe).map_err(told("reading"))? == granted, "it is another")
}

fn permissions_are_not_kept(folder: &Path) -> Outcome {
    let path = folder.join("file");
    fs::write(&path, "x").map_err(told("writing"))?;
    let mut permissions = fs::metadata(&path).map_err(told("asking"))?.permissions();
    fs::set_permissions(&path, permissions.clone()).map_err(told("setting the same"))?;
    permissions.set_readonly(true);
    fails(fs::set_permissions(&path, permissions), ErrorKind::Unsupported, "setting others")?;
    let of_a_file = fs::metadata(&path).map_err(told("asking again"))?.permissions();
    fails(fs::set_permissions(folder, of_a_file), ErrorKind::Unsupported, "setting a file's for a directory")
}

fn budgets_end(folder: &Path) -> Outcome {
    let mut file = File::create(folder.join("file")).map_err(told("making"))?;
    let piece = vec![1; 256 << 10];
    let mut written = 0_usize;
    let error = loop {
        match file.write(&piece) {
            Ok(count) => written += count,
            Err(error) => break error,
        }
        check(written < 64 << 20, "there is no end")?;
    };
    fails(Err::<(), _>(error), ErrorKind::StorageFull, "writing past the budget")?;
    check(file.metadata().map_err(told("asking"))?.len() == written as u64, "the length differs")?;
    // The space of a removed file returns once the file is closed everywhere.
    drop(file);
    fs::remove_file(folder.join("file")).map_err(told("removing"))?;
    fs::write(folder.join("file"), piece).map_err(told("writing after that"))
}
