//! The map of physical memory: the firmware's, overlaid with the loader's own ranges, and allocation from it.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use crate::{PAGE, Refusal, Result};

/// The kind of a memory range, in the order of precedence if ranges overlap: the later wins. The numbers of the Limine
/// protocol are [`Kind::limine`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Free memory.
    Usable,
    /// Holds the handover; the kernel may reuse it once it has read it.
    BootloaderReclaimable,
    /// The kernel's image or a module.
    KernelAndModules,
    /// ACPI tables.
    AcpiReclaimable,
    /// ACPI non-volatile storage.
    AcpiNvs,
    /// Not memory for the kernel.
    Reserved,
    /// A framebuffer; firmware often counts it among what is reserved.
    Framebuffer,
    /// Defective memory.
    Bad,
}

impl Kind {
    /// The kind a Multiboot2 memory type stands for. Unknown types are reserved.
    pub fn from_multiboot2(kind: u32) -> Self {
        match kind {
            crate::multiboot2::MEMORY_AVAILABLE => Self::Usable,
            crate::multiboot2::MEMORY_ACPI => Self::AcpiReclaimable,
            crate::multiboot2::MEMORY_NVS => Self::AcpiNvs,
            crate::multiboot2::MEMORY_BAD => Self::Bad,
            _ => Self::Reserved,
        }
    }

    /// The number of this kind in the Limine protocol.
    pub fn limine(self) -> u64 {
        match self {
            Self::Usable => 0,
            Self::Reserved => 1,
            Self::AcpiReclaimable => 2,
            Self::AcpiNvs => 3,
            Self::Bad => 4,
            Self::BootloaderReclaimable => 5,
            Self::KernelAndModules => 6,
            Self::Framebuffer => 7,
        }
    }
}

/// A range of one kind: page aligned, not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// First physical address.
    pub base: u64,
    /// First address after it.
    pub end: u64,
    /// What it is.
    pub kind: Kind,
}

impl Region {
    const EMPTY: Self = Self { base: 0, end: 0, kind: Kind::Reserved };

    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.end.saturating_sub(self.base)
    }
}

/// How many ranges a map holds. Firmware of large servers reports some two hundred.
pub const CAPACITY: usize = 1024;

const TOO_MANY: Refusal = Refusal("The firmware's memory map has more ranges than the loader can hold.");

/// Disjoint ranges in ascending order.
#[derive(Debug, Clone)]
pub struct MemoryMap {
    regions: [Region; CAPACITY],
    count: usize,
}

impl Default for MemoryMap {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryMap {
    /// A map without any memory.
    pub const fn new() -> Self {
        Self { regions: [Region::EMPTY; CAPACITY], count: 0 }
    }

    /// The ranges, ascending, disjoint, neighbours of one kind joined.
    pub fn regions(&self) -> &[Region] {
        self.regions.get(..self.count).unwrap_or(&[])
    }

    /// Adds the firmware's entry of `length` bytes at `base`. Usable memory is cut to whole pages, everything else is
    /// widened to them, so that no partly free page is allocated.
    pub fn add(&mut self, base: u64, length: u64, kind: Kind) -> Result<()> {
        let end = base.saturating_add(length);
        let (base, end) = if kind == Kind::Usable {
            (base.checked_next_multiple_of(PAGE), Some(round_down(end)))
        } else {
            (Some(round_down(base)), Some(end.checked_next_multiple_of(PAGE).unwrap_or(round_down(u64::MAX))))
        };
        match (base, end) {
            (Some(base), Some(end)) if base < end && length > 0 => self.overlay(Region { base, end, kind }),
            _ => Ok(()),
        }
    }

    /// Marks `length` bytes at `base`, widened to whole pages, as taken; only usable memory changes.
    pub fn claim(&mut self, base: u64, length: u64, kind: Kind) -> Result<()> {
        let (from, to) = (round_down(base), base.saturating_add(length).saturating_add(PAGE.saturating_sub(1)));
        let to = round_down(to);
        let mut at = 0;
        while let Some(region) = self.regions().get(at).copied() {
            let (base, end) = (region.base.max(from), region.end.min(to));
            // A stronger kind stays what it is: `overlay` sees to that.
            if region.kind == Kind::Usable && base < end {
                self.overlay(Region { base, end, kind })?;
            }
            at = at.saturating_add(1);
        }
        Ok(())
    }

