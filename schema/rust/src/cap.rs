//! Capabilities as programs hold them, and calls through them.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use capnp::Word;
pub use capos_abi::{Rights, Status, TransferMode};

pub use crate::exception::{Exception, ExceptionKind};
use crate::wire::WireError;

/// A boxed future of the one thread that it runs on.
pub type LocalBoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// How a call ended when it did not end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The call did not get through, or the answer did not come back.
    Transport(Status),
    /// The other side refused.
    Exception(Exception),
    /// A message does not conform to the schema.
    Protocol(WireError),
}

impl CallError {
    /// It was tried and did not work.
    pub fn failed(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Exception(Exception::failed(reason))
    }

    /// Not now: too much to do.
    pub fn overloaded(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Exception(Exception::overloaded(reason))
    }

    /// Something that the server needs is gone.
    pub fn disconnected(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Exception(Exception::disconnected(reason))
    }

    /// The server does not do this.
    pub fn unimplemented(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Exception(Exception::unimplemented(reason))
    }

    /// The arguments are not acceptable.
    pub fn invalid_argument(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Exception(Exception::invalid_argument(reason))
    }

    /// The service has no method with this number.
    #[must_use]
    pub fn no_such_method(service: &'static str, interface: u64, method: u16) -> Self {
        Self::unimplemented(alloc::format!("{service} has no method {method} of interface {interface:#018x}"))
    }

    /// The parameters do not conform to the schema.
    #[must_use]
    pub fn bad_arguments(error: WireError) -> Self {
        Self::invalid_argument(alloc::format!("{error}"))
    }

    /// The results do not conform to the schema, or no message is long enough for them.
    #[must_use]
    pub fn bad_results(error: WireError) -> Self {
        Self::failed(alloc::format!("{error}"))
    }

    /// Whether the other side is gone, so that a new capability is needed.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        match self {
            Self::Transport(status) => matches!(status, Status::Disconnected | Status::StaleCapability),
            Self::Exception(exception) => exception.kind == ExceptionKind::Disconnected,
            Self::Protocol(_) => false,
        }
    }

    /// The answer of a server that failed with this to its own caller.
    #[must_use]
    pub fn into_exception(self) -> Exception {
        match self {
            Self::Exception(exception) => exception,
            Self::Transport(status) => {
                let kind = match status {
                    Status::Disconnected | Status::StaleCapability => ExceptionKind::Disconnected,
                    Status::Overloaded | Status::QuotaExceeded | Status::OutOfMemory => ExceptionKind::Overloaded,
                    _ => ExceptionKind::Failed,
                };
                Exception::new(kind, status.words())
            }
            Self::Protocol(error) => Exception::failed(alloc::format!("{error}")),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport(status) => write!(f, "{status}"),
            Self::Exception(exception) => write!(f, "{exception}"),
            Self::Protocol(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for CallError {}

/// An error in a message that a client makes or gets: one that is too long is not delivered.
impl From<WireError> for CallError {
    fn from(error: WireError) -> Self {
        if error.is_too_long() { Self::Transport(Status::TooLarge) } else { Self::Protocol(error) }
    }
}

impl From<Exception> for CallError {
    fn from(exception: Exception) -> Self {
        Self::Exception(exception)
    }
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        Self::Transport(status)
    }
}

/// A message to send: one Cap'n Proto segment and the capabilities that it points to.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// The segment; the root pointer is its first word.
    pub words: Vec<Word>,
    /// The capability array.
    pub caps: Vec<CapArg>,
}

impl Message {
    /// The segment's bytes, aligned to 8.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        Word::words_to_bytes(&self.words)
    }
}

/// A capability to send, and how.
#[derive(Clone, Debug)]
pub struct CapArg {
    /// The capability.
    pub cap: Cap,
    /// The receiver gets at most these rights.
    pub rights: Rights,
    /// Whether the sender keeps its own.
    pub mode: TransferMode,
}

/// A message that came, which its reader keeps.
#[derive(Clone, Debug, Default)]
pub struct IncomingMessage {
    /// The segment; the root pointer is its first word.
    pub words: Vec<Word>,
    /// The capability array. Capabilities that are not taken out of it are released when it is dropped.
    pub caps: Vec<Cap>,
}

impl IncomingMessage {
    /// A message from bytes; a last word that is not whole is dropped.
    #[must_use]
    pub fn from_bytes(bytes: &[u8], caps: Vec<Cap>) -> Self {
        let mut words = Word::allocate_zeroed_vec(bytes.len() / 8);
        for (to, from) in Word::words_to_bytes_mut(&mut words).iter_mut().zip(bytes) {
            *to = *from;
        }
        Self { words, caps }
    }

