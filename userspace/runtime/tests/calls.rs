//! The runtime against the simulated kernel: calls, servers, exported objects, cancellation.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

use capos_abi::Status;
use capos_rt::simulated::{self, Object};
use capos_rt::{
    CancelToken, Clock, Either, Env, ServeOptions, TaskGroup, join, join_all, or_cancelled, select, spawn, timeout,
    yield_now,
};
use capos_schema::cap::{Answer, CallContext, CallError, Cap, Client, Dispatch, ExceptionKind, Message, MessageView};
use capos_schema::kernel::EndpointClient;
use capos_schema::system::{
    LogEntry, LogLevel, LogReaderClient, LogReaderServer, LogReaderService, LogServiceClient, LogServiceServer,
    LogServiceService, LoggerClient, LoggerServer, LoggerService,
};

const ALL: &[(&str, Object)] =
    &[("serve", Object::Endpoint), ("table", Object::Table), ("timer", Object::Timer), ("log", Object::DebugLog)];

/// A log in memory: makes loggers, which are objects exported at run time.
struct Log {
    env: Env,
    lines: Rc<RefCell<Vec<String>>>,
}

struct OneLogger {
    service: String,
    lines: Rc<RefCell<Vec<String>>>,
    dropped: Rc<Cell<u32>>,
}

impl Drop for OneLogger {
    fn drop(&mut self) {
        self.dropped.set(self.dropped.get() + 1);
    }
}

impl LoggerServer for OneLogger {
    async fn write(&self, _cx: &CallContext, level: LogLevel, text: String) -> Result<(), CallError> {
        if text == "refuse" {
            return Err(CallError::invalid_argument("this line is not wanted"));
        }
        if text == "never" {
            std::future::pending::<()>().await;
        }
        self.lines.borrow_mut().push(format!("{} {level} {text}", self.service));
        Ok(())
    }
}

struct OneReader(Rc<RefCell<Vec<String>>>);

impl LogReaderServer for OneReader {
    async fn read(
        &self,
        _cx: &CallContext,
        _service: String,
        _minimum: LogLevel,
        _last_seconds: u64,
        max: u32,
    ) -> Result<Vec<LogEntry>, CallError> {
        let lines = self.0.borrow();
        Ok(lines.iter().take(max as usize).map(|line| LogEntry { text: line.clone(), ..LogEntry::default() }).collect())
    }
}

thread_local! {
    static DROPPED: Rc<Cell<u32>> = Rc::default();
}

impl LogServiceServer for Log {
    async fn logger(&self, _cx: &CallContext, service: String) -> Result<LoggerClient, CallError> {
        let logger = OneLogger { service, lines: self.lines.clone(), dropped: DROPPED.with(Rc::clone) };
        LoggerClient::serve(&self.env, Rc::new(logger))
    }

    async fn reader(&self, _cx: &CallContext) -> Result<LogReaderClient, CallError> {
        LogReaderClient::serve(&self.env, Rc::new(OneReader(self.lines.clone())))
    }
}

/// Runs a test as a client of the log that its own process serves.
fn with_log<F: Future<Output = ()>>(options: ServeOptions, test: impl FnOnce(Env, LogServiceClient) -> F) {
    simulated::run(ALL, |env| async move {
        let log = Rc::new(Log { env: env.clone(), lines: Rc::default() });
        env.serve(0, Rc::new(LogServiceService(log)));
        let serving = env.clone();
        spawn(async move { serving.run_with(options).await.unwrap() });
        let endpoint = env.cap::<EndpointClient>("serve").unwrap();
        let client: LogServiceClient = endpoint.mint(0, LogServiceClient::INTERFACE_ID).await.unwrap().cast();
        test(env, client).await;
    });
}

#[test]
fn calls_reach_objects_and_their_objects() {
    with_log(ServeOptions::default(), |_, log| async move {
        let logger = log.logger("disk").await.unwrap();
        logger.write(LogLevel::Warning, "slow").await.unwrap();
        let entries = log.reader().await.unwrap().read("", LogLevel::Debug, 0, 10).await.unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].text, "disk warning slow");
    });
}

