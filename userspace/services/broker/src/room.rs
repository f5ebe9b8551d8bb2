//! What calls that are under way may take of the broker's memory, and what each session may of that.
//!
//! A message is read, and what is sent on in its place is written, without waiting for anybody, so one at a time is: that needs
//! no room here. What stays while a call waits does. How long a message is is bounded by its endpoint, and what it takes once it is
//! read by its length (`capos_schema::wire::memory_for`). A call for which there is no room is refused before it is read. Decision 16 has
//! the sum.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use core::cell::Cell;
use core::future::ready;
use core::ops::Deref;

use capos_schema::cap::{Before, CallError, Cap, Dispatch, Export, RESULTS};
use capos_schema::wire::{MAX_SENT, memory_for};

/// An endpoint of the broker's.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// Buffers that wait for calls.
    pub buffers: u16,
    /// Bytes of the longest message.
    pub message_bytes: u32,
    /// Calls that are taken from it at one time: more than there is room for, so that one too many is refused in words.
    pub concurrent: u16,
    /// Bytes of memory that calls which wait may take.
    pub room: usize,
    /// Bytes that one with parameters of so many bytes takes while it waits.
    pub weight: fn(usize) -> usize,
}

/// For all but models. A question holds arguments of 64 KiB.
pub const QUESTIONS: Endpoint =
    Endpoint { buffers: 4, message_bytes: (128 << 10) - 64, concurrent: 128, room: 2368 << 10, weight: of_question };
/// For sessions that ask their models. A request holds a whole conversation, as much as a worker takes.
pub const REQUESTS: Endpoint =
    Endpoint { buffers: 1, message_bytes: 1 << 20, concurrent: 128, room: 3712 << 10, weight: of_request };

/// Bytes of what a call takes besides messages: its future and what that holds.
const TASK: usize = 8 << 10;
/// Bytes that each session has whatever the others do: a few short calls, such as to read on or to cancel an answer.
const ASSURED: usize = 3 * (RESULTS as usize + TASK);
/// Sessions for which that is kept free.
const SESSIONS: usize = 4;
/// Beyond that a session has at most so many times what it leaves to others.
const TIMES: usize = 3;

/// What is read of a question stays until it is answered, beside a record of it that is sent on.
fn of_question(bytes: usize) -> usize {
    let read = memory_for(bytes);
    read.saturating_add(read.min(MAX_SENT)).saturating_add(RESULTS as usize)
}

/// Nothing of a request stays but what is sent on, which takes room of its own (`Share::take`).
fn of_request(_: usize) -> usize {
    (RESULTS as usize).saturating_add(TASK)
}

/// Room for calls that are under way, of all sessions.
#[derive(Debug)]
struct Room {
    left: Cell<usize>,
    weight: fn(usize) -> usize,
}

/// What one session takes of a room.
#[derive(Debug)]
pub struct Share {
    room: Rc<Room>,
    used: Cell<usize>,
}

impl Share {
    /// So many bytes, which a call with `what` needs, until what is returned is dropped.
    ///
    /// # Errors
    /// There is no room for that: beside what the session has under way, or beside what others have.
    pub fn take(self: &Rc<Self>, bytes: usize, what: impl core::fmt::Display) -> Result<Taken, CallError> {
        let used = self.used.get().saturating_add(bytes);
        let left = self.room.left.get().saturating_sub(bytes);
        if self.room.left.get() < bytes || !fits(used, left) {
            // As if there were nothing of this session's.
            let alone = fits(bytes, self.room.left.get().saturating_add(self.used.get()).saturating_sub(bytes));
            return Err(CallError::overloaded(if alone && self.used.get() > 0 {
                format!("there is no room for {what} beside what this session has under way; end some of it first")
            } else {
                format!("there is no room for {what} beside what other sessions have under way; try again later")
            }));
        }
        self.used.set(used);
        self.room.left.set(left);
        Ok(Taken { share: self.clone(), bytes })
    }

    /// This object, each of whose calls takes of this share.
    pub fn bound(self: &Rc<Self>, object: Rc<dyn Dispatch>) -> Rc<dyn Dispatch> {
        let share = self.clone();
        Rc::new(Before::new(object, move |object, cx, method, message| {
            let bytes = message.words.len().saturating_mul(8);
            match share.take((share.room.weight)(bytes), format_args!("a message of {bytes} bytes")) {
                Ok(taken) => {
                    let work = object.dispatch(cx, method, message);
                    Box::pin(async move {
                        let answer = work.await;
                        drop(taken);
                        answer
                    })
                }
                Err(error) => Box::pin(ready(Err(error))),
            }
        }))
    }
}

