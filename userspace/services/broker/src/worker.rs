//! Calls to a worker, which may never answer. Each wait for one has a bound.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use core::cell::RefCell;
use core::future::Future;

use capos_rt::{CancelToken, Either, select};
use capos_schema::cap::CallError;
use capos_schema::models::{TokenStreamClient, TokenStreamNextResults};

use crate::deadlines::Deadlines;
use crate::patience::{Overdue, Waiting};
use crate::tally::Tally;

/// How long a worker may leave a cancel unanswered, in nanoseconds. After that it is ended and another one takes its place. A worker that computes looks at its calls several times a second, or every few
/// seconds if it is emulated. Pages of a large model that come from a slow disk hold it up for longer.
pub const UNANSWERED: u64 = 30_000_000_000;

/// What came of reading an answer on.
#[derive(Debug)]
pub enum Read {
    /// The next piece, and the tokens that it adds.
    Piece(TokenStreamNextResults, u64),
    /// The worker's error.
    Failed(CallError),
    /// The answer was cancelled, and its worker has not ended it in time.
    Lost,
    /// The worker has reached a bound.
    Overdue(Overdue),
}

/// Time that passes while a worker is waited for, also where the wait is given up.
struct Clocked<'a> {
    deadlines: &'a Deadlines,
    waiting: &'a RefCell<Waiting>,
    began: u64,
}

impl Drop for Clocked<'_> {
    fn drop(&mut self) {
        self.waiting.borrow_mut().waited(self.deadlines.now().saturating_sub(self.began));
    }
}

/// Waits for a worker as long as there is patience left.
///
/// # Errors
/// The bound that is reached.
pub async fn within<T>(
    deadlines: &Rc<Deadlines>,
    waiting: &RefCell<Waiting>,
    work: impl Future<Output = T>,
) -> Result<T, Overdue> {
    let overdue = waiting.borrow().overdue();
    if let Some(overdue) = overdue {
        return Err(overdue);
    }
    let began = deadlines.now();
    let deadline = deadlines.at(began.saturating_add(waiting.borrow().left()));
    let clocked = Clocked { deadlines, waiting, began };
    let ended = select(work, deadline.passed()).await;
    drop(clocked);
    match ended {
        Either::First(value) => Ok(value),
        Either::Second(()) => {
            let (waiting, silence) = (waiting.borrow(), Overdue::Silent { seconds: 0 });
            Err(waiting.overdue().unwrap_or(silence))
        }
    }
}

/// Reads the next piece of an answer.
pub async fn read(
    stream: &TokenStreamClient,
    (tally, waiting): (&RefCell<Tally>, &RefCell<Waiting>),
    deadlines: &Rc<Deadlines>,
    lost: &CancelToken,
) -> Read {
    match within(deadlines, waiting, select(stream.next(), lost.cancelled())).await {
        Ok(Either::First(Ok(mut piece))) => {
            let mut tally = tally.borrow_mut();
            let before = tally.extent();
            let tokens = tally.add(&mut piece.chunk);
            waiting.borrow_mut().piece(tally.extent() > before);
            Read::Piece(piece, tokens)
        }
        Ok(Either::First(Err(error))) => Read::Failed(error),
        Ok(Either::Second(())) => Read::Lost,
        Err(overdue) => Read::Overdue(overdue),
    }
}

/// Whether a worker answers this question within this time (nanoseconds), whatever it answers.
pub async fn answers<T>(deadlines: &Rc<Deadlines>, within: u64, question: impl Future<Output = T>) -> bool {
    let deadline = deadlines.at(deadlines.now().saturating_add(within));
    matches!(select(question, deadline.passed()).await, Either::First(_))
}

/// When the workers of models were replaced last, so that one that is silent is replaced once, however many wait for it.
#[derive(Debug, Default)]
pub struct Replaced(RefCell<BTreeMap<String, u64>>);

