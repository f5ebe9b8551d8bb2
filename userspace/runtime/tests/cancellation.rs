//! How a server's handlers learn that callers no longer wait, against the simulated kernel.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::rc::Rc;

use capos_abi::Status;
use capos_rt::simulated::{self, Object};
use capos_rt::{Either, Env, ServeOptions, join_all, select, sleep, spawn, yield_now};
use capos_schema::cap::{CallContext, CallError, Client};
use capos_schema::kernel::EndpointClient;
use capos_schema::system::{
    LogEntry, LogLevel, LogReaderClient, LogReaderServer, LogReaderService, LoggerClient, LoggerServer, LoggerService,
};

const ALL: &[(&str, Object)] =
    &[("serve", Object::Endpoint), ("table", Object::Table), ("timer", Object::Timer), ("log", Object::DebugLog)];

const LONG: u64 = 1 << 50;

#[derive(Default)]
struct Counts {
    begun: Cell<u32>,
    dropped: Cell<u32>,
    ended: Cell<u32>,
    told: Cell<Option<Result<(), Status>>>,
}

fn add(count: &Cell<u32>) {
    count.set(count.get() + 1);
}

/// Counts where a handler was dropped before its end.
struct Guard<'a>(&'a Counts, bool);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        add(if self.1 { &self.0.ended } else { &self.0.dropped });
    }
}

/// Its `read`, which is abortable, sleeps for `last_seconds` nanoseconds, after as many calls of itself as
/// `max` says.
struct Sleeper {
    counts: Rc<Counts>,
    itself: Cell<Option<LogReaderClient>>,
}

impl LogReaderServer for Sleeper {
    async fn read(
        &self,
        cx: &CallContext,
        service: String,
        minimum: LogLevel,
        last_seconds: u64,
        max: u32,
    ) -> Result<Vec<LogEntry>, CallError> {
        add(&self.counts.begun);
        let mut guard = Guard(&self.counts, false);
        if service == "asks" {
            self.counts.told.set(Some(capos_rt::cancelled(cx).await));
        } else if let Some(depth) = max.checked_sub(1) {
            let next = self.itself.take().unwrap();
            self.itself.set(Some(next.clone()));
            next.read(&service, minimum, last_seconds, depth).await?;
        } else if last_seconds > 0 {
            sleep(last_seconds).await.map_err(|error| CallError::failed(error.to_string()))?;
        }
        guard.1 = true;
        Ok(Vec::new())
    }
}

/// Its `write`, which is not abortable, sleeps for a second or waits for its caller.
struct Stubborn(Rc<Counts>);

impl LoggerServer for Stubborn {
    async fn write(&self, cx: &CallContext, _level: LogLevel, text: String) -> Result<(), CallError> {
        add(&self.0.begun);
        let mut guard = Guard(&self.0, false);
        if text == "asks" {
            self.0.told.set(Some(capos_rt::cancelled(cx).await));
        } else {
            sleep(1000).await.map_err(|error| CallError::failed(error.to_string()))?;
        }
        guard.1 = true;
        Ok(())
    }
}

fn with_servers<F: Future<Output = ()>>(test: impl FnOnce(LogReaderClient, LoggerClient, Rc<Counts>) -> F) {
    simulated::run(ALL, |env: Env| async move {
        let counts: Rc<Counts> = Rc::default();
        let sleeper = Rc::new(Sleeper { counts: counts.clone(), itself: Cell::default() });
        env.serve(0, Rc::new(LogReaderService(sleeper.clone())));
        env.serve(1, Rc::new(LoggerService(Rc::new(Stubborn(counts.clone())))));
        let serving = env.clone();
        spawn(async move { serving.run_with(ServeOptions::default()).await.unwrap() });
        let endpoint = env.cap::<EndpointClient>("serve").unwrap();
        let reader: LogReaderClient = endpoint.mint(0, LogReaderClient::INTERFACE_ID).await.unwrap().cast();
        let logger: LoggerClient = endpoint.mint(1, LoggerClient::INTERFACE_ID).await.unwrap().cast();
        sleeper.itself.set(Some(reader.clone()));
        test(reader, logger, counts.clone()).await;
        drop(sleeper.itself.take());
    });
}

