//! A block of the chain's tables that is not what was written there last: the chain continues, and says what is lost.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use capos_audit::{Checker, Copier, Head, Journal, Life, Lost, Reader, Room, Target, Verified, lost_in, survey};
use capos_keyspace::local::LocalKeyspace;
use capos_keyspace::{Batch, Durability, Entries, Fault, Info, Keyspace, Range};
use capos_schema::audit::{GeneralEvent, Phase, ToolEvent};
use capos_schema::models::ToolDescriptor;
use capos_store::{BLOCK_BYTES, Blocks, FaultyBlocks, MemoryBlocks, Store, UNDAMAGED};

use crate::support::done;

const ROOM: Room = Room::Shared(4 << 20);

type Space = LocalKeyspace<FaultyBlocks>;

fn open(blocks: MemoryBlocks, damaged: u64) -> Option<Space> {
    open_rotten(FaultyBlocks::new(blocks, damaged))
}

fn open_rotten(blocks: FaultyBlocks) -> Option<Space> {
    let store = Store::open(blocks).ok()?;
    Some(LocalKeyspace::new(Rc::new(RefCell::new(store)), "audit", 6 << 20).unwrap())
}

fn close(space: Space) -> FaultyBlocks {
    let shared = space.store().clone();
    drop(space);
    Rc::into_inner(shared).unwrap().into_inner().close().unwrap()
}

fn message(number: u64) -> GeneralEvent {
    GeneralEvent { kind: "message".into(), session: format!("s{}", number % 7), ..GeneralEvent::default() }
}

fn call(id: u64) -> ToolEvent {
    ToolEvent {
        phase: Phase::Before,
        session: "s1".into(),
        call_id: format!("c{id}"),
        descriptor: ToolDescriptor { name: "t".into(), description: "x".repeat(300), ..ToolDescriptor::default() },
        decided: true,
        ..ToolEvent::default()
    }
}

fn life(boot: u64) -> Life {
    Life { earlier: 0, boot, start: boot + 1 }
}

/// A chain with records among others', the lines of all records and the head.
fn filled() -> (MemoryBlocks, BTreeMap<u64, String>, Head) {
    let space = open(MemoryBlocks::new(4096), UNDAMAGED).unwrap();
    let others = ["broker", "files"].map(|name| LocalKeyspace::new(space.store().clone(), name, 1 << 20).unwrap());
    let mut journal = Journal::new(space.clone(), ROOM, life(1000));
    for number in 0..120 {
        if number % 3 == 0 {
            done(journal.append_tool(2000 + number, call(number))).unwrap();
        } else {
            done(journal.append_general(2000 + number, message(number))).unwrap();
        }
        for other in &others {
            let batch = Batch::new().put("t", &number.to_be_bytes(), &[7; 200]).clone();
            done(other.commit(&batch, Durability::Now)).unwrap();
        }
    }
    let reader = Reader::new(space.clone());
    let head = done(reader.head()).unwrap();
    let line = |sequence| Some((sequence, done(reader.line(sequence)).unwrap()?));
    let lines = (1..=head.sequence).filter_map(line).collect();
    drop((others, journal, reader));
    (close(space).blocks, lines, head)
}

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Rc<RefCell<Vec<u8>>>);

