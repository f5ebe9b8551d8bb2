//! Limits at their exact values: what a chain takes to the last byte, and what is read for a question.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use capos_audit::{
    AppendError, Chain, ERROR_LIMIT, Filter, Head, Journal, Kind, Life, Lost, RECORD_OVERHEAD, Reader, Room, Stored,
    Written,
};
use capos_keyspace::{Batch, Durability, Entries, Fault, Info, Keyspace, Range};
use capos_policy::LABEL_LIMIT;
use capos_schema::audit::{GeneralEvent, Phase, ToolEvent};
use capos_schema::models::ToolDescriptor;

use crate::support::{Space, done, space};

/// By how much the end of an effect may be longer than its beginning.
const GROWTH: usize = 1024 + 6 * (2 * ERROR_LIMIT + LABEL_LIMIT);

fn call(phase: Phase, session: &str, id: usize, padding: usize) -> ToolEvent {
    ToolEvent {
        phase,
        session: session.into(),
        call_id: format!("{id:02}"),
        descriptor: ToolDescriptor { name: "t".into(), ..ToolDescriptor::default() },
        arguments: "x".repeat(padding),
        decided: true,
        ..ToolEvent::default()
    }
}

/// A call of which the record before its effect takes this many bytes.
fn call_of(session: &str, id: usize, bytes: usize) -> ToolEvent {
    let mut chain = Chain::new(1 << 20);
    chain.append_tool(1, call(Phase::Before, session, id, 0)).unwrap();
    call(Phase::Before, session, id, bytes - chain.usage().0)
}

/// An event of which the record takes this many bytes, as one of the first nine of a chain.
fn event_of(kind: &str, session: &str, bytes: usize) -> GeneralEvent {
    let event = |padding| GeneralEvent {
        kind: kind.into(),
        session: session.into(),
        principal: "x".repeat(padding),
        ..GeneralEvent::default()
    };
    let mut chain = Chain::new(1 << 20);
    chain.append_general(1, event(0)).unwrap();
    event(bytes - chain.usage().0)
}

fn message(session: &str, bytes: usize) -> GeneralEvent {
    event_of("message", session, bytes)
}

#[test]
fn a_chain_takes_what_fits_to_the_last_byte() {
    let full = |limit| Err(AppendError::Full { limit });
    for kind in ["message", "session.start"] {
        assert!(Chain::new(2000).append_general(1, event_of(kind, "a", 2000)).is_ok());
        assert_eq!(Chain::new(2000).append_general(1, event_of(kind, "a", 2001)), full(2000));
    }
    // With the beginning of an effect, its end has to fit.
    let limit = 2 * 3000 + GROWTH;
    assert_eq!(Chain::new(limit).append_tool(1, call_of("a", 1, 3001)), full(limit));
    let mut chain = Chain::new(limit);
    let before = chain.append_tool(1, call_of("a", 1, 3000)).unwrap().sequence;
    assert_eq!(chain.append_general(1, message("b", 800)), full(limit));
    chain.append_tool(1, ToolEvent { phase: Phase::After, before, ..call_of("a", 1, 3000) }).unwrap();
    // What the end did not need is free again.
    let left = limit - chain.usage().0;
    assert_eq!(chain.append_general(1, message("b", left + 1)), full(limit));
    assert!(chain.append_general(1, message("b", left)).is_ok());
    assert_eq!(chain.usage(), (limit, limit));
}

