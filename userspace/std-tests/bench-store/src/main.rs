//! Measures durable commits to a namespace of the store, records of the audit log, and a large file in a home. The argument
//! says what: as a service `commits` or `instructions`, once the data volume is open; as a program of a session `write` or `read`.
//! `count-commits`, `count-write` and `count-read` count instructions in place of time.
#![forbid(unsafe_code)]

use std::path::Path;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use capos_keyspace::{Batch, Durability, Keyspace};
use capos_measure::{Samples, count};
use capos_rt::{Context, Error, block_on, call, env, with_results};
use capos_schema::audit::{AuditReaderClient, AuditWriterClient, GeneralEvent, GeneralEventField, Query};
use capos_schema::store::NamespaceClient;
use capos_schema::system::SystemStatusClient;
use capos_std_bench::disk::{self, Meter, Outcome, VALUE_BYTES};

const TABLE: &str = "bench";
const FILE: &str = "/home/bench-store";
/// How often instructions are counted.
const ROUNDS: u32 = 201;
/// How often instructions of reading are counted.
const READS: u32 = 5;
/// Records of the audit log at the first and at the second count of a check.
const RECORDS: [u64; 2] = [450, 1150];
/// Records that are found at once. They fit into one answer.
const FOUND: u32 = 100;
/// Bytes of a record's text: a record of a tool call has about 1.1 KiB.
const RECORD_BYTES: usize = 1000;

async fn commit(space: &NamespaceClient, number: u32, value: &[u8]) -> Result<(), Error> {
    let mut batch = Batch::new();
    batch.put(TABLE, &number.to_be_bytes(), value);
    Keyspace::commit(space, &batch, Durability::Now).await.context("a commit")
}

fn commits(meter: &Meter<'_>, space: &NamespaceClient) -> Outcome {
    // After the second start they are there.
    if block_on(async { Keyspace::get(space, TABLE, &0_u32.to_be_bytes()).await.context("reading") })?.is_some() {
        return Ok(());
    }
    disk::commits(meter, "commits", "1,000 of 100 bytes, each durable", |number, value| {
        Ok(block_on(commit(space, number, value))?)
    })
}

/// Counts the instructions of calls, each without those while every processor waits.
fn instructions(name: &str, how: &str, rounds: u32, mut done: impl FnMut(u32) -> Outcome) -> Outcome {
    let status = env()?.cap::<SystemStatusClient>("status")?;
    let idle = || Ok::<_, Error>(call(status.statistics())?.idle_nanoseconds);
    let mut samples = Samples::with_room(rounds as usize);
    for round in 0..rounds {
        let (idle_before, from) = (idle()?, count());
        done(round)?;
        let to = count();
        samples.add(from, to, idle()?.saturating_sub(idle_before));
    }
    let (value, words) = samples.mean();
    println!("bench {name} {value} instructions: {how}; {words}");
    Ok(())
}

fn count_instructions(space: &NamespaceClient) -> Outcome {
    instructions("commit", "a durable commit of 100 bytes", ROUNDS, |round| {
        Ok(block_on(commit(space, round, &[7; VALUE_BYTES]))?)
    })?;
    let audit = env()?.cap::<AuditWriterClient>("audit")?;
    let text = "x".repeat(RECORD_BYTES);
    let event = GeneralEvent {
        kind: "bench".into(),
        fields: vec![GeneralEventField { name: "text".into(), value: text }],
        ..GeneralEvent::default()
    };
    instructions("audit_pair", "two durable records of the audit log, of about 1.1 KiB each", ROUNDS, |_| {
        call(audit.general(&event))?;
        call(audit.general(&event))?;
        Ok(())
    })?;
    let reader = with_results(&env()?.cap::<AuditReaderClient>("records")?, 1 << 20);
    for records in RECORDS {
        while call(audit.general(&event))?.sequence < records {}
        count_check(&reader)?;
    }
    count_search(&reader, &audit, &event)
}

/// Counts the instructions of a check of the whole audit log.
fn count_check(reader: &AuditReaderClient) -> Outcome {
    let checked = call(reader.verify())?;
    if !checked.ok {
        return Err(checked.reason.into());
    }
    let name = format!("audit_check_{}", checked.records);
    instructions(&name, &format!("a check of {} records", checked.records), READS, |_| {
        call(reader.verify())?;
        Ok(())
    })
}

/// Counts the instructions of a search for the newest records by their time, and of one that continues with its second half.
fn count_search(reader: &AuditReaderClient, audit: &AuditWriterClient, event: &GeneralEvent) -> Outcome {
    let since = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())?;
    let mut last = 0;
    // The clock of the records may be a little behind.
    for _ in 0..=FOUND {
        last = call(audit.general(event))?.sequence;
    }
    let half = last.saturating_sub(u64::from(FOUND / 2)).saturating_add(1);
    for (name, from, max) in [("audit_find_1", 0, 1), ("audit_find_100", 0, FOUND), ("audit_next_50", half, FOUND / 2)]
    {
        let query = Query { since_nanoseconds: since, from, max, ..Query::default() };
        instructions(name, &format!("records found by time: {max}"), READS, |_| {
            match call(reader.query(&query))?.records.len() {
                found if found == max as usize => Ok(()),
                found => Err(format!("{found} records came, and not {max}").into()),
            }
        })?;
    }
    Ok(())
}

/// Counts the instructions of all processes during some work.
fn counted(work: impl FnOnce(&Meter<'_>) -> Outcome) -> Outcome {
    let status = env()?.cap::<SystemStatusClient>("status")?;
    disk::by_instructions(&|| Ok(call(status.statistics())?.idle_nanoseconds), work)
}

/// Measures over the open volume. A service that ends is started again, so this one stays.
fn serve(measure: impl FnOnce(&NamespaceClient) -> Outcome) -> Outcome {
    let space = env()?.cap::<NamespaceClient>("namespace")?;
    if call(space.opened())? {
        measure(&space)?;
        println!("bench-store has committed");
    }
    loop {
        thread::park();
    }
}

fn main() -> Outcome {
    let file = Path::new(FILE);
    match std::env::args().nth(1).as_deref() {
        Some("commits") => serve(|space| disk::by_time(|meter| commits(meter, space))),
        Some("count-commits") => serve(|space| counted(|meter| commits(meter, space))),
        Some("instructions") => serve(count_instructions),
        Some("write") => disk::by_time(|meter| disk::write_file(meter, file)),
        Some("read") => disk::by_time(|meter| disk::read_file(meter, file)),
        Some("count-write") => counted(|meter| disk::write_file(meter, file)),
        Some("count-read") => counted(|meter| disk::read_file(meter, file)),
        _ => Err("say what to measure: [count-]commits, instructions, [count-]write or [count-]read".into()),
    }
}
