//! `capos profile`: where the instructions of a figure of `make bench` go, function by function.
//!
//! QEMU writes down each instruction that it carries out while the guest measures that figure. Between two entries into
//! the kernel there is one way there and back, so counts are per entry: a call that another process answers takes two.
//! The measuring program's own work between its measurements is counted too, under its own functions.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::build::system::{System, Variant};
use crate::measure::bench;
use crate::measure::figures;
use crate::scenario::Scenario;
use crate::scenario::symbols::Symbols;
use capos_vm::qemu::{End, Machine, Running};

/// The program that measures the kernel alone.
const PROGRAM: &str = "bench";
const KERNEL: &str = "capos-kernel";
/// Addresses from here on are the kernel's.
const KERNEL_START: u64 = 0xffff_8000_0000_0000;
/// Entries that are not counted: their first touches of memory are not part of the figure.
const FIRST: usize = 12;
/// Bytes of QEMU's log that are enough.
const ENOUGH: u64 = 40 << 20;
/// How long the guest may take until the figure, of the host's time.
const LIMIT: Duration = Duration::from_secs(300);

/// List the functions that execute the instructions of a figure.
#[derive(clap::Args)]
pub struct Args {
    /// Figure of the kernel's benchmark, for example null_entry, null_call or call_reply_64.
    figure: String,
    /// Number of functions to list.
    #[arg(long, default_value_t = 40)]
    top: usize,
    /// Count inlined functions separately from the functions that contain them.
    #[arg(long)]
    inlined: bool,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let system = System::find()?;
    let parts = system.build(true)?;
    let scenario = Scenario::open(&bench::test(&system, figures::SCENARIO))?;
    let out = bench::folder(&system, "profile");
    std::fs::create_dir_all(&out).with_context(|| format!("making {}", out.display()))?;
    let image = out.join("scenario.iso");
    let boot = scenario.settings.boot.clone();
    parts.image(&Variant { scenario: Some(scenario.folder.clone()), boot, ..Variant::default() }, &image)?;
    let (serial, traced) = (out.join("serial.log"), out.join("trace.log"));
    for file in [&serial, &traced].into_iter().filter(|file| file.exists()) {
        std::fs::remove_file(file)?;
    }
    trace(&scenario.machine(&image, "tcg"), &serial, &traced, &args.figure)?;
    let entries = entries(BufReader::new(std::fs::File::open(&traced)?))?;
    let mut symbols = Symbols::open(system.root(), &[])?;
    let mut functions: BTreeMap<String, u64> = BTreeMap::new();
    let looked_at = entries.get(FIRST..).unwrap_or_default();
    ensure!(!looked_at.is_empty(), "{} took {} entries into the kernel: too few", args.figure, entries.len());
    let mut addresses: BTreeMap<u64, u64> = BTreeMap::new();
    for address in looked_at.iter().flatten() {
        *addresses.entry(*address).or_default() += 1;
    }
    for (address, times) in addresses {
        let (side, program) = if address < KERNEL_START { ("program", PROGRAM) } else { ("kernel", KERNEL) };
        let name = symbols.function(program, address, args.inlined)?.unwrap_or_else(|| "?".into());
        *functions.entry(format!("{side:8}{name}")).or_default() += times;
    }
    print(&args.figure, functions, looked_at.len(), args.top);
    Ok(ExitCode::SUCCESS)
}

