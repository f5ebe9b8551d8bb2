//! Measures a chain of a million records: how long opening, a check of all records and questions take.
//!
//! `cargo run --release -p capos-audit --features measure --example million -- FILE [RECORDS]` writes the chain to the file first, if that does
//! not exist. Half of the records are tool calls of 1.1 KiB, and a year lies between the first and the last one. If the name of
//! the file ends with `.jsonl`, it is an export: a record a line.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a measurement may fail")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::future::Future;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use capos_audit::{Chain, Checker, Event, Filter, Head, Kind, Record, Room, Stored, message};
use capos_keyspace::local::LocalKeyspace;
use capos_keyspace::{Batch, Durability, Entries, Fault, Info, Keyspace, Range};
use capos_schema::audit::{Phase, ToolEvent};
use capos_schema::models::ToolDescriptor;
use capos_store::{BLOCK_BYTES, BlockError, Blocks, Store};

const BLOCKS: u64 = 4 << 20;
const DAY: u64 = 86_400_000_000_000;
const YEAR: u64 = 365 * DAY;

/// A sparse file. A sync writes what it was given, and does not wait for the disk.
#[derive(Debug)]
struct FileBlocks {
    file: File,
    written: BTreeMap<u64, Vec<u8>>,
}

fn failed(error: std::io::Error) -> BlockError {
    BlockError::Medium(error.to_string())
}

impl Blocks for FileBlocks {
    fn blocks(&self) -> u64 {
        BLOCKS
    }

    fn read(&mut self, block: u64, out: &mut [u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        if let Some(data) = self.written.get(&block) {
            out.copy_from_slice(data);
            return Ok(());
        }
        self.file.read_exact_at(out, block * BLOCK_BYTES as u64).map_err(failed)
    }

    fn write(&mut self, block: u64, data: &[u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        self.written.insert(block, data.to_vec());
        Ok(())
    }

    fn sync(&mut self) -> Result<(), BlockError> {
        for (block, data) in std::mem::take(&mut self.written) {
            self.file.write_all_at(&data, block * BLOCK_BYTES as u64).map_err(failed)?;
        }
        Ok(())
    }

    fn forget(&mut self) -> Result<(), BlockError> {
        self.written.clear();
        Ok(())
    }
}

fn done<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a store in the same process answers at once"),
    }
}

fn open(path: &str) -> LocalKeyspace<FileBlocks> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    file.set_len(BLOCKS * BLOCK_BYTES as u64).unwrap();
    let store = Store::open(FileBlocks { file, written: BTreeMap::new() }).unwrap();
    LocalKeyspace::new(Rc::new(RefCell::new(store)), "audit", 6 << 30).unwrap()
}

/// A namespace whose commits are durable later, while it is filled: what is measured is reading.
#[derive(Clone)]
struct Later(LocalKeyspace<FileBlocks>);

impl Keyspace for Later {
    async fn info(&self) -> Result<Info, Fault> {
        self.0.info().await
    }

    async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        self.0.get(table, key).await
    }

    async fn range(&self, range: Range<'_>) -> Result<Entries, Fault> {
        self.0.range(range).await
    }

    async fn commit(&self, batch: &Batch, _: Durability) -> Result<(), Fault> {
        self.0.commit(batch, Durability::Later).await
    }

    async fn sync(&self) -> Result<(), Fault> {
        self.0.sync().await
    }
}

fn call(phase: Phase, at: u64, before: u64) -> ToolEvent {
    ToolEvent {
        phase,
        session: format!("session-{}", at / 400),
        principal: "ada".into(),
        conversation: "c1".into(),
        turn: 1,
        call_id: at.to_string(),
        model_id: "0123abcd-llama".into(),
        backend: "scripted".into(),
        nonce: vec![1; 16],
        runner: "capos-side".into(),
        descriptor: ToolDescriptor {
            name: format!("tool_{}", at % 40 / 4),
            description: "Writes a text to a file, which is made if it is not there.".into(),
            method_name: "write".into(),
            param_schema: "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"}}}".into(),
            category: "mutating".into(),
            handle: "/object/abcdefghijklmnopqrstuvwxyz".into(),
            ..ToolDescriptor::default()
        },
        arguments: "{ \"path\": \"notes.txt\", \"text\": \"buy milk\" }".into(),
        result_hash: if phase == Phase::Before { vec![] } else { vec![0xab; 32] },
        decided: true,
        advertised: ["write_file", "read_file", "list_directory", "run_program"].map(String::from).into(),
        before,
        ..ToolEvent::default()
    }
}

