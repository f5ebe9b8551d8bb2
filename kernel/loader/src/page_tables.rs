//! Four-level page tables, filled in a pool of frames that the caller provides.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use crate::{PAGE, Refusal, Result};

/// One table: 512 entries.
pub type Table = [u64; 512];

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const WRITE_THROUGH: u64 = 1 << 3;
const LARGE: u64 = 1 << 7;
/// The PAT bit of an entry that maps a 4 KiB page.
const PAT_SMALL: u64 = 1 << 7;
/// The PAT bit of an entry that maps a larger page.
const PAT_LARGE: u64 = 1 << 12;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

const FULL: Refusal = Refusal("The loader reserved too little memory for the page tables (a fault of the loader).");
const TWICE: Refusal = Refusal("Two segments of the kernel are on one page; link it with page-aligned segments.");
const OUTSIDE: Refusal = Refusal("A mapping reaches past the end of the address space.");

/// The permitted accesses of a mapping, and its caching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Writes are allowed.
    pub write: bool,
    /// Instructions may be fetched.
    pub execute: bool,
    /// Write-combining (entry 5 of the page attribute table) instead of write-back.
    pub combining: bool,
}

/// A range to map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// First virtual address, page aligned.
    pub virt: u64,
    /// First physical address, page aligned.
    pub phys: u64,
    /// Bytes, a multiple of the page size.
    pub length: u64,
    /// Its rights.
    pub access: Access,
}

/// Size of the pages of a level: 4 KiB, 2 MiB, 1 GiB, and 512 GiB that no entry maps.
const SIZES: [u64; 4] = [1 << 12, 1 << 21, 1 << 30, 1 << 39];

fn size_of_level(level: usize) -> u64 {
    SIZES.get(level).copied().unwrap_or(1 << 39)
}

impl Mapping {
    /// The largest page that can begin at `offset` into the mapping: its level.
    fn level_at(&self, offset: u64, largest: usize) -> usize {
        let place = self.virt.wrapping_add(offset) | self.phys.wrapping_add(offset);
        let left = self.length.saturating_sub(offset);
        let fits = |&level: &usize| {
            let size = size_of_level(level);
            place & size.saturating_sub(1) == 0 && left >= size
        };
        (1..=largest).rev().find(fits).unwrap_or(0)
    }

    fn last(&self) -> Option<u64> {
        self.virt.checked_add(self.length.checked_sub(1)?)
    }
}

/// Frames that suffice for page tables of these mappings, the root included: an upper bound, counting for every
/// mapping each table of each level that it could touch.
pub fn frames_needed(mappings: &[Mapping], gigabyte_pages: bool) -> u64 {
    let largest = if gigabyte_pages { 2 } else { 1 };
    mappings.iter().fold(1, |sum, mapping| {
        let Some(last) = mapping.last() else { return sum };
        let spanned = |shift: u32| (last >> shift).saturating_sub(mapping.virt >> shift).saturating_add(1);
        let directories = if largest == 2 && mapping.level_at(0, 2) == 2 && mapping.length.is_multiple_of(1 << 30) {
            0
        } else {
            spanned(30)
        };
        // Small pages are needed only before the first and after the last 2 MiB boundary, or all along when the
        // two addresses are not aligned alike.
        let aligned_alike = (mapping.virt ^ mapping.phys) & size_of_level(1).saturating_sub(1) == 0;
        let tables = if aligned_alike { spanned(21).min(2) } else { spanned(21) };
        sum.saturating_add(spanned(39)).saturating_add(directories).saturating_add(tables)
    })
}

/// Page tables under construction.
pub struct PageTables<'a> {
    pool: &'a mut [Table],
    base: u64,
    used: usize,
    largest: usize,
}

impl<'a> PageTables<'a> {
    /// Empty tables in `pool`, whose first frame is at the physical address `base` and becomes the root.
    pub fn new(pool: &'a mut [Table], base: u64, gigabyte_pages: bool) -> Result<Self> {
        let mut tables = Self { pool, base, used: 0, largest: if gigabyte_pages { 2 } else { 1 } };
        tables.frame()?;
        Ok(tables)
    }

    /// Physical address of the root.
    pub fn root(&self) -> u64 {
        self.base
    }

    /// Takes an empty frame: its index in the pool.
    fn frame(&mut self) -> Result<usize> {
        let index = self.used;
        self.pool.get_mut(index).ok_or(FULL)?.fill(0);
        self.used = index.saturating_add(1);
        Ok(index)
    }

    /// Adds a mapping with the largest pages that fit. Mapping a page twice is refused.
    pub fn map(&mut self, mapping: &Mapping) -> Result<()> {
        if mapping.length == 0 {
            return Ok(());
        }
        if mapping.last().is_none() || mapping.phys.checked_add(mapping.length).is_none() {
            return Err(OUTSIDE);
        }
        let mut offset = 0;
        while offset < mapping.length {
            let level = mapping.level_at(offset, self.largest);
            self.page(mapping.virt.wrapping_add(offset), mapping.phys.wrapping_add(offset), level, mapping.access)?;
            offset = offset.saturating_add(size_of_level(level));
        }
        Ok(())
    }