    /// The message, to be read.
    #[inline]
    #[must_use]
    pub fn view(&self) -> MessageView<'_> {
        MessageView { words: &self.words, caps: &self.caps }
    }
}

/// A message that came, read in the memory that it came into: parameters at the server, results at the client. It is
/// copied only by a reader that keeps it.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessageView<'a> {
    /// The segment; the root pointer is its first word.
    pub words: &'a [Word],
    /// The capability array. Capabilities that are not cloned are released after the message was read.
    pub caps: &'a [Cap],
}

impl MessageView<'_> {
    /// A copy of the message.
    #[must_use]
    pub fn to_owned(self) -> IncomingMessage {
        IncomingMessage { words: self.words.to_vec(), caps: self.caps.to_vec() }
    }
}

impl<'a> From<&'a IncomingMessage> for MessageView<'a> {
    #[inline]
    fn from(message: &'a IncomingMessage) -> Self {
        message.view()
    }
}

/// Bytes of results that a call has room for if neither the schema nor its caller says more.
pub const RESULTS: u32 = 64 << 10;

/// How a call ended.
pub type CallResult = Result<IncomingMessage, CallError>;

/// The results of a call whose caller keeps the message.
fn keep(message: MessageView<'_>) -> CallResult {
    Ok(message.to_owned())
}

