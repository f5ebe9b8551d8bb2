//! The chain in tables: opening, room, questions, and its beginning in each life of its process.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

use crate::support;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use capos_audit::{AppendError, Chain, Filter, Head, Journal, Kind, Life, Page, Reader, Room, Stored, verify_lines};
use capos_keyspace::local::LocalKeyspace;
use capos_keyspace::{Batch, Durability, Entries, Fault, Info, Keyspace, Range};
use capos_schema::audit::{GeneralEvent, Phase, ToolEvent};
use capos_schema::authority::Decision;
use capos_schema::models::{Outcome, ToolDescriptor};
use capos_store::{MemoryBlocks, Store};
use proptest::prelude::*;

use crate::support::{APART, Space, done, space};

fn call(phase: Phase, session: &str, id: &str, tool: &str) -> ToolEvent {
    ToolEvent {
        phase,
        session: session.into(),
        call_id: id.into(),
        descriptor: ToolDescriptor { name: tool.into(), ..ToolDescriptor::default() },
        decided: true,
        ..ToolEvent::default()
    }
}

fn message(session: &str) -> GeneralEvent {
    GeneralEvent { kind: "message".into(), session: session.into(), ..GeneralEvent::default() }
}

/// A keyspace that fails as it is told.
#[derive(Clone, Debug)]
struct Faulty {
    space: Rc<RefCell<Space>>,
    lasting: Rc<Cell<bool>>,
    /// Every call answers this.
    fault: Rc<RefCell<Option<Fault>>>,
    /// The next commit is done, and it and every call after it answer this.
    swallow: Rc<RefCell<Option<Fault>>>,
    /// How often it was called.
    calls: Rc<Cell<u32>>,
}

impl Faulty {
    fn new(limit: u64) -> Self {
        let space = Rc::new(RefCell::new(space(limit)));
        Self {
            space,
            lasting: Rc::new(Cell::new(true)),
            fault: Rc::default(),
            swallow: Rc::default(),
            calls: Rc::default(),
        }
    }

    fn set(&self, fault: Option<Fault>) {
        self.fault.replace(fault);
    }

    fn now(&self) -> Result<Space, Fault> {
        self.calls.set(self.calls.get() + 1);
        self.fault.borrow().clone().map_or_else(|| Ok(self.space.borrow().clone()), Err)
    }

    fn lines(&self) -> Vec<String> {
        done(Reader::new(self.space.borrow().clone()).query(&Filter::default(), usize::MAX, usize::MAX)).unwrap().lines
    }
}

impl Keyspace for Faulty {
    async fn info(&self) -> Result<Info, Fault> {
        Ok(Info { lasting: self.lasting.get(), ..self.now()?.info().await? })
    }

    async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        self.now()?.get(table, key).await
    }

    async fn range(&self, range: Range<'_>) -> Result<Entries, Fault> {
        self.now()?.range(range).await
    }

    fn commit(&self, batch: &Batch, durability: Durability) -> impl Future<Output = Result<(), Fault>> {
        assert_eq!(durability, Durability::Now, "each record is on the medium when its append returns");
        async move {
            self.now()?.commit(batch, durability).await?;
            self.set(self.swallow.take());
            self.now().map(drop)
        }
    }

    async fn sync(&self) -> Result<(), Fault> {
        self.now()?.sync().await
    }
}

const LIFE: Life = Life { earlier: 0, boot: 1000, start: 1001 };

fn journal(space: &Faulty, life: Life) -> Journal<Faulty> {
    Journal::new(space.clone(), Room::Shared(4 << 20), life)
}

fn kinds(lines: &[String]) -> Vec<String> {
    let kind = |line: &String| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["kind"].as_str().unwrap().to_string()
    };
    lines.iter().map(kind).collect()
}

fn field(line: &str, name: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    value["fields"][name].as_str().map(String::from)
}