    /// Takes `length` bytes at a multiple of `align` (a power of two, at least a page) out of the usable memory
    /// below `below`, as high as they fit, and marks them `kind`. Low memory, which firmware and other processors'
    /// start code care about, is left alone.
    pub fn allocate(&mut self, length: u64, align: u64, below: u64, kind: Kind) -> Option<u64> {
        const FIRST: u64 = 1 << 20;
        let length = length.checked_next_multiple_of(PAGE).filter(|&length| length > 0)?;
        let mask = align.max(PAGE).checked_sub(1)?;
        let base = self.regions().iter().rev().filter(|region| region.kind == Kind::Usable).find_map(|region| {
            let base = region.end.min(below).checked_sub(length)? & !mask;
            (base >= region.base.max(FIRST)).then_some(base)
        })?;
        self.claim(base, length, kind).ok()?;
        Some(base)
    }

    /// The end of the last range that is memory of any use: everything but reserved and bad ranges.
    pub fn top(&self) -> u64 {
        let counts = |kind| !matches!(kind, Kind::Reserved | Kind::Bad);
        self.regions().iter().filter(|region| counts(region.kind)).map(|region| region.end).max().unwrap_or(0)
    }

    /// Bytes of one kind.
    pub fn total(&self, kind: Kind) -> u64 {
        self.regions().iter().filter(|r| r.kind == kind).fold(0, |sum, r| sum.saturating_add(r.length()))
    }

    /// Puts `new` in, the stronger kind winning where it overlaps what is there.
    fn overlay(&mut self, new: Region) -> Result<()> {
        // The old ranges move to the back of a copy; the result is written from the front.
        let old = core::mem::take(self);
        let mut rest = new;
        for &region in old.regions() {
            if region.end <= rest.base || region.base >= rest.end {
                // Disjoint; but the rest of the new range must be inserted before a later one.
                if rest.base < rest.end && region.base >= rest.end {
                    self.push(rest)?;
                    rest.base = rest.end;
                }
                self.push(region)?;
                continue;
            }
            if region.base < rest.base {
                self.push(Region { end: rest.base, ..region })?;
            }
            if rest.base < region.base {
                self.push(Region { end: region.base, ..rest })?;
            }
            let overlap = Region {
                base: region.base.max(rest.base),
                end: region.end.min(rest.end),
                kind: region.kind.max(rest.kind),
            };
            self.push(overlap)?;
            rest.base = overlap.end;
            if region.end > overlap.end {
                self.push(Region { base: overlap.end, ..region })?;
            }
        }
        if rest.base < rest.end {
            self.push(rest)?;
        }
        Ok(())
    }

