//! An ordinary program on `std` that attacks what it was not granted: through `std`, through C's functions below it,
//! and through the thread's ring below those.
//!
//! Its argument names the attack. It ends with code 0 if every step was rejected with the right error, and otherwise
//! with code 1 and a line that names the step. Some attacks are meant to end the process; the runner knows which.
//! Without an argument it runs all attacks that return, and prints `ok NAME` or `FAILED NAME: why` for each.
//!
//! It needs the grants `home`, a directory that it may fill, and `books`, one that it may read, which holds `book`;
//! perhaps the single file `letter`. A neighbour keeps `/other/diary` in the same volume.
#![deny(unsafe_code)]

mod arguments;
#[allow(unsafe_code, reason = "C's functions as a program that means harm calls them")]
mod c;
mod descriptors;
mod exhaust;
mod paths;
mod races;
mod read_only;
#[allow(unsafe_code, reason = "what lies below C's functions")]
mod ring;
mod system_calls;

use std::io;

type Outcome = Result<(), String>;
type Attack = fn() -> Outcome;

/// Attacks that return.
const ATTACKS: &[(&str, Attack)] = &[
    ("std-climbing-paths", paths::climbing),
    ("std-other-names", paths::other_names),
    ("std-malformed-paths", paths::malformed),
    ("std-links", paths::links),
    ("std-read-only-grants", read_only::grants),
    ("std-read-only-files", read_only::files),
    ("std-renames-in-between", races::renames),
    ("std-changing-paths", races::changing_paths),
    ("std-wrong-descriptors", descriptors::wrong),
    ("std-descriptors-of-the-wrong-kind", descriptors::of_the_wrong_kind),
    ("std-reused-descriptors", descriptors::reused),
    ("std-descriptors-across-threads", descriptors::across_threads),
    ("std-all-descriptors", exhaust::descriptors),
    ("std-all-open-files", exhaust::open_files),
    ("std-all-memory", exhaust::memory),
    ("std-all-threads", exhaust::threads),
    ("std-signals", system_calls::signals),
    ("std-other-processes", system_calls::processes),
    ("std-missing-system-calls", system_calls::missing),
    ("std-futex", system_calls::futex),
    ("std-huge-arguments", arguments::huge),
    ("std-guessed-capabilities", ring::guessed_capabilities),
    ("std-forged-entries", ring::forged_entries),
];

fn check(holds: bool, what: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(what()) }
}

/// For `map_err`: says what failed.
fn told<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> String + use<'_, E> {
    move |error| format!("{what}: {error}")
}

/// Passes if an operation was refused with this number of C's, and no other.
fn refused<T>(result: io::Result<T>, number: i32, what: &str) -> Outcome {
    let wanted = || io::Error::from_raw_os_error(number);
    match result {
        Ok(_) => Err(format!("{what} was done; it should have been refused: {}", wanted())),
        Err(error) if error.raw_os_error() == Some(number) => Ok(()),
        Err(error) => Err(format!("{what} was refused with `{error}` in place of `{}`", wanted())),
    }
}

/// An attack that ends the process, if everything is as it should be.
fn ending(name: &str, argument: &str) -> Outcome {
    match name {
        "std-no-memory-left" => exhaust::no_memory_left(),
        "std-deep-recursion" => exhaust::deep_recursion(),
        "std-deep-recursion-of-a-thread" => exhaust::deep_recursion_of_a_thread(),
        "std-system-call-instruction" => ring::system_call_instruction(argument),
        "std-code-in-data" => ring::code_in_data(),
        "std-write-launch-record" => ring::write_launch_record(),
        "std-forged-tail" => ring::forged_tail(),
        "std-forged-head" => ring::forged_head(),
        "std-stolen-answers" => ring::stolen_answers(),
        "std-random-entries" => ring::random_entries(argument),
        _ => Err(format!("there is no attack `{name}`")),
    }
}

fn all() -> i32 {
    let mut failed = 0_usize;
    for (name, attack) in ATTACKS {
        match attack() {
            Ok(()) => println!("ok {name}"),
            Err(why) => {
                failed = failed.saturating_add(1);
                println!("FAILED {name}: {why}");
            }
        }
    }
    println!("{} passed, {failed} failed", ATTACKS.len().saturating_sub(failed));
    i32::from(failed > 0)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize| arguments.get(at).map_or("", String::as_str);
    let code = match argument(0) {
        "" => all(),
        "std-nothing" => 0,
        name => {
            let attack = ATTACKS.iter().find(|(known, _)| *known == name);
            match attack.map_or_else(|| ending(name, argument(1)), |(_, attack)| attack()) {
                Ok(()) => 0,
                Err(why) => {
                    eprintln!("{name}: {why}");
                    1
                }
            }
        }
    };
    std::process::exit(code);
}
