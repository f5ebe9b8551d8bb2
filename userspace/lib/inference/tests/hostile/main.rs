//! Malformed files, on the whole path to an answer.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // Helpers of tests count as tests.

mod drive;

use capos_hostile_models::{End, HostileModel, Random, all, changed, named};
use drive::{Way, drive};

#[test]
fn a15_every_hostile_file_ends_in_words_or_in_an_answer() {
    let (mut kinds, mut wrong) = ([0; 3], Vec::new());
    for HostileModel { name, end, file } in all().unwrap() {
        let way = drive(&file);
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
