//! The whole numbers that a conversation says, in digits or words, and the times that it says, in seconds.
//!
//! A small model copies a number badly and calculates worse: it made 240 seconds of "the last 24 hours". So the whole
//! numbers in its calls are among those of the conversation. If a text can be read in several ways, all of them count. All
//! this is about plain English forms.

use std::collections::BTreeSet;

/// How names of parameters end that take times in seconds.
const SECONDS: [&str; 2] = ["Seconds", "seconds"];
/// How names of parameters end that take times in other units. Nothing is said about these.
const OTHER_UNITS: [&str; 18] = [
    "Milliseconds",
    "milliseconds",
    "Microseconds",
    "microseconds",
    "Nanoseconds",
    "nanoseconds",
    "Ms",
    "_ms",
    "Minutes",
    "minutes",
    "Hours",
    "hours",
    "Days",
    "days",
    "Weeks",
    "weeks",
    "Duration",
    "duration",
];

/// A unit of time: words for one and for several of it, with what is written behind digits, and its seconds.
const UNITS: [(&[&str], &[&str], u64); 8] = [
    (&["second", "sec"], &["seconds", "secs", "s"], 1),
    (&["minute", "min"], &["minutes", "mins", "m"], 60),
    (&["hour", "hr"], &["hours", "hrs", "h"], 3_600),
    (&["day"], &["days", "d"], 86_400),
    (&["week", "wk"], &["weeks", "wks", "w"], 604_800),
    (&["fortnight"], &["fortnights"], 1_209_600),
    (&["month"], &["months"], 2_592_000),
    (&["year"], &["years"], 31_536_000),
];
/// What makes one of a unit without a number: "the past hour".
const ONE_OF: [&str; 11] = ["last", "past", "a", "an", "one", "this", "that", "per", "previous", "full", "whole"];
/// Units that alone are also something else: "the second file", "max and min".
const NOT_ALONE: [&str; 3] = ["second", "sec", "min"];
/// Words that say a time, in seconds.
const TIMES: [(&str, u64); 3] = [("today", 86_400), ("yesterday", 86_400), ("yesterday", 172_800)];
/// Words for multiples of bytes and of numbers.
const MULTIPLES: [(&[&str], u64); 6] = [
    (&["k", "kb", "kib", "kilobyte", "kilobytes", "kibibyte", "kibibytes"], 1 << 10),
    (&["m", "mb", "mib", "megabyte", "megabytes", "mebibyte", "mebibytes"], 1 << 20),
    (&["k", "kb", "kilobyte", "kilobytes", "thousand"], 1_000),
    (&["m", "mb", "megabyte", "megabytes", "million"], 1_000_000),
    (&["g", "gb", "gib", "gigabyte", "gigabytes", "gibibyte", "gibibytes"], 1 << 30),
    (&["g", "gb", "gigabyte", "gigabytes"], 1_000_000_000),
];
/// Numbers that are one word.
const WORDS: [(&str, u64); 29] = [
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
    ("couple", 2),
];
/// Words that multiply the number before them.
const TIMES_WORDS: [(&str, u64); 3] = [("dozen", 12), ("hundred", 100), ("thousand", 1_000)];
/// Words that can mean the one that is named: "the latest entry".
const SINGLE: [&str; 6] = ["last", "latest", "newest", "final", "single", "recent"];
/// Parts of one, as hundredths.
const PARTS: [(&str, u64); 3] = [("half", 50), ("quarter", 25), ("quarters", 25)];
/// What stands between these and a unit: "half an hour", "a couple of hours".
const BEHIND_PART: [&str; 4] = ["a", "an", "of", "the"];
const COUPLE: &str = "couple";
/// What stands between other numbers and a unit: "ten more minutes".
const BEHIND_NUMBER: [&str; 5] = ["more", "full", "whole", "long", "entire"];
/// From how many on seconds are no `s` behind digits: "the 1990s".
const YEARS: u64 = 1_000;
/// What joins a part to a number, and two numbers or times to one.
const AND: &str = "and";
/// Characters of a number at most: longer ones cannot be written in a call.
const LONGEST: usize = 16;

