//! The permitted output on a person's screen: text, and the few control sequences of the terminal service itself.

use std::borrow::Cow;

/// Sequences that the terminal service makes, without their numbers: `#` stands for a number.
const OWN: [&str; 18] = [
    "[?2004h",
    "[?2004l",
    "7",
    "8",
    "[999;999H",
    "[6n",
    "[#A",
    "[#B",
    "[#C",
    "[J",
    "[H",
    "[2J",
    "[0m",
    "[1m",
    "[2m",
    "[1;#m",
    "[#m",
    "[K",
];

/// The shell's mark before the rest of a line that is too long for its row.
pub const ROW_MARK: &str = "\n  ┆ ";

/// The first output of the terminal service. Before it the firmware and the boot loader have the screen.
const START: &[u8] = b"\x1b[?2004h";

/// The line that QEMU prints on the terminal when a person ends it there. It may come at any point of the machine's own
/// output, also within one of the terminal service's sequences; the rest of that sequence may follow.
const ENDED: &[u8] = b"QEMU: Terminated";

/// Bytes that a machine still sends after that at most, which is what its serial port holds.
const STILL_SENT: usize = 64;

/// What the kernel says first.
const KERNEL: &str = "capOS kernel ";
/// Bytes of the longest sequence of the terminal service.
const LONGEST: usize = 16;

/// Where the terminal's bytes end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// If the machine ended by itself.
    Whole,
    /// Wherever they were when the machine was stopped, which can be within one of the terminal service's sequences.
    Cut,
    /// The same if a person stopped it in the terminal, with QEMU's word on that.
    Quit,
}

/// How often the terminal service died, as the system's log says.
pub fn deaths(log: &[u8]) -> usize {
    let died = |line: &&str| line.starts_with("process `terminal` (id ") && line.contains(") died: ");
    String::from_utf8_lossy(log).lines().filter(died).count()
}

/// Reports each control sequence and control character in the terminal's bytes that is not one of the terminal
/// service's own. `deaths` is how often the service died; each death may have cut off a sequence.
pub fn check(raw: &[u8], tail: Tail, mut deaths: usize, failures: &mut Vec<String>) {
    let Some(start) = raw.windows(START.len()).position(|part| part == START) else { return };
    let raw = raw.get(start..).unwrap_or_default();
    let raw = if tail == Tail::Quit { without_end(raw) } else { Cow::from(raw) };
    let text = String::from_utf8_lossy(&raw);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\r' | '\n' | '\u{7}' => {}
            '\u{1b}' => {
                let rest = letters.as_str();
                if let (Some(left), Some(restarted)) = (deaths.checked_sub(1), restarted(rest)) {
                    deaths = left;
                    letters = restarted.chars();
                    continue;
                }
                if let Some(booted) = booted(rest) {
                    letters = booted.chars();
                    continue;
                }
                let sequence = sequence(rest);
                let unfinished = tail != Tail::Whole && sequence.len() == rest.len() && begins_own(sequence);
                if !is_own(sequence) && !unfinished {
                    failures.push(format!("the control sequence ESC {sequence:?} reached the screen"));
                }
                letters = rest.get(sequence.len()..).unwrap_or_default().chars();
            }
            _ if letter.is_control() => failures.push(format!("the control character {letter:?} reached the screen")),
            _ => {}
        }
    }
}

/// The machine's own words, without QEMU's last one.
fn without_end(raw: &[u8]) -> Cow<'_, [u8]> {
    let last = raw.windows(ENDED.len()).rposition(|part| part == ENDED).and_then(|at| raw.split_at_checked(at));
    let Some((before, rest)) = last else { return Cow::from(raw) };
    let after = rest.get(ENDED.len()..).unwrap_or_default();
    let line_end = after.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    match after.get(line_end..) {
        Some(after) if after.len() <= STILL_SENT => Cow::from([before, after].concat()),
        _ => Cow::from(raw),
    }
}

