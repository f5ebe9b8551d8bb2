//! Program headers, judged.

pub use capos_abi::PAGE;

use crate::ElfError;

/// Loadable segments of a program at most.
pub const MAX_SEGMENTS: usize = 16;
/// Thread-local storage of a program at most, in bytes.
pub const MAX_THREAD_LOCAL: u64 = 1 << 20;

/// User addresses, as in the kernel's binary interface.
const USER_START: u64 = 0x1_0000;
const USER_END: u64 = 0x0000_7fff_ffff_f000;

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const INTERPRETER: u32 = 3;
const THREAD_LOCAL: u32 = 7;
const EXECUTE: u32 = 1;
const WRITE: u32 = 2;
const READ: u32 = 4;
const ENTRY_BYTES: u16 = 56;
const EXECUTABLE: u16 = 2;
const X86_64: u16 = 62;

/// One loadable segment, on page borders.
///
/// The pages from `address` on, `memory_bytes` long, hold: the file from `file_offset` on for
/// [`Segment::file_bytes`] bytes counted from `address`, then zeros. A page that holds the end of the
/// file part and the start of the zeros belongs to the segment alone, so it must be a private copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// First address; a multiple of [`PAGE`].
    pub address: u64,
    /// Offset in the file that belongs at `address`; a multiple of [`PAGE`].
    pub file_offset: u64,
    /// Bytes that come from the file.
    pub file_bytes: u64,
    /// Bytes in memory; a multiple of [`PAGE`], at least `file_bytes`.
    pub memory_bytes: u64,
    /// Whether it is readable.
    pub read: bool,
    /// Whether it is writable.
    pub write: bool,
    /// Whether it is executable.
    pub execute: bool,
}

impl Segment {
    /// Whether all of it can be mapped from the file, shared: it is never written and needs no zeros
    /// beyond what pads the file's last page.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        !self.write && self.file_bytes.div_ceil(PAGE) == self.memory_bytes / PAGE
    }

    /// First address after it.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.memory_bytes)
    }
}

/// The initial image of a program's thread-local storage, which is copied for each thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadLocal {
    /// Offset in the file of the image.
    pub file_offset: u64,
    /// Bytes of the image.
    pub file_bytes: u64,
    /// Bytes of a thread's storage: the image, then zeros.
    pub memory_bytes: u64,
    /// Alignment of the storage, a power of two and at most a page.
    pub align: u64,
}

/// A program that can be loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Program {
    /// Where its first thread starts.
    pub entry: u64,
    /// Its thread-local storage, if it has any.
    pub thread_local: Option<ThreadLocal>,
    segments: [Segment; MAX_SEGMENTS],
    count: usize,
}

fn bytes<const N: usize>(file: &[u8], at: u64) -> Result<[u8; N], ElfError> {
    let at = usize::try_from(at).map_err(|_| ElfError::Truncated)?;
    file.get(at..).and_then(<[u8]>::first_chunk).copied().ok_or(ElfError::Truncated)
}

fn u16_at(file: &[u8], at: u64) -> Result<u16, ElfError> {
    bytes(file, at).map(u16::from_le_bytes)
}

fn u32_at(file: &[u8], at: u64) -> Result<u32, ElfError> {
    bytes(file, at).map(u32::from_le_bytes)
}

fn u64_at(file: &[u8], at: u64) -> Result<u64, ElfError> {
    bytes(file, at).map(u64::from_le_bytes)
}

struct Header {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    file_bytes: u64,
    memory_bytes: u64,
    align: u64,
}

impl Header {
    fn read(file: &[u8], at: u64) -> Result<Self, ElfError> {
        let field = |offset: u64| at.checked_add(offset).ok_or(ElfError::BadHeaderTable);
        Ok(Self {
            kind: u32_at(file, at)?,
            flags: u32_at(file, field(4)?)?,
            offset: u64_at(file, field(8)?)?,
            address: u64_at(file, field(16)?)?,
            file_bytes: u64_at(file, field(32)?)?,
            memory_bytes: u64_at(file, field(40)?)?,
            align: u64_at(file, field(48)?)?,
        })
    }

    fn thread_local(&self, index: usize, file_length: u64) -> Result<ThreadLocal, ElfError> {
        let file_end = self.offset.checked_add(self.file_bytes).ok_or(ElfError::BadSize(index))?;
        if self.file_bytes > self.memory_bytes || self.memory_bytes > MAX_THREAD_LOCAL {
            return Err(ElfError::BadSize(index));
        }
        if file_end > file_length {
            return Err(ElfError::OutsideFile(index));
        }
        let align = self.align.max(1);
        if !align.is_power_of_two() || align > PAGE {
            return Err(ElfError::Misaligned(index));
        }
        Ok(ThreadLocal {
            file_offset: self.offset,
            file_bytes: self.file_bytes,
            memory_bytes: self.memory_bytes,
            align,
        })
    }