/// Reads how a call ended: the results, or the error. It is called once, and starts no operation.
pub type ReadResult<'r> = &'r mut dyn FnMut(Result<MessageView<'_>, CallError>);

/// A call that was begun.
pub enum Begun {
    /// It has ended so.
    Ended(CallResult),
    /// It has ended, and was read.
    Read,
    /// The transport keeps it under this number: [`CapTransport::poll_call`] asks after it.
    Kept(u64),
    /// It continues as a future of its own.
    Future(LocalBoxFuture<'static, CallResult>),
}

/// A transport of calls: the runtime's handle of a capability. Dropping it releases the capability.
pub trait CapTransport {
    /// Begins to call a method, by interface and ordinal, with room for `results` bytes of results. If the call is
    /// [kept](Begun::Kept), `context` is woken when it ends. If it ends at once, it can have `read` read that.
    fn begin(
        &self,
        method: (u64, u16),
        params: Message,
        results: u32,
        context: &mut Context<'_>,
        read: ReadResult<'_>,
    ) -> Begun;

    /// Has `read` read how a call ended that is [kept](Begun::Kept), once. While it has not, `context` is woken when it
    /// does.
    fn poll_call(&self, number: u64, context: &mut Context<'_>, read: ReadResult<'_>) -> Poll<()> {
        let _ = (number, context);
        read(Err(CallError::Transport(Status::Disconnected)));
        Poll::Ready(())
    }

    /// Cancels a call that is [kept](Begun::Kept) and whose answer is no longer wanted.
    fn abandon_call(&self, number: u64) {
        let _ = number;
    }

    /// Calls a method that has no parameters and answers at once with one number. If it returns `None`, it had no
    /// effect, and the method must be called with a message.
    fn invoke(&self, method: (u64, u16)) -> Option<u64> {
        let _ = method;
        None
    }

    /// It was sent away by a message that moved it: it is no longer in the process's table, and dropping it releases
    /// nothing.
    fn forget(&self) {}

    /// The identifier in the process's table.
    fn id(&self) -> u64;

    /// The transport itself, for the runtime that made it.
    fn as_any(&self) -> &dyn Any;
}

/// A capability of any interface. Clones share one place in the process's table.
#[derive(Clone)]
pub struct Cap {
    transport: Rc<dyn CapTransport>,
    rights: Rights,
    mode: TransferMode,
}

impl Cap {
    /// Wraps what the runtime made.
    pub fn new(transport: impl CapTransport + 'static) -> Self {
        Self::from_rc(Rc::new(transport))
    }

    /// Wraps what the runtime made and keeps.
    #[must_use]
    pub fn from_rc(transport: Rc<dyn CapTransport>) -> Self {
        Self { transport, rights: Rights::ALL, mode: TransferMode::Copy }
    }

    /// The identifier in the process's table.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.transport.id()
    }

    /// The runtime's handle.
    #[must_use]
    pub fn transport(&self) -> &Rc<dyn CapTransport> {
        &self.transport
    }

    /// Calls a method of any interface.
    pub fn call(&self, interface: u64, method: u16, params: Message) -> Call {
        self.call_sized(interface, method, params, RESULTS)
    }

    /// The same, if the results are known to have at most `results` bytes.
    pub fn call_sized(&self, interface: u64, method: u16, params: Message, results: u32) -> Call {
        self.call_reading(interface, method, params, results, keep as fn(MessageView<'_>) -> CallResult)
    }

    /// The same; `read` reads the results where they are.
    #[inline]
    pub fn call_reading<T, F: FnOnce(MessageView<'_>) -> Result<T, CallError>>(
        &self,
        interface: u64,
        method: u16,
        params: Message,
        results: u32,
        read: F,
    ) -> Call<F> {
        let transport = self.transport.clone();
        Call {
            transport,
            method: (interface, method),
            params,
            results,
            state: CallState::New,
            future: None,
            read: Some(read),
        }
    }

    /// Calls a method of an object of the kernel that has no parameters and answers at once with one number. `None` if
    /// it has to be called with a message; nothing has happened then.
    #[inline]
    #[must_use]
    pub fn invoke(&self, interface: u64, method: u16) -> Option<u64> {
        self.transport.invoke((interface, method))
    }

    /// The same capability; receivers get at most these rights.
    #[must_use]
    pub fn attenuated(&self, rights: Rights) -> Self {
        Self { rights: self.rights.intersection(rights), ..self.clone() }
    }

    /// The same capability, which this process gives away when it sends it.
    #[must_use]
    pub fn moved(&self) -> Self {
        Self { mode: TransferMode::Move, ..self.clone() }
    }

    /// As an argument of a message.
    #[must_use]
    pub fn to_arg(&self) -> CapArg {
        CapArg { cap: self.clone(), rights: self.rights, mode: self.mode }
    }
}

/// A call. It is made when it is first polled; dropping it cancels it. `F` reads its results.
pub struct Call<F = fn(MessageView<'_>) -> CallResult> {
    transport: Rc<dyn CapTransport>,
    method: (u64, u16),
    params: Message,
    results: u32,
    state: CallState,
    /// The call, if it is one of its own.
    future: Option<LocalBoxFuture<'static, CallResult>>,
    read: Option<F>,
}

#[derive(Clone, Copy)]
enum CallState {
    New,
    Kept(u64),
    Future,
    Ended,
}

/// How a call ended that has no result to be read.
const NONE: CallError = CallError::Transport(Status::Cancelled);

/// Has `read` read a result that the caller has.
fn read_owned(result: CallResult, read: ReadResult<'_>) {
    match result {
        Ok(message) => read(Ok(message.view())),
        Err(error) => read(Err(error)),
    }
}

impl<F> Unpin for Call<F> {}

impl<T, F: FnOnce(MessageView<'_>) -> Result<T, CallError>> Future for Call<F> {
    type Output = Result<T, CallError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let (read, mut ended) = (&mut this.read, None);
        let mut read = |answer: Result<MessageView<'_>, CallError>| {
            let read = read.take();
            ended = Some(answer.and_then(|message| read.map_or(Err(NONE), |read| read(message))));
        };
        match this.state {
            CallState::New => {
                let params = core::mem::take(&mut this.params);
                match this.transport.begin(this.method, params, this.results, context, &mut read) {
                    Begun::Kept(number) => {
                        this.state = CallState::Kept(number);
                        return Poll::Pending;
                    }
                    Begun::Read => {}
                    Begun::Ended(result) => read_owned(result, &mut read),
                    Begun::Future(future) => {
                        this.state = CallState::Future;
                        let Poll::Ready(result) = this.future.insert(future).as_mut().poll(context) else {
                            return Poll::Pending;
                        };
                        read_owned(result, &mut read);
                    }
                }
            }
            CallState::Kept(number) => {
                if this.transport.poll_call(number, context, &mut read).is_pending() {
                    return Poll::Pending;
                }
            }
            CallState::Future | CallState::Ended => {
                let Some(future) = &mut this.future else { return Poll::Ready(Err(NONE)) };
                let Poll::Ready(result) = future.as_mut().poll(context) else { return Poll::Pending };
                read_owned(result, &mut read);
            }
        }
        this.state = CallState::Ended;
        this.future = None;
        Poll::Ready(ended.unwrap_or(Err(NONE)))
    }
}

impl<F> Drop for Call<F> {
    #[inline]
    fn drop(&mut self) {
        if let CallState::Kept(number) = self.state {
            self.transport.abandon_call(number);
        }
    }
}

impl fmt::Debug for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", capos_abi::CapId(self.id()))
    }
}