impl Replaced {
    /// Whether the worker that was asked at this time is still there, so that it is to be replaced now; it counts as replaced then.
    pub fn begin(&self, model: &str, asked: u64, now: u64) -> bool {
        let mut replaced = self.0.borrow_mut();
        if replaced.get(model).is_some_and(|replaced| *replaced > asked) {
            return false;
        }
        replaced.insert(model.to_string(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use capos_policy::Patience;
    use capos_rt::simulated::{self, Object};
    use capos_rt::{Env, ServeOptions, join, spawn};
    use capos_schema::cap::{CallContext, Client};
    use capos_schema::kernel::EndpointClient;
    use capos_schema::models::{
        FinishReason, InferenceRequest, StreamChunk, StreamChunkFinish, StreamChunkProgress, TokenStreamServer,
        TokenStreamService, TokenUsage,
    };
    use core::cell::Cell;
    use core::future::pending;

    const SECOND: u64 = 1_000_000_000;
    const PATIENCE: Patience = Patience { silence_seconds: 300, answer_seconds: 3600 };

    /// Sends these pieces, each after its number of seconds, and then nothing. `hears` says whether it answers a
    /// cancel.
    struct Worker {
        env: Env,
        pieces: RefCell<Vec<(u64, StreamChunk)>>,
        hears: bool,
        cancelled: Cell<bool>,
    }

    impl TokenStreamServer for Worker {
        async fn next(&self, _cx: &CallContext) -> Result<TokenStreamNextResults, CallError> {
            let next = self.pieces.borrow_mut().pop();
            let Some((seconds, chunk)) = next else { return pending().await };
            self.env.clock().unwrap().sleep(seconds * SECOND).await;
            let done = matches!(chunk, StreamChunk::Finish(_));
            Ok(TokenStreamNextResults { chunk, done })
        }

        async fn cancel(&self, _cx: &CallContext) -> Result<(), CallError> {
            self.cancelled.set(true);
            if self.hears { Ok(()) } else { pending().await }
        }
    }

    fn text(text: &str) -> StreamChunk {
        StreamChunk::TextDelta(text.into())
    }

    fn progress(done: u32) -> StreamChunk {
        StreamChunk::Progress(StreamChunkProgress { done, total: 9 })
    }

    fn end() -> StreamChunk {
        let usage = TokenUsage { prompt_tokens: 9, completion_tokens: 1 };
        StreamChunk::Finish(StreamChunkFinish { usage, reason: FinishReason::Stop })
    }

    /// Runs a test as one who reads from such a worker.
    fn with_worker<F: Future<Output = ()>>(
        hears: bool,
        mut pieces: Vec<(u64, StreamChunk)>,
        test: impl FnOnce(TokenStreamClient, Rc<Deadlines>) -> F,
    ) {
        pieces.reverse();
        let grants = [("serve", Object::Endpoint), ("timer", Object::Timer)];
        simulated::run(&grants, |env| async move {
            let (pieces, cancelled) = (RefCell::new(pieces), Cell::new(false));
            let worker = Rc::new(Worker { env: env.clone(), pieces, hears, cancelled });
            env.serve(0, Rc::new(TokenStreamService(worker)));
            let serving = env.clone();
            spawn(async move { serving.run_with(ServeOptions::default()).await.unwrap() });
            let endpoint = env.cap::<EndpointClient>("serve").unwrap();
            let stream = endpoint.mint(0, TokenStreamClient::INTERFACE_ID).await.unwrap().cast();
            test(stream, Deadlines::new(env.clock().unwrap())).await;
        });
    }

    /// Reads until the end, which no piece is, and when that came.
    async fn read_all(stream: &TokenStreamClient, deadlines: &Rc<Deadlines>, tally: Tally) -> (usize, Read, u64) {
        let (tally, waiting) = (RefCell::new(tally), RefCell::new(Waiting::new(PATIENCE)));
        let (lost, mut pieces) = (CancelToken::new(), 0);
        loop {
            match read(stream, (&tally, &waiting), deadlines, &lost).await {
                Read::Piece(piece, _) if !piece.done => pieces += 1,
                end => return (pieces, end, deadlines.now()),
            }
        }
    }

    fn asked() -> Tally {
        Tally::of(&InferenceRequest { max_tokens: 1 << 20, ..InferenceRequest::default() })
    }

    #[test]
    fn a_silent_stream_ends_by_itself() {
        with_worker(true, Vec::from([(10, text("Well"))]), |stream, deadlines| async move {
            let (pieces, end, now) = read_all(&stream, &deadlines, asked()).await;
            assert!(matches!(end, Read::Overdue(Overdue::Silent { seconds: 300 })), "{end:?}");
            assert_eq!((pieces, now), (1, 310 * SECOND));
        });
    }

    /// A machine that reads a prompt for minutes says how far it is, and is waited for.
    #[test]
    fn a_slow_worker_that_goes_on_is_waited_for() {
        let mut pieces: Vec<_> = (1..9).map(|done| (250, progress(done))).collect();
        pieces.extend([(250, text("At last")), (250, end())]);
        with_worker(true, pieces, |stream, deadlines| async move {
            let (pieces, end, now) = read_all(&stream, &deadlines, asked()).await;
            assert!(matches!(&end, Read::Piece(piece, _) if piece.done), "{end:?}");
            assert_eq!((pieces, now), (9, 2500 * SECOND));
        });
    }

    #[test]
    fn a_stream_that_drips_or_says_nothing_in_many_pieces_ends() {
        with_worker(true, (0..4000).map(|_| (30, text("x"))).collect(), |stream, deadlines| async move {
            let (_, end, now) = read_all(&stream, &deadlines, asked()).await;
            assert!(matches!(end, Read::Overdue(Overdue::Slow { seconds: 3600 })), "{end:?}");
            assert_eq!(now, 3600 * SECOND);
        });
        for empty in [text(""), progress(0)] {
            with_worker(true, (0..4000).map(|_| (30, empty.clone())).collect(), |stream, deadlines| async move {
                let (_, end, now) = read_all(&stream, &deadlines, asked()).await;
                assert!(matches!(end, Read::Overdue(Overdue::Silent { .. })), "{end:?}");
                assert_eq!(now, 300 * SECOND);
            });
            with_worker(true, (0..9000).map(|_| (0, empty.clone())).collect(), |stream, deadlines| async move {
                let (pieces, end, _) = read_all(&stream, &deadlines, asked()).await;
                assert!(matches!(end, Read::Overdue(Overdue::Empty { .. })), "{end:?}");
                assert!(pieces < 5000, "{pieces}");
            });
        }
    }

    /// A reader that gives up a read and begins another does not restart the time of silence.
    #[test]
    fn reads_that_are_given_up_count() {
        with_worker(true, Vec::new(), |stream, deadlines| async move {
            let (tally, waiting) = (RefCell::new(asked()), RefCell::new(Waiting::new(PATIENCE)));
            let lost = CancelToken::new();
            for _ in 0..3 {
                let impatient = deadlines.at(deadlines.now() + 100 * SECOND);
                let one = read(&stream, (&tally, &waiting), &deadlines, &lost);
                assert!(matches!(select(impatient.passed(), one).await, Either::First(())));
            }
            let end = read(&stream, (&tally, &waiting), &deadlines, &lost).await;
            assert!(matches!(end, Read::Overdue(Overdue::Silent { .. })), "{end:?}");
            assert_eq!(deadlines.now(), 300 * SECOND);
        });
    }

    #[test]
    fn a_cancel_is_answered_in_time_or_its_worker_is_known_to_be_deaf() {
        with_worker(true, Vec::new(), |stream, deadlines| async move {
            assert!(answers(&deadlines, UNANSWERED, stream.cancel()).await);
            assert_eq!(deadlines.now(), 0);
        });
        with_worker(false, Vec::new(), |stream, deadlines| async move {
            // Two who cancel find the same worker deaf, and one of them has it replaced.
            let replaced = Replaced::default();
            let deaf = async || {
                let asked = deadlines.now();
                !answers(&deadlines, UNANSWERED, stream.cancel()).await && replaced.begin("one", asked, deadlines.now())
            };
            assert_eq!(join(deaf(), deaf()).await, (true, false));
            assert_eq!(deadlines.now(), UNANSWERED);
            // What is asked of the next one is another matter, and so are other models.
            assert!(replaced.begin("two", 0, UNANSWERED));
            assert!(deaf().await);
        });
    }
}
