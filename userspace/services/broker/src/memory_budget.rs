//! What calls that are under way may take of the broker's memory, and what each session may of that.
//!
//! A message is read, and what is sent on in its place is written, without waiting for anybody, so one at a time is: that needs
//! no room here. What stays while a call waits does. How long a message is is bounded by its endpoint, and what it takes once it is
//! read by its length (`capos_schema::wire::memory_for`). A call for which there is no room is rejected with an
//! error message. Decision 16 has the sum.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt::Display;
use core::future::ready;
use core::ops::Deref;

use capos_schema::cap::{Before, CallError, Cap, Dispatch, Export, RESULTS};
use capos_schema::wire::memory_for;

/// An endpoint of the broker's.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// Buffers that wait for calls.
    pub buffers: u16,
    /// Bytes of the longest message.
    pub message_bytes: u32,
    /// Calls that are taken from it at one time: more than there is room for, so that one too many is rejected with an
    /// error message.
    pub concurrent: u16,
    /// Bytes of memory that calls which wait may take.
    pub room: usize,
    /// Bytes that a call takes while it waits, by the length of its parameters.
    pub weight: fn(usize) -> usize,
}

/// For all but models. A question holds arguments of 64 KiB.
pub const QUESTIONS: Endpoint =
    Endpoint { buffers: 4, message_bytes: (128 << 10) - 64, concurrent: 128, room: 2400 << 10, weight: of_question };
/// For sessions that ask their models. A request holds a whole conversation, as much as a worker takes.
pub const REQUESTS: Endpoint =
    Endpoint { buffers: 1, message_bytes: 1 << 20, concurrent: 128, room: 4432 << 10, weight: of_request };

/// Bytes of what a call takes besides messages: its future and what that holds.
const TASK: usize = 8 << 10;
/// Bytes of a call that waits for another one, whose messages are short. No call takes less, so this also bounds how many wait.
pub const CALL: usize = RESULTS as usize + TASK;
/// Bytes of short calls that each session has whatever the others do: to read an answer on, to cancel it, the cancel that is
/// passed on to the worker, and one more.
const ASSURED_CALLS: usize = 4 * CALL;
/// The same, of what is long: a request of 56 KiB.
const ASSURED: usize = 112 << 10;
/// Sessions for which both are kept free.
const SESSIONS: usize = 4;
const SPARED: usize = SESSIONS * (ASSURED_CALLS + ASSURED);
/// Beyond that a session has at most this multiple of what it leaves to others.
const TIMES: usize = 3;

/// A question is kept in memory until it is answered.
fn of_question(bytes: usize) -> usize {
    memory_for(bytes).saturating_add(CALL)
}

/// Nothing of a request stays but what is sent on, which takes room of its own ([`Share::take`]).
fn of_request(_: usize) -> usize {
    CALL
}

/// Room for calls that are under way, of all sessions.
#[derive(Debug)]
struct Room {
    left: Cell<usize>,
    weight: fn(usize) -> usize,
}

/// What one session takes of a room, and what it has exported there.
#[derive(Debug)]
pub struct Share {
    room: Rc<Room>,
    /// Bytes of short calls, and of all else.
    short: Cell<usize>,
    long: Cell<usize>,
    /// Identifiers of capabilities to objects that end with the session.
    exported: RefCell<BTreeSet<u64>>,
}

impl Share {
    /// Takes the bytes that a call with `what` needs in addition to itself, until the result is dropped.
    ///
    /// # Errors
    /// There is no room for that next to what the session has under way, or next to what others have.
    pub fn take(self: &Rc<Self>, bytes: usize, what: impl Display) -> Result<Reservation, CallError> {
        self.take_of(&self.long, ASSURED, bytes, what)?;
        Ok(Reservation { share: self.clone(), bytes, short: false })
    }

    /// The same, for a call whose messages are short.
    ///
    /// # Errors
    /// There is no room for that.
    pub fn take_short(self: &Rc<Self>, bytes: usize, what: impl Display) -> Result<Reservation, CallError> {
        self.take_of(&self.short, ASSURED_CALLS, bytes, what)?;
        Ok(Reservation { share: self.clone(), bytes, short: true })
    }

