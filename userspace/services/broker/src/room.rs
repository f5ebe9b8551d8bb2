//! What calls that are under way may take of the broker's memory: all sessions' together, at each of its endpoints.
//!
//! What a message takes once it is read is bounded by its length (`capos_schema::wire::memory_for`), and so is how long a
//! message is by its endpoint. How many are under way is bounded here, by what they may take: a call for which there is no room
//! is refused before it is read. The sum of what is reckoned with is less than the broker's account has; decision 16 says what is not
//! reckoned with.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use core::cell::Cell;
use core::future::ready;
use core::ops::Deref;

use capos_schema::cap::{
    CallContext, CallError, Cap, Dispatch, Export, IncomingMessage, LocalBoxFuture, Message, RESULTS,
};
use capos_schema::wire::{MAX_SENT, memory_for};

/// An endpoint of the broker's.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// Buffers that wait for calls.
    pub buffers: u16,
    /// Bytes of the longest message.
    pub message_bytes: u32,
    /// Calls that are taken from it at one time.
    pub concurrent: u16,
    /// Bytes of memory that these may take.
    pub room: usize,
}

/// For all but models. A question holds arguments of 64 KiB.
pub const QUESTIONS: Endpoint = Endpoint { buffers: 4, message_bytes: 160 << 10, concurrent: 32, room: 3 << 20 };
/// For sessions that ask their models. A request holds a whole conversation, as much as a worker takes.
pub const REQUESTS: Endpoint = Endpoint { buffers: 1, message_bytes: 1 << 20, concurrent: 32, room: 6 << 20 };

/// Bytes that only short calls may take, such as to read on or to cancel an answer, so that this goes on while a long one waits.
pub const FOR_SHORT: usize = 896 << 10;
/// Bytes that a short call may take.
const SHORT: usize = 128 << 10;

/// Bytes of memory that a call with parameters of so many bytes may take: what is read of them, the message that is sent on in
/// their place, and what the answer to that is received in.
#[must_use]
pub fn weight(bytes: usize) -> usize {
    let read = memory_for(bytes);
    read.saturating_add(read.min(MAX_SENT)).saturating_add(RESULTS as usize)
}

/// Room for calls that are under way.
#[derive(Debug)]
pub struct Room {
    left: Cell<usize>,
}

impl Room {
    /// So many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Rc<Self> {
        Rc::new(Self { left: Cell::new(bytes) })
    }

    /// Room for a call with parameters of so many bytes, until what is returned is dropped.
    fn take(self: &Rc<Self>, bytes: usize) -> Result<Taken, CallError> {
        let taken = weight(bytes);
        let spared = if taken <= SHORT { 0 } else { FOR_SHORT };
        let left = self.left.get().checked_sub(taken).filter(|left| *left >= spared).ok_or_else(|| {
            CallError::overloaded(format!(
                "there is no room beside what else is under way for a message of {bytes} bytes; try again later"
            ))
        })?;
        self.left.set(left);
        Ok(Taken { room: self.clone(), taken })
    }

    /// This object, whose calls are answered where there is room for them.
    pub fn bound(self: &Rc<Self>, object: Rc<dyn Dispatch>) -> Rc<dyn Dispatch> {
        Rc::new(Bounded { room: self.clone(), object })
    }
}

struct Taken {
    room: Rc<Room>,
    taken: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.left.set(self.room.left.get().saturating_add(self.taken));
    }
}

struct Bounded {
    room: Rc<Room>,
    object: Rc<dyn Dispatch>,
}

impl Dispatch for Bounded {
    fn interface_id(&self) -> u64 {
        self.object.interface_id()
    }

    fn implements(&self, interface: u64) -> bool {
        self.object.implements(interface)
    }

    fn is_abortable(&self, interface: u64, method: u16) -> bool {
        self.object.is_abortable(interface, method)
    }

    fn dispatch(
        self: Rc<Self>,
        cx: CallContext,
        method: u16,
        message: IncomingMessage,
    ) -> LocalBoxFuture<'static, Result<Message, CallError>> {
        match self.room.take(message.words.len().saturating_mul(8)) {
            Ok(taken) => {
                let work = self.object.clone().dispatch(cx, method, message);
                Box::pin(async move {
                    let answer = work.await;
                    drop(taken);
                    answer
                })
            }
            Err(error) => Box::pin(ready(Err(error))),
        }
    }
}