#[test]
fn refusals_carry_their_words() {
    with_log(ServeOptions::default(), |_, log| async move {
        let logger = log.logger("disk").await.unwrap();
        let error = logger.write(LogLevel::Info, "refuse").await.unwrap_err();
        assert_eq!(error, CallError::invalid_argument("this line is not wanted"));
        let error = log.as_cap_for_test().call(LogServiceClient::INTERFACE_ID, 77, Default::default()).await;
        assert!(matches!(error, Err(CallError::Exception(e)) if e.kind == ExceptionKind::Unimplemented));
    });
}

trait ForTest {
    fn as_cap_for_test(&self) -> capos_schema::cap::Cap;
}

impl<T: Client + Clone> ForTest for T {
    fn as_cap_for_test(&self) -> capos_schema::cap::Cap {
        self.as_cap().clone()
    }
}

#[test]
fn many_calls_at_once_find_room_and_keep_their_order() {
    // The simulated rings hold 16 entries and 32 completions: 200 calls wait for room.
    with_log(ServeOptions { buffers: 3, concurrent: 5, ..ServeOptions::default() }, |_, log| async move {
        let logger = log.logger("x").await.unwrap();
        let lines: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        let results = join_all(lines.iter().map(|line| logger.write(LogLevel::Info, line))).await;
        assert!(results.iter().all(Result::is_ok));
        let entries = log.reader().await.unwrap().read("", LogLevel::Debug, 0, 1000).await.unwrap();
        let found: Vec<String> = entries.into_iter().map(|entry| entry.text).collect();
        let wanted: Vec<String> = (0..200).map(|number| format!("x info {number}")).collect();
        assert_eq!(found, wanted);
    });
}

#[test]
fn a_message_too_large_for_the_receiver_fails_at_the_caller() {
    let options = ServeOptions { message_bytes: 4096 - 64, ..ServeOptions::default() };
    with_log(options, |_, log| async move {
        let logger = log.logger("x").await.unwrap();
        let long = "x".repeat(8000);
        assert_eq!(logger.write(LogLevel::Info, &long).await, Err(CallError::Transport(Status::TooLarge)));
        assert_eq!(logger.write(LogLevel::Info, "short").await, Ok(()));
        let larger = "x".repeat(2 << 20);
        assert_eq!(logger.write(LogLevel::Info, &larger).await, Err(CallError::Transport(Status::TooLarge)));
    });
}

#[test]
fn results_larger_than_the_buffer_need_a_larger_one() {
    with_log(ServeOptions::default(), |_, log| async move {
        let logger = log.logger("x").await.unwrap();
        let line = "y".repeat(10_000);
        for _ in 0..10 {
            logger.write(LogLevel::Info, &line).await.unwrap();
        }
        let reader = log.reader().await.unwrap();
        let error = reader.read("", LogLevel::Debug, 0, 10).await.unwrap_err();
        assert_eq!(error, CallError::Transport(Status::TooLarge));
        let wide = capos_rt::with_results(&reader, 256 << 10);
        drop(reader);
        assert_eq!(wide.read("", LogLevel::Debug, 0, 10).await.unwrap().len(), 10);
    });
}

#[test]
fn a_dropped_call_is_cancelled_and_leaks_nothing() {
    with_log(ServeOptions::default(), |env, log| async move {
        let logger = log.logger("x").await.unwrap();
        logger.write(LogLevel::Info, "warm").await.unwrap();
        yield_now().await;
        let before = simulated::capabilities();
        let clock = env.clock().unwrap();
        for _ in 0..50 {
            let never = logger.write(LogLevel::Info, "never");
            let tick = clock.sleep(1000);
            assert!(matches!(select(never, tick).await, Either::Second(())));
        }
        // The server's futures never end, and each holds the right to answer: nothing else is left.
        let unanswered = simulated::capabilities() - before;
        assert!(unanswered <= 50, "{unanswered}");
        logger.write(LogLevel::Info, "after").await.unwrap();
    });
}

