//! Example: threads that share work. One channel carries numbers to as many workers as the argument says, and another
//! carries back their results: the number of primes in each block of ten thousand numbers.
//!
//! ```text
//! workers 4
//! ```
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::{Mutex, mpsc};
use std::thread;

/// Numbers of one piece of work.
const BLOCK: u32 = 10_000;
/// Pieces of work.
const BLOCKS: u32 = 20;

fn is_prime(number: u32) -> bool {
    number > 1 && (2..).take_while(|factor| factor * factor <= number).all(|factor| !number.is_multiple_of(factor))
}

/// Has `workers` threads count the primes of each block; in the order of the blocks.
fn count(workers: u32, blocks: u32) -> Vec<(u32, usize)> {
    let (work, orders) = mpsc::sync_channel::<u32>(4);
    let (results, found) = mpsc::channel();
    let orders = Mutex::new(orders);
    thread::scope(|scope| {
        for _ in 0..workers {
            let (orders, results) = (&orders, results.clone());
            scope.spawn(move || {
                loop {
                    let order = orders.lock().ok().and_then(|orders| orders.recv().ok());
                    let Some(block) = order else { return };
                    let primes = (block * BLOCK..(block + 1) * BLOCK).filter(|number| is_prime(*number)).count();
                    if results.send((block, primes)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        for block in 0..blocks {
            if work.send(block).is_err() {
                break;
            }
        }
        // With nothing more to come the workers end, and with them the results.
        drop(work);
        let mut all: Vec<(u32, usize)> = found.iter().collect();
        all.sort_unstable();
        all
    })
}

fn main() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "4".into());
    let Some(workers) = argument.parse().ok().filter(|workers| (1..=64).contains(workers)) else {
        eprintln!("workers: the argument is how many threads work, 1 to 64, not `{argument}`");
        return ExitCode::FAILURE;
    };
    let found = count(workers, BLOCKS);
    let primes: usize = found.iter().map(|(_, primes)| primes).sum();
    println!("{workers} workers found {primes} primes below {}", BLOCK * BLOCKS);
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_counted_once() {
        for workers in [1, 3] {
            assert_eq!(count(workers, 3), [(0, 1229), (1, 1033), (2, 983)]);
        }
    }
}