#[test]
fn one_chain_goes_on_over_boots() {
    let space = Faulty::new(8 << 20);
    let mut first = journal(&space, LIFE);
    done(first.append_general(1002, message("a"))).unwrap();
    let begun = done(first.append_tool(1003, call(Phase::Before, "a", "1", "t"))).unwrap();
    // The process starts again within the boot: the effect can end still.
    let mut again = journal(&space, Life { earlier: 1, start: 1010, ..LIFE });
    done(again.ready()).unwrap();
    assert_eq!(again.stored().open_effects().collect::<Vec<_>>(), [begun.sequence]);
    let head = again.stored().head().unwrap();
    // Another boot: it cannot.
    let mut second = journal(&space, Life { earlier: 0, boot: 2000, start: 2001 });
    done(second.ready()).unwrap();
    assert_eq!(second.stored().open_effects().count(), 0);
    let end = ToolEvent { before: begun.sequence, ..call(Phase::After, "a", "1", "t") };
    assert!(matches!(done(second.append_tool(2002, end)), Err(AppendError::Invalid(_))));
    // A process that starts again in a boot in which no earlier one saw the volume open begins that boot.
    let mut third = journal(&space, Life { earlier: 1, boot: 3000, start: 3001 });
    done(third.append_general(3002, message("b"))).unwrap();
    let lines = space.lines();
    assert_eq!(kinds(&lines), ["log.start", "message", "tool", "log.start", "log.start", "log.start", "message"]);
    let told = |at: usize| ["boot", "epoch", "earlier", "unfinished"].map(|name| field(&lines[at], name));
    let text = |text: &str| Some(text.to_string());
    assert_eq!(told(0), [text("1"), text("1"), text("0"), None]);
    assert_eq!(told(3), [text("1"), text("2"), text("1"), None]);
    assert_eq!(told(4), [text("2"), text("1"), text("0"), text("1")]);
    assert_eq!(told(5), [text("3"), text("2"), text("1"), None]);
    assert_eq!(field(&lines[0], "head"), None);
    assert_eq!(field(&lines[4], "head"), Some(format!("{}:{}", head.sequence, hex::encode(head.hash))));
    verify_lines(&lines, None).unwrap();
}

/// A life begins a boot if its process has had none before in this boot, or if the machine started after the last record.
#[test]
fn a_boot_begins_after_the_last_record() {
    for (earlier, boot, number) in [(0, 4000, "2"), (1, 4999, "1"), (1, 5000, "1"), (1, 5001, "2")] {
        let space = Faulty::new(8 << 20);
        done(journal(&space, LIFE).append_general(5000, message("a"))).unwrap();
        done(journal(&space, Life { earlier, boot, start: 6000 }).ready()).unwrap();
        assert_eq!(field(&space.lines()[2], "boot").as_deref(), Some(number), "{earlier} {boot}");
    }
}

/// A call is one in all boots: its id cannot be used again.
#[test]
fn a_call_of_an_earlier_boot_is_told_already() {
    let space = Faulty::new(8 << 20);
    done(journal(&space, LIFE).append_tool(1002, call(Phase::Before, "a", "1", "t"))).unwrap();
    let mut second = journal(&space, Life { boot: 2000, start: 2001, ..LIFE });
    let again = done(second.append_tool(2002, call(Phase::Before, "a", "1", "t"))).unwrap_err().to_string();
    assert!(again.contains("record 2 already holds the outcome of the call \"1\""), "{again}");
}

#[test]
fn what_is_recorded_before_the_volume_opens_waits_in_order() {
    let space = Faulty::new(8 << 20);
    space.set(Some(Fault::Locked));
    let mut journal = journal(&space, LIFE);
    for at in 0..3 {
        let event = Kind::Service.event("", "", &[("attempt", &at)]);
        assert_eq!(done(journal.append_general(1002 + at, event)), Ok(Head::default()));
    }
    let tool = done(journal.append_tool(1010, call(Phase::Before, "a", "1", "t"))).unwrap_err();
    assert!(tool.to_string().contains("the data volume is locked; log in to open it"), "{tool}");
    assert!(space.lines().is_empty());
    space.set(None);
    done(journal.append_general(1020, message("a"))).unwrap();
    let lines = space.lines();
    assert_eq!(kinds(&lines), ["log.start", "service", "service", "service", "message"]);
    assert_eq!(lines[1..4].iter().map(|line| field(line, "attempt").unwrap()).collect::<Vec<_>>(), ["0", "1", "2"]);
    let time = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["time"].as_u64().unwrap();
    assert_eq!(lines.iter().map(|line| time(line)).collect::<Vec<_>>(), [1001, 1002, 1003, 1004, 1020]);
    done(journal.ready()).unwrap();
    assert_eq!(space.lines().len(), 5, "once");
}

