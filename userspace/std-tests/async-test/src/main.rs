//! Capabilities of a program on `std`: blocking calls from its threads, and executors on them. Prints `ok NAME` or
//! `FAILED NAME: why` for each. The service that it calls is `service.rs`.
#![forbid(unsafe_code)]

mod file_server;

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;

use capos_rt::{Error, block_on, call, env, join, join_all, notify, spawn, wait, yield_now};
use capos_schema::cap::CallError;
use capos_schema::hello::GreeterClient;
use capos_schema::kernel::{CapabilityTableClient, ResourceAccountClient};
use capos_schema::storage::DirectoryClient;

type Outcome = Result<(), Error>;
type Test = fn() -> Outcome;

fn check(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(Error::new(what.to_owned())) }
}

fn joined(handle: thread::JoinHandle<Outcome>) -> Outcome {
    handle.join().map_err(|_| Error::new("a thread panicked"))?
}

fn greeter() -> Result<GreeterClient, Error> {
    env()?.cap("greeter")
}

fn io(error: std::io::Error) -> Error {
    Error::new(error.to_string())
}

async fn greeted(greeter: &GreeterClient, name: &str) -> Outcome {
    check(greeter.greet(name).await? == format!("Hello, {name}!"), "another's answer came")
}

fn blocking_calls_answer() -> Outcome {
    let greeter = greeter()?;
    check(call(greeter.greet("world"))? == "Hello, world!", "another answer came")?;
    let missing = env()?.cap::<GreeterClient>("stranger");
    check(missing.is_err_and(|error| error.words().contains("stranger")), "what was not granted is there")
}

fn four_threads_call_at_once() -> Outcome {
    let threads: Vec<_> = (0..4)
        .map(|number| {
            thread::spawn(move || {
                let greeter = greeter()?;
                (0..100).try_for_each(|round| {
                    let name = format!("{number}-{round}");
                    check(call(greeter.greet(&name))? == format!("Hello, {name}!"), "another's answer came")
                })
            })
        })
        .collect();
    threads.into_iter().try_for_each(joined)
}

fn calls_on_an_executor_overlap() -> Outcome {
    block_on(async {
        let greeter = greeter()?;
        // Each is answered once the other has come.
        let (one, other) = join(greeter.greet("meet 1"), greeter.greet("meet 2")).await;
        check(one? == "Hello, meet 1!" && other? == "Hello, meet 2!", "the answers differ")
    })
}

fn blocking_calls_go_between() -> Outcome {
    block_on(async {
        let greeter = greeter()?;
        let waits = spawn({
            let greeter = greeter.clone();
            async move { greeted(&greeter, "staying 1").await }
        });
        let ticks = spawn(async {
            for round in 0..20 {
                capos_rt::sleep(500_000).await?;
                println!("tick {round}");
            }
            Ok::<(), Error>(())
        });
        let files = spawn({
            let greeter = greeter.clone();
            async move {
                for round in 0..20 {
                    let path = format!("/home/between-{round}");
                    std::fs::write(&path, path.as_bytes()).map_err(io)?;
                    // While this thread sleeps in std, answers of others arrive in its ring.
                    let caller = greeter.clone();
                    let both = spawn(async move { join(caller.greet("a"), caller.greet("b")).await });
                    yield_now().await;
                    check(std::fs::read_to_string(&path).map_err(io)? == path, "the file differs")?;
                    std::fs::remove_file(&path).map_err(io)?;
                    let (one, other) = both.await.ok_or_else(|| Error::new("the task was cancelled"))?;
                    check(one? == "Hello, a!" && other? == "Hello, b!", "the answers differ")?;
                }
                Ok::<(), Error>(())
            }
        });
        let lost = || Error::new("the task was cancelled");
        ticks.await.ok_or_else(lost)??;
        files.await.ok_or_else(lost)??;
        check(call(greeter.greet("inside"))? == "Hello, inside!", "another answer came")?;
        let stays = spawn({
            let greeter = greeter.clone();
            async move { drop(greeter.greet("stay").await) }
        });
        waits.await.ok_or_else(lost)??;
        stays.cancel();
        greeted(&greeter, "left 1").await
    })
}

fn dropped_calls_are_cancelled() -> Outcome {
    block_on(async {
        let greeter = greeter()?;
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let greeter = greeter.clone();
                spawn(async move { drop(greeter.greet("stay").await) })
            })
            .collect();
        greeted(&greeter, "staying 5").await?;
        for task in &tasks {
            task.cancel();
        }
        greeted(&greeter, "left 5").await
    })
}