    fn segment(&self, index: usize, file_length: u64) -> Result<Segment, ElfError> {
        if self.file_bytes > self.memory_bytes {
            return Err(ElfError::BadSize(index));
        }
        let file_end = self.offset.checked_add(self.file_bytes).ok_or(ElfError::BadSize(index))?;
        if file_end > file_length {
            return Err(ElfError::OutsideFile(index));
        }
        let slack = self.address % PAGE;
        if slack != self.offset % PAGE {
            return Err(ElfError::Misaligned(index));
        }
        if self.flags & WRITE != 0 && self.flags & EXECUTE != 0 {
            return Err(ElfError::WritableCode(index));
        }
        let too_big = ElfError::BadSize(index);
        let address = self.address.checked_sub(slack).ok_or(too_big)?;
        let memory = self.memory_bytes.checked_add(slack).ok_or(too_big)?;
        let memory_bytes = memory.checked_next_multiple_of(PAGE).ok_or(too_big)?;
        let end = address.checked_add(memory_bytes).ok_or(ElfError::OutsideMemory(index))?;
        if address < USER_START || end > USER_END {
            return Err(ElfError::OutsideMemory(index));
        }
        // A segment without bytes in the file has no slack to bring from there either.
        let from_file = self.file_bytes != 0;
        Ok(Segment {
            address,
            file_offset: if from_file { self.offset.saturating_sub(slack) } else { 0 },
            file_bytes: if from_file { self.file_bytes.checked_add(slack).ok_or(too_big)? } else { 0 },
            memory_bytes,
            read: self.flags & READ != 0,
            write: self.flags & WRITE != 0,
            execute: self.flags & EXECUTE != 0,
        })
    }
}

impl Program {
    /// Judges a program by its headers. `start` is the file's beginning, at least its first 4,096
    /// bytes or all of it; `file_length` is the whole file's length in bytes.
    ///
    /// # Errors
    /// [`ElfError`], naming what is wrong.
    pub fn parse(start: &[u8], file_length: u64) -> Result<Self, ElfError> {
        if start.get(..4).ok_or(ElfError::Truncated)? != b"\x7fELF" {
            return Err(ElfError::NotElf);
        }
        // Class 64-bit, little-endian, version 1.
        if bytes::<3>(start, 4)? != [2, 1, 1] {
            return Err(ElfError::NotElf64);
        }
        let kind = u16_at(start, 16)?;
        if kind != EXECUTABLE {
            return Err(ElfError::NotExecutable(kind));
        }
        let machine = u16_at(start, 18)?;
        if machine != X86_64 {
            return Err(ElfError::WrongMachine(machine));
        }
        let entry = u64_at(start, 24)?;
        let table = u64_at(start, 32)?;
        let count = u16_at(start, 56)?;
        if u16_at(start, 54)? != ENTRY_BYTES || table >= crate::HEADER_BYTES as u64 {
            return Err(ElfError::BadHeaderTable);
        }
        let mut program = Self { entry, thread_local: None, segments: [Segment::default(); MAX_SEGMENTS], count: 0 };
        for index in 0..usize::from(count) {
            let at = (index as u64)
                .checked_mul(u64::from(ENTRY_BYTES))
                .and_then(|skip| table.checked_add(skip))
                .ok_or(ElfError::BadHeaderTable)?;
            if at >= crate::HEADER_BYTES as u64 {
                return Err(ElfError::BadHeaderTable);
            }
            let header = Header::read(start, at)?;
            match header.kind {
                DYNAMIC | INTERPRETER => return Err(ElfError::Dynamic),
                THREAD_LOCAL if program.thread_local.is_some() => return Err(ElfError::Overlap(index)),
                THREAD_LOCAL => program.thread_local = Some(header.thread_local(index, file_length)?),
                LOAD if header.memory_bytes != 0 => program.add(index, header.segment(index, file_length)?)?,
                _ => {}
            }
        }
        if program.count == 0 {
            return Err(ElfError::NoSegments);
        }
        let enters = |segment: &&Segment| segment.execute && (segment.address..segment.end()).contains(&entry);
        if program.segments().iter().find(enters).is_none() {
            return Err(ElfError::BadEntry(entry));
        }
        Ok(program)
    }

