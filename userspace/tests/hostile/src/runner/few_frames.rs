//! A process that calls another is started again and again, each time with one frame more in its account. Until that
//! suffices, it does not start, or reports what it lacks. It never panics.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use capos_process::Granted;
use capos_rt::{exit_code, log};
use capos_schema::kernel::{ExitInfoCause, Limits};

use crate::Runner;
use crate::plan::{FEW_FRAMES, Size};
use crate::words;

/// Frames that such a process does not need.
const MANY: u64 = 1000;
/// The errors of the kernel and the runtime if an account can pay for nothing more.
const LACKS: [&str; 3] = ["the account's limit does not cover", "out of memory", "no memory"];
/// Arguments that do not go into the memory that a program begins with: its launch record has to be read into more.
const LONG_ARGUMENTS: usize = 60;
/// Bytes of the log that are read at once, at most.
const PART: usize = 16 << 10;

fn tells_of_lack(said: &str) -> bool {
    LACKS.iter().any(|lacks| said.contains(lacks))
}

/// Whether the process has written a line about the lack since `position` of the log; advances `position`.
async fn has_told(runner: &Runner, position: &mut u64) -> Result<bool, String> {
    loop {
        let read = runner.log.read(*position).await.map_err(words)?;
        *position = read.next;
        let text = String::from_utf8_lossy(&read.data);
        if text.lines().any(|line| line.starts_with(FEW_FRAMES) && tells_of_lack(line)) {
            return Ok(true);
        }
        if read.data.len() < PART {
            return Ok(false);
        }
    }
}

/// Starts it with each number of frames, from none on, until it ends well: once without arguments, once with long ones.
pub async fn run(runner: &Runner) -> Result<(), String> {
    let mut position = 0;
    for count in [0, LONG_ARGUMENTS] {
        let arguments = vec!["a".repeat(1000); count];
        run_with(runner, &arguments, &mut position).await.map_err(|why| format!("with {count} arguments: {why}"))?;
    }
    Ok(())
}

async fn run_with(runner: &Runner, arguments: &[String], position: &mut u64) -> Result<(), String> {
    let (mut refused, mut ended) = (0, 0);
    for frames in 0..MANY {
        let limits = Limits { frames, ..Size::Ordinary.limits(0) };
        let grants = vec![Granted::new("canary", &runner.canary)];
        let arguments: Vec<&str> = core::iter::once(FEW_FRAMES).chain(arguments.iter().map(String::as_str)).collect();
        let started = match runner.launch(&runner.bare, FEW_FRAMES, &arguments, grants, limits).await {
            Ok(started) => started,
            Err(why) if tells_of_lack(&why) => {
                refused += 1;
                continue;
            }
            Err(why) => return Err(format!("with {frames} frames it is not started: {why}")),
        };
        let exit = started.process.wait().await.map_err(words)?;
        runner.sing(1).await?;
        match exit.cause {
            ExitInfoCause::Exited if exit.code == 0 => {
                log::info!("with fewer than {frames} frames: {refused} were not started, {ended} ended");
                return if refused > 0 && ended > 0 { Ok(()) } else { Err("it lacked nothing".into()) };
            }
            ExitInfoCause::Fault if tells_of_lack(&exit.report) => ended += 1,
            // Its starter learns of it by the code, and everyone by the log.
            ExitInfoCause::Exited
                if [exit_code::OUT_OF_MEMORY, exit_code::FAILURE].contains(&exit.code)
                    && has_told(runner, position).await? =>
            {
                ended += 1;
            }
            _ => {
                return Err(format!("with {frames} frames it ended with code {}: {:?}", exit.code, exit.report));
            }
        }
    }
    Err(format!("{MANY} frames are not enough"))
}
