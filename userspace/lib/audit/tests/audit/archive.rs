//! The records go into a file, and the chain continues. Each acknowledged record is in the log or in a whole file, whatever
//! operation fails and whenever the power is cut.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

use std::cell::RefCell;
use std::rc::Rc;

use capos_audit::{
    AppendError, Checker, Copier, Filter, Head, Journal, Kind, Life, Reader, Room, Summary, Target, Written,
    verify_lines,
};
use capos_keyspace::Keyspace;
use capos_keyspace::local::LocalKeyspace;
use capos_schema::audit::{GeneralEvent, Phase, ToolEvent};
use capos_schema::authority::Label;
use capos_store::{OnVolume, Store};
use capos_volume::sim::{Seed, SharedDisk, SimDisk};
use capos_volume::{Access, CipherKind, Cost, Format, Locked, Options, Secret, Volume};

use crate::support::{Space, done, space};

/// A file on a volume that loses what was not synced, and fails after this many operations.
#[derive(Clone, Debug, Default)]
struct Stick(Rc<RefCell<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    written: Vec<u8>,
    synced: Vec<u8>,
    finished: bool,
    operations: u64,
    fails_at: Option<u64>,
    /// What is read back is another byte.
    lies: bool,
}

impl Stick {
    fn step(&self) -> Result<std::cell::RefMut<'_, Inner>, String> {
        let mut inner = self.0.borrow_mut();
        inner.operations += 1;
        match inner.fails_at {
            Some(at) if inner.operations > at => Err("the volume was removed".into()),
            _ => Ok(inner),
        }
    }

    /// The lines of the whole file; none if it has no name.
    fn lines(&self) -> Vec<String> {
        let inner = self.0.borrow();
        let text = if inner.finished { inner.synced.as_slice() } else { b"" };
        String::from_utf8(text.to_vec()).unwrap().lines().map(String::from).collect()
    }
}

impl Target for Stick {
    async fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let mut inner = self.step()?;
        assert_eq!(offset, inner.written.len() as u64);
        inner.written.extend_from_slice(bytes);
        Ok(())
    }

    async fn sync(&mut self) -> Result<(), String> {
        let mut inner = self.step()?;
        inner.synced = inner.written.clone();
        Ok(())
    }

    async fn read(&mut self, offset: u64, most: usize) -> Result<Vec<u8>, String> {
        let inner = self.step()?;
        let from = usize::try_from(offset).unwrap();
        let mut read = inner.synced[from..inner.synced.len().min(from + most)].to_vec();
        if inner.lies {
            read[0] ^= 1;
        }
        Ok(read)
    }

    async fn finish(&mut self) -> Result<(), String> {
        self.step()?.finished = true;
        Ok(())
    }
}

fn journal<K: Keyspace + Clone>(space: &K) -> Journal<K> {
    Journal::new(space.clone(), Room::Shared(0), Life { earlier: 0, boot: 0, start: 0 })
}

fn call(id: &str) -> ToolEvent {
    ToolEvent {
        phase: Phase::Before,
        session: "s".into(),
        call_id: id.into(),
        arguments: "x".repeat(500),
        decided: true,
        label: Label { classes: vec!["pii.log".into()] },
        ..ToolEvent::default()
    }
}

fn message(session: &str) -> GeneralEvent {
    GeneralEvent { kind: "message".into(), session: session.into(), ..GeneralEvent::default() }
}

/// Some records, and one effect that has begun: its event and sequence.
fn fill<K: Keyspace + Clone>(log: &mut Journal<K>, records: u64) -> (ToolEvent, Vec<Head>) {
    let mut heads: Vec<Head> = (0..records).map(|at| done(log.append_general(at, message("s"))).unwrap()).collect();
    heads.push(done(log.append_tool(records, call("open"))).unwrap());
    (call("open"), heads)
}

