//! Running a scenario: a folder's files go on an image, a script drives the terminal, what the guest leaves is
//! collected. `docs/scenarios.md` describes the folder and the results.

pub mod checks;
pub mod disk;
pub mod editor;
pub mod export;
pub mod kills;
pub mod run_agent;
mod started;
pub mod symbols;

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use capos_script::Script;
use serde::{Deserialize, Serialize};

use crate::build::system::Console;
use crate::models::extra::ExtraModel;
use crate::scenario::checks::Checks;
use crate::scenario::checks::screen;
use crate::scenario::disk::DiskSettings;
use crate::scenario::started::{CLIENT, More, Started, Wants, connect, start, start_in_terminal};
use capos_host::tool;
use capos_vm::expect::{Miss, Stripper, Terminal};
use capos_vm::qemu::{Board, End, Firmware, Machine, Medium, Running};
use capos_vm::script::{self, ClientStep, Image, Line, SEEN, Step};
use capos_vm::served::Seed;
use capos_vm::timing;

/// The runner's part of `config.toml`. The other sections are the guest's.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Overall limit, in seconds of the host, from the start of the machine.
    pub limit_seconds: u64,
    /// Memory of the machine, in MiB.
    pub memory: u32,
    /// Processors of the machine.
    pub cpus: u32,
    /// Machine type.
    pub board: Board,
    /// Firmware.
    pub firmware: Firmware,
    /// How the image is attached.
    pub medium: Medium,
    /// Drives that hold the image as well.
    pub more_drives: Vec<Medium>,
    /// Further properties of the device that the image is attached as.
    pub medium_device: String,
    /// QEMU's words for devices that come before that one.
    pub devices: Vec<String>,
    /// QEMU's processor model and features.
    pub cpu: String,
    /// Whether the terminal is one as `capos run` is started in, with QEMU's own keys.
    pub person: bool,
    /// Whether the guest leaves an export; a missing one is then a failure.
    pub export: bool,
    /// The kernel's command line.
    pub command_line: String,
    /// Whether this is about GRUB and our loader: with Limine it is not run.
    pub grub_only: bool,
    /// Whether the machine counts instructions in place of time: one a nanosecond.
    pub icount: bool,
    /// Whether such a machine waits for its disks as long as the host does. Otherwise its clock jumps to the next timer.
    pub icount_waits: bool,
    /// The value the guest is to write to the debug-exit device, for guests that end that way.
    pub debug_exit: Option<u32>,
    /// Models on the image besides the built-in one.
    pub model: Vec<ExtraModel>,
    /// Disks that the guest may write, in addition to the medium.
    pub disk: Vec<DiskSettings>,
    /// Programs to boot alone in place of the system; the first of them is the first process, whose log says which tests
    /// passed. A manifest in the folder is then the whole manifest.
    pub boot: Vec<String>,
    /// The program at the console.
    pub console: Console,
    /// How long deriving a new key from a passphrase may take, in milliseconds of the guest.
    pub key_milliseconds: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limit_seconds: 180,
            memory: 512,
            cpus: 1,
            board: Board::Q35,
            firmware: Firmware::Bios,
            medium: Medium::Virtio,
            more_drives: Vec::new(),
            medium_device: String::new(),
            devices: Vec::new(),
            cpu: "max".into(),
            person: false,
            export: true,
            command_line: String::new(),
            grub_only: false,
            icount: false,
            icount_waits: false,
            debug_exit: None,
            model: Vec::new(),
            disk: Vec::new(),
            boot: Vec::new(),
            console: Console::Shell,
            key_milliseconds: 100,
        }
    }
}

/// A scenario read from its folder.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its folder.
    pub folder: PathBuf,
    /// The script of its terminal.
    pub script: Vec<Line>,
    /// The runner's settings.
    pub settings: Settings,
    /// The required results of a run.
    pub checks: Checks,
}

