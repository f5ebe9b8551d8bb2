//! What is just allowed, and what repeated or unusual calls do.

use capos_conversations::*;

use crate::world::*;

fn ann(store: &World) -> Owner {
    done(store.owner("ann", 0)).unwrap()
}

fn add(store: &World, owner: Owner, id: &str, index: u32, text: &str) -> Result<u32, Error> {
    parts(index, text, MAX_PART).iter().map(|part| done(store.append(owner, id, part, "", None, 1))).last().unwrap()
}

/// A message of this many bytes.
fn message(bytes: usize) -> String {
    json(&"x".repeat(bytes - json("").len()))
}

/// A length is accepted up to its limit, and not beyond.
fn up_to<T>(most: usize, mut call: impl FnMut(String) -> Result<T, Error>) {
    for more in [0, 1, 2, 50] {
        let done = call("x".repeat(most + more));
        assert_eq!(done.is_ok(), more == 0, "{more} more than {most}");
    }
}

#[test]
fn lengths_reach_their_limits() {
    let store = world(Quota::default());
    let owner = ann(&store);
    up_to(MAX_PRINCIPAL, |name| done(store.owner(&name, 0)));
    assert!(done(store.owner("a\0b", 0)).is_err());
    done(store.create(owner, &id(1), "", 0)).unwrap();
    up_to(MAX_TITLE, |title| done(store.rename(owner, &id(1), &title, 0)));
    up_to(MAX_SEARCH, |text| done(store.search(owner, &text, "", 1, 0)));
    let mut fork = 1;
    up_to(MAX_TITLE, |title| {
        fork += 1;
        done(store.fork(owner, &id(1), 0, (&id(fork), &title), 0))
    });
    let mut index = 0;
    up_to(MAX_MODEL, |model| {
        let added = done(store.append(owner, &id(1), &parts(index, &json("m"), MAX_PART)[0], &model, None, 1));
        index += u32::from(added.is_ok());
        added
    });
    let part = |text: String| Part { index: 1, part: 0, last: false, text };
    up_to(MAX_PART, |text| done(store.append(owner, &id(1), &part(text), "", None, 1)));
    assert!(done(store.append(owner, &id(1), &part(String::new()), "", None, 1)).is_err());
    let (most, last) = (MAX_SECONDS, |seconds| done(store.expire(owner, &id(1), seconds, 1)).is_ok());
    assert!(last(most) && !last(most + 1) && !last(most + 2));
}

#[test]
fn messages_and_conversations_reach_their_limits() {
    let store = world(Quota::default());
    let owner = ann(&store);
    for more in [0, 1, 70_000] {
        let id = id(more.min(9) as u8);
        done(store.create(owner, &id, "", 0)).unwrap();
        assert_eq!(add(&store, owner, &id, 0, &message(MAX_MESSAGE + more)).is_ok(), more == 0, "{more} more");
    }
    let id = id(0);
    assert_eq!(add(&store, owner, &id, 1, &message(MAX_CONVERSATION as usize - MAX_MESSAGE)).unwrap(), 2);
    for bytes in [60, 100_000] {
        let error = add(&store, owner, &id, 2, &message(bytes)).unwrap_err().to_string();
        assert!(error.contains("more than 4 MiB"), "{error}");
    }
    assert_eq!(read(&store, owner, &id, 1).unwrap().len(), 2);
}

#[test]
fn the_first_message_gives_the_title_up_to_a_word() {
    let store = world(Quota::default());
    let owner = ann(&store);
    let word = |letters: usize| "w".repeat(letters);
    for (number, content, title) in [
        (1, format!("{} {} c", word(100), word(99)), format!("{} {}", word(100), word(99))),
        (2, format!("{} {} c", word(100), word(100)), word(100)),
        (3, word(200), word(200)),
        (4, word(201), word(200)),
        (5, "two \t lines".to_string(), "two lines".to_string()),
    ] {
        done(store.create(owner, &id(number), "", 0)).unwrap();
        add(&store, owner, &id(number), 0, &json(&content.replace('\t', "\\n"))).unwrap();
        add(&store, owner, &id(number), 1, &json("the second message")).unwrap();
        assert_eq!(done(store.info(owner, &id(number), 1)).unwrap().title, title);
    }
}

#[test]
fn pages_of_messages_have_bytes_at_most() {
    let store = world(Quota::default());
    let owner = ann(&store);
    done(store.create(owner, &id(1), "", 0)).unwrap();
    for index in 0..5 {
        add(&store, owner, &id(1), index, &message(60_000)).unwrap();
    }
    let page = |from: u32, most: u32| {
        let pages = done(store.read(owner, &id(1), (from, 0), most, 1)).unwrap();
        (pages.parts.iter().map(|part| part.index).collect::<Vec<_>>(), pages.more)
    };
    assert_eq!(page(0, 100), (vec![0, 1, 2], true), "192 KiB hold three of them");
    assert_eq!((page(3, 100), page(3, 1)), ((vec![3, 4], false), (vec![3], true)));
    assert_eq!(page(5, 100), (vec![], false));
}

