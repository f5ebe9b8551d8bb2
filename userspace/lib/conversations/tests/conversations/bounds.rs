//! Bounds, the messages of errors, and what is counted.

use capos_conversations::*;
use capos_keyspace::{Keyspace, Range};

use crate::world::*;

fn one(store: &World, number: u8, now: u64) -> (Owner, String) {
    let owner = done(store.owner("ann", now)).unwrap();
    done(store.create(owner, &id(number), "", now)).unwrap();
    (owner, id(number))
}

fn add(store: &World, owner: Owner, id: &str, index: u32, content: &str, now: u64) {
    for part in parts(index, &json(content), MAX_PART) {
        done(store.append(owner, id, &part, "", None, now)).unwrap();
    }
}

/// F02: the list of 10,000 conversations reads no message, and takes two operations for a page of 100.
#[test]
fn f02_ten_thousand_conversations_are_listed_by_pages() {
    let store = world(Quota::default());
    let owner = done(store.owner("ann", 0)).unwrap();
    for number in 0..10_000_u64 {
        let id = format!("{number:032x}");
        done(store.create(owner, &id, "a title", number)).unwrap();
        if number % 100 == 0 {
            add(&store, owner, &id, 0, &"long ".repeat(2000), number);
        }
    }
    let before = store.space().operations.get();
    let (mut count, mut next, mut last) = (0, String::new(), u64::MAX);
    loop {
        let listed = done(store.list(owner, &next, MAX_PAGE, 10_000)).unwrap();
        for info in &listed.conversations {
            assert!(info.changed < last);
            last = info.changed;
        }
        count += listed.conversations.len();
        next = listed.next;
        if next.is_empty() {
            break;
        }
    }
    let operations = store.space().operations.get() - before;
    println!("{count} conversations listed with {operations} operations");
    assert_eq!((count, operations), (10_000, 200));
    let before = store.space().operations.get();
    let listed = done(store.list(owner, "", 20, 10_000)).unwrap();
    assert_eq!((listed.conversations.len(), store.space().operations.get() - before), (20, 2));
}

#[test]
fn an_append_takes_few_operations() {
    let store = world(Quota::default());
    let (owner, id) = one(&store, 1, 0);
    add(&store, owner, &id, 0, "first", 1);
    let before = store.space().operations.get();
    add(&store, owner, &id, 1, "second", 2);
    assert_eq!(store.space().operations.get() - before, 5, "record, its place, account, size, commit");
}

#[test]
fn long_messages_arrive_in_parts() {
    let store = world(Quota::default());
    let (owner, id) = one(&store, 1, 0);
    let long = json(&"abcdefgh".repeat(40_000));
    let all = parts(0, &long, MAX_PART);
    assert!(all.len() > 4);
    for part in &all[..2] {
        assert_eq!(done(store.append(owner, &id, part, "", None, 1)).unwrap(), 0);
    }
    assert!(read(&store, owner, &id, 1).unwrap().is_empty(), "a message that is not whole is not there");
    // A part again, one too early, and the message of another conversation, which ends this one.
    assert_eq!(done(store.append(owner, &id, &all[1], "", None, 1)).unwrap(), 0);
    assert!(
        done(store.append(owner, &id, &all[3], "", None, 1))
            .unwrap_err()
            .to_string()
            .contains("part 2 of message 0 is the next")
    );
    let (_, other) = one(&store, 2, 2);
    done(store.append(owner, &other, &parts(0, &long, 30_000)[0], "", None, 2)).unwrap();
    let error = done(store.append(owner, &id, &all[2], "", None, 2)).unwrap_err().to_string();
    assert!(error.contains("from its first part on"), "{error}");
    for part in &all {
        done(store.append(owner, &id, part, "", None, 3)).unwrap();
    }
    assert_eq!(read(&store, owner, &id, 3).unwrap(), [long.as_str()]);
    for part in &all {
        assert_eq!(done(store.append(owner, &id, part, "", None, 3)).unwrap(), 1, "what is there is accepted again");
    }
    done(store.remove(owner, &id, 3)).unwrap();
    done(store.remove(owner, &other, 3)).unwrap();
    assert!(done(store.space().range(Range::all("messages"))).unwrap().entries.is_empty());
}

