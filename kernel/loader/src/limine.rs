//! The Limine boot protocol, base revision 3: finding the kernel's requests in its image and answering them.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use crate::arena::Arena;
use crate::bytes::{put_u64, u64_at};
use crate::memory_map::MemoryMap;
use crate::multiboot2::{Firmware, Framebuffer};
use crate::{HHDM, Refusal, Result};

/// The base revision spoken here.
pub const BASE_REVISION: u64 = 3;

const BASE_TAG: [u64; 2] = [0xf956_2b2d_5c95_a6c8, 0x6a7b_3849_4453_6bdc];
const START_MARKER: [u64; 4] =
    [0xf6b8_f4b3_9de7_d1ae, 0xfab9_1a69_40fc_b9cf, 0x785c_6ed0_15d3_e316, 0x181e_920a_7852_b9d9];
const END_MARKER: [u64; 2] = [0xadc0_e053_1bb1_0d03, 0x9572_709f_3176_4c62];
const REQUEST: [u64; 2] = [0xc7b1_dd30_df4c_8b88, 0x0a82_e883_a194_f07b];

const TWICE: Refusal = Refusal("The kernel makes one request of the boot protocol twice.");
const NO_REVISION: Refusal =
    Refusal("The kernel asks for base revision 0 to 2 of the Limine boot protocol; this loader speaks revision 3.");
const FIVE_LEVELS: Refusal = Refusal("The kernel insists on five-level page tables; this loader makes four levels.");
const OUTSIDE: Refusal = Refusal("A request of the kernel reaches past the end of its image.");

/// The features answered here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feature {
    BootloaderInfo,
    FirmwareType,
    StackSize,
    Hhdm,
    Framebuffer,
    PagingMode,
    MemoryMap,
    EntryPoint,
    ExecutableFile,
    Modules,
    Rsdp,
    EfiSystemTable,
    BootTime,
    ExecutableAddress,
    CommandLine,
}

/// The second half of every feature's id.
const FEATURES: [(Feature, [u64; 2]); 15] = [
    (Feature::BootloaderInfo, [0xf550_38d8_e2a1_202f, 0x2794_26fc_f5f5_9740]),
    (Feature::FirmwareType, [0x8c2f_75d9_0bef_28a8, 0x7045_a468_8eac_00c3]),
    (Feature::StackSize, [0x224e_f046_0a8e_8926, 0xe1cb_0fc2_5f46_ea3d]),
    (Feature::Hhdm, [0x48dc_f1cb_8ad2_b852, 0x6398_4e95_9a98_244b]),
    (Feature::Framebuffer, [0x9d58_27dc_d881_dd75, 0xa314_8604_f6fa_b11b]),
    (Feature::PagingMode, [0x95c1_a0ed_ab09_44cb, 0xa4e5_cb38_42f7_488a]),
    (Feature::MemoryMap, [0x67cf_3d9d_378a_806f, 0xe304_acdf_c50c_3c62]),
    (Feature::EntryPoint, [0x13d8_6c03_5a1c_d3e1, 0x2b0c_aa89_d8f3_026a]),
    (Feature::ExecutableFile, [0xad97_e90e_83f1_ed67, 0x31eb_5d1c_5ff2_3b69]),
    (Feature::Modules, [0x3e7e_2797_02be_32af, 0xca1c_4f3b_d128_0cee]),
    (Feature::Rsdp, [0xc5e7_7b6b_397e_7b43, 0x2763_7845_accd_cf3c]),
    (Feature::EfiSystemTable, [0x5ceb_a516_3eaa_f6d6, 0x0a69_8161_0cf6_5fcc]),
    (Feature::BootTime, [0x5027_46e1_84c0_88aa, 0xfbc5_ec83_e632_7893]),
    (Feature::ExecutableAddress, [0x71ba_7686_3cc5_5f63, 0xb264_4a48_c516_a487]),
    (Feature::CommandLine, [0x4b16_1536_e598_651e, 0xb390_ad4a_2f1f_303a]),
];