/// Has QEMU write down instructions, into `trace`, while the guest measures a figure.
fn trace(machine: &Machine, serial: &Path, trace: &Path, figure: &str) -> Result<()> {
    // A socket's path must be short, so it is not in the output folder.
    let folder = std::env::temp_dir().join(format!("capos-profile-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let monitor = folder.join("monitor");
    let result = machine.start_traced(serial, &monitor, trace).and_then(|mut running| {
        let log = || String::from_utf8_lossy(&std::fs::read(serial).unwrap_or_default()).into_owned();
        let line = |begin: &str| {
            log().lines().any(|line| line.split_once(": ").is_some_and(|(_, said)| said.starts_with(begin)))
        };
        let (begun, ended) = (format!("measures {figure}."), format!("bench {figure} "));
        wait(&mut running, &|| line(&begun)).with_context(|| format!("see {}", serial.display()))?;
        ensure!(line(&begun), "there is no figure {figure} in the kernel's benchmark; `make bench` lists its figures");
        let mut monitor = UnixStream::connect(&monitor).context("reaching QEMU's monitor")?;
        // The same by the names that it has had: one instruction at a time.
        monitor.write_all(b"stop\nsinglestep on\none-insn-per-tb on\nlog exec,nochain\ncont\n")?;
        wait(&mut running, &|| std::fs::metadata(trace).is_ok_and(|found| found.len() > ENOUGH))?;
        ensure!(!line(&ended), "{figure} was over before {} MiB were written of it: too few rounds", ENOUGH >> 20);
        Ok(())
    });
    std::fs::remove_dir_all(&folder)?;
    result
}

/// Waits until something holds, or the guest has ended as it should.
fn wait(running: &mut Running, holds: &dyn Fn() -> bool) -> Result<()> {
    let limit = Instant::now() + LIMIT;
    while !holds() {
        match running.wait(Instant::now())? {
            Some(End::Failed) => bail!("QEMU failed: {}", running.complaint()),
            Some(_) => return Ok(()),
            None => ensure!(Instant::now() < limit, "nothing came of it within {} s", LIMIT.as_secs()),
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    Ok(())
}

/// The addresses of a trace, by entries into the kernel: each begins with the first instruction there.
fn entries(trace: impl BufRead) -> Result<Vec<Vec<u64>>> {
    let mut entries: Vec<Vec<u64>> = Vec::new();
    let mut in_kernel = true;
    for line in trace.lines() {
        // Trace 0: 0x7f1a58000100 [0000000000000000/ffffffff80001000/…] symbol
        let line = line.context("reading QEMU's trace")?;
        let address = line.split_once('[').and_then(|(_, rest)| rest.split('/').nth(1));
        let Some(address) = address.and_then(|address| u64::from_str_radix(address, 16).ok()) else { continue };
        let now = address >= KERNEL_START;
        if now && !in_kernel {
            entries.push(Vec::new());
        }
        in_kernel = now;
        if let Some(entry) = entries.last_mut() {
            entry.push(address);
        }
    }
    // The last one may have been cut.
    entries.pop();
    Ok(entries)
}

fn print(figure: &str, functions: BTreeMap<String, u64>, entries: usize, top: usize) {
    let all: u64 = functions.values().sum();
    let each = |times: u64| times as f64 / entries as f64;
    println!("{figure}: {:.1} instructions for an entry into the kernel, over {entries} of them", each(all));
    let mut functions: Vec<_> = functions.into_iter().collect();
    functions.sort_by_key(|(_, times)| core::cmp::Reverse(*times));
    for (name, times) in functions.into_iter().take(top) {
        println!("{:9.1} {:5.1} %  {name}", each(times), times as f64 * 100.0 / all.max(1) as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_cut_where_the_kernel_is_entered() {
        let line = |address: u64| format!("Trace 0: 0x7f1a [0000000000000000/{address:016x}/00c0/ff02] \n");
        let user = |at: u64| line(0x40_0000 + at);
        let kernel = |at: u64| line(KERNEL_START + at);
        let text =
            [kernel(1), user(1), kernel(2), kernel(3), "no address\n".into(), user(2), kernel(4), user(3), kernel(5)];
        let found = entries(text.concat().as_bytes()).unwrap();
        assert_eq!(found, [vec![KERNEL_START + 2, KERNEL_START + 3, 0x40_0002], vec![KERNEL_START + 4, 0x40_0003]]);
    }
}
