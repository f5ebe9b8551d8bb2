//! Calendars.

#[test]
fn chrono() {
    use chrono::{Datelike, Days, NaiveDate, Utc};
    let leap = NaiveDate::from_ymd_opt(2024, 2, 29).unwrap();
    assert_eq!(leap.checked_add_days(Days::new(366)).unwrap().to_string(), "2025-03-01");
    assert!(Utc::now().year() >= 2024);
}

#[test]
fn jiff() {
    use jiff::{ToSpan, civil::date};
    let day = date(2024, 1, 31).checked_add(1.month()).unwrap();
    assert_eq!(day.to_string(), "2024-02-29");
    assert!(jiff::Timestamp::now() > jiff::Timestamp::UNIX_EPOCH);
}

#[test]
fn time() {
    use time::{OffsetDateTime, format_description::well_known::Rfc3339, macros::datetime};
    let parsed = OffsetDateTime::parse("2024-02-29T12:00:00+01:00", &Rfc3339).unwrap();
    assert_eq!(parsed, datetime!(2024-02-29 11:00 UTC));
    assert!(OffsetDateTime::now_utc() > parsed);
}
