//! Measures the counterparts of `bench-std`'s operations in a program on the runtime alone. It has kernel threads with
//! nothing but a stack and a ring, waits for words of memory, notifications, typed calls and the heap. Each figure is a
//! line `bench NAME VALUE UNIT: HOW` in the log; `bench-bare has measured` is the last one.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod threads;

use alloc::vec;
use alloc::vec::Vec;

use capos_measure::{Samples, count, overhead};
use capos_rt::{Context, Env, Error, log};
use capos_schema::storage::DirectoryClient;

use threads::Crew;

/// How often each thing is measured, as `bench-std` does.
const ROUNDS: usize = 501;
const LONG_ROUNDS: usize = 51;
/// The file that is read, its bytes, and the most that one call carries.
const FILE: &str = "bench-bare";
const FILE_BYTES: usize = 1 << 20;
const PIECE: usize = 256 << 10;
/// Allocations, and how many are held.
const STEPS: u32 = 50_000;
const HELD: usize = 64;

fn tell(name: &str, samples: Samples, per: u64, how: &str) {
    let (value, words) = samples.median(per);
    log::info!("bench {name} {value} instructions: {how}; {words}");
}

async fn file(env: &Env) -> Result<(), Error> {
    let home: DirectoryClient = env.cap("home")?;
    let content: Vec<u8> = (0..FILE_BYTES).map(|at| (at / 3) as u8).collect();
    let file = home.create(FILE).await.context("making the file")?;
    for (at, piece) in content.chunks(PIECE).enumerate() {
        file.write((at * PIECE) as u64, piece).await.context("writing the file")?;
    }
    let mut buffer = vec![0; FILE_BYTES];
    let (overhead, mut samples) = (overhead(), Samples::with_room(LONG_ROUNDS));
    for _ in 0..LONG_ROUNDS {
        buffer.fill(1);
        let from = count();
        let file = home.open(FILE).await.context("opening the file")?;
        for (at, piece) in buffer.chunks_mut(PIECE).enumerate() {
            let data = file.read((at * PIECE) as u64, PIECE as u32).await.context("reading the file")?;
            piece.get_mut(..data.len()).context("more bytes than were asked for")?.copy_from_slice(&data);
        }
        drop(file);
        samples.add(from, count(), overhead);
        if buffer != content {
            return Err(Error::new("the file holds something else"));
        }
    }
    tell("file_read_1m", samples, 1, "Directory.open, File.read of 4 times 256 KiB from a file in memory, release");
    Ok(())
}

/// The same allocations as `bench-std`'s.
fn storm() {
    let mut state = 1_u32;
    let mut held: [Vec<u8>; HELD] = [const { Vec::new() }; HELD];
    let from = count();
    for _ in 0..STEPS {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let bits = (state >> 8) as usize;
        let bytes = (16 + bits % 16) << (bits / 16 % 7);
        if let Some(place) = held.get_mut(bits / 128 % HELD) {
            *place = core::hint::black_box(Vec::with_capacity(bytes));
        }
    }
    let value = count().saturating_sub(from) / u64::from(STEPS);
    log::info!(
        "bench allocation_storm_1 {value} instructions: one allocation of 16 to 1,984 bytes and one release, mean of {STEPS}"
    );
}

async fn run(env: Env) -> Result<(), Error> {
    let crew = Crew::new(&env)?;
    let (overhead, mut samples) = (overhead(), Samples::with_room(ROUNDS));
    for _ in 0..ROUNDS {
        let from = count();
        crew.start_and_join().await?;
        samples.add(from, count(), overhead);
    }
    tell("thread_create_join", samples, 1, "Process.createThread with a stack that is there, Thread.wait, release");
    let how = "a word of memory given from one thread to another that waits for it: wakeWord, waitWord";
    tell("mutex_hand_over", crew.hand_over(ROUNDS).await?, 2, how);
    let how = "notify and wait in one ENTER, on both sides, between two threads";
    tell("channel_round_trip", crew.notify(ROUNDS).await?, 1, how);
    file(&env).await?;
    storm();
    log::info!("bench-bare has measured");
    Ok(())
}

capos_rt::program!(run);