/// Where objects are exported whose calls need room. It is what they are exported at, besides.
#[derive(Debug)]
pub struct Exporter<E> {
    exporter: E,
    /// For calls of all of them.
    pub room: Rc<Room>,
}

impl<E> Exporter<E> {
    /// Where calls have so many bytes of room.
    pub fn new(exporter: E, room: usize) -> Self {
        Self { exporter, room: Room::new(room) }
    }
}

impl<E> Deref for Exporter<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.exporter
    }
}

impl<E: Export> Export for Exporter<E> {
    fn export(&self, object: Rc<dyn Dispatch>) -> Result<Cap, CallError> {
        self.exporter.export(self.room.bound(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use capos_schema::cap::ExceptionKind;
    use capos_schema::local::{Local, run};
    use capos_schema::models::{
        ChatMessage, InferenceRequest, InferenceResponse, LanguageModelClient, LanguageModelServer, ModelInfo,
        TokenStreamClient,
    };
    use core::future::{Future, pending};
    use core::pin::Pin;
    use core::task::{Context, Poll, Waker};

    /// What the broker takes besides what calls take: its program, stack, configuration, sessions and tables, rounded up from
    /// what the supervisor says of it (`list_services`).
    const REST: usize = 3 << 20;

    /// The worst that all sessions together can bring about fits into the account that the manifest gives the broker.
    #[test]
    fn the_account_holds_what_all_sessions_can_have_under_way() {
        let manifest = include_str!("../../../../iso_root/etc/manifest.toml").parse::<toml::Table>().unwrap();
        let services = manifest["service"].as_array().unwrap();
        let broker = services.iter().find(|service| service["name"].as_str() == Some("broker")).unwrap();
        let account = broker["limits"]["memory_kib"].as_integer().unwrap() as usize * 1024;
        let mut sum = REST;
        for endpoint in [QUESTIONS, REQUESTS] {
            let message = endpoint.message_bytes as usize;
            assert!(weight(message) + FOR_SHORT <= endpoint.room, "the longest message has room");
            sum += usize::from(endpoint.buffers) * message + endpoint.room;
        }
        // One message at a time is copied out of its buffer, and one is made while what it was in before is still there.
        sum += REQUESTS.message_bytes as usize + MAX_SENT;
        assert!(sum <= account, "{sum} bytes of {account}");
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

    /// However many ask, of however many models, no more is read than there is room for; what ends makes room at once.
    #[test]
    fn calls_of_all_objects_share_the_room() {
        let request = |bytes| {
            let message = ChatMessage { content: "x".repeat(bytes), ..ChatMessage::default() };
            InferenceRequest { messages: Vec::from([message]), ..InferenceRequest::default() }
        };
        let exporter = Exporter::new(Local::default(), REQUESTS.room);
        let models = [(); 9].map(|()| LanguageModelClient::serve(&exporter, Rc::new(Hung)).unwrap());
        let (long, middle) = (request(200 << 10), request(16 << 10));
        let mut asked: Vec<_> = models.iter().map(|model| Box::pin(model.complete(&long))).collect();
        let mut under_way = 0;
        for call in &mut asked {
            match poll(call) {
                Poll::Pending => under_way += 1,
                Poll::Ready(Err(CallError::Exception(refused))) => {
                    assert_eq!(refused.kind, ExceptionKind::Overloaded);
                    assert!(refused.to_string().contains("no room"), "{refused}");
                }
                Poll::Ready(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(under_way, (REQUESTS.room - FOR_SHORT) / weight(200 << 10));
        // Whatever others fill it up with, short ones are answered.
        let mut more: Vec<_> = (0..99).map(|_| Box::pin(models[7].complete(&middle))).collect();
        assert!(more.iter_mut().map(poll).filter(Poll::is_ready).count() > 90);
        assert_eq!(run(models[8].info()).unwrap(), Ok(ModelInfo::default()));
        drop(more);
        drop(asked.remove(0));
        let mut next = Box::pin(models[8].complete(&long));
        assert!(poll(&mut next).is_pending(), "what was given up has made room");
        drop(next);
        drop(asked);
        assert_eq!(exporter.room.left.get(), REQUESTS.room);
    }
}
