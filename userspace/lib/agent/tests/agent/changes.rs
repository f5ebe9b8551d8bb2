//! What calls change in files.

use capos_agent::TurnEnd;
use capos_agent::world::Answer;
use capos_schema::models::Outcome;
use serde_json::{Value, json};

use crate::world::*;

fn two_writes() -> World {
    let write = |id: &str| vec![call(id, "write", &format!("{{\"n\":1,\"path\":\"{id}.txt\"}}"))];
    let world = World::new(vec![write("a"), write("b"), vec![]]);
    world.0.answers.borrow_mut().extend([Answer::Yes, Answer::Yes]);
    world
}

/// Requirement C37: what a call changed in a file is kept with its call, its file and its label.
#[test]
fn c37_what_a_call_changed_is_kept() {
    let world = two_writes();
    *world.0.kept.borrow_mut() = Some(Ok(vec![]));
    assert_eq!(turn(&world).0, TurnEnd::Answered);
    let kept = world.0.kept.borrow().clone().unwrap().unwrap();
    let changes: Vec<&[String; 3]> = kept.iter().filter(|[name, ..]| name.starts_with("change-")).collect();
    // The whole of the result is the first.
    let [[first, about, text], [second, ..]] = changes.as_slice() else { panic!("{kept:?}") };
    assert_eq!((first.as_str(), second.as_str(), text.as_str()), ("change-1.1.2", "change-1.2.2", "-old\n+new\n"));
    let about: Value = serde_json::from_str(about).unwrap();
    assert_eq!(about, json!({"callId": "a", "label": ["pii.log"], "path": "a.txt", "tool": "write"}));
}

/// Requirement C37: if it cannot be kept, the person is told once, and the call has its result all the same.
#[test]
fn c37_what_cannot_be_kept_is_told_once() {
    let world = two_writes();
    *world.0.kept.borrow_mut() = Some(Err("the store does not answer".into()));
    assert_eq!(turn(&world).0, TurnEnd::Answered);
    assert_eq!(world.outcomes(), [Outcome::Ok, Outcome::Ok]);
    let shown = world.0.shown.borrow();
    let told: Vec<&String> = shown.iter().filter(|line| line.contains("the change of ")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("is not kept: the store does not answer; the file is changed"), "{told:?}");
}