    fn take_of(&self, used: &Cell<usize>, assured: usize, bytes: usize, what: impl Display) -> Result<(), CallError> {
        let (all, left) = (self.short.get().saturating_add(self.long.get()), self.room.left.get());
        // A session that uses much leaves enough for others, so that each has something however many they are.
        let fits =
            |all: usize, left: usize| left.checked_sub(SPARED).is_some_and(|left| all <= left.saturating_mul(TIMES));
        let more = used.get().saturating_add(bytes);
        match left.checked_sub(bytes) {
            Some(rest) if more <= assured || fits(all.saturating_add(bytes), rest) => {
                used.set(more);
                self.room.left.set(rest);
                Ok(())
            }
            // If there were nothing else of this session's.
            _ if all > 0 && left.saturating_add(all).checked_sub(bytes).is_some_and(|rest| fits(bytes, rest)) => {
                Err(CallError::overloaded(format!(
                    "the calls in progress of this session leave no memory for {what}; end some of them first"
                )))
            }
            _ => Err(CallError::overloaded(format!(
                "the calls in progress of other sessions leave no memory for {what}; try again later"
            ))),
        }
    }

    /// This object, each of whose calls takes of this share.
    pub fn bound(self: &Rc<Self>, object: Rc<dyn Dispatch>) -> Rc<dyn Dispatch> {
        self.keeping(object, None)
    }

