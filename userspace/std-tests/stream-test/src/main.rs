//! The kinds of a program's standard streams, and ways for it to end. The first argument says what to do.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::time::Duration;
use std::{env, fs, process, thread};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes of a file that is written in one piece.
const ALTERNATED: usize = 60_000;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match *arguments.as_slice() {
        ["terminal"] => terminal(),
        ["arguments", ref rest @ ..] => say(&format!("{rest:?}")),
        ["exit", code] => process::exit(code.parse().unwrap_or(99)),
        ["fault"] => say(&deep(u64::MAX).to_string()),
        ["fault", thread] => in_thread(thread, || drop(say(&deep(u64::MAX).to_string()))),
        ["panic"] => panic_now(),
        ["panic", thread] => in_thread(thread, || drop(panic_now())),
        ["escape"] => say("\u{1b}[2J\u{1b}[Hcapos> \u{1b}]0;title\u{7}forged\rover"),
        ["directory"] => say(&env::current_dir().map_or_else(|why| why.to_string(), |path| path.display().to_string())),
        ["open", path] => File::open(path).map(drop).map_err(Into::into),
        ["write", path] => File::create(path).map(drop).map_err(Into::into),
        ["keep", path] => {
            File::create(path).and_then(|mut file| io::copy(&mut io::stdin(), &mut file)).map(drop).map_err(Into::into)
        }
        ["alternate", path] => alternate(path),
        ["many", folder, count] => many(folder, count),
        ["count", folder] => count(folder),
        ["wait"] => {
            let said = say("waiting");
            loop {
                thread::park();
                if said.is_err() {
                    break said;
                }
            }
        }
        ["close"] => close(),
        ["poll"] => poll_both(),
        ["poll-late"] => poll_late(),
        ["flood"] => flood(),
        _ => Err("say what to do".into()),
    };
    if let Err(why) = outcome {
        tell(format_args!("stream-test: {why}"));
        process::exit(1);
    }
}

fn say(text: &str) -> Outcome {
    writeln!(io::stdout(), "{text}").map_err(Into::into)
}

/// Fills a file with one letter, synced, and then with two letters in turn, until it is ended.
fn alternate(path: &str) -> Outcome {
    let mut file = File::create(path)?;
    file.write_all(&[b'a'; ALTERNATED])?;
    file.sync_all()?;
    say("alternating")?;
    for letter in [b'b', b'a'].into_iter().cycle() {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&[letter; ALTERNATED])?;
    }
    Ok(())
}

/// Makes a folder with this many files.
fn many(folder: &str, count: &str) -> Outcome {
    fs::create_dir(folder)?;
    for number in 0..count.parse::<u32>()? {
        File::create_new(format!("{folder}/{number}"))?;
    }
    self::count(folder)
}

/// Counts the entries of a folder.
fn count(folder: &str) -> Outcome {
    let found = fs::read_dir(folder)?.try_fold(0_u32, |sum, entry| entry.map(|_| sum.saturating_add(1)))?;
    say(&format!("there are {found} files"))
}

/// Writes to standard error, which is the terminal also if the other two are pipes: in one piece.
fn tell(text: std::fmt::Arguments<'_>) {
    // If this fails, the rest of the test reports it.
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Does something in a thread of this name.
fn in_thread(name: &str, act: fn()) -> Outcome {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(act)?;
    thread.join().map_err(|_| "the thread panicked".into())
}

/// Uses up the stack.
#[inline(never)]
#[allow(unconditional_recursion, reason = "that is what it is for")]
fn deep(number: u64) -> u64 {
    let place = std::hint::black_box([number; 64]);
    deep(place.iter().copied().fold(0, u64::wrapping_add)).wrapping_add(std::hint::black_box(number))
}

#[inline(never)]
#[allow(clippy::panic, reason = "that is what it is for")]
fn panic_now() -> Outcome {
    panic!("asked to panic")
}

fn terminal() -> Outcome {
    let (input, output, error) = (io::stdin(), io::stdout(), io::stderr());
    let size = rustix::termios::tcgetwinsize(&output).map(|size| format!("{}x{}", size.ws_col, size.ws_row));
    let size = size.unwrap_or_else(|error| error.to_string());
    tell(format_args!("terminals: {} {} {}, {size}", input.is_terminal(), output.is_terminal(), error.is_terminal()));
    Ok(())
}

/// Closes standard output and continues: its reader gets the end of the stream at once.
fn close() -> Outcome {
    say("all there is")?;
    rustix::stdio::dup2_stdout(File::open("/dev/null")?)?;
    let mut rest = Vec::new();
    let read = io::stdin().read_to_end(&mut rest)?;
    tell(format_args!("closed, then read {read} bytes"));
    Ok(())
}

/// Waits for standard input and for its own pipe at the same time, and reports which was first.
fn poll_both() -> Outcome {
    let (reader, mut writer) = io::pipe()?;
    let thread = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        writer.write_all(b"x").map(|()| writer)
    });
    let input = io::stdin();
    let mut watched = [PollFd::new(&input, PollFlags::IN), PollFd::new(&reader, PollFlags::IN)];
    poll(&mut watched, None)?;
    let [first, second] = watched.map(|one| one.revents());
    tell(format_args!("first: input {}, pipe {}", first.contains(PollFlags::IN), second.contains(PollFlags::IN)));
    let _writer = thread.join().map_err(|_| "a thread panicked")??;
    let mut watched = [PollFd::new(&input, PollFlags::IN)];
    poll(&mut watched, None)?;
    let mut text = [0; 64];
    let count = io::stdin().read(&mut text)?;
    tell(format_args!("then: {:?}", String::from_utf8_lossy(text.get(..count).unwrap_or_default())));
    Ok(())
}

/// Waits for standard input for a time only.
fn poll_late() -> Outcome {
    let input = io::stdin();
    let mut watched = [PollFd::new(&input, PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    let ready = poll(&mut watched, Some(&time))?;
    tell(format_args!("ready within the time: {ready}"));
    Ok(())
}

/// Writes until no process reads any more.
fn flood() -> Outcome {
    let mut out = io::stdout();
    let mut written = 0_u64;
    loop {
        match out.write(&[b'x'; 5000]) {
            Ok(count) => written = written.saturating_add(u64::try_from(count)?),
            Err(error) => {
                tell(format_args!("after {} KiB or more: {:?}", written.min(4096) / 1024, error.kind()));
                return Ok(());
            }
        }
    }
}