/// Whether a session may use so much where that leaves so much. Who uses much has to leave enough for others, so that each
/// has something however many they are.
fn fits(used: usize, left: usize) -> bool {
    used <= ASSURED
        || left.checked_sub(SESSIONS.saturating_mul(ASSURED)).is_some_and(|left| used <= left.saturating_mul(TIMES))
}

/// Room that is taken.
#[derive(Debug)]
pub struct Taken {
    share: Rc<Share>,
    bytes: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let (left, used) = (&self.share.room.left, &self.share.used);
        left.set(left.get().saturating_add(self.bytes));
        used.set(used.get().saturating_sub(self.bytes));
    }
}

/// Where objects are exported whose calls need room. It is what they are exported at, besides.
#[derive(Debug)]
pub struct Exporter<E> {
    exporter: E,
    room: Rc<Room>,
}

impl<E> Exporter<E> {
    /// With the room that an endpoint has for its calls.
    pub fn new(exporter: E, endpoint: Endpoint) -> Self {
        Self { exporter, room: Rc::new(Room { left: Cell::new(endpoint.room), weight: endpoint.weight }) }
    }

    /// The share of one more session, which has nothing under way.
    pub fn share(&self) -> Rc<Share> {
        Rc::new(Share { room: self.room.clone(), used: Cell::new(0) })
    }

    /// Where objects of one session are exported.
    pub fn of(&self, share: &Rc<Share>) -> Sharing<'_, E> {
        Sharing { exporter: &self.exporter, share: share.clone() }
    }
}

impl<E> Deref for Exporter<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.exporter
    }
}

/// Where objects are exported whose calls take of one share.
#[derive(Debug)]
pub struct Sharing<'a, E> {
    exporter: &'a E,
    share: Rc<Share>,
}

