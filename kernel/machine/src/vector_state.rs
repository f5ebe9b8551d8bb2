//! Which sets of registers threads have, and how many bytes saving them takes: the values for XCR0 and XSAVE.
//!
//! The sets are numbered as the processor does it: 0 and 1 are x87 and SSE, 2 is AVX, 5 to 7 are the three parts of AVX-512.

/// x87 and SSE, which every processor of 64 bits has.
pub const BASE: u64 = 0b11;
/// The upper halves of sixteen registers.
pub const AVX: u64 = 1 << 2;
/// Mask registers, upper halves of sixteen registers of 512 bits, and sixteen more of these: all or none.
pub const AVX512: u64 = 0b111 << 5;

/// Bytes of an area without XSAVE.
pub const OLD_AREA: usize = 512;
/// Bytes of an area with XSAVE and nothing but x87 and SSE: those, and a header.
const FIRST: usize = 576;

/// The sets that are turned on, of those that the processor has. Others, such as tiles, would not be saved for a
/// thread.
#[must_use]
pub fn enabled(supported: u64) -> u64 {
    let avx = supported & AVX;
    // A processor refuses XCR0 with parts of AVX-512, or with AVX-512 and without AVX.
    let avx512 = if avx != 0 && supported & AVX512 == AVX512 { AVX512 } else { 0 };
    BASE | avx | avx512
}

/// Bytes of an area for these sets. `part` gives size and place of one of the sets 2 to 62 (CPUID, leaf 13, its number):
/// the areas of two processors need not be alike.
#[must_use]
pub fn area(sets: u64, part: impl Fn(u32) -> (u32, u32)) -> usize {
    let ends = (2..63).filter(|set| sets >> set & 1 == 1).map(|set| {
        let (size, place) = part(set);
        (size as usize).saturating_add(place as usize)
    });
    ends.fold(FIRST, usize::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes and places as leaf 13 of an Intel Xeon with AVX-512 and AMX gives them (family 6, model 0xcf).
    const XEON: [(u32, u32, u32); 6] = [
        (2, 0x100, 0x240),
        (5, 0x40, 0x440),
        (6, 0x200, 0x480),
        (7, 0x400, 0x680),
        (17, 0x40, 0xac0),
        (18, 0x2000, 0xb00),
    ];

    fn part(parts: &'static [(u32, u32, u32)]) -> impl Fn(u32) -> (u32, u32) {
        |set| parts.iter().find(|(known, ..)| *known == set).map_or((0, 0), |(_, size, place)| (*size, *place))
    }

    #[test]
    fn avx_512_is_kept_whole_where_the_processor_has_all_of_it() {
        // That processor's values: its sets without tiles, and the bytes for them.
        let sets = enabled(0xe7);
        assert_eq!(sets, 0xe7);
        assert_eq!(area(sets, part(&XEON)), 0xa80);
        // The area of each of the three parts is within it, and none over another.
        let mut places: Vec<_> = XEON.iter().filter(|(set, ..)| sets >> set & 1 == 1).collect();
        places.sort_by_key(|(_, _, place)| *place);
        assert!(places.windows(2).all(|pair| pair[0].1 + pair[0].2 <= pair[1].2));
    }

    #[test]
    fn what_a_processor_would_refuse_is_not_asked_for() {
        for (supported, expected) in [
            (0b11, BASE),
            (0b111, BASE | AVX),
            // Memory bounds, protection keys, and tiles are not saved.
            (0x1f, BASE | AVX),
            (0x6_02e7, BASE | AVX | AVX512),
            (u64::MAX, BASE | AVX | AVX512),
            // Parts of AVX-512, and all of it without AVX.
            (0x27, BASE | AVX),
            (0xc7, BASE | AVX),
            (0xe3, BASE),
            (0, BASE),
        ] {
            assert_eq!(enabled(supported), expected, "{supported:#x}");
        }
    }

    #[test]
    fn an_area_ends_behind_its_last_set() {
        let nothing = |_| (0, 0);
        assert_eq!(area(BASE, nothing), 576);
        assert_eq!(area(BASE | AVX, part(&XEON)), 832);
        // A processor may put AVX-512 where another has something else, and the last set need not be last.
        let other = |set| match set {
            2 => (256, 576),
            5 => (64, 2368),
            6 => (512, 832),
            _ => (1024, 1344),
        };
        assert_eq!(area(BASE | AVX | AVX512, other), 2432);
        // Impossible numbers cause no overflow.
        assert!(area(u64::MAX, |_| (u32::MAX, u32::MAX)) >= u32::MAX as usize);
    }
}
