//! The whole numbers that a conversation says, in digits or words, and the times that it says, in seconds.
//!
//! A small model copies a number badly and calculates worse: it made 240 seconds of "the last 24 hours". So the whole
//! numbers in its calls are among those of the conversation. All this is about plain English forms.

use std::collections::BTreeSet;

/// How names of parameters end that are seconds, in small letters.
const SECONDS: &str = "seconds";
/// What of these are not. What they are is not read from the conversation.
const PARTS_OF_SECONDS: [&str; 4] = ["milliseconds", "microseconds", "nanoseconds", "ms"];

/// Words for one unit of time, those for several, and its seconds.
const UNITS: [(&[&str], &[&str], u64); 7] = [
    (&["second", "sec", "s"], &["seconds", "secs"], 1),
    (&["minute", "min", "m"], &["minutes", "mins"], 60),
    (&["hour", "hr", "h"], &["hours", "hrs"], 3_600),
    (&["day", "d"], &["days"], 86_400),
    (&["week", "wk", "w"], &["weeks", "wks"], 604_800),
    (&["fortnight"], &["fortnights"], 1_209_600),
    (&["month"], &["months"], 2_592_000),
];
/// Words that say a time alone.
const TIMES: [(&str, u64); 3] = [("today", 86_400), ("yesterday", 86_400), ("yesterday", 172_800)];
/// Words for multiples, as of bytes: those of 1,024 and those of 1,000.
const MULTIPLES: [(&[&str], u64); 4] = [
    (&["k", "kb", "kib", "kilobyte", "kilobytes", "kibibyte", "kibibytes"], 1 << 10),
    (&["m", "mb", "mib", "megabyte", "megabytes", "mebibyte", "mebibytes"], 1 << 20),
    (&["k", "kb", "kilobyte", "kilobytes", "thousand"], 1_000),
    (&["mb", "megabyte", "megabytes", "million"], 1_000_000),
];
const WORDS: [(&str, u64); 31] = [
    ("zero", 0),
    ("one", 1),
    ("two", 2),
    ("three", 3),
    ("four", 4),
    ("five", 5),
    ("six", 6),
    ("seven", 7),
    ("eight", 8),
    ("nine", 9),
    ("ten", 10),
    ("eleven", 11),
    ("twelve", 12),
    ("thirteen", 13),
    ("fourteen", 14),
    ("fifteen", 15),
    ("sixteen", 16),
    ("seventeen", 17),
    ("eighteen", 18),
    ("nineteen", 19),
    ("twenty", 20),
    ("thirty", 30),
    ("forty", 40),
    ("fifty", 50),
    ("sixty", 60),
    ("seventy", 70),
    ("eighty", 80),
    ("ninety", 90),
    ("hundred", 100),
    ("couple", 2),
    ("dozen", 12),
];
/// What stands between a number and its unit and changes neither: "half an hour", "a couple of hours".
const BETWEEN: [&str; 4] = ["a", "an", "of", "the"];
/// A hundred, in hundredths.
const HUNDRED: u64 = 10_000;
/// Parts of one, as hundredths.
const PARTS: [(&str, u64); 2] = [("half", 50), ("quarter", 25)];
/// What joins them to a number, or two times to one.
const AND: &str = "and";

/// The numbers of a conversation, as JSON writes them.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// Those that are no time.
    counts: BTreeSet<String>,
    seconds: BTreeSet<String>,
}

impl Numbers {
    /// Those of these texts.
    pub fn said(texts: &[String]) -> Self {
        let mut numbers = Self::default();
        texts.iter().for_each(|text| numbers.read(&words(text)));
        numbers
    }

    /// Those that a parameter of this name can be; none if the conversation does not decide about it.
    pub fn of(&self, parameter: &str) -> Option<&BTreeSet<String>> {
        let name = parameter.to_ascii_lowercase();
        match name {
            name if PARTS_OF_SECONDS.iter().any(|part| name.ends_with(part)) => None,
            name if name.ends_with(SECONDS) => Some(&self.seconds),
            _ => Some(&self.counts),
        }
    }

