//! Durable commits, and a file that is written, synced, and read after the next start. Each figure is a line
//! `bench NAME VALUE microseconds: HOW` on standard output.

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// How many commits there are, and the bytes of each value.
pub const COMMITS: u32 = 1000;
pub const VALUE_BYTES: usize = 100;
/// The file's pieces of 1 MiB, each written or read by one call.
const PIECES: u32 = 64;
const PIECE_BYTES: usize = 1 << 20;

/// What a measurement gives.
pub type Outcome = Result<(), Box<dyn Error>>;

fn tell(name: &str, time: Duration, how: &str) {
    println!("bench {name} {} microseconds: {how}", time.as_micros());
}

/// Bytes that differ from piece to piece and from place to place.
fn fill(piece: u32, bytes: &mut [u8]) {
    let mut state = piece.wrapping_add(1).wrapping_mul(0x9e37_79b9);
    for byte in bytes {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        [.., *byte] = state.to_le_bytes();
    }
}

/// Does all commits, each of which gives a key, the number, a value.
///
/// # Errors
/// A commit fails.
pub fn commits(name: &str, how: &str, mut commit: impl FnMut(u32, &[u8]) -> Outcome) -> Outcome {
    let mut value = [0; VALUE_BYTES];
    let mut time = Duration::ZERO;
    for number in 0..COMMITS {
        fill(number, &mut value);
        let start = Instant::now();
        commit(number, &value)?;
        time += start.elapsed();
    }
    tell(name, time, how);
    Ok(())
}

/// Writes the file and syncs it.
///
/// # Errors
/// The file cannot be written.
pub fn write_file(path: &Path) -> Outcome {
    let mut piece = vec![0; PIECE_BYTES];
    let start = Instant::now();
    let mut file = File::create(path)?;
    let mut time = start.elapsed();
    for number in 0..PIECES {
        fill(number, &mut piece);
        let start = Instant::now();
        file.write_all(&piece)?;
        time += start.elapsed();
    }
    let start = Instant::now();
    file.sync_all()?;
    time += start.elapsed();
    tell("file_write", time, "64 MiB by File::write_all, sync_all");
    Ok(())
}

/// Reads the file and compares it with what was written.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub fn read_file(path: &Path) -> Outcome {
    let (mut piece, mut expected) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    let start = Instant::now();
    let mut file = File::open(path)?;
    let mut time = start.elapsed();
    for number in 0..PIECES {
        fill(number, &mut expected);
        let start = Instant::now();
        file.read_exact(&mut piece)?;
        time += start.elapsed();
        if piece != expected {
            return Err(format!("MiB {number} of the file holds something else").into());
        }
    }
    tell("file_read", time, "64 MiB by File::read_exact after a boot");
    Ok(())
}