#[test]
fn results_that_nobody_waits_for_are_released() {
    with_log(ServeOptions::default(), |_, log| async move {
        log.logger("warm").await.unwrap();
        // Abandoned after it was submitted, before its results are read: the capability in them is released.
        for _ in 0..10 {
            let call = std::pin::pin!(log.logger("x"));
            assert!(matches!(select(call, yield_now()).await, Either::Second(())));
        }
        for _ in 0..10 {
            yield_now().await;
        }
        let held = simulated::capabilities();
        for _ in 0..10 {
            let call = std::pin::pin!(log.logger("x"));
            assert!(matches!(select(call, yield_now()).await, Either::Second(())));
        }
        for _ in 0..10 {
            yield_now().await;
        }
        // Only the exports that the server keeps until its next sweep may have grown.
        assert!(simulated::capabilities() - held <= 10);
    });
}

#[test]
fn exported_objects_end_when_nobody_holds_them() {
    let dropped = DROPPED.with(Rc::clone);
    let before = dropped.get();
    with_log(ServeOptions::default(), |env, log| async move {
        let kept = log.logger("kept").await.unwrap();
        for number in 0..100 {
            drop(log.logger(&number.to_string()).await.unwrap());
        }
        yield_now().await;
        // Sweeps happen as exports grow, so most are gone without asking.
        assert!(env.server().exported() < 50, "{}", env.server().exported());
        env.server().sweep();
        assert_eq!(env.server().exported(), 1);
        assert_eq!(dropped.get() - before, 100);
        kept.write(LogLevel::Info, "still there").await.unwrap();
    });
}

#[test]
fn an_object_that_is_unexported_is_gone_at_once() {
    with_log(ServeOptions::default(), |env, log| async move {
        let object = Rc::new(OneReader(Rc::default()));
        let own = LogReaderClient::serve(&env, object).unwrap();
        own.read("", LogLevel::Debug, 0, 9).await.unwrap();
        env.server().unexport(&own.as_cap_for_test());
        let error = own.read("", LogLevel::Debug, 0, 9).await.unwrap_err();
        assert!(error.is_disconnected(), "{error}");
        log.logger("others live").await.unwrap();
    });
}

#[test]
fn a_badge_of_an_earlier_instance_is_told_so() {
    with_log(ServeOptions::default(), |env, _| async move {
        let endpoint = env.cap::<EndpointClient>("serve").unwrap();
        let badge = 1 << 63 | 7 << 32 | 1;
        let lost: LoggerClient = endpoint.mint(badge, LoggerClient::INTERFACE_ID).await.unwrap().cast();
        let error = lost.write(LogLevel::Info, "x").await.unwrap_err();
        assert!(error.is_disconnected());
        assert!(error.to_string().contains("lost when the service restarted"), "{error}");
        let missing: LoggerClient = endpoint.mint(9, LoggerClient::INTERFACE_ID).await.unwrap().cast();
        let error = missing.write(LogLevel::Info, "x").await.unwrap_err();
        assert!(error.to_string().contains("ordinal 9"), "{error}");
    });
}

#[test]
fn durable_capabilities_find_their_objects_again() {
    with_log(ServeOptions::default(), |env, _| async move {
        let client: LogReaderClient = Client::from_cap(env.server().durable(7, LogReaderClient::INTERFACE_ID).unwrap());
        let error = client.read("", LogLevel::Debug, 0, 9).await.unwrap_err();
        assert!(error.is_disconnected(), "{error}");
        // The answer of a new instance.
        env.server().serve_durable(|key| {
            let reader = OneReader(Rc::new(RefCell::new(vec![format!("number {key}")])));
            Some(Rc::new(LogReaderService(Rc::new(reader))))
        });
        let entries = client.read("", LogLevel::Debug, 0, 9).await.unwrap();
        assert_eq!(entries[0].text, "number 7");
        assert!(env.server().durable(1 << 62, 1).is_err());
    });
}

