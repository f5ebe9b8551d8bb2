//! `capos audit`: checks exports of the audit log.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use capos_audit::{Broken, Checker, Head, Summary};

/// Work with exports of the audit log.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Check that an export is one unbroken chain, and that it holds the heads that were noted elsewhere.
    ///
    /// A chain whose end was cut off, or that was put back to an older state, is unbroken; a noted head tells.
    Verify {
        /// The export: a record a line.
        file: PathBuf,
        /// A head that was noted, as RECORD:HASH; any number of them.
        #[arg(long, value_parser = parse)]
        head: Vec<Head>,
    },
}

fn parse(text: &str) -> Result<Head, String> {
    text.parse()
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let Action::Verify { file, head } = &args.action;
    let lines = BufReader::new(File::open(file).with_context(|| file.display().to_string())?);
    match verify(lines, head).with_context(|| file.display().to_string())? {
        Ok(Summary { records, head, effects, refused, open }) => {
            println!(
                "unbroken: {records} records; {effects} effects with their ends, {} without, {refused} calls that never ran",
                open.len()
            );
            println!("head {head}");
            Ok(ExitCode::SUCCESS)
        }
        Err(broken) => {
            eprintln!("{}: {broken}", file.display());
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Checks the lines of an export, one at a time.
///
/// # Errors
/// It cannot be read.
pub fn verify(mut lines: impl BufRead, heads: &[Head]) -> Result<Result<Summary, Broken>> {
    let mut checker = heads.iter().fold(Checker::default(), |checker, head| checker.through(*head));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        if let Err(broken) = checker.line(text) {
            return Ok(Err(broken));
        }
        line.clear();
    }
    Ok(checker.end(None))
}

#[cfg(test)]
mod tests {
    use capos_audit::{Chain, Kind};

    use super::*;

    fn chain(records: u64, user: &str) -> (String, Vec<Head>) {
        let mut chain = Chain::new(1 << 20);
        let start = |time| Kind::SessionStart.event(&format!("s{time}"), user, &[]);
        let heads = (0..records).map(|time| chain.append_general(time, start(time)).unwrap()).collect();
        (chain.records().iter().map(|record| record.line() + "\n").collect(), heads)
    }

    fn check(lines: &str, heads: &[Head]) -> Result<u64, String> {
        let checked = verify(lines.as_bytes(), heads).unwrap();
        checked.map(|summary| summary.records).map_err(|broken| broken.to_string())
    }

    #[test]
    fn a_chain_that_was_cut_or_put_back_is_told_by_any_noted_head() {
        let (lines, heads) = chain(5, "ada");
        assert_eq!(check(&lines, &[]), Ok(5));
        assert_eq!(check(&lines, &heads), Ok(5));
        let text = heads.last().unwrap().to_string();
        assert_eq!(text.parse(), Ok(*heads.last().unwrap()));
        // Its end was cut off: without a noted head nothing is wrong with it.
        let cut: String = lines.lines().take(3).map(|line| format!("{line}\n")).collect();
        assert_eq!((check(&cut, &[]), check(&cut, &heads[..3])), (Ok(3), Ok(3)));
        let why = check(&cut, &heads[4..]).unwrap_err();
        assert!(why.contains("the noted head is record 5, and the chain ends at record 3"), "{why}");
        // It was cut, and went on otherwise.
        let (other, _) = chain(9, "eve");
        let why = check(&other, &heads[1..2]).unwrap_err();
        assert!(why.contains("broken at record 2") && why.contains("this is another chain"), "{why}");
        assert!(check(&lines.replacen("ada", "eve", 1), &[]).unwrap_err().contains("broken at record 1"));
        for wrong in ["", "5", "5:", "x:00", &text[..text.len() - 1]] {
            assert!(wrong.parse::<Head>().unwrap_err().contains("is not RECORD:HASH"), "{wrong}");
        }
    }
}
