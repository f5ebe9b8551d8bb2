//! The Multiboot2 information structure, read from untrusted bytes.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use crate::bytes::{array, u8_at, u16_at, u32_at, u64_at, until_zero};
use crate::{Refusal, Result};

/// The value that a Multiboot2 loader leaves in `eax`.
pub const MAGIC: u32 = 0x36d7_6289;

const CUT_OFF: Refusal = Refusal("The boot loader's Multiboot2 information is cut off in the middle of a tag.");

/// Memory type of Multiboot2 for ordinary memory.
pub const MEMORY_AVAILABLE: u32 = 1;
/// Memory holding ACPI tables, free once they are read.
pub const MEMORY_ACPI: u32 = 3;
/// Memory ACPI needs preserved.
pub const MEMORY_NVS: u32 = 4;
/// Defective memory.
pub const MEMORY_BAD: u32 = 5;

/// A file that the boot loader loaded into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module<'a> {
    /// Physical address of the first byte.
    pub start: u64,
    /// Size in bytes.
    pub size: u64,
    /// The string given to it in the boot configuration; its first word is its name.
    pub text: &'a [u8],
}

impl<'a> Module<'a> {
    /// The first word of the module's string.
    pub fn name(&self) -> &'a [u8] {
        self.text.split(|&byte| byte == b' ').next().unwrap_or(self.text)
    }
}

/// One line of the firmware's memory map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryEntry {
    /// First physical address.
    pub base: u64,
    /// Length in bytes.
    pub length: u64,
    /// Multiboot2's memory type.
    pub kind: u32,
}

/// A linear framebuffer with direct colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framebuffer {
    /// Physical address of the first pixel.
    pub address: u64,
    /// Bytes from a line to the next.
    pub pitch: u32,
    /// Pixels in a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// Bits of a pixel.
    pub bits: u8,
    /// Shift and size of red, green and blue, in bits.
    pub colours: [(u8, u8); 3],
}

/// Which firmware started the boot loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Firmware {
    /// A PC BIOS.
    Bios,
    /// UEFI of 32 bits.
    Uefi32,
    /// UEFI of 64 bits.
    Uefi64,
}

/// The information structure, its tags already known to be within it.
#[derive(Debug, Clone, Copy)]
pub struct Information<'a> {
    tags: &'a [u8],
}

/// One tag: its type and its bytes after the 8-byte tag header.
#[derive(Debug, Clone, Copy)]
struct Tag<'a> {
    kind: u32,
    body: &'a [u8],
}

struct Tags<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Tags<'a> {
    type Item = Result<Tag<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let rest = core::mem::take(&mut self.rest);
        let parsed = || -> Option<(Tag<'a>, &'a [u8])> {
            let kind = u32_at(rest, 0)?;
            let size = usize::try_from(u32_at(rest, 4)?).ok()?;
            let body = rest.get(8..size)?;
            let next = rest.get(size.checked_next_multiple_of(8)?..).unwrap_or(&[]);
            Some((Tag { kind, body }, next))
        };
        match parsed() {
            None => Some(Err(CUT_OFF)),
            Some((Tag { kind: 0, .. }, _)) => None,
            Some((tag, next)) => {
                self.rest = next;
                Some(Ok(tag))
            }
        }
    }
}

impl<'a> Information<'a> {
    /// Size in bytes that the structure beginning with these 8 bytes claims.
    pub fn stated_size(head: &[u8]) -> Option<usize> {
        usize::try_from(u32_at(head, 0)?).ok().filter(|&size| size >= 16)
    }

    /// Reads a structure of exactly its stated size, refusing it when a tag reaches past its end.
    pub fn new(bytes: &'a [u8]) -> Result<Self> {
        let tags = bytes.get(8..).ok_or(CUT_OFF)?;
        let information = Self { tags };
        for tag in information.tags() {
            tag?;
        }
        Ok(information)
    }

