//! Runs: a point comes with its message or not at all, one run of a conversation is open, and what is damaged is told.

use capos_conversations::{Conversations, Error, MAX_HEAD, Owner, Part, Point, Quota, Run};
use capos_keyspace::{Batch, Durability, Keyspace, Range};

use crate::world::{Lose, World, done, id, json, list, read, world};

fn point(turn: u32, step: u32) -> Point {
    let head = if step == 0 { format!("{{\"turn\":{turn}}}") } else { String::new() };
    let used = if step == 0 { String::new() } else { format!("[{step}]") };
    Point { turn, step, open: true, head, json: format!("{{\"step\":{step}}}"), used }
}

fn message(index: u32, content: &str) -> Part {
    Part { index, part: 0, last: true, text: json(content) }
}

fn begun() -> (World, Owner, String) {
    let store = world(Quota::default());
    let owner = done(store.owner("ann", 0)).unwrap();
    done(store.create(owner, &id(1), "", 1)).unwrap();
    (store, owner, id(1))
}

fn last(store: &World, owner: Owner, id: &str) -> Run {
    done(store.run(owner, id, 9)).unwrap().unwrap()
}

fn all(store: &World, owner: Owner, most: u32) -> Vec<(String, u32, bool)> {
    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        let page = done(store.runs(owner, &next, most, 9)).unwrap();
        assert!(page.runs.len() <= most as usize);
        found.extend(page.runs.into_iter().map(|run| (run.conversation, run.turn, run.open)));
        next = page.next;
        if next.is_empty() {
            return found;
        }
    }
}

/// Requirement F10: message and point are one transaction, whatever operation of the store is lost.
#[test]
fn f10_a_point_comes_with_its_message_or_not_at_all() {
    for lose in 1..40 {
        for how in [Lose::Before, Lose::After] {
            let (store, owner, id) = begun();
            done(store.append(owner, &id, &message(0, "a"), "m", Some(&point(1, 0)), 2)).unwrap();
            // A lost answer is asked for again, so two in a row are lost.
            let at = store.space().operations.get() + lose;
            store.space().at.set(Some((at, how)));
            let appended = done(store.append(owner, &id, &message(1, "b"), "m", Some(&point(1, 1)), 3));
            store.space().at.set(None);
            let messages = read(&store, owner, &id, 9).unwrap().len();
            let run = last(&store, owner, &id);
            assert_eq!(run.json, format!("{{\"step\":{}}}", messages - 1), "{lose} {how:?}");
            assert_eq!(done(store.steps(owner, &id, 1, 0, 9)).unwrap().len(), messages - 1);
            assert!(messages == 2 || appended.is_err());
        }
    }
}

/// Requirements F14, I08: at a clean end the head goes, and what the run was stays; another run closes the one before.
#[test]
fn f14_one_run_of_a_conversation_is_open() {
    let (store, owner, id) = begun();
    for turn in 1..4 {
        done(store.append(owner, &id, &message(turn - 1, "a"), "m", Some(&point(turn, 0)), 2)).unwrap();
    }
    assert_eq!(all(&store, owner, 1), [(id.clone(), 3, true), (id.clone(), 2, false), (id.clone(), 1, false)]);
    let run = last(&store, owner, &id);
    assert_eq!((run.turn, run.open, run.head.as_str(), run.json.as_str()), (3, true, "{\"turn\":3}", "{\"step\":0}"));
    done(store.checkpoint(owner, &id, &point(3, 1), 4)).unwrap();
    done(store.checkpoint(owner, &id, &Point { open: false, ..point(3, 2) }, 5)).unwrap();
    let run = last(&store, owner, &id);
    assert_eq!((run.open, run.head.as_str(), run.json.as_str(), run.changed), (false, "", "{\"step\":2}", 5));
    let steps = done(store.steps(owner, &id, 3, 0, 9)).unwrap();
    assert_eq!(
        steps.iter().map(|step| (step.number, step.used.as_str())).collect::<Vec<_>>(),
        [(1, "[1]"), (2, "[2]")]
    );
    // What did not begin has no point.
    let error = done(store.checkpoint(owner, &id, &point(4, 1), 6)).unwrap_err();
    assert_eq!(error.to_string(), "no run of turn 4 has begun here");
    // A fork has the messages, and no run.
    let fork = crate::world::id(2);
    done(store.fork(owner, &id, 2, (&fork, ""), 7)).unwrap();
    assert_eq!(done(store.run(owner, &fork, 9)).unwrap(), None);
    assert_eq!(all(&store, owner, 100).len(), 3);
}

/// No run can be continued without its head: a point opens a run that is closed only if the head comes with it.
#[test]
fn a_closed_run_is_opened_again_only_with_its_head() {
    let (store, owner, id) = begun();
    done(store.append(owner, &id, &message(0, "a"), "m", Some(&point(1, 0)), 2)).unwrap();
    done(store.checkpoint(owner, &id, &Point { open: false, ..point(1, 1) }, 3)).unwrap();
    let why = done(store.checkpoint(owner, &id, &point(1, 2), 4)).unwrap_err().to_string();
    assert_eq!(why, "this run has ended; only its head begins it again");
    assert!(!last(&store, owner, &id).open);
    done(store.checkpoint(owner, &id, &Point { open: false, ..point(1, 3) }, 5)).unwrap();
    done(store.checkpoint(owner, &id, &Point { head: "{\"turn\":1}".into(), ..point(1, 4) }, 6)).unwrap();
    let run = last(&store, owner, &id);
    assert_eq!((run.open, run.head.as_str(), run.json.as_str()), (true, "{\"turn\":1}", "{\"step\":4}"));
}