#[test]
fn what_waits_is_bounded_and_counted() {
    let space = Faulty::new(8 << 20);
    space.set(Some(Fault::Locked));
    let mut journal = journal(&space, LIFE);
    for _ in 0..1000 {
        done(journal.append_general(1002, message(""))).unwrap();
    }
    // Sessions still begin, and no more than there is room for.
    let start = || Kind::SessionStart.event("s", "guest", &[]);
    for _ in 0..64 {
        done(journal.append_general(1003, start())).unwrap();
    }
    assert_eq!(done(journal.append_general(1003, start())), Err(AppendError::Place(Fault::Locked)));
    space.set(None);
    done(journal.ready()).unwrap();
    let lines = space.lines();
    assert_eq!((lines.len(), field(&lines[321], "records")), (1 + 256 + 64 + 1, Some("744".into())));
    assert_eq!(kinds(&lines[321..]), ["records.lost"]);
}

/// The store ends before, and after, the record is on the medium. It is there once, and those after it follow it.
#[test]
fn a_store_that_ends_gets_the_record_again() {
    let space = Faulty::new(8 << 20);
    let mut journal = journal(&space, LIFE);
    let lost = Fault::Lost("the store has ended".into());
    for done_before in [false, true] {
        for at in 0..4_u64 {
            let id = format!("{done_before} {at}");
            // The first one finds the store gone already.
            if done_before {
                space.swallow.replace(Some(lost.clone()));
            } else {
                space.set(Some(lost.clone()));
            }
            let event = call(Phase::Before, "a", &id, "t");
            let before = space.lines().len();
            for _ in 0..2 {
                assert_eq!(done(journal.append_tool(1002, event.clone())), Err(AppendError::Place(lost.clone())));
            }
            space.set(None);
            let head = done(journal.append_tool(1002, event)).unwrap();
            assert_eq!(space.lines().len(), before.max(1) + 1);
            assert_eq!(journal.stored().open_effects().last(), Some(head.sequence));
            let end = ToolEvent { before: head.sequence, ..call(Phase::After, "a", &id, "t") };
            done(journal.append_tool(1003, end)).unwrap();
        }
    }
    let summary = verify_lines(space.lines(), journal.stored().head()).unwrap();
    assert_eq!((summary.records, summary.effects, summary.open), (17, 8, vec![]));
}

/// The answer never came and nobody asked again: the next record follows it.
#[test]
fn a_record_that_nobody_waits_for_is_followed() {
    let space = Faulty::new(8 << 20);
    let mut journal = journal(&space, LIFE);
    done(journal.append_general(1002, message("a"))).unwrap();
    for fault in [Fault::Lost("the store has ended".into()), Fault::Medium("the disk is gone".into())] {
        let before = journal.stored().head().unwrap().sequence;
        space.swallow.replace(Some(fault));
        assert!(done(journal.append_general(1002, message("a"))).is_err());
        space.set(None);
        assert_eq!(done(journal.append_general(1003, message("b"))).unwrap().sequence, before + 2);
    }
    verify_lines(space.lines(), None).unwrap();
}

#[test]
fn memory_that_was_lost_begins_a_new_chain() {
    let space = Faulty::new(8 << 20);
    space.lasting.set(false);
    let mut journal = journal(&space, LIFE);
    done(journal.append_general(1002, message("a"))).unwrap();
    // The store's process ended, and its memory with it.
    space.space.replace(support::space(8 << 20));
    space.set(Some(Fault::Lost("the store has ended".into())));
    assert!(done(journal.append_general(1003, message("a"))).is_err());
    space.set(None);
    done(journal.append_general(1003, message("a"))).unwrap();
    let lines = space.lines();
    assert_eq!(kinds(&lines), ["log.start", "message"]);
    let told = ["epoch", "earlier", "boot", "head"].map(|name| field(&lines[0], name));
    assert_eq!(told, [Some("2".into()), Some("1".into()), None, None]);
    verify_lines(&lines, None).unwrap();
}

