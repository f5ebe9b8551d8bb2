//! Why a packet command failed.

use core::fmt;

/// A drive's report of a failure (SPC-4, section 4.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sense {
    /// The kind of failure, 0 to 15.
    pub key: u8,
    /// What failed.
    pub code: u8,
    /// The qualifier of the code.
    pub qualifier: u8,
}

/// The reaction to a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// There is no medium.
    NoMedium,
    /// The medium may be another one than before.
    Changed,
    /// The drive reports an event from before the command, and has not executed the command.
    Attention,
    /// The drive is not ready yet.
    NotYet,
    /// The command has failed.
    Failed,
}

impl Sense {
    /// Reads the answer to REQUEST SENSE, of either format; none if it is of neither.
    #[must_use]
    pub fn parse(answer: &[u8]) -> Option<Self> {
        let at = |place: usize| answer.get(place).copied();
        let (key, code, qualifier) = match at(0)? & 0x7f {
            // Fixed; a short one has no code.
            0x70 | 0x71 => (at(2)?, at(12).unwrap_or(0), at(13).unwrap_or(0)),
            0x72 | 0x73 => (at(1)?, at(2)?, at(3)?),
            _ => return None,
        };
        Some(Self { key: key & 0xf, code, qualifier })
    }

    /// The reaction.
    #[must_use]
    pub fn meaning(self) -> Meaning {
        match (self.key, self.code, self.qualifier) {
            (2, 0x3a, _) => Meaning::NoMedium,
            (2, 0x04, 0x00 | 0x01 | 0x07) => Meaning::NotYet,
            (6, 0x28, _) => Meaning::Changed,
            (6, _, _) => Meaning::Attention,
            _ => Meaning::Failed,
        }
    }
}

impl fmt::Display for Sense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match (self.key, self.code) {
            (2, 0x3a) => "there is no medium in the drive",
            (2, _) => "the drive is not ready",
            (3, _) => "the medium has an error there",
            (4, _) => "the drive itself has an error",
            (5, 0x21) => "the drive has no such sector, or cannot read it",
            (5, _) => "the drive refuses the command",
            (6, 0x28) => "the medium was changed",
            (6, _) => "the drive was reset",
            (0xb, _) => "the drive gave up the command",
            _ => "the drive reports an error",
        };
        write!(f, "{words} (sense {:x}/{:02x}/{:02x})", self.key, self.code, self.qualifier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn both_formats_are_read() {
        let mut fixed = [0; 18];
        fixed[..3].copy_from_slice(&[0xf0, 0, 0x23]);
        fixed[12..14].copy_from_slice(&[0x11, 5]);
        let sense = Sense { key: 3, code: 0x11, qualifier: 5 };
        assert_eq!(Sense::parse(&fixed), Some(sense));
        assert_eq!(Sense::parse(&[0x72, 3, 0x11, 5, 0, 0, 0, 0]), Some(sense));
        assert_eq!(Sense::parse(&[0x70, 0, 6]), Some(Sense { key: 6, code: 0, qualifier: 0 }));
        assert_eq!(Sense::parse(&[0; 18]), None);
        assert_eq!(Sense::parse(&[0x70, 0]), None);
        assert_eq!(sense.to_string(), "the medium has an error there (sense 3/11/05)");
    }

    #[test]
    fn a_medium_that_is_gone_is_told_from_an_error() {
        let meaning = |key, code, qualifier| Sense { key, code, qualifier }.meaning();
        assert_eq!(meaning(2, 0x3a, 1), Meaning::NoMedium);
        assert_eq!(meaning(2, 4, 1), Meaning::NotYet);
        assert_eq!(meaning(2, 4, 3), Meaning::Failed, "somebody must do something");
        assert_eq!(meaning(6, 0x28, 0), Meaning::Changed);
        assert_eq!(meaning(6, 0x29, 0), Meaning::Attention);
        assert_eq!(meaning(3, 0x11, 0), Meaning::Failed);
    }
}
