//! How a server's loop proceeds from call to call, against the simulated kernel: the order of handlers and of answers,
//! and what happens to answers and buffers when something ends.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use capos_abi::Entry;
use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_rt::simulated::{self, Object};
use capos_rt::{Env, Error, ServeOptions, Task, join_all, notify, raw, spawn, yield_now};
use capos_schema::cap::{Answer, AsCap, CallContext, CallError, Cap, Client, Dispatch, Message, MessageView};
use capos_schema::kernel::EndpointClient;

const ALL: &[(&str, Object)] =
    &[("serve", Object::Endpoint), ("table", Object::Table), ("timer", Object::Timer), ("log", Object::DebugLog)];

const PROBE: u64 = 0x1234_5678_9abc_def0;

/// Answers with the words of the request, in the way that the method selects.
const AT_ONCE: u16 = 0;
/// Once it was polled a second time.
const YIELDS: u16 = 1;
/// With an error.
const REFUSES: u16 = 2;
/// With more than is kept until the next call comes.
const LARGE: u16 = 3;
/// With an error, after it has let the process's main future go on.
const ENDS: u16 = 4;
/// Again more entries are queued than the ring takes.
const CROWDS: u16 = 5;
/// When its server has been dropped.
const DROPS: u16 = 6;
/// Both.
const CROWDS_AND_DROPS: u16 = 7;
/// When the process has lost its endpoint.
const LOSES: u16 = 8;

/// The rest of the process that a handler has to do with.
#[derive(Default)]
struct Process {
    serving: Option<Task<Result<(), Error>>>,
    bell: Option<capos_schema::kernel::NotificationClient>,
    endpoint: u64,
}

#[derive(Default)]
struct Probe {
    /// The first byte of each message, in the order in which handlers were first polled.
    begun: RefCell<Vec<u8>>,
    /// How many words each message had.
    words: RefCell<Vec<usize>>,
    ended: Cell<bool>,
    main: RefCell<Option<Waker>>,
    process: RefCell<Process>,
}

impl Probe {
    /// Has entries wait for room in the ring, which takes sixteen.
    fn crowd(&self) {
        let Some(bell) = self.process.borrow().bell.clone() else { return };
        for _ in 0..40 {
            let bell = bell.clone();
            let mut ringing = Box::pin(async move { notify(&bell, 1).await });
            assert!(ringing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            spawn(ringing);
        }
    }

    fn drop_server(&self) {
        if let Some(serving) = &self.process.borrow().serving {
            serving.cancel();
        }
    }
}

impl Dispatch for Probe {
    fn interface_id(&self) -> u64 {
        PROBE
    }

    fn implements(&self, interface: u64) -> bool {
        interface == PROBE
    }