fn an_executor_ends_with_what_it_runs() -> Outcome {
    let kept = block_on(async {
        let greeter = greeter()?;
        let other = greeter.clone();
        spawn(async move { drop(other.greet("stay").await) });
        // One call continues in a task, another is carried out of the executor.
        let mut call = Box::pin({
            let greeter = greeter.clone();
            async move { greeter.greet("stay").await }
        });
        let answered = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_ready())).await;
        check(!answered, "a call that stays was answered")?;
        greeted(&greeter, "staying 7").await?;
        Ok::<_, Error>(call)
    })?;
    // From here on calls block the thread again.
    check(call(greeter()?.greet("left 7"))? == "Hello, left 7!", "another answer came")?;
    check(call(kept).is_err(), "a call that was cancelled has an answer")
}

fn two_threads_have_an_executor_each() -> Outcome {
    let one = || {
        thread::spawn(|| {
            block_on(async {
                let greeter = greeter()?;
                for round in 0..50 {
                    let name = format!("meet {round}");
                    let (met, slept) = join(greeted(&greeter, &name), capos_rt::sleep(100_000)).await;
                    met?;
                    slept?;
                }
                Ok::<(), Error>(())
            })
        })
    };
    let (first, second) = (one(), one());
    joined(first)?;
    joined(second)
}

/// A value that another thread sends.
#[derive(Default)]
struct Handover {
    value: Option<u32>,
    waker: Option<Waker>,
}