/// A file in memory.
#[derive(Debug, Clone, Copy)]
pub struct File<'a> {
    /// Physical address, page aligned.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
    /// Its name below `/boot/`.
    pub name: &'a [u8],
    /// The string that belongs to it.
    pub text: &'a [u8],
}

/// Everything the answers are made of.
pub struct Facts<'a> {
    /// The kernel's file; its text is the kernel's command line.
    pub kernel: File<'a>,
    /// Where the kernel's image is: physical and virtual address.
    pub placed: (u64, u64),
    /// The modules passed to the kernel.
    pub modules: &'a [File<'a>],
    /// The final memory map.
    pub memory: &'a MemoryMap,
    /// Physical address of ACPI's root pointer.
    pub rsdp: Option<u64>,
    /// The framebuffer, if the firmware gave one.
    pub framebuffer: Option<Framebuffer>,
    /// The firmware.
    pub firmware: Firmware,
    /// Physical address of the UEFI system table.
    pub efi_system_table: Option<u64>,
    /// Seconds since 1970 at boot.
    pub boot_time: Option<i64>,
}

/// The requests found in a kernel's image.
#[derive(Debug, Default)]
pub struct Requests {
    /// Offset of each feature's request, in the order of `FEATURES`.
    found: [Option<usize>; FEATURES.len()],
    base_tag: Option<usize>,
}

fn matches(image: &[u8], at: usize, words: &[u64]) -> bool {
    words.iter().enumerate().all(|(index, &word)| number(image, at, index) == Some(word))
}

/// The 64-bit number `index` places after `at`.
fn number(image: &[u8], at: usize, index: usize) -> Option<u64> {
    u64_at(image, index.checked_mul(8)?.checked_add(at)?)
}

impl Requests {
    /// Looks for requests at every eighth byte of the loaded image, between the markers if there are any.
    pub fn find(image: &[u8]) -> Result<Self> {
        let places = || (0..image.len()).step_by(8);
        let start = places().rfind(|&at| matches(image, at, &START_MARKER)).unwrap_or(0);
        let end = places().find(|&at| at >= start && matches(image, at, &END_MARKER)).unwrap_or(image.len());
        let mut requests = Self::default();
        for at in places().filter(|at| (start..end).contains(at)) {
            if matches(image, at, &BASE_TAG) && requests.base_tag.replace(at).is_some() {
                return Err(TWICE);
            }
            if !matches(image, at, &REQUEST) {
                continue;
            }
            let id = [number(image, at, 2), number(image, at, 3)].map(|half| half.unwrap_or(0));
            let known = FEATURES.iter().zip(&mut requests.found).find(|((_, known), _)| *known == id);
            if let Some((_, slot)) = known
                && slot.replace(at).is_some()
            {
                return Err(TWICE);
            }
        }
        Ok(requests)
    }

    fn place(&self, feature: Feature) -> Option<usize> {
        FEATURES.iter().zip(&self.found).find(|((known, _), _)| *known == feature).and_then(|(_, place)| *place)
    }

    /// The size of the stack the kernel wants, in bytes; at least 64 KiB.
    pub fn stack_size(&self, image: &[u8]) -> u64 {
        const LEAST: u64 = 64 << 10;
        self.place(Feature::StackSize).and_then(|at| number(image, at, 6)).unwrap_or(0).max(LEAST)
    }

    /// Where the kernel wants to be entered, if it says so.
    pub fn entry_point(&self, image: &[u8]) -> Option<u64> {
        self.place(Feature::EntryPoint).and_then(|at| number(image, at, 6))
    }

