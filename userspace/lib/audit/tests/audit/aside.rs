//! A chain whose disk can only be read for a while.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

use std::cell::RefCell;
use std::rc::Rc;

use capos_audit::{AppendError, Filter, Head, Journal, Life, Reader, Room, verify_lines};
use capos_keyspace::{Batch, Durability, Entries, Fault, Info, Keyspace, Range};
use capos_schema::audit::{GeneralEvent, Phase, ToolEvent};
use capos_schema::models::{Outcome, ToolDescriptor};

use crate::support::{Space, done, space};

/// A keyspace that can be read, and answers commits with a fault.
#[derive(Clone, Debug)]
struct Reading {
    space: Space,
    fault: Rc<RefCell<Vec<Fault>>>,
}

impl Reading {
    fn new() -> Self {
        Self { space: space(8 << 20), fault: Rc::default() }
    }

    /// The next commits answer these, and from then on the last of them.
    fn set(&self, faults: &[Fault]) {
        self.fault.replace(faults.iter().rev().cloned().collect());
    }

    fn lines(&self) -> Vec<String> {
        all(&Reader::new(self.space.clone()))
    }
}

fn all<K: Keyspace>(reader: &Reader<K>) -> Vec<String> {
    done(reader.query(&Filter::default(), usize::MAX, usize::MAX)).unwrap().lines
}

impl Keyspace for Reading {
    async fn info(&self) -> Result<Info, Fault> {
        let read_only = !self.fault.borrow().is_empty();
        Ok(Info { lasting: true, read_only, ..self.space.info().await? })
    }

    async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        self.space.get(table, key).await
    }

    async fn range(&self, range: Range<'_>) -> Result<Entries, Fault> {
        self.space.range(range).await
    }

    async fn commit(&self, batch: &Batch, durability: Durability) -> Result<(), Fault> {
        let next = |faults: &mut Vec<Fault>| if faults.len() > 1 { faults.pop() } else { faults.first().cloned() };
        let fault = next(&mut self.fault.borrow_mut());
        fault.map_or(Ok(()), Err)?;
        self.space.commit(batch, durability).await
    }

    async fn sync(&self) -> Result<(), Fault> {
        self.space.sync().await
    }
}

const SECOND: u64 = 1_000_000_000;

fn journal(space: &Reading, boot: u64) -> Journal<Reading> {
    Journal::new(space.clone(), Room::Shared(4 << 20), Life { earlier: 0, boot, start: boot + 1 })
}

fn read_only() -> Fault {
    Fault::ReadOnly("the data disk failed".into())
}

fn message(session: &str) -> GeneralEvent {
    GeneralEvent { kind: "message".into(), session: session.into(), ..GeneralEvent::default() }
}

fn call(phase: Phase, id: &str, before: u64) -> ToolEvent {
    ToolEvent {
        phase,
        session: "a".into(),
        call_id: id.into(),
        descriptor: ToolDescriptor { name: "t".into(), ..ToolDescriptor::default() },
        decided: true,
        outcome: if phase == Phase::After { Outcome::Ok } else { Outcome::default() },
        before,
        ..ToolEvent::default()
    }
}

fn told(line: &str) -> (String, Option<String>, Option<String>) {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    let field = |name: &str| value["fields"][name].as_str().map(String::from);
    (value["kind"].as_str().unwrap().to_string(), field("head"), field("memory").or_else(|| field("why")))
}

fn whole(lines: &[String], head: Head) {
    assert_eq!(verify_lines(lines.iter().map(String::as_str), Some(head)).unwrap().head, head);
}

#[test]
fn a_boot_on_a_disk_that_can_be_read_goes_on_in_memory() {
    let space = Reading::new();
    let mut first = journal(&space, 1000);
    let head = done(first.append_general(1002, message("a"))).unwrap();
    space.set(&[read_only()]);
    let mut second = journal(&space, 2000);
    let last = done(second.append_general(2002, message("b"))).unwrap();
    assert_eq!(last.sequence, head.sequence + 2);
    let lines = all(&second.stored().reader());
    whole(&lines, last);
    let begins = ("log.start".into(), Some(head.to_string()), Some("the data disk failed".into()));
    assert_eq!(told(&lines[2]), begins);
    assert_eq!(space.lines(), lines[..2]);
    assert!(second.take_warning().unwrap().contains("in memory after record 2: the data disk failed"));
    // A third boot continues what the disk has.
    space.set(&[]);
    let mut third = journal(&space, 3000);
    let last = done(third.append_general(3002, message("c"))).unwrap();
    whole(&space.lines(), last);
    assert_eq!((last.sequence, told(&space.lines()[2]).1), (4, Some(head.to_string())));
}