fn another_thread_wakes_an_executor() -> Outcome {
    let (ask, asked) = std::sync::mpsc::channel::<Arc<Mutex<Handover>>>();
    let bringer = thread::spawn(move || {
        for (number, place) in (0..).zip(asked) {
            let waker = {
                let mut place = place.lock().map_err(|_| Error::new("the lock is poisoned"))?;
                place.value = Some(number);
                place.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        Ok(())
    });
    block_on(async {
        for round in 0..300 {
            let place = Arc::<Mutex<Handover>>::default();
            let brought = spawn({
                let place = Arc::clone(&place);
                poll_fn(move |context| {
                    let Ok(mut place) = place.lock() else { return Poll::Ready(None) };
                    if place.value.is_none() {
                        place.waker = Some(context.waker().clone());
                        return Poll::Pending;
                    }
                    Poll::Ready(place.value)
                })
            });
            ask.send(place).map_err(|_| Error::new("the other thread is gone"))?;
            check(brought.await == Some(Some(round)), "another value came")?;
        }
        drop(ask);
        Ok::<(), Error>(())
    })?;
    joined(bringer)
}

fn more_operations_than_the_ring_holds() -> Outcome {
    joined(thread::spawn(|| {
        block_on(async {
            let greeter = greeter()?;
            let calls = (0..300).map(|number| {
                let greeter = greeter.clone();
                async move {
                    let name = format!("{number}");
                    if number % 10 == 0 {
                        println!("call {number}");
                    }
                    greeted(&greeter, &name).await
                }
            });
            join_all(calls.collect::<Vec<_>>()).await.into_iter().collect::<Outcome>()
        })
    }))
}

fn a_panic_takes_the_executor_down() -> Outcome {
    let panicked = std::panic::catch_unwind(|| {
        block_on(async {
            let greeter = greeter()?;
            let other = greeter.clone();
            spawn(async move { drop(other.greet("stay").await) });
            greeted(&greeter, "staying 8").await?;
            if call(greeter.greet("panic")).is_ok() {
                // Lines in transit are dropped then: the next program does not wait for them.
                for line in 0..100 {
                    capos_rt::log::info!("{line} before the panic");
                }
                std::panic::resume_unwind(Box::new("on purpose"));
            }
            Ok::<(), Error>(())
        })
    });
    check(panicked.is_err(), "the panic was lost")?;
    check(call(greeter()?.greet("left 8"))? == "Hello, left 8!", "another answer came")?;
    block_on(async { greeted(&greeter()?, "again").await })
}

fn notifications_need_no_executor() -> Outcome {
    let bell = call(env()?.cap::<ResourceAccountClient>("account")?.create_notification())?;
    let ring = |bits| call(async { Ok(notify(&bell, bits).await?) });
    let hear = || call(async { Ok(wait(&bell).await?) });
    ring(1)?;
    ring(4)?;
    check(hear()? == 5, "other bits came")?;
    // Nothing is left over for an executor.
    block_on(async {
        let other = bell.clone();
        let heard = spawn(async move { wait(&other).await });
        yield_now().await;
        notify(&bell, 2).await?;
        check(heard.await == Some(Ok(2)), "other bits came")
    })?;
    let greeter = greeter()?;
    check(call(async { Ok(notify(&greeter, 1).await?) }).is_err(), "what is no notification was notified")
}

fn threads_export_apart() -> Outcome {
    let told = call(greeter()?.greet("export"))?;
    check(told == "own; ended; refused", &format!("the service says `{told}`"))
}

fn executors_do_not_nest() -> Outcome {
    block_on(async { check(block_on(async { Ok::<(), Error>(()) }).is_err(), "an executor ran inside another") })
}

fn services_on_std_use_std() -> Outcome {
    let greeter = greeter()?;
    check(call(greeter.greet("keep 3"))? == "keep 3", "the service kept something else")?;
    check(std::fs::read_to_string("/home/kept-3").map_err(io)? == "keep 3", "the file differs")?;
    std::fs::remove_file("/home/kept-3").map_err(io)
}

/// Clients stay on their thread: for one that could be sent, two of these would fit, and it would not be built.
const _: fn() = || {
    struct Sent;
    trait FitsOnce<T> {
        fn fits() {}
    }
    impl<T: ?Sized> FitsOnce<()> for T {}
    impl<T: ?Sized + Send> FitsOnce<Sent> for T {}
    <GreeterClient as FitsOnce<_>>::fits();
};

/// The results of a call stay on its thread. Other threads have it used there: they send the work.
fn a_received_capability_serves_other_threads() -> Outcome {
    std::fs::write("/home/shared", "0123456789").map_err(io)?;
    let file = call(env()?.cap::<DirectoryClient>("home")?.open("shared"))?;
    let (ask, asked) = std::sync::mpsc::channel::<(u64, std::sync::mpsc::Sender<Result<Vec<u8>, CallError>>)>();
    let threads: Vec<_> = (0..3_u64)
        .map(|at| {
            let ask = ask.clone();
            thread::spawn(move || {
                let (answer, answered) = std::sync::mpsc::channel();
                ask.send((at, answer)).map_err(|_| Error::new("the thread that holds it is gone"))?;
                let bytes = answered.recv().map_err(|_| Error::new("no answer came"))??;
                check(
                    bytes == (b'0'..=b'9').skip(usize::try_from(at).unwrap_or(0)).take(3).collect::<Vec<_>>(),
                    "other bytes",
                )
            })
        })
        .collect();
    drop(ask);
    for (at, answer) in asked {
        answer.send(call(file.read(at, 3))).map_err(|_| Error::new("who asked is gone"))?;
    }
    threads.into_iter().try_for_each(joined)?;
    std::fs::remove_file("/home/shared").map_err(io)
}

/// The kernel's list of the process's capabilities, and the names by which the process knows them.
fn holds() -> Outcome {
    let env = env()?;
    let table: CapabilityTableClient = env.cap("table")?;
    let mut kinds: Vec<String> = call(capos_rt::capabilities(&table))?.into_iter().map(|found| found.kind).collect();
    kinds.sort();
    let mut names: Vec<&str> = env.names().collect();
    names.sort_unstable();
    println!("the table has {}; the names are {}", kinds.join(", "), names.join(", "));
    Ok(())
}

fn main() -> Outcome {
    if std::env::args().nth(1).is_some_and(|word| word == "holds") {
        return holds();
    }
    let tests: &[(&str, Test)] = &[
        ("blocking calls answer", blocking_calls_answer),
        ("four threads call at once", four_threads_call_at_once),
        ("calls on an executor overlap", calls_on_an_executor_overlap),
        ("blocking calls go between", blocking_calls_go_between),
        ("dropped calls are cancelled", dropped_calls_are_cancelled),
        ("an executor ends with what it runs", an_executor_ends_with_what_it_runs),
        ("two threads have an executor each", two_threads_have_an_executor_each),
        ("another thread wakes an executor", another_thread_wakes_an_executor),
        ("more operations than the ring holds", more_operations_than_the_ring_holds),
        ("a panic takes the executor down", a_panic_takes_the_executor_down),
        ("notifications need no executor", notifications_need_no_executor),
        ("threads export apart", threads_export_apart),
        ("executors do not nest", executors_do_not_nest),
        ("services on std use std", services_on_std_use_std),
        ("a received capability serves other threads", a_received_capability_serves_other_threads),
        ("open files end with their server", file_server::open_files_end_with_their_server),
    ];
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