/// Characters of a number, so that it means the same to every reader.
const NUMBER_CHARACTERS: usize = 16;

/// The numbers of a conversation, as JSON writes them.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// Those that are no time.
    counts: BTreeSet<String>,
    seconds: BTreeSet<String>,
}

impl Numbers {
    /// Those of these texts.
    pub fn said<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        let mut numbers = Self::default();
        texts.into_iter().for_each(|text| numbers.read(&words(text)));
        numbers
    }

    /// Those that a parameter of this name can be. `None` if it can be any.
    pub fn of(&self, parameter: &str) -> Option<&BTreeSet<String>> {
        let ends = |endings: &[&str]| endings.iter().any(|ending| parameter.ends_with(ending));
        if ends(&OTHER_UNITS) {
            None
        } else if ends(&SECONDS) {
            Some(&self.seconds)
        } else {
            Some(&self.counts)
        }
    }

    fn read(&mut self, words: &[Word]) {
        let mut at = 0_usize;
        // A time that ended with the word before, in hundredths of a second.
        let mut before: Option<u64> = None;
        while let Some(word) = words.get(at) {
            let previous = at.checked_sub(1).and_then(|at| words.get(at));
            let rest = words.get(at..).unwrap_or_default();
            if let Some((taken, time)) = time_at(previous, rest) {
                self.add_time(time);
                // "1 hour 30 minutes", "1 h and 30 min"
                let sum = before.and_then(|before| before.checked_add(time));
                sum.into_iter().for_each(|sum| self.add_time(sum));
                before = Some(sum.unwrap_or(time));
                // "The first 2M of it" means no minutes, and "the last 10 whole days" may mean ten.
                if rest.get(1).is_some_and(|unit| unit.is_letter() || unit.is_any(&BEHIND_NUMBER)) {
                    self.read_number(rest);
                }
                at = at.saturating_add(taken);
                continue;
            }
            before = before.filter(|_| word.is(AND));
            let alone = TIMES.iter().filter(|(name, _)| word.is(name));
            self.seconds.extend(alone.map(|(_, seconds)| seconds.to_string()));
            let is_counted = rest.get(1..).is_some_and(|rest| number_at(rest).is_some());
            if word.is_any(&SINGLE) && !is_counted {
                self.add(1);
            }
            at = at.saturating_add(self.read_number(rest).max(1));
        }
    }

    /// Adds the number that these words begin with, and how many of them say it.
    fn read_number(&mut self, words: &[Word]) -> usize {
        let Some((taken, hundredths)) = number_at(words) else { return 0 };
        // "Two or three", "twenty one": each of them, too.
        words.iter().take(taken).filter_map(Word::number).for_each(|number| self.add(number));
        if let Some(number) = whole(hundredths) {
            self.add(number);
            if words.first().is_some_and(|word| word.is_negative) && number > 0 {
                self.insert(format!("-{number}"));
            }
        }
        let unit = words.get(taken);
        let multiples = MULTIPLES.iter().filter(|(names, _)| unit.is_some_and(|unit| unit.is_any(names)));
        let products = multiples.filter_map(|(_, multiple)| whole(hundredths.checked_mul(*multiple)?));
        products.for_each(|product| self.add(product));
        taken
    }

    fn add(&mut self, number: u64) {
        self.insert(number.to_string());
    }

    fn insert(&mut self, number: String) {
        if number.len() <= LONGEST {
            self.counts.insert(number);
        }
    }

    /// Adds the whole seconds of a time in hundredths of a second.
    fn add_time(&mut self, hundredths: u64) {
        let text = hundredths.div_euclid(100).to_string();
        if text.len() <= LONGEST {
            self.seconds.insert(text);
        }
    }
}

/// The number that hundredths are, if it is whole.
fn whole(hundredths: u64) -> Option<u64> {
    (hundredths.checked_rem(100) == Some(0)).then(|| hundredths.div_euclid(100))
}

