//! Attachments: bounded, counted, whole, and gone with their conversation.

use capos_conversations::{Attachment, Error, MAX_ATTACHMENT, MAX_ATTACHMENTS, MAX_PART, Owner, Quota};
use capos_keyspace::{Keyspace, Range};

use crate::world::{World, done, id, world};

fn begun(bytes: u64) -> (World, Owner, String) {
    let store = world(Quota { bytes, ..Quota::default() });
    let owner = done(store.owner("ann", 0)).unwrap();
    done(store.create(owner, &id(1), "", 1)).unwrap();
    (store, owner, id(1))
}

fn attach(store: &World, owner: Owner, id: &str, name: &str, (part, text): (u32, &str)) -> Result<(), Error> {
    done(store.attach(owner, id, (name, "{}"), (part, text), 2))
}

/// Requirement C37: parts come in order, each once, and are read as they were kept.
#[test]
fn c37_an_attachment_is_kept_part_by_part() {
    let (store, owner, id) = begun(1 << 20);
    attach(&store, owner, &id, "result-1", (0, "one")).unwrap();
    attach(&store, owner, &id, "result-1", (1, "two")).unwrap();
    // Again after a lost answer, and not as another text.
    attach(&store, owner, &id, "result-1", (1, "two")).unwrap();
    assert!(attach(&store, owner, &id, "result-1", (1, "three")).unwrap_err().to_string().contains("another one"));
    assert!(attach(&store, owner, &id, "result-1", (3, "four")).unwrap_err().to_string().contains("part 2"));
    attach(&store, owner, &id, "result-10", (0, "ten")).unwrap();
    let read = |name: &str, from| done(store.attachment(owner, &id, name, from, 3)).unwrap().texts;
    assert_eq!((read("result-1", 0), read("result-1", 1)), (vec!["one".into(), "two".into()], vec!["two".into()]));
    assert_eq!(read("result-10", 0), ["ten"]);
    let all = done(store.attachments(owner, &id, 3)).unwrap();
    let of = |name: &str, parts, bytes| Attachment { name: name.into(), about: "{}".into(), parts, bytes };
    assert_eq!(all, [of("result-1", 2, 6), of("result-10", 1, 3)]);
    // Those of others are not seen.
    let other = done(store.owner("bob", 0)).unwrap();
    assert!(matches!(done(store.attachments(other, &id, 3)), Err(Error::NoSuch(_))));
    assert!(matches!(done(store.attachment(owner, &id, "none", 0, 3)), Err(Error::NoSuch(_))));
}

/// Requirement C37: count, size and the principal's quota are bounded; what the conversation's removal frees is what it took.
#[test]
fn c37_attachments_are_bounded_and_go_with_their_conversation() {
    let (store, owner, id) = begun(8 << 20);
    let part = "x".repeat(MAX_PART);
    let parts = u32::try_from(MAX_ATTACHMENT / MAX_PART as u64).unwrap();
    for number in 0..parts {
        attach(&store, owner, &id, "long", (number, &part)).unwrap();
    }
    assert!(matches!(attach(&store, owner, &id, "long", (parts, "x")), Err(Error::Full(_))));
    assert!(done(store.attachment(owner, &id, "long", 0, 3)).unwrap().more);
    for number in 1..MAX_ATTACHMENTS {
        attach(&store, owner, &id, &format!("n{number}"), (0, "x")).unwrap();
    }
    assert!(matches!(attach(&store, owner, &id, "more", (0, "x")), Err(Error::Full(_))));
    for name in ["", "a/b", "a b", &"n".repeat(81)] {
        assert!(matches!(attach(&store, owner, &id, name, (0, "x")), Err(Error::Invalid(_))), "{name}");
    }
    // The quota is the principal's.
    let (small, owner_of_small, _) = begun(100 << 10);
    attach(&small, owner_of_small, &id, "a", (0, &part)).unwrap();
    assert!(matches!(attach(&small, owner_of_small, &id, "b", (0, &part)), Err(Error::Full(_))));
    done(small.remove(owner_of_small, &id, 4)).unwrap();
    done(small.create(owner_of_small, &id, "", 5)).unwrap();
    assert!(done(small.attachments(owner_of_small, &id, 6)).unwrap().is_empty());
    attach(&small, owner_of_small, &id, "b", (0, &part)).unwrap();
    for table in ["attachments", "pieces"] {
        let all = Range { most: 10, ..Range::all(table) };
        assert_eq!(done(small.space().range(all)).unwrap().entries.len(), 1, "{table}");
    }
}