#[test]
fn a_share_and_the_spared_room_end_at_their_last_byte() {
    let limit = 160_000;
    let (share, room) = (60_000, 150_000);
    let mut chain = Chain::shared(limit);
    let used_up = Err(AppendError::Share { limit: share });
    assert_eq!(chain.append_general(1, message("a", share + 1)), used_up);
    chain.append_general(1, message("a", share)).unwrap();
    // What an effect keeps for its end counts, until it has ended.
    let most = (share - GROWTH) / 2;
    assert_eq!(chain.append_tool(1, call_of("b", 1, most + 1)), used_up);
    let before = chain.append_tool(1, call_of("b", 1, most)).unwrap().sequence;
    assert_eq!(chain.append_general(1, message("b", 800)), used_up);
    chain.append_tool(1, ToolEvent { phase: Phase::After, before, ..call_of("b", 1, most) }).unwrap();
    let left = 2 * share - chain.usage().0;
    assert_eq!(chain.append_general(1, message("b", left + 1)), used_up);
    chain.append_general(1, message("b", left)).unwrap();
    // Sessions leave a sixteenth to their beginnings and ends, and to what the log says of itself.
    let left = room - chain.usage().0;
    assert_eq!(chain.append_general(1, message("c", left + 1)), Err(AppendError::Full { limit }));
    chain.append_general(1, message("c", left)).unwrap();
    let left = limit - chain.usage().0;
    assert_eq!(chain.append_general(1, event_of("session.end", "c", left + 1)), Err(AppendError::Full { limit }));
    chain.append_general(1, event_of("session.end", "c", left)).unwrap();
}

#[test]
fn a_warning_comes_with_the_byte_that_reaches_it() {
    for (used, told) in [
        (79_999, None),
        (80_000, Some(80)),
        (89_999, Some(80)),
        (90_000, Some(90)),
        (94_999, Some(90)),
        (95_000, Some(95)),
    ] {
        let mut chain = Chain::new(100_000);
        chain.append_general(1, message("a", used)).unwrap();
        let warning = chain.get(2).map(|record| record.line());
        let expected = told.map(|percent| {
            format!("\"fields\":{{\"limit\":\"100000\",\"percent\":\"{percent}\",\"used\":\"{used}\"}}")
        });
        assert_eq!(warning.is_some(), expected.is_some(), "{used}");
        assert!(warning.zip(expected).is_none_or(|(line, expected)| line.contains(&expected)), "{used}");
    }
    // Of shared room, what is spared does not count.
    for (first, warned) in [(59_999, false), (60_000, true)] {
        let mut chain = Chain::shared(160_000);
        chain.append_general(1, message("a", first)).unwrap();
        chain.append_general(1, message("b", 60_000)).unwrap();
        assert_eq!(chain.get(3).is_some(), warned, "{first}");
    }
}

/// A keyspace that counts what is read.
#[derive(Clone, Debug)]
struct Counting {
    space: Space,
    /// Every call answers this.
    fault: Rc<RefCell<Option<Fault>>>,
    /// It cannot be written.
    read_only: Rc<Cell<bool>>,
    /// The calls cannot be read, until the tables are set aside.
    damaged: Rc<Cell<bool>>,
    /// Entries of one answer at most.
    most: Rc<Cell<u32>>,
    /// Calls, entries of ranges, and bytes of their values.
    read: Rc<Cell<(usize, usize, usize)>>,
}

impl Counting {
    fn new(limit: u64) -> Self {
        Self {
            space: space(limit),
            fault: Rc::default(),
            read_only: Rc::default(),
            damaged: Rc::default(),
            most: Rc::new(Cell::new(u32::MAX)),
            read: Rc::default(),
        }
    }

    fn now(&self) -> Result<&Space, Fault> {
        let (calls, entries, bytes) = self.read.get();
        assert!(calls < 100_000, "this has no end");
        self.read.set((calls + 1, entries, bytes));
        self.fault.borrow().clone().map_or(Ok(&self.space), Err)
    }

    fn lines(&self) -> Vec<String> {
        done(Reader::new(self.space.clone()).query(&Filter::default(), usize::MAX, usize::MAX)).unwrap().lines
    }

    /// How many entries a table has.
    fn count(&self, table: &str) -> usize {
        done(self.space.range(Range { keys_only: true, ..Range::all(table) })).unwrap().entries.len()
    }
}

impl Keyspace for Counting {
    async fn info(&self) -> Result<Info, Fault> {
        let info = self.now()?.info().await?;
        Ok(Info { read_only: self.read_only.get(), lasting: true, ..info })
    }