    fn read(&mut self, words: &[Word]) {
        let mut at = 0;
        // A time that ended with the word before, in hundredths of a second.
        let mut before: Option<u64> = None;
        while let Some(word) = words.get(at) {
            let (taken, time) = match time_at(words.get(at..).unwrap_or_default()) {
                Some((taken, time)) => (taken, Some(time)),
                None => (1, None),
            };
            at = at.saturating_add(taken);
            if let Some(time) = time {
                self.add_time(time);
                // "1 hour 30 minutes", "1 h and 30 min"
                if let Some(sum) = before.and_then(|before| before.checked_add(time)) {
                    self.add_time(sum);
                }
                before = Some(time);
                continue;
            }
            before = before.filter(|_| word.is(AND));
            let alone = TIMES.iter().filter(|(name, _)| word.is(name));
            self.seconds.extend(alone.map(|(_, seconds)| seconds.to_string()));
            let Some(number) = word.number() else { continue };
            self.counts.insert(number.to_string());
            if word.is_negative {
                self.counts.insert(format!("-{number}"));
            }
            let unit = words.get(at);
            let multiples = MULTIPLES.iter().filter(|(names, _)| unit.is_some_and(|unit| unit.is_any(names)));
            let products = multiples.filter_map(|(_, multiple)| number.checked_mul(*multiple));
            self.counts.extend(products.map(|product| product.to_string()));
        }
    }

    /// Adds whole seconds of a time in hundredths of a second.
    fn add_time(&mut self, hundredths: u64) {
        self.seconds.insert(hundredths.div_euclid(100).to_string());
    }
}

/// The time that these words begin with: how many of them say it, and hundredths of a second.
fn time_at(words: &[Word]) -> Option<(usize, u64)> {
    let hundredths = |word: &Word| {
        let part = PARTS.iter().find(|(name, _)| word.is(name)).map(|(_, part)| *part);
        part.or(word.hundredths)
    };
    let first = words.first()?;
    let (mut taken, mut amount) = match hundredths(first) {
        Some(amount) => (1_usize, amount),
        // "the last hour"
        None => (0, 100),
    };
    let is_said = taken > 0;
    let and_a_half = |at: usize| {
        let end = at.checked_add(3)?;
        let [and, article, part] = words.get(at..end)? else { return None };
        let part = PARTS.iter().find(|(name, _)| part.is(name))?;
        (and.is(AND) && article.is("a")).then_some((end, part.1))
    };
    // "two and a half hours"
    if is_said && let Some((end, more)) = and_a_half(taken) {
        (taken, amount) = (end, amount.checked_add(more)?);
    }
    while is_said && words.get(taken).is_some_and(|word| word.is_any(&BETWEEN)) {
        taken = taken.checked_add(1)?;
    }
    let unit = words.get(taken)?;
    let found = UNITS.iter().find(|(one, several, _)| {
        // "m" alone is no minute, "15m" is.
        let one = one.iter().any(|name| unit.is(name) && (is_said || name.len() > 2));
        one || is_said && unit.is_any(several)
    });
    let (_, _, seconds) = found?;
    taken = taken.checked_add(1)?;
    // "an hour and a half"
    if let Some((end, more)) = and_a_half(taken) {
        (taken, amount) = (end, amount.checked_add(more)?);
    }
    Some((taken, amount.checked_mul(*seconds)?))
}

/// A run of letters, or of digits.
#[derive(Debug)]
struct Word {
    /// In small letters.
    text: String,
    /// A hundred times the number that it is.
    hundredths: Option<u64>,
    /// Whether a minus stands before it.
    is_negative: bool,
}

impl Word {
    fn is(&self, text: &str) -> bool {
        self.text == text
    }

    fn is_any(&self, texts: &[&str]) -> bool {
        texts.contains(&self.text.as_str())
    }

    /// The whole number that it is.
    fn number(&self) -> Option<u64> {
        let hundredths = self.hundredths?;
        (hundredths.checked_rem(100) == Some(0)).then_some(hundredths.div_euclid(100))
    }
}