    fn dispatch(self: Rc<Self>, _cx: CallContext, method: u16, message: MessageView<'_>) -> Answer {
        let mut words = message.words.to_vec();
        Box::pin(async move {
            let first = capnp::Word::words_to_bytes(&words).first().copied();
            self.begun.borrow_mut().push(first.unwrap_or(0));
            self.words.borrow_mut().push(words.len());
            match method {
                YIELDS => yield_now().await,
                REFUSES => return Err(CallError::failed("refused")),
                LARGE => words.resize(1000, capnp::word(0, 0, 0, 0, 0, 0, 0, 0)),
                ENDS => {
                    self.ended.set(true);
                    if let Some(main) = self.main.take() {
                        main.wake();
                    }
                    return Err(CallError::failed("it ends"));
                }
                CROWDS => self.crowd(),
                DROPS => self.drop_server(),
                CROWDS_AND_DROPS => {
                    self.crowd();
                    self.drop_server();
                }
                LOSES => {
                    let operation = Operation::Release { cap: self.process.borrow().endpoint };
                    // SAFETY: the entry names no memory.
                    assert!(unsafe { raw::push(&Entry { user_data: raw::TAG, operation }.encode()) });
                }
                _ => {}
            }
            Ok(Message { words, caps: Vec::new() })
        })
    }
}

/// A message of one word that begins with this number.
fn number(number: u8) -> Message {
    Message { words: vec![capnp::word(number, 0, 0, 0, 0, 0, 0, 0)], caps: Vec::new() }
}

fn with_probe<F: Future<Output = ()>>(options: ServeOptions, test: impl FnOnce(Env, Cap, Rc<Probe>) -> F) {
    simulated::run(ALL, |env| async move {
        let probe = Rc::new(Probe::default());
        env.serve(0, probe.clone());
        let serving = env.clone();
        spawn(async move { serving.run_with(options).await.unwrap() });
        let endpoint = env.cap::<EndpointClient>("serve").unwrap();
        let cap = endpoint.mint(0, PROBE).await.unwrap().into_cap();
        test(env, cap, probe).await;
    });
}

fn with_buffers(buffers: u16) -> ServeOptions {
    ServeOptions { buffers, ..ServeOptions::default() }
}

#[test]
fn handlers_begin_in_the_order_of_their_calls() {
    for buffers in [1, 2, 3, 4] {
        for every in [1, 2, 3, 5] {
            with_probe(with_buffers(buffers), |_, cap, probe| async move {
                let method = |call: u8| if call.is_multiple_of(every) { YIELDS } else { AT_ONCE };
                let results = join_all((0..200).map(|call| cap.call(PROBE, method(call), number(call)))).await;
                assert!(results.iter().all(Result::is_ok));
                let wanted: Vec<u8> = (0..200).collect();
                assert_eq!(*probe.begun.borrow(), wanted, "{buffers} buffers, every {every}th waits");
            });
        }
    }
}

#[test]
fn answers_that_wait_for_nothing_come_in_the_order_of_their_calls() {
    for buffers in [1, 2, 3, 4] {
        with_probe(with_buffers(buffers), |_, cap, _| async move {
            let ended: Rc<RefCell<Vec<u8>>> = Rc::default();
            let calls: Vec<_> = (0..200_u8)
                .map(|call| {
                    let (cap, ended) = (cap.clone(), ended.clone());
                    let method = [AT_ONCE, REFUSES, AT_ONCE, LARGE, AT_ONCE][usize::from(call % 5)];
                    spawn(async move {
                        let result = cap.call(PROBE, method, number(call)).await;
                        assert_eq!(result.is_err(), method == REFUSES, "{call}");
                        ended.borrow_mut().push(call);
                    })
                })
                .collect();
            join_all(calls).await;
            let wanted: Vec<u8> = (0..200).collect();
            assert_eq!(*ended.borrow(), wanted, "{buffers} buffers");
        });
    }
}

#[test]
fn an_answer_goes_out_before_what_its_handler_has_let_go_on() {
    with_probe(ServeOptions::default(), |_, cap, probe| async move {
        // Like a program's main that ends when it is asked to.
        spawn(async move { cap.call(PROBE, ENDS, number(0)).await });
        poll_fn(|context| {
            if probe.ended.get() {
                return Poll::Ready(());
            }
            *probe.main.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    });
    assert_eq!(simulated::answered(), 1, "the process ended with the answer");
}

#[test]
fn what_a_message_before_left_in_the_last_word_is_not_read() {
    with_probe(with_buffers(1), |_, cap, probe| async move {
        cap.call(PROBE, AT_ONCE, Message { words: vec![capnp::word(9, 9, 9, 9, 9, 9, 9, 9); 40], caps: Vec::new() })
            .await
            .unwrap();
        let mut params = [7_u64; 3];
        let mut results = [0_u64; 128];
        for (length, words) in [(0, 0), (1, 0), (7, 0), (8, 1), (9, 1), (16, 2), (17, 2)] {
            let address = if length == 0 { 0 } else { params.as_mut_ptr().expose_provenance() as u64 };
            let params = Buffer { address, length };
            let results = Buffer { address: results.as_mut_ptr().expose_provenance() as u64, length: 1024 };
            let operation = Operation::Call {
                cap: cap.id(),
                interface: PROBE,
                method: AT_ONCE,
                params,
                results,
                caps: CapArray::default(),
            };
            // SAFETY: both buffers live until the completion has come, and are not accessed until then.
            assert!(unsafe { raw::push(&Entry { user_data: raw::TAG, operation }.encode()) });
            let completion = loop {
                if let Some(completion) = raw::pop() {
                    break completion;
                }
                yield_now().await;
            };
            assert_eq!((completion.status, completion.length), (0, words * 8), "{length} bytes");
            assert_eq!(probe.words.borrow().last().copied(), Some(words as usize), "{length} bytes");
        }
    });
}

/// Runs a test in which the server can be dropped and started again, with its last argument.
fn with_process<F: Future<Output = ()>>(test: impl FnOnce(Cap, Rc<Probe>, Box<dyn Fn()>) -> F) {
    simulated::run(ALL, |env| async move {
        let probe = Rc::new(Probe::default());
        env.serve(0, probe.clone());
        let endpoint = env.cap::<EndpointClient>("serve").unwrap();
        let cap = endpoint.mint(0, PROBE).await.unwrap().into_cap();
        let begin = {
            let probe = probe.clone();
            Box::new(move || {
                let (serving, options) = (env.clone(), with_buffers(1));
                let serving = spawn(async move { serving.run_with(options).await });
                probe.process.borrow_mut().serving = Some(serving);
            })
        };
        begin();
        probe.process.borrow_mut().bell = Some(simulated::notification());
        probe.process.borrow_mut().endpoint = endpoint.as_cap().id();
        test(cap, probe.clone(), begin).await;
        // They hold each other.
        probe.process.take();
    });
}

/// Calls that were begun are completed.
async fn settle() {
    for _ in 0..10 {
        yield_now().await;
    }
}

#[test]
fn a_server_that_is_dropped_has_answered_and_takes_no_call_with_it() {
    with_process(|cap, probe, begin| async move {
        let mut held = None;
        for round in 0..20 {
            // The answer and the wait for the next call are one entry, whose first part is done.
            cap.call(PROBE, AT_ONCE, number(round)).await.unwrap();
            let method = if round % 2 == 0 { DROPS } else { AT_ONCE };
            cap.call(PROBE, method, number(round)).await.unwrap();
            {
                // A call that reached the buffer before it was taken back gets an error, and one that comes later
                // waits.
                let mut early = pin!(cap.call(PROBE, AT_ONCE, number(round)));
                if method == AT_ONCE {
                    assert!(early.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                    probe.drop_server();
                    assert!(early.await.unwrap_err().is_disconnected());
                }
            }
            settle().await;
            let now = simulated::capabilities();
            assert_eq!(*held.get_or_insert(now), now, "round {round}");
            let mut late = pin!(cap.call(PROBE, AT_ONCE, number(round)));
            assert!(late.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            settle().await;
            begin();
            assert_eq!(late.await.unwrap().words, number(round).words);
        }
    });
}

#[test]
fn an_answer_that_waits_for_room_goes_out_or_its_caller_is_told() {
    with_process(|cap, _, begin| async move {
        let mut held = None;
        for round in 0..20 {
            assert_eq!(cap.call(PROBE, CROWDS, number(round)).await.unwrap().words, number(round).words);
            // The entry was taken out of those that wait, and the right to answer went with it.
            let error = cap.call(PROBE, CROWDS_AND_DROPS, number(round)).await.unwrap_err();
            assert!(error.is_disconnected(), "{error}");
            settle().await;
            let now = simulated::capabilities();
            assert_eq!(*held.get_or_insert(now), now, "round {round}");
            begin();
        }
    });
}

#[test]
fn a_server_whose_endpoint_is_gone_answers_what_it_has_and_ends_in_words() {
    with_process(|cap, probe, _| async move {
        assert_eq!(cap.call(PROBE, LOSES, number(1)).await.unwrap().words, number(1).words);
        let serving = probe.process.borrow_mut().serving.take().unwrap();
        let error = serving.await.unwrap().unwrap_err();
        assert!(error.to_string().contains("cannot receive calls at the endpoint `serve`"), "{error}");
    });
}
