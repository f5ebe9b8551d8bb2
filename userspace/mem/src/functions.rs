//! The functions that compiled code calls to move, fill and compare memory.
//!
//! Loops are written as assembly so that the compiler cannot turn them back into calls of the very
//! functions they implement. No string instructions: under emulation each repeated byte counts as
//! an instruction, and on real processors they have a start-up cost that most copies here do not
//! earn back.

use core::arch::asm;

/// Copies forwards: long ranges in blocks of 128, then in blocks of 64; then what is left from both of its ends, which may
/// overlap.
///
/// # Safety
/// `source` readable, `target` writable for `length` bytes; if they overlap, `target` is before
/// `source`.
#[inline]
unsafe fn copy_forwards(target: *mut u8, source: *const u8, length: usize) {
    // SAFETY: reads and writes exactly `length` bytes; each block is loaded before it is stored,
    // blocks ascend, so an overlap with `target` first is right. The rest is loaded whole before any of it is stored.
    unsafe {
        asm!(
            "cmp {n}, 64",
            "jb 3f",
            "cmp {n}, 256",
            "jb 2f",
            // One index, from the end of the whole blocks up to zero, takes the place of two addresses and a length.
            "mov {x}, {n}",
            "and {x}, -128",
            "add {s}, {x}",
            "add {t}, {x}",
            "neg {x}",
            "7:",
            "movups xmm0, [{s} + {x}]",
            "movups xmm1, [{s} + {x} + 16]",
            "movups xmm2, [{s} + {x} + 32]",
            "movups xmm3, [{s} + {x} + 48]",
            "movups xmm4, [{s} + {x} + 64]",
            "movups xmm5, [{s} + {x} + 80]",
            "movups xmm6, [{s} + {x} + 96]",
            "movups xmm7, [{s} + {x} + 112]",
            "movups [{t} + {x}], xmm0",
            "movups [{t} + {x} + 16], xmm1",
            "movups [{t} + {x} + 32], xmm2",
            "movups [{t} + {x} + 48], xmm3",
            "movups [{t} + {x} + 64], xmm4",
            "movups [{t} + {x} + 80], xmm5",
            "movups [{t} + {x} + 96], xmm6",
            "movups [{t} + {x} + 112], xmm7",
            "add {x}, 128",
            "jnz 7b",
            "and {n}, 127",
            "cmp {n}, 64",
            "jb 3f",
            "2:",
            "movups xmm0, [{s}]",
            "movups xmm1, [{s} + 16]",
            "movups xmm2, [{s} + 32]",
            "movups xmm3, [{s} + 48]",
            "movups [{t}], xmm0",
            "movups [{t} + 16], xmm1",
            "movups [{t} + 32], xmm2",
            "movups [{t} + 48], xmm3",
            "add {s}, 64",
            "add {t}, 64",
            "sub {n}, 64",
            "cmp {n}, 64",
            "jae 2b",
            "3:",
            "cmp {n}, 16",
            "jb 5f",
            "movups xmm0, [{s}]",
            "movups xmm1, [{s} + {n} - 16]",
            "cmp {n}, 32",
            "jbe 4f",
            "movups xmm2, [{s} + 16]",
            "movups xmm3, [{s} + {n} - 32]",
            "movups [{t} + 16], xmm2",
            "movups [{t} + {n} - 32], xmm3",
            "4:",
            "movups [{t}], xmm0",
            "movups [{t} + {n} - 16], xmm1",
            "jmp 9f",
            "5:",
            "cmp {n}, 8",
            "jb 6f",
            "mov {x}, [{s}]",
            "mov {y}, [{s} + {n} - 8]",
            "mov [{t}], {x}",
            "mov [{t} + {n} - 8], {y}",
            "jmp 9f",
            "6:",
            "cmp {n}, 4",
            "jb 7f",
            "mov {x:e}, [{s}]",
            "mov {y:e}, [{s} + {n} - 4]",
            "mov [{t}], {x:e}",
            "mov [{t} + {n} - 4], {y:e}",
            "jmp 9f",
            "7:",
            "cmp {n}, 2",
            "jb 8f",
            "movzx {x:e}, word ptr [{s}]",
            "movzx {y:e}, word ptr [{s} + {n} - 2]",
            "mov [{t}], {x:x}",
            "mov [{t} + {n} - 2], {y:x}",
            "jmp 9f",
            "8:",
            "test {n}, {n}",
            "jz 9f",
            "movzx {x:e}, byte ptr [{s}]",
            "mov [{t}], {x:l}",
            "9:",
            t = inout(reg) target => _,
            s = inout(reg) source => _,
            n = inout(reg) length => _,
            x = out(reg) _,
            y = out(reg) _,
            out("xmm0") _,
            out("xmm1") _,
            out("xmm2") _,
            out("xmm3") _,
            out("xmm4") _,
            out("xmm5") _,
            out("xmm6") _,
            out("xmm7") _,
            options(nostack),
        );
    }
}