#[test]
fn a_disk_that_never_had_a_record_is_no_reason_to_take_none() {
    let space = Reading::new();
    space.set(&[read_only()]);
    let mut journal = journal(&space, 1000);
    let head = done(journal.append_general(1002, message("a"))).unwrap();
    whole(&all(&journal.stored().reader()), head);
}

#[test]
fn what_was_in_memory_comes_to_the_disk() {
    for faults in [vec![read_only()], vec![Fault::Medium("writing failed".into()), read_only()]] {
        let space = Reading::new();
        let mut journal = journal(&space, 1000);
        let before = done(journal.append_tool(1002, call(Phase::Before, "1", 0))).unwrap();
        space.set(&faults);
        // An effect that had begun can end, and others begin.
        done(journal.append_tool(1003, call(Phase::After, "1", before.sequence))).unwrap();
        let second = done(journal.append_tool(1004, call(Phase::Before, "2", 0))).unwrap();
        let lines = all(&journal.stored().reader());
        let begins = ("log.memory".into(), Some(before.to_string()), Some("the data disk failed".into()));
        assert_eq!(told(&lines[2]), begins);
        assert_eq!((space.lines().len(), lines.len()), (2, 5));
        assert!(journal.take_warning().is_some());
        // Of a disk that fails again meanwhile, the rest stays in memory.
        space.set(&[]);
        let last = done(journal.append_tool(1005, call(Phase::After, "2", second.sequence))).unwrap();
        let lines = all(&journal.stored().reader());
        assert_eq!(space.lines(), lines);
        assert_eq!(lines.iter().filter(|line| told(line).0 == "log.disk").count(), 1);
        whole(&lines, last);
        assert!(journal.take_warning().unwrap().contains("has the 3 records"));
        assert_eq!(journal.stored().open_effects().count(), 0);
    }
}

#[test]
fn a_disk_that_fails_is_asked_again_now_and_then() {
    let space = Reading::new();
    let mut journal = journal(&space, 1000);
    done(journal.append_general(1002, message("a"))).unwrap();
    let asked = |time: u64, journal: &mut Journal<Reading>| {
        // It takes one commit, should it be asked.
        space.set(&[read_only(), read_only()]);
        done(journal.append_general(time, message("a"))).unwrap();
        space.fault.borrow().len() == 1
    };
    assert!(asked(2 * SECOND, &mut journal), "the disk is written, and fails");
    assert!(!asked(3 * SECOND, &mut journal));
    assert!(asked(4 * SECOND, &mut journal));
    assert!(!asked(5 * SECOND, &mut journal));
    space.set(&[]);
    let last = done(journal.append_general(5 * SECOND + 1, message("a"))).unwrap();
    whole(&space.lines(), last);
}

#[test]
fn memory_is_bounded_and_leaves_room_for_logins() {
    let space = Reading::new();
    let mut journal = journal(&space, 1000);
    done(journal.append_general(1002, message("a"))).unwrap();
    space.set(&[read_only()]);
    let long = || {
        let mut event = message(&"x".repeat(10_000));
        event.principal = "x".repeat(10_000);
        event
    };
    let mut error = None;
    for number in 0..200 {
        let event = GeneralEvent { session: format!("{number}"), ..long() };
        error = error.or(done(journal.append_general(1003, event)).err());
    }
    assert!(matches!(error, Some(AppendError::Full { .. })), "{error:?}");
    let (used, _) = journal.stored().usage().unwrap();
    assert!(used < 1 << 20, "{used}");
    let login = GeneralEvent { kind: "session.start".into(), session: "b".into(), ..GeneralEvent::default() };
    done(journal.append_general(1004, login)).unwrap();
}
