//! Measures SQLite and a large file on ext4 on dm-crypt, as the first process of Linux. The argument `write` encrypts the
//! disk, puts a file system on it and writes; `read` reads the file at the next start. `count-write` and `count-read` count
//! instructions in place of time. With the word `authenticated` before them the encryption authenticates each block.
//!
//! It finds modules of the kernel in `/home`, and loads them in the order of their names. The disk is `/dev/vda`. For `write`
//! there is another, `/dev/vdb`, with an empty file system.

mod crypt;

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use capos_std_bench::disk::{self, Meter, Outcome};
use rusqlite::Connection;
use rustix::mount::{MountFlags, mount};

const MODULES: &str = "/home";
const DISK: &str = "/dev/vda";
const FIRST: &str = "/dev/vdb";
const DATA: &str = "/data";

fn load_modules() -> Outcome {
    let mut files = std::fs::read_dir(MODULES)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    files.sort();
    for file in files {
        let loaded = rustix::system::finit_module(File::open(&file)?, c"", 0);
        loaded.map_err(|error| format!("loading {}: {error}", file.display()))?;
    }
    Ok(())
}

/// Copies the empty file system into the encrypted disk.
fn copy(from: &str, to: &str) -> Outcome {
    let (mut from, mut to) = (File::open(from)?, File::options().write(true).open(to)?);
    let mut piece = vec![0; 1 << 20];
    loop {
        let bytes = from.read(&mut piece)?;
        if bytes == 0 {
            return Ok(to.sync_all()?);
        }
        to.write_all(piece.get(..bytes).unwrap_or_default())?;
    }
}

/// Commits to a database with this kind of journal.
fn commits(meter: &Meter<'_>, journal: &str) -> Outcome {
    let database = Connection::open(format!("{DATA}/{journal}.db"))?;
    let kind: String = database.query_row(&format!("PRAGMA journal_mode={journal}"), [], |row| row.get(0))?;
    if !kind.eq_ignore_ascii_case(journal) {
        return Err(format!("the journal is `{kind}`").into());
    }
    database
        .execute_batch("PRAGMA synchronous=FULL; CREATE TABLE bench (key INTEGER PRIMARY KEY, value BLOB NOT NULL)")?;
    let mut insert = database.prepare("INSERT INTO bench VALUES (?1, ?2)")?;
    let how = format!("1,000 of 100 bytes, SQLite {}, synchronous=FULL, journal {journal}", rusqlite::version());
    let (name, flushed) = (format!("commits_{journal}"), flushes()?);
    disk::commits(meter, &name, &how, |number, value| {
        insert.execute((number, value))?;
        Ok(())
    })?;
    println!("bench {}{name}_flushes {} flushes: {how}", meter.prefix, flushes()?.saturating_sub(flushed));
    Ok(())
}

/// How many flushes the disk has answered.
fn flushes() -> Result<u64, Box<dyn std::error::Error>> {
    /// Their place in a line of `diskstats`: Linux's `Documentation/admin-guide/iostats.rst`.
    const FLUSHES: usize = 18;
    let statistics = std::fs::read_to_string("/proc/diskstats")?;
    let words = statistics.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let disk = words.into_iter().find(|words| words.get(2).is_some_and(|name| DISK.ends_with(&format!("/{name}"))));
    let disk = disk.ok_or("the kernel has no statistics of the disk")?;
    Ok(disk.get(FLUSHES).ok_or("the kernel does not count flushes")?.parse()?)
}

/// The nanoseconds in which the processor waited, with and without a request to a disk.
fn idle() -> Result<u64, Box<dyn std::error::Error>> {
    let timers = std::fs::read_to_string("/proc/timer_list")?;
    let times = timers.lines().filter_map(|line| {
        let (name, time) = line.split_once(':')?;
        let time = time.trim().strip_suffix(" nsecs")?;
        matches!(name.trim(), ".idle_sleeptime" | ".iowait_sleeptime").then(|| time.parse::<u64>())
    });
    let times = times.collect::<Result<Vec<_>, _>>()?;
    // One processor.
    if times.len() != 2 {
        return Err("the kernel does not tell how long the processor waited".into());
    }
    Ok(times.iter().sum())
}

/// Encrypts the disk if it is to write, mounts it, and measures.
fn measure(meter: &Meter<'_>, is_authenticated: bool, action: &str) -> Outcome {
    let disk = if is_authenticated { crypt::open_authenticated(DISK)? } else { crypt::open(DISK)? };
    if action == "write" {
        copy(FIRST, disk)?;
    }
    mount(disk, DATA, "ext4", MountFlags::empty(), None).map_err(|error| format!("mounting the disk: {error}"))?;
    let file = format!("{DATA}/file");
    match action {
        "write" => {
            commits(meter, "delete")?;
            commits(meter, "wal")?;
            disk::write_file(meter, Path::new(&file))?;
        }
        "read" => disk::read_file(meter, Path::new(&file))?,
        _ => return Err("say `[count-]write` or `[count-]read`".into()),
    }
    Ok(rustix::mount::unmount(DATA, rustix::mount::UnmountFlags::empty())?)
}

fn main() -> Outcome {
    // The kernel puts words of its command line that it does not know before it.
    let arguments: Vec<String> = std::env::args().collect();
    let action = arguments.last().map(String::as_str).unwrap_or_default();
    let is_authenticated = arguments.iter().any(|argument| argument == "authenticated");
    std::fs::create_dir_all("/dev")?;
    std::fs::create_dir_all("/proc")?;
    std::fs::create_dir(DATA)?;
    // The kernel may have mounted it.
    let _ = mount("devtmpfs", "/dev", "devtmpfs", MountFlags::empty(), None);
    mount("proc", "/proc", "proc", MountFlags::empty(), None)?;
    load_modules()?;
    match action.strip_prefix("count-") {
        Some(action) => disk::by_instructions(&idle, |meter| measure(meter, is_authenticated, action))?,
        None => disk::by_time(|meter| measure(meter, is_authenticated, action))?,
    }
    println!("store-peer has measured");
    Ok(())
}