fn archive<K: Keyspace + Clone>(log: &mut Journal<K>, stick: &Stick, name: &str) -> Result<Written, String> {
    let reader = log.stored().reader();
    let mut copier = Copier::new(reader.clone(), stick.clone());
    done(copier.copy_to(done(reader.head()).map_err(|fault| fault.to_string())?)).map_err(|why| why.to_string())?;
    let written = done(copier.finish()).map_err(|why| why.to_string())?;
    done(log.archive(99, name, &written)).map_err(|error| error.to_string())?;
    Ok(written)
}

fn lines<K: Keyspace>(reader: &Reader<K>) -> Vec<String> {
    done(reader.query(&Filter::default(), usize::MAX, usize::MAX)).unwrap().lines
}

fn check(parts: &[&[String]], heads: &[Head]) -> Result<Summary, String> {
    let mut checker = heads.iter().fold(Checker::default(), |checker, head| checker.through(*head));
    for line in parts.iter().copied().flatten() {
        checker.line(line.as_bytes()).map_err(|broken| broken.to_string())?;
    }
    checker.end(None).map_err(|broken| broken.to_string())
}

#[test]
fn the_chain_continues_after_an_archive() {
    let space = space(3 << 20);
    let mut log = journal(&space);
    let (event, mut heads) = fill(&mut log, 40);
    let before = heads.last().unwrap().sequence;
    let used = log.stored().usage().unwrap().0;
    let first = Stick::default();
    let written = archive(&mut log, &first, "one.jsonl").unwrap();
    assert_eq!((written.first, written.records, written.head), (1, before, *heads.last().unwrap()));
    assert_eq!(written.label.classes, ["pii.log"]);
    assert!(log.stored().usage().unwrap().0 < used / 20, "{:?} after {used}", log.stored().usage());
    // An effect that had begun ends, once, and no call is told twice.
    let after = ToolEvent { phase: Phase::After, before, ..event.clone() };
    heads.push(done(log.append_tool(100, after.clone())).unwrap());
    for again in [after, event] {
        let why = done(log.append_tool(100, again)).unwrap_err();
        assert!(matches!(why, AppendError::Invalid(_)), "{why}");
    }
    // A second archive, and a boot.
    let second = Stick::default();
    let written = archive(&mut log, &second, "two.jsonl").unwrap();
    assert_eq!((written.first, written.records), (before + 1, 2));
    let mut log = journal(&space);
    heads.push(done(log.append_general(101, message("t"))).unwrap());
    let reader = log.stored().reader();
    let rest = lines(&reader);
    assert_eq!(rest.len(), 3);
    assert!(rest[0].contains("log.archive") && rest[0].contains("two.jsonl") && rest[1].contains("log.start"));
    let (one, two) = (first.lines(), second.lines());
    let whole = check(&[&one, &two, &rest], &heads).unwrap();
    assert_eq!((whole.records, whole.effects, whole.archived), (before + 5, 1, Head::default()));
    // Of what is there alone, the archive is named.
    let checked = done(reader.verify(|_, _| {})).unwrap().checked;
    let alone = checked.unwrap();
    assert_eq!((alone.records, alone.archived.sequence, alone.archive.as_str()), (3, before + 2, "two.jsonl"));
    assert_eq!(check(&[&two, &rest], &heads[40..]).unwrap().effects, 1);
    // A missing part is told, and so is one of another chain.
    let why = check(&[&one, &rest], &[]).unwrap_err();
    assert!(why.contains(&format!("the records {} to {} are missing", before + 1, before + 2)), "{why}");
    let why = check(&[&rest], &heads[..1]).unwrap_err();
    assert!(why.contains("are in archives") && why.contains("two.jsonl"), "{why}");
    let why = check(&[&one[1..]], &[]).unwrap_err();
    assert!(why.contains("the records 1 to 1 are missing, and no archive has them"), "{why}");
    let other = Head { hash: [7; 32], ..alone.archived };
    assert!(check(&[&rest], &[other]).unwrap_err().contains("another chain"));
    // Questions find what is here.
    let found = |filter: Filter| done(reader.query(&filter, 9, usize::MAX)).unwrap().lines.len();
    assert_eq!(found(Filter { session: Some("s".into()), ..Filter::default() }), 0);
    assert_eq!(found(Filter { session: Some("t".into()), ..Filter::default() }), 1);
    assert_eq!(found(Filter { since: 101, ..Filter::default() }), 1);
}

