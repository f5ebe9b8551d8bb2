//! Threads, locks, panics and clocks of `std`. Prints `ok NAME` or `FAILED NAME: why` for each; runs on Linux as well.
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, Once, OnceLock, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

type Outcome = Result<(), String>;
type Test = fn() -> Outcome;

fn check(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

fn joined<T>(handle: thread::JoinHandle<T>) -> Result<T, String> {
    handle.join().map_err(|_| "a thread panicked".to_owned())
}

fn threads_return_values() -> Outcome {
    let handles: Result<Vec<_>, _> =
        (0..8_u64).map(|n| thread::Builder::new().name(format!("square {n}")).spawn(move || n * n)).collect();
    let handles = handles.map_err(|error| error.to_string())?;
    let values: Result<Vec<u64>, String> = handles.into_iter().map(joined).collect();
    check(values? == [0, 1, 4, 9, 16, 25, 36, 49], "the squares differ")
}

fn threads_come_and_go() -> Outcome {
    for n in 0..100_u32 {
        check(joined(thread::spawn(move || n))? == n, "another value came back")?;
    }
    Ok(())
}

fn a_mutex_keeps_counts() -> Outcome {
    let count = Arc::new(Mutex::new(0_u32));
    let handles: Vec<_> = (0..4)
        .map(|_| {
            let count = Arc::clone(&count);
            thread::spawn(move || {
                for _ in 0..1000 {
                    if let Ok(mut count) = count.lock() {
                        *count += 1;
                    }
                }
            })
        })
        .collect();
    for handle in handles {
        joined(handle)?;
    }
    let total = count.lock().map_err(|_| "poisoned")?;
    check(*total == 4000, "counts were lost")
}

fn a_condition_variable_hands_over() -> Outcome {
    let pair = Arc::new((Mutex::new(0_u32), Condvar::new()));
    let other = Arc::clone(&pair);
    let handle = thread::spawn(move || {
        let (turn, changed) = &*other;
        for round in 0..200 {
            let Ok(guard) = turn.lock() else { return };
            let Ok(mut guard) = changed.wait_while(guard, |turn| *turn != round * 2 + 1) else { return };
            *guard += 1;
            changed.notify_one();
        }
    });
    let (turn, changed) = &*pair;
    for round in 0..200 {
        let guard = turn.lock().map_err(|_| "poisoned")?;
        let mut guard = changed.wait_while(guard, |turn| *turn != round * 2).map_err(|_| "poisoned")?;
        *guard += 1;
        changed.notify_one();
    }
    joined(handle)?;
    let last = *turn.lock().map_err(|_| "poisoned")?;
    check(last == 400, "rounds were lost")
}

fn channels_deliver_in_order() -> Outcome {
    let (send, receive) = mpsc::sync_channel(4);
    let handle = thread::spawn(move || (0..1000).all(|n| send.send(n).is_ok()));
    let received: Vec<u32> = receive.iter().collect();
    check(joined(handle)? && received.iter().copied().eq(0..1000), "another order")
}

fn readers_share_and_writers_do_not() -> Outcome {
    let lock = Arc::new(RwLock::new((0_u32, 0_u32)));
    let torn = Arc::new(AtomicU32::new(0));
    let handles: Vec<_> = (0..3)
        .map(|n| {
            let (lock, torn) = (Arc::clone(&lock), Arc::clone(&torn));
            thread::spawn(move || {
                for _ in 0..300 {
                    if n == 0 {
                        if let Ok(mut pair) = lock.write() {
                            pair.0 += 1;
                            thread::yield_now();
                            pair.1 += 1;
                        }
                    } else if let Ok(pair) = lock.read()
                        && pair.0 != pair.1
                    {
                        torn.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for handle in handles {
        joined(handle)?;
    }
    check(torn.load(Ordering::Relaxed) == 0, "a reader saw half of a write")
}

fn barriers_and_once() -> Outcome {
    static ONCE: Once = Once::new();
    static CELL: OnceLock<u32> = OnceLock::new();
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let barrier = Arc::new(Barrier::new(3));
    let handles: Vec<_> = (0..3)
        .map(|n| {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || {
                let leads = barrier.wait().is_leader();
                ONCE.call_once(|| {
                    RUNS.fetch_add(1, Ordering::Relaxed);
                });
                (leads, *CELL.get_or_init(|| n))
            })
        })
        .collect();
    let results: Result<Vec<(bool, u32)>, String> = handles.into_iter().map(joined).collect();
    let results = results?;
    let first = results.first().map_or(0, |(_, value)| *value);
    check(results.iter().filter(|(leads, _)| *leads).count() == 1, "not one leader")?;
    check(results.iter().all(|(_, value)| *value == first), "two first values")?;
    check(RUNS.load(Ordering::Relaxed) == 1, "once ran more than once")
}

struct Noted(&'static AtomicU32);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn thread_locals_are_dropped() -> Outcome {
    static DROPS: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static OWN: RefCell<Vec<Noted>> = const { RefCell::new(Vec::new()) };
    }
    for _ in 0..3 {
        joined(thread::spawn(|| OWN.with(|own| own.borrow_mut().push(Noted(&DROPS)))))?;
    }
    check(OWN.with(|own| own.borrow().is_empty()), "a thread's value is another's too")?;
    check(DROPS.load(Ordering::Relaxed) == 3, "values were not dropped")
}

fn scoped_threads_borrow() -> Outcome {
    let words = ["one", "two", "three"];
    let lengths: Vec<usize> = thread::scope(|scope| {
        let handles: Vec<_> = words.iter().map(|word| scope.spawn(|| word.len())).collect();
        handles.into_iter().filter_map(|handle| handle.join().ok()).collect()
    });
    check(lengths == [3, 3, 5], "lengths differ")
}

#[expect(clippy::panic, reason = "a panic is what it tests")]
fn panics_unwind_and_are_caught() -> Outcome {
    static DROPS: AtomicU32 = AtomicU32::new(0);
    std::panic::set_hook(Box::new(|_| {}));
    let caught = catch_unwind(|| {
        let _noted = Noted(&DROPS);
        std::panic::panic_any(41_u32);
    });
    let in_thread = thread::spawn(|| std::panic::panic_any("words")).join();
    drop(std::panic::take_hook());
    check(caught.err().and_then(|why| why.downcast::<u32>().ok()).is_some_and(|why| *why == 41), "another payload")?;
    check(DROPS.load(Ordering::Relaxed) == 1, "nothing was dropped on the way")?;
    check(in_thread.is_err_and(|why| why.is::<&str>()), "a thread's panic is not told")
}

fn time_passes() -> Outcome {
    let before = Instant::now();
    thread::sleep(Duration::from_millis(5));
    check(before.elapsed() >= Duration::from_millis(5), "a sleep was too short")?;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_err(|error| error.to_string())?;
    check(since.as_secs() > 1_600_000_000, "the wall clock is wrong")
}

fn waits_time_out() -> Outcome {
    let before = Instant::now();
    thread::park_timeout(Duration::from_millis(3));
    let (lock, changed) = (Mutex::new(()), Condvar::new());
    let guard = lock.lock().map_err(|_| "poisoned")?;
    let (_guard, result) = changed.wait_timeout(guard, Duration::from_millis(3)).map_err(|_| "poisoned")?;
    check(result.timed_out(), "it did not time out")?;
    let (_send, receive) = mpsc::channel::<()>();
    check(receive.recv_timeout(Duration::from_millis(3)).is_err(), "something came")?;
    check(before.elapsed() >= Duration::from_millis(6), "waits were too short")
}

fn parked_threads_are_woken() -> Outcome {
    let handle = thread::spawn(thread::park);
    handle.thread().unpark();
    joined(handle)
}

fn deep_stacks_are_there() -> Outcome {
    fn depth(n: u32) -> u32 {
        let room = std::hint::black_box([n; 64]);
        if n == 0 { 0 } else { depth(n - 1) + u32::from(room.first() == Some(&n)) }
    }
    let handle = thread::Builder::new().stack_size(4 << 20).spawn(|| depth(8000)).map_err(|error| error.to_string())?;
    check(joined(handle)? == 8000, "the depth differs")
}

fn what_is_too_much_is_refused() -> Outcome {
    if !cfg!(capos_guest) {
        // On Linux there is room for all of them.
        return Ok(());
    }
    // More memory than the process may have, then more threads.
    let large = thread::Builder::new().stack_size(1 << 30).spawn(|| ());
    check(large.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "a stack of 1 GiB was given")?;
    let (hold, held) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let mut threads = Vec::new();
    let refused = (0..64).find_map(|_| {
        let held = Arc::clone(&held);
        let waits = move || drop(held.lock().map(|held| held.recv()));
        thread::Builder::new().stack_size(64 << 10).spawn(waits).map(|thread| threads.push(thread)).err()
    });
    drop(hold);
    let made = threads.len();
    threads.into_iter().try_for_each(joined)?;
    check(made >= 8, "there was no room for 8 threads")?;
    check(refused.is_some_and(|error| error.kind() == ErrorKind::WouldBlock), "64 threads were given")
}

/// Runs a thread and returns where its stack is, and the first value of its own variable.
fn own_place_and_value() -> Result<(usize, u32), String> {
    thread_local! {
        static OWN: Cell<u32> = const { Cell::new(3) };
        static ZERO: Cell<u32> = const { Cell::new(0) };
    }
    joined(thread::spawn(|| {
        let place = std::hint::black_box(&0_u8);
        (std::ptr::from_ref(place).addr(), OWN.replace(40) + ZERO.replace(40))
    }))
}

fn stacks_serve_again_and_values_begin_anew() -> Outcome {
    let first = own_place_and_value()?;
    let again = (0..50).map(|_| own_place_and_value()).collect::<Result<Vec<_>, _>>()?;
    check(again.iter().all(|(_, value)| *value == 3) && first.1 == 3, "a thread has another's value")?;
    // Linux may choose another place.
    check(!cfg!(capos_guest) || again.iter().all(|one| *one == first), "a stack was not used again")
}

/// Keeps stacks that no thread needs, and reports the largest stack that a thread can have.
fn largest_stack() -> Result<usize, String> {
    let at_once = Arc::new(Barrier::new(3));
    let handles: Vec<_> = (0..3)
        .map(|_| {
            let at_once = Arc::clone(&at_once);
            thread::spawn(move || _ = at_once.wait())
        })
        .collect();
    handles.into_iter().try_for_each(joined)?;
    let starts = |mebibytes: usize| thread::Builder::new().stack_size(mebibytes << 20).spawn(|| ()).map(joined).is_ok();
    Ok((8..64).rev().find(|mebibytes| starts(*mebibytes)).unwrap_or(0))
}

/// The program itself takes less than three of 64 MiB, and threads leave more than that.
fn what_ended_threads_left_is_given_up() -> Outcome {
    if !cfg!(capos_guest) {
        // Linux does not limit the process.
        return Ok(());
    }
    check(largest_stack()? >= 61, "a thread was refused memory that nobody uses")?;
    largest_stack()?;
    // The heap keeps its growth: nothing that needs much may follow.
    let mut bytes: Vec<u8> = Vec::new();
    check(bytes.try_reserve_exact(60 << 20).is_ok(), "an allocation was refused memory that nobody uses")
}

/// Of 192 MiB, in pieces that are less than the heap grows by, with as many objects as programs have by themselves.
fn the_heap_grows_to_all_that_it_may() -> Outcome {
    const PIECE: usize = 48 << 10;
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    for number in 0..(176 << 20) / PIECE {
        let mut piece = Vec::new();
        let made = piece.try_reserve_exact(PIECE);
        check(made.is_ok(), &format!("an allocation was refused behind {} MiB", (number * PIECE) >> 20))?;
        piece.push(u8::try_from(number % 251).unwrap_or(0));
        pieces.push(piece);
    }
    let holds = |piece: &Vec<u8>, number: usize| piece.first().is_some_and(|byte| usize::from(*byte) == number % 251);
    let whole = pieces.iter().zip(0_usize..).all(|(piece, number)| holds(piece, number));
    check(whole, "a piece was written over")
}

fn hashes_are_seeded() -> Outcome {
    use std::hash::{BuildHasher, RandomState};
    check(RandomState::new().hash_one(1) != RandomState::new().hash_one(1), "two seeds are the same")
}

/// Two threads take turns without ever waiting in the kernel. If they share a processor, each turn takes the rest of a
/// slice of ten milliseconds.
fn threads_run_at_once() -> Outcome {
    const TURNS: u32 = 1000;
    const SLICE: Duration = Duration::from_millis(10);
    if thread::available_parallelism().map_or(1, |count| count.get()) < 2 {
        return Ok(());
    }
    let turn = AtomicU32::new(0);
    let take_turns = |own: u32| {
        while turn.load(Ordering::Acquire) < TURNS {
            if turn.load(Ordering::Acquire) % 2 == own {
                turn.fetch_add(1, Ordering::Release);
            }
            std::hint::spin_loop();
        }
    };
    let began = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| take_turns(1));
        take_turns(0);
    });
    check(began.elapsed() < SLICE * TURNS * 3 / 4, "two threads had to share one of the processors")
}

/// More threads than processors, which are moved between them with the content of their vector registers.
fn vectors_stay_with_their_threads() -> Outcome {
    let series = |seed: u32| {
        let mut lanes = [0.0_f32; 16];
        for step in 0..200_000_u32 {
            for (lane, value) in (0_u16..).zip(&mut lanes) {
                *value = *value * 0.5 + f32::from(lane) + seed as f32;
            }
            if step % 1000 == 0 {
                thread::yield_now();
            }
        }
        lanes
    };
    let handles: Vec<_> = (0..9_u32).map(|seed| thread::spawn(move || series(seed))).collect();
    for (seed, handle) in (0..).zip(handles) {
        check(joined(handle)? == series(seed), "a thread came to other numbers")?;
    }
    Ok(())
}

fn main() {
    // As the program that has more memory, which is another of the manifest's.
    if std::env::args().nth(1).as_deref() == Some("heap") {
        return run(&[("the heap grows to all that it may", the_heap_grows_to_all_that_it_may)]);
    }
    run(&[
        ("threads return values", threads_return_values),
        ("threads come and go", threads_come_and_go),
        ("a mutex keeps counts", a_mutex_keeps_counts),
        ("a condition variable hands over", a_condition_variable_hands_over),
        ("channels deliver in order", channels_deliver_in_order),
        ("readers share and writers do not", readers_share_and_writers_do_not),
        ("barriers and once", barriers_and_once),
        ("thread locals are dropped", thread_locals_are_dropped),
        ("scoped threads borrow", scoped_threads_borrow),
        ("panics unwind and are caught", panics_unwind_and_are_caught),
        ("time passes", time_passes),
        ("waits time out", waits_time_out),
        ("parked threads are woken", parked_threads_are_woken),
        ("deep stacks are there", deep_stacks_are_there),
        ("what is too much is refused", what_is_too_much_is_refused),
        ("hashes are seeded", hashes_are_seeded),
        ("threads run at once", threads_run_at_once),
        ("vectors stay with their threads", vectors_stay_with_their_threads),
        ("stacks serve again and values begin anew", stacks_serve_again_and_values_begin_anew),
        ("what ended threads left is given up", what_ended_threads_left_is_given_up),
    ]);
}

fn run(tests: &[(&str, Test)]) {
    let mut failed = 0;
    for (name, test) in tests {
        match test() {
            Ok(()) => println!("ok {name}"),
            Err(why) => {
                failed += 1;
                println!("FAILED {name}: {why}");
            }
        }
    }
    println!("{} passed, {failed} failed", tests.len() - failed);
    std::process::exit(i32::from(failed > 0));
}
