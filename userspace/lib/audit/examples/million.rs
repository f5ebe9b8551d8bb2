//! Measures a chain of a million records: how long opening, a check of all records and questions take.
//!
//! `cargo run --release -p capos-audit --example million -- FILE [RECORDS]` writes the chain to the file first, if that does
//! not exist. Half of the records are tool calls of 1.1 KiB, and a year lies between the first and the last one.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a measurement may fail")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::future::Future;
use std::os::unix::fs::FileExt;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use capos_audit::{Filter, Kind, Room, Stored, message};
use capos_keyspace::local::LocalKeyspace;
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

/// Writes a chain: of four records one is a decision, one a message, and two are of a tool call.
fn write(space: LocalKeyspace<FileBlocks>, records: u64) {
    let (start, mut chain) = (Instant::now(), Stored::new(space, Room::Shared(0)));
    for at in (0..records).step_by(4) {
        let time = YEAR / records * at;
        if at % (records / 100) == 0 {
            // Otherwise one service had its share of the whole.
            done(chain.begin_boot(time, Kind::LogStart.event("", "", &[]))).unwrap();
        } else {
            let session = format!("session-{}", at / 400);
            done(chain.append_general(time, message(&session, "ada", "c1", 1, "user", "buy milk"))).unwrap();
        }
        let session = format!("session-{}", at / 400);
        let fields: [(&str, &dyn std::fmt::Display); 4] =
            [("conversation", &"c1"), ("callId", &at), ("decision", &"auto"), ("tool", &"write_file")];
        done(chain.append_general(time, Kind::BrokerDecision.event(&session, "ada", &fields))).unwrap();
        let head = done(chain.append_tool(time, call(Phase::Before, at, 0))).unwrap();
        done(chain.append_tool(time, call(Phase::After, at, head.sequence))).unwrap();
    }
    println!("wrote {records} records in {:.0?}", start.elapsed());
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| panic!("usage: million FILE [RECORDS]"));
    let records = arguments.next().map_or(1_000_000, |text| text.parse().unwrap());
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
    let checked = done(reader.verify()).unwrap().checked;
    println!("verify: {:.2?}; {} records", start.elapsed(), checked.unwrap().records);
}
