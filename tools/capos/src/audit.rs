//! `capos audit`: checks exports of the audit log, and rebuilds runs from them.

mod replay;

use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use capos_audit::{Checker, Head, Lost, Summary, lost_in};

/// Bytes of a file that are read at once.
const PIECE: usize = 1 << 20;

/// Work with exports of the audit log.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Check that the records of all files are one unbroken chain, and that it holds the heads that were noted elsewhere.
    ///
    /// Archives and an export of the log are parts of one chain. A chain whose end was cut off, or that was put back to an
    /// older state, is unbroken; a noted head tells.
    Verify {
        /// Archives and the export of the log, in any order: a record a line.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// A head that was noted, as RECORD:HASH; any number of them.
        #[arg(long, value_parser = parse)]
        head: Vec<Head>,
    },
    /// Rebuild runs from their records: model answers, calls, decisions, effects and budgets, in their order.
    ///
    /// The chain is checked first. Nothing is executed again, and no model is asked. The command fails if records contradict
    /// each other, or the conversation.
    Replay {
        /// Archives and the export of the log, in any order: a record a line.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Only this run, with all its records: CONVERSATION-TURN, or the beginning of it.
        #[arg(long, value_name = "RUN")]
        run: Option<String>,
        /// The conversation as a client received it: the answers to ResumeSession and GetMessages, one a line. Its requests,
        /// answers, arguments and results are compared with the records.
        #[arg(long, value_name = "FILE")]
        conversation: Option<PathBuf>,
    },
}

fn parse(text: &str) -> Result<Head, String> {
    text.parse()
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.action {
        Action::Verify { files, head } => match checked(&mut parts(files)?, head)? {
            Ok(summary) => {
                tell(summary);
                Ok(ExitCode::SUCCESS)
            }
            Err(broken) => {
                eprintln!("{broken}");
                Ok(ExitCode::FAILURE)
            }
        },
        Action::Replay { files, run, conversation } => {
            let mut parts = parts(files)?;
            if let Err(broken) = checked(&mut parts, &[])? {
                eprintln!("{broken}");
                return Ok(ExitCode::FAILURE);
            }
            replay::replay(&mut parts, run.as_deref(), conversation.as_deref())
        }
    }
}

/// A part of a chain: its first record, its name, and its lines.
type Part = (u64, String, BufReader<File>);

/// Opens the parts of a chain, in its order.
fn parts(files: &[PathBuf]) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for file in files {
        let mut lines = BufReader::with_capacity(PIECE, File::open(file).with_context(|| file.display().to_string())?);
        let first = first(&mut lines).with_context(|| file.display().to_string())?;
        parts.push((first, file.display().to_string(), lines));
    }
    parts.sort_by_key(|(first, ..)| *first);
    Ok(parts)
}

/// Checks the chain of all parts. An error is a sentence that names the file.
fn checked(parts: &mut [Part], heads: &[Head]) -> Result<Result<Summary, String>> {
    let checked = verify(parts.iter_mut().map(|(_, name, lines)| (name.clone(), lines)), heads, &[])?;
    if checked.is_ok() {
        return Ok(checked);
    }
    // Records that are missing may be those of which a later record says that a disk has lost them.
    let mut lost = Vec::new();
    for (_, name, lines) in &mut *parts {
        lines.rewind().with_context(|| name.clone())?;
        lost.extend(told_lost(&mut *lines).with_context(|| name.clone())?);
        lines.rewind().with_context(|| name.clone())?;
    }
    if lost.is_empty() {
        return Ok(checked);
    }
    verify(parts.iter_mut().map(|(_, name, lines)| (name.clone(), lines)), heads, &lost)
}

fn tell(summary: Summary) {
    let Summary { records, head, effects, refused, open, archived, archive, lost, damages } = summary;
    println!(
        "unbroken: {records} records; {effects} effects with their ends, {} without, {refused} calls that never ran",
        open.len()
    );
    println!("head {head}");
    for (record, why) in damages {
        println!("damaged: record {record} says that a disk has lost records: {why}");
    }
    for Lost { first, last } in lost {
        println!("lost: records {first} to {last}");
    }
    if archived.sequence > 0 && archive.is_empty() {
        println!(
            "not checked: records 1 to {}, which are in a part that was damaged; `/audit export` writes what can be read of \
             them",
            archived.sequence
        );
    } else if archived.sequence > 0 {
        println!(
            "not checked: records 1 to {}, which are in the archive {archive:?} and those before it; give them as well",
            archived.sequence
        );
    }
}

