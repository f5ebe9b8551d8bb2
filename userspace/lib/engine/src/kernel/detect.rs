//! The features that the processor has and that the system permits.

use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use core::sync::atomic::{AtomicBool, Ordering};

/// Instruction sets that kernels are written for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// SSE4.1.
    pub sse41: bool,
    /// AVX2 with FMA and F16C.
    pub avx2: bool,
    /// AVX-512 with the parts F, BW, DQ, VL and VNNI, besides all of `avx2`.
    pub avx512: bool,
    /// AMX with products of BF16, and AVX-512 that makes such numbers, besides all of `avx512`.
    pub amx: bool,
}

/// Whether the system lets this program use tiles.
static TILES_PERMITTED: AtomicBool = AtomicBool::new(false);

/// Says that the system lets this program use the tiles of AMX. Systems may save them and still end a program that uses
/// them without having asked, as Linux does; so no kernel here uses them before this was called. A program that claims
/// them without a request is ended at the first product.
pub fn permit_tiles() {
    TILES_PERMITTED.store(true, Ordering::Relaxed);
}

/// Registers whose state the system saves, by bits of XCR0: those of SSE and AVX, of AVX-512, and of AMX.
const AVX_STATE: u64 = 0b110;
const AVX512_STATE: u64 = 0b1110_0110;
const AMX_STATE: u64 = 0b11 << 17;

/// Asks the processor.
pub fn features() -> Features {
    let bit = |register: u32, bit: u32| register & (1 << bit) != 0;
    let last = __cpuid(0).eax;
    let basic = __cpuid(1);
    let extended = if last < 7 { Default::default() } else { Some(__cpuid_count(7, 0)) };
    let (ebx, ecx, edx) = extended.map_or((0, 0, 0), |extended| (extended.ebx, extended.ecx, extended.edx));
    let state = match bit(basic.ecx, 27) {
        // SAFETY: bit 27 says that the system has switched the instruction on.
        true => unsafe { enabled_state() },
        false => 0,
    };
    let avx2 =
        state & AVX_STATE == AVX_STATE && bit(basic.ecx, 28) && bit(basic.ecx, 12) && bit(basic.ecx, 29) && bit(ebx, 5);
    let avx512 = avx2
        && state & AVX512_STATE == AVX512_STATE
        && [16, 17, 30, 31].iter().all(|part| bit(ebx, *part))
        && bit(ecx, 11);
    let more = extended.filter(|extended| extended.eax > 0).map_or(0, |_| __cpuid_count(7, 1).eax);
    let amx = avx512
        && state & AMX_STATE == AMX_STATE
        && [22, 24].iter().all(|part| bit(edx, *part))
        && bit(more, 5)
        && TILES_PERMITTED.load(Ordering::Relaxed);
    Features { sse41: bit(basic.ecx, 19), avx2, avx512, amx }
}

#[target_feature(enable = "xsave")]
fn enabled_state() -> u64 {
    // SAFETY: register 0 exists wherever the instruction does.
    unsafe { _xgetbv(0) }
}

#[cfg(test)]
mod tests {
    use super::features;

    #[test]
    fn what_is_found_is_what_the_standard_library_finds() {
        let found = features();
        assert_eq!(found.sse41, is_x86_feature_detected!("sse4.1"));
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        assert_eq!(found.avx2, avx2 && is_x86_feature_detected!("f16c"));
        let parts = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni");
        assert_eq!(found.avx512, found.avx2 && parts);
    }
}