/// A file on a slow volume: while it is synced, others record.
struct Slow<K> {
    stick: Stick,
    log: Rc<RefCell<Journal<K>>>,
    /// How many they record at each sync.
    meanwhile: Vec<u64>,
}

impl<K: Keyspace + Clone> Target for Slow<K> {
    async fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        self.stick.write(offset, bytes).await
    }

    async fn sync(&mut self) -> Result<(), String> {
        let records = if self.meanwhile.len() > 1 { self.meanwhile.remove(0) } else { self.meanwhile[0] };
        for at in 0..records {
            done(self.log.borrow_mut().append_general(at, message("other"))).unwrap();
        }
        self.stick.sync().await
    }

    async fn read(&mut self, offset: u64, most: usize) -> Result<Vec<u8>, String> {
        self.stick.read(offset, most).await
    }

    async fn finish(&mut self) -> Result<(), String> {
        self.stick.finish().await
    }
}

/// Records wait for the end of an archive, and that is short.
#[test]
fn little_is_left_when_the_records_of_others_wait() {
    for (meanwhile, done_so) in [(vec![500, 200, 60, 0], true), (vec![65], false)] {
        let mut log = journal(&space(12 << 20));
        fill(&mut log, 40);
        let reader = log.stored().reader();
        let head = log.stored().head().unwrap();
        let log = Rc::new(RefCell::new(log));
        let mut copier = Copier::new(reader, Slow { stick: Stick::default(), log: log.clone(), meanwhile });
        let caught_up = done(copier.catch_up(head));
        let left = log.borrow().stored().head().unwrap().sequence - copier.written().head.sequence;
        assert_eq!(caught_up.is_ok(), done_so, "{caught_up:?}");
        assert!(left <= capos_audit::FEW || !done_so, "{left}");
        if let Err(why) = caught_up {
            assert!(why.to_string().contains("grows faster"), "{why}");
        }
    }
}

#[test]
fn an_archive_makes_room_in_a_full_log() {
    let space = space(1 << 20);
    let mut log = journal(&space);
    let mut session = 0;
    let full = loop {
        session += 1;
        match done(log.append_general(1, message(&session.to_string()))) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(full, AppendError::Full { .. }), "{full}");
    let spared = Kind::SessionStart.event("x", "ada", &[]);
    done(log.append_general(1, spared)).unwrap();
    archive(&mut log, &Stick::default(), "one.jsonl").unwrap();
    done(log.append_general(2, message("y"))).unwrap();
    // What the records took is free, apart from what keeps room.
    let info = done(space.info()).unwrap();
    assert!(info.used < 300 << 10, "{info:?}");
}

#[test]
fn a_file_that_fails_anywhere_or_lies_removes_no_record() {
    let steps = |stick: &Stick| stick.0.borrow().operations;
    let run = |stick: &Stick| {
        let space: Space = space(3 << 20);
        let mut log = journal(&space);
        let (_, heads) = fill(&mut log, 900);
        let done = archive(&mut log, stick, "one.jsonl");
        let rest = lines(&log.stored().reader());
        (done, rest, heads)
    };
    let whole = Stick::default();
    assert!(run(&whole).0.is_ok() && steps(&whole) > 4);
    for at in 0..steps(&whole) {
        let stick = Stick::default();
        stick.0.borrow_mut().fails_at = Some(at);
        let (done, rest, heads) = run(&stick);
        assert!(done.unwrap_err().contains("no record was removed"), "{at}");
        assert_eq!(verify_lines(&rest, heads.last().copied()).unwrap().records, 902, "{at}");
    }
    let stick = Stick::default();
    stick.0.borrow_mut().lies = true;
    let (done, rest, heads) = run(&stick);
    assert!(done.unwrap_err().contains("what was read back differs"));
    assert!(verify_lines(&rest, heads.last().copied()).is_ok() && !stick.0.borrow().finished);
}