/// Copies backwards, from the ends.
///
/// # Safety
/// As [`copy_forwards`], but if they overlap, `target` is after `source`.
#[inline]
unsafe fn copy_backwards(target: *mut u8, source: *const u8, length: usize) {
    // SAFETY: the ends are one past the ranges; blocks descend, each is loaded before it is stored.
    unsafe {
        asm!(
            "cmp {n}, 16",
            "jb 3f",
            "cmp {n}, 64",
            "jb 2f",
            "6:",
            "movups xmm0, [{s} - 16]",
            "movups xmm1, [{s} - 32]",
            "movups xmm2, [{s} - 48]",
            "movups xmm3, [{s} - 64]",
            "movups [{t} - 16], xmm0",
            "movups [{t} - 32], xmm1",
            "movups [{t} - 48], xmm2",
            "movups [{t} - 64], xmm3",
            "sub {s}, 64",
            "sub {t}, 64",
            "sub {n}, 64",
            "cmp {n}, 64",
            "jae 6b",
            "cmp {n}, 16",
            "jb 3f",
            "2:",
            "movups xmm0, [{s} - 16]",
            "movups [{t} - 16], xmm0",
            "sub {s}, 16",
            "sub {t}, 16",
            "sub {n}, 16",
            "cmp {n}, 16",
            "jae 2b",
            "3:",
            "test {n}, {n}",
            "jz 5f",
            "4:",
            "movzx {x:e}, byte ptr [{s} - 1]",
            "mov [{t} - 1], {x:l}",
            "dec {s}",
            "dec {t}",
            "dec {n}",
            "jnz 4b",
            "5:",
            t = inout(reg) target.wrapping_add(length) => _,
            s = inout(reg) source.wrapping_add(length) => _,
            n = inout(reg) length => _,
            x = out(reg) _,
            out("xmm0") _,
            out("xmm1") _,
            out("xmm2") _,
            out("xmm3") _,
            options(nostack),
        );
    }
}

/// `memcpy` of C.
///
/// # Safety
/// As in C.
#[cfg_attr(capos_guest, unsafe(no_mangle))]
unsafe extern "C" fn memcpy(target: *mut u8, source: *const u8, length: usize) -> *mut u8 {
    // SAFETY: the caller's ranges, which do not overlap.
    unsafe { copy_forwards(target, source, length) };
    target
}

/// `memmove` of C.
///
/// # Safety
/// As in C.
#[cfg_attr(capos_guest, unsafe(no_mangle))]
unsafe extern "C" fn memmove(target: *mut u8, source: *const u8, length: usize) -> *mut u8 {
    let distance = (target as usize).wrapping_sub(source as usize);
    if distance >= length {
        // SAFETY: `target` is before `source` or after its end.
        unsafe { copy_forwards(target, source, length) };
    } else {
        // SAFETY: `target` is inside the source, after its start.
        unsafe { copy_backwards(target, source, length) };
    }
    target
}

/// `memset` of C.
///
/// # Safety
/// As in C.
#[cfg_attr(capos_guest, unsafe(no_mangle))]
unsafe extern "C" fn memset(target: *mut u8, value: i32, length: usize) -> *mut u8 {
    let pattern = u64::from(value.to_le_bytes()[0]).wrapping_mul(0x0101_0101_0101_0101);
    // SAFETY: writes exactly `length` bytes at `target`, the caller's range.
    unsafe {
        asm!(
            "movq xmm0, {x}",
            "punpcklqdq xmm0, xmm0",
            "cmp {n}, 64",
            "jb 3f",
            "cmp {n}, 256",
            "jb 2f",
            // As in `copy_forwards`.
            "mov {y}, {n}",
            "and {y}, -128",
            "add {t}, {y}",
            "neg {y}",
            "9:",
            "movups [{t} + {y}], xmm0",
            "movups [{t} + {y} + 16], xmm0",
            "movups [{t} + {y} + 32], xmm0",
            "movups [{t} + {y} + 48], xmm0",
            "movups [{t} + {y} + 64], xmm0",
            "movups [{t} + {y} + 80], xmm0",
            "movups [{t} + {y} + 96], xmm0",
            "movups [{t} + {y} + 112], xmm0",
            "add {y}, 128",
            "jnz 9b",
            "and {n}, 127",
            "cmp {n}, 64",
            "jb 3f",
            "2:",
            "movups [{t}], xmm0",
            "movups [{t} + 16], xmm0",
            "movups [{t} + 32], xmm0",
            "movups [{t} + 48], xmm0",
            "add {t}, 64",
            "sub {n}, 64",
            "cmp {n}, 64",
            "jae 2b",
            "3:",
            "cmp {n}, 8",
            "jb 5f",
            "4:",
            "mov [{t}], {x}",
            "add {t}, 8",
            "sub {n}, 8",
            "cmp {n}, 8",
            "jae 4b",
            "5:",
            "test {n}, 4",
            "jz 6f",
            "mov [{t}], {x:e}",
            "add {t}, 4",
            "6:",
            "test {n}, 2",
            "jz 7f",
            "mov [{t}], {x:x}",
            "add {t}, 2",
            "7:",
            "test {n}, 1",
            "jz 8f",
            "mov [{t}], {x:l}",
            "8:",
            t = inout(reg) target => _,
            n = inout(reg) length => _,
            x = in(reg) pattern,
            y = out(reg) _,
            out("xmm0") _,
            options(nostack),
        );
    }
    target
}

