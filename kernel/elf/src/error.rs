//! Why a file is not loaded.

/// Why a file is not a program that can be loaded. Numbers are as found in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ElfError {
    /// Shorter than its headers.
    Truncated,
    /// No ELF magic.
    NotElf,
    /// Not a little-endian, 64-bit, version 1 file.
    NotElf64,
    /// Not an executable (type 2). Position-independent programs are not accepted.
    NotExecutable(u16),
    /// Not for x86-64.
    WrongMachine(u16),
    /// The program header table is outside the first 4,096 bytes or its entries have the wrong size.
    BadHeaderTable,
    /// More loadable segments than accepted.
    TooManySegments,
    /// It asks for an interpreter or dynamic linking.
    Dynamic,
    /// Nothing to load.
    NoSegments,
    /// Segment `index`: more bytes in the file than in memory, or arithmetic that overflows.
    BadSize(usize),
    /// Segment `index`: its part of the file is outside the file.
    OutsideFile(usize),
    /// Segment `index`: not in user memory.
    OutsideMemory(usize),
    /// Segment `index`: address and file offset differ within a page.
    Misaligned(usize),
    /// Segment `index`: writable and executable.
    WritableCode(usize),
    /// Segment `index`: shares a page with the one before it, or comes before it.
    Overlap(usize),
    /// The entry point is not in an executable segment.
    BadEntry(u64),
}

impl core::fmt::Display for ElfError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Truncated => f.write_str("the file ends within its headers"),
            Self::NotElf => f.write_str("the file is not an ELF file"),
            Self::NotElf64 => f.write_str("the file is not a little-endian 64-bit ELF file"),
            Self::NotExecutable(kind) => {
                write!(f, "the file is of ELF type {kind}; only static executables (type 2) are loaded")
            }
            Self::WrongMachine(machine) => write!(f, "the file is for machine {machine}, not x86-64 (62)"),
            Self::BadHeaderTable => f.write_str("the program header table is malformed or not in the first 4096 bytes"),
            Self::TooManySegments => f.write_str("the program has too many segments"),
            Self::Dynamic => f.write_str("the program wants a dynamic linker; link it statically"),
            Self::NoSegments => f.write_str("the program has nothing to load"),
            Self::BadSize(index) => write!(f, "segment {index} has impossible sizes"),
            Self::OutsideFile(index) => write!(f, "segment {index} is outside the file"),
            Self::OutsideMemory(index) => write!(f, "segment {index} is outside user memory"),
            Self::Misaligned(index) => write!(f, "segment {index}: address and file offset differ within a page"),
            Self::WritableCode(index) => write!(f, "segment {index} is writable and executable at once"),
            Self::Overlap(index) => write!(f, "segment {index} shares a page with another or is out of order"),
            Self::BadEntry(entry) => write!(f, "the entry point {entry:#x} is not in an executable segment"),
        }
    }
}

impl core::error::Error for ElfError {}