    fn push(&mut self, region: Region) -> Result<()> {
        if let Some(last) = self.count.checked_sub(1).and_then(|at| self.regions.get_mut(at))
            && last.kind == region.kind
            && last.end == region.base
        {
            last.end = region.end;
            return Ok(());
        }
        *self.regions.get_mut(self.count).ok_or(TOO_MANY)? = region;
        self.count = self.count.saturating_add(1);
        Ok(())
    }
}

fn round_down(address: u64) -> u64 {
    address & !(PAGE.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(map: &MemoryMap) -> Vec<(u64, u64, Kind)> {
        for pair in map.regions().windows(2) {
            assert!(pair[0].end <= pair[1].base, "{pair:x?}");
            assert!(pair[0].end < pair[1].base || pair[0].kind != pair[1].kind, "{pair:x?}");
        }
        assert!(map.regions().iter().all(|r| r.base < r.end && r.base % PAGE == 0 && r.end % PAGE == 0));
        map.regions().iter().map(|r| (r.base, r.end, r.kind)).collect()
    }

    fn pc() -> MemoryMap {
        let mut map = MemoryMap::new();
        map.add(0x10_0000, 0xfe0_0000 - 0x10_0000, Kind::Usable).unwrap();
        map.add(0, 0x9fc00, Kind::Usable).unwrap();
        map.add(0x9fc00, 0x400, Kind::Reserved).unwrap();
        map.add(0xf0000, 0x10000, Kind::Reserved).unwrap();
        map.add(0xffe_0000, 0x2_0000, Kind::Reserved).unwrap();
        map.add(0, 0x1000, Kind::Reserved).unwrap();
        map
    }

    #[test]
    fn the_firmware_map_is_sorted_and_paged() {
        assert_eq!(
            shown(&pc()),
            [
                (0, 0x1000, Kind::Reserved),
                (0x1000, 0x9f000, Kind::Usable),
                (0x9f000, 0xa0000, Kind::Reserved),
                (0xf0000, 0x10_0000, Kind::Reserved),
                (0x10_0000, 0xfe0_0000, Kind::Usable),
                (0xffe_0000, 0x1000_0000, Kind::Reserved),
            ]
        );
    }

    #[test]
    fn overlaps_go_to_the_stronger_kind_in_any_order() {
        let ranges = [
            (0x1000, 0x9000, Kind::Usable),
            (0x3000, 0x2000, Kind::AcpiReclaimable),
            (0x4800, 0x1000, Kind::Reserved),
            (0x8000, 0x4000, Kind::Bad),
        ];
        let expected = [
            (0x1000, 0x3000, Kind::Usable),
            (0x3000, 0x4000, Kind::AcpiReclaimable),
            (0x4000, 0x6000, Kind::Reserved),
            (0x6000, 0x8000, Kind::Usable),
            (0x8000, 0xc000, Kind::Bad),
        ];
        for turn in 0..ranges.len() {
            let mut map = MemoryMap::new();
            for step in 0..ranges.len() {
                let (base, length, kind) = ranges[(turn + step) % ranges.len()];
                map.add(base, length, kind).unwrap();
            }
            assert_eq!(shown(&map), expected, "starting with range {turn}");
        }
    }

    #[test]
    fn a_claim_changes_usable_memory_only() {
        let mut map = pc();
        map.claim(0x9e800, 0x1000, Kind::KernelAndModules).unwrap();
        assert!(shown(&map).contains(&(0x9e000, 0x9f000, Kind::KernelAndModules)));
        assert!(shown(&map).contains(&(0x9f000, 0xa0000, Kind::Reserved)));
        let free = map.total(Kind::Usable);
        map.claim(0x20_0000, 0x1801, Kind::BootloaderReclaimable).unwrap();
        assert_eq!(map.total(Kind::Usable), free - 0x2000);
        // A second claim of the same bytes changes nothing.
        map.claim(0x20_0000, 0x1801, Kind::KernelAndModules).unwrap();
        assert_eq!(map.total(Kind::BootloaderReclaimable), 0x2000);
    }

    #[test]
    fn allocation_is_aligned_high_and_never_given_twice() {
        let mut map = pc();
        map.add(1 << 32, 1 << 30, Kind::Usable).unwrap();
        let first = map.allocate(0x1001, 1 << 21, 1 << 32, Kind::KernelAndModules).unwrap();
        assert_eq!(first, 0xfc0_0000);
        let second = map.allocate(PAGE, PAGE, 1 << 32, Kind::BootloaderReclaimable).unwrap();
        assert_eq!(second, 0xfdf_f000);
        let mut seen = vec![second];
        while let Some(base) = map.allocate(1 << 20, PAGE, 1 << 32, Kind::BootloaderReclaimable) {
            assert!(base >= 1 << 20 && base + (1 << 20) <= 1 << 32);
            assert!(seen.iter().all(|&other: &u64| base.abs_diff(other) >= 1 << 20 || other == second));
            seen.push(base);
        }
        assert!(seen.len() > 200);
        shown(&map);
    }

    #[test]
    fn memory_at_the_end_of_the_address_space_does_not_wrap() {
        let mut map = MemoryMap::new();
        map.add(u64::MAX - 10, 100, Kind::Reserved).unwrap();
        map.add(u64::MAX - 0x5000, u64::MAX, Kind::Usable).unwrap();
        map.claim(u64::MAX - 5, 100, Kind::KernelAndModules).unwrap();
        shown(&map);
    }

    #[test]
    fn too_many_ranges_are_refused() {
        let mut map = MemoryMap::new();
        let result = (0..=CAPACITY as u64).try_for_each(|n| map.add(n * 2 * PAGE, PAGE, Kind::Usable));
        assert_eq!(result, Err(TOO_MANY));
    }

    #[test]
    fn the_top_ignores_reserved_holes() {
        let mut map = pc();
        map.add(0xfd_0000_0000, 0x3_0000_0000, Kind::Reserved).unwrap();
        assert_eq!(map.top(), 0xfe0_0000);
    }
}
