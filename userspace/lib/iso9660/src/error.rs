//! What can be wrong, and its error messages.

use alloc::string::String;
use core::fmt;

/// A place in the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The kind of structure that begins there.
    pub structure: &'static str,
    /// The sector.
    pub lba: u32,
    /// The byte in the sector.
    pub offset: u32,
}

impl Place {
    /// A place at the start of a sector.
    pub const fn new(structure: &'static str, lba: u32) -> Self {
        Self { structure, lba, offset: 0 }
    }

    /// The same sector, another structure and byte.
    pub(crate) fn at(self, structure: &'static str, offset: usize) -> Self {
        Self { structure, lba: self.lba, offset: u32::try_from(offset).unwrap_or(u32::MAX) }
    }

    /// Says what is wrong here.
    pub(crate) fn wrong(self, problem: Problem) -> Malformed {
        Malformed { place: self, problem }
    }

    /// Says in a fixed sentence what is wrong here.
    pub(crate) fn rule(self, sentence: &'static str) -> Malformed {
        self.wrong(Problem::Rule(sentence))
    }
}

/// What is wrong with a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The structure ends before this field does.
    Short { field: &'static str },
    /// A number that is stored in both byte orders, and the two differ.
    BothEndian { field: &'static str, little: u32, big: u32 },
    /// Sectors that are not in the volume, or belong to its descriptors.
    OutsideVolume { first: u32, sectors: u64, data: u32, volume: u32 },
    /// A length or count past what is accepted.
    TooLarge { what: &'static str, found: u64, limit: u64 },
    /// The structure lies over another one that must be apart from it.
    Overlap { with: &'static str, first: u32 },
    /// Any other rule that is broken, as a sentence.
    Rule(&'static str),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { field } => write!(f, "it ends before its field '{field}'"),
            Self::BothEndian { field, little, big } => {
                write!(f, "'{field}' is {little} in one byte order and {big} in the other")
            }
            Self::OutsideVolume { first, sectors, data, volume } => write!(
                f,
                "it claims {sectors} sectors from {first} on, but the volume's data lies in sectors {data} to {volume} (exclusive)"
            ),
            Self::TooLarge { what, found, limit } => {
                write!(f, "{what} is {found}; at most {limit} is accepted")
            }
            Self::Overlap { with, first } => {
                write!(f, "it overlaps {with} at sector {first}")
            }
            Self::Rule(sentence) => f.write_str(sentence),
        }
    }
}

/// A structure of the volume that is not well formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Where.
    pub place: Place,
    /// What.
    pub problem: Problem,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place: Place { structure, lba, offset }, problem } = self;
        write!(f, "the volume is malformed: {structure} at sector {lba}, byte {offset}: {problem}")
    }
}

impl core::error::Error for Malformed {}

/// Why a request on a volume failed. `E` is the error of the sector source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error<E> {
    /// The device could not be read.
    Source { lba: u32, error: E },
    /// The volume's structures are not well formed.
    Malformed(Malformed),
    /// There is no entry of this name.
    NotFound { path: String },
    /// A directory was needed, and this is none.
    NotADirectory { path: String },
    /// A regular file was needed, and this is none.
    NotAFile,
    /// The path is too long, or holds a NUL, or goes too deep.
    BadPath { why: &'static str },
    /// Too many symbolic links on the way.
    TooManyLinks { path: String },
}

impl<E> From<Malformed> for Error<E> {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl<E: fmt::Display> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source { lba, error } => write!(f, "reading sector {lba} failed: {error}"),
            Self::Malformed(malformed) => malformed.fmt(f),
            Self::NotFound { path } => write!(f, "there is no '{path}' on the volume"),
            Self::NotADirectory { path } => write!(f, "'{path}' is not a directory"),
            Self::NotAFile => f.write_str("this is not a file, but a directory or a link"),
            Self::BadPath { why } => write!(f, "the path is rejected: {why}"),
            Self::TooManyLinks { path } => {
                write!(f, "'{path}' leads through more than {} symbolic links", crate::limits::LINKS)
            }
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for Error<E> {}