impl Scenario {
    /// Reads and checks a folder. `terminal.txt` and `config.toml` are required.
    pub fn open(folder: &Path) -> Result<Self> {
        #[derive(Deserialize)]
        struct Config {
            #[serde(default)]
            runner: Settings,
        }
        ensure!(folder.is_dir(), "there is no folder {}", folder.display());
        let script_file = folder.join("terminal.txt");
        let text = std::fs::read_to_string(&script_file)
            .with_context(|| format!("a scenario needs its script: reading {}", script_file.display()))?;
        let script = script::parse(&text).with_context(|| script_file.display().to_string())?;
        let config_file = folder.join("config.toml");
        // It is by this file that the guest knows a scenario.
        let text = std::fs::read_to_string(&config_file).with_context(|| {
            format!("a scenario needs its configuration, which may be empty: reading {}", config_file.display())
        })?;
        let config: Config = toml::from_str(&text).with_context(|| config_file.display().to_string())?;
        model(&folder.join("model.jsonl"))?;
        let checks = Checks::open(folder)?;
        disk::check(&config.runner.disk, folder).with_context(|| config_file.display().to_string())?;
        let again = |line: &Line| matches!(line.step, Step::PowerCut | Step::Boot(_) | Step::Eject | Step::Kills(..));
        if let Some(line) = script.iter().find(|line| again(line)).filter(|_| config.runner.person) {
            bail!("{} line {}: a person's terminal has no such step", script_file.display(), line.number);
        }
        Ok(Self { folder: folder.to_owned(), script, settings: config.runner, checks })
    }

    /// Whether the script boots an image with newer formats.
    pub fn boots_next(&self) -> bool {
        self.script.iter().any(|line| matches!(line.step, Step::Boot(Image::Next)))
    }

    /// Whether an editor is at the machine's client port.
    pub fn has_editor(&self) -> bool {
        self.script.iter().any(|line| matches!(line.step, Step::Client(ClientStep::Editor(_))))
    }

    /// Whether the machine has a client.
    pub fn has_client(&self) -> bool {
        self.script.iter().any(|line| matches!(line.step, Step::Client(_)))
    }

    /// The machine it runs on, booting `image`.
    pub fn machine(&self, image: &Path, accelerator: &str) -> Machine {
        Machine {
            board: self.settings.board,
            firmware: self.settings.firmware,
            memory: self.settings.memory,
            cpus: self.settings.cpus,
            cpu: self.settings.cpu.clone(),
            medium: self.settings.medium,
            more_drives: self.settings.more_drives.clone(),
            medium_device: self.settings.medium_device.clone(),
            devices: self.settings.devices.clone(),
            icount: self.settings.icount,
            icount_waits: self.settings.icount_waits,
            ..Machine::new(image, accelerator)
        }
    }
}

/// Where the image with newer formats is, next to a scenario's image.
pub fn next_image(image: &Path) -> PathBuf {
    image.with_file_name("next.iso")
}

/// Checks the script of a scenario's model: in the guest a mistake would be found late.
fn model(file: &Path) -> Result<()> {
    match std::fs::read(file) {
        Ok(bytes) => Script::parse(&bytes).map(drop).map_err(|error| anyhow!("{}: {error}", file.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("reading {}", file.display())),
    }
}

/// How a run went; written to `result.json`.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// True when every step was taken, the machine ended as it should, the export is complete, and all checks hold.
    pub passed: bool,
    /// Why not, in a sentence.
    pub reason: Option<String>,
    /// Steps of the script that were taken, and how many there are.
    pub steps: (usize, usize),
    /// Seconds of the host from start to end.
    pub seconds: f64,
    /// QEMU's accelerator.
    pub accelerator: String,
    /// Files that the guest exported.
    pub exported: usize,
    /// The guest's own result, if it gave one.
    pub guest: Option<serde_json::Value>,
}

