//! Threads, and their shared data.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn arc_swap() {
    let shared = arc_swap::ArcSwap::from_pointee(0_u32);
    thread::scope(|scope| {
        scope.spawn(|| (1..=1000).for_each(|n| shared.store(Arc::new(n))));
        scope.spawn(|| {
            let mut last = 0;
            while last < 1000 {
                let now = **shared.load();
                assert!(now >= last);
                last = now;
                thread::yield_now();
            }
        });
    });
    assert_eq!(**shared.load(), 1000);
}

#[test]
fn crossbeam() {
    let (send, receive) = crossbeam::channel::bounded(2);
    let sum: u64 = thread::scope(|scope| {
        let workers: Vec<_> =
            (0..3).map(|_| receive.clone()).map(|numbers| scope.spawn(move || numbers.iter().sum::<u64>())).collect();
        (1..=1000).for_each(|n| send.send(n).unwrap());
        drop(send);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(sum, 500_500);
    let (_open, nothing) = crossbeam::channel::unbounded::<()>();
    crossbeam::select! {
        recv(nothing) -> _ => panic!("something came"),
        recv(crossbeam::channel::after(Duration::from_millis(5))) -> tick => assert!(tick.is_ok()),
    }
}

#[test]
fn dashmap() {
    let map = dashmap::DashMap::new();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500_u32).for_each(|n| *map.entry(n % 50).or_insert(0_u32) += 1));
        }
    });
    assert!(map.len() == 50 && map.iter().all(|entry| *entry.value() == 40));
}

/// A count that a mutex of C's guards.
struct Counter(UnsafeCell<libc::pthread_mutex_t>, UnsafeCell<u32>);

#[expect(unsafe_code, reason = "what C guards is shared by word of honour")]
// SAFETY: only the holder of the mutex accesses the count.
unsafe impl Sync for Counter {}

impl Counter {
    #[expect(unsafe_code, reason = "C's functions are unsafe to call")]
    fn add(&self) {
        // SAFETY: the mutex stays where it is. Between the two calls this thread holds it.
        let ends = unsafe {
            let taken = libc::pthread_mutex_lock(self.0.get());
            let count = *self.1.get();
            thread::yield_now();
            *self.1.get() = count + 1;
            [taken, libc::pthread_mutex_unlock(self.0.get())]
        };
        assert_eq!(ends, [0, 0]);
    }

    #[expect(unsafe_code, reason = "C's functions are unsafe to call")]
    fn end(self) -> u32 {
        let mutex = self.0.get();
        // SAFETY: this is the last user. The mutex is locked, found locked, unlocked and destroyed once.
        let ends = unsafe {
            let taken = libc::pthread_mutex_trylock(mutex);
            let again = libc::pthread_mutex_trylock(mutex);
            [taken, again, libc::pthread_mutex_unlock(mutex), libc::pthread_mutex_destroy(mutex)]
        };
        assert_eq!(ends, [0, libc::EBUSY, 0, 0]);
        self.1.into_inner()
    }
}

/// Threads of C that detach themselves at once, each before its creator knows of it: their numbers.
#[expect(unsafe_code, reason = "C's functions are unsafe to call")]
fn detached(count: usize) -> Vec<i64> {
    static NUMBERS: std::sync::Mutex<Vec<i64>> = std::sync::Mutex::new(Vec::new());
    extern "C" fn first(_: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: a thread may detach itself; these are never joined.
        let (number, ended) = unsafe { (libc::syscall(libc::SYS_gettid), libc::pthread_detach(libc::pthread_self())) };
        assert_eq!(ended, 0);
        NUMBERS.lock().unwrap().push(number);
        std::ptr::null_mut()
    }
    for _ in 0..count {
        let mut thread = 0;
        // SAFETY: the place lasts for the call; the function needs no argument.
        let made = unsafe { libc::pthread_create(&mut thread, std::ptr::null(), first, std::ptr::null_mut()) };
        assert_eq!(made, 0);
    }
    while NUMBERS.lock().unwrap().len() < count {
        thread::yield_now();
    }
    std::mem::take(&mut *NUMBERS.lock().unwrap())
}

#[test]
fn libc() {
    let mut numbers = detached(20);
    numbers.sort_unstable();
    numbers.dedup();
    assert!(numbers.len() == 20 && numbers[0] > 1, "{numbers:?}");
    let counter = Counter(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER), UnsafeCell::new(0));
    // They begin together: otherwise one could end before the next has started.
    let start = Barrier::new(4);
    let add = || {
        start.wait();
        (0..500).for_each(|_| counter.add());
    };
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(add))));
    assert_eq!(counter.end(), 2000);
}

#[test]
fn once_cell() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    static VALUE: once_cell::sync::Lazy<u32> = once_cell::sync::Lazy::new(|| RUNS.fetch_add(1, Ordering::Relaxed) + 7);
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(|| assert_eq!(*VALUE, 7)))));
    assert_eq!(RUNS.load(Ordering::Relaxed), 1);
}

#[test]
fn parking_lot() {
    use parking_lot::{Condvar, Mutex};
    let (turn, changed) = (Mutex::new(0_u32), Condvar::new());
    thread::scope(|scope| {
        for own in 0..2 {
            let (turn, changed) = (&turn, &changed);
            scope.spawn(move || {
                for _ in 0..100 {
                    let mut turn = turn.lock();
                    changed.wait_while(&mut turn, |turn| *turn % 2 != own);
                    *turn += 1;
                    changed.notify_all();
                }
            });
        }
    });
    assert_eq!(*turn.lock(), 200);
    assert!(changed.wait_for(&mut turn.lock(), Duration::from_millis(5)).timed_out());
}

#[test]
fn rayon() {
    use rayon::prelude::*;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    let (sum, sorted) = pool.install(|| {
        let sum: u64 = (0..100_000_u64).into_par_iter().filter(|n| n % 3 == 0).sum();
        let mut numbers: Vec<u32> = (0..10_000).map(|n| n * 7919 % 10_007).collect();
        numbers.par_sort_unstable();
        (sum, numbers.windows(2).all(|pair| pair[0] <= pair[1]))
    });
    assert!(sum == 1_666_683_333 && sorted);
}

#[test]
fn tokio() {
    // Its loop without files and sockets, for which it would need Linux's epoll.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let start = Instant::now();
    let mut ended = runtime.block_on(async {
        let (send, mut receive) = tokio::sync::mpsc::channel(4);
        for delay in [30_u64, 10, 20] {
            let send = send.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(delay)).await;
                send.send((delay, start.elapsed())).await.unwrap();
            });
        }
        drop(send);
        let mut ended = Vec::new();
        while let Some(end) = receive.recv().await {
            ended.push(end);
        }
        let late = tokio::time::timeout(Duration::from_millis(5), std::future::pending::<()>()).await;
        assert!(late.is_err());
        ended
    });
    // The distance of their starts depends on the machine: none ends early, and all do.
    ended.sort_unstable();
    assert!(ended.iter().map(|(delay, _)| *delay).eq([10, 20, 30]), "{ended:?}");
    assert!(ended.iter().all(|(delay, took)| *took >= Duration::from_millis(*delay)), "{ended:?}");
}
