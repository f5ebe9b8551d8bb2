//! Calls inside one process: a client and its server without a kernel between them, for tests and
//! for services that are their own clients.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::Cell;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use crate::cap::{
    Begun, CallContext, CallError, Cap, CapTransport, Dispatch, Export, IncomingMessage, Message, ReadResult,
};

/// Exports objects to the process itself. Each gets the next badge, beginning with 1.
#[derive(Default)]
pub struct Local {
    exported: Cell<u64>,
}

struct LocalCap {
    badge: u64,
    object: Rc<dyn Dispatch>,
}

impl Export for Local {
    fn export(&self, object: Rc<dyn Dispatch>) -> Result<Cap, CallError> {
        let badge = self.exported.get().saturating_add(1);
        self.exported.set(badge);
        Ok(Cap::new(LocalCap { badge, object }))
    }
}

impl CapTransport for LocalCap {
    fn begin(
        &self,
        (interface, method): (u64, u16),
        params: Message,
        _: u32,
        _: &mut Context<'_>,
        _: ReadResult<'_>,
    ) -> Begun {
        if !self.object.implements(interface) {
            return Begun::Ended(Err(CallError::Transport(capos_abi::Status::WrongInterface)));
        }
        let (object, badge) = (self.object.clone(), self.badge);
        Begun::Future(Box::pin(async move {
            let cx = CallContext { badge, interface, reply: 0 };
            let message = deliver(params);
            let answer = object.dispatch(cx, method, message.view());
            drop(message);
            match answer.await {
                Ok(results) => Ok(deliver(results)),
                Err(error) => Err(CallError::Exception(error.into_exception())),
            }
        }))
    }

    fn id(&self) -> u64 {
        self.badge
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn deliver(message: Message) -> IncomingMessage {
    let caps: Vec<Cap> = message.caps.into_iter().map(|arg| arg.cap).collect();
    IncomingMessage { words: message.words, caps }
}

/// Runs a future that only ever waits for itself; `None` if it waits for something else.
pub fn run<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
