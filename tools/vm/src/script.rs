//! The language of `terminal.txt`: one step per line, described in `docs/scenarios.md`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use regex_lite::Regex;

use crate::disk_step::{self, DiskStep};
use crate::expect::Pattern;

/// An image of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Image {
    /// Of this version of capOS.
    This,
    /// Of one whose store has newer formats.
    Next,
}

/// A step of a script.
#[derive(Debug, Clone)]
pub enum Step {
    /// Wait until this appears after the last match.
    Expect(Pattern),
    /// Fail if this has appeared anywhere so far.
    Absent(Pattern),
    /// Wait until the log of this start of the machine contains this.
    Log(Pattern),
    /// Type these bytes.
    Send(Vec<u8>),
    /// Type what the expression's first group matched last in everything that has appeared, and Enter.
    SendSeen(Regex),
    /// The same on the line of the machine's client.
    Client(ClientStep),
    /// Change a byte of a file on the medium while the machine runs: path on the image, offset.
    Corrupt(PathBuf, u64),
    /// Take the medium out of its optical drive.
    Eject,
    /// Change how a disk behaves, or, while no machine runs, what it holds: name, change.
    Disk(String, DiskStep),
    /// Start the machine this many times and cut its power each time at a random request to a disk: name, number, seed.
    /// What its log says to be acknowledged must be there each time.
    Kills(String, u64, u64),
    /// Kill the machine, as if its power had failed. The script continues with [`Step::Boot`].
    PowerCut,
    /// Start the machine again with the same disks, and with this image. One that runs has to switch itself off first.
    Boot(Image),
    /// End the machine without waiting for it to switch itself off.
    Quit,
}

/// A step on the line of the machine's client.
#[derive(Debug, Clone)]
pub enum ClientStep {
    /// Wait until this was received after the last match.
    Expect(Pattern),
    /// Fail if this was received so far.
    Absent(Pattern),
    /// Send this as a line. [`SEEN`] in it stands for what the expression's first group matched last in what was received.
    Line(String, Option<Regex>),
    /// Give the line to an editor, and take it back.
    Editor(Editor),
}

/// An editor at the machine's client port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Editor {
    /// The file with its steps, in the scenario's folder.
    pub steps: PathBuf,
    /// The user that it logs in as.
    pub user: String,
    /// That user's passphrase.
    pub passphrase: String,
}

/// Stands in a client's line for what was seen.
pub const SEEN: &str = "SEEN";

/// What the first group of an expression matched last in a text.
#[must_use]
pub fn last_seen<'a>(expression: &Regex, text: &'a str) -> Option<&'a str> {
    Some(expression.captures_iter(text).last()?.get(1)?.as_str())
}

/// A step and its line.
#[derive(Debug, Clone)]
pub struct Line {
    /// Counted from one.
    pub number: usize,
    /// The step.
    pub step: Step,
}

/// Reads a script. Errors name the line.
pub fn parse(text: &str) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    let mut cut = None;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let step = parse_step(line).with_context(|| format!("line {number}: `{line}`"))?;
        if let Some(cut) = cut.filter(|_| !matches!(step, Step::Boot(_) | Step::Absent(_) | Step::Disk(..))) {
            bail!("line {number}: `{line}` needs a running machine: after `power-cut` in line {cut} comes `boot`");
        }
        match step {
            Step::PowerCut => cut = Some(number),
            Step::Boot(_) => cut = None,
            _ => {}
        }
        lines.push(Line { number, step });
    }
    if let Some(cut) = cut {
        bail!("line {cut}: after `power-cut` comes `boot`; to end a script without the guest, use `quit`");
    }
    Ok(lines)
}