    async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        self.now()?.get(table, key).await
    }

    async fn range(&self, range: Range<'_>) -> Result<Entries, Fault> {
        if self.damaged.get() && range.table == "calls" {
            return Err(Fault::Damaged("block 7".into()));
        }
        let most = range.most.min(self.most.get());
        let found = self.now()?.range(Range { most, ..range }).await?;
        let (calls, entries, bytes) = self.read.get();
        let values: usize = found.entries.iter().map(|(_, value)| value.len()).sum();
        self.read.set((calls, entries + found.entries.len(), bytes + values));
        Ok(found)
    }

    async fn commit(&self, batch: &Batch, durability: Durability) -> Result<(), Fault> {
        let space = self.now()?;
        if self.read_only.get() {
            return Err(Fault::ReadOnly("the disk failed".into()));
        }
        space.commit(batch, durability).await
    }

    async fn sync(&self) -> Result<(), Fault> {
        self.now()?.sync().await
    }

    async fn set_aside(&self) -> Result<u32, Fault> {
        self.damaged.set(false);
        self.now()?.set_aside().await
    }
}

/// The room for the ends of effects is taken in entries: as many as they need, two at least, and one more on the way back.
#[test]
fn the_room_for_ends_is_what_open_effects_need() {
    const CHUNK: usize = 124 << 10;
    for more in [0, 1] {
        let space = Counting::new(8 << 20);
        let mut chain = Stored::new(space.clone(), Room::Shared(0));
        let needed = |open: usize| (open * (CHUNK / 2 + more)).div_ceil(CHUNK).max(2);
        let event = |id| call_of("a", id, CHUNK / 2 + more - GROWTH);
        let mut begun = Vec::new();
        for open in 1..9 {
            begun.push(done(chain.append_tool(1, event(open))).unwrap().sequence);
            assert_eq!(space.count("reserve"), needed(open), "{open} open, {more} more");
        }
        let mut there = space.count("reserve");
        for (open, before) in (0..8).rev().zip(begun.into_iter().rev()) {
            done(chain.append_tool(1, ToolEvent { phase: Phase::After, before, ..event(open + 1) })).unwrap();
            there = there.min(needed(open) + 1);
            assert_eq!(space.count("reserve"), there, "{open} open, {more} more");
        }
    }
}

/// Bytes of the texts that may wait for the volume.
const WAITING: usize = 128 << 10;

#[test]
fn what_waits_fills_its_room_to_the_last_byte() {
    let space = Counting::new(8 << 20);
    let mut journal = Journal::new(space.clone(), Room::Shared(4 << 20), Life { earlier: 0, boot: 1000, start: 1001 });
    let mut append = |kind: &str, bytes: usize| {
        let principal = "x".repeat(bytes - 64 - kind.len());
        let event = GeneralEvent { kind: kind.into(), principal, ..GeneralEvent::default() };
        done(journal.append_general(1002, event))
    };
    let locked = Err(AppendError::Place(Fault::Locked));
    let (waits, mut there) = (Ok(Head::default()), 1);
    // What has waited leaves its room to others.
    for (is_open, more, recorded) in [(false, 0, 2), (true, 0, 2), (true, 1, 3)] {
        space.fault.replace(Some(Fault::Locked));
        if is_open {
            assert_eq!(append("message", 100), locked, "an open log learns it with the next record");
        }
        assert_eq!((append("message", 1000), append("message", WAITING - 1000 + more)), (waits.clone(), waits.clone()));
        // One that is lost leaves room, and is counted.
        assert_eq!(append("session.end", 80), if more > 0 { waits.clone() } else { locked.clone() });
        space.fault.replace(None);
        assert!(append("message", 100).is_ok());
        there += recorded + 1;
        assert_eq!(space.lines().len(), there, "{is_open} {more}");
    }
    let lost = space.lines().into_iter().filter(|line| line.contains("\"records\":\"1\""));
    assert_eq!(lost.count(), 1);
}

