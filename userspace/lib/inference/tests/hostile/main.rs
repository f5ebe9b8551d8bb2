//! Files that are not what they should be, on the whole way to an answer.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // Helpers of tests count as tests.

mod drive;

use std::process::Command;

use capos_hostile_models::{End, HostileModel, Random, all, changed, named};
use drive::{Way, drive};

/// Says to this test's own program which file it is to go all the way with.
const CHILD: &str = "CAPOS_HOSTILE_MODEL";
/// KiB of memory of such a program.
const MEMORY: u32 = 2 << 20;

#[test]
fn a15_every_hostile_file_ends_in_words_or_in_an_answer() {
    let (mut kinds, mut wrong) = ([0; 3], Vec::new());
    for HostileModel { name, end, file } in all().unwrap() {
        let way = match end {
            End::Exhausts => continue,
            _ => drive(&file),
        };
        let (kind, good) = match (end, &way) {
            (End::Refused(why), Way::Refused(said)) => (0, said.contains(why) && !said.is_empty()),
            (End::Fails(why), Way::Failed(said)) => (1, said.contains(why) && !said.is_empty()),
            (End::Answers, Way::Answered) => (2, true),
            (End::Words, _) => (2, true),
            _ => (0, false),
        };
        if !good {
            wrong.push(format!("{name}: {way:?} and not {end:?}"));
        }
        kinds[kind] += 1;
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(kinds.iter().all(|count| *count > 5), "{kinds:?}");
}

/// What asks for more memory than there is ends its process, in words, and no other.
#[test]
fn a15_what_exhausts_memory_ends_its_own_process() {
    let mut count = 0;
    for model in all().unwrap().iter().filter(|model| model.end == End::Exhausts) {
        let limited = format!("ulimit -v {MEMORY} && exec \"$0\" --exact --nocapture in_a_process_of_its_own");
        let program = std::env::current_exe().unwrap();
        let ran = Command::new("sh").args(["-c", &limited]).arg(program).env(CHILD, model.name).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(!ran.status.success() && said.contains("memory allocation of "), "{}: {said}", model.name);
        count += 1;
    }
    assert!(count > 0);
}

/// Does something only where the test above starts it.
#[test]
fn in_a_process_of_its_own() {
    if let Ok(name) = std::env::var(CHILD) {
        panic!("{:?}", drive(&named(&name).unwrap().file));
    }
}

#[test]
fn a15_whatever_bytes_are_changed_there_are_words_or_an_answer() {
    let mut random = Random::new(1);
    let (mut refused, mut answered) = (0, 0);
    let sound = ["sound", "merges-that-double", "more-rows-than-tokens", "embedder"];
    for original in sound.map(|name| named(name).unwrap().file) {
        for _ in 0..200 {
            match drive(&changed(&original, &mut random)) {
                Way::Answered => answered += 1,
                Way::Refused(why) | Way::Failed(why) => {
                    assert!(!why.is_empty());
                    refused += 1;
                }
            }
        }
    }
    // Both happen, or the changes would show nothing.
    assert!(answered > 50 && refused > 50, "{answered} answered, {refused} refused");
}