#[test]
fn each_client_can_have_its_own_object() {
    simulated::run(ALL, |env| async move {
        let lines: Rc<RefCell<Vec<String>>> = Rc::default();
        let shared = lines.clone();
        env.serve_clients(3, move |client| {
            let service = format!("client{}", client.number);
            let logger = OneLogger { service, lines: shared.clone(), dropped: Rc::default() };
            Rc::new(LoggerService(Rc::new(logger))) as Rc<dyn Dispatch>
        });
        let serving = env.clone();
        spawn(async move { serving.run().await.unwrap() });
        let endpoint = env.cap::<EndpointClient>("serve").unwrap();
        for number in [4_u64, 5, 4] {
            let badge = 3 | number << 16;
            let logger: LoggerClient = endpoint.mint(badge, LoggerClient::INTERFACE_ID).await.unwrap().cast();
            logger.write(LogLevel::Info, "here").await.unwrap();
        }
        assert_eq!(*lines.borrow(), ["client4 info here", "client5 info here", "client4 info here"]);
    });
}

#[test]
fn a_capability_of_the_wrong_interface_is_refused_in_words() {
    simulated::run(ALL, |env| async move {
        let error = env.cap::<LoggerClient>("timer").unwrap_err();
        assert!(error.words().contains("not Logger"), "{error}");
        let error = env.cap::<LoggerClient>("logger").unwrap_err();
        assert!(error.words().contains("it holds: log, serve, table, timer"), "{error}");
        assert!(env.optional::<LoggerClient>("logger").unwrap().is_none());
        let timer = env.raw("timer").unwrap();
        let error = LoggerClient::from_cap(timer).write(LogLevel::Info, "x").await.unwrap_err();
        assert_eq!(error, CallError::Transport(Status::WrongInterface));
    });
}

#[test]
fn time_limits_and_tokens_end_what_they_guard() {
    simulated::run(ALL, |env| async move {
        let clock = env.clock().unwrap();
        let late = timeout(1_000_000, clock.sleep(2_000_000)).await.unwrap();
        assert!(late.is_err());
        assert_eq!(clock.now(), 1_000_000);
        let early = timeout(5_000_000, async { 7 }).await.unwrap();
        assert_eq!(early, Ok(7));
        assert_eq!(clock.now(), 1_000_000, "the sleep that was not needed is cancelled");

        let token = CancelToken::new();
        let child = token.child();
        let guarded = spawn({
            let (child, clock) = (child.clone(), clock.clone());
            async move { or_cancelled(&child, clock.sleep(1 << 40)).await }
        });
        clock.sleep(10).await;
        token.cancel();
        assert_eq!(guarded.await.map(|result| result.is_err()), Some(true));
        assert!(child.is_cancelled() && child.check().is_err());
        assert!(clock.now() < 2_000_000);
    });
}

#[test]
fn a_group_ends_its_tasks_with_itself() {
    simulated::run(ALL, |env| async move {
        let clock = env.clock().unwrap();
        let count = Rc::new(Cell::new(0));
        let group = TaskGroup::new();
        for step in 1..=3_u64 {
            let (clock, count) = (clock.clone(), count.clone());
            group.spawn(async move {
                clock.sleep(step * 100).await;
                count.set(count.get() + 1);
            });
        }
        clock.sleep(250).await;
        assert_eq!((count.get(), group.running()), (2, 1));
        drop(group);
        clock.sleep(1000).await;
        assert_eq!(count.get(), 2);
        let (a, b) = join(clock.sleep(5), async { 3 }).await;
        assert_eq!((a, b), ((), 3));
    });
}

#[test]
fn a_group_whose_join_is_dropped_ends_its_tasks_all_the_same() {
    simulated::run(ALL, |env| async move {
        let clock = env.clock().unwrap();
        let held = Rc::new(());
        let group = TaskGroup::new();
        for _ in 0..3 {
            let held = held.clone();
            group.spawn(async move {
                core::future::pending::<()>().await;
                drop(held);
            });
        }
        drop(timeout(100, group.join()).await);
        assert_eq!((group.running(), Rc::strong_count(&held)), (3, 4));
        drop(group);
        clock.sleep(10).await;
        assert_eq!(Rc::strong_count(&held), 1, "one went on");
    });
}