/// The number that these words begin with: how many of them say it, and its hundredths.
fn number_at(words: &[Word]) -> Option<(usize, u64)> {
    let first = words.first()?;
    if let Some(hundredths) = first.hundredths {
        // "2 dozen"
        let multiple = words.get(1).and_then(Word::multiple);
        return Some(multiple.and_then(|times| Some((2, hundredths.checked_mul(times)?))).unwrap_or((1, hundredths)));
    }
    let (mut all, mut part, mut taken) = (0_u64, 0_u64, 0_usize);
    for (at, word) in words.iter().enumerate() {
        if at > 0 && word.is_apart {
            break;
        }
        if let Some(small) = word.small() {
            // "One two" is two numbers; "twenty-one" and "hundred five" are one.
            if part > 0 && !(part % 100 == 0 || part % 10 == 0 && part % 100 >= 20 && small < 10) {
                break;
            }
            part = part.checked_add(small)?;
        } else if let Some(times) = word.multiple() {
            part = part.max(1).checked_mul(times)?;
            if times == 1_000 {
                (all, part) = (all.checked_add(part)?, 0);
            }
        } else {
            // "A hundred and twenty"
            let joins =
                word.is(AND) && part >= 100 && words.get(at.checked_add(1)?).is_some_and(|next| next.small().is_some());
            if joins {
                continue;
            }
            break;
        }
        taken = at.checked_add(1)?;
    }
    (taken > 0).then_some((taken, all.checked_add(part)?.checked_mul(100)?))
}

/// The time that these words begin with: how many of them say it, and hundredths of a second. `previous` is the word before them.
fn time_at(previous: Option<&Word>, words: &[Word]) -> Option<(usize, u64)> {
    let part_at = |at: usize| {
        let word = words.get(at)?;
        PARTS.iter().find(|(name, _)| word.is(name)).map(|(_, part)| *part)
    };
    // "And a half", "and half"
    let and_a_half = |at: usize| {
        let next = at.checked_add(1).filter(|_| words.get(at).is_some_and(|word| word.is(AND)))?;
        let half = if words.get(next)?.is("a") { next.checked_add(1)? } else { next };
        Some((half.checked_add(1)?, part_at(half)?))
    };
    // Of "1:30 hours" and "1/2 hour" this would be a part.
    if words.first()?.is_behind_sign {
        return None;
    }
    let (mut taken, mut amount) = match (number_at(words), part_at(0)) {
        // "Three quarters of an hour"
        (Some((taken, number)), _) => match part_at(taken) {
            Some(part) => (taken.checked_add(1)?, whole(number)?.checked_mul(part)?),
            None => (taken, number),
        },
        (None, Some(part)) => (1, part),
        // "The last hour"
        (None, None) => (0, 100),
    };
    let is_said = taken > 0;
    if is_said && let Some((end, more)) = and_a_half(taken) {
        (taken, amount) = (end, amount.checked_add(more)?);
    }
    let last = taken.checked_sub(1).and_then(|last| words.get(last));
    let is_part = last.is_some_and(|word| word.is(COUPLE) || PARTS.iter().any(|(name, _)| word.is(name)));
    let between: &[&str] = if is_part { &BEHIND_PART } else { &BEHIND_NUMBER };
    while is_said && words.get(taken).is_some_and(|word| word.is_any(between)) {
        taken = taken.checked_add(1)?;
    }
    let unit = words.get(taken).filter(|unit| !unit.is_apart || !is_said)?;
    let is_year = unit.is("s") && amount >= YEARS.checked_mul(100)?;
    let (.., seconds) = UNITS.iter().find(|(one, several, _)| {
        let alone =
            || unit.is_any(one) && !unit.is_any(&NOT_ALONE) && previous.is_some_and(|word| word.is_any(&ONE_OF));
        let counted = || !is_year && (unit.is_any(one) || unit.is_any(several));
        if is_said { counted() } else { alone() }
    })?;
    taken = taken.checked_add(1)?;
    // "An hour and a half"
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
    /// If it is of digits, a hundred times the number that it is.
    hundredths: Option<u64>,
    /// Whether a minus stands before it.
    is_negative: bool,
    /// Whether more than a space or a hyphen stands before it.
    is_apart: bool,
    /// Whether it stands right behind a sign, as the second number of "1/2" and "1:30".
    is_behind_sign: bool,
}

impl Word {
    fn is(&self, text: &str) -> bool {
        self.text == text
    }