/// The sequence of the first record of an export, which is read from its beginning again; 0 if it has none.
fn first(lines: &mut (impl BufRead + Seek)) -> Result<u64> {
    let mut line = Vec::new();
    lines.read_until(b'\n', &mut line)?;
    lines.rewind()?;
    let record: serde_json::Value = serde_json::from_slice(&line).unwrap_or_default();
    Ok(record.get("sequence").and_then(serde_json::Value::as_u64).unwrap_or_default())
}

/// The records of which records in these lines say that a disk has lost them.
fn told_lost(lines: impl BufRead) -> Result<Vec<Lost>> {
    let mut lost = Vec::new();
    for line in lines.split(b'\n') {
        lost.extend(lost_in(&line?));
    }
    Ok(lost)
}

/// Checks the lines of exports, each with its name, one line at a time. An error is a sentence that names the file. Those that are
/// lost may be missing.
///
/// # Errors
/// One cannot be read.
pub fn verify<L: BufRead>(
    files: impl IntoIterator<Item = (String, L)>,
    heads: &[Head],
    lost: &[Lost],
) -> Result<Result<Summary, String>> {
    let mut checker = heads.iter().fold(Checker::default(), |checker, head| checker.through(*head));
    lost.iter().for_each(|lost| checker.allow(*lost));
    let mut last = String::new();
    for (name, mut lines) in files {
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).with_context(|| name.clone())? > 0 {
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            if let Err(broken) = checker.line(text) {
                return Ok(Err(format!("{name}: {broken}")));
            }
            line.clear();
        }
        last = name;
    }
    Ok(checker.end(None).map_err(|broken| format!("{last}: {broken}")))
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
        let checked = verify([("log".to_string(), lines.as_bytes())], heads, &[]).unwrap();
        checked.map(|summary| summary.records)
    }

    #[test]
    fn parts_of_a_chain_are_joined_and_a_missing_one_is_named() {
        let (lines, heads) = chain(5, "ada");
        let parts: Vec<String> = lines.lines().map(|line| format!("{line}\n")).collect();
        let check = |parts: &[&str]| {
            let files = parts.iter().enumerate().map(|(at, part)| (format!("part {at}"), part.as_bytes()));
            verify(files, &heads, &[]).unwrap().map(|summary| summary.records)
        };
        let [one, two, three] = [parts[..2].concat(), parts[2..3].concat(), parts[3..].concat()];
        assert_eq!(check(&[&one, &two, &three]), Ok(5));
        let why = check(&[&one, &three]).unwrap_err();
        assert!(why.contains("part 1") && why.contains("the records 3 to 3 are missing"), "{why}");
        assert!(check(&[&two, &three]).unwrap_err().contains("the records 1 to 2 are missing"));
        assert!(check(&[&one, &two]).unwrap_err().contains("the chain ends at record 3"));
        let mut file = std::io::Cursor::new(three.as_bytes());
        assert_eq!((first(&mut file).unwrap(), file.position()), (4, 0));
        assert_eq!(first(&mut std::io::Cursor::new(b"")).unwrap(), 0);
    }

    #[test]
    fn records_that_are_named_as_lost_may_be_missing() {
        let mut chain = Chain::new(1 << 20);
        let start = |time| Kind::SessionStart.event(&format!("s{time}"), "ada", &[]);
        (0..6).for_each(|time| {
            chain.append_general(time, start(time)).unwrap();
        });
        let told = Kind::LogDamage.event("", "", &[("lost", &"2-3"), ("why", &"block 812")]);
        chain.append_general(9, told).unwrap();
        let lines: Vec<String> = chain.records().iter().map(|record| record.line() + "\n").collect();
        let run = |gap: &[usize]| {
            let kept =
                lines.iter().enumerate().filter(|(at, _)| !gap.contains(&(at + 1))).map(|(_, line)| line.as_str());
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), kept.collect::<String>()).unwrap();
            let action = Action::Verify { files: vec![file.path().into()], head: Vec::new() };
            super::run(&Args { action }).unwrap()
        };
        assert_eq!(run(&[]), ExitCode::SUCCESS);
        assert_eq!(run(&[2, 3]), ExitCode::SUCCESS);
        for gap in [&[2][..], &[2, 3, 4], &[5], &[1, 2, 3]] {
            assert_eq!(run(gap), ExitCode::FAILURE, "{gap:?}");
        }
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