impl Target for Memory {
    async fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        assert_eq!(offset, self.0.borrow().len() as u64);
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(())
    }

    async fn sync(&mut self) -> Result<(), String> {
        Ok(())
    }

    async fn read(&mut self, offset: u64, most: usize) -> Result<Vec<u8>, String> {
        let offset = usize::try_from(offset).unwrap();
        Ok(self.0.borrow()[offset..].iter().copied().take(most).collect())
    }

    async fn finish(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// The lines of an export, made as the service makes it.
fn exported(space: &Space, journal: &mut Journal<Space>) -> Vec<String> {
    let reader = Reader::new(space.clone());
    let mut head = done(reader.head()).unwrap();
    let found = done(survey(&reader, head)).unwrap();
    if !found.lost.is_empty() {
        head = done(journal.append_lost(9000, &found.lost, &found.why)).unwrap();
    }
    let file = Memory::default();
    let mut copier = Copier::new(reader, file.clone());
    done(copier.copy_to(head)).unwrap();
    let written = done(copier.finish()).unwrap();
    let text = String::from_utf8(file.0.take()).unwrap();
    let lines: Vec<String> = text.lines().map(String::from).collect();
    assert_eq!(lines.len() as u64, written.records);
    lines
}

/// Checks an export, in which those records may be missing that it names itself.
fn check(lines: &[String], heads: &[Head]) -> Result<capos_audit::Summary, String> {
    let mut checker = heads.iter().fold(Checker::default(), |checker, head| checker.through(*head));
    lines.iter().flat_map(|line| lost_in(line.as_bytes())).for_each(|lost| checker.allow(lost));
    for line in lines {
        checker.line(line.as_bytes()).map_err(|broken| broken.to_string())?;
    }
    checker.end(None).map_err(|broken| broken.to_string())
}

fn used(image: &MemoryBlocks) -> Vec<u64> {
    let is_used = |block: &u64| {
        let mut data = [0; BLOCK_BYTES];
        image.clone().read(*block, &mut data).unwrap();
        data.iter().any(|byte| *byte != 0)
    };
    (0..image.blocks()).filter(is_used).collect()
}

/// Whichever block is damaged: if the store opens, the log takes records; what it says of lost records is true; and its export
/// has all others and is one chain.
#[test]
fn a_log_goes_on_whichever_block_is_damaged() {
    let (image, lines, head) = filled();
    let (mut over, mut named, mut closed, mut all) = (0, 0, 0, 0);
    for block in used(&image) {
        let Some(space) = open(image.clone(), block) else {
            closed += 1;
            continue;
        };
        all += 1;
        let mut journal = Journal::new(space.clone(), ROOM, life(5000));
        if let Err(error) = done(journal.ready()) {
            // Blocks that belong to the store as a whole.
            assert!(error.to_string().contains(&format!("block {block} does not hold")), "{block}: {error}");
            closed += 1;
            continue;
        }
        for number in 0..10 {
            done(journal.append_general(6000 + number, message(number)))
                .unwrap_or_else(|error| panic!("block {block}: {error}"));
        }
        let reader = Reader::new(space.clone());
        let damages = done(reader.damage()).unwrap();
        let starts_over = done(space.info()).unwrap().asides > 0;
        assert_eq!(starts_over, !damages.is_empty(), "{block}");
        over += u64::from(starts_over);
        if starts_over {
            assert!(damages[0].contains(&format!("block {block} does not hold")), "{damages:?}");
            assert!(journal.take_warning().unwrap().contains("starts over"));
        }
        let file = exported(&space, &mut journal);
        let summary = check(&file, &[]).unwrap_or_else(|why| panic!("block {block}: {why}"));
        named += u64::from(!summary.lost.is_empty());
        // Every record of before is in the export as it was, or is named as lost.
        let sequence =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["sequence"].as_u64().unwrap();
        let there: BTreeMap<u64, &String> = file.iter().map(|line| (sequence(line), line)).collect();
        let is_lost = |sequence: u64| summary.lost.iter().any(|lost| (lost.first..=lost.last).contains(&sequence));
        let begun = file.iter().find(|line| line.contains("\"part\"")).map(|line| sequence(line));
        for (sequence, line) in &lines {
            let is_there = there.get(sequence) == Some(&line);
            let behind = begun.is_some_and(|begun| begun <= *sequence);
            assert!(is_there != is_lost(*sequence) || behind, "block {block}, record {sequence}: {summary:?}");
        }
        // A head that was noted is confirmed, or the reason is said.
        match check(&file, &[head]) {
            Ok(_) => {}
            Err(why) => assert!(why.contains("lost") || why.contains("another chain"), "{why}"),
        }
        // The check on the machine finds the same.
        let Verified { checked, lost, .. } = done(reader.verify(|_, _| {})).unwrap();
        assert!(checked.is_ok() && lost.is_empty(), "block {block}: {checked:?} {lost:?}");
        // And after the next start, too.
        drop((journal, reader));
        let space = open_rotten(close(space)).unwrap();
        let mut journal = Journal::new(space.clone(), ROOM, life(10_000));
        done(journal.append_general(10_002, message(1))).unwrap();
        assert_eq!(done(space.info()).unwrap().asides > 0, starts_over, "block {block}");
        check(&exported(&space, &mut journal), &[]).unwrap();
    }
    println!(
        "of {all} blocks with which the store opens, the log started over with {over}; {named} exports name lost records"
    );
    assert!(over > 10 && named > 10 && closed < 20, "{over} {named} {closed}");
}

/// While the log runs it knows how far it was, also if the disk no longer says so: no record that was acknowledged shares its number
/// with another one.
#[test]
fn no_number_of_an_acknowledged_record_is_used_again() {
    let (image, _, _) = filled();
    let (mut over, mut headless) = (0, 0);
    for block in used(&image) {
        let space = open(image.clone(), UNDAMAGED).unwrap();
        let disk = |look: &dyn Fn(&FaultyBlocks)| space.store().borrow().with_blocks(|blocks| look(blocks));
        let mut journal = Journal::new(space.clone(), ROOM, life(5000));
        let mut acknowledged = Head::default();
        for number in 0..10 {
            acknowledged = done(journal.append_general(6000 + number, message(number))).unwrap();
        }
        // A write that fails has it read the tables again, and finds the block.
        disk(&|blocks| blocks.fails.store(true, Ordering::Relaxed));
        assert!(done(journal.append_general(7000, message(1))).is_err());
        disk(&|blocks| blocks.fails.store(false, Ordering::Relaxed));
        disk(&|blocks| blocks.damaged.store(block, Ordering::Relaxed));
        let Ok(head) = done(journal.append_general(8000, message(2))) else { continue };
        if done(space.info()).unwrap().asides == 0 {
            continue;
        }
        over += 1;
        let reader = Reader::new(space.clone());
        let first = done(reader.first()).unwrap();
        assert!(first > acknowledged.sequence && head.sequence > first, "block {block}: {first} {acknowledged}");
        let line: serde_json::Value = serde_json::from_str(&done(reader.line(first)).unwrap().unwrap()).unwrap();
        assert_eq!(line["fields"]["head"].as_str().unwrap(), acknowledged.to_string(), "block {block}");
        headless += u64::from(!line["fields"]["lost"].is_null());
        check(&exported(&space, &mut journal), &[]).unwrap_or_else(|why| panic!("block {block}: {why}"));
    }
    println!("{over} blocks let the log start over, with {headless} of them its last records are lost");
    assert!(over > 3, "{over}");
}

/// The first record says which part is set aside, why, and from where the chain continues.
#[test]
fn the_first_record_names_the_damage_and_the_last_head() {
    let (image, lines, head) = filled();
    let (mut seen, mut found) = (0, 0);
    for block in used(&image) {
        let Some(space) = open(image.clone(), block) else { continue };
        let mut journal = Journal::new(space.clone(), ROOM, life(5000));
        if done(journal.ready()).is_err() || done(space.info()).unwrap().asides == 0 {
            continue;
        }
        let reader = Reader::new(space.clone());
        let first = done(reader.first()).unwrap();
        let line: serde_json::Value = serde_json::from_str(&done(reader.line(first)).unwrap().unwrap()).unwrap();
        assert_eq!((line["kind"].as_str(), line["fields"]["part"].as_str()), (Some("log.damage"), Some("1")));
        assert!(line["fields"]["why"].as_str().unwrap().contains(&format!("block {block} ")));
        if line["fields"]["end"].is_null() {
            assert_eq!(line["fields"]["head"].as_str().unwrap(), head.to_string());
            assert_eq!(first, head.sequence + 1);
            seen += 1;
        } else if let Some(named) = line["fields"]["head"].as_str() {
            // Where nothing says how far the chain was, the last record that can be read does.
            let named: Head = named.parse().unwrap();
            assert_eq!(named.sequence + 1, first);
            assert!(lines[&named.sequence].contains(&hex::encode(named.hash)), "block {block}: {named}");
            found += 1;
        }
        // The records of the new part alone are a chain that says what is before it.
        let current: Vec<String> = (first..=done(reader.head()).unwrap().sequence)
            .map(|sequence| done(reader.line(sequence)).unwrap().unwrap())
            .collect();
        let summary = check(&current, &[]).unwrap();
        assert_eq!((summary.archived.sequence + 1, summary.archive.as_str()), (first, ""));
        assert_eq!(summary.damages.len(), 1);
        if first > 3 {
            let why = check(&current, &[Head { sequence: 2, hash: [1; 32] }]).unwrap_err();
            assert!(why.contains("in a part that was damaged"), "{why}");
        }
    }
    assert!(seen > 5 && found > 0, "{seen} {found}");
}

/// Records that are gone from their table without a damage of the disk are lost, too.
#[test]
fn records_that_are_gone_at_the_end_are_named_as_lost() {
    let (image, _, head) = filled();
    let space = open(image, UNDAMAGED).unwrap();
    let first = head.sequence - 2;
    let batch = Batch::new().remove_range("records", &first.to_be_bytes(), &[]).clone();
    done(space.commit(&batch, Durability::Now)).unwrap();
    let found = done(survey(&Reader::new(space), head)).unwrap();
    assert_eq!(
        (found.lost, found.why.as_str()),
        (vec![Lost { first, last: head.sequence }], "they are not in the log")
    );
}

/// A disk on which these records cannot be read.
#[derive(Clone, Debug)]
struct Holes {
    space: Space,
    bad: RangeInclusive<u64>,
}

impl Holes {
    fn check(&self, table: &str, key: &[u8]) -> Result<(), Fault> {
        let is_bad = table == "records" && key.try_into().is_ok_and(|key| self.bad.contains(&u64::from_be_bytes(key)));
        if is_bad { Err(Fault::Damaged("block 7".into())) } else { Ok(()) }
    }
}

impl Keyspace for Holes {
    async fn info(&self) -> Result<Info, Fault> {
        self.space.info().await
    }

    async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        self.check(table, key)?;
        self.space.get(table, key).await
    }

    async fn range(&self, range: Range<'_>) -> Result<Entries, Fault> {
        let table = range.table.to_string();
        let found = self.space.range(range).await?;
        found.entries.iter().try_for_each(|(key, _)| self.check(&table, key))?;
        Ok(found)
    }

    async fn commit(&self, batch: &Batch, durability: Durability) -> Result<(), Fault> {
        self.space.commit(batch, durability).await
    }

    async fn sync(&self) -> Result<(), Fault> {
        self.space.sync().await
    }
}

