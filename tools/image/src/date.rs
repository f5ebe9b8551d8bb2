//! A moment as a calendar date, in the forms the image tools want.

/// A date and time in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    year: u64,
    month: u64,
    day: u64,
    second_of_day: u64,
}

impl Date {
    /// The date `seconds` after 1970-01-01T00:00:00Z.
    pub fn from_unix(seconds: u64) -> Self {
        let mut days = seconds / 86_400;
        let mut year = 1970;
        let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        while days >= if leap(year) { 366 } else { 365 } {
            days -= if leap(year) { 366 } else { 365 };
            year += 1;
        }
        let february = if leap(year) { 29 } else { 28 };
        let mut month = 1;
        for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            if days < length {
                break;
            }
            days -= length;
            month += 1;
        }
        Self { year, month, day: days + 1, second_of_day: seconds % 86_400 }
    }

    fn parts(&self) -> [u64; 6] {
        let second = self.second_of_day;
        [self.year, self.month, self.day, second / 3600, second / 60 % 60, second % 60]
    }

    /// As xorriso takes it: sixteen digits, the last two of them hundredths of a second.
    pub fn xorriso(&self) -> String {
        let [year, month, day, hour, minute, second] = self.parts();
        format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}00")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        assert_eq!(Date::from_unix(0).xorriso(), "1970010100000000");
        assert_eq!(Date::from_unix(1_709_251_199).xorriso(), "2024022923595900");
        assert_eq!(Date::from_unix(1_709_251_200).xorriso(), "2024030100000000");
        assert_eq!(Date::from_unix(4_107_542_399).xorriso(), "2100022823595900");
        assert_eq!(Date::from_unix(4_107_542_400).xorriso(), "2100030100000000");
    }
}