#[test]
fn bounds_are_told() {
    let store = world(Quota { conversations: 2, bytes: 3000 });
    let (owner, id) = one(&store, 1, 0);
    let part = |index, text: String| Part { index, part: 0, last: true, text };
    let says = |answer: Result<u32, Error>, words: &str| {
        let error = answer.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    let append = |part: Part| done(store.append(owner, &id, &part, "", None, 1));
    says(append(part(1, json("x"))), "message 0 is the next one");
    says(append(part(0, "x".repeat(MAX_PART + 1))), "at most 65536 bytes");
    says(append(part(0, "{\"role\":1}".into())), "this is not a message: missing field `content`");
    says(append(part(0, json(&"x".repeat(4000)))), "the conversations take 0 MiB, which is the limit; delete some");
    append(part(0, json("x"))).unwrap();
    says(append(part(0, json("y"))), "is another one");
    done(store.create(owner, &crate::world::id(2), "", 1)).unwrap();
    let third = done(store.create(owner, &crate::world::id(3), "", 1)).map(|_| 0);
    says(third, "there are 2 conversations, which is the limit; delete some with /forget");
    for bad in ["", "12", "xyz0", "ABCD"] {
        says(done(store.info(owner, bad, 1)).map(|_| 0), "is no id of a conversation");
    }
    says(
        done(store.info(owner, "0123", 1)).map(|_| 0),
        "there is no conversation 0123: list the conversations, and name one of those",
    );
    says(done(store.list(owner, "zz", 1, 1)).map(|_| 0), "a page begins at");
    says(done(store.search(owner, " ", "", 1, 1)).map(|_| 0), "there is no text");
    says(done(store.fork(owner, &id, 2, (&crate::world::id(4), ""), 1)).map(|_| 0), "has 1 messages, and not 2");
    says(done(store.rename(owner, &id, &"x".repeat(201), 1)).map(|_| 0), "at most 200 bytes");
    says(done(store.expire(owner, &id, MAX_SECONDS + 1, 1)).map(|_| 0), "lives at most");
    assert!(done(store.owner("", 1)).is_err() && done(store.owner("\0next", 1)).is_err());
}

/// P06: after its time a conversation is neither listed nor read, and the tables have nothing of it.
#[test]
fn p06_what_expires_is_deleted() {
    let store = world(Quota::default());
    let (owner, id) = one(&store, 1, 0);
    add(&store, owner, &id, 0, "secret", 1000);
    assert_eq!(done(store.expire(owner, &id, 60, 1000)).unwrap().expires, 61_000);
    add(&store, owner, &id, 1, "more", 2000);
    assert_eq!(read(&store, owner, &id, 61_999).unwrap().len(), 2, "a change makes it live longer");
    assert!(read(&store, owner, &id, 62_000).is_err());
    assert_eq!(done(store.space().range(Range::all("messages"))).unwrap().entries.len(), 2);
    // Somebody else's list sweeps it as well.
    let other = done(store.owner("bob", 62_000)).unwrap();
    assert!(list(&store, other, 62_000).is_empty());
    assert!(done(store.space().range(Range::all("messages"))).unwrap().entries.is_empty());
    // So does opening.
    done(store.create(owner, &id, "", 63_000)).unwrap();
    done(store.expire(owner, &id, 1, 63_000)).unwrap();
    let again = Conversations::new(Counted::new(store.space().inner.clone()), Quota::default());
    done(again.owner("ann", 64_000)).unwrap();
    assert!(done(again.space().range(Range::all("conversations"))).unwrap().entries.is_empty());
}

/// F02: a fork holds its parent's messages by reference, and keeps them.
#[test]
fn f02_forks_keep_what_they_need_of_a_removed_parent() {
    let store = world(Quota::default());
    let (owner, parent) = one(&store, 1, 0);
    for index in 0..4 {
        add(&store, owner, &parent, index, &format!("message {index}"), 1);
    }
    done(store.fork(owner, &parent, 2, (&id(2), ""), 2)).unwrap();
    let messages = || done(store.space().range(Range::all("messages"))).unwrap().entries.len();
    assert_eq!(messages(), 4, "nothing is copied");
    add(&store, owner, &id(2), 2, "of the fork", 3);
    done(store.remove(owner, &parent, 4)).unwrap();
    assert_eq!(messages(), 3);
    assert_eq!(read(&store, owner, &id(2), 4).unwrap().len(), 3);
    // Another conversation with the same id has messages of its own.
    done(store.create(owner, &parent, "", 5)).unwrap();
    add(&store, owner, &parent, 0, "another", 5);
    assert_eq!(read(&store, owner, &id(2), 5).unwrap()[0], json("message 0"));
    done(store.remove(owner, &parent, 5)).unwrap();
    done(store.remove(owner, &id(2), 5)).unwrap();
    assert_eq!(messages(), 0);
    // Forks of forks, as far as that goes.
    let (_, mut last) = one(&store, 0, 6);
    add(&store, owner, &last, 0, "0", 6);
    for number in 1..=MAX_FORKS as u8 {
        done(store.fork(owner, &last, number.into(), (&id(number), ""), 6)).unwrap();
        last = id(number);
        add(&store, owner, &last, number.into(), "more", 6);
    }
    let error = done(store.fork(owner, &last, MAX_FORKS as u32 + 1, (&id(99), ""), 6)).unwrap_err().to_string();
    assert!(error.contains("32 times, which is the limit; fork one of its parents"), "{error}");
    done(store.fork(owner, &last, 5, (&id(98), ""), 6)).unwrap();
}

#[test]
fn tables_of_another_version_are_left_alone() {
    let store = world(Quota::default());
    let mut batch = capos_keyspace::Batch::new();
    batch.put("format", b"version", &2_u32.to_le_bytes());
    done(store.space().commit(&batch, capos_keyspace::Durability::Now)).unwrap();
    let error = done(store.owner("ann", 0)).unwrap_err().to_string();
    assert!(error.contains("of version 2; this system knows 1"), "{error}");
}