#[test]
fn a_disk_with_an_older_state_takes_no_record() {
    let space = Faulty::new(8 << 20);
    let mut journal = journal(&space, LIFE);
    done(journal.append_general(1002, message("a"))).unwrap();
    space.space.replace(support::space(8 << 20));
    space.set(Some(Fault::Lost("the store has ended".into())));
    assert!(done(journal.append_general(1003, message("a"))).is_err());
    space.set(None);
    let error = done(journal.append_general(1003, message("a"))).unwrap_err().to_string();
    assert!(error.contains("ends at record 0, and record 2 was written to it"), "{error}");
    assert!(space.lines().is_empty());
}

#[test]
fn a_fault_of_the_medium_leaves_nothing_behind() {
    let space = Faulty::new(8 << 20);
    let mut journal = journal(&space, LIFE);
    let head = done(journal.append_general(1002, message("a"))).unwrap();
    for fault in [Fault::Full("the disk is full".into()), Fault::Medium("the disk is gone".into())] {
        space.set(Some(fault.clone()));
        let event = call(Phase::Before, "a", "1", "t");
        let error = done(journal.append_tool(1003, event)).unwrap_err();
        assert_eq!(error, AppendError::Place(fault.clone()));
        assert!(error.to_string().contains(&fault.to_string()), "{error}");
        // Not even what takes the room that is kept for ends.
        let end = Kind::SessionEnd.event("a", "p", &[]);
        assert_eq!(done(journal.append_general(1003, end.clone())), Err(AppendError::Place(fault.clone())));
        space.set(None);
        done(journal.ready()).unwrap();
        space.set(Some(fault.clone()));
        assert_eq!(done(journal.append_general(1003, end)), Err(AppendError::Place(fault)));
        space.set(None);
        done(journal.ready()).unwrap();
        assert_eq!((journal.stored().head(), journal.stored().open_effects().count()), (Some(head), 0));
    }
}

#[test]
fn tables_of_another_format_are_rejected() {
    let space = space(4 << 20);
    done(space.commit(Batch::new().put("format", b"version", &2_u32.to_le_bytes()), Durability::Now)).unwrap();
    let why = done(Stored::new(space, Room::Alone(1 << 20)).open()).unwrap_err().to_string();
    assert!(why.contains("format 2") && why.contains("boot the version that wrote it"), "{why}");
}

/// Ends of effects find room on a disk that others have filled; beginnings do not.
#[test]
fn ends_have_room_on_a_disk_that_others_fill() {
    let store = Rc::new(RefCell::new(Store::open(MemoryBlocks::new(1024)).unwrap()));
    let space = LocalKeyspace::new(store.clone(), "audit", 4 << 20).unwrap();
    let others = LocalKeyspace::new(store, "files", 4 << 20).unwrap();
    let mut chain = Stored::new(space, Room::Shared(0));
    let mut begun = Vec::new();
    for at in 0..12 {
        let event = ToolEvent { arguments: "x".repeat(20_000), ..call(Phase::Before, "a", &at.to_string(), "t") };
        begun.push(done(chain.append_tool(1, event)).unwrap().sequence);
    }
    for size in [60 << 10, 3 << 10, 256, 1] {
        let fill = |at: u64| {
            let key = (u64::from(size as u32) << 32 | at).to_le_bytes();
            done(others.commit(Batch::new().put("t", &key, &vec![0; size]), Durability::Now))
        };
        let full = (0..).find_map(|at| fill(at).err()).unwrap();
        assert!(matches!(full, Fault::Full(_)), "{full:?}");
    }
    let error = done(chain.append_tool(2, call(Phase::Before, "b", "1", "t"))).unwrap_err();
    assert!(error.to_string().contains("the audit log is full: its disk has no room"), "{error}");
    for (at, before) in (0..).zip(&begun) {
        let text = "\u{1}".repeat(2048);
        let end = ToolEvent {
            arguments: "x".repeat(20_000),
            before: *before,
            outcome: Outcome::ExecutionError,
            error: text.clone(),
            reason: text,
            ..call(Phase::After, "a", &i32::to_string(&at), "t")
        };
        done(chain.append_tool(3, end)).expect("the end of what was allowed to begin fits");
    }
    // The room comes back before anything else begins.
    assert!(done(chain.append_tool(4, call(Phase::Before, "b", "1", "t"))).is_err());
    done(others.commit(Batch::new().remove_range("t", &[], &[]), Durability::Now)).unwrap();
    done(chain.append_tool(4, call(Phase::Before, "b", "1", "t"))).unwrap();
    let checked = done(chain.reader().verify(|_, _| {})).unwrap().checked;
    assert_eq!(checked.unwrap().effects, 12);
}