#[test]
fn a_group_is_joined_when_the_last_has_ended() {
    simulated::run(ALL, |env| async move {
        let clock = env.clock().unwrap();
        let (group, count) = (Rc::new(TaskGroup::new()), Rc::new(Cell::new(0)));
        for step in [300_u64, 100] {
            let (clock, count, within) = (clock.clone(), count.clone(), Rc::downgrade(&group));
            group.spawn(async move {
                clock.sleep(step).await;
                count.set(count.get() + 1);
                // A task that joins during the wait is waited for as well.
                let (clock, count) = (clock.clone(), count.clone());
                if let Some(group) = within.upgrade() {
                    group.spawn(async move {
                        clock.sleep(500).await;
                        count.set(count.get() + 1);
                    });
                }
            });
        }
        group.join().await;
        assert_eq!((count.get(), group.running()), (4, 0));
    });
}

#[test]
fn notifications_gather_bits() {
    simulated::run(ALL, |_| async move {
        let bell = simulated::notification();
        capos_rt::notify(&bell, 0b001).await.unwrap();
        capos_rt::notify(&bell, 0b100).await.unwrap();
        assert_eq!(capos_rt::wait(&bell).await, Ok(0b101));
        let waiting = spawn({
            let bell = bell.clone();
            async move { capos_rt::wait(&bell).await }
        });
        yield_now().await;
        capos_rt::notify(&bell, 1 << 63).await.unwrap();
        assert_eq!(waiting.await, Some(Ok(1 << 63)));
    });
}

/// Answers with the very words that came.
struct Echo;

impl Dispatch for Echo {
    fn interface_id(&self) -> u64 {
        ECHO
    }

    fn implements(&self, interface: u64) -> bool {
        interface == ECHO
    }

    fn dispatch(self: Rc<Self>, _cx: CallContext, method: u16, message: MessageView<'_>) -> Answer {
        let words = message.words.to_vec();
        Box::pin(async move {
            if method == 1 {
                // Answered separately, when the receiver has continued.
                yield_now().await;
            }
            Ok(Message { words, caps: Vec::new() })
        })
    }
}

const ECHO: u64 = 0x1234_5678_9abc_def0;

fn with_echo<F: Future<Output = ()>>(test: impl FnOnce(Cap) -> F) {
    simulated::run(ALL, |env| async move {
        env.serve(0, Rc::new(Echo));
        let serving = env.clone();
        spawn(async move { serving.run().await.unwrap() });
        let endpoint = env.cap::<EndpointClient>("serve").unwrap();
        test(endpoint.mint(0, ECHO).await.unwrap().into_cap()).await;
    });
}

/// A message of `count` words, none of which is zero.
fn words(count: u8) -> Message {
    Message { words: (1..=count).map(|word| capnp::word(word, 1, 2, 3, 4, 5, 6, 7)).collect(), caps: Vec::new() }
}

#[test]
fn a_buffer_that_is_used_again_shows_nothing_of_the_message_before() {
    with_echo(|echo| async move {
        for count in [200, 3, 0, 1, 150, 2, 255, 0, 1] {
            for method in [0, 1] {
                let reply = echo.call(ECHO, method, words(count)).await.unwrap();
                assert_eq!(reply.words, words(count).words, "{count} words");
                assert!(reply.caps.is_empty());
            }
        }
    });
}

#[test]
fn an_answer_that_does_not_arrive_keeps_the_server_from_nothing() {
    with_echo(|echo| async move {
        echo.call(ECHO, 0, words(1)).await.unwrap();
        yield_now().await;
        let held = simulated::capabilities();
        for method in [0, 1] {
            for _ in 0..20 {
                // The answer and the next receive go by one entry, which is refused for the answer's size.
                let error = echo.call_sized(ECHO, method, words(200), 1024).await.unwrap_err();
                assert_eq!(error, CallError::Transport(Status::TooLarge));
                assert_eq!(echo.call(ECHO, method, words(2)).await.unwrap().words.len(), 2);
            }
        }
        yield_now().await;
        assert_eq!(simulated::capabilities(), held, "no right to answer is left over");
    });
}

