//! Durable commits, and a file that is written, synced, and read after the next start. Each figure is a line
//! `bench NAME VALUE UNIT: HOW` on standard output.

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;

/// How many commits there are, and the bytes of each value.
pub const COMMITS: u32 = 1000;
pub const VALUE_BYTES: usize = 100;
/// The file's pieces of 1 MiB, each written or read by one call.
const PIECES: u32 = 64;
const PIECE_BYTES: usize = 1 << 20;
/// The bytes from one number in a piece to the next.
const STAMPED_BYTES: usize = 4096;

/// What a measurement gives.
pub type Outcome = Result<(), Box<dyn Error>>;

/// Measures work as the difference of two counts, without the part of it in which every processor waits.
pub struct Meter<'a> {
    /// The count so far.
    pub count: &'a dyn Fn() -> u64,
    /// The part of it in which every processor waited.
    pub idle: &'a dyn Fn() -> Result<u64, Box<dyn Error>>,
    /// What the names of figures begin with.
    pub prefix: &'a str,
    /// The unit of figures, and how many counts it is.
    pub unit: (&'a str, u64),
}

impl Meter<'_> {
    /// Does work and tells its figure.
    fn tell(&self, name: &str, how: &str, work: impl FnOnce() -> Outcome) -> Outcome {
        // What it takes to ask for the idle time is outside of both counts.
        let (idle, start) = ((self.idle)()?, (self.count)());
        work()?;
        let sum = (self.count)().saturating_sub(start);
        let sum = sum.saturating_sub((self.idle)()?.saturating_sub(idle));
        let (unit, counts) = self.unit;
        println!("bench {}{name} {} {unit}: {how}", self.prefix, sum.checked_div(counts).unwrap_or_default());
        Ok(())
    }
}

/// Measures by this machine's clock, in microseconds.
///
/// # Errors
/// The work fails.
pub fn by_time(work: impl FnOnce(&Meter<'_>) -> Outcome) -> Outcome {
    let start = Instant::now();
    let count = || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    work(&Meter { count: &count, idle: &|| Ok(0), prefix: "", unit: ("microseconds", 1000) })
}

/// Measures in instructions, on a machine whose time-stamp counter counts them: one is a nanosecond. `idle` gives the nanoseconds in
/// which every processor waited.
///
/// # Errors
/// The work fails.
pub fn by_instructions(
    idle: &dyn Fn() -> Result<u64, Box<dyn Error>>,
    work: impl FnOnce(&Meter<'_>) -> Outcome,
) -> Outcome {
    work(&Meter { count: &capos_measure::count, idle, prefix: "count_", unit: ("instructions", 1) })
}

/// Bytes that differ from place to place.
fn fill(bytes: &mut [u8]) {
    let mut state = 0x9e37_79b9_u32;
    for byte in bytes {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        [.., *byte] = state.to_le_bytes();
    }
}

/// The number of a piece at each 4 KiB of it. To write and to compare these takes few instructions.
fn stamps(piece: &mut [u8]) -> impl Iterator<Item = &mut [u8; 4]> {
    piece.chunks_mut(STAMPED_BYTES).filter_map(|block| block.first_chunk_mut())
}

/// Does all commits, each of which gives a key, the number, a value.
///
/// # Errors
/// A commit fails.
pub fn commits(meter: &Meter<'_>, name: &str, how: &str, mut commit: impl FnMut(u32, &[u8]) -> Outcome) -> Outcome {
    let mut value = [0; VALUE_BYTES];
    fill(&mut value);
    meter.tell(name, how, || {
        for number in 0..COMMITS {
            stamps(&mut value).for_each(|stamp| *stamp = number.to_le_bytes());
            commit(number, &value)?;
        }
        Ok(())
    })
}

/// Writes the file and syncs it.
///
/// # Errors
/// The file cannot be written.
pub fn write_file(meter: &Meter<'_>, path: &Path) -> Outcome {
    let mut piece = vec![0; PIECE_BYTES];
    fill(&mut piece);
    meter.tell("file_write", "64 MiB by File::write_all, sync_all", || {
        let mut file = File::create(path)?;
        for number in 0..PIECES {
            stamps(&mut piece).for_each(|stamp| *stamp = number.to_le_bytes());
            file.write_all(&piece)?;
        }
        Ok(file.sync_all()?)
    })
}

/// Reads the file and compares the numbers in it with what was written.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub fn read_file(meter: &Meter<'_>, path: &Path) -> Outcome {
    let mut piece = vec![0; PIECE_BYTES];
    meter.tell("file_read", "64 MiB by File::read_exact after a boot", || {
        let mut file = File::open(path)?;
        for number in 0..PIECES {
            file.read_exact(&mut piece)?;
            if stamps(&mut piece).any(|stamp| *stamp != number.to_le_bytes()) {
                return Err(format!("MiB {number} of the file holds something else").into());
            }
        }
        Ok(())
    })
}