    fn is_any(&self, texts: &[&str]) -> bool {
        texts.contains(&self.text.as_str())
    }

    fn is_letter(&self) -> bool {
        self.text.len() == 1 && self.hundredths.is_none()
    }

    /// The whole number that it is alone.
    fn number(&self) -> Option<u64> {
        self.hundredths.map_or_else(|| self.small().or_else(|| self.multiple()), whole)
    }

    /// The number below a hundred that it is as a word.
    fn small(&self) -> Option<u64> {
        WORDS.iter().find(|(name, _)| self.is(name)).map(|(_, number)| *number)
    }

    fn multiple(&self) -> Option<u64> {
        TIMES_WORDS.iter().find(|(name, _)| self.is(name)).map(|(_, number)| *number)
    }
}

/// The words of a text. Digits within a name, as in `walrus49`, are none.
fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut rest = text;
    // The characters since the last word, and the last one before them.
    let (mut between, mut before) = (String::new(), ' ');
    while let Some(first) = rest.chars().next() {
        let same = |character: char| match first {
            first if first.is_ascii_digit() => character.is_ascii_digit() || matches!(character, '.' | ','),
            first if first.is_alphabetic() => character.is_alphabetic(),
            _ => false,
        };
        let end = rest.find(|character| !same(character)).unwrap_or(rest.len()).max(first.len_utf8());
        let (run, behind) = rest.split_at(end);
        rest = behind;
        let is_apart = !matches!(between.as_str(), "" | " " | "-");
        if first.is_ascii_digit() {
            // Not in `-n5` and `1h30m`.
            let in_name =
                between.is_empty() && words.last().is_some_and(|word| before.is_alphabetic() && !word.is_letter());
            let is_behind_sign = between.ends_with(['/', ':', '.', '½', '¼', '¾', '\'']) && !words.is_empty();
            let is_negative = between.ends_with('-') && (between.len() > 1 || !before.is_alphanumeric());
            if !in_name {
                let found = readings(run.trim_end_matches(['.', ',']));
                words.extend(found.into_iter().map(|hundredths| Word {
                    text: String::new(),
                    hundredths: Some(hundredths),
                    is_negative,
                    is_apart,
                    is_behind_sign,
                }));
            }
        } else if first.is_alphabetic() {
            words.push(Word {
                text: run.to_lowercase(),
                hundredths: None,
                is_negative: false,
                is_apart,
                is_behind_sign: false,
            });
        } else {
            // The last three say enough.
            if between.chars().count() > 2 {
                between.remove(0);
            }
            between.push(first);
            continue;
        }
        between.clear();
        // "10, 2 hours"
        between.extend(run.chars().rev().take_while(|sign| matches!(sign, '.' | ',')));
        before = run.chars().next_back().unwrap_or(' ');
    }
    words
}

/// The numbers, as hundredths, that a run of digits, points and commas can be. The last one is the whole run as one number, if it can be
/// that: a unit may follow it.
fn readings(run: &str) -> Vec<u64> {
    let hundredths = |digits: &str| digits.parse::<u64>().ok().and_then(|number| number.checked_mul(100));
    let parts: Vec<&str> = run.split(['.', ',']).collect();
    let mut found: Vec<u64> = parts.iter().filter_map(|part| hundredths(part)).collect();

    match parts.as_slice() {
        // "1.5", and "1,5" as in many countries.
        [whole, part] if matches!(part.len(), 1 | 2) => found.extend(format!("{whole}{part:0<2}").parse::<u64>().ok()),
        // "4,096", and "4.096" as in many countries.
        [_, _, ..] if parts.iter().skip(1).all(|group| group.len() == 3) => found.extend(hundredths(&parts.concat())),
        _ => {}
    }
    found
}

/// Whether a character can follow the number so far.
pub(crate) fn may_follow(number: &str, character: char, whole: bool) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let last_room = number.len().saturating_add(1) >= NUMBER_CHARACTERS;
    match character {
        '-' => number.is_empty(),
        '.' => !whole && !last_room && is_number(number) && !number.contains('.'),
        // Some readers do not take minus zero for a whole number.
        '0' if whole && number == "-" => false,
        _ => digits != "0" && number.len() < NUMBER_CHARACTERS,
    }
}

