//! `cat`, `grep`, `head`, `ls` and `wc`.

use std::fs;
use std::io::{BufRead, Write};
use std::process::ExitCode;

use crate::input::{Failure, each, named, pieces};

pub fn cat(files: &[String], out: &mut dyn Write) -> Result<ExitCode, Failure> {
    each(files, |name, input| {
        pieces(name, input, |piece| {
            out.write_all(piece).map_err(Failure::Output)?;
            // A person at a terminal sees a line when it is there.
            out.flush().map_err(Failure::Output)
        })
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Variables of the environment, a line each.
pub fn printenv(names: &[String], out: &mut dyn Write) -> Result<ExitCode, Failure> {
    if names.is_empty() {
        return Err(Failure::Usage);
    }
    let mut code = ExitCode::SUCCESS;
    for name in names {
        match std::env::var(name) {
            Ok(value) => writeln!(out, "{name}={value}").map_err(Failure::Output)?,
            Err(_) => code = ExitCode::FAILURE,
        }
    }
    Ok(code)
}

/// The next line with its end; `None` after the last.
fn line<'a>(name: &str, input: &mut dyn BufRead, line: &'a mut Vec<u8>) -> Result<Option<&'a [u8]>, Failure> {
    line.clear();
    let count = input.read_until(b'\n', line).map_err(|error| Failure::Input(named(name), error))?;
    Ok((count > 0).then_some(line.as_slice()))
}

pub fn grep(arguments: &[String], out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let (text, files) = arguments.split_first().ok_or(Failure::Usage)?;
    let mut found = false;
    each(files, |name, input| {
        let mut buffer = Vec::new();
        while let Some(line) = line(name, input, &mut buffer)? {
            if String::from_utf8_lossy(line).contains(text.as_str()) {
                found = true;
                out.write_all(line).map_err(Failure::Output)?;
            }
        }
        Ok(())
    })?;
    Ok(ExitCode::from(u8::from(!found)))
}

pub fn head(arguments: &[String], out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let (lines, files) = match arguments.split_first() {
        Some((option, rest)) if option == "-n" => {
            let (count, files) = rest.split_first().ok_or(Failure::Usage)?;
            (count.parse().map_err(|_| Failure::Usage)?, files)
        }
        _ => (10_u64, arguments),
    };
    each(files, |name, input| {
        let mut buffer = Vec::new();
        for _ in 0..lines {
            let Some(line) = line(name, input, &mut buffer)? else { break };
            out.write_all(line).map_err(Failure::Output)?;
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

pub fn ls(paths: &[String], out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let here = [".".to_owned()];
    for path in if paths.is_empty() { &here } else { paths } {
        let failed = |error| Failure::Input(path.clone(), error);
        if !fs::metadata(path).map_err(failed)?.is_dir() {
            writeln!(out, "{path}").map_err(Failure::Output)?;
            continue;
        }
        // Entries come in the order of their names, and a folder may have more of them than there is memory for.
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let mark = if entry.file_type().map_err(failed)?.is_dir() { "/" } else { "" };
            writeln!(out, "{}{mark}", entry.file_name().to_string_lossy()).map_err(Failure::Output)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Lines, words and bytes.
#[derive(Clone, Copy, Default)]
struct Counts {
    lines: u64,
    words: u64,
    bytes: u64,
    /// Whether the last byte belongs to a word.
    inside: bool,
}

impl Counts {
    fn add(&mut self, piece: &[u8]) {
        for byte in piece {
            let inside = !byte.is_ascii_whitespace();
            self.lines = self.lines.saturating_add(u64::from(*byte == b'\n'));
            self.words = self.words.saturating_add(u64::from(inside && !self.inside));
            self.bytes = self.bytes.saturating_add(1);
            self.inside = inside;
        }
    }
}

pub fn wc(files: &[String], out: &mut dyn Write) -> Result<ExitCode, Failure> {
    each(files, |name, input| {
        let mut counts = Counts::default();
        pieces(name, input, |piece| {
            counts.add(piece);
            Ok(())
        })?;
        let name = if name.is_empty() { String::new() } else { format!(" {name}") };
        writeln!(out, "{} {} {}{name}", counts.lines, counts.words, counts.bytes).map_err(Failure::Output)
    })?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_across_pieces() {
        let mut counts = Counts::default();
        for piece in ["one tw", "o\n\nthr", "ee"] {
            counts.add(piece.as_bytes());
        }
        assert_eq!((counts.lines, counts.words, counts.bytes), (2, 3, 14));
    }
}
