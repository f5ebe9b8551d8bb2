//! The step `kills`: the power fails at random requests to a disk, again and again over the same disk.
//!
//! All that a disk sees of a machine are its requests, so a power cut before each of them is every case there is. What the
//! disk has cached then is lost, whole or torn. The guest says on its log `acknowledged N` when it was told that batch N is
//! durable. After each start it compares everything with what N batches leave, and says `found N`, or `FAILED` and why.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use capos_vm::expect::Terminal;
use capos_vm::qemu::Running;
use capos_vm::served::{Seed, Served};
use regex_lite::Regex;

use crate::scenario::disk::Made;
use crate::scenario::log_since;

/// How long a machine may go without a request to the disk. A slow one is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Requests before which the power is cut, at most: of one start in three, while it still opens the volume, and of the
/// others. A small commit is two requests.
const EARLY: u64 = 100;
const LATE: u64 = 200;
/// After how many power cuts a line tells how far it is.
const TOLD: u64 = 25;

/// What the log of all starts has said.
#[derive(Debug, Default)]
struct Story {
    /// The last batch that was acknowledged, or found: what is there once must stay.
    kept: u64,
    /// Starts after which everything was compared.
    compared: u64,
    acknowledged: u64,
}

impl Story {
    /// Continues with a start's log.
    fn read(&mut self, text: &str, lines: &Regex) -> Result<(), String> {
        for found in lines.captures_iter(text) {
            let group = |number: usize| found.get(number).map_or("", |part| part.as_str());
            let number: u64 = group(2).trim().parse().unwrap_or(0);
            match group(1) {
                "found" if number < self.kept => {
                    return Err(format!("batch {} was acknowledged, and {number} are there", self.kept));
                }
                "found" => {
                    self.compared = self.compared.saturating_add(1);
                    self.kept = number;
                }
                "acknowledged" => {
                    self.acknowledged = self.acknowledged.saturating_add(1);
                    self.kept = self.kept.max(number);
                }
                _ => return Err(format!("the guest says: {}", group(2))),
            }
        }
        Ok(())
    }
}

/// Starts the machine so often, and cuts its power each time. Returns a sentence about it, or why it failed.
///
/// # Errors
/// A machine cannot be started, or a file cannot be read.
pub fn run(
    disks: &Made,
    disk: &str,
    count: u64,
    seed: u64,
    log: &Path,
    start: &dyn Fn() -> Result<(Terminal, Running)>,
    deadline: Instant,
) -> Result<Result<String, String>> {
    let served = disks.served(disk)?;
    let lines = Regex::new(r"(?m)\b(found|acknowledged|FAILED) ([^\r\n]+)\r?\n")?;
    let mut story = Story::default();
    // What the machine before has said.
    let mut from = std::fs::metadata(log).map_or(0, |data| data.len());
    disks.cut(&mut Seed(seed))?;
    let began = Instant::now();
    // The last start is cut only once everything was compared.
    for number in 0..=count {
        let mut seed = Seed(seed.wrapping_mul(1_000_003).wrapping_add(number));
        let most = if seed.below(3) == 0 { EARLY } else { LATE };
        let request = seed.below(most);
        served.stop_before(if number == count { u64::MAX } else { request });
        // The terminal is read all the time: at each line of its log the kernel would wait for a port that nothing drains.
        let (terminal, mut running) = start()?;
        let stopped =
            if number == count { wait_found(log, from, &lines, deadline)? } else { wait_stopped(served, deadline) };
        running.kill()?;
        drop(terminal);
        disks.cut(&mut seed)?;
        let text = log_since(log, from)?;
        from = std::fs::metadata(log)?.len();
        let at = || format!("start {number} of {count}, power cut before request {request} to `{disk}`");
        if let Err(reason) = story.read(&text, &lines) {
            return Ok(Err(format!("{}: {reason}", at())));
        }
        if !stopped {
            let last = text.lines().last().unwrap_or_default();
            return Ok(Err(format!("{}: it did not come so far; its log ends with: {last}", at())));
        }
        if number % TOLD == 0 && (1..count).contains(&number) {
            println!("        {}", progress(number, count, began.elapsed()));
        }
    }
    Ok(Ok(format!(
        "power cut {count} times; compared {} times, {} durable batches acknowledged, none lost, none torn",
        story.compared, story.acknowledged
    )))
}

/// How many power cuts were survived, at what rate, and how long the others take.
fn progress(done: u64, count: u64, took: Duration) -> String {
    let minutes = took.as_secs_f64() / 60.0;
    let left = count.saturating_sub(done) as f64 * minutes / done as f64;
    format!("{done} of {count} power cuts, {:.1} in a minute, {left:.0} min left", done as f64 / minutes)
}

/// Waits for the request before which the power is cut, as long as others come.
fn wait_stopped(disk: &Served, deadline: Instant) -> bool {
    let mut seen = disk.requests();
    while !disk.wait_stopped(deadline.min(Instant::now() + PATIENCE)) {
        let now = disk.requests();
        if now == seen || Instant::now() >= deadline {
            return false;
        }
        seen = now;
    }
    true
}

/// Waits until the log says that everything was compared, or that it has failed. A file has no event to wait for, so this
/// looks every few milliseconds.
fn wait_found(log: &Path, from: u64, lines: &Regex, deadline: Instant) -> Result<bool> {
    loop {
        let text = log_since(log, from)?;
        if lines.captures_iter(&text).any(|found| found.get(1).is_some_and(|word| word.as_str() != "acknowledged")) {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_has_a_rate_and_the_time_left() {
        let words = progress(25, 500, Duration::from_secs(300));
        assert_eq!(words, "25 of 500 power cuts, 5.0 in a minute, 95 min left");
    }

    #[test]
    fn what_was_acknowledged_must_be_found() {
        let lines = Regex::new(r"(?m)\b(found|acknowledged|FAILED) ([^\r\n]+)\r?\n").unwrap();
        let mut story = Story::default();
        let mut read = |text: &str| story.read(text, &lines);
        assert_eq!(read("crash: found 0\r\ncrash: acknowledged 1\r\ncrash: acknowledged 2\r\n"), Ok(()));
        assert_eq!(read(""), Ok(()));
        assert_eq!(read("crash: found 4\r\n"), Ok(()));
        assert!(read("crash: found 3\r\n").unwrap_err().contains("batch 4"));
        assert!(read("crash: FAILED batch 5 is there, and not all\r\n").unwrap_err().contains("batch 5"));
    }
}