#[test]
fn a_check_tells_how_far_it_is() {
    let mut chain = Stored::new(space(8 << 20), Room::Shared(0));
    for at in 1..=600 {
        done(chain.append_general(at, message("a"))).unwrap();
    }
    let told = RefCell::new(Vec::new());
    done(chain.reader().verify(|read, all| told.borrow_mut().push((read, all)))).unwrap().checked.unwrap();
    assert_eq!(told.take(), [(0, 600), (256, 600), (512, 600), (600, 600)]);
}

/// A long answer comes in parts. The first record of that time is searched for once.
#[test]
fn a_query_that_continues_another_one_does_not_search_again() {
    let space = Faulty::new(4 << 20);
    let mut chain = Stored::new(space.clone(), Room::Shared(0));
    for time in 1..=300 {
        done(chain.append_general(time, message("s"))).unwrap();
    }
    let filter = Filter { since: 150, until: Some(250), ..Filter::default() };
    let query = |from| {
        let before = space.calls.get();
        let page = done(chain.reader().query(&Filter { from, ..filter.clone() }, 40, usize::MAX)).unwrap();
        (page.lines.len(), page.next, space.calls.get() - before)
    };
    let (first, second, third) = (query(0), query(190), query(230));
    assert_eq!([first, second, third].map(|(lines, next, _)| (lines, next)), [(40, 190), (40, 230), (20, 0)]);
    // The end of the time is searched for by each of them. 300 records are halved eight times.
    assert!(first.2 >= second.2 + 7 && second.2 == third.2, "{first:?} {second:?} {third:?}");
    assert_eq!(query(300).0, 0);
}

/// What the rules count is what the tables take, or more.
#[test]
fn the_namespace_never_ends_before_the_bound() {
    for length in [0, 300, 60_000] {
        let space = space((2 << 20) + APART);
        let mut chain = Stored::new(space.clone(), Room::Shared(0));
        let mut why = None;
        for at in 0_u32.. {
            let (session, id) = (format!("session-{at}"), at.to_string());
            let arguments = "x".repeat(length);
            let begin = ToolEvent { arguments: arguments.clone(), ..call(Phase::Before, &session, &id, "t") };
            let head = match done(chain.append_tool(1, begin)) {
                Ok(head) => head,
                Err(error) => {
                    why = Some(error);
                    break;
                }
            };
            let end = ToolEvent { arguments, before: head.sequence, ..call(Phase::After, &session, &id, "t") };
            done(chain.append_tool(1, end)).unwrap();
        }
        assert_eq!(why, Some(AppendError::Full { limit: 2 << 20 }), "{length}");
        let info = done(space.info()).unwrap();
        assert!(info.used <= info.limit, "{info:?}");
    }
}

#[test]
fn a_person_is_warned_in_time() {
    let space = space((1 << 20) + APART);
    let mut chain = Stored::new(space.clone(), Room::Shared(0));
    let mut warnings = Vec::new();
    for session in 0_u64.. {
        let done = done(
            chain.append_general(1, capos_audit::message(&format!("{session}"), "p", "c1", 1, "user", "buy milk")),
        );
        warnings.extend(chain.take_warning());
        if done.is_err() {
            break;
        }
        // A restart does not warn again.
        if session % 100 == 0 {
            chain = Stored::new(space.clone(), Room::Shared(0));
        }
    }
    let percent: Vec<&str> = warnings.iter().map(|text| &text[23..27]).collect();
    assert_eq!(percent, ["80 %", "90 %", "95 %"], "{warnings:?}");
    let query = Filter { kind: Some("log.space".into()), ..Filter::default() };
    let found = done(Reader::new(space).query(&query, 10, usize::MAX)).unwrap().lines;
    let recorded: Vec<_> = found.iter().map(|line| field(line, "percent").unwrap()).collect();
    assert_eq!(recorded, ["80", "90", "95"]);
}

