//! Many allocations at a time, by one thread or several.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

use capos_measure::count;

/// Allocations of one thread, each of which replaces an older one.
const STEPS: u32 = 50_000;
/// How many each thread holds.
const HELD: usize = 64;

/// Allocations of 16 to 1,984 bytes, and in each doubling equally many.
fn storm(seed: u32) {
    let mut state = seed | 1;
    let mut held: [Vec<u8>; HELD] = [const { Vec::new() }; HELD];
    for _ in 0..STEPS {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let bits = usize::try_from(state >> 8).unwrap_or(0);
        let bytes = (16 + bits % 16) << (bits / 16 % 7);
        if let Some(place) = held.get_mut(bits / 128 % HELD) {
            *place = black_box(Vec::with_capacity(bytes));
        }
    }
}

/// The cost of an allocation and a release by this many threads at once.
pub fn measure(number: u32) {
    // All of them are there before it begins.
    let (ready, start) = (Barrier::new(number as usize + 1), Barrier::new(number as usize + 1));
    let mut from = 0;
    thread::scope(|scope| {
        for seed in 0..number {
            let (ready, start) = (&ready, &start);
            scope.spawn(move || {
                ready.wait();
                start.wait();
                storm(seed);
            });
        }
        ready.wait();
        from = count();
        start.wait();
    });
    let each = u64::from(number) * u64::from(STEPS);
    let value = count().saturating_sub(from) / each;
    println!(
        "bench allocation_storm_{number} {value} instructions: one allocation of 16 to 1,984 bytes and one release, mean of {each} by {number} at a time"
    );
}
