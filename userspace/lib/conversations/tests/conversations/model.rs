//! The conversations against maps: whatever is done, in whatever order, and whatever answer is lost.

use std::collections::BTreeMap;

use capos_conversations::{Owner, Quota};
use capos_keyspace::{Keyspace, Range};
use proptest::prelude::*;

use crate::world::*;

#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    title: String,
    messages: Vec<String>,
    model: String,
    changed: u64,
    lives: u64,
    parent: String,
}

#[derive(Clone, Debug)]
enum Step {
    Create(u8, &'static str),
    Append(u8, u16, usize),
    Repeat(u8),
    Fork(u8, u8, u32),
    Rename(u8, &'static str),
    Remove(u8),
    Expire(u8, u64),
    Wait(u64),
    Search(u8),
}

fn steps() -> impl Strategy<Value = Vec<(u8, Step, u8)>> {
    let id = || 0_u8..5;
    let step = prop_oneof![
        2 => (id(), prop_oneof![Just(""), Just("a title")]).prop_map(|(id, title)| Step::Create(id, title)),
        6 => (id(), 1_u16..300, 16_usize..200).prop_map(|(id, bytes, part)| Step::Append(id, bytes, part)),
        1 => id().prop_map(Step::Repeat),
        3 => (id(), id(), 0_u32..6).prop_map(|(id, fork, messages)| Step::Fork(id, fork, messages)),
        1 => (id(), prop_oneof![Just(""), Just("x y")]).prop_map(|(id, title)| Step::Rename(id, title)),
        2 => id().prop_map(Step::Remove),
        1 => (id(), 0_u64..4).prop_map(|(id, seconds)| Step::Expire(id, seconds)),
        1 => (0_u64..3000).prop_map(Step::Wait),
        1 => id().prop_map(Step::Search),
    ];
    proptest::collection::vec((0_u8..2, step, 0_u8..12), 1..60)
}

type Model = BTreeMap<String, Known>;

fn alive(known: &Known, now: u64) -> bool {
    known.lives == 0 || known.changed + known.lives * 1000 > now
}

fn check(store: &World, owner: Owner, model: &Model, now: u64) {
    let mut wanted: Vec<_> = model.iter().filter(|(_, known)| alive(known, now)).collect();
    wanted.sort_by_key(|(id, known)| (std::cmp::Reverse(known.changed), (*id).clone()));
    let found = list(store, owner, now);
    let ids = |id: &&String| (*id).clone();
    let order: Vec<String> = wanted.iter().map(|(id, _)| ids(id)).collect();
    assert_eq!(found.iter().map(|info| info.id.clone()).collect::<Vec<_>>(), order);
    for (info, (id, known)) in found.iter().zip(wanted) {
        assert_eq!((&info.title, &info.model, &info.parent), (&known.title, &known.model, &known.parent));
        assert_eq!(info.messages as usize, known.messages.len());
        assert_eq!(read(store, owner, id, now).unwrap(), known.messages);
        assert_eq!(done(store.info(owner, &id[..4], now)).unwrap(), *info);
    }
}

fn run(steps: Vec<(u8, Step, u8)>) {
    let store = world(Quota::default());
    let owners = [done(store.owner("ann", 0)).unwrap(), done(store.owner("bob", 0)).unwrap()];
    assert_eq!(done(store.owner("ann", 0)).unwrap(), owners[0]);
    let mut models = [Model::new(), Model::new()];
    let mut now = 1_000_000;
    for (count, (who, step, lose)) in (1_u32..).zip(steps) {
        now += 1;
        let (owner, model) = (owners[who as usize], &mut models[who as usize]);
        model.retain(|_, known| alive(known, now));
        store.space().lose.set(match lose {
            0 => Lose::Before,
            1 => Lose::After,
            _ => Lose::Nothing,
        });
        match step {
            Step::Create(number, title) => {
                let info = done(store.create(owner, &id(number), title, now)).unwrap();
                let new = Known { title: title.into(), changed: now, ..Known::default() };
                let known = model.entry(id(number)).or_insert(new);
                assert_eq!(info.changed, known.changed);
            }
            Step::Append(number, bytes, most) => {
                let index = model.get(&id(number)).map_or(0, |known| known.messages.len());
                let text = json(&format!("Word{count} {}", "z".repeat(bytes.into())));
                let mut answer = Ok(0);
                for part in parts(index as u32, &text, most) {
                    answer = done(store.append(owner, &id(number), &part, "m", None, now));
                }
                match model.get_mut(&id(number)) {
                    Some(known) => {
                        assert_eq!(answer.unwrap() as usize, index + 1);
                        if known.title.is_empty() && index == 0 {
                            known.title = format!("Word{count} {}", "z".repeat(bytes.into()));
                            if known.title.len() > 200 {
                                known.title = format!("Word{count}");
                            }
                        }
                        known.messages.push(text);
                        (known.changed, known.model) = (now, "m".into());
                    }
                    None => assert!(answer.is_err()),
                }
            }
            Step::Repeat(number) => {
                let Some(known) = model.get(&id(number)) else { continue };
                for (index, text) in (0..).zip(&known.messages) {
                    let same = done(store.append(owner, &id(number), &parts(index, text, 1 << 16)[0], "n", None, now));
                    let several = text.len() > 16;
                    assert!(same.is_ok() || several);
                    let other = parts(index, &json("other"), 1 << 16);
                    assert!(done(store.append(owner, &id(number), &other[0], "n", None, now)).is_err());
                }
            }
            Step::Fork(number, fork, messages) => {
                let answer = done(store.fork(owner, &id(number), messages, (&id(fork), ""), now));
                let Some(parent) = model.get(&id(number)).cloned() else {
                    assert!(answer.is_err());
                    continue;
                };
                if parent.messages.len() < messages as usize {
                    assert!(answer.is_err());
                    continue;
                }
                // The same again is accepted.
                if model.contains_key(&id(fork)) {
                    continue;
                }
                let info = answer.unwrap();
                assert_eq!((info.parent, info.parent_messages), (id(number), messages));
                let messages = parent.messages[..messages as usize].to_vec();
                let new = Known { messages, changed: now, lives: 0, parent: id(number), ..parent };
                model.insert(id(fork), new);
            }
            Step::Rename(number, title) => {
                let answer = done(store.rename(owner, &id(number), title, now));
                assert_eq!(answer.is_ok(), model.contains_key(&id(number)));
                if let Some(known) = model.get_mut(&id(number)) {
                    known.title = title.into();
                }
            }
            Step::Remove(number) => {
                let answer = done(store.remove(owner, &id(number), now));
                assert_eq!(answer.is_ok(), model.remove(&id(number)).is_some());
                assert!(read(&store, owner, &id(number), now).is_err());
            }
            Step::Expire(number, seconds) => {
                let answer = done(store.expire(owner, &id(number), seconds, now));
                assert_eq!(answer.is_ok(), model.contains_key(&id(number)));
                if let Some(known) = model.get_mut(&id(number)) {
                    known.lives = seconds;
                }
            }
            Step::Wait(milliseconds) => now += milliseconds,
            Step::Search(most) => {
                let mut wanted = Vec::new();
                let mut known: Vec<_> = model.iter().collect();
                known.sort_by_key(|(id, known)| (std::cmp::Reverse(known.changed), (*id).clone()));
                for (id, known) in known {
                    for (index, text) in known.messages.iter().enumerate().rev() {
                        if text.contains("Word1") {
                            wanted.push((id.clone(), index as u32));
                        }
                    }
                }
                let (mut found, mut next) = (Vec::new(), String::new());
                loop {
                    let page = done(store.search(owner, "wORD1", &next, u32::from(most), now)).unwrap();
                    found.extend(page.found.into_iter().map(|found| (found.conversation.id, found.index)));
                    next = page.next;
                    if next.is_empty() {
                        break;
                    }
                }
                assert_eq!(found, wanted);
            }
        }
    }
    store.space().lose.set(Lose::Nothing);
    for (owner, model) in owners.into_iter().zip(&models) {
        check(&store, owner, model, now);
    }
    // Nothing is left of conversations that are gone.
    for (owner, model) in owners.into_iter().zip(&mut models) {
        for info in list(&store, owner, now) {
            done(store.remove(owner, &info.id, now)).unwrap();
            model.remove(&info.id);
            check(&store, owner, model, now);
        }
        let account = done(store.space().get("accounts", &owner.0.to_be_bytes())).unwrap().unwrap_or_default();
        let account = String::from_utf8(account).unwrap();
        assert!(account.is_empty() || account.starts_with("{\"conversations\":0,\"bytes\":0,"), "{account}");
    }
    for table in ["conversations", "places", "messages", "sizes", "uses", "expiries"] {
        let left = done(store.space().range(Range::all(table))).unwrap().entries;
        assert!(left.is_empty(), "{table}: {left:?}");
    }
}

/// A fork may have the id of a conversation whose time is over.
#[test]
fn an_expired_conversation_is_in_nobodys_way() {
    use Step::{Append, Create, Expire, Fork, Wait};
    let steps = [Create(3, ""), Create(1, ""), Append(3, 1, 16), Wait(996), Expire(1, 1), Fork(3, 1, 0)];
    run(steps.into_iter().map(|step| (0, step, 2)).collect());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn f02_conversations_are_as_maps_are(steps in steps()) {
        run(steps);
    }
}
