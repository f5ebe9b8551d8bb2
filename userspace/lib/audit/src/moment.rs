//! The text of records' times, and parsing a person's text for a time. All are UTC.

use alloc::format;
use alloc::string::{String, ToString};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

fn moment(nanoseconds: u64) -> DateTime {
    let stamp = Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or_default();
    TimeZone::UTC.to_datetime(stamp)
}

/// The date of a time in nanoseconds since 1970, as `2026-11-21`.
#[must_use]
pub fn date(nanoseconds: u64) -> String {
    moment(nanoseconds).date().to_string()
}

/// Its time of day to the second, as `09:05:00`.
#[must_use]
pub fn clock(nanoseconds: u64) -> String {
    let time = moment(nanoseconds).time();
    format!("{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())
}

/// The time that a person means, in nanoseconds since 1970. It is a date; a date and a time of day as
/// `2026-11-21T09:05`, which are UTC unless an offset follows; or a time before `now`, as `90m`, `2h`, `7d` or `1
/// week`.
///
/// # Errors
/// The permitted forms, if the text is none of these.
pub fn since(text: &str, now: u64) -> Result<u64, String> {
    let wrong =
        || format!("{text:?} is not a time; write a date in UTC (2026-11-21, 2026-11-21T09:05) or an age (2h, 7d)");
    if text.trim_start().starts_with('-') {
        return Err(wrong());
    }
    // With an offset or `Z` first: a date and time without one would pass over it.
    let stamp = if let Ok(stamp) = text.parse::<Timestamp>() {
        stamp
    } else {
        let point = match text.parse::<DateTime>() {
            Ok(point) => point,
            Err(_) => {
                let span: Span = text.parse().map_err(|_| wrong())?;
                moment(now).checked_sub(span.abs()).map_err(|_| wrong())?
            }
        };
        // A time later than every stamp is later than every record.
        TimeZone::UTC.to_timestamp(point).unwrap_or(Timestamp::MAX)
    };
    // Before 1970 there is nothing, so everything is later than that.
    Ok(u64::try_from(stamp.as_nanosecond().max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21T09:05:07.5Z.
    const NOW: u64 = 1_795_251_907_500_000_000;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn times_are_written() {
        assert_eq!((date(NOW), clock(NOW)), ("2026-11-21".into(), "09:05:07".into()));
        assert_eq!((date(0), clock(0)), ("1970-01-01".into(), "00:00:00".into()));
        assert_eq!(date(u64::MAX).len(), 10);
    }

    /// Requirement E05.
    #[test]
    fn times_are_read() {
        let midnight = NOW - (9 * 3600 + 5 * 60 + 7) * SECOND - SECOND / 2;
        for (text, meant) in [
            ("2026-11-21", midnight),
            ("2026-11-21T09:05", midnight + (9 * 3600 + 5 * 60) * SECOND),
            ("2026-11-21T09:05Z", midnight + (9 * 3600 + 5 * 60) * SECOND),
            ("2026-11-21T09:05-08:00", midnight + (17 * 3600 + 5 * 60) * SECOND),
            ("2h", NOW - 2 * 3600 * SECOND),
            ("90m", NOW - 90 * 60 * SECOND),
            ("7d", NOW - 7 * 86_400 * SECOND),
            ("1 week", NOW - 7 * 86_400 * SECOND),
            ("1h ago", NOW - 3600 * SECOND),
            ("9999-12-31", u64::MAX),
            ("1900-01-01", 0),
            ("1000 years", 0),
        ] {
            assert_eq!(since(text, NOW), Ok(meant), "{text}");
        }
        for text in [
            "",
            "yesterday",
            "-",
            "-1h",
            "-009999-01-01",
            "2026-13-40",
            "9999999999999999999d",
            "20000 years",
            "\u{1b}[2J",
        ] {
            let why = since(text, NOW).unwrap_err();
            assert!(why.contains("is not a time; write a date"), "{why}");
            assert!(!why.contains('\u{1b}'), "{why}");
        }
    }
}