    /// Marks the base revision and answers every request that was found. Requests without an answer (no framebuffer,
    /// no ACPI) are left unchanged, which the protocol defines as no.
    pub fn answer(&self, image: &mut [u8], facts: &Facts, arena: &mut Arena) -> Result<()> {
        self.answer_base_revision(image)?;
        for ((feature, _), place) in FEATURES.iter().zip(&self.found) {
            let Some(at) = *place else { continue };
            if let Some(response) = respond(*feature, image, at, facts, arena)? {
                let field = at.checked_add(40).ok_or(OUTSIDE)?;
                if !put_u64(image, field, response) {
                    return Err(OUTSIDE);
                }
            }
        }
        Ok(())
    }

    fn answer_base_revision(&self, image: &mut [u8]) -> Result<()> {
        let at = self.base_tag.ok_or(NO_REVISION)?;
        let wanted = number(image, at, 2).ok_or(OUTSIDE)?;
        if wanted < BASE_REVISION {
            return Err(NO_REVISION);
        }
        let (used, answer) = (at.checked_add(8).ok_or(OUTSIDE)?, at.checked_add(16).ok_or(OUTSIDE)?);
        let marked = put_u64(image, used, BASE_REVISION);
        // A kernel of a later revision learns by the untouched third word that it has to make do with this one.
        let answered = wanted != BASE_REVISION || put_u64(image, answer, 0);
        if marked && answered { Ok(()) } else { Err(OUTSIDE) }
    }
}

/// Writes the response of one feature: its address, or `None` without a response.
fn respond(feature: Feature, image: &[u8], at: usize, facts: &Facts, arena: &mut Arena) -> Result<Option<u64>> {
    let response = match feature {
        Feature::BootloaderInfo => {
            let name = arena.put_text(&[b"capOS Multiboot2 loader"])?;
            let version = arena.put_text(&[env!("CARGO_PKG_VERSION").as_bytes()])?;
            arena.put_numbers(&[0, name, version])?
        }
        Feature::FirmwareType => {
            let kind = match facts.firmware {
                Firmware::Bios => 0,
                Firmware::Uefi32 => 1,
                Firmware::Uefi64 => 2,
            };
            arena.put_numbers(&[0, kind])?
        }
        Feature::StackSize | Feature::EntryPoint => arena.put_numbers(&[0])?,
        Feature::Hhdm => arena.put_numbers(&[0, HHDM])?,
        Feature::Framebuffer => {
            let Some(framebuffer) = facts.framebuffer else { return Ok(None) };
            put_framebuffer(&framebuffer, arena)?
        }
        Feature::PagingMode => {
            let revision = number(image, at, 4).unwrap_or(0);
            let least = number(image, at, 8).filter(|_| revision >= 1).unwrap_or(0);
            if least > 0 {
                return Err(FIVE_LEVELS);
            }
            arena.put_numbers(&[0, 0])?
        }
        Feature::MemoryMap => put_memory_map(facts.memory, arena)?,
        Feature::ExecutableFile => {
            let file = put_file(&facts.kernel, arena)?;
            arena.put_numbers(&[0, file])?
        }
        Feature::Modules => put_modules(facts.modules, arena)?,
        Feature::Rsdp => {
            let Some(address) = facts.rsdp else { return Ok(None) };
            // Base revision 3 gives physical addresses here and for the UEFI system table.
            arena.put_numbers(&[0, address])?
        }
        Feature::EfiSystemTable => {
            let Some(address) = facts.efi_system_table else { return Ok(None) };
            arena.put_numbers(&[0, address])?
        }
        Feature::BootTime => {
            let Some(seconds) = facts.boot_time else { return Ok(None) };
            arena.put_numbers(&[0, seconds.cast_unsigned()])?
        }
        Feature::ExecutableAddress => arena.put_numbers(&[0, facts.placed.0, facts.placed.1])?,
        Feature::CommandLine => {
            let text = arena.put_text(&[facts.kernel.text])?;
            arena.put_numbers(&[0, text])?
        }
    };
    Ok(Some(response))
}