    /// The same, which keeps its place in the list of what is exported.
    fn keeping(self: &Rc<Self>, object: Rc<dyn Dispatch>, listed: Option<Rc<Listed>>) -> Rc<dyn Dispatch> {
        let share = self.clone();
        Rc::new(Before::new(object, move |object, cx, method, message| {
            let _ = &listed;
            let bytes = message.words.len().saturating_mul(8);
            let (weight, what) = ((share.room.weight)(bytes), format_args!("a message of {bytes} bytes"));
            // A message of less than 4 KiB may take as much to read as a longer one, and is short all the same.
            let short = weight <= CALL.saturating_add(memory_for(TASK / 4));
            let taken = if short { share.take_short(weight, what) } else { share.take(weight, what) };
            match taken {
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

    /// What is exported of the session's, by the identifiers of its capabilities. It is no longer listed.
    pub fn take_exported(&self) -> Vec<u64> {
        self.exported.take().into_iter().collect()
    }
}

/// Room that is taken.
#[derive(Debug)]
pub struct Reservation {
    share: Rc<Share>,
    bytes: usize,
    short: bool,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Self { share, bytes, short } = self;
        let used = if *short { &share.short } else { &share.long };
        used.set(used.get().saturating_sub(*bytes));
        share.room.left.set(share.room.left.get().saturating_add(*bytes));
    }
}

/// An object in the list of what its session has exported, until it has no holder.
struct Listed {
    share: Rc<Share>,
    id: Cell<u64>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.share.exported.borrow_mut().remove(&self.id.get());
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
        let (short, long, exported) = Default::default();
        Rc::new(Share { room: self.room.clone(), short, long, exported })
    }

    /// Where objects are exported that end with their session.
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
        let listed = Rc::new(Listed { share: self.share.clone(), id: Cell::default() });
        let cap = self.exporter.export(self.share.keeping(object, Some(listed.clone())))?;
        listed.id.set(cap.id());
        self.share.exported.borrow_mut().insert(cap.id());
        Ok(cap)
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
    use capos_schema::wire::MAX_SENT;
    use core::future::{Future, pending};
    use core::pin::Pin;
    use core::task::{Context, Poll, Waker};

    /// What the broker takes besides what calls take: its program, stack, configuration, sessions and tables, rounded up from
    /// what the supervisor says of it (`list_services`; `qemu/strained-broker` looks).
    const REST: usize = 5 << 20;
    /// Places that the runtime has for calls and for watching callers: three quarters and one eighth of the
    /// completions. A service that may hold 1,024 capabilities has 512 of them.
    const CALLS: usize = 380;
    const WATCHES: usize = 63;

    fn shares<const N: usize>(endpoint: Endpoint) -> (Exporter<Local>, [Rc<Share>; N]) {
        let exporter = Exporter::new(Local::default(), endpoint);
        let shares = [(); N].map(|()| exporter.share());
        (exporter, shares)
    }

    /// A call with a request of this length.
    fn request(share: &Rc<Share>, bytes: usize) -> Result<(Reservation, Reservation), CallError> {
        Ok((share.take_short(of_request(bytes), "a call")?, share.take(2 * bytes, format_args!("{bytes} bytes"))?))
    }

    fn why<T>(refused: Result<T, CallError>) -> alloc::string::String {
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
        assert!(broker["limits"]["capabilities"].as_integer().unwrap() >= 1024, "it has fewer completions");
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
        // What the heap wastes, where many sizes come and go.
        sum += sum / 8;
        assert!(sum <= account, "{} KiB of {}", sum >> 10, account >> 10);
    }

    /// Calls that wait for servers that may never answer leave places for the broker's own calls.
    #[test]
    fn no_more_wait_than_there_are_places() {
        let most = QUESTIONS.room / of_question(0) + REQUESTS.room / CALL;
        // A cancel that is passed on to its worker is a call and a timer.
        assert!(2 * most + 32 <= CALLS, "{most} calls of {CALLS}");
        let watched = shares::<1>(REQUESTS).1[0].room.left.get() / CALL;
        assert!(watched <= WATCHES, "{watched} of {WATCHES} are watched");
        assert!(usize::from(QUESTIONS.concurrent.min(REQUESTS.concurrent)) > watched);
    }

    /// Questions are somewhat heavier than what is asked of models.
    #[test]
    fn short_questions_have_room_beside_all_others() {
        let (_, [one, others @ ..]): (_, [Rc<Share>; SESSIONS]) = shares(QUESTIONS);
        let mut taken = Vec::new();
        for weight in [of_question(64 << 10), of_question(0)] {
            for share in &others {
                taken.extend(core::iter::from_fn(|| share.take(weight, "a long one").ok()));
                taken.extend(core::iter::from_fn(|| share.take_short(weight, "a short one").ok()));
            }
        }
        taken.extend((0..3).map(|_| one.take_short(of_question(2 << 10), "a question").unwrap()));
    }

    #[test]
    fn one_session_sends_what_is_longest() {
        let (_, [one]) = shares(QUESTIONS);
        one.take(of_question(QUESTIONS.message_bytes as usize), "the longest question").unwrap();
        let (_, [one]) = shares(REQUESTS);
        request(&one, REQUESTS.message_bytes as usize).unwrap();
    }

    /// Whatever one session has under way, another one sends a conversation of some length, and a third a short one.
    #[test]
    fn a_session_leaves_room_to_others() {
        for bytes in [1 << 20, 100 << 10, 1 << 10] {
            let (_, [one, two, three]) = shares(REQUESTS);
            let all: Vec<_> = core::iter::from_fn(|| request(&one, bytes).ok()).collect();
            assert!(!all.is_empty());
            let refused = why(request(&one, bytes));
            assert!(refused.contains("in progress of this session leave no memory"), "{refused}");
            let second = request(&two, 192 << 10).unwrap();
            assert!(request(&three, 56 << 10).is_ok());
            let refused = why(request(&three, 1 << 20));
            assert!(refused.contains("other sessions leave no memory for 1048576 bytes"), "{refused}");
            drop((second, all));
            assert!(request(&three, 1 << 20).is_ok(), "nothing is under way any more");
        }
    }

    /// Each of four sessions reads and cancels answers, and sends a short conversation, whatever the others do and whatever else
    /// it has under way.
    #[test]
    fn four_sessions_have_something_whatever_the_others_do() {
        for own in [None, Some(1 << 20), Some(96 << 10)] {
            let (exporter, [one, others @ ..]): (_, [Rc<Share>; SESSIONS]) = shares(REQUESTS);
            let mut taken: Vec<_> = own.map(|bytes| one.take(2 * bytes, "its own").unwrap()).into_iter().collect();
            for bytes in [1 << 20, 64 << 10, 1 << 10, 0] {
                for share in &others {
                    taken.extend(core::iter::from_fn(|| request(share, bytes).ok()).flat_map(<[Reservation; 2]>::from));
                }
            }
            if own.is_none() {
                taken.push(one.take(2 * (56 << 10), "a short conversation").unwrap());
            }
            taken.extend((0..4).map(|_| one.take_short(CALL, "a short call").unwrap()));
            drop(taken);
            assert_eq!(exporter.room.left.get(), REQUESTS.room);
            assert!(others.iter().all(|share| share.short.get() + share.long.get() == 0));
        }
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
                Poll::Ready(Err(CallError::Exception(refused))) => {
                    assert!(refused.to_string().contains("no memory for"))
                }
                Poll::Ready(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(one.short.get(), under_way * CALL);
        assert!(under_way > 20, "{under_way}");
        assert_eq!(run(models[2].info()).unwrap(), Ok(ModelInfo::default()));
        assert!(run(models[0].info()).unwrap().is_err(), "it has no room left");
        drop(asked.pop());
        drop(asked.remove(0));
        assert_eq!(run(models[0].info()).unwrap(), Ok(ModelInfo::default()));
        drop(asked);
        assert_eq!((exporter.room.left.get(), one.short.get()), (REQUESTS.room, 0));
        assert_eq!((one.take_exported().len(), two.take_exported().len()), (2, 1));
    }
}