/// Runs a scenario on `machine` and leaves transcript, logs, export and report in `out`. A failed scenario is a report;
/// an error is something that kept it from being run.
pub fn run(scenario: &Scenario, machine: &Machine, out: &Path) -> Result<Report> {
    std::fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let (log, stream) = (out.join("serial.log"), out.join("export.tar"));
    for old in [&log, &stream] {
        std::fs::write(old, b"")?;
    }
    let started = Instant::now();
    let deadline = started + Duration::from_secs(scenario.settings.limit_seconds);
    let disks = disk::create(&scenario.settings.disk, &scenario.folder, out)?;
    let machine = &Machine { disks: disks.disks.clone(), ..machine.clone() };
    // The machine ends before its terminal does, whatever goes wrong: the reader of a pseudo-terminal waits for that.
    let changed = scenario.script.iter().any(|line| matches!(line.step, Step::Eject));
    let next = &Machine { image: next_image(&machine.image), ..machine.clone() };
    let wants = Wants { monitor: changed, client: scenario.has_client() };
    let again = |image: Image| start(if image == Image::Next { next } else { machine }, &log, &stream, wants, deadline);
    let (mut terminal, mut running, mut more) = match scenario.settings.person {
        false => {
            let (line, running, more) = again(Image::This)?;
            (Terminal::new(line, Stripper::joining(screen::ROW_MARK))?, running, more)
        }
        true => {
            let (terminal, running) = start_in_terminal(machine, &log, &stream)?;
            (terminal, running, More::default())
        }
    };
    let mut taken = 0;
    let means = Means { machine, disks: &disks, log: &log, again: &again };
    let played = play(scenario, &means, &mut terminal, (&mut running, &mut more), &mut taken, deadline);
    let mut tail = if scenario.settings.person { screen::Tail::Quit } else { screen::Tail::Whole };
    let played = match played? {
        None => finish(scenario, &mut running, &mut terminal, deadline)?,
        Some(Stop::Quit) => {
            tail = screen::Tail::Cut;
            None
        }
        Some(Stop::Failed(reason)) => Some(explain(reason, &mut running)?),
    };
    // The machine has ended with it, so the line closes after its last output.
    drop(running);
    terminal.drain(deadline);
    let seconds = started.elapsed().as_secs_f64();
    std::fs::write(out.join("transcript.txt"), terminal.text())?;
    std::fs::write(out.join("terminal.raw"), terminal.raw())?;
    if let Some(client) = &mut more.client {
        client.drain(deadline);
        std::fs::write(out.join("client.txt"), client.raw())?;
    }
    std::fs::write(out.join(timing::FILE), timing::lines(terminal.pieces()))?;

    let export = export::unpack(&stream, out, scenario.settings.export);
    let (export, reason) = match export {
        Ok(export) => (export, played),
        Err(error) => (export::Export::default(), Some(played.unwrap_or_else(|| format!("{error:#}")))),
    };
    let manifest = Some(scenario.folder.join("manifest.toml"));
    let manifest = manifest.filter(|path| scenario.settings.boot.is_empty() && path.is_file());
    symbols::name_log(&log, manifest.as_deref(), &out.join("serial.named.log"))?;
    let reason = match reason {
        Some(reason) => Some(reason),
        None => {
            let failures = scenario.checks.failures(&scenario.folder, out, export.result.as_ref(), tail)?;
            (!failures.is_empty()).then(|| failures.join("\n"))
        }
    };
    let report = Report {
        passed: reason.is_none(),
        reason,
        steps: (taken, scenario.script.len()),
        seconds,
        accelerator: machine.accelerator.clone(),
        exported: export.files,
        guest: export.result,
    };
    let mut json = serde_json::to_vec_pretty(&report)?;
    json.push(b'\n');
    std::fs::write(out.join("result.json"), json)?;
    Ok(report)
}

/// Why the script was left before its end.
enum Stop {
    Quit,
    Failed(String),
}

/// What steps work with, in addition to the running machine.
struct Means<'a> {
    machine: &'a Machine,
    disks: &'a disk::Made,
    log: &'a Path,
    /// Starts the machine again, with an image.
    again: &'a dyn Fn(Image) -> Result<Started>,
}