/// Records that come between the copy and the removal are copied as well, or nothing is removed.
#[test]
fn a_file_that_ends_before_the_log_removes_nothing() {
    let space = space(3 << 20);
    let mut log = journal(&space);
    fill(&mut log, 5);
    let reader = log.stored().reader();
    let stick = Stick::default();
    let mut copier = Copier::new(reader.clone(), stick.clone());
    done(copier.copy_to(done(reader.head()).unwrap())).unwrap();
    let late = done(log.append_general(50, message("late"))).unwrap();
    let stale = copier.written().clone();
    assert!(matches!(done(log.archive(51, "x", &stale)), Err(AppendError::Invalid(_))));
    assert_eq!(lines(&reader).len(), 8);
    done(copier.copy_to(late)).unwrap();
    let written = done(copier.finish()).unwrap();
    done(log.archive(51, "x", &written)).unwrap();
    let summary = check(&[&stick.lines(), &lines(&reader)], &[late]).unwrap();
    assert_eq!(summary.records, 9);
}

const KEY: Secret<'static> = Secret::KeyFile(&[7; 32]);
const OPTIONS: Options = Options { access: Access::Write, cache_nodes: 4 };

fn random(start: u64) -> impl FnMut(&mut [u8]) {
    let mut seed = Seed(start);
    move |bytes| seed.fill(bytes)
}

fn open(disk: &SharedDisk, start: u64) -> LocalKeyspace<OnVolume<SharedDisk>> {
    let locked = Locked::read(disk.clone()).unwrap();
    let key = locked.unlock(&KEY, None, 1 << 20).unwrap();
    let volume = locked.open(key, OPTIONS, &mut random(start)).unwrap();
    let store = Store::open(OnVolume::new(volume, disk.clone(), OPTIONS, Box::new(random(start + 1)))).unwrap();
    LocalKeyspace::new(Rc::new(RefCell::new(store)), "audit", 3 << 20).unwrap()
}

/// The power is cut at each write of the disk while an archive is made, and the disk keeps a random part of what it was not told
/// to flush.
#[test]
fn a_power_cut_at_any_write_loses_no_record() {
    let (mut old, mut new) = (0, 0);
    for cut in 0.. {
        let format = Format { cipher: CipherKind::Aes256Gcm, cost: Cost::LEAST, label: "test", cache_nodes: 4 };
        let formatted = Volume::format(SimDisk::new(3000, cut), format, &KEY, &mut random(1)).unwrap();
        let disk = SharedDisk::new(formatted.into_disk());
        let space = open(&disk, cut);
        let mut log = journal(&space);
        let (_, heads) = fill(&mut log, 60);
        let stick = Stick::default();
        disk.lock().set_fuse(Some(cut));
        let archived = archive(&mut log, &stick, "one.jsonl");
        let is_over = !disk.lock().is_dead();
        drop((log, space));
        let left = disk.lock().clone();
        let disk = SharedDisk::new(left.crash());
        let reader = Reader::new(open(&disk, cut + 1));
        let (file, rest) = (stick.lines(), lines(&reader));
        if rest.first().is_some_and(|line| line.contains("log.archive")) {
            new += 1;
            check(&[&file, &rest], &heads).unwrap_or_else(|why| panic!("cut {cut}: {why}"));
        } else {
            old += 1;
            assert!(archived.is_err(), "cut {cut}: an archive that was acknowledged is gone");
            check(&[&rest], &heads).unwrap_or_else(|why| panic!("cut {cut}: {why}"));
        }
        if is_over {
            assert!(archived.is_ok(), "{archived:?}");
            break;
        }
    }
    assert!(old > 3 && new > 0, "{old} before, {new} after");
}