fn parse_step(line: &str) -> Result<Step> {
    let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let mut rest = rest.trim();
    let mut text = || -> Result<Vec<u8>> {
        let (bytes, left) = quoted(rest)?;
        rest = left.trim_start();
        Ok(bytes)
    };
    let step = match verb {
        "expect" => Step::Expect(plain(text()?)?),
        "expect-regex" => Step::Expect(regex(text()?)?),
        "absent" => Step::Absent(plain(text()?)?),
        "absent-regex" => Step::Absent(regex(text()?)?),
        "log" => Step::Log(plain(text()?)?),
        "log-regex" => Step::Log(regex(text()?)?),
        "send" => {
            let bytes = text()?;
            let times: usize = match core::mem::take(&mut rest) {
                "" => 1,
                times => times.parse().context("the number of repetitions must follow the text")?,
            };
            Step::Send(bytes.repeat(times))
        }
        "line" => {
            let mut bytes = text()?;
            bytes.push(b'\r');
            Step::Send(bytes)
        }
        "line-seen" => Step::SendSeen(group(text()?)?),
        "client" => Step::Client(ClientStep::Expect(plain(text()?)?)),
        "client-regex" => Step::Client(ClientStep::Expect(regex(text()?)?)),
        "client-absent" => Step::Client(ClientStep::Absent(plain(text()?)?)),
        "editor" => {
            let mut text = || String::from_utf8(text()?).context("the text is not UTF-8");
            let (steps, user, passphrase) = (text()?.into(), text()?, text()?);
            Step::Client(ClientStep::Editor(Editor { steps, user, passphrase }))
        }
        "client-line" => {
            let line = String::from_utf8(text()?).context("the line is not UTF-8")?;
            let seen = if line.contains(SEEN) { Some(group(text()?)?) } else { None };
            Step::Client(ClientStep::Line(line, seen))
        }
        "key" => return Ok(Step::Send(key(rest)?)),
        "corrupt" => {
            let path = String::from_utf8(text()?).context("the path is not UTF-8")?;
            let offset = rest.parse().context("an offset in bytes must follow the path")?;
            return Ok(Step::Corrupt(path.into(), offset));
        }
        "disk" => {
            let words: Vec<&str> = rest.split_whitespace().collect();
            let (name, change) = words.split_first().context("the disk's name is missing")?;
            return Ok(Step::Disk((*name).to_owned(), disk_step::parse(change)?));
        }
        "kills" => {
            let words: Vec<&str> = rest.split_whitespace().collect();
            let number = |word: &str| word.parse::<u64>().with_context(|| format!("`{word}` is no number"));
            let [disk, count, seed] = words.as_slice() else { bail!("expected a disk's name, a number and a seed") };
            return Ok(Step::Kills((*disk).to_owned(), number(count)?, number(seed)?));
        }
        "eject" => Step::Eject,
        "power-cut" => Step::PowerCut,
        "boot" => {
            return match rest {
                "" => Ok(Step::Boot(Image::This)),
                "next" => Ok(Step::Boot(Image::Next)),
                _ => bail!("after `boot` comes nothing, or `next`"),
            };
        }
        "quit" => Step::Quit,
        _ => bail!("there is no step `{verb}`"),
    };
    ensure!(rest.is_empty(), "`{rest}` follows the end of the step");
    Ok(step)
}

fn plain(bytes: Vec<u8>) -> Result<Pattern> {
    ensure!(!bytes.is_empty(), "an empty text is always there");
    Ok(Pattern::Text(String::from_utf8(bytes).context("the text is not UTF-8")?))
}

/// An expression with one group.
fn group(bytes: Vec<u8>) -> Result<Regex> {
    let Pattern::Regex(found) = regex(bytes)? else { bail!("it is no expression") };
    ensure!(found.captures_len() == 2, "the expression needs one group, which is what is typed");
    Ok(found)
}

fn regex(bytes: Vec<u8>) -> Result<Pattern> {
    let text = String::from_utf8(bytes).context("the expression is not UTF-8")?;
    let regex = Regex::new(&text).with_context(|| format!("`{text}` is not a regular expression"))?;
    ensure!(!regex.is_match(""), "`{text}` matches nothing at all, so it is always there");
    Ok(Pattern::Regex(regex))
}