fn put_file(file: &File, arena: &mut Arena) -> Result<u64> {
    let path = arena.put_text(&[b"/boot/", file.name])?;
    let text = arena.put_text(&[file.text])?;
    let address = HHDM.saturating_add(file.address);
    // After the strings: medium, network and partition fields, nine words, none of which Multiboot2 has.
    arena.put_numbers(&[0, address, file.size, path, text, 0, 0, 0, 0, 0, 0, 0, 0, 0])
}

fn put_modules(modules: &[File], arena: &mut Arena) -> Result<u64> {
    const MOST: usize = 32;
    let mut pointers = [0; MOST];
    for (module, pointer) in modules.iter().zip(&mut pointers) {
        *pointer = put_file(module, arena)?;
    }
    let used = pointers.get(..modules.len());
    let pointers = arena.put_numbers(used.ok_or(Refusal("More than 32 modules were loaded."))?)?;
    arena.put_numbers(&[0, modules.len() as u64, pointers])
}

fn put_memory_map(map: &MemoryMap, arena: &mut Arena) -> Result<u64> {
    let (mut first, mut count) = (None, 0u64);
    for region in map.regions() {
        // Entries are 24 bytes and the arena aligns to 16: every entry takes 32.
        let address = arena.put_numbers(&[region.base, region.length(), region.kind.limine(), 0])?;
        first.get_or_insert(address);
        count = count.saturating_add(1);
    }
    let first = first.unwrap_or(0);
    let pointers = arena.put(&[])?;
    for index in 0..count {
        let entry = first.saturating_add(index.saturating_mul(32));
        arena.put_number(entry)?;
    }
    arena.put_numbers(&[0, count, pointers])
}

