//! Directories, names and where the program works.

use std::env;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::{Outcome, Test, check, fails, told};

pub const TESTS: &[(&str, Test)] = &[
    ("directories are made and listed", directories_are_made_and_listed),
    ("directories refuse what they are not", directories_refuse_what_they_are_not),
    ("trees are removed", trees_are_removed),
    ("many entries are listed", many_entries_are_listed),
    ("entries are removed while they are listed", entries_are_removed_while_they_are_listed),
    ("files are renamed", files_are_renamed),
    ("directories are renamed", directories_are_renamed),
    ("the working directory is the base of paths", the_working_directory_is_the_base_of_paths),
    ("paths are made canonical", paths_are_made_canonical),
];

fn names(folder: &Path) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(told("listing"))? {
        let entry = entry.map_err(told("reading an entry"))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn directories_are_made_and_listed(folder: &Path) -> Outcome {
    fs::create_dir_all(folder.join("a/b/c")).map_err(told("making three"))?;
    fs::create_dir_all(folder.join("a/b/c")).map_err(told("making them again"))?;
    fs::write(folder.join("a/file"), "12").map_err(told("writing"))?;
    check(names(&folder.join("a"))? == ["b", "file"], "other names are listed")?;
    check(names(&folder.join("a/b/c"))?.is_empty(), "an empty directory has entries")?;
    for entry in fs::read_dir(folder.join("a")).map_err(told("listing"))? {
        let entry = entry.map_err(told("reading an entry"))?;
        let kind = entry.file_type().map_err(told("asking for the type"))?;
        let data = entry.metadata().map_err(told("asking"))?;
        let file = entry.file_name() == "file";
        check(kind.is_file() == file && data.is_file() == file, "the type differs")?;
        check(!file || data.len() == 2, "the length differs")?;
    }
    Ok(())
}

fn directories_refuse_what_they_are_not(folder: &Path) -> Outcome {
    let (inner, file) = (folder.join("inner"), folder.join("file"));
    fs::create_dir(&inner).map_err(told("making"))?;
    fs::write(&file, "").map_err(told("writing"))?;
    fs::write(inner.join("entry"), "").map_err(told("writing"))?;
    fails(fs::create_dir(&inner), ErrorKind::AlreadyExists, "making it twice")?;
    fails(fs::create_dir(&file), ErrorKind::AlreadyExists, "making one where a file is")?;
    fails(fs::create_dir(folder.join("none/inner")), ErrorKind::NotFound, "making one below nothing")?;
    fails(fs::remove_dir(&inner), ErrorKind::DirectoryNotEmpty, "removing one with entries")?;
    fails(fs::remove_dir(&file), ErrorKind::NotADirectory, "removing a file as a directory")?;
    fails(fs::remove_file(&inner), ErrorKind::IsADirectory, "removing a directory as a file")?;
    fails(fs::read_dir(&file), ErrorKind::NotADirectory, "listing a file")?;
    fails(fs::read_dir(folder.join("none")), ErrorKind::NotFound, "listing nothing")?;
    fails(File::create(&inner), ErrorKind::IsADirectory, "writing a directory")?;
    fails(fs::read(&inner), ErrorKind::IsADirectory, "reading a directory")
}

fn trees_are_removed(folder: &Path) -> Outcome {
    let top = folder.join("top");
    for n in 0..5 {
        let inner = top.join(format!("{n}/deep/deeper"));
        fs::create_dir_all(&inner).map_err(told("making"))?;
        fs::write(inner.join("file"), "x").map_err(told("writing"))?;
    }
    fs::remove_dir_all(&top).map_err(told("removing"))?;
    fails(fs::metadata(&top), ErrorKind::NotFound, "asking for what was removed")?;
    fails(fs::remove_dir_all(&top), ErrorKind::NotFound, "removing it twice")
}

/// More than one answer of a server holds.
const MANY: usize = 1500;

fn many_entries_are_listed(folder: &Path) -> Outcome {
    let name = |n: usize| format!("{n:05}-{}", "long".repeat(40));
    for n in 0..MANY {
        File::create(folder.join(name(n))).map_err(told("making"))?;
    }
    let listed = names(folder)?;
    check(listed.len() == MANY && listed == (0..MANY).map(name).collect::<Vec<_>>(), "names are missing or doubled")
}

fn entries_are_removed_while_they_are_listed(folder: &Path) -> Outcome {
    let name = |n: usize| folder.join(format!("{n:05}-{}", "long".repeat(40)));
    for n in 0..MANY {
        File::create(name(n)).map_err(told("making"))?;
    }
    for entry in fs::read_dir(folder).map_err(told("listing"))? {
        fs::remove_file(entry.map_err(told("reading an entry"))?.path()).map_err(told("removing"))?;
    }
    check(names(folder)?.is_empty(), "entries are left")
}

fn files_are_renamed(folder: &Path) -> Outcome {
    let (one, other) = (folder.join("one"), folder.join("other"));
    fs::write(&one, "1").map_err(told("writing"))?;
    fs::write(&other, "2").map_err(told("writing"))?;
    fs::rename(&one, &other).map_err(told("replacing"))?;
    check(names(folder)? == ["other"], "other names are there")?;
    check(fs::read(&other).map_err(told("reading"))? == b"1", "the content differs")?;
    fs::rename(&other, &other).map_err(told("renaming to itself"))?;
    fs::create_dir(&one).map_err(told("making a directory"))?;
    fs::rename(&other, one.join("moved")).map_err(told("moving"))?;
    check(fs::read(one.join("moved")).map_err(told("reading"))? == b"1", "the content differs")?;
    fails(fs::rename(&other, &one), ErrorKind::NotFound, "renaming what is not there")?;
    fs::write(&other, "").map_err(told("writing"))?;
    fails(fs::rename(&other, &one), ErrorKind::IsADirectory, "replacing a directory by a file")
}

fn directories_are_renamed(folder: &Path) -> Outcome {
    let (one, other) = (folder.join("one"), folder.join("other"));
    fs::create_dir_all(one.join("inner")).map_err(told("making"))?;
    fs::write(one.join("inner/file"), "x").map_err(told("writing"))?;
    fails(fs::rename(&one, one.join("inner/one")), ErrorKind::InvalidInput, "moving one into itself")?;
    fs::rename(&one, &other).map_err(told("renaming"))?;
    check(fs::read(other.join("inner/file")).map_err(told("reading"))? == b"x", "the content is lost")?;
    fs::create_dir(&one).map_err(told("making another"))?;
    fs::rename(&one, other.join("inner/empty")).map_err(told("moving"))?;
    fs::create_dir(&one).map_err(told("making another"))?;
    fails(fs::rename(&one, &other), ErrorKind::DirectoryNotEmpty, "replacing one with entries")?;
    fails(fs::rename(&one, other.join("inner/file")), ErrorKind::NotADirectory, "replacing a file by a directory")?;
    fs::rename(other.join("inner"), &one).map_err(told("replacing an empty one"))?;
    check(names(&one)? == ["empty", "file"], "other names are there")
}

fn the_working_directory_is_the_base_of_paths(folder: &Path) -> Outcome {
    let before = env::current_dir().map_err(told("asking"))?;
    fs::create_dir_all(folder.join("a/b")).map_err(told("making"))?;
    env::set_current_dir(folder.join("a")).map_err(told("going there"))?;
    let looked = (|| {
        fs::write("file", "here").map_err(told("writing"))?;
        fs::write("b/../../up", "up").map_err(told("writing above"))?;
        env::set_current_dir("b").map_err(told("going on"))?;
        check(fs::read("../file").map_err(told("reading"))? == b"here", "the content differs")?;
        env::current_dir().map_err(told("asking"))
    })();
    let failed = env::set_current_dir(folder.join("none"));
    env::set_current_dir(&before).map_err(told("going back"))?;
    let canonical = fs::canonicalize(folder.join("a/b")).map_err(told("looking"))?;
    check(looked? == canonical, "the working directory is another")?;
    fails(failed, ErrorKind::NotFound, "working in nothing")?;
    check(fs::read(folder.join("a/file")).map_err(told("reading"))? == b"here", "it was written elsewhere")?;
    check(fs::read(folder.join("up")).map_err(told("reading"))? == b"up", "it was written elsewhere")
}

fn paths_are_made_canonical(folder: &Path) -> Outcome {
    fs::create_dir_all(folder.join("a/b")).map_err(told("making"))?;
    let straight = fs::canonicalize(folder.join("a")).map_err(told("looking"))?;
    let crooked = fs::canonicalize(folder.join("./a//b/../b/..")).map_err(told("looking"))?;
    check(straight == crooked, "one directory has two paths")?;
    fails(fs::canonicalize(folder.join("none")), ErrorKind::NotFound, "the path of nothing")?;
    if cfg!(capos_guest) {
        let refused = symlink("a", folder.join("link"));
        fails(refused, ErrorKind::PermissionDenied, "making a link")?;
        return fails(fs::hard_link(folder.join("a"), folder.join("c")), ErrorKind::PermissionDenied, "a second name");
    }
    symlink("a/b", folder.join("link")).map_err(told("linking"))?;
    check(fs::read_link(folder.join("link")).map_err(told("reading"))? == Path::new("a/b"), "the target differs")?;
    check(fs::canonicalize(folder.join("link")).map_err(told("looking"))? == straight.join("b"), "the path differs")
}