/// The part of a text's beginning that belongs to an escape sequence.
fn sequence(text: &str) -> &str {
    let end = match text.chars().next() {
        Some('[') => text.char_indices().skip(1).find(|(_, letter)| ('@'..='~').contains(letter)).map(|(at, _)| at + 1),
        Some(first) => Some(first.len_utf8()),
        None => None,
    };
    text.get(..end.unwrap_or(text.len())).unwrap_or(text)
}

/// The output of a restarted terminal service after its predecessor was killed within one of its own sequences; `text`
/// is the rest of that sequence. The serial line takes a few bytes at a time, and every instance begins with the same
/// bytes. No sequence contains the byte that it begins with, so this searches up to the next such byte only.
fn restarted(text: &str) -> Option<&str> {
    let (cut, next) = text.split_at_checked(text.find('\u{1b}')?)?;
    let within = next.as_bytes().starts_with(START) && begins_own(cut) && !is_own(cut);
    within.then_some(next)
}

/// The output of the next start, after the power was cut within one of the terminal service's own sequences; `text` is the
/// rest of that sequence.
fn booted(text: &str) -> Option<&str> {
    let near = text.get(..text.floor_char_boundary(LONGEST.saturating_add(KERNEL.len())))?;
    let (cut, next) = text.split_at_checked(near.find(KERNEL)?)?;
    (begins_own(cut) && !is_own(cut)).then_some(next)
}

fn is_own(sequence: &str) -> bool {
    OWN.iter().any(|own| match own.split_once('#') {
        None => *own == sequence,
        Some((before, after)) => sequence
            .strip_prefix(before)
            .and_then(|rest| rest.strip_suffix(after))
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())),
    })
}