#[test]
fn a_handler_that_waits_keeps_no_other_call_back() {
    with_log(ServeOptions { buffers: 1, ..ServeOptions::default() }, |env, log| async move {
        let logger = log.logger("x").await.unwrap();
        let clock = env.clock().unwrap();
        // The first one never ends; both were taken by the only receiver there is.
        let never = logger.write(LogLevel::Info, "never");
        let after = async {
            yield_now().await;
            logger.write(LogLevel::Info, "after").await.unwrap();
            clock.sleep(10).await;
        };
        assert!(matches!(select(never, after).await, Either::Second(())));
        let entries = log.reader().await.unwrap().read("", LogLevel::Debug, 0, 10).await.unwrap();
        assert_eq!(entries.len(), 1);
    });
}

#[test]
fn a_call_and_its_answer_take_few_entries_into_the_kernel() {
    with_log(ServeOptions::default(), |_, log| async move {
        let logger = log.logger("x").await.unwrap();
        logger.write(LogLevel::Info, "warm").await.unwrap();
        let before = simulated::entered();
        for _ in 0..100 {
            logger.write(LogLevel::Info, "x").await.unwrap();
        }
        // One entry brings the call to the server, one brings the answer back.
        let each = (simulated::entered() - before) / 100;
        assert!(each <= 2, "{each}");
    });
}

#[test]
fn lines_without_a_logger_go_to_the_kernels_log() {
    simulated::run(ALL, |_| async move {
        capos_rt::log::info!("plain {}", 1);
        capos_rt::log::error!("bad");
        capos_rt::log::flush().await;
    });
    assert_eq!(simulated::log_lines(), ["plain 1", "error: bad"]);
}

/// Takes each line after a millisecond.
struct SlowLogger {
    clock: Clock,
    lines: Rc<Cell<u32>>,
}

impl LoggerServer for SlowLogger {
    async fn write(&self, _cx: &CallContext, _level: LogLevel, _text: String) -> Result<(), CallError> {
        self.clock.sleep(1_000_000).await;
        self.lines.set(self.lines.get() + 1);
        Ok(())
    }
}

#[test]
fn a_flush_rests_until_all_lines_have_arrived() {
    with_log(ServeOptions::default(), |env, _| async move {
        let lines = Rc::new(Cell::new(0));
        let slow = SlowLogger { clock: env.clock().unwrap(), lines: lines.clone() };
        capos_rt::log::set_logger(LoggerClient::serve(&env, Rc::new(slow)).unwrap());
        for line in 0..3 {
            capos_rt::log::info!("line {line}");
        }
        let (mut polls, mut flush) = (0, pin!(capos_rt::log::flush()));
        poll_fn(|context| {
            polls += 1;
            assert!(polls < 10, "it looks again and again");
            flush.as_mut().poll(context)
        })
        .await;
        assert_eq!(lines.get(), 3);
    });
}

#[test]
fn an_error_reads_the_same_in_either_form() {
    let error = capos_rt::Error::new("no `timer`; grant \"it\"\nin the manifest");
    assert_eq!(format!("Error: {error:?}"), format!("Error: {error}"));
}

#[test]
#[should_panic(expected = "every task waits")]
fn waiting_for_nothing_is_an_error() {
    simulated::run(ALL, |_| async { std::future::pending::<()>().await });
}

#[test]
fn tasks_that_wake_themselves_do_not_starve_the_ring() {
    simulated::run(ALL, |env| async move {
        let spinning = spawn(async {
            loop {
                yield_now().await;
            }
        });
        env.clock().unwrap().wall_clock().unwrap_err();
        let bell = simulated::notification();
        capos_rt::notify(&bell, 1).await.unwrap();
        spinning.cancel();
        assert!(spinning.await.map(|never: ()| never).is_none());
    });
}
