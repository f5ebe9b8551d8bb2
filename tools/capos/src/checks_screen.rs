//! What may reach a person's screen: text, and the few control sequences that the terminal service makes itself.

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

/// What the terminal service writes first. Before it the firmware and the boot loader have the screen.
const START: &[u8] = b"\x1b[?2004h";

/// Notes each control sequence and control character in the terminal's bytes that is none of the terminal service's own.
pub fn check(raw: &[u8], failures: &mut Vec<String>) {
    let Some(start) = raw.windows(START.len()).position(|part| part == START) else { return };
    let text = String::from_utf8_lossy(raw.get(start..).unwrap_or_default());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\r' | '\n' | '\u{7}' => {}
            '\u{1b}' => {
                let rest = letters.as_str();
                let sequence = sequence(rest);
                if !is_own(sequence) {
                    failures.push(format!("the control sequence ESC {sequence:?} reached the screen"));
                }
                letters = rest.get(sequence.len()..).unwrap_or_default().chars();
            }
            _ if letter.is_control() => failures.push(format!("the control character {letter:?} reached the screen")),
            _ => {}
        }
    }
}

/// What belongs to an escape sequence at the beginning of a text.
fn sequence(text: &str) -> &str {
    let end = match text.chars().next() {
        Some('[') => text.char_indices().skip(1).find(|(_, letter)| ('@'..='~').contains(letter)).map(|(at, _)| at + 1),
        Some(first) => Some(first.len_utf8()),
        None => None,
    };
    text.get(..end.unwrap_or(text.len())).unwrap_or(text)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut failures = Vec::new();
        check(text.as_bytes(), &mut failures);
        failures
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