#[test]
fn a_search_finds_all_on_pages_of_the_wanted_length() {
    let store = world(Quota::default());
    let owner = ann(&store);
    done(store.create(owner, &id(1), "", 0)).unwrap();
    // A message longer than one answer of the keyspace, between others.
    let long = json(&format!("{} needle", "hay ".repeat(200_000)));
    for (index, text) in (0..).zip([json("a needle"), long, json("hay"), json("the Needle")]) {
        add(&store, owner, &id(1), index, &text).unwrap();
    }
    let search = |from: &str, most: u32| {
        let results = done(store.search(owner, "needle", from, most, 1)).unwrap();
        (results.found.iter().map(|found| found.index).collect::<Vec<_>>(), results.next)
    };
    assert_eq!(search("", 10), (vec![3, 1, 0], String::new()));
    let (first, next) = search("", 2);
    assert_eq!((first, search(&next, 2)), (vec![3, 1], (vec![0], String::new())));
}

#[test]
fn a_fork_repeated_is_the_same_and_another_is_not() {
    let store = world(Quota::default());
    let owner = ann(&store);
    for number in 0..3 {
        done(store.create(owner, &id(number), "", 0)).unwrap();
        for index in 0..3 {
            add(&store, owner, &id(number), index, &json(&format!("{index} of {number}"))).unwrap();
        }
    }
    let fork = |parent: u8, messages: u32| done(store.fork(owner, &id(parent), messages, (&id(9), ""), 2));
    let made = fork(2, 2).unwrap();
    assert_eq!(fork(2, 2), Ok(made));
    for (parent, messages) in [(2, 1), (1, 2), (1, 1)] {
        let error = fork(parent, messages).unwrap_err().to_string();
        assert!(error.contains("there is already a conversation"), "{error}");
    }
    // An answer was lost: what the fork has of its parents, and of its own, is accepted again, and nothing else.
    add(&store, owner, &id(9), 2, &json("own")).unwrap();
    done(store.fork(owner, &id(9), 3, (&id(10), ""), 3)).unwrap();
    for (index, text) in [(0, "0 of 2"), (1, "1 of 2"), (2, "own")] {
        assert_eq!(add(&store, owner, &id(10), index, &json(text)), Ok(3));
        assert!(add(&store, owner, &id(10), index, &json("other")).is_err());
    }
    // Forks that add nothing take nothing of how often a fork can be forked.
    let mut last = id(0);
    for number in 20..20 + 2 * MAX_FORKS as u8 {
        done(store.fork(owner, &last, 3, (&id(number), ""), 4)).unwrap();
        last = id(number);
    }
    assert_eq!(read(&store, owner, &last, 4).unwrap().len(), 3);
}

#[test]
fn what_has_expired_gives_its_id_away() {
    let store = world(Quota::default());
    let owner = ann(&store);
    for number in [1, 2] {
        done(store.create(owner, &id(number), "old", 0)).unwrap();
        add(&store, owner, &id(number), 0, &json("old")).unwrap();
        done(store.expire(owner, &id(number), 1, 1)).unwrap();
    }
    assert_eq!(done(store.create(owner, &id(1), "again", 1000)).unwrap().messages, 1, "it has not expired yet");
    let again = done(store.create(owner, &id(1), "again", 5000)).unwrap();
    assert_eq!((again.title.as_str(), again.messages), ("again", 0));
    assert!(read(&store, owner, &id(1), 5000).unwrap().is_empty());
    assert_eq!(done(store.fork(owner, &id(1), 0, (&id(2), "forked"), 5000)).unwrap().title, "forked");
}

#[test]
fn removing_one_conversation_leaves_what_arrives_in_another() {
    let store = world(Quota::default());
    let owner = ann(&store);
    for number in [1, 2] {
        done(store.create(owner, &id(number), "", 0)).unwrap();
    }
    let arriving = parts(0, &message(100_000), MAX_PART);
    done(store.append(owner, &id(1), &arriving[0], "", None, 1)).unwrap();
    done(store.remove(owner, &id(2), 1)).unwrap();
    assert_eq!(done(store.append(owner, &id(1), &arriving[1], "", None, 1)), Ok(1));
}

#[test]
fn a_quota_is_used_to_its_last_byte() {
    // A conversation counts 512 bytes, and so does a message in addition to its text.
    let room = |messages: u64| 512 + 512 + messages;
    for (more, fits) in [(0, true), (1, false), (2, false)] {
        let store = world(Quota { conversations: 2, bytes: room(1000) });
        let owner = ann(&store);
        done(store.create(owner, &id(1), "", 0)).unwrap();
        assert_eq!(add(&store, owner, &id(1), 0, &message(1000 + more)).is_ok(), fits, "{more} more");
    }
}

#[test]
fn what_is_made_says_when() {
    let store = world(Quota::default());
    let owner = ann(&store);
    let made = done(store.create(owner, &id(1), "", 1000)).unwrap();
    add(&store, owner, &id(1), 0, &json("m")).unwrap();
    let forked = done(store.fork(owner, &id(1), 1, (&id(2), ""), 2000)).unwrap();
    assert_eq!([made.created, made.changed, forked.created, forked.changed], [1000, 1000, 2000, 2000]);
    done(store.rename(owner, &id(1), "title", 3000)).unwrap();
    let renamed = done(store.info(owner, &id(1), 3000)).unwrap();
    assert_eq!((renamed.created, renamed.changed, renamed.title.as_str()), (1000, 1, "title"));
}