/// Whether an own sequence begins so.
fn begins_own(start: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|letter| letter.is_ascii_digit());
    OWN.iter().any(|own| match own.split_once('#') {
        None => own.starts_with(start),
        Some((before, _)) => before.starts_with(start) || start.strip_prefix(before).is_some_and(digits),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_after(text: &str, tail: Tail, deaths: usize) -> Vec<String> {
        let mut failures = Vec::new();
        check(text.as_bytes(), tail, deaths, &mut failures);
        failures
    }

    fn found_at(text: &str, tail: Tail) -> Vec<String> {
        found_after(text, tail, 0)
    }

    fn found(text: &str) -> Vec<String> {
        found_at(text, Tail::Whole)
    }

    #[test]
    fn a_power_cut_within_a_sequence_is_no_failure() {
        let start = std::str::from_utf8(START).unwrap();
        let found = |text: &str| {
            let mut failures = Vec::new();
            check(format!("{start}{text}").as_bytes(), Tail::Whole, 0, &mut failures);
            failures.len()
        };
        assert_eq!(found("\u{1b}[0capOS kernel 0.1.0"), 0);
        assert_eq!(found("\u{1b}[0c of another program"), 1);
        assert_eq!(found("\u{1b}]0;capOS kernel 0.1.0"), 1);
    }

    #[test]
    fn what_is_cut_may_end_within_an_own_sequence_and_no_other() {
        for start in ["", "[", "[?", "[?200", "[1", "[12", "[1;", "[1;3", "[999;9"] {
            let text = format!("\u{1b}[?2004hx\u{1b}{start}");
            assert!(found_at(&text, Tail::Cut).is_empty(), "{start:?}");
            assert!(!found(&text).is_empty(), "{start:?}");
        }
        for bad in ["[?1", "[>", "]", "[1;x", "[2;", "c", "[xA", "[5n"] {
            assert!(!found_at(&format!("\u{1b}[?2004hx\u{1b}{bad}"), Tail::Cut).is_empty(), "{bad:?}");
        }
        assert!(!found_at("\u{1b}[?2004h\u{1b}[\u{1b}[0m", Tail::Cut).is_empty());
    }

    #[test]
    fn qemus_own_last_words_may_be_within_a_sequence_of_a_persons_terminal() {
        let text = |start: &str, rest: &str| format!("\u{1b}[?2004hx{start}QEMU: Terminated\r\n\r{rest}");
        for (start, rest) in
            [("", ""), ("\u{1b}", ""), ("\u{1b}[", ""), ("\u{1b}[1;3", ""), ("\u{1b}[", "0mx"), ("a", "b")]
        {
            assert!(found_at(&text(start, rest), Tail::Quit).is_empty(), "{start:?} {rest:?}");
            for tail in [Tail::Cut, Tail::Whole] {
                assert_eq!(found_at(&text(start, rest), tail).is_empty(), !start.starts_with('\u{1b}'), "{start:?}");
            }
        }
        let long = format!("0m{}", "x".repeat(STILL_SENT));
        for (start, rest) in
            [("\u{1b}[?1", ""), ("\u{1b}[", "5n"), ("\u{1b}[5n", ""), ("", "\u{1b}c"), ("\u{1b}[", &long)]
        {
            assert!(!found_at(&text(start, rest), Tail::Quit).is_empty(), "{start:?} {rest:?}");
        }
        let mut split = text("", "").into_bytes();
        split.splice(9..9, [0xc2]);
        split.push(0x9b);
        let mut failures = Vec::new();
        check(&split, Tail::Quit, 0, &mut failures);
        assert_eq!(failures.len(), 1, "a control character that the words part");
    }

    #[test]
    fn a_terminal_that_is_killed_within_a_sequence_begins_anew() {
        let killed = |text: &str| found_after(text, Tail::Whole, 1);
        for start in ["", "[", "[?", "[?200", "[1", "[1;3", "[999;9"] {
            let cut = format!("\u{1b}[?2004hx\u{1b}{start}");
            assert!(killed(&format!("{cut}\u{1b}[?2004hy")).is_empty(), "{start:?}");
            assert!(!killed(&format!("{cut}\u{1b}[0my")).is_empty(), "{start:?}");
            assert!(!killed(&format!("{cut}\u{1b}[0m\u{1b}[?2004hy")).is_empty(), "{start:?}");
            // The service was not killed, or not as often.
            assert!(!found(&format!("{cut}\u{1b}[?2004hy")).is_empty(), "{start:?}");
            let twice = format!("{cut}\u{1b}[?2004hy\u{1b}{start}\u{1b}[?2004hz");
            assert!(!killed(&twice).is_empty() && found_after(&twice, Tail::Whole, 2).is_empty(), "{start:?}");
        }
        for bad in ["[?1", "[>", "]", "[2;", "c", "[5n", "[ ", "[x"] {
            assert!(!killed(&format!("\u{1b}[?2004hx\u{1b}{bad}\u{1b}[?2004hy")).is_empty(), "{bad:?}");
        }
    }

    #[test]
    fn the_kernels_words_say_how_often_the_terminal_died() {
        let log = "process `terminal` (id 9) died: killed by `init`: killed on request\n\
                   init: warning: service `terminal` is restarted: killed by `init`: killed on request\n\
                   log: home: process `terminal` (id 9) died: so it says\nprocess `home` (id 12) died: x\n\
                   process `terminal` (id 31) died: page fault\n";
        assert_eq!(deaths(log.as_bytes()), 2);
    }

    #[test]
    fn own_sequences_pass_and_others_do_not() {
        assert!(
            found(
                "\u{1b}]0;grub\u{7}\u{1b}[?2004h\u{1b}7\u{1b}[999;999H\u{1b}[6n\u{1b}8\u{1b}[1;36mcapOS\u{1b}[0m\r\n"
            )
            .is_empty()
        );
        assert!(found("\u{1b}[?2004h\r\u{1b}[J\u{1b}[12A\u{1b}[3C\u{e9}\u{1b}[H\u{1b}[2J").is_empty());
        for bad in [
            "\u{1b}]0;title\u{7}",
            "\u{1b}[?1049h",
            "\u{1b}c",
            "\u{1b}[2;3H",
            "\u{8}",
            "\u{9b}2J",
            "\u{1b}[5n",
            "\u{1b}",
            "\u{1b}[xA",
            "\u{1b}P",
            "\u{1b}[38;5;1m",
            "\t",
        ] {
            assert!(!found(&format!("\u{1b}[?2004hx{bad}")).is_empty(), "{bad:?}");
        }
    }
}
