//! Whether the caller of a received call still waits for the answer.

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll, ready};

use capos_abi::Status;
use capos_ring::message::transport;
use capos_schema::cap::CallContext;

use crate::operation::Pending;

/// The wait for the end of a received call. It begins when it is first polled: a call that is answered
/// at once is not waited for.
#[derive(Debug)]
pub(crate) struct Watch {
    reply: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    New,
    Waiting(Pending),
    Ended(Result<(), Status>),
}

impl Watch {
    /// Waits through the reply with this identifier.
    pub(crate) fn new(reply: u64) -> Self {
        Self { reply, state: State::New }
    }

    /// How it ended: `Ok` if the caller no longer waits for the answer.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        loop {
            match &mut self.state {
                State::New => self.state = State::Waiting(Pending::watch(self.reply)),
                State::Waiting(pending) => {
                    let (completion, _) = ready!(Pin::new(pending).poll(context));
                    self.state = State::Ended(transport(&completion));
                }
                State::Ended(how) => return Poll::Ready(*how),
            }
        }
    }
}

/// Does the work for a call; drops it and returns `None` once the caller no longer waits for the answer.
pub(crate) async fn unless_cancelled<T>(watch: &mut Watch, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|context| {
        if let Poll::Ready(value) = work.as_mut().poll(context) {
            return Poll::Ready(Some(value));
        }
        match watch.poll(context) {
            Poll::Ready(Ok(())) => Poll::Ready(None),
            // The work waits for the end of the call itself, or there is no way to learn of it.
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Waits until the caller no longer waits for the answer to this call: it cancelled, died, or lost the
/// capability. For methods that must not be dropped halfway. Methods that the schema marks
/// `$abortable` are dropped without this, unless they call it themselves. Never ends for a call inside
/// the process, which is dropped with its caller.
///
/// # Errors
/// [`Status::StaleCapability`] if the call was answered, [`Status::Overloaded`] if another task
/// waits for its end already.
pub async fn cancelled(cx: &CallContext) -> Result<(), Status> {
    if cx.reply == 0 {
        return core::future::pending().await;
    }
    let mut watch = Watch::new(cx.reply);
    poll_fn(|context| watch.poll(context)).await
}