/// The lines of a page, how often the tables were read for it, and how many entries and bytes of values came.
fn asked(space: &Counting, filter: &Filter, max: usize) -> (Vec<String>, (usize, usize, usize)) {
    space.read.take();
    let page = done(Reader::new(space.clone()).query(filter, max, usize::MAX)).unwrap();
    (page.lines, space.read.take())
}

/// A question reads the head, where the records begin, and what it answers, with one record more to continue with.
#[test]
fn a_question_reads_no_more_than_its_answer() {
    let space = Counting::new(8 << 20);
    let mut chain = Stored::new(space.clone(), Room::Shared(0));
    for at in 1..=600 {
        if at % 2 == 0 {
            done(chain.append_tool(at, call(Phase::Refused, "u", usize::try_from(at).unwrap(), 0))).unwrap();
        } else {
            done(chain.append_general(at, message("s", 800))).unwrap();
        }
    }
    let bytes = |lines: &[String]| lines.iter().map(String::len).sum::<usize>();
    let text = |text: &str| Some(text.to_string());
    let (all, _) = asked(&space, &Filter::default(), 600);
    let of = |name: &str| all.iter().filter(|line| line.contains(name)).cloned().collect::<Vec<_>>();
    // One after another: each range has what it is to have.
    for (from, max) in [(0, 10), (0, 255), (100, 1), (590, 11), (600, 1)] {
        let (lines, read) = asked(&space, &Filter { from, ..Filter::default() }, max);
        let first = usize::try_from(from).unwrap().max(1) - 1;
        let with_next = &all[first..all.len().min(first + max + 1)];
        assert_eq!(lines, with_next[..max.min(with_next.len())], "{from} {max}");
        assert_eq!(read, (3, with_next.len() + 1, bytes(with_next)), "{from} {max}");
    }
    // By an index: its entries, and then each record alone, as no two follow each other.
    for (filter, name) in [
        (Filter { session: text("s"), ..Filter::default() }, "\"session\":\"s\""),
        (Filter { tool: text("t"), ..Filter::default() }, "\"name\":\"t\""),
    ] {
        let (lines, read) = asked(&space, &filter, 10);
        assert_eq!(lines, of(name)[..10]);
        assert_eq!(read, (3 + 11, 1 + 2 * 11, bytes(&of(name)[..11])), "{name}");
    }
    // What no index finds is looked for in whole pages.
    let (lines, read) = asked(&space, &Filter { kind: text("message"), ..Filter::default() }, 10);
    assert_eq!((lines, read), (of("\"kind\":\"message\"")[..10].to_vec(), (3, 257, bytes(&all[..256]))));
    // A check reads each record once, in pages, and looks at the first one before.
    space.read.take();
    done(Reader::new(space.clone()).verify(|_, _| {})).unwrap().checked.unwrap();
    assert_eq!(space.read.take(), (5, 601, bytes(&all) + all[0].len()));
}

/// Of long records, few are in memory at once: half a mebibyte, and one more.
#[test]
fn long_records_of_an_index_are_read_in_parts() {
    const PART: usize = 512 << 10;
    for (more, parts) in [(0, 1), (1, 2)] {
        let space = Counting::new(8 << 20);
        let mut chain = Stored::new(space.clone(), Room::Shared(0));
        let mut length = 0;
        for at in 0..9_usize {
            done(chain.append_general(1, message("other", 800))).unwrap();
            // The ninth comes after eight that are as long as a part, or a byte longer.
            let digit = usize::from(2 * at + 2 > 9);
            let bytes = if at == 7 { PART + more - length } else { 60_000 };
            done(chain.append_general(1, message("s", bytes + RECORD_OVERHEAD - digit))).unwrap();
            length += bytes;
        }
        let filter = Filter { session: Some("s".into()), ..Filter::default() };
        let (lines, (calls, ..)) = asked(&space, &filter, 100);
        assert_eq!((lines.len(), calls), (9, 2 + parts + 9), "{more}");
    }
}