/// Makes the events of a chain: of four records one is a decision, one a message, and two are of a tool call. `append` gets the
/// time, the event, and whether it begins a boot, and returns the event's place.
fn events(records: u64, mut append: impl FnMut(u64, Event, bool) -> Head) {
    for at in (0..records).step_by(4) {
        let (time, session) = (YEAR / records * at, format!("session-{}", at / 400));
        // Otherwise one service had its share of the whole.
        let boots = at % (records / 100) == 0;
        let first = if boots {
            Kind::LogStart.event("", "", &[])
        } else {
            message(&session, "ada", "c1", 1, "user", "buy milk")
        };
        append(time, Event::General(first), boots);
        let fields: [(&str, &dyn std::fmt::Display); 4] =
            [("conversation", &"c1"), ("callId", &at), ("decision", &"auto"), ("tool", &"write_file")];
        append(time, Event::General(Kind::BrokerDecision.event(&session, "ada", &fields)), false);
        let head = append(time, Event::Tool(call(Phase::Before, at, 0).into()), false);
        append(time, Event::Tool(call(Phase::After, at, head.sequence).into()), false);
    }
}

/// Writes a chain into tables.
fn write(space: LocalKeyspace<FileBlocks>, records: u64) {
    let (start, mut chain) = (Instant::now(), Stored::new(Later(space.clone()), Room::Shared(0)));
    events(records, |time, event, boots| match (boots, event) {
        (true, Event::General(event)) => done(chain.begin_boot(time, event)).unwrap(),
        (_, event) => done(chain.append(time, event)).unwrap(),
    });
    done(space.sync()).unwrap();
    println!("wrote {records} records in {:.0?}", start.elapsed());
}

/// Writes a chain as a file of lines, as an export is one.
fn write_lines(path: &str, records: u64) {
    let (start, mut chain) = (Instant::now(), Chain::new(usize::MAX >> 1));
    let mut file = BufWriter::new(File::create(path).unwrap());
    events(records, |time, event, _| {
        let head = match event {
            Event::Tool(event) => chain.append_tool(time, *event),
            Event::General(event) => chain.append_general(time, event),
        };
        let line = chain.records().last().map(Record::line).unwrap_or_default();
        writeln!(file, "{line}").unwrap();
        head.unwrap()
    });
    file.flush().unwrap();
    println!("wrote {records} lines in {:.0?}", start.elapsed());
}

/// Checks a file of lines, as `capos audit verify` does.
fn check_lines(path: &str) {
    let (start, mut checker, mut line) = (Instant::now(), Checker::default(), Vec::new());
    let mut file = BufReader::with_capacity(1 << 20, File::open(path).unwrap());
    while file.read_until(b'\n', &mut line).unwrap() > 0 {
        checker.line(line.strip_suffix(b"\n").unwrap_or(&line)).unwrap();
        line.clear();
    }
    println!("check lines: {:.2?}; {} records", start.elapsed(), checker.end(None).unwrap().records);
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| panic!("usage: million FILE [RECORDS]"));
    let records = arguments.next().map_or(1_000_000, |text| text.parse().unwrap());
    if path.ends_with(".jsonl") {
        if !std::path::Path::new(&path).exists() {
            write_lines(&path, records);
        }
        return check_lines(&path);
    }
    if !std::path::Path::new(&path).exists() {
        write(open(&path), records);
    }
    let space = open(&path);
    let start = Instant::now();
    let mut chain = Stored::new(space, Room::Shared(0));
    let opened = done(chain.open()).unwrap().unwrap();
    println!("open: {:.2?}; {} records", start.elapsed(), opened.head.sequence);
    let reader = chain.reader();
    let day = Filter { since: YEAR / 2, until: Some(YEAR / 2 + DAY), ..Filter::default() };
    let text = |text: &str| Some(String::from(text));
    for (what, filter) in [
        ("one day", day.clone()),
        ("the tool calls of one day", Filter { kind: text("tool"), ..day.clone() }),
        ("a tool on one day", Filter { tool: text("tool_3"), ..day }),
        ("a session", Filter { session: text("session-1234"), ..Filter::default() }),
        ("a tool's failures", Filter { tool: text("tool_3"), outcome: text("timedOut"), ..Filter::default() }),
    ] {
        let start = Instant::now();
        let page = done(reader.query(&filter, usize::MAX, usize::MAX)).unwrap();
        let bytes: usize = page.lines.iter().map(String::len).sum();
        println!("query {what}: {:.2?}; {} records, {} KiB", start.elapsed(), page.lines.len(), bytes >> 10);
    }
    let start = Instant::now();
    let checked = done(reader.verify(|_, _| {})).unwrap().checked;
    println!("verify: {:.2?}; {} records", start.elapsed(), checked.unwrap().records);
}