/// The words of a text. A number has no zeros before it and at most two digits after the point; what looks like a number
/// with more points, such as an address, is several.
fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut rest = text;
    let mut before = ' ';
    let mut signed = false;
    while let Some(first) = rest.chars().next() {
        let same = |character: char| match first {
            first if first.is_ascii_digit() => character.is_ascii_digit() || matches!(character, '.' | ','),
            first if first.is_alphabetic() => character.is_alphabetic(),
            _ => false,
        };
        let end = rest.find(|character| !same(character)).unwrap_or(rest.len()).max(first.len_utf8());
        let (run, behind) = rest.split_at(end);
        rest = behind;
        if first.is_ascii_digit() {
            numbers(run, signed, &mut words);
        } else if first.is_alphabetic() {
            add_word(run.to_lowercase(), &mut words);
        }
        signed = first == '-' && before.is_whitespace();
        before = run.chars().next_back().unwrap_or(' ');
    }
    words
}

/// Adds a word of letters; of one that continues a number, the whole number: "twenty-five", "two hundred".
fn add_word(text: String, words: &mut Vec<Word>) {
    let number = WORDS.iter().find(|(name, _)| text == *name).and_then(|(_, number)| number.checked_mul(100));
    let last = words.pop_if(|last| last.text.starts_with(char::is_alphabetic) && last.hundredths.is_some());
    let hundredths = match (last.as_ref().and_then(|last| last.hundredths), number) {
        (Some(tens @ 2_000..=9_000), Some(one @ 100..=900)) => tens.checked_add(one),
        (Some(several @ 100..=900), Some(HUNDRED)) => several.checked_mul(100),
        _ => {
            words.extend(last);
            number
        }
    };
    words.push(Word { text, hundredths, is_negative: false });
}

/// The numbers of a run of digits, points and commas.
fn numbers(run: &str, is_negative: bool, words: &mut Vec<Word>) {
    let run = run.trim_end_matches(['.', ',']);
    let mut add = |digits: &str| {
        let hundredths = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(100));
        words.push(Word { text: digits.into(), hundredths, is_negative });
    };
    let groups: Vec<&str> = run.split(',').collect();
    // "4,096"
    let is_grouped = groups.iter().skip(1).all(|group| group.len() == 3) && !run.contains('.');
    if groups.len() > 1 && is_grouped {
        add(&groups.concat());
    }
    match run.split_once('.') {
        Some((whole, part)) if matches!(part.len(), 1 | 2) && whole.parse::<u64>().is_ok() => {
            let hundredths = format!("{whole}{part:0<2}").parse().ok();
            words.push(Word { text: run.into(), hundredths, is_negative });
        }
        _ => run.split(['.', ',']).filter(|_| !(groups.len() > 1 && is_grouped)).for_each(add),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, parameter: &str) -> Vec<String> {
        let numbers = Numbers::said(&[text.into()]);
        numbers.of(parameter).unwrap().iter().cloned().collect()
    }

    #[test]
    fn times_are_seconds() {
        for (text, seconds) in [
            ("errors of the last 24 hours", &["86400"][..]),
            ("the past hour", &["3600"]),
            ("what happened in the last fifteen minutes?", &["900"]),
            ("half an hour ago", &["1800"]),
            ("a quarter of an hour", &["900"]),
            ("two and a half hours", &["9000"]),
            ("an hour and a half", &["5400"]),
            ("1.5 hours", &["5400"]),
            ("last 2h", &["7200"]),
            ("journalctl -S -10m", &["600"]),
            ("1h 30m", &["1800", "3600", "5400"]),
            ("90 s", &["90"]),
            ("a couple of days", &["172800"]),
            ("since yesterday", &["172800", "86400"]),
            ("ten files for hours", &[]),
            ("mail m and s", &[]),
        ] {
            assert_eq!(of(text, "lastSeconds"), seconds, "{text}");
        }
    }

    #[test]
    fn other_numbers_are_no_times() {
        for (text, counts) in [
            ("the last ten entries of the last 2 hours", &["10"][..]),
            ("tail -50 of it", &["-50", "50"]),
            ("4 KiB from byte 32768 on", &["32768", "4", "4096"]),
            ("4,096 bytes", &["4096"]),
            ("1, 2 and 3.", &["1", "2", "3"]),
            ("run-0417 at 10.20.0.1", &["0", "1", "10", "20", "417"]),
            ("99999999999999999999999", &[]),
            ("twenty-five or two hundred, thirty", &["200", "25", "30"]),
            ("nothing", &[]),
        ] {
            assert_eq!(of(text, "max"), counts, "{text}");
        }
        assert!(Numbers::default().of("timeoutMs").is_none());
    }
}