/// A store that does not answer says nothing about a run.
#[test]
fn a_store_that_is_silent_does_not_set_a_run_aside() {
    let (store, owner, id) = begun();
    done(store.append(owner, &id, &message(0, "a"), "m", Some(&point(1, 0)), 2)).unwrap();
    for at in 1..6 {
        store.space().at.set(Some((store.space().operations.get() + at, Lose::Before)));
        match done(store.run(owner, &id, 9)) {
            Ok(run) => assert!(run.unwrap().open),
            Err(why) => assert!(matches!(why, Error::Fault(_)), "{why}"),
        }
        store.space().at.set(None);
    }
    assert!(last(&store, owner, &id).open);
}

/// What a conversation's runs count is free again once it is removed, and nothing of them is left.
#[test]
fn runs_are_counted_and_go_with_their_conversation() {
    let (store, owner, id) = begun();
    let quota = Quota { bytes: 6000, ..Quota::default() };
    let small = Conversations::new(store.space().inner.clone(), quota);
    let mut refused = None;
    for index in 0..40 {
        let point = Point { turn: 1, ..point(1, index) };
        let appended = done(small.append(owner, &id, &message(index, "a"), "m", Some(&point), 2));
        if let Err(why) = appended {
            refused = Some((index, why));
            break;
        }
    }
    let (index, why) = refused.unwrap();
    assert!(matches!(why, Error::Full(_)), "{why}");
    // The end is kept all the same.
    done(small.checkpoint(owner, &id, &Point { open: false, ..point(1, index) }, 3)).unwrap();
    done(small.remove(owner, &id, 4)).unwrap();
    for table in ["runs", "heads", "steps", "messages"] {
        assert!(done(store.space().range(Range::all(table))).unwrap().entries.is_empty(), "{table}");
    }
    done(small.create(owner, &id, "", 5)).unwrap();
    for at in 0..index {
        done(small.append(owner, &id, &message(at, "a"), "m", Some(&point(1, at)), 6)).unwrap();
    }
}

/// Requirement F12: a record that cannot be read is told with its reason, keeps nobody from another run, and is set aside as it is.
#[test]
fn f12_a_run_that_cannot_be_read_is_set_aside() {
    let (store, owner, id) = begun();
    done(store.append(owner, &id, &message(0, "a"), "m", Some(&point(1, 0)), 2)).unwrap();
    done(store.set_aside(owner, &id, 1, "it is of version 2", 3)).unwrap();
    let run = last(&store, owner, &id);
    assert_eq!((run.open, run.aside.as_str(), run.head.as_str()), (false, "it is of version 2", "{\"turn\":1}"));
    let error = done(store.checkpoint(owner, &id, &point(1, 1), 4)).unwrap_err().to_string();
    assert_eq!(error, "this run was set aside: it is of version 2");
    // The row itself.
    let key = done(store.space().range(Range::all("runs"))).unwrap().entries.remove(0).0;
    done(store.space().inner.commit(Batch::new().put("runs", &key, b"{\"open\":tr"), Durability::Now)).unwrap();
    let run = last(&store, owner, &id);
    assert!(run.aside.contains("the record of a run cannot be read"), "{run:?}");
    assert_eq!((run.turn, run.open, run.head.as_str()), (1, false, ""));
    let kept = done(store.space().range(Range::all("runs"))).unwrap().entries.remove(0).1;
    assert_eq!(kept, b"{\"open\":tr", "it stays as it is");
    let page = done(store.runs(owner, "", 9, 9)).unwrap();
    assert!(page.runs[0].aside.contains("the record of a run cannot be read"), "{page:?}");
    done(store.append(owner, &id, &message(1, "b"), "m", Some(&point(2, 0)), 5)).unwrap();
    assert_eq!(last(&store, owner, &id).turn, 2);
    done(store.remove(owner, &id, 6)).unwrap();
    assert!(list(&store, owner, 9).is_empty());
}

#[test]
fn points_have_bounds() {
    let (store, owner, id) = begun();
    for bad in [
        Point { head: "x".repeat(MAX_HEAD + 1), ..point(1, 0) },
        Point { json: "a\nb".into(), ..point(1, 0) },
        Point { json: String::new(), ..point(1, 0) },
        Point { step: u32::MAX, ..point(1, 0) },
        point(0, 0),
    ] {
        assert!(matches!(done(store.checkpoint(owner, &id, &bad, 2)), Err(Error::Invalid(_))), "{bad:?}");
    }
    assert!(matches!(done(store.set_aside(owner, &id, 1, "", 2)), Err(Error::NoSuch(_))));
    assert_eq!(done(store.run(owner, &id, 9)).unwrap(), None);
}

/// Requirement F17: a conversation that takes no more messages takes checkpoints, and they are as long as any.
#[test]
fn f17_a_conversation_at_its_limit_has_checkpoints_without_messages() {
    let (store, owner, id) = begun();
    let long = json(&"x".repeat(60_000));
    let mut index = 0;
    let why = loop {
        let part = Part { index, part: 0, last: true, text: long.clone() };
        match done(store.append(owner, &id, &part, "m", Some(&Point { turn: 1, ..point(1, index) }), 2)) {
            Ok(_) => index += 1,
            Err(why) => break why,
        }
    };
    assert!(why.to_string().contains("4 MiB, which is the limit"), "{why}");
    // The step is not kept with the message that was rejected.
    assert_eq!(last(&store, owner, &id).json, format!("{{\"step\":{}}}", index - 1));
    done(store.checkpoint(owner, &id, &point(1, index), 3)).unwrap();
    let run = last(&store, owner, &id);
    assert_eq!((run.open, run.json), (true, format!("{{\"step\":{index}}}")));
}