/// A record of the property test: which session, tool, decision and outcome, and how much later than the one before.
type Choice = (u8, u8, u8, u8, u8);

fn event(at: usize, (session, tool, decision, outcome, _): Choice) -> ToolEvent {
    let decisions = Decision::ALL;
    ToolEvent {
        conversation: format!("c{}", session % 2),
        turn: u32::from(tool),
        decision: decisions[usize::from(decision) % decisions.len()],
        outcome: Outcome::ALL[usize::from(outcome) % Outcome::ALL.len()],
        ..call(Phase::Refused, &format!("s{session}"), &at.to_string(), &format!("t{tool}"))
    }
}

fn filter() -> impl Strategy<Value = Filter> {
    let name = |letter: &'static str| prop::option::of((0..4_u8).prop_map(move |number| format!("{letter}{number}")));
    let texts = (name("s"), name("t"), name("c"), prop::option::of(0..4_u32));
    let kinds = prop_oneof![Just("tool"), Just("message"), Just("session."), Just("t")].prop_map(String::from);
    let names = (
        prop::option::of(prop::sample::select(Decision::ALL.to_vec()).prop_map(|decision| decision.name().to_string())),
        prop::option::of(prop::sample::select(Outcome::ALL.to_vec()).prop_map(|outcome| outcome.name().to_string())),
        prop::option::of(kinds),
    );
    (texts, names, 0..60_u64, 0..80_u64, prop::option::of(0..90_u64)).prop_map(
        |((session, tool, conversation, turn), (decision, outcome, kind), from, since, until)| Filter {
            session,
            tool,
            conversation,
            turn,
            decision,
            outcome,
            phase: None,
            kind,
            from,
            since,
            until,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Questions to the tables are answered as a look at every record answers them, in pages of any size.
    #[test]
    fn the_tables_answer_as_all_records_do(
        choices in prop::collection::vec((0..4_u8, 0..4_u8, 0..6_u8, 0..9_u8, 0..3_u8), 1..50),
        filters in prop::collection::vec(prop_oneof![3 => filter(), 1 => filter().prop_map(|filter| Filter { decision: None, outcome: None, turn: None, kind: None, conversation: None, ..filter })], 30),
        max in 1..20_usize,
        bytes in 500..8000_usize,
    ) {
        let (mut model, mut chain, mut time) = (Chain::new(1 << 20), Stored::new(space(4 << 20), Room::Alone(1 << 20)), 0);
        for (at, choice) in choices.into_iter().enumerate() {
            time += u64::from(choice.4);
            if choice.0 == 3 {
                model.append_general(time, message("s3")).unwrap();
                done(chain.append_general(time, message("s3"))).unwrap();
            } else {
                model.append_tool(time, event(at, choice)).unwrap();
                done(chain.append_tool(time, event(at, choice))).unwrap();
            }
        }
        let reader = chain.reader();
        for mut filter in filters {
            let (found, next) = model.query(&filter, max);
            let page = done(reader.query(&filter, max, usize::MAX)).unwrap();
            prop_assert_eq!(page, Page { lines: found.iter().map(|record| record.line()).collect(), next });
            // Page after page, by bytes.
            let mut whole = Vec::new();
            loop {
                let page = done(reader.query(&filter, max, bytes)).unwrap();
                prop_assert!(page.next == 0 || !page.lines.is_empty());
                prop_assert!(page.lines.len() == 1 || page.lines.iter().map(String::len).sum::<usize>() <= bytes);
                whole.extend(page.lines);
                if page.next == 0 {
                    break;
                }
                filter.from = page.next;
            }
            let (all, _) = model.query(&Filter { from: 0, ..filter.clone() }, usize::MAX);
            let all: Vec<String> = all.iter().map(|record| record.line()).collect();
            prop_assert!(all.ends_with(&whole));
        }
    }
}