fn put_framebuffer(screen: &Framebuffer, arena: &mut Arena) -> Result<u64> {
    const RGB: u8 = 1;
    let [red, green, blue] = screen.colours;
    let [low, high] = u16::from(screen.bits).to_le_bytes();
    // Bits, memory model, then size and shift of each colour.
    let format = [low, high, RGB, red.1, red.0, green.1, green.0, blue.1];
    let format = u64::from_le_bytes(format);
    let last = u64::from(blue.0);
    let (pitch, width, height) = (u64::from(screen.pitch), u64::from(screen.width), u64::from(screen.height));
    let mode = arena.put_numbers(&[pitch, width, height, format, last])?;
    let modes = arena.put_numbers(&[mode])?;
    let address = HHDM.saturating_add(screen.address);
    let framebuffer = arena.put_numbers(&[address, width, height, pitch, format, last, 0, 0, 1, modes])?;
    let framebuffers = arena.put_numbers(&[framebuffer])?;
    arena.put_numbers(&[1, 1, framebuffers])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_map::Kind;

    const ARENA: u64 = 0x10_0000;

    /// An image of words that contains requests.
    struct Kernel(Vec<u8>);

    impl Kernel {
        fn new(revision: u64) -> Self {
            let mut kernel = Self(vec![0; 16]);
            kernel.words(&[BASE_TAG[0], BASE_TAG[1], revision]);
            kernel
        }

        fn words(&mut self, words: &[u64]) -> usize {
            let at = self.0.len();
            self.0.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            at
        }

        fn request(&mut self, feature: Feature, rest: &[u64]) -> usize {
            let id = FEATURES.iter().find(|(known, _)| *known == feature).unwrap().1;
            let at = self.words(&[REQUEST[0], REQUEST[1], id[0], id[1], 1, 0]);
            self.words(rest);
            at
        }

        fn word(&self, at: usize, index: usize) -> u64 {
            number(&self.0, at, index).unwrap()
        }
    }

    fn answer(kernel: &mut Kernel, change: impl FnOnce(&mut Facts)) -> Result<Vec<u8>> {
        let mut map = MemoryMap::new();
        map.add(0x1000, 0x9e000, Kind::Usable).unwrap();
        map.add(0x10_0000, 0x100_0000, Kind::Usable).unwrap();
        map.claim(ARENA, 0x10000, Kind::BootloaderReclaimable).unwrap();
        let modules = [File { address: 0x80_0000, size: 10240, name: b"boot.tar", text: b"boot.tar" }];
        let mut facts = Facts {
            kernel: File { address: 0x70_0000, size: 7, name: b"kernel", text: b"log=debug" },
            placed: (0x60_0000, crate::image::LOWEST),
            modules: &modules,
            memory: &map,
            rsdp: Some(0xe0000),
            framebuffer: None,
            firmware: Firmware::Uefi64,
            efi_system_table: None,
            boot_time: Some(1_700_000_000),
        };
        change(&mut facts);
        let mut memory = vec![0; 0x10000];
        let requests = Requests::find(&kernel.0)?;
        requests.answer(&mut kernel.0, &facts, &mut Arena::new(&mut memory, ARENA))?;
        Ok(memory)
    }

    fn follow(memory: &[u8], address: u64, index: usize) -> u64 {
        number(memory, (address - HHDM - ARENA) as usize, index).unwrap()
    }

    fn text(memory: &[u8], address: u64) -> &str {
        std::str::from_utf8(crate::bytes::until_zero(&memory[(address - HHDM - ARENA) as usize..])).unwrap()
    }

    #[test]
    fn the_base_revision_is_answered() {
        let mut kernel = Kernel::new(3);
        answer(&mut kernel, |_| ()).unwrap();
        assert_eq!([kernel.word(16, 1), kernel.word(16, 2)], [3, 0]);
        let mut later = Kernel::new(5);
        answer(&mut later, |_| ()).unwrap();
        assert_eq!([later.word(16, 1), later.word(16, 2)], [3, 5]);
        assert_eq!(answer(&mut Kernel::new(2), |_| ()).err(), Some(NO_REVISION));
        assert_eq!(answer(&mut Kernel(vec![0; 64]), |_| ()).err(), Some(NO_REVISION));
    }

    #[test]
    fn modules_carry_address_size_path_and_string() {
        let mut kernel = Kernel::new(3);
        let at = kernel.request(Feature::Modules, &[0, 0]);
        let memory = answer(&mut kernel, |_| ()).unwrap();
        let response = kernel.word(at, 5);
        assert_eq!(follow(&memory, response, 1), 1);
        let file = follow(&memory, follow(&memory, response, 2), 0);
        assert_eq!(follow(&memory, file, 1), HHDM + 0x80_0000);
        assert_eq!(follow(&memory, file, 2), 10240);
        assert_eq!(text(&memory, follow(&memory, file, 3)), "/boot/boot.tar");
        assert_eq!(text(&memory, follow(&memory, file, 4)), "boot.tar");
    }

    #[test]
    fn the_memory_map_is_an_array_of_pointers() {
        let mut kernel = Kernel::new(3);
        let at = kernel.request(Feature::MemoryMap, &[]);
        let memory = answer(&mut kernel, |_| ()).unwrap();
        let (count, entries) = (follow(&memory, kernel.word(at, 5), 1), follow(&memory, kernel.word(at, 5), 2));
        let shown: Vec<_> = (0..count as usize)
            .map(|index| {
                let entry = follow(&memory, entries, index);
                [0, 1, 2].map(|field| follow(&memory, entry, field))
            })
            .collect();
        assert_eq!(shown, [[0x1000, 0x9e000, 0], [ARENA, 0x10000, 5], [0x11_0000, 0xff_0000, 0]]);
    }

    #[test]
    fn every_feature_gets_an_answer_or_none() {
        let mut kernel = Kernel::new(3);
        let places: Vec<_> = FEATURES.iter().map(|(feature, _)| kernel.request(*feature, &[0, 0, 0])).collect();
        let memory = answer(&mut kernel, |_| ()).unwrap();
        for ((feature, _), at) in FEATURES.iter().zip(&places) {
            let silent = matches!(feature, Feature::Framebuffer | Feature::EfiSystemTable);
            assert_eq!(kernel.word(*at, 5) == 0, silent, "{feature:?}");
        }
        let word = |feature, index| {
            let at = places[FEATURES.iter().position(|(known, _)| *known == feature).unwrap()];
            follow(&memory, kernel.word(at, 5), index)
        };
        assert_eq!(word(Feature::Hhdm, 1), HHDM);
        assert_eq!(word(Feature::Rsdp, 1), 0xe0000);
        assert_eq!(word(Feature::FirmwareType, 1), 2);
        assert_eq!(word(Feature::BootTime, 1), 1_700_000_000);
        assert_eq!([1, 2].map(|i| word(Feature::ExecutableAddress, i)), [0x60_0000, crate::image::LOWEST]);
        assert_eq!(text(&memory, word(Feature::CommandLine, 1)), "log=debug");
        assert_eq!(follow(&memory, word(Feature::ExecutableFile, 1), 1), HHDM + 0x70_0000);
    }

    #[test]
    fn a_framebuffer_is_described_with_its_mode() {
        let mut kernel = Kernel::new(3);
        let at = kernel.request(Feature::Framebuffer, &[]);
        let colours = [(16, 8), (8, 7), (0, 6)];
        let memory = answer(&mut kernel, |facts| {
            let (address, pitch, width, height) = (0xfd00_0000, 4096, 1024, 768);
            facts.framebuffer = Some(Framebuffer { address, pitch, width, height, bits: 32, colours });
        })
        .unwrap();
        let screen = follow(&memory, follow(&memory, kernel.word(at, 5), 2), 0);
        assert_eq!([0, 1, 2, 3].map(|i| follow(&memory, screen, i)), [HHDM + 0xfd00_0000, 1024, 768, 4096]);
        assert_eq!(follow(&memory, screen, 4).to_le_bytes(), [32, 0, 1, 8, 16, 7, 8, 6]);
        assert_eq!(follow(&memory, follow(&memory, follow(&memory, screen, 9), 0), 1), 1024);
    }

    #[test]
    fn requests_outside_the_markers_do_not_count() {
        let mut kernel = Kernel(vec![]);
        let before = kernel.request(Feature::Hhdm, &[]);
        kernel.words(&START_MARKER);
        kernel.words(&[BASE_TAG[0], BASE_TAG[1], 3]);
        let inside = kernel.request(Feature::Hhdm, &[]);
        kernel.words(&END_MARKER);
        let after = kernel.request(Feature::Rsdp, &[]);
        answer(&mut kernel, |_| ()).unwrap();
        assert_eq!([before, after].map(|at| kernel.word(at, 5)), [0, 0]);
        assert_ne!(kernel.word(inside, 5), 0);
    }

    #[test]
    fn a_request_made_twice_and_five_levels_are_refused() {
        let mut kernel = Kernel::new(3);
        kernel.request(Feature::Hhdm, &[]);
        kernel.request(Feature::Hhdm, &[]);
        assert_eq!(answer(&mut kernel, |_| ()).err(), Some(TWICE));
        let mut kernel = Kernel::new(3);
        kernel.request(Feature::PagingMode, &[1, 1, 1]);
        assert_eq!(answer(&mut kernel, |_| ()).err(), Some(FIVE_LEVELS));
    }

    #[test]
    fn stack_and_entry_are_what_the_kernel_asks_for() {
        let mut kernel = Kernel::new(3);
        kernel.request(Feature::StackSize, &[1 << 20]);
        kernel.request(Feature::EntryPoint, &[0xffff_ffff_8000_1234]);
        let requests = Requests::find(&kernel.0).unwrap();
        assert_eq!(requests.stack_size(&kernel.0), 1 << 20);
        assert_eq!(requests.entry_point(&kernel.0), Some(0xffff_ffff_8000_1234));
        assert_eq!(Requests::default().stack_size(&[]), 64 << 10);
    }
}
