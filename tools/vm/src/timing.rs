//! When what is on a terminal appeared there.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use regex_lite::Regex;
use serde::Deserialize;

use crate::expect::Stripper;

/// The file of the times: a line for each piece of `terminal.raw`, with the seconds since the piece before and its bytes, as
/// `scriptreplay` reads it.
pub const FILE: &str = "terminal.timing";

/// A piece of a terminal's output: its time since the machine was started, and its bytes.
pub type Piece = (Duration, usize);

/// Texts that must have appeared piece by piece. Each is a regular expression, which is found after the one before, and
/// counts from when the last letter that it matches was there.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// The text before that, such as what a person typed.
    pub after: String,
    /// The first of the text that appeared then.
    pub begins: String,
    /// Its last part.
    pub ends: String,
    /// Of the time from `after` to `ends`, at least this percentage passed between `begins` and `ends`. It is a share,
    /// so that it does not depend on how fast the host is.
    pub share: u32,
}

/// The content of [`FILE`].
pub fn lines(pieces: &[Piece]) -> String {
    let mut before = Duration::ZERO;
    let line = |&(time, bytes): &Piece| {
        let since = time.saturating_sub(before);
        before = time;
        format!("{}.{:06} {bytes}\n", since.as_secs(), since.subsec_micros())
    };
    pieces.iter().map(line).collect()
}

/// The pieces in such a file.
fn parse(text: &str) -> Option<Vec<Piece>> {
    let mut time = Duration::ZERO;
    let piece = |line: &str| {
        let (since, bytes) = line.split_once(' ')?;
        time += Duration::try_from_secs_f64(since.parse().ok()?).ok()?;
        Some((time, bytes.parse().ok()?))
    };
    text.lines().map(piece).collect()
}

/// The text that appeared on a terminal, with times.
struct Timed {
    text: String,
    /// Lengths of the text in bytes, each with the time at which the text reached it; both grow.
    reached: Vec<(usize, Duration)>,
}

impl Timed {
    fn of(raw: &[u8], pieces: &[Piece], mut stripper: Stripper) -> Self {
        let (mut timed, mut rest) = (Self { text: String::new(), reached: Vec::new() }, raw);
        for &(time, bytes) in pieces {
            let (piece, more) = rest.split_at(bytes.min(rest.len()));
            rest = more;
            for byte in piece.chunks(1) {
                stripper.feed(byte, &mut timed.text);
                // Erased text no longer counts.
                let length = timed.text.len();
                while timed.reached.pop_if(|(reached, _)| *reached > length).is_some() {}
                if timed.reached.last().is_none_or(|(reached, _)| *reached < length) {
                    timed.reached.push((length, time));
                }
            }
        }
        timed
    }

    /// A match from a place on: when it appeared, and where it ends.
    fn find(&self, wanted: &Regex, from: usize) -> Option<(Duration, usize)> {
        let end = from + wanted.find(self.text.get(from..)?)?.end();
        let time = self.reached.iter().find(|(reached, _)| *reached >= end).map(|(_, time)| *time);
        Some((time?, end))
    }
}

/// Adds a sentence to `failures` for each text that did not appear piece by piece. `raw` is the terminal's input.
pub fn check(timings: &[Timing], out: &Path, raw: &[u8], stripper: Stripper, failures: &mut Vec<String>) -> Result<()> {
    if timings.is_empty() {
        return Ok(());
    }
    let text = std::fs::read_to_string(out.join(FILE)).with_context(|| format!("reading {FILE}"))?;
    let pieces = parse(&text).with_context(|| format!("{FILE} has a line that is no time and length"))?;
    let timed = Timed::of(raw, &pieces, stripper);
    for timing in timings {
        if let Err(why) = timing.holds(&timed) {
            failures.push(why);
        }
    }
    Ok(())
}

impl Timing {
    fn holds(&self, timed: &Timed) -> Result<(), String> {
        let find = |wanted: &str, from: usize| {
            let regex =
                Regex::new(wanted).map_err(|error| format!("/{wanted}/ is not a regular expression: {error}"))?;
            timed
                .find(&regex, from)
                .ok_or_else(|| format!("transcript.txt: nothing matches /{wanted}/, whose time is asked for"))
        };
        let (after, place) = find(&self.after, 0)?;
        let (begins, place) = find(&self.begins, place)?;
        let (ends, _) = find(&self.ends, place)?;
        let (whole, part) = (ends.saturating_sub(after), ends.saturating_sub(begins));
        if part.as_nanos() * 100 >= whole.as_nanos() * u128::from(self.share) && !part.is_zero() {
            return Ok(());
        }
        Err(format!(
            "{FILE}: from /{}/ to /{}/ {} ms went by, of {} ms since /{}/: less than {} %, so it came at once",
            self.begins,
            self.ends,
            part.as_millis(),
            whole.as_millis(),
            self.after,
            self.share
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn c10_times_are_written_as_they_are_read() {
        let pieces = [(at(20), 5), (at(1020), 1), (at(1021), 300)];
        assert_eq!(lines(&pieces), "0.020000 5\n1.000000 1\n0.001000 300\n");
        let read = parse(&lines(&pieces)).unwrap();
        assert_eq!(
            read.iter().map(|(time, bytes)| (time.as_millis(), *bytes)).collect::<Vec<_>>(),
            [(20, 5), (1020, 1), (1021, 300)]
        );
        assert_eq!((parse(""), parse("1.0"), parse("x 1")), (Some(Vec::new()), None, None));
    }

    #[test]
    fn c10_what_came_at_once_is_told_from_what_came_bit_by_bit() {
        let whole = |pieces: &[(u64, &str)]| {
            let raw: String = pieces.iter().map(|(_, text)| *text).collect();
            let times: Vec<Piece> = pieces.iter().map(|(time, text)| (at(*time), text.len())).collect();
            let timing = Timing { after: "ask\n".into(), begins: "o".into(), ends: "three".into(), share: 20 };
            timing.holds(&Timed::of(raw.as_bytes(), &times, Stripper::default()))
        };
        assert_eq!(whole(&[(0, "ask\n"), (800, "one "), (900, "two"), (1000, " three")]), Ok(()));
        // The first letter counts, whatever comes with it, and erased text does not.
        assert_eq!(whole(&[(0, "ask\n"), (700, "x\u{8}o"), (990, "ne two"), (1000, " three")]), Ok(()));
        for at_once in [
            &[(0, "ask\n"), (1000, "one two three")][..],
            &[(0, "ask\n"), (900, "one two"), (1000, " three")],
            &[(0, "ask\n"), (700, "o"), (990, "\u{8}one two"), (1000, " three")],
        ] {
            let why = whole(at_once).unwrap_err();
            assert!(why.contains("of 1000 ms since") && why.contains("at once"), "{why}");
        }
        assert!(whole(&[(0, "ask\n"), (1, "one")]).unwrap_err().contains("nothing matches /three/"));
    }
}