/// Whether a number can end so.
pub(crate) fn is_number(number: &str) -> bool {
    number.ends_with(|character: char| character.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, parameter: &str) -> Vec<String> {
        let numbers = Numbers::said([text]);
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
            ("three quarters of an hour", &["2700"]),
            ("two and a half hours", &["9000"]),
            ("an hour and a half", &["5400"]),
            ("1.5 hours", &["5400"]),
            ("1,5 hours", &["5400"]),
            ("last 2h", &["7200"]),
            ("journalctl -S -10m", &["600"]),
            ("1h 30m", &["1800", "3600", "5400"]),
            ("last 1h30m", &["1800", "3600", "5400"]),
            ("two and half hours", &["9000"]),
            ("ten more minutes", &["600"]),
            ("10.000 seconds", &["10000"]),
            ("1:30 hours, 1/2 hour, .5 hours and 1½ hours", &[]),
            ("the last 10 of the day, max 10, hours 2", &[]),
            ("the 1990s", &[]),
            ("1 day 2 hours 30 minutes", &["1800", "7200", "86400", "93600", "95400"]),
            ("90 s", &["90"]),
            ("a couple of days", &["172800"]),
            ("since yesterday", &["172800", "86400"]),
            ("a hundred and twenty seconds", &["120"]),
            ("the second file of max and min, wait a sec", &[]),
            ("day-1, an entry for each hour", &[]),
            ("ten files for hours", &[]),
            ("mail m and s", &[]),
        ] {
            assert_eq!(of(text, "lastSeconds"), seconds, "{text}");
        }
    }

    #[test]
    fn other_numbers_are_no_times() {
        for (text, counts) in [
            ("ten entries of the past 2 hours", &["10"][..]),
            ("the latest one", &["1"]),
            ("tail -50 of it", &["-50", "50"]),
            ("{\"x\":-7}", &["-7", "7"]),
            ("lines 10-20", &["10", "20"]),
            ("xargs -0", &["0"]),
            ("4 KiB from byte 32768 on", &["32768", "4", "4096"]),
            ("1.5 KiB", &["1", "1536", "5"]),
            ("the first 2M of it", &["2", "2000000", "2097152"]),
            ("4,096 bytes", &["4", "4096", "96"]),
            ("sed -n 100,200p", &["100", "100200", "200"]),
            ("lines 1..5", &["1", "5"]),
            ("1, 2 and 3.", &["1", "2", "3"]),
            ("host 10.20.0.1", &["0", "1", "10", "20"]),
            ("walrus49 and desert19.csv", &[]),
            ("twenty-one, five or two hundred, thirty", &["1", "100", "2", "20", "200", "21", "30", "5"]),
            ("tail -n5 and x10", &["10", "5"]),
            ("the last 10 of the day", &["10"]),
            ("max 10, hours 2", &["10", "2"]),
            ("2 GiB", &["2", "2147483648"]),
            ("error -1234567890123456", &["1234567890123456"]),
            ("two dozen", &["12", "2", "24"]),
            ("a hundred and twenty", &["100", "120", "20"]),
            ("fifteen hundred", &["100", "15", "1500"]),
            ("two thousand five hundred", &["100", "1000", "2", "2500", "5"]),
            ("12345678901234567 99999999999999999999999", &[]),
            ("nothing", &[]),
        ] {
            let mut wanted = counts.to_vec();
            wanted.sort_unstable();
            assert_eq!(of(text, "max"), wanted, "{text}");
        }
    }

    #[test]
    fn units_are_those_of_the_name() {
        let numbers = Numbers::said(["2 items in 3 hours"]);
        for name in ["timeoutMs", "wait_ms", "pauseMilliseconds", "minutes", "hours", "keepDays"] {
            assert!(numbers.of(name).is_none(), "{name}");
        }
        for (name, number) in [("maxItems", "2"), ("params", "2"), ("seconds", "10800")] {
            assert_eq!(numbers.of(name).unwrap().iter().collect::<Vec<_>>(), [number], "{name}");
        }
    }
}