/// Takes the script's steps.
fn play(
    scenario: &Scenario,
    means: &Means<'_>,
    terminal: &mut Terminal,
    (running, more): (&mut Running, &mut More),
    taken: &mut usize,
    deadline: Instant,
) -> Result<Option<Stop>> {
    let mut log_from = 0;
    for line in &scenario.script {
        let failed = |reason: String| Ok(Some(Stop::Failed(format!("terminal.txt line {}: {reason}", line.number))));
        match &line.step {
            Step::Expect(pattern) => match terminal.expect(pattern, deadline) {
                Ok(()) => {}
                Err(miss) => {
                    let why = match miss {
                        Miss::Deadline => {
                            format!("did not appear within the limit of {} s", scenario.settings.limit_seconds)
                        }
                        Miss::Closed => "did not appear before the machine ended".to_owned(),
                    };
                    let last = last_lines(terminal.unseen());
                    return failed(format!("{pattern} {why}; after the last match the screen shows:\n{last}"));
                }
            },
            Step::Log(pattern) => {
                let last = || log_since(means.log, log_from);
                while pattern.end_in(&last()?).is_none() {
                    if Instant::now() >= deadline || running.ended()?.is_some() {
                        let text = last()?;
                        return failed(format!("the log does not say {pattern}; it ends with:\n{}", last_lines(&text)));
                    }
                    // A file has no event to wait for.
                    std::thread::park_timeout(Duration::from_millis(20));
                }
            }
            Step::Absent(pattern) => {
                if let Some(line) = pattern.line_in(terminal.text()) {
                    return failed(format!("{pattern} has appeared and should not have: {line}"));
                }
            }
            Step::Send(bytes) => {
                if let Err(error) = terminal.send(bytes) {
                    return failed(format!("{error:#}"));
                }
            }
            Step::SendSeen(expression) => {
                let Some(seen) = script::last_seen(expression, terminal.text()) else {
                    return failed(format!("/{}/ has matched nothing so far", expression.as_str()));
                };
                let typed = format!("{seen}\r");
                if let Err(error) = terminal.send(typed.as_bytes()) {
                    return failed(format!("{error:#}"));
                }
            }
            Step::Corrupt(path, offset) => corrupt(&means.machine.image, path, *offset)?,
            Step::Client(ClientStep::Editor(editor)) => {
                let client = more.client.as_mut().context("the machine has no client")?;
                let socket = more.folder.as_ref().context("the machine has no client")?.0.join(CLIENT);
                // QEMU serves one client at a time.
                client.close();
                let out = means.log.with_file_name("editor.txt");
                if let Err(reason) = editor::run(editor, &scenario.folder, &socket, &out, deadline)? {
                    return failed(reason);
                }
                client.reconnect(connect(&socket, running, deadline)?)?;
            }
            Step::Client(step) => {
                let client = more.client.as_mut().context("the machine has no client")?;
                if let Err(reason) = converse(client, step, deadline) {
                    return failed(reason);
                }
            }
            Step::Eject => more.monitor.as_mut().context("there is no monitor")?.eject()?,
            Step::Disk(name, change) => {
                if let Err(error) = means.disks.step(name, change, running.ended()?.is_none()) {
                    return failed(format!("{error:#}"));
                }
            }
            Step::Kills(disk, count, seed) => {
                let start = || {
                    let (line, running, _) = (means.again)(Image::This)?;
                    Ok((Terminal::new(line, Stripper::default())?, running))
                };
                running.kill()?;
                match kills::run(means.disks, disk, *count, *seed, means.log, &start, deadline)? {
                    Ok(words) => println!("        {words}"),
                    Err(reason) => return failed(reason),
                }
            }
            Step::PowerCut => {
                if let Err(error) = means.disks.wait_stopped(deadline) {
                    return failed(format!("{error:#}"));
                }
                running.kill()?;
                terminal.drain(deadline);
                means.disks.cut(&mut Seed(line.number as u64))?;
            }
            Step::Boot(image) => {
                terminal.drain(deadline);
                if let Some(reason) = unexpected(running.wait(deadline)?, running) {
                    return failed(reason);
                }
                log_from = std::fs::metadata(means.log)?.len();
                let line;
                (line, *running, *more) = (means.again)(*image)?;
                terminal.reconnect(line)?;
            }
            Step::Quit => {
                *taken += 1;
                return Ok(Some(Stop::Quit));
            }
        }
        *taken += 1;
    }
    Ok(None)
}