impl<E: Export> Export for Sharing<'_, E> {
    fn export(&self, object: Rc<dyn Dispatch>) -> Result<Cap, CallError> {
        self.exporter.export(self.share.bound(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use capos_schema::cap::{CallContext, ExceptionKind};
    use capos_schema::local::{Local, run};
    use capos_schema::models::{
        InferenceRequest, InferenceResponse, LanguageModelClient, LanguageModelServer, ModelInfo, TokenStreamClient,
    };
    use core::future::{Future, pending};
    use core::pin::Pin;
    use core::task::{Context, Poll, Waker};

    /// What the broker takes besides what calls take: its program, stack, configuration, sessions and tables, rounded up from
    /// what the supervisor says of it (`list_services`).
    const REST: usize = 3 << 20;

    fn shares<const N: usize>(endpoint: Endpoint) -> (Exporter<Local>, [Rc<Share>; N]) {
        let exporter = Exporter::new(Local::default(), endpoint);
        let shares = [(); N].map(|()| exporter.share());
        (exporter, shares)
    }

    /// Bytes that a request takes while it waits whose message has so many.
    fn request(bytes: usize) -> usize {
        of_request(bytes) + 2 * bytes
    }

    fn why(refused: Result<Taken, CallError>) -> alloc::string::String {
        let Err(CallError::Exception(refused)) = refused else { panic!("there is room") };
        assert_eq!(refused.kind, ExceptionKind::Overloaded);
        refused.to_string()
    }

    /// The worst that all sessions together can bring about fits into the account that the manifest gives the broker.
    #[test]
    fn the_account_holds_what_all_sessions_can_have_under_way() {
        let manifest = include_str!("../../../../iso_root/etc/manifest.toml").parse::<toml::Table>().unwrap();
        let services = manifest["service"].as_array().unwrap();
        let broker = services.iter().find(|service| service["name"].as_str() == Some("broker")).unwrap();
        let account = broker["limits"]["memory_kib"].as_integer().unwrap() as usize * 1024;
        let mut sum = REST;
        for endpoint in [QUESTIONS, REQUESTS] {
            // A buffer has a header besides.
            let buffer = (endpoint.message_bytes as usize + 64).min(MAX_SENT).next_power_of_two();
            sum += usize::from(endpoint.buffers) * buffer + endpoint.room;
        }
        // One message at a time is copied out of its buffer and read, or what was read is written and what it was written in
        // until then is still there.
        let read = memory_for(REQUESTS.message_bytes as usize);
        sum += read + (REQUESTS.message_bytes as usize).max(MAX_SENT + MAX_SENT / 2);
        assert!(sum <= account, "{} KiB of {}", sum >> 10, account >> 10);
    }

    #[test]
    fn one_session_sends_what_is_longest() {
        let (_, [one]) = shares(QUESTIONS);
        one.take(of_question(QUESTIONS.message_bytes as usize), "the longest question").unwrap();
        let (_, [one]) = shares(REQUESTS);
        one.take(request(REQUESTS.message_bytes as usize), "the longest request").unwrap();
    }

    /// Whatever one session has under way, another one sends a conversation of some length, and a third a short one.
    #[test]
    fn a_session_leaves_room_to_others() {
        for bytes in [1 << 20, 100 << 10, 1 << 10] {
            let (_, [one, two, three]) = shares(REQUESTS);
            let all: Vec<Taken> =
                core::iter::from_fn(|| one.take(request(bytes), format_args!("{bytes} bytes")).ok()).collect();
            assert!(!all.is_empty());
            let refused = why(one.take(request(bytes), "another one"));
            assert!(refused.contains("another one beside what this session has under way"), "{refused}");
            let second = two.take(request(192 << 10), "a conversation").unwrap();
            assert!(three.take(request(16 << 10), "a short conversation").is_ok());
            let refused = why(three.take(request(1 << 20), "the longest request"));
            assert!(refused.contains("the longest request beside what other sessions have"), "{refused}");
            drop((second, all));
            assert!(three.take(request(1 << 20), "the longest request").is_ok(), "nothing is under way any more");
        }
    }

    /// Each of four sessions reads and cancels answers whatever the others do.
    #[test]
    fn short_calls_have_room_beside_all_others() {
        let (exporter, [one, others @ ..]): (_, [Rc<Share>; SESSIONS]) = shares(REQUESTS);
        let mut taken = Vec::new();
        for bytes in [1 << 20, 64 << 10, 1 << 10, 0] {
            for share in &others {
                taken.extend(core::iter::from_fn(|| share.take(request(bytes), "as much as there is").ok()));
            }
        }
        taken.extend((0..3).map(|_| one.take(of_request(0), "a short call").unwrap()));
        drop(taken);
        assert_eq!(exporter.room.left.get(), REQUESTS.room);
        assert!(others.iter().all(|share| share.used.get() == 0));
    }

    /// A model that never answers.
    struct Hung;

    impl LanguageModelServer for Hung {
        async fn info(&self, _cx: &CallContext) -> Result<ModelInfo, CallError> {
            Ok(ModelInfo::default())
        }

        async fn complete(&self, _cx: &CallContext, _req: InferenceRequest) -> Result<InferenceResponse, CallError> {
            pending().await
        }

        async fn stream(&self, _cx: &CallContext, _req: InferenceRequest) -> Result<TokenStreamClient, CallError> {
            pending().await
        }
    }

    fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    /// All objects of a session share what it has; what is given up makes room at once.
    #[test]
    fn calls_of_a_sessions_objects_take_of_its_share() {
        let (exporter, [one, two]) = shares(REQUESTS);
        let models =
            [&one, &one, &two].map(|share| LanguageModelClient::serve(&exporter.of(share), Rc::new(Hung)).unwrap());
        let nothing = InferenceRequest::default();
        let mut asked: Vec<_> = (0..99).map(|at| Box::pin(models[at % 2].complete(&nothing))).collect();
        let mut under_way = 0;
        for call in &mut asked {
            match poll(call) {
                Poll::Pending => under_way += 1,
                Poll::Ready(Err(CallError::Exception(refused))) => assert!(refused.to_string().contains("no room")),
                Poll::Ready(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(one.used.get(), under_way * of_request(0));
        assert!(under_way > 20, "{under_way}");
        assert_eq!(run(models[2].info()).unwrap(), Ok(ModelInfo::default()));
        assert!(run(models[0].info()).unwrap().is_err(), "it has no room left");
        drop(asked.pop());
        drop(asked.remove(0));
        assert_eq!(run(models[0].info()).unwrap(), Ok(ModelInfo::default()));
        drop(asked);
        assert_eq!((exporter.room.left.get(), one.used.get()), (REQUESTS.room, 0));
    }
}