/// The bytes of a quoted text at the start of `text`, and the rest.
fn quoted(text: &str) -> Result<(Vec<u8>, &str)> {
    let mut rest = text.strip_prefix('"').context("expected a text in double quotes")?.chars();
    let mut bytes = Vec::new();
    let mut buffer = [0; 4];
    loop {
        match rest.next().context("the closing quote is missing")? {
            '"' => return Ok((bytes, rest.as_str())),
            '\\' => {
                let escape = rest.next().context("the closing quote is missing")?;
                match escape {
                    'n' => bytes.push(b'\n'),
                    'r' => bytes.push(b'\r'),
                    't' => bytes.push(b'\t'),
                    'e' => bytes.push(0x1b),
                    '\\' | '"' => bytes.push(escape as u8),
                    'x' => {
                        let digits: String = rest.by_ref().take(2).collect();
                        let byte = u8::from_str_radix(&digits, 16);
                        bytes.push(byte.with_context(|| format!("`\\x{digits}`: expected two hexadecimal digits"))?);
                    }
                    // In expressions the backslash is the expression's own.
                    other => {
                        bytes.push(b'\\');
                        bytes.extend_from_slice(other.encode_utf8(&mut buffer).as_bytes());
                    }
                }
            }
            other => bytes.extend_from_slice(other.encode_utf8(&mut buffer).as_bytes()),
        }
    }
}