/// `memcmp` of C.
///
/// # Safety
/// As in C.
#[cfg_attr(capos_guest, unsafe(no_mangle))]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, length: usize) -> i32 {
    let mut at = 0_usize;
    while at.wrapping_add(8) <= length {
        // SAFETY: eight bytes from `at` are inside both of the caller's ranges.
        let (a, b) =
            unsafe { (left.add(at).cast::<u64>().read_unaligned(), right.add(at).cast::<u64>().read_unaligned()) };
        if a != b {
            return if a.swap_bytes() < b.swap_bytes() { -1 } else { 1 };
        }
        at = at.wrapping_add(8);
    }
    while at < length {
        // SAFETY: `at` is inside both of the caller's ranges.
        let (a, b) = unsafe { (left.add(at).read(), right.add(at).read()) };
        if a != b {
            return i32::from(a).wrapping_sub(i32::from(b));
        }
        at = at.wrapping_add(1);
    }
    0
}

/// `bcmp` of C.
///
/// # Safety
/// As in C.
#[cfg_attr(capos_guest, unsafe(no_mangle))]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, length: usize) -> i32 {
    // SAFETY: the caller's ranges.
    unsafe { memcmp(left, right, length) }
}

/// `strlen` of C, which `CStr` calls.
///
/// # Safety
/// As in C.
#[cfg_attr(capos_guest, unsafe(no_mangle))]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut length = 0_usize;
    // SAFETY: the caller's text ends with a zero, before which every byte is readable.
    while unsafe { text.add(length).read_volatile() } != 0 {
        length = length.wrapping_add(1);
    }
    length
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
    }

    #[test]
    fn copies_are_exact_at_every_length_and_offset() {
        for length in (0..400).chain([1000, 4096, 5001]) {
            for offset in 0..9 {
                let source = pattern(length + offset);
                let mut target = alloc::vec![0xaa_u8; length + 32];
                // SAFETY: both ranges are inside their vectors, which are apart.
                unsafe { memcpy(target.as_mut_ptr().add(16), source.as_ptr().add(offset), length) };
                assert_eq!(target[16..16 + length], source[offset..]);
                assert!(target[..16].iter().chain(&target[16 + length..]).all(|byte| *byte == 0xaa));
            }
        }
    }

    #[test]
    fn overlapping_moves_are_exact_in_both_directions() {
        for length in 0..300 {
            for distance in [1_usize, 3, 8, 15, 16, 17, 64, 100] {
                let original = pattern(length + distance);
                let (mut up, mut down) = (original.clone(), original.clone());
                // SAFETY: source and target are inside the same vector.
                unsafe {
                    memmove(up.as_mut_ptr().add(distance), up.as_ptr(), length);
                    memmove(down.as_mut_ptr(), down.as_ptr().add(distance), length);
                }
                assert_eq!(up[distance..], original[..length]);
                assert_eq!(down[..length], original[distance..]);
            }
        }
    }

    #[test]
    fn fills_are_exact() {
        for length in (0..400).chain([1000, 4096, 4097]) {
            let mut target = alloc::vec![0x11_u8; length + 20];
            // SAFETY: the range is inside the vector. Only the value's low byte counts.
            unsafe { memset(target.as_mut_ptr().add(10), 0x1f5, length) };
            assert!(target[10..10 + length].iter().all(|byte| *byte == 0xf5));
            assert!(target[..10].iter().chain(&target[10 + length..]).all(|byte| *byte == 0x11));
        }
    }

    #[test]
    fn comparison_is_by_the_first_byte_that_differs() {
        for length in 1..40 {
            let left = pattern(length);
            for at in 0..length {
                let mut right = left.clone();
                right[at] = right[at].wrapping_add(1);
                // A later difference the other way must not count.
                if let Some(last) = right.get_mut(at + 1) {
                    *last = last.wrapping_sub(1);
                }
                // SAFETY: both vectors have this length.
                let (found, back, same) = unsafe {
                    (
                        memcmp(left.as_ptr(), right.as_ptr(), length),
                        memcmp(right.as_ptr(), left.as_ptr(), length),
                        bcmp(left.as_ptr(), left.as_ptr(), length),
                    )
                };
                assert_eq!(found.signum(), if left[at] < right[at] { -1 } else { 1 });
                assert_eq!((back.signum(), same), (-found.signum(), 0));
            }
        }
        // SAFETY: the text ends with a zero.
        assert_eq!(unsafe { strlen(c"seven77".as_ptr().cast()) }, 7);
    }
}