    fn page(&mut self, virt: u64, phys: u64, level: usize, access: Access) -> Result<()> {
        let mut table = 0;
        for above in (level.saturating_add(1)..4).rev() {
            let entry = *self.entry(table, virt, above)?;
            table = if entry == 0 {
                let new = self.frame()?;
                let address = self.base.saturating_add((new as u64).saturating_mul(PAGE));
                *self.entry(table, virt, above)? = address | PRESENT | WRITABLE;
                new
            } else if entry & LARGE != 0 {
                return Err(TWICE);
            } else {
                let offset = (entry & ADDRESS).checked_sub(self.base).ok_or(FULL)?;
                usize::try_from(offset.checked_div(PAGE).ok_or(FULL)?).map_err(|_| FULL)?
            };
        }
        let mut value = (phys & ADDRESS) | PRESENT;
        if level > 0 {
            value |= LARGE;
        }
        if access.write {
            value |= WRITABLE;
        }
        if !access.execute {
            value |= NO_EXECUTE;
        }
        if access.combining {
            value |= WRITE_THROUGH | if level > 0 { PAT_LARGE } else { PAT_SMALL };
        }
        let entry = self.entry(table, virt, level)?;
        if *entry != 0 {
            return Err(TWICE);
        }
        *entry = value;
        Ok(())
    }

    fn entry(&mut self, table: usize, virt: u64, level: usize) -> Result<&mut u64> {
        let index = virt.checked_div(size_of_level(level)).unwrap_or(0) & 511;
        let index = usize::try_from(index).map_err(|_| FULL)?;
        self.pool.get_mut(table).and_then(|table| table.get_mut(index)).ok_or(FULL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RWX: Access = Access { write: true, execute: true, combining: false };
    const BASE: u64 = 0x7000_0000;

    /// Walks like the processor: the physical address and the entry that maps it.
    fn walk(pool: &[Table], virt: u64) -> Option<(u64, u64)> {
        let mut table = 0;
        for level in (0..4).rev() {
            let entry = pool[table][(virt / size_of_level(level) % 512) as usize];
            if entry & PRESENT == 0 {
                return None;
            }
            if level == 0 || (level < 3 && entry & LARGE != 0) {
                let mask = size_of_level(level) - 1;
                return Some(((entry & ADDRESS & !mask) + (virt & mask), entry));
            }
            table = ((entry & ADDRESS) - BASE) as usize / PAGE as usize;
        }
        None
    }

    fn build(mappings: &[Mapping], gigabyte_pages: bool) -> Result<Vec<Table>> {
        let needed = frames_needed(mappings, gigabyte_pages);
        let mut pool = vec![[0; 512]; needed as usize];
        let mut tables = PageTables::new(&mut pool, BASE, gigabyte_pages)?;
        for mapping in mappings {
            tables.map(mapping)?;
        }
        Ok(pool)
    }

    fn handover() -> Vec<Mapping> {
        let hhdm = |phys: u64, length, combining| Mapping {
            virt: crate::HHDM + phys,
            phys,
            length,
            access: Access { combining, ..RWX },
        };
        vec![
            hhdm(0, 0xfd00_0000, false),
            hhdm(0xfd00_0000, 0x30_0000, true),
            hhdm(0xfd30_0000, (9 << 30) - 0xfd30_0000, false),
            Mapping {
                virt: 0xffff_ffff_8000_0000,
                phys: 0x1234_5000,
                length: 0x41_2000,
                access: Access { write: false, ..RWX },
            },
            Mapping {
                virt: 0xffff_ffff_8041_2000,
                phys: 0x1275_7000,
                length: 0x3000,
                access: Access { execute: false, ..RWX },
            },
        ]
    }

    #[test]
    fn every_page_leads_where_it_should() {
        for gigabyte_pages in [false, true] {
            let mappings = handover();
            let pool = build(&mappings, gigabyte_pages).unwrap();
            for mapping in &mappings {
                let step = 0x1f_f000;
                for offset in (0..mapping.length).step_by(step).chain([mapping.length - 1]) {
                    let (phys, entry) = walk(&pool, mapping.virt + offset).expect("mapped");
                    assert_eq!(phys, mapping.phys + offset, "{:#x}", mapping.virt + offset);
                    assert_eq!(entry & WRITABLE != 0, mapping.access.write);
                    assert_eq!(entry & NO_EXECUTE == 0, mapping.access.execute);
                    assert_eq!(entry & WRITE_THROUGH != 0, mapping.access.combining);
                }
            }
            assert_eq!(walk(&pool, crate::HHDM + (9 << 30)), None);
            assert_eq!(walk(&pool, 0x20_0000), None);
            assert_eq!(walk(&pool, 0xffff_ffff_8041_5000), None);
        }
    }

    #[test]
    fn a_page_is_mapped_once() {
        let page = Mapping { virt: crate::HHDM, phys: 0, length: PAGE, access: RWX };
        assert_eq!(build(&[page, page], false), Err(TWICE));
        let large = Mapping { length: 1 << 21, ..page };
        assert_eq!(build(&[large, page], false), Err(TWICE));
        assert_eq!(build(&[page, large], false), Err(TWICE));
    }

    #[test]
    fn a_wrapping_range_is_refused() {
        let range = Mapping { virt: u64::MAX - 0xfff, phys: 0, length: 2 * PAGE, access: RWX };
        let mut pool = vec![[0; 512]; 8];
        assert_eq!(PageTables::new(&mut pool, BASE, false).unwrap().map(&range), Err(OUTSIDE));
    }

    #[test]
    fn a_small_pool_is_an_error() {
        let mut pool = vec![[0; 512]; 2];
        let page = Mapping { virt: 0, phys: 0, length: PAGE, access: RWX };
        assert_eq!(PageTables::new(&mut pool, BASE, true).unwrap().map(&page), Err(FULL));
    }
}
