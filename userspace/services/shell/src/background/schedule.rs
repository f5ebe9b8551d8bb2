//! When a run begins that is not to begin at once.

use alloc::format;
use alloc::string::{String, ToString};

use capos_agent::{Either, Signal, race};

use crate::console::Base;
use crate::escape::in_quotes;
use crate::readable::offset;

/// Nanoseconds of a second and of a millisecond, and milliseconds of a minute and a day.
const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;
const MINUTE: u64 = 60_000;
const DAY: u64 = 1440 * MINUTE;
/// Letters of a word that an error repeats.
const WORD: usize = 20;
/// Longest time in nanoseconds between two looks at the clock of the day, which people set.
const LOOK: u64 = 10 * SECOND;

const USAGE: &str =
    "usage: /background REQUEST, /background --in 30m REQUEST (s, m or h), or /background --at 18:00 REQUEST";

/// When a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At this time since boot, in nanoseconds. No clock that is set changes it.
    After(u64),
    /// At this time since 1970, in milliseconds, by the clock of the day.
    At(u64),
}

/// The time of the day, in milliseconds since 1970, and the minutes by which the person's clock is ahead; none if it is not set.
pub fn clock(base: &Base) -> Option<(u64, i16)> {
    let unix = base.clock.wall_clock().ok().filter(|unix| *unix >= capos_setup::CLOCK_IS_SET);
    unix.map(|unix| (unix, offset()))
}

/// What a person's line says of the time, and the request.
///
/// # Errors
/// It is no time, or there is no request.
pub fn parse(text: &str, now: u64, clock: Option<(u64, i16)>) -> Result<(Option<When>, &str), String> {
    let text = text.trim();
    let (when, request) = match text.split_once(char::is_whitespace) {
        Some(("--in", rest)) => {
            let (time, request) = rest.trim_start().split_once(char::is_whitespace).ok_or(USAGE)?;
            let when = after(time, now).ok_or_else(|| format!("{} is no time to wait; {USAGE}", quoted(time)))?;
            (Some(when), request)
        }
        Some(("--at", rest)) => {
            let (time, request) = rest.trim_start().split_once(char::is_whitespace).ok_or(USAGE)?;
            let minutes = minutes(time).ok_or_else(|| format!("{} is no time of the day; {USAGE}", quoted(time)))?;
            (Some(at(minutes, clock)?), request)
        }
        _ => (None, text),
    };
    let request = request.trim();
    if request.is_empty() || request.starts_with("--") {
        return Err(USAGE.to_string());
    }
    Ok((when, request))
}

/// What a person's word says of the time: `30m` from now, or the next `18:00`.
///
/// # Errors
/// It is no time, or the clock is not set.
pub fn moment(time: &str, now: u64, clock: Option<(u64, i16)>) -> Result<When, String> {
    match minutes(time) {
        Some(minutes) => at(minutes, clock),
        None => after(time, now).ok_or_else(|| format!("{} is no time", quoted(time))),
    }
}

/// The time in a model's call: seconds from now, or the next time of the day; 0 or an empty text stands for the other one.
///
/// # Errors
/// What is wrong with which argument.
pub fn of_call((seconds, time): (u64, &str), now: u64, clock: Option<(u64, i16)>) -> Result<When, String> {
    match (seconds, time.trim()) {
        (0, "") => Err("$.afterSeconds: give this, from 1 on, or time, such as 18:00".to_string()),
        (seconds, "") => Ok(When::After(now.saturating_add(seconds.saturating_mul(SECOND)))),
        (0, time) => {
            let minutes = minutes(time)
                .ok_or_else(|| format!("$.time: {} is no time of the day, such as 18:00", quoted(time)))?;
            let (unix, offset) =
                clock.ok_or("$.time: the machine's clock is not set; give afterSeconds, or have the person set it")?;
            Ok(When::At(next(minutes, unix, offset)))
        }
        _ => Err("$.time: give either this or afterSeconds, and not both".to_string()),
    }
}

/// Whether that is before the session's end.
///
/// # Errors
/// When the session ends.
pub fn check_end(when: When, base: &Base) -> Result<(), String> {
    let now = base.clock.now();
    let end = base.started.saturating_add(base.info.limits.max_seconds.saturating_mul(SECOND));
    let left = end.saturating_sub(now);
    match when.left(now, base.clock.wall_clock().ok()) < left {
        true => Ok(()),
        false => Err(format!("this session ends in {}", text(left))),
    }
}