    fn tags(&self) -> Tags<'a> {
        Tags { rest: self.tags }
    }

    fn bodies(&self, kind: u32) -> impl Iterator<Item = &'a [u8]> {
        self.tags().flatten().filter(move |tag| tag.kind == kind).map(|tag| tag.body)
    }

    /// The command line given to the loader, without its closing zero.
    pub fn command_line(&self) -> &'a [u8] {
        self.bodies(1).next().map_or(&[], until_zero)
    }

    /// The modules in the order of the boot configuration.
    pub fn modules(&self) -> impl Iterator<Item = Module<'a>> {
        self.bodies(3).filter_map(|body| {
            let start = u64::from(u32_at(body, 0)?);
            let size = u64::from(u32_at(body, 4)?).checked_sub(start)?;
            Some(Module { start, size, text: until_zero(body.get(8..)?) })
        })
    }

    /// The firmware's memory map; empty when there is none.
    pub fn memory(&self) -> impl Iterator<Item = MemoryEntry> {
        self.bodies(6).flat_map(|body| {
            let size = u32_at(body, 0).and_then(|size| usize::try_from(size).ok()).filter(|&size| size >= 20);
            let entries = body.get(8..).unwrap_or(&[]);
            entries.chunks_exact(size.unwrap_or(usize::MAX)).filter_map(|entry| {
                Some(MemoryEntry { base: u64_at(entry, 0)?, length: u64_at(entry, 8)?, kind: u32_at(entry, 16)? })
            })
        })
    }

    /// The framebuffer, when it is one with direct colours.
    pub fn framebuffer(&self) -> Option<Framebuffer> {
        const DIRECT_COLOURS: u8 = 1;
        let body = self.bodies(8).find(|body| u8_at(body, 21) == Some(DIRECT_COLOURS))?;
        let colour = |at| -> Option<(u8, u8)> { array(body, at).map(|[shift, size]: [u8; 2]| (shift, size)) };
        // Two reserved bytes follow the type.
        u16_at(body, 22)?;
        let found = Framebuffer {
            address: u64_at(body, 0)?,
            pitch: u32_at(body, 8)?,
            width: u32_at(body, 12)?,
            height: u32_at(body, 16)?,
            bits: u8_at(body, 20)?,
            colours: [colour(24)?, colour(26)?, colour(28)?],
        };
        (found.address != 0 && found.pitch != 0 && found.width != 0 && found.height != 0).then_some(found)
    }

    /// The root pointer of ACPI, preferring the newer form.
    pub fn rsdp(&self) -> Option<&'a [u8]> {
        self.bodies(15).next().or_else(|| self.bodies(14).next())
    }

    /// The firmware that started the boot loader.
    pub fn firmware(&self) -> Firmware {
        if self.bodies(12).next().is_some() {
            Firmware::Uefi64
        } else if self.bodies(11).next().is_some() {
            Firmware::Uefi32
        } else {
            Firmware::Bios
        }
    }

    /// Physical address of the UEFI system table.
    pub fn efi_system_table(&self) -> Option<u64> {
        self.bodies(12).next().and_then(|body| u64_at(body, 0))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Builds an information structure out of tags.
    pub(crate) fn information(tags: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        for (kind, body) in tags.iter().chain([&(0, Vec::new())]) {
            bytes.extend(kind.to_le_bytes());
            bytes.extend((body.len() as u32 + 8).to_le_bytes());
            bytes.extend(body);
            bytes.resize(bytes.len().next_multiple_of(8), 0xaa);
        }
        let size = bytes.len() as u32;
        bytes[..4].copy_from_slice(&size.to_le_bytes());
        bytes
    }

    pub(crate) fn module(start: u32, end: u32, text: &str) -> (u32, Vec<u8>) {
        let mut body = [start.to_le_bytes(), end.to_le_bytes()].concat();
        body.extend(text.as_bytes());
        body.push(0);
        (3, body)
    }

    #[test]
    fn modules_command_line_and_memory() {
        let mut map = [24u32.to_le_bytes(), 0u32.to_le_bytes()].concat();
        for (base, length, kind) in [(0u64, 0x9fc00u64, 1u32), (0xfffc_0000, 0x40000, 2)] {
            map.extend(base.to_le_bytes());
            map.extend(length.to_le_bytes());
            map.extend(kind.to_le_bytes());
            map.extend([0; 4]);
        }
        let bytes = information(&[
            (1, b"quiet x=1\0".to_vec()),
            module(0x1000, 0x1801, "kernel a b"),
            module(0x3000, 0x3000, "boot.tar"),
            (6, map),
            (12, 7u64.to_le_bytes().to_vec()),
        ]);
        assert_eq!(Information::stated_size(&bytes), Some(bytes.len()));
        let found = Information::new(&bytes).unwrap();
        assert_eq!(found.command_line(), b"quiet x=1");
        let modules: Vec<_> = found.modules().collect();
        assert_eq!(modules.len(), 2);
        assert_eq!((modules[0].start, modules[0].size, modules[0].name()), (0x1000, 0x801, b"kernel".as_slice()));
        assert_eq!((modules[1].size, modules[1].name()), (0, b"boot.tar".as_slice()));
        let memory: Vec<_> = found.memory().collect();
        assert_eq!(memory.len(), 2);
        assert_eq!(memory[1], MemoryEntry { base: 0xfffc_0000, length: 0x40000, kind: 2 });
        assert_eq!(found.firmware(), Firmware::Uefi64);
        assert_eq!(found.rsdp(), None);
        assert_eq!(found.framebuffer(), None);
    }

    #[test]
    fn a_framebuffer_of_direct_colours() {
        let mut body = 0xfd00_0000u64.to_le_bytes().to_vec();
        for number in [4096u32, 1024, 768] {
            body.extend(number.to_le_bytes());
        }
        body.extend([32, 1, 0, 0, 16, 8, 8, 8, 0, 8]);
        let bytes = information(&[(8, body.clone())]);
        let found = Information::new(&bytes).unwrap().framebuffer().unwrap();
        assert_eq!((found.address, found.width, found.height), (0xfd00_0000, 1024, 768));
        assert_eq!(found.colours, [(16, 8), (8, 8), (0, 8)]);
        body[21] = 2;
        let bytes = information(&[(8, body)]);
        assert_eq!(Information::new(&bytes).unwrap().framebuffer(), None);
    }

    #[test]
    fn every_cut_is_refused_or_read_without_the_missing_part() {
        let bytes = information(&[(1, b"some text\0".to_vec()), module(1, 2, "m")]);
        for cut in 0..bytes.len() {
            if let Ok(found) = Information::new(&bytes[..cut]) {
                assert!(found.command_line().len() <= 9);
                let _ = found.modules().count();
            }
        }
        assert!(Information::new(&bytes[..20]).is_err());
    }

    #[test]
    fn a_tag_shorter_than_its_header_is_refused() {
        let mut bytes = information(&[(1, vec![0])]);
        bytes[12..16].copy_from_slice(&4u32.to_le_bytes());
        assert!(Information::new(&bytes).is_err());
    }
}
