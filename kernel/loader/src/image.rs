//! The kernel's ELF file: which segments it has, where they go, and that they obey W^X.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use crate::bytes::{array, u16_at, u32_at, u64_at};
use crate::page_tables::{Access, Mapping};
use crate::{PAGE, Refusal, Result};

/// The lowest address the protocol lets a kernel be linked at.
pub const LOWEST: u64 = 0xffff_ffff_8000_0000;

const CUT_OFF: Refusal = Refusal("The kernel file is cut off: a program header or a segment reaches past its end.");
const NOT_ELF: Refusal = Refusal("The kernel file is no ELF file for 64-bit x86.");
const NOT_FIXED: Refusal = Refusal("The kernel file is not linked at a fixed address; link it without PIE.");
const NO_SEGMENTS: Refusal = Refusal("The kernel file has nothing to load.");
const TOO_LOW: Refusal = Refusal("A segment of the kernel is below 0xffffffff80000000, where kernels must begin.");
const WRITABLE_CODE: Refusal = Refusal("A segment of the kernel is both writable and executable; that is not loaded.");

/// One loadable segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Virtual address of its first byte.
    pub address: u64,
    /// Its bytes in the file.
    pub content: &'a [u8],
    /// Its size in memory; the part that the file lacks is zero.
    pub size: u64,
    /// Writes are allowed.
    pub write: bool,
    /// Instructions may be fetched.
    pub execute: bool,
}

/// A kernel file whose headers have been checked.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    file: &'a [u8],
    headers: usize,
    count: u16,
    /// Where execution begins, unless the kernel asks for another place.
    pub entry: u64,
    /// First virtual address, page aligned.
    pub base: u64,
    /// Bytes from there to the end of the last segment, a multiple of the page size.
    pub size: u64,
}

impl<'a> Image<'a> {
    /// Checks the headers and every segment.
    pub fn new(file: &'a [u8]) -> Result<Self> {
        const HEADER_SIZE: u16 = 56;
        const EXECUTABLE: u16 = 2;
        const X86_64: u16 = 62;
        let ident: [u8; 6] = array(file, 0).ok_or(NOT_ELF)?;
        if ident != *b"\x7fELF\x02\x01" || u16_at(file, 18) != Some(X86_64) {
            return Err(NOT_ELF);
        }
        if u16_at(file, 16) != Some(EXECUTABLE) {
            return Err(NOT_FIXED);
        }
        if u16_at(file, 54) != Some(HEADER_SIZE) {
            return Err(NOT_ELF);
        }
        let headers = u64_at(file, 32).and_then(|at| usize::try_from(at).ok()).ok_or(CUT_OFF)?;
        let count = u16_at(file, 56).ok_or(CUT_OFF)?;
        let entry = u64_at(file, 24).ok_or(CUT_OFF)?;
        let mut image = Self { file, headers, count, entry, base: 0, size: 0 };
        let (mut first, mut end) = (u64::MAX, 0);
        for segment in image.checked_segments() {
            let segment = segment?;
            if segment.address < LOWEST {
                return Err(TOO_LOW);
            }
            if segment.write && segment.execute {
                return Err(WRITABLE_CODE);
            }
            first = first.min(segment.address);
            end = end.max(segment.address.checked_add(segment.size).ok_or(CUT_OFF)?);
        }
        if end == 0 {
            return Err(NO_SEGMENTS);
        }
        image.base = first & !PAGE.saturating_sub(1);
        let size = end.checked_sub(image.base).and_then(|size| size.checked_next_multiple_of(PAGE));
        image.size = size.ok_or(CUT_OFF)?;
        Ok(image)
    }

    /// The loadable segments.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'a>> {
        self.checked_segments().flatten()
    }

    fn checked_segments(&self) -> impl Iterator<Item = Result<Segment<'a>>> {
        const LOAD: u32 = 1;
        let (file, headers) = (self.file, self.headers);
        (0..usize::from(self.count)).filter_map(move |index| {
            let header = index.checked_mul(56).and_then(|at| at.checked_add(headers)).and_then(|at| file.get(at..));
            let Some(header) = header else { return Some(Err(CUT_OFF)) };
            match u32_at(header, 0) {
                Some(LOAD) => segment(file, header).transpose(),
                Some(_) => None,
                None => Some(Err(CUT_OFF)),
            }
        })
    }

    /// Copies the segments into `memory`, which is [`Image::size`] zeroed bytes.
    pub fn load(&self, memory: &mut [u8]) -> Result<()> {
        for segment in self.segments() {
            let offset = segment.address.checked_sub(self.base).and_then(|at| usize::try_from(at).ok());
            let place = offset.and_then(|at| memory.get_mut(at..)).and_then(|to| to.get_mut(..segment.content.len()));
            place.ok_or(CUT_OFF)?.copy_from_slice(segment.content);
        }
        Ok(())
    }

    /// How the segments are to be mapped when the image is at the physical address `phys`.
    pub fn mappings(&self, phys: u64) -> impl Iterator<Item = Mapping> {
        let base = self.base;
        self.segments().map(move |segment| {
            let virt = segment.address & !PAGE.saturating_sub(1);
            let end = segment.address.saturating_add(segment.size).checked_next_multiple_of(PAGE).unwrap_or(virt);
            Mapping {
                virt,
                phys: phys.saturating_add(virt.saturating_sub(base)),
                length: end.saturating_sub(virt),
                access: Access { write: segment.write, execute: segment.execute, combining: false },
            }
        })
    }

    /// True when `address` is in an executable segment.
    pub fn is_code(&self, address: u64) -> bool {
        self.segments().any(|s| s.execute && address.checked_sub(s.address).is_some_and(|offset| offset < s.size))
    }
}