/// Waits until then; false if it was cancelled before.
pub async fn until(when: When, base: &Base, cancel: &Signal) -> bool {
    loop {
        // The clock of the day is looked at again and again.
        let now = base.clock.now();
        let left = when.left(now, base.clock.wall_clock().ok());
        if left == 0 {
            return true;
        }
        let wait = base.clock.sleep_until(now.saturating_add(left.min(LOOK)));
        if let Either::Left(()) = race(cancel.wait(), wait).await {
            return false;
        }
    }
}

fn quoted(time: &str) -> String {
    in_quotes(time, WORD)
}

fn after(time: &str, now: u64) -> Option<When> {
    Some(When::After(now.saturating_add(seconds(time)?.saturating_mul(SECOND))))
}

fn at(minutes: u64, clock: Option<(u64, i16)>) -> Result<When, String> {
    let (unix, offset) =
        clock.ok_or("the clock is not set; /clock set sets it, and a time to wait, such as 30m, needs no clock")?;
    Ok(When::At(next(minutes, unix, offset)))
}

/// A time such as 30m in seconds.
fn seconds(text: &str) -> Option<u64> {
    let unit = text.chars().next_back()?;
    let number: u64 = text.strip_suffix(unit)?.parse().ok().filter(|number| *number > 0)?;
    let each: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        _ => return None,
    };
    number.checked_mul(each)
}

/// A time of the day in minutes: such as 18:00, 6:30pm or 6 PM.
fn minutes(text: &str) -> Option<u64> {
    let part = |text: &str, most: u64| -> Option<u64> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| digits && *number < most)
    };
    let text = text.to_ascii_lowercase();
    match text.as_str() {
        "noon" => return Some(12 * 60),
        "midnight" => return Some(0),
        _ => {}
    }
    let halves = [("am", 0), ("a.m.", 0), ("a.m", 0), ("pm", 12), ("p.m.", 12), ("p.m", 12)]
        .into_iter()
        .find_map(|(half, hours)| Some((text.strip_suffix(half)?, hours)));
    let (clock, half) = halves.map_or((text.as_str(), None), |(clock, hours)| (clock.trim_end(), Some(hours)));
    let (hours, minutes) = match (clock.split_once(':'), half) {
        (Some((hours, minutes)), _) if minutes.len() == 2 => (hours, minutes),
        (None, Some(_)) => (clock, "0"),
        _ => return None,
    };
    let hours = match half {
        None => part(hours, 24)?,
        // 12 am is midnight.
        Some(half) => part(hours, 13).filter(|hours| *hours > 0)?.checked_rem(12)?.checked_add(half)?,
    };
    hours.checked_mul(60)?.checked_add(part(minutes, 60)?)
}

/// The next time at which the clock shows this minute of the day, in milliseconds since 1970. The clock is `offset` minutes
/// ahead of UTC.
fn next(minutes: u64, unix: u64, offset: i16) -> u64 {
    let ahead = i64::from(offset).saturating_mul(MINUTE as i64);
    let midnight = unix.saturating_add_signed(ahead) / DAY * DAY;
    let wanted = midnight.saturating_add(minutes.saturating_mul(MINUTE)).saturating_add_signed(ahead.saturating_neg());
    if wanted > unix { wanted } else { wanted.saturating_add(DAY) }
}

impl When {
    /// Nanoseconds until then; 0 if that time has come. A clock that is not known leaves it where it is.
    pub fn left(self, now: u64, unix: Option<u64>) -> u64 {
        match self {
            Self::After(at) => at.saturating_sub(now),
            Self::At(at) => match unix {
                Some(unix) => at.saturating_sub(unix).saturating_mul(MILLISECOND),
                None => LOOK,
            },
        }
    }
}

