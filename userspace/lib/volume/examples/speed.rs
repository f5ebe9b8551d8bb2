//! Prints what sealing costs on this host: `cargo run --release -p capos-volume --features sim --example speed`.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use capos_volume::sim::{Memory, Seed};
use capos_volume::{BLOCK, CipherKind, Cost, Disk, Format, Secret, Volume, calibrate, choose};

const BLOCKS: u64 = 9000;
const COUNT: u64 = 4096;
const GROUP: usize = 32;

/// The shortest of seven rounds, in nanoseconds per block.
fn time(mut round: impl FnMut()) -> f64 {
    let times = (0..7).map(|_| {
        let begin = Instant::now();
        round();
        begin.elapsed()
    });
    times.min().unwrap_or(Duration::MAX).as_secs_f64() * 1e9 / COUNT as f64
}

fn main() {
    let begin = Instant::now();
    println!("chosen: {}", choose(&mut || begin.elapsed().as_nanos() as u64).name());
    let cost = calibrate(&mut || begin.elapsed().as_micros() as u64, 2_000_000, 256 << 20);
    println!("passphrase in at most 2 s and 256 MiB: {cost:?}, found in {:.1} s", begin.elapsed().as_secs_f64());
    let mut plain = Memory::new(vec![1; BLOCKS as usize * BLOCK]);
    let mut buffer = vec![0; GROUP * BLOCK];
    let copied = time(|| {
        for first in (0..COUNT).step_by(GROUP) {
            plain.read(first, black_box(&mut buffer)).unwrap();
        }
    });
    println!("plain read of 4 KiB: {copied:.0} ns");
    for cipher in CipherKind::ALL {
        let mut seed = Seed(1);
        let mut random = |bytes: &mut [u8]| seed.fill(bytes);
        let format = Format { cipher, cost: Cost::LEAST, label: "", cache_nodes: 64 };
        let disk = Memory::new(vec![0; BLOCKS as usize * BLOCK]);
        let mut volume = Volume::format(disk, format, &Secret::KeyFile(&[1; 32]), &mut random).unwrap();
        buffer.fill(3);
        let written = time(|| {
            for first in (0..COUNT).step_by(GROUP) {
                volume.write(first, black_box(&buffer)).unwrap();
            }
            volume.sync().unwrap();
        });
        let read = time(|| {
            for first in (0..COUNT).step_by(GROUP) {
                volume.read(first, black_box(&mut buffer)).unwrap();
            }
        });
        let mut block = vec![0; BLOCK];
        let single = time(|| {
            for first in 0..COUNT {
                volume.read(first * 97 % COUNT, black_box(&mut block)).unwrap();
            }
        });
        println!(
            "{}: read {read:.0} ns in groups of {GROUP}, {single:.0} ns alone; write and sync {written:.0} ns",
            cipher.name()
        );
    }
}