/// The segment of one program header; `None` when it is empty.
fn segment<'a>(file: &'a [u8], header: &[u8]) -> Result<Option<Segment<'a>>> {
    let number = |at| u64_at(header, at).ok_or(CUT_OFF);
    let flags = u32_at(header, 4).ok_or(CUT_OFF)?;
    let (offset, address, in_file, size) = (number(8)?, number(16)?, number(32)?, number(40)?);
    if size == 0 {
        return Ok(None);
    }
    let start = usize::try_from(offset).map_err(|_| CUT_OFF)?;
    let end = offset.checked_add(in_file).and_then(|end| usize::try_from(end).ok()).ok_or(CUT_OFF)?;
    let content = file.get(start..end).filter(|_| in_file <= size).ok_or(CUT_OFF)?;
    Ok(Some(Segment { address, content, size, write: flags & 2 != 0, execute: flags & 1 != 0 }))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An ELF file with the given segments: address, flags, content, size in memory.
    pub(crate) fn elf(segments: &[(u64, u32, &[u8], u64)]) -> Vec<u8> {
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[16..18].copy_from_slice(&2u16.to_le_bytes());
        file[18..20].copy_from_slice(&62u16.to_le_bytes());
        file[24..32].copy_from_slice(&LOWEST.to_le_bytes());
        file[32..40].copy_from_slice(&64u64.to_le_bytes());
        file[54..56].copy_from_slice(&56u16.to_le_bytes());
        file[56..58].copy_from_slice(&(segments.len() as u16).to_le_bytes());
        let mut offset = 64 + 56 * segments.len() as u64;
        for &(address, flags, content, size) in segments {
            file.extend(1u32.to_le_bytes());
            file.extend(flags.to_le_bytes());
            for number in [offset, address, address, content.len() as u64, size, PAGE] {
                file.extend(number.to_le_bytes());
            }
            offset += content.len() as u64;
        }
        for (_, _, content, _) in segments {
            file.extend(*content);
        }
        file
    }

    fn sample() -> Vec<u8> {
        elf(&[(LOWEST, 5, b"code", 4), (LOWEST + 0x1010, 6, b"data", 0x2000), (LOWEST + 0x5000, 4, b"ro", 2)])
    }

    #[test]
    fn segments_are_loaded_and_mapped() {
        let file = sample();
        let image = Image::new(&file).unwrap();
        assert_eq!((image.base, image.size, image.entry), (LOWEST, 0x6000, LOWEST));
        let mut memory = vec![0; image.size as usize];
        image.load(&mut memory).unwrap();
        assert_eq!(&memory[..5], b"code\0");
        assert_eq!(&memory[0x1010..0x1015], b"data\0");
        let mappings: Vec<_> = image.mappings(0x80_0000).collect();
        assert_eq!(mappings.len(), 3);
        assert_eq!((mappings[1].virt, mappings[1].phys, mappings[1].length), (LOWEST + 0x1000, 0x80_1000, 0x3000));
        assert_eq!(mappings[0].access, Access { write: false, execute: true, combining: false });
        assert_eq!(mappings[1].access, Access { write: true, execute: false, combining: false });
        assert_eq!(mappings[2].access, Access { write: false, execute: false, combining: false });
        assert!(image.is_code(LOWEST + 3) && !image.is_code(LOWEST + 4) && !image.is_code(LOWEST + 0x1010));
    }

    #[test]
    fn wrong_files_are_refused_with_the_reason() {
        assert_eq!(Image::new(b"MZ").err(), Some(NOT_ELF));
        assert_eq!(Image::new(&elf(&[])).err(), Some(NO_SEGMENTS));
        assert_eq!(Image::new(&elf(&[(LOWEST, 7, b"", 8)])).err(), Some(WRITABLE_CODE));
        assert_eq!(Image::new(&elf(&[(0x20_0000, 5, b"", 8)])).err(), Some(TOO_LOW));
        assert_eq!(Image::new(&elf(&[(u64::MAX - 2, 5, b"", 8)])).err(), Some(CUT_OFF));
        let mut pie = sample();
        pie[16] = 3;
        assert_eq!(Image::new(&pie).err(), Some(NOT_FIXED));
    }

    #[test]
    fn every_cut_is_refused() {
        let file = sample();
        for cut in 0..file.len() {
            assert!(Image::new(&file[..cut]).is_err(), "cut at {cut}");
        }
    }
}