/// How long that is, for a person.
pub fn text(nanoseconds: u64) -> String {
    let seconds = nanoseconds.div_ceil(SECOND);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-27 07:40:00 UTC.
    const MORNING: u64 = 1_795_765_200_000;

    #[test]
    fn i12_a_request_says_when_it_begins() {
        let now = 5 * SECOND;
        let clock = Some((MORNING, 60));
        let of = |text| parse(text, now, clock).map(|(when, request)| (when, request.to_string()));
        assert_eq!(of(" Tidy up. "), Ok((None, "Tidy up.".to_string())));
        assert_eq!(of("--in 30m Tidy up."), Ok((Some(When::After(1805 * SECOND)), "Tidy up.".to_string())));
        let at = |minutes: u64| Ok((Some(When::At(MORNING + minutes * MINUTE)), "Tidy up.".to_string()));
        // It is 08:40 for the person.
        assert_eq!(of("--at 08:41 Tidy up."), at(1));
        assert_eq!(of("--at 08:40 Tidy up."), at(1440));
        assert_eq!(of("--at 0:10 Tidy up."), at(15 * 60 + 30));
        for bad in
            ["", "--in 30m", "--in 0s x", "--in 5 x", "--at 24:00 x", "--at 1:5 x", "--at +1:05 x", "--at", "--on x y"]
        {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert_eq!(moment("30m", now, None), Ok(When::After(1805 * SECOND)));
        assert_eq!(moment("08:41", now, clock), Ok(When::At(MORNING + MINUTE)));
        assert!(moment("18:00", now, None).is_err_and(|why| why.contains("the clock is not set")));
        for bad in ["", "soon", "24:00", "0m", "999999999999999999h"] {
            assert_eq!(moment(bad, now, clock), Err(format!("{bad:?} is no time")));
        }
        assert!(parse("--at 18:00 x", now, None).is_err_and(|why| why.contains("the clock is not set")));
    }

    #[test]
    fn a_time_of_the_day_is_read_in_both_ways() {
        for (text, hour, minute) in [
            ("18:00", 18, 0),
            ("6:30", 6, 30),
            ("6pm", 18, 0),
            ("6 P.M.", 18, 0),
            ("6:30 a.m", 6, 30),
            ("noon", 12, 0),
            ("Midnight", 0, 0),
            ("6 PM", 18, 0),
            ("06:05am", 6, 5),
            ("12am", 0, 0),
            ("12:15 pm", 12, 15),
        ] {
            assert_eq!(minutes(text), Some(hour * 60 + minute), "{text}");
        }
        for bad in ["18", "18pm", "0am", "6:5pm", "pm", "6 30pm", "6:30xm", "-6pm", "\u{a0}"] {
            assert_eq!(minutes(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_call_names_one_time() {
        let now = 5 * SECOND;
        let clock = Some((MORNING, 60));
        let of = |seconds, time| of_call((seconds, time), now, clock);
        assert_eq!(of(1200, ""), Ok(When::After(1205 * SECOND)));
        assert_eq!(of(0, " 08:41 "), Ok(When::At(MORNING + MINUTE)));
        assert_eq!(of(u64::MAX, ""), Ok(When::After(u64::MAX)));
        for (seconds, time, words) in [
            (0, "", "$.afterSeconds: give this"),
            (5, "18:00", "$.time: give either this or afterSeconds"),
            (0, "soon", "$.time: \"soon\" is no time of the day"),
        ] {
            assert!(of(seconds, time).is_err_and(|why| why.starts_with(words)), "{seconds} {time}");
        }
        let unset = of_call((0, "18:00"), now, None);
        assert!(unset.is_err_and(|why| why.starts_with("$.time: the machine's clock is not set")));
        assert_eq!(of_call((1, ""), now, None), Ok(When::After(6 * SECOND)));
    }

    /// A clock that is set changes when a run begins that waits for a time of the day, and never one that waits for so long.
    #[test]
    fn i12_a_clock_that_jumps_only_moves_a_time_of_the_day() {
        let at = When::At(MORNING);
        assert_eq!(at.left(0, Some(MORNING - 3_600_000)), 3600 * SECOND);
        assert_eq!(at.left(SECOND, Some(MORNING + DAY)), 0, "it was set forward");
        assert_eq!(at.left(2 * SECOND, Some(MORNING - DAY)), 86_400 * SECOND, "it was set back before that");
        assert_eq!(at.left(0, None), LOOK);
        let after = When::After(30 * SECOND);
        assert_eq!(after.left(SECOND, Some(MORNING + DAY)), 29 * SECOND);
        assert_eq!((after.left(30 * SECOND, None), after.left(31 * SECOND, None)), (0, 0));
    }

    proptest! {
        #[test]
        fn the_next_time_of_the_day_is_within_a_day(minutes in 0_u64..1440, unix in DAY..4_000_000_000_000, offset in -720_i16..=840) {
            let at = next(minutes, unix, offset);
            prop_assert!(at > unix && at <= unix + DAY);
            let local = (at as i64 + i64::from(offset) * MINUTE as i64) as u64;
            prop_assert_eq!(local % DAY, minutes * MINUTE);
        }
    }

    #[test]
    fn times_are_told_in_two_units() {
        for (seconds, wanted) in [(5, "5 s"), (65, "1 min 5 s"), (3600, "1 h 0 min")] {
            assert_eq!(text(seconds * SECOND), wanted);
        }
    }
}