/// Of records that cannot be read, however many, none is named as lost that can.
#[test]
fn no_record_is_named_as_lost_that_can_be_read() {
    let (image, _, head) = filled();
    let space = open(image, UNDAMAGED).unwrap();
    for (first, last) in
        [(10, 10), (10, 11), (10, 12), (10, 14), (33, 52), (2, head.sequence), (head.sequence - 4, head.sequence)]
    {
        let holes = Holes { space: space.clone(), bad: first..=last };
        let found = done(survey(&Reader::new(holes), head)).unwrap();
        assert_eq!((found.lost, found.why.as_str()), (vec![Lost { first, last }], "block 7"));
    }
}

/// A gap that no record names is a gap.
#[test]
fn only_records_that_are_named_as_lost_may_be_missing() {
    let (image, lines, _) = filled();
    let space = open(image, UNDAMAGED).unwrap();
    let mut journal = Journal::new(space.clone(), ROOM, life(5000));
    done(journal.ready()).unwrap();
    done(journal.append_lost(6000, &[Lost { first: 10, last: 12 }], "block 7")).unwrap();
    let whole = exported(&space, &mut journal);
    assert!(whole.len() > lines.len() && check(&whole, &[]).is_ok());
    let without = |from: usize, to: usize| [&whole[..from - 1], &whole[to..]].concat();
    assert!(check(&without(10, 12), &[]).is_ok());
    for (from, to) in [(10, 11), (9, 12), (10, 13), (20, 20)] {
        assert!(check(&without(from, to), &[]).unwrap_err().contains("missing"), "{from} {to}");
    }
    // A head in the gap is not confirmed, and the one at its end is.
    let head = |sequence: usize| {
        let line: serde_json::Value = serde_json::from_str(&whole[sequence - 1]).unwrap();
        format!("{sequence}:{}", line["hash"].as_str().unwrap()).parse::<Head>().unwrap()
    };
    assert!(check(&without(10, 12), &[head(11)]).unwrap_err().contains("the records 10 to 12 are lost"));
    assert!(check(&without(10, 12), &[head(9), head(12), head(13)]).is_ok());
    assert!(check(&without(10, 12), &[Head { hash: [0; 32], ..head(12) }]).unwrap_err().contains("another chain"));
}
