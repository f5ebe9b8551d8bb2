//! Measures what `std` costs, in instructions, on a machine whose time-stamp counter counts those. Each figure is a line
//! `bench NAME VALUE UNIT: HOW` on standard output; `bench-std has measured` is the last one.
//!
//! It knows nothing of the system that it runs on but that `/home` can be written: the same source is built for capOS and
//! for Linux.
#![forbid(unsafe_code)]

mod storm;

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::sync::{Condvar, Mutex, PoisonError, mpsc};
use std::thread;

use capos_measure::{Samples, count, overhead};

/// How often each thing is measured.
const ROUNDS: usize = 501;
/// How often what takes long is.
const LONG_ROUNDS: usize = 51;
/// The file that is read, and its bytes.
const FILE: &str = "/home/bench-std";
const FILE_BYTES: usize = 1 << 20;

type Outcome = Result<(), Box<dyn Error>>;

fn tell(name: &str, samples: Samples, per: u64, how: &str) {
    let (value, words) = samples.median(per);
    println!("bench {name} {value} instructions: {how}; {words}");
}

fn threads() -> Outcome {
    let (overhead, mut samples) = (overhead(), Samples::with_room(ROUNDS));
    for _ in 0..ROUNDS {
        let from = count();
        thread::spawn(|| ()).join().map_err(|_| "the thread panicked")?;
        samples.add(from, count(), overhead);
    }
    tell("thread_create_join", samples, 1, "thread::spawn of an empty closure, and its join");
    Ok(())
}

/// Two threads that take turns: each passes the turn to the other under the lock.
fn mutex() {
    let (turn, changed) = (Mutex::new(false), Condvar::new());
    let take_turn = |mine: bool| {
        let mut now = turn.lock().unwrap_or_else(PoisonError::into_inner);
        while *now != mine {
            now = changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        *now = !mine;
        changed.notify_one();
    };
    let (overhead, mut samples) = (overhead(), Samples::with_room(ROUNDS));
    thread::scope(|scope| {
        scope.spawn(|| (0..ROUNDS).for_each(|_| take_turn(true)));
        let mut from = count();
        for _ in 0..ROUNDS {
            take_turn(false);
            let to = count();
            samples.add(from, to, overhead);
            from = to;
        }
    });
    tell("mutex_hand_over", samples, 2, "a Mutex and a Condvar given from one thread to another that waits for it");
}

fn channel() -> Outcome {
    let (question, questions) = mpsc::channel::<u64>();
    let (answer, answers) = mpsc::channel();
    let other = thread::spawn(move || {
        for word in questions {
            if answer.send(word).is_err() {
                break;
            }
        }
    });
    let (overhead, mut samples) = (overhead(), Samples::with_room(ROUNDS));
    for round in 0..ROUNDS as u64 {
        let from = count();
        question.send(round)?;
        answers.recv()?;
        samples.add(from, count(), overhead);
    }
    drop(question);
    other.join().map_err(|_| "the thread panicked")?;
    tell("channel_round_trip", samples, 1, "a word to another thread and back, through two mpsc channels");
    Ok(())
}

fn file() -> Outcome {
    let content: Vec<u8> = (0..FILE_BYTES).map(|at| (at / 3) as u8).collect();
    std::fs::write(FILE, &content)?;
    let mut buffer = vec![0; FILE_BYTES];
    let (overhead, mut samples) = (overhead(), Samples::with_room(LONG_ROUNDS));
    for _ in 0..LONG_ROUNDS {
        buffer.fill(1);
        let from = count();
        File::open(FILE)?.read_exact(&mut buffer)?;
        samples.add(from, count(), overhead);
        if buffer != content {
            return Err("the file holds something else".into());
        }
    }
    tell("file_read_1m", samples, 1, "File::open, read_exact of 1 MiB from a file in memory, close");
    Ok(())
}

fn main() -> Outcome {
    threads()?;
    mutex();
    channel()?;
    file()?;
    for number in [1, 2, 4] {
        storm::measure(number);
    }
    println!("bench-std has measured");
    Ok(())
}