/// A page ends where the next line would be one byte too many: each counts 16 more than it has.
#[test]
fn a_page_is_filled_to_its_last_byte() {
    let space = Counting::new(4 << 20);
    let mut chain = Stored::new(space.clone(), Room::Shared(0));
    for _ in 0..5 {
        done(chain.append_general(1, message("s", 1000 + RECORD_OVERHEAD - 16))).unwrap();
    }
    let reader = chain.reader();
    for session in [None, Some("s".to_string())] {
        let filter = Filter { session, ..Filter::default() };
        for (bytes, lines, next) in [(0, 1, 2), (999, 1, 2), (1999, 1, 2), (2000, 2, 3), (4999, 4, 5), (5000, 5, 0)] {
            let page = done(reader.query(&filter, 10, bytes)).unwrap();
            assert_eq!((page.lines.len(), page.next), (lines, next), "{bytes}");
        }
        for (max, lines, next) in [(1, 1, 2), (4, 4, 5), (5, 5, 0)] {
            let page = done(reader.query(&filter, max, usize::MAX)).unwrap();
            assert_eq!((page.lines.len(), page.next), (lines, next), "{max}");
        }
    }
}

/// Of the calls, an archive leaves those of which the outcome is still to come, as far as one batch takes them.
#[test]
fn an_archive_keeps_calls_without_an_outcome() {
    let decided = |id: usize| {
        let (session, id) = (format!("s{}", id % 8), format!("{id:04}"));
        Kind::BrokerDecision.event(&session, "p", &[("conversation", &"c"), ("callId", &id), ("decision", &"auto")])
    };
    for (decisions, kept) in [(1, 2..3), (3000, 2300..2400)] {
        let space = Counting::new(8 << 20);
        let mut chain = Stored::new(space.clone(), Room::Shared(0));
        let before = done(chain.append_tool(1, call(Phase::Before, "a", 1, 0))).unwrap().sequence;
        done(chain.append_tool(1, ToolEvent { phase: Phase::After, before, ..call(Phase::Before, "a", 1, 0) }))
            .unwrap();
        done(chain.append_tool(1, call(Phase::Refused, "a", 2, 0))).unwrap();
        done(chain.append_tool(1, call(Phase::Before, "a", 3, 0))).unwrap();
        for id in 0..decisions {
            done(chain.append_general(1, decided(id))).unwrap();
        }
        assert_eq!(space.count("calls"), 3 + decisions);
        let file = Written { head: chain.head().unwrap(), ..Written::default() };
        done(chain.archive(2, "one.jsonl", &file)).unwrap();
        assert!(kept.contains(&space.count("calls")), "{}", space.count("calls"));
    }
}

/// What is damaged cannot be removed: it stays aside, and the chain continues with the record of the archive.
#[test]
fn an_archive_of_a_damaged_log_leaves_it_aside() {
    let space = Counting::new(8 << 20);
    let mut chain = Stored::new(space.clone(), Room::Shared(0));
    done(chain.append_tool(1, call(Phase::Before, "a", 1, 0))).unwrap();
    space.damaged.set(true);
    let file = Written { head: chain.head().unwrap(), ..Written::default() };
    assert_eq!(done(chain.archive(2, "one.jsonl", &file)).unwrap().sequence, 2);
    done(chain.append_general(3, message("a", 800))).unwrap();
    let lines = space.lines();
    assert!(lines.len() == 2 && lines[0].contains("\"one.jsonl\"") && lines[1].contains("\"message\""), "{lines:?}");
    assert_eq!((done(space.info()).unwrap().asides, done(chain.reader().damage()).unwrap().len()), (1, 0));
}

