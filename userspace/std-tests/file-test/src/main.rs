//! Files, directories, pipes and sockets of `std`. Prints `ok NAME` or `FAILED NAME: why` for each; runs on Linux as
//! well.
//!
//! The argument is a directory that it may fill: `/home` on capOS, where it checks its grants, too.
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "std has no name for them")]
mod counters;
mod directories;
mod files;
mod grants;
#[allow(unsafe_code, reason = "memory that is mapped is used as such")]
mod mapping;
mod streams;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

type Outcome = Result<(), String>;
type Test = fn(&Path) -> Outcome;

fn check(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

/// For `map_err`: says what failed.
fn told<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{what}: {error}")
}

/// Passes if an operation failed, and in this way.
fn fails<T>(result: io::Result<T>, kind: io::ErrorKind, what: &str) -> Outcome {
    match result {
        Ok(_) => Err(format!("{what} was done")),
        Err(error) if error.kind() == kind => Ok(()),
        Err(error) => Err(format!("{what} failed by {:?} ({error}) and not by {kind:?}", error.kind())),
    }
}

fn run(base: &Path, name: &str, test: Test) -> Outcome {
    let folder: PathBuf = base.join(name.replace(' ', "-"));
    fs::create_dir_all(&folder).map_err(told("making the test's directory"))?;
    test(&folder)?;
    fs::remove_dir_all(&folder).map_err(told("removing the test's directory"))?;
    check(!folder.exists(), "the test's directory is still there")
}

fn main() {
    let base = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("/home"), PathBuf::from);
    let base = base.join("file-test");
    let parts = [files::TESTS, directories::TESTS, mapping::TESTS, streams::TESTS, counters::TESTS];
    let own: &[(&str, Test)] = if cfg!(capos_guest) { grants::TESTS } else { &[] };
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in parts.into_iter().flatten().chain(own) {
        match run(&base, name, *test) {
            Ok(()) => {
                passed += 1;
                println!("ok {name}");
            }
            Err(why) => {
                failed += 1;
                println!("FAILED {name}: {why}");
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    std::process::exit(i32::from(failed > 0));
}