async fn read(reader: &LogReaderClient, service: &str, time: u64, depth: u32) -> Result<Vec<LogEntry>, CallError> {
    reader.read(service, LogLevel::Debug, time, depth).await
}

/// Long enough for the expected events.
async fn settle() {
    sleep(10).await.unwrap();
    yield_now().await;
}

#[test]
fn a_cancelled_call_ends_its_handler_and_leaves_nothing() {
    with_servers(|reader, _, counts| async move {
        read(&reader, "", 5, 0).await.unwrap();
        settle().await;
        let held = simulated::capabilities();
        for _ in 0..40 {
            assert!(matches!(select(read(&reader, "", LONG, 0), sleep(100)).await, Either::Second(_)));
            settle().await;
        }
        assert_eq!((counts.begun.get(), counts.dropped.get(), counts.ended.get()), (41, 40, 1));
        assert_eq!(simulated::capabilities(), held, "each reply was released");
    });
}

#[test]
fn cancellation_runs_through_a_chain_of_calls() {
    with_servers(|reader, _, counts| async move {
        let chain = read(&reader, "", LONG, 4);
        assert!(matches!(select(chain, sleep(100)).await, Either::Second(_)));
        settle().await;
        assert_eq!((counts.begun.get(), counts.dropped.get(), counts.ended.get()), (5, 5, 0));
    });
}

#[test]
fn a_method_without_the_mark_runs_to_its_end() {
    with_servers(|_, logger, counts| async move {
        assert!(matches!(select(logger.write(LogLevel::Info, "x"), sleep(100)).await, Either::Second(_)));
        sleep(2000).await.unwrap();
        settle().await;
        assert_eq!((counts.begun.get(), counts.dropped.get(), counts.ended.get()), (1, 0, 1));
    });
}

#[test]
fn a_handler_can_ask_itself() {
    with_servers(|reader, logger, counts| async move {
        assert!(matches!(select(logger.write(LogLevel::Info, "asks"), sleep(100)).await, Either::Second(_)));
        settle().await;
        assert_eq!((counts.told.take(), counts.ended.get()), (Some(Ok(())), 1));
        // A call that could be dropped is not dropped where it asks: it is informed.
        assert!(matches!(select(read(&reader, "asks", 0, 0), sleep(100)).await, Either::Second(_)));
        settle().await;
        assert_eq!((counts.told.take(), counts.ended.get(), counts.dropped.get()), (Some(Ok(())), 2, 0));
    });
}

#[test]
fn what_is_answered_at_once_is_not_watched() {
    with_servers(|reader, _, _| async move {
        read(&reader, "", 0, 0).await.unwrap();
        settle().await;
        let before = simulated::taken();
        for _ in 0..10 {
            read(&reader, "", 0, 0).await.unwrap();
        }
        settle().await;
        // CALL, and RETURN with the next RECV; and the two calls of the sleep in `settle`.
        assert_eq!(simulated::taken() - before, 22);
    });
}

#[test]
fn the_end_of_an_answered_call_needs_no_cancel() {
    with_servers(|reader, _, _| async move {
        read(&reader, "", 5, 0).await.unwrap();
        settle().await;
        let before = simulated::taken();
        for _ in 0..10 {
            read(&reader, "", 5, 0).await.unwrap();
        }
        settle().await;
        // The same, with the handler's own sleep and the WAIT that its answer ends.
        assert_eq!(simulated::taken() - before, 62);
    });
}

#[test]
fn waits_for_callers_leave_room_for_calls() {
    // Of 32 completions 18 are for calls: eight to the process itself, their eight calls, and one sleep at a
    // time. A wait for a caller that took one of these places would block them all for ever.
    with_servers(|reader, _, counts| async move {
        for _ in 0..6 {
            let calls = join_all((0..8).map(|_| read(&reader, "", 50, 1))).await;
            assert!(calls.iter().all(Result::is_ok), "{calls:?}");
        }
        settle().await;
        assert_eq!((counts.begun.get(), counts.ended.get()), (96, 96));
        // And all of them are cancelled, though there are places for three such waits at a time.
        let all = join_all((0..5).map(|_| read(&reader, "", LONG, 1)));
        assert!(matches!(select(all, sleep(1000)).await, Either::Second(_)));
        settle().await;
        assert_eq!((counts.begun.get(), counts.dropped.get()), (106, 10));
    });
}