impl PartialEq for Cap {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Cap {}

/// Values that can be sent as a capability: every typed client, and [`Cap`].
pub trait AsCap {
    /// The capability.
    fn as_cap(&self) -> &Cap;
}

impl AsCap for Cap {
    fn as_cap(&self) -> &Cap {
        self
    }
}

/// A typed client.
pub trait Client: AsCap + Sized {
    /// The interface's identifier.
    const INTERFACE_ID: u64;
    /// The interface's name.
    const NAME: &'static str;

    /// Takes a capability to be of this interface; calls fail if it is not.
    fn from_cap(cap: Cap) -> Self;

    /// The capability.
    fn into_cap(self) -> Cap;

    /// The same capability taken to be of another interface; calls fail if it is not.
    fn cast<T: Client>(self) -> T {
        T::from_cap(self.into_cap())
    }

    /// The same; receivers get at most these rights.
    #[must_use]
    fn attenuated(&self, rights: Rights) -> Self {
        Self::from_cap(self.as_cap().attenuated(rights))
    }

    /// The same, which this process gives away when it sends it.
    #[must_use]
    fn moved(&self) -> Self {
        Self::from_cap(self.as_cap().moved())
    }
}

/// A server's information about a call besides its arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallContext {
    /// The badge of the capability that was invoked: all that is known of the caller.
    pub badge: u64,
    /// The interface that the caller named.
    pub interface: u64,
    /// Names the call to the runtime that received it; 0 for a call inside the process.
    pub reply: u64,
}

/// An object that answers calls.
pub trait Dispatch {
    /// The interface that capabilities to it are minted for.
    fn interface_id(&self) -> u64;

    /// Whether it answers calls of this interface: its own and those that it extends.
    fn implements(&self, interface: u64) -> bool;

    /// Whether a call of this method is dropped, even halfway, once its caller no longer waits:
    /// those that the schema marks `$abortable`.
    fn is_abortable(&self, interface: u64, method: u16) -> bool {
        let _ = (interface, method);
        false
    }

    /// Reads a call's parameters, and answers it. Dropping the future abandons it.
    fn dispatch(self: Rc<Self>, cx: CallContext, method: u16, message: MessageView<'_>) -> Answer;
}

/// How an object answers a call, or another one in its place.
pub type Answer = LocalBoxFuture<'static, Result<Message, CallError>>;

/// The answer to a call that is rejected before its handler begins.
#[must_use]
#[cold]
pub fn refuse(error: CallError) -> Answer {
    Box::pin(core::future::ready(Err(error)))
}

/// An object in front of another one: it has the other's interface, and the handler of its calls learns which object
/// that is.
pub struct Before<F> {
    object: Rc<dyn Dispatch>,
    answer: F,
}

impl<F: Fn(Rc<dyn Dispatch>, CallContext, u16, MessageView<'_>) -> Answer + 'static> Before<F> {
    /// An object before this one, whose calls `answer` answers.
    pub fn new(object: Rc<dyn Dispatch>, answer: F) -> Self {
        Self { object, answer }
    }
}

impl<F: Fn(Rc<dyn Dispatch>, CallContext, u16, MessageView<'_>) -> Answer + 'static> Dispatch for Before<F> {
    fn interface_id(&self) -> u64 {
        self.object.interface_id()
    }

    fn implements(&self, interface: u64) -> bool {
        self.object.implements(interface)
    }

    fn is_abortable(&self, interface: u64, method: u16) -> bool {
        self.object.is_abortable(interface, method)
    }

    fn dispatch(self: Rc<Self>, cx: CallContext, method: u16, message: MessageView<'_>) -> Answer {
        (self.answer)(self.object.clone(), cx, method, message)
    }
}

/// A maker of capabilities to own objects: the runtime, at its endpoint.
pub trait Export {
    /// A capability that leads to the object. The object lives as long as anyone holds it.
    ///
    /// # Errors
    /// The runtime's: no room, no endpoint.
    fn export(&self, object: Rc<dyn Dispatch>) -> Result<Cap, CallError>;
}

impl<E: Export + ?Sized> Export for &E {
    fn export(&self, object: Rc<dyn Dispatch>) -> Result<Cap, CallError> {
        (**self).export(object)
    }
}

impl<E: Export + ?Sized> Export for Rc<E> {
    fn export(&self, object: Rc<dyn Dispatch>) -> Result<Cap, CallError> {
        (**self).export(object)
    }
}
