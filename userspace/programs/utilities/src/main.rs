//! Small programs that read and write text, in one file: the first argument says which, as the manifest's entries do.
//!
//! They work as their namesakes elsewhere; they have the options that are listed in [`PROGRAMS`].
#![forbid(unsafe_code)]

mod checksum;
mod input;
mod numbers;
mod text;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use input::Failure;

type Program = fn(&[String], &mut dyn Write) -> Result<ExitCode, Failure>;

/// Name, arguments, program.
const PROGRAMS: &[(&str, &str, Program)] = &[
    ("cat", "[FILE]...", text::cat),
    ("cksum", "[FILE]...", checksum::cksum),
    ("grep", "TEXT [FILE]...", text::grep),
    ("head", "[-n LINES] [FILE]...", text::head),
    ("ls", "[PATH]...", text::ls),
    ("printenv", "NAME...", text::printenv),
    ("seq", "[FIRST] LAST", numbers::seq),
    ("sleep", "SECONDS", numbers::sleep),
    ("wc", "[FILE]...", text::wc),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, arguments)) = arguments.split_first() else {
        let names: Vec<&str> = PROGRAMS.iter().map(|(name, _, _)| *name).collect();
        return complain(format_args!("say which program: {}", names.join(", ")));
    };
    let Some((name, usage, program)) = PROGRAMS.iter().find(|(known, _, _)| known == name) else {
        return complain(format_args!("there is no program {name}"));
    };
    let mut out = io::BufWriter::with_capacity(32 << 10, io::stdout().lock());
    let ended = program(arguments, &mut out).and_then(|code| {
        out.flush().map_err(Failure::Output)?;
        Ok(code)
    });
    match ended {
        Ok(code) => code,
        // The reader has enough.
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Output(error)) => complain(format_args!("{name}: writing: {error}")),
        Err(Failure::Input(what, error)) => complain(format_args!("{name}: {what}: {error}")),
        Err(Failure::Usage) => complain(format_args!("usage: {name} {usage}")),
    }
}

fn complain(why: std::fmt::Arguments<'_>) -> ExitCode {
    // If this cannot be printed, the exit code remains.
    let _ = writeln!(io::stderr(), "{why}");
    ExitCode::FAILURE
}