/// Takes a step on the line of the machine's client.
fn converse(client: &mut Terminal, step: &ClientStep, deadline: Instant) -> Result<(), String> {
    match step {
        ClientStep::Expect(pattern) => client.expect(pattern, deadline).map_err(|_| {
            let last = last_lines(client.unseen());
            format!("the client did not receive {pattern} in time; after the last match it received:\n{last}")
        }),
        ClientStep::Absent(pattern) => match pattern.line_in(client.text()) {
            Some(line) => Err(format!("the client received {pattern} and should not have: {line}")),
            None => Ok(()),
        },
        ClientStep::Line(line, seen) => {
            let mut line = format!("{line}\n");
            if let Some(expression) = seen {
                let found = script::last_seen(expression, client.text());
                let found = found.ok_or_else(|| format!("/{}/ has matched nothing so far", expression.as_str()))?;
                line = line.replace(SEEN, found);
            }
            client.send(line.as_bytes()).map_err(|error| format!("{error:#}"))
        }
        ClientStep::Editor(_) => Ok(()),
    }
}

/// The log from a place on.
fn log_since(log: &Path, from: u64) -> Result<String> {
    let mut file = std::fs::File::open(log).context("opening the log")?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Why a machine cannot be started again: it did not switch itself off, and its power was not cut.
fn unexpected(end: Option<End>, running: &mut Running) -> Option<String> {
    match end {
        Some(End::PoweredOff | End::Cut) => None,
        Some(End::DebugExit(value)) => Some(format!("the machine ended with {value:#x} at its debug-exit device")),
        Some(End::Failed) => Some(format!("QEMU failed: {}", running.complaint())),
        None => Some("the machine did not switch itself off; to cut its power use `power-cut`".into()),
    }
}

fn last_lines(text: &str) -> String {
    const LINES: usize = 20;
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LINES);
    lines.get(from..).unwrap_or(&[]).join("\n")
}

/// Waits for the machine to end as it should; the reason if it does not.
fn finish(
    scenario: &Scenario,
    running: &mut Running,
    terminal: &mut Terminal,
    deadline: Instant,
) -> Result<Option<String>> {
    terminal.drain(deadline);
    let wanted = scenario.settings.debug_exit.map_or(End::PoweredOff, End::DebugExit);
    Ok(match running.wait(deadline)? {
        Some(end) if end == wanted => None,
        Some(End::PoweredOff) => Some("the machine switched itself off".into()),
        Some(End::Cut) => Some("the machine's power was cut".into()),
        Some(End::DebugExit(value)) => Some(format!("the machine ended with {value:#x} at its debug-exit device")),
        Some(End::Failed) => Some(format!("QEMU failed: {}", running.complaint())),
        None => Some(format!(
            "after the last step the machine did not end within the limit of {} s",
            scenario.settings.limit_seconds
        )),
    })
}

/// Adds how the machine ended to the reason of a failure, if it ended by itself.
fn explain(reason: String, running: &mut Running) -> Result<String> {
    Ok(match running.ended()? {
        Some(End::PoweredOff) => format!("{reason}\n(the machine had switched itself off)"),
        Some(End::DebugExit(value)) => format!("{reason}\n(the machine had ended with debug exit {value:#x})"),
        Some(End::Cut) => format!("{reason}\n(the machine's power had been cut)"),
        Some(End::Failed) => format!("{reason}\n(QEMU had failed: {})", running.complaint()),
        None => reason,
    })
}