/// While the disk cannot be written, memory takes a mebibyte, or what the disk could take later.
#[test]
fn memory_takes_what_the_disk_can_take_later() {
    const MEMORY: usize = 1 << 20;
    // In the last case nothing is known of the disk.
    for (limit, used) in [(8 << 20, 6_000_000), (1 << 20, 300_000), (1 << 20, 0)] {
        let space = Counting::new(limit);
        let mut chain = Stored::new(space.clone(), Room::Shared(0));
        let mut filled = 0;
        while filled < used {
            // Each in a session of its own, a third of what is there.
            let event = message(&format!("{}", filled * 3 / used), 100_000);
            filled = done(chain.append_general(1, event)).map(|_| chain.usage().unwrap().0).unwrap();
        }
        chain.take_warning();
        space.read_only.set(true);
        if used == 0 {
            space.fault.replace(Some(Fault::ReadOnly("the disk was never written".into())));
        }
        done(chain.append_general(1, message("a", 2000))).unwrap();
        let quota = usize::try_from(limit).unwrap() - (512 << 10);
        let memory = if used == 0 { MEMORY } else { (quota - filled).min(MEMORY) };
        let (now, bound) = chain.usage().unwrap();
        assert_eq!(bound, filled + memory);
        assert!(now > filled && now < filled + 4000);
        assert!(chain.take_warning().unwrap().contains("goes on in memory"));
        // The warnings are about the room in memory.
        let room = filled + memory - memory / 16;
        let mut at = 0;
        while chain.usage().unwrap().0 < filled + (room - filled) / 10 * 7 {
            at += 1;
            done(chain.append_general(1, message(&format!("m{}", at % 4), 10_000))).unwrap();
            assert_eq!(chain.take_warning(), None);
        }
        let text = loop {
            at += 1;
            done(chain.append_general(1, message(&format!("m{}", at % 4), 10_000))).unwrap();
            if let Some(text) = chain.take_warning() {
                break text;
            }
        };
        assert!(text.contains("80 %") && text.contains("attach a disk that can be written"), "{text}");
    }
}

/// An answer of the store may have fewer entries than it was asked for.
#[test]
fn answers_of_any_size_say_the_same() {
    let space = Counting::new((512 << 10) + 320_000);
    let mut chain = Stored::new(space.clone(), Room::Shared(0));
    for at in 1..=3 {
        done(chain.append_general(at, message("a", 20_000))).unwrap();
        done(chain.append_general(at, message("b", 20_000))).unwrap();
        done(chain.append_lost(at, &[Lost { first: at, last: at }], "block 7")).unwrap();
    }
    for at in 4..=5 {
        done(chain.append_tool(at, call(Phase::Refused, "b", usize::try_from(at).unwrap(), 0))).unwrap();
    }
    let begun =
        ["c", "d"].map(|session| done(chain.append_tool(6, call(Phase::Before, session, 6, 0))).unwrap().sequence);
    let session = Some("b".to_string());
    let filters = [
        Filter::default(),
        Filter { session: session.clone(), ..Filter::default() },
        Filter { tool: Some("t".into()), session, ..Filter::default() },
        Filter { since: 2, until: Some(5), ..Filter::default() },
    ];
    let said = || {
        let reader = Reader::new(space.clone());
        let pages = filters.clone().map(|filter| done(reader.query(&filter, 100, usize::MAX)).unwrap());
        (pages, done(reader.damage()).unwrap(), done(reader.verify(|_, _| {})).unwrap(), done(reader.first()).unwrap())
    };
    let expected = said();
    assert_eq!(expected.0.each_ref().map(|page| page.lines.len()), [13, 5, 2, 7]);
    assert_eq!(expected.1.len(), 3);
    for most in 1..5 {
        space.most.set(most);
        assert_eq!(said(), expected, "{most}");
        let mut again = Stored::new(space.clone(), Room::Shared(0));
        done(again.open()).unwrap();
        assert_eq!((again.usage(), again.open_effects().collect::<Vec<_>>()), (chain.usage(), begun.to_vec()));
        for session in ["a", "b"] {
            let error = done(again.append_general(7, message(session, 65_000))).unwrap_err();
            assert_eq!(error, AppendError::Share { limit: 120_000 }, "{session} {most}");
        }
    }
}