/// The bytes a key sends, as a VT100 does.
fn key(name: &str) -> Result<Vec<u8>> {
    let bytes: &[u8] = match name {
        "enter" => b"\r",
        "tab" => b"\t",
        "escape" => b"\x1b",
        "space" => b" ",
        "backspace" => b"\x7f",
        "up" => b"\x1b[A",
        "down" => b"\x1b[B",
        "right" => b"\x1b[C",
        "left" => b"\x1b[D",
        "home" => b"\x1b[H",
        "end" => b"\x1b[F",
        "delete" => b"\x1b[3~",
        "page-up" => b"\x1b[5~",
        "page-down" => b"\x1b[6~",
        _ => {
            let letter = name.strip_prefix("ctrl-").map(str::as_bytes);
            let Some(&[letter @ (b'a'..=b'z' | b'[' | b'\\' | b']' | b'_')]) = letter else {
                bail!("there is no key `{name}`");
            };
            return Ok(vec![letter & 0x1f]);
        }
    };
    Ok(bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(line: &str) -> Vec<u8> {
        match parse_step(line).unwrap() {
            Step::Send(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn steps_of_every_kind() {
        let script = "# a comment\n\nexpect \"capos> \"\nexpect-regex \"id=[0-9]+\"\nabsent \"secret\"\nline \"hi\"\n\
                      key ctrl-c\ncorrupt \"/boot/models/m.gguf\" 4096\nquit\n";
        let lines = parse(script).unwrap();
        let numbers: Vec<_> = lines.iter().map(|line| line.number).collect();
        assert_eq!(numbers, [3, 4, 5, 6, 7, 8, 9]);
        assert!(matches!(&lines[0].step, Step::Expect(Pattern::Text(text)) if text == "capos> "));
        assert!(matches!(&lines[5].step, Step::Corrupt(path, 4096) if path.ends_with("m.gguf")));
    }

    #[test]
    fn texts_and_keys_become_bytes() {
        assert_eq!(sent(r#"send "a\"\\\x1b[A\n\te\e""#), b"a\"\\\x1b[A\n\te\x1b");
        assert_eq!(sent("line \"\u{e9}\""), "\u{e9}\r".as_bytes());
        assert_eq!(sent("send \"\u{436}\" 3"), "\u{436}\u{436}\u{436}".as_bytes());
        assert_eq!(sent("key ctrl-d"), [4]);
        assert_eq!(sent("key ctrl-]"), [0x1d]);
        assert_eq!(sent("key up"), b"\x1b[A");
    }

    #[test]
    fn an_expression_keeps_its_backslashes() {
        let Step::Expect(pattern) = parse_step(r#"expect-regex "\d+\.5""#).unwrap() else { panic!() };
        assert_eq!(pattern.end_in("x 12.5"), Some(6));
        assert_eq!(pattern.end_in("x 12x5"), None);
        assert_eq!(pattern.line_in("a\nx 12.5 y\nb"), Some("x 12.5 y"));
        assert_eq!(pattern.line_in("12.5"), Some("12.5"));
        assert_eq!(pattern.line_in("a\nb"), None);
    }

    #[test]
    fn what_was_seen_last_is_typed() {
        let Step::SendSeen(code) = parse_step(r#"line-seen "code: ([a-z]+)""#).unwrap() else { panic!() };
        assert_eq!(last_seen(&code, "code: ab\ncode: cd\nab"), Some("cd"));
        assert_eq!(last_seen(&code, "no such"), None);
    }

    #[test]
    fn a_client_has_steps_of_its_own() {
        let steps = "client \"x\"\nclient-regex \"x+y\"\nclient-absent \"z\"\nclient-line \"{}\"\n\
                     client-line \"{\\\"id\\\":\\\"SEEN\\\"}\" \"id=([a-z]+)\"\n";
        let steps = parse(steps).unwrap();
        assert!(matches!(&steps[0].step, Step::Client(ClientStep::Expect(Pattern::Text(text))) if text == "x"));
        assert!(matches!(&steps[3].step, Step::Client(ClientStep::Line(line, None)) if line == "{}"));
        let Step::Client(ClientStep::Line(line, Some(seen))) = &steps[4].step else { panic!() };
        assert_eq!((line.as_str(), last_seen(seen, "id=ab")), ("{\"id\":\"SEEN\"}", Some("ab")));
        assert!(parse("client-line \"SEEN\"\n").is_err());
        let steps = parse("editor \"steps.json\" \"ada\" \"correct horse\"\n").unwrap();
        let Step::Client(ClientStep::Editor(editor)) = &steps[0].step else { panic!() };
        let Editor { steps, user, passphrase } = editor;
        assert_eq!((steps.to_str(), user.as_str(), passphrase.as_str()), (Some("steps.json"), "ada", "correct horse"));
        assert!(parse("editor \"steps.json\"\n").is_err());
    }

    #[test]
    fn a_machine_that_was_cut_is_booted_before_anything_else() {
        let lines = parse("boot\npower-cut\nabsent \"x\"\nboot\nquit\n").unwrap();
        assert!(matches!(lines[1].step, Step::PowerCut) && matches!(lines[3].step, Step::Boot(Image::This)));
        assert!(matches!(parse("boot next\n").unwrap()[0].step, Step::Boot(Image::Next)));
        for (script, part) in [("power-cut\nline \"x\"\n", "line 2"), ("quit\npower-cut\n", "line 2: after")] {
            let error = format!("{:#}", parse(script).unwrap_err());
            assert!(error.contains(part) && error.contains("`boot`"), "{error}");
        }
    }

    #[test]
    fn mistakes_name_their_line() {
        for (line, part) in [
            ("expect", "double quotes"),
            ("expect \"a", "closing quote"),
            ("expect \"\"", "always there"),
            ("expect-regex \"x*\"", "always there"),
            ("expect \"a\" b", "follows the end of the step"),
            ("send \"\\xq0\"", "hexadecimal"),
            ("send \"a\" often", "number of repetitions"),
            ("line-seen \"x\"", "needs one group"),
            ("key ctrl-1", "no key"),
            ("wait 5", "no step"),
            ("boot newer", "or `next`"),
            ("corrupt \"/x\"", "offset"),
        ] {
            let error = format!("{:#}", parse(&format!("# one\n{line}")).unwrap_err());
            assert!(error.contains("line 2") && error.contains(part), "{line}: {error}");
        }
    }
}
