//! Page-table entries and address arithmetic of x86-64 with four levels.

use bitflags::bitflags;

pub use capos_abi::{LARGE_PAGE, PAGE};

/// Bytes of a huge page (level 3).
pub const HUGE_PAGE: u64 = 1 << 30;
/// First address above the user half.
pub const USER_END: u64 = 1 << 47;
/// Bits of an entry that hold the physical address.
pub const ADDRESS_MASK: u64 = 0x000f_ffff_ffff_f000;

bitflags! {
    /// Flags of an entry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Flags: u64 {
        const PRESENT = 1;
        const WRITE = 1 << 1;
        const USER = 1 << 2;
        /// With `CACHE_DISABLE`: uncached under every setting of the PAT's first half.
        const WRITE_THROUGH = 1 << 3;
        const CACHE_DISABLE = 1 << 4;
        const ACCESSED = 1 << 5;
        const DIRTY = 1 << 6;
        /// A page instead of a table, on levels 2 and 3.
        const LARGE = 1 << 7;
        const GLOBAL = 1 << 8;
        /// Software: this leaf maps device memory.
        const DEVICE = 1 << 9;
        const NO_EXECUTE = 1 << 63;
    }
}

/// One entry of a table on any level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct PageEntry(pub u64);

impl PageEntry {
    /// An entry that maps nothing.
    pub const EMPTY: Self = Self(0);

    /// An entry with this physical address and these flags.
    #[must_use]
    pub const fn new(physical: u64, flags: Flags) -> Self {
        Self((physical & ADDRESS_MASK) | flags.bits())
    }

    /// Whether the processor uses the entry.
    #[must_use]
    pub const fn is_present(self) -> bool {
        self.0 & Flags::PRESENT.bits() != 0
    }

    /// Whether all of `flags` are set.
    #[must_use]
    pub const fn has(self, flags: Flags) -> bool {
        self.0 & flags.bits() == flags.bits()
    }

    /// The physical address in it.
    #[must_use]
    pub const fn physical(self) -> u64 {
        self.0 & ADDRESS_MASK
    }
}

/// Index into the table of `level` (4 is the top) for an address.
#[must_use]
pub const fn index(address: u64, level: u32) -> usize {
    let shift = match level {
        1 => 12,
        2 => 21,
        3 => 30,
        _ => 39,
    };
    ((address >> shift) & 511) as usize
}

/// Whether the processor accepts the address: bits 47 to 63 are all equal.
#[must_use]
pub const fn is_canonical(address: u64) -> bool {
    address < USER_END || address >= !(USER_END.wrapping_sub(1))
}

/// The largest page size (4 KiB, 2 MiB, or 1 GiB if `huge` is set) with which the mapping of
/// `address` to `physical` can begin, when `length` bytes are to be mapped.
#[must_use]
pub fn step(address: u64, physical: u64, length: u64, huge: bool) -> u64 {
    let both = address | physical;
    if huge && both.is_multiple_of(HUGE_PAGE) && length >= HUGE_PAGE {
        HUGE_PAGE
    } else if both.is_multiple_of(LARGE_PAGE) && length >= LARGE_PAGE {
        LARGE_PAGE
    } else {
        PAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_follow_the_address_bits() {
        let address = (3 << 39) | (5 << 30) | (7 << 21) | (9 << 12) | 0xabc;
        assert_eq!([4, 3, 2, 1].map(|level| index(address, level)), [3, 5, 7, 9]);
        assert_eq!(index(u64::MAX, 4), 511);
    }

    #[test]
    fn canonical_addresses() {
        assert!(is_canonical(0));
        assert!(is_canonical(USER_END - 1));
        assert!(!is_canonical(USER_END));
        assert!(!is_canonical(0xffff_7fff_ffff_ffff));
        assert!(is_canonical(0xffff_8000_0000_0000));
        assert!(is_canonical(u64::MAX));
    }

    #[test]
    fn the_largest_step_that_fits() {
        let base = 0xffff_8000_0000_0000;
        assert_eq!(step(base, 0, 4 << 30, true), HUGE_PAGE);
        assert_eq!(step(base, 0, 4 << 30, false), LARGE_PAGE);
        assert_eq!(step(base, 0, HUGE_PAGE - PAGE, true), LARGE_PAGE);
        assert_eq!(step(base + PAGE, PAGE, 4 << 30, true), PAGE);
        assert_eq!(step(base, LARGE_PAGE, HUGE_PAGE, true), LARGE_PAGE);
        assert_eq!(step(base, 0, LARGE_PAGE - PAGE, true), PAGE);
    }

    #[test]
    fn entries_keep_address_and_flags_apart() {
        let entry = PageEntry::new(0x1234_5000, Flags::PRESENT | Flags::NO_EXECUTE);
        assert_eq!(entry.physical(), 0x1234_5000);
        assert!(entry.is_present());
        assert!(entry.has(Flags::NO_EXECUTE));
        assert!(!entry.has(Flags::WRITE));
        assert!(!PageEntry::EMPTY.is_present());
    }
}