/// Inverts a byte of a file on the image, below the running system.
fn corrupt(image: &Path, path: &Path, offset: u64) -> Result<()> {
    const BLOCK: u64 = 2048;
    let xorriso = tool::find(&["xorriso"], "xorriso")?;
    let mut command = Command::new(xorriso);
    command.arg("-indev").arg(image).arg("-find").arg(path).args(["-exec", "report_lba"]);
    let output = command.output().context("starting xorriso")?;
    let text = String::from_utf8_lossy(&output.stdout);
    // `File data lba:  0 , START , BLOCKS , BYTES , 'PATH'`
    let mut fields = text.lines().find_map(|line| line.strip_prefix("File data lba:")).map(|line| line.split(','));
    let mut number = || fields.as_mut().and_then(|fields| fields.next()).and_then(|field| field.trim().parse().ok());
    let (Some(_), Some(start), Some(_), Some(size)) = (number(), number(), number(), number()) else {
        bail!("{} is not on the image", path.display());
    };
    let (start, size): (u64, u64) = (start, size);
    ensure!(offset < size, "{} has {size} bytes, none at {offset}", path.display());
    let mut file = OpenOptions::new().read(true).write(true).open(image).context("opening the image to change it")?;
    let place = SeekFrom::Start(start * BLOCK + offset);
    let mut byte = [0];
    file.seek(place)?;
    file.read_exact(&mut byte)?;
    file.seek(place)?;
    file.write_all(&byte.map(|byte| !byte))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn only_the_runners_section_is_read() {
        let config = "[runner]\nlimit_seconds = 7\nboard = \"pc\"\n[session]\nprofile = \"guest\"\n[other]\nx = 1\n";
        let folder = folder(&[("terminal.txt", "expect \"x\"\n"), ("config.toml", config)]);
        let scenario = Scenario::open(folder.path()).unwrap();
        assert_eq!((scenario.settings.limit_seconds, scenario.settings.board), (7, Board::Pc));
        assert_eq!(scenario.settings.memory, 512);
    }

    #[test]
    fn mistakes_of_a_folder_are_told_with_the_file() {
        let told = |files| format!("{:#}", Scenario::open(folder(files).path()).unwrap_err());
        assert!(told(&[]).contains("terminal.txt") && told(&[("terminal.txt", "")]).contains("config.toml"));
        let wrong = folder(&[("terminal.txt", ""), ("config.toml", "[runner]\nlimit = 5\n")]);
        let error = format!("{:#}", Scenario::open(wrong.path()).unwrap_err());
        assert!(error.contains("config.toml") && error.contains("limit"), "{error}");
        let wrong = [("terminal.txt", "quit\n"), ("config.toml", ""), ("model.jsonl", "{\"txt\": \"hi\"}\n")];
        let error = format!("{:#}", Scenario::open(folder(&wrong).path()).unwrap_err());
        assert!(error.contains("model.jsonl line 1") && error.contains("txt"), "{error}");
    }

    #[test]
    fn a_byte_of_a_file_on_an_image_is_inverted() {
        let folder = folder(&[]);
        let tree = folder.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        std::fs::write(tree.join("weights.gguf"), vec![0x55; 5000]).unwrap();
        let image = folder.path().join("x.iso");
        let made =
            Command::new("xorriso").args(["-as", "mkisofs", "-quiet", "-R", "-o"]).arg(&image).arg(&tree).output();
        assert!(made.unwrap().status.success());
        corrupt(&image, Path::new("/weights.gguf"), 4999).unwrap();
        let bytes = std::fs::read(&image).unwrap();
        let start = bytes.windows(4998).position(|part| part.iter().all(|&byte| byte == 0x55)).unwrap();
        assert_eq!(bytes[start + 4999], !0x55);
        assert!(corrupt(&image, Path::new("/weights.gguf"), 5000).is_err());
        assert!(corrupt(&image, Path::new("/other"), 0).is_err());
    }
}
