//! `capos bench-store`: durable commits and a large file on an encrypted disk, on capOS and on Linux, into
//! `target/bench-store.json` and as a table.
//!
//! Both run in the same kind of virtual machine, one after the other, and their disks are files in the same folder. The times
//! are the host's: on a machine that counts instructions a disk takes no defined time.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::build::system::{Parts, System};
use crate::build::toolchain;
use crate::measure::bench;
use crate::measure::figure::Figures;
use crate::scenario::Scenario;
use capos_host::tool;
use capos_vm::linux::{self, Guest};
use capos_vm::qemu::{Bus, Disk};

/// The scenario that counts instructions of capOS alone, and where the results of Linux go.
const INSTRUCTIONS: &str = "store-instructions";
const LINUX: &str = "store-linux";
/// The program for Linux, a workspace of its own.
const PEER: &str = "tools/store-peer";
const PROGRAM: &str = "store-peer";
/// Bytes of its file system: less than the disk, since each of them is encrypted before it measures.
const FILE_SYSTEM: u64 = 256 << 20;
/// Its last line.
const DONE: &str = "store-peer has measured";

/// One way to measure both systems.
struct Comparison {
    /// capOS's scenario.
    scenario: &'static str,
    /// What the program for Linux is told at its first and its second start.
    actions: [&'static str; 2],
    /// How Linux encrypts, as a column of the table and as a word for the program.
    peers: &'static [(&'static str, &'static str)],
    /// Whether the machine's clocks are the host's. Otherwise they count instructions.
    clock: bool,
    /// The unit in the table.
    unit: &'static str,
    /// What is compared, the names of capOS's figure and of Linux's, and the number that both are divided by.
    rows: [(&'static str, &'static str, &'static str, u64); 4],
}

/// In milliseconds, from microseconds.
const TIMES: Comparison = Comparison {
    scenario: "store",
    actions: ["write", "read"],
    peers: &[("Linux", "")],
    clock: true,
    unit: "ms",
    rows: [
        ("1,000 durable commits of 100 bytes; SQLite with a rollback journal", "commits", "commits_delete", 1000),
        ("the same; SQLite with a write-ahead log", "commits", "commits_wal", 1000),
        ("a file of 64 MiB written and synced", "file_write", "file_write", 1000),
        ("the same file read after a boot", "file_read", "file_read", 1000),
    ],
};

/// Per commit of 1,000, and per block of 4 KiB of a file of 64 MiB.
const COUNTS: Comparison = Comparison {
    scenario: "store-count",
    actions: ["count-write", "count-read"],
    peers: &[("Linux", ""), ("Linux, authenticated", "authenticated")],
    clock: false,
    unit: "instructions",
    rows: [
        (
            "a durable commit of 100 bytes; SQLite with a rollback journal",
            "count_commits",
            "count_commits_delete",
            1000,
        ),
        ("the same; SQLite with a write-ahead log", "count_commits", "count_commits_wal", 1000),
        ("4 KiB of a file of 64 MiB, written and synced", "count_file_write", "count_file_write", 16384),
        ("4 KiB of the same file, read after a boot", "count_file_read", "count_file_read", 16384),
    ],
};

/// Compare durable commits and a large file with SQLite and ext4 on Linux; write target/bench-store.json.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    linux: linux::KernelArgs,
    /// How often both are measured, in turns; the shortest times count.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Count instructions of both, and measure no times.
    #[arg(long, conflicts_with = "rounds")]
    instructions: bool,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let system = System::find()?;
    let kernel = args.linux.kernel(&system.target())?;
    let parts = system.build(true)?;
    let program = toolchain::build_linux_workspace(system.root(), PEER)?.join(PROGRAM);
    let (mut capos, mut linux) = (Figures::new(), Figures::new());
    if !args.instructions {
        for _ in 0..args.rounds {
            shortest(&mut capos, measure(&system, &parts, TIMES.scenario)?);
            shortest(&mut linux, measure_linux(&system, &kernel, &program, &TIMES)?);
        }
        print!("{}", table(&TIMES, &capos, &linux)?);
    }
    capos.extend(measure(&system, &parts, COUNTS.scenario)?);
    linux.extend(measure_linux(&system, &kernel, &program, &COUNTS)?);
    print!("{}", table(&COUNTS, &capos, &linux)?);
    for (name, figure) in linux.iter().filter(|(_, figure)| figure.unit == "flushes") {
        println!("{name}: {} on Linux ({})", figure.value, figure.how);
    }
    let counted = bench::measured(&bench::measure(&system, &parts, INSTRUCTIONS)?)?;
    for (name, figure) in &counted {
        println!("{name}: {} instructions ({})", figure.value, figure.how);
    }
    capos.extend(counted);
    let named = |(set, figures): (&'static str, Figures)| {
        figures.into_iter().map(move |(name, figure)| (format!("{set}_{name}"), figure))
    };
    let figures = [("capos", capos), ("linux", linux)].into_iter().flat_map(named).collect();
    bench::write(&system.target().join("bench-store.json"), &figures)?;
    Ok(ExitCode::SUCCESS)
}

/// What a scenario's services tell in the log, and its programs on the screen.
fn measure(system: &System, parts: &Parts, name: &str) -> Result<Figures> {
    let mut figures = bench::measured(&bench::measure(system, parts, name)?)?;
    let screen = bench::folder(system, name).join("transcript.txt");
    let screen = std::fs::read_to_string(&screen).with_context(|| format!("reading {}", screen.display()))?;
    figures.extend(bench::measured(&screen)?);
    Ok(figures)
}

/// Two starts of Linux for each of its encryptions: one that writes, and one that reads.
fn measure_linux(system: &System, kernel: &Path, program: &Path, comparison: &Comparison) -> Result<Figures> {
    let mut figures = Figures::new();
    for (_, peer) in comparison.peers {
        let measured = measure_peer(system, kernel, program, comparison, peer)?;
        figures.extend(measured.into_iter().map(|(name, figure)| (of_peer(peer, &name), figure)));
    }
    Ok(figures)
}

/// A figure's name with how Linux encrypts.
fn of_peer(peer: &str, name: &str) -> String {
    if peer.is_empty() { name.to_owned() } else { format!("{peer}_{name}") }
}

fn measure_peer(
    system: &System,
    kernel: &Path,
    program: &Path,
    comparison: &Comparison,
    peer: &str,
) -> Result<Figures> {
    let scenario = Scenario::open(&bench::scenario(system, comparison.scenario))?;
    let size = scenario.settings.disk.first().and_then(|disk| disk.size);
    let bytes = size.context("the scenario has no disk with a size")?.0;
    let out = &bench::folder(system, LINUX);
    std::fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let modules = linux::disk_modules(kernel)?;
    let modules: Vec<_> = modules.iter().map(|(path, content)| (path.as_str(), content.as_slice())).collect();
    // The second has an empty file system, which the program copies to the first through the encryption.
    let files = ["data.img", "first.img"].map(|name| out.join(name));
    for (file, bytes) in files.iter().zip([bytes, FILE_SYSTEM]) {
        let made = std::fs::File::create(file).and_then(|file| file.set_len(bytes));
        made.with_context(|| format!("making {}", file.display()))?;
    }
    let [data, first] = &files;
    let mut format = Command::new(tool::find(&["mke2fs", "/usr/sbin/mke2fs"], "e2fsprogs")?);
    format.args(["-q", "-F", "-b", "4096", "-t", "ext4", "-E", "lazy_itable_init=0,lazy_journal_init=0"]);
    tool::run(format.arg(first))?;
    let mut figures = Figures::new();
    for (action, files) in comparison.actions.into_iter().zip([&[data, first][..], &[data]]) {
        let disk = |file: &&std::path::PathBuf| Disk {
            file: (*file).clone(),
            served: None,
            bus: Bus::Virtio,
            drive: String::new(),
            device: String::new(),
        };
        let disks = files.iter().map(disk).collect();
        let arguments = &format!("{peer} {action}");
        let guest = Guest { files: &modules, arguments, disks, clock: comparison.clock };
        let said = linux::run(kernel, program, guest, &out.join(arguments.trim().replace(' ', "-")))?;
        ensure!(said.contains(DONE), "the program ended on Linux before it had measured all");
        figures.extend(bench::measured(&said)?);
    }
    for file in &files {
        std::fs::remove_file(file).with_context(|| format!("deleting {}", file.display()))?;
    }
    Ok(figures)
}

/// Keeps the shorter one of each two times.
fn shortest(times: &mut Figures, new: Figures) {
    for (name, figure) in new {
        match times.get(&name) {
            Some(known) if known.value <= figure.value => {}
            _ => drop(times.insert(name, figure)),
        }
    }
}

/// The figures in columns, with their ratio, as the documentation has them.
fn table(comparison: &Comparison, capos: &Figures, linux: &Figures) -> Result<String> {
    let unit = comparison.unit;
    let columns: String = comparison.peers.iter().map(|(peer, _)| format!(" {peer} | capOS : {peer} |")).collect();
    let rule = "---|".repeat(2 + 2 * comparison.peers.len());
    let mut lines = vec![format!("| {unit} | capOS |{columns}"), format!("|{rule}")];
    for (what, own, other, by) in comparison.rows {
        let own = capos.get(own).with_context(|| format!("`{own}` was not measured on capOS"))?.value;
        let mut line = format!("| {what} | {} |", own / by);
        for (_, peer) in comparison.peers {
            let name = of_peer(peer, other);
            let other = linux.get(&name).with_context(|| format!("`{name}` was not measured on Linux"))?.value;
            line += &format!(" {} | {:.2} |", other / by, own as f64 / other as f64);
        }
        lines.push(line);
    }
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::figure::Figure;

    fn figures(values: &[(&str, u64)]) -> Figures {
        let figure = |value| Figure { value, unit: "microseconds".into(), how: "so".into() };
        values.iter().map(|(name, value)| ((*name).to_owned(), figure(*value))).collect()
    }

    #[test]
    fn instructions_are_compared_per_commit_and_per_block() {
        let capos = [("count_commits", 2_000_000), ("count_file_write", 32_768), ("count_file_read", 16_384)];
        let linux = [
            ("count_commits_delete", 8_000_000),
            ("count_commits_wal", 1_000_000),
            ("count_file_write", 65_536),
            ("count_file_read", 16_384),
            ("authenticated_count_commits_delete", 1_000_000),
            ("authenticated_count_commits_wal", 1_000_000),
            ("authenticated_count_file_write", 16_384),
            ("authenticated_count_file_read", 16_384),
        ];
        let table = table(&COUNTS, &figures(&capos), &figures(&linux)).unwrap();
        let rows: Vec<_> =
            table.lines().skip(2).filter_map(|line| line.split_once(" | ")).map(|(_, row)| row).collect();
        assert_eq!(
            rows,
            [
                "2000 | 8000 | 0.25 | 1000 | 2.00 |",
                "2000 | 1000 | 2.00 | 1000 | 2.00 |",
                "2 | 4 | 0.50 | 1 | 2.00 |",
                "1 | 1 | 1.00 | 1 | 1.00 |",
            ]
        );
    }

    #[test]
    fn both_ways_to_keep_commits_are_compared() {
        let mut capos = figures(&[("commits", 3_000_000), ("file_write", 10_000), ("file_read", 8000)]);
        shortest(&mut capos, figures(&[("commits", 2_000_000), ("file_write", 11_000), ("file_read", 9000)]));
        let linux =
            [("commits_delete", 8_000_000), ("commits_wal", 1_000_000), ("file_write", 5000), ("file_read", 8000)];
        let table = table(&TIMES, &capos, &figures(&linux)).unwrap();
        let ratios: Vec<&str> = table.lines().skip(2).filter_map(|line| line.rsplit('|').nth(1)).collect();
        assert_eq!(ratios, [" 0.25 ", " 2.00 ", " 2.00 ", " 1.00 "]);
        assert!(super::table(&TIMES, &capos, &Figures::new()).is_err());
    }
}