    fn add(&mut self, index: usize, segment: Segment) -> Result<(), ElfError> {
        if self.segments().last().is_some_and(|last| segment.address < last.end()) {
            return Err(ElfError::Overlap(index));
        }
        *self.segments.get_mut(self.count).ok_or(ElfError::TooManySegments)? = segment;
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    /// Its segments, by rising address.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        self.segments.get(..self.count).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A program file: text, read-only data, data with zeros after it.
    fn file(headers: &[(u32, u32, u64, u64, u64, u64)], entry: u64) -> Vec<u8> {
        let mut file = vec![0_u8; 0x4000];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        file[16..18].copy_from_slice(&2_u16.to_le_bytes());
        file[18..20].copy_from_slice(&62_u16.to_le_bytes());
        file[24..32].copy_from_slice(&entry.to_le_bytes());
        file[32..40].copy_from_slice(&64_u64.to_le_bytes());
        file[54..56].copy_from_slice(&56_u16.to_le_bytes());
        file[56..58].copy_from_slice(&u16::try_from(headers.len()).unwrap().to_le_bytes());
        for (index, (kind, flags, offset, address, bytes, memory)) in headers.iter().enumerate() {
            let at = 64 + index * 56;
            file[at..at + 4].copy_from_slice(&kind.to_le_bytes());
            file[at + 4..at + 8].copy_from_slice(&flags.to_le_bytes());
            file[at + 8..at + 16].copy_from_slice(&offset.to_le_bytes());
            file[at + 16..at + 24].copy_from_slice(&address.to_le_bytes());
            file[at + 32..at + 40].copy_from_slice(&bytes.to_le_bytes());
            file[at + 40..at + 48].copy_from_slice(&memory.to_le_bytes());
        }
        file
    }

    const TEXT: (u32, u32, u64, u64, u64, u64) = (1, 5, 0x1000, 0x40_1000, 0x800, 0x800);
    const DATA: (u32, u32, u64, u64, u64, u64) = (1, 6, 0x2010, 0x40_2010, 0x100, 0x3000);

    fn parse(file: &[u8]) -> Result<Program, ElfError> {
        Program::parse(file, file.len() as u64)
    }

    #[test]
    fn segments_lie_on_pages() {
        let program = parse(&file(&[TEXT, DATA], 0x40_1004)).unwrap();
        let [text, data] = program.segments() else { panic!("two segments") };
        assert_eq!(
            (text.address, text.file_offset, text.file_bytes, text.memory_bytes),
            (0x40_1000, 0x1000, 0x800, 0x1000)
        );
        assert!(text.execute && !text.write && text.is_shared());
        assert_eq!(
            (data.address, data.file_offset, data.file_bytes, data.memory_bytes),
            (0x40_2000, 0x2000, 0x110, 0x4000)
        );
        assert!(data.write && !data.execute && !data.is_shared());
    }

    #[test]
    fn refusals_name_the_segment() {
        let with = |header| parse(&file(&[TEXT, header], 0x40_1004));
        assert_eq!(with((1, 7, 0x2000, 0x40_2000, 1, 1)), Err(ElfError::WritableCode(1)));
        assert_eq!(with((1, 6, 0x2000, 0x40_2000, 2, 1)), Err(ElfError::BadSize(1)));
        assert_eq!(with((1, 6, 0x2000, 0x40_2000, 0x9000, 0x9000)), Err(ElfError::OutsideFile(1)));
        assert_eq!(with((1, 6, 0x2000, 0x40_2008, 1, 1)), Err(ElfError::Misaligned(1)));
        assert_eq!(with((1, 6, 0x2000, 0xffff_8000_0000_0000, 1, 1)), Err(ElfError::OutsideMemory(1)));
        assert_eq!(with((1, 6, 0x2000, 0x1000, 1, 1)), Err(ElfError::OutsideMemory(1)));
        assert_eq!(with((1, 6, 0x1000, 0x40_1000, 1, 1)), Err(ElfError::Overlap(1)));
        assert_eq!(with((1, 6, 0x2000, 0x40_2000, 0, u64::MAX)), Err(ElfError::BadSize(1)));
        assert_eq!(with((3, 4, 0, 0, 0, 0)), Err(ElfError::Dynamic));
        assert_eq!(parse(&file(&[TEXT], 0x40_2000)), Err(ElfError::BadEntry(0x40_2000)));
        assert_eq!(parse(&file(&[], 0)), Err(ElfError::NoSegments));
        assert_eq!(parse(b"\x7fEL"), Err(ElfError::Truncated));
        assert_eq!(parse(b"MZ......"), Err(ElfError::NotElf));
    }

    proptest! {
        /// For any bytes there is an answer, and its segments keep their promises.
        #[test]
        fn any_change_is_judged(changes in prop::collection::vec((0_usize..240, any::<u8>()), 0..12)) {
            let mut bytes = file(&[TEXT, DATA], 0x40_1004);
            for (at, value) in changes {
                bytes[at] = value;
            }
            if let Ok(program) = parse(&bytes) {
                let mut end = USER_START;
                for segment in program.segments() {
                    prop_assert!(segment.address >= end && segment.end() <= USER_END);
                    prop_assert!(segment.address % PAGE == 0 && segment.memory_bytes % PAGE == 0);
                    prop_assert!(segment.file_bytes <= segment.memory_bytes);
                    prop_assert!(segment.file_offset + segment.file_bytes <= bytes.len() as u64);
                    prop_assert!(!(segment.write && segment.execute));
                    end = segment.end();
                }
            }
        }
    }
}
