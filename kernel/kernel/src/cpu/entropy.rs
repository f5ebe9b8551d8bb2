//! Random bytes.
//!
//! A ChaCha20 generator with fast key erasure, seeded from RDSEED and RDRAND where the processor
//! has them and in any case from the jitter of its time-stamp counter, the clock and the machine's
//! description. It takes in fresh hardware randomness with every use.

use capos_machine::chacha::Generator;
use spin::Mutex;

use crate::arch::{cpu, time};

static GENERATOR: Mutex<Generator> = Mutex::new(Generator::new());

/// Rounds of jitter taken at the start. Each gives a fraction of a bit on real hardware.
const JITTER_ROUNDS: usize = 1024;

/// Fills `bytes` with random bytes.
pub fn fill(bytes: &mut [u8]) {
    let mut generator = GENERATOR.lock();
    generator.absorb(&time::tsc().to_le_bytes());
    if let Some(word) = hardware_word() {
        generator.absorb(&word.to_le_bytes());
    }
    generator.fill(bytes);
}

/// Seeds the generator. `extra` is anything that differs between machines or boots. Says whether
/// the processor has a random source.
pub fn initialize(extra: &[u8]) -> bool {
    let mut generator = GENERATOR.lock();
    generator.absorb(extra);
    let mut hardware = false;
    for _ in 0..16 {
        if let Some(word) = hardware_word() {
            hardware = true;
            generator.absorb(&word.to_le_bytes());
        }
    }
    // The lowest bits of the counter's steps are what varies; they are packed before mixing.
    let mut packed = [0u8; 32];
    let mut last = time::tsc();
    for round in 0..JITTER_ROUNDS {
        let now = time::tsc();
        let step = now.wrapping_sub(last) as u8;
        last = now;
        if let Some(byte) = packed.get_mut(round % 32) {
            *byte = byte.rotate_left(3) ^ step;
        }
        core::hint::spin_loop();
    }
    generator.absorb(&packed);
    generator.absorb(&last.to_le_bytes());
    hardware
}

/// A word from RDSEED, or from RDRAND, or none.
fn hardware_word() -> Option<u64> {
    let features = cpu::features();
    for _ in 0..10 {
        let (word, good): (u64, u8);
        if features.rdseed {
            // SAFETY: CPUID announced RDSEED; it writes a register and the carry flag only.
            unsafe {
                core::arch::asm!("rdseed {0}", "setc {1}", out(reg) word, out(reg_byte) good, options(nostack, nomem))
            };
        } else if features.rdrand {
            // SAFETY: CPUID announced RDRAND; it writes a register and the carry flag only.
            unsafe {
                core::arch::asm!("rdrand {0}", "setc {1}", out(reg) word, out(reg_byte) good, options(nostack, nomem))
            };
        } else {
            return None;
        }
        // All zeros and all ones are what broken sources gave.
        if good != 0 && word != 0 && word != u64::MAX {
            return Some(word);
        }
    }
    None
}
