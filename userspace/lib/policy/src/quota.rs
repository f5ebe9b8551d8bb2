//! What a user's home may take.

use alloc::format;
use alloc::string::String;
use core::fmt;

/// The quota of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// There is none: all homes share what there is.
    None,
    Bytes(u64),
    /// Of what all homes may take together, 1 to 100.
    Percent(u8),
}

const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];

impl Quota {
    /// The quota of a user of whom nothing else is said.
    pub const DEFAULT: Self = Self::Percent(50);

    /// Reads `200MiB`, `50%` or `none`.
    ///
    /// # Errors
    /// It is none of these.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no quota; a quota is a size such as 200MiB, a share such as 50%, or none");
        if text == "none" {
            return Ok(Self::None);
        }
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.parse().ok().filter(|percent| (1..=100).contains(percent));
            return percent.map(Self::Percent).ok_or_else(wrong);
        }
        let found = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
        let bytes = found.and_then(|(number, shift)| number.trim_end().parse::<u64>().ok()?.checked_mul(1 << shift));
        bytes.filter(|bytes| *bytes > 0).map(Self::Bytes).ok_or_else(wrong)
    }

    /// In bytes, if all homes together may take `room` bytes; none if there is no quota.
    #[must_use]
    pub fn bytes(self, room: u64) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Bytes(bytes) => Some(bytes),
            // A hundredth is lost at most, and nothing overflows.
            Self::Percent(percent) => Some((room / 100).saturating_mul(percent.into())),
        }
    }
}

/// As [`Quota::parse`] reads it.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Bytes(bytes) => {
                let whole = |(_, shift): &&(&str, u32)| bytes.trailing_zeros() >= *shift;
                let (unit, shift) = UNITS.iter().find(whole).unwrap_or(&("KiB", 10));
                write!(f, "{}{unit}", bytes >> shift)
            }
        }
    }
}

/// Bytes for a person, in the largest unit in which there are ten at least, with one decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, shift)| self.0 >> shift >= 10);
        let Some((unit, shift)) = unit else { return capos_plural::count(self.0, "byte").fmt(f) };
        let tenths = (self.0 >> (shift - 10)).saturating_mul(10) >> 10;
        write!(f, "{}.{} {unit}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn quotas_are_sizes_and_shares() {
        for (text, quota, bytes) in [
            ("none", Quota::None, None),
            ("50%", Quota::Percent(50), Some(500)),
            ("100%", Quota::Percent(100), Some(1000)),
            ("512KiB", Quota::Bytes(512 << 10), Some(512 << 10)),
            ("200MiB", Quota::Bytes(200 << 20), Some(200 << 20)),
            ("3GiB", Quota::Bytes(3 << 30), Some(3 << 30)),
        ] {
            assert_eq!(Quota::parse(text), Ok(quota));
            assert_eq!((quota.to_string().as_str(), quota.bytes(1000)), (text, bytes));
        }
        for wrong in ["", "0%", "101%", "-5%", "%", "200", "0MiB", "MiB", "1.5GiB", "99999999999GiB", "5MB", "None"] {
            assert!(Quota::parse(wrong).unwrap_err().contains("a quota is a size such as 200MiB"), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_told_in_units() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (10_239, "10239 bytes"),
            (10_240, "10.0 KiB"),
            ((10 << 20) - 1, "10239.9 KiB"),
            ((10 << 20) + (1 << 19), "10.5 MiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9]{0,22}(%|KiB|MiB|GiB|none)?", room: u64) {
            if let Ok(quota) = Quota::parse(&text) {
                prop_assert_eq!(Quota::parse(&quota.to_string()).map(|read| read.bytes(room)), Ok(quota.bytes(room)));
            }
        }
    }
}
