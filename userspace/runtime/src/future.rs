//! Futures made of futures.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;

use crate::cancel::{CancelToken, Cancelled};
use crate::error::Error;

/// Which of two futures ended first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Either<A, B> {
    /// The first.
    First(A),
    /// The second.
    Second(B),
}

/// Waits for the one that ends first; the other is dropped, and so cancelled. If both have ended,
/// the first counts.
pub async fn select<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> Either<A, B> {
    let mut first = pin!(first);
    let mut second = pin!(second);
    poll_fn(|context| {
        if let Poll::Ready(value) = first.as_mut().poll(context) {
            return Poll::Ready(Either::First(value));
        }
        second.as_mut().poll(context).map(Either::Second)
    })
    .await
}

/// Waits for both.
pub async fn join<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> (A, B) {
    let mut first = pin!(first);
    let mut second = pin!(second);
    let (mut left, mut right) = (None, None);
    poll_fn(|context| {
        if left.is_none()
            && let Poll::Ready(value) = first.as_mut().poll(context)
        {
            left = Some(value);
        }
        if right.is_none()
            && let Poll::Ready(value) = second.as_mut().poll(context)
        {
            right = Some(value);
        }
        match (left.take(), right.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (left, right) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

/// A future that has not ended, and the value of one that has.
type Part<F> = (Option<Pin<Box<F>>>, Option<<F as Future>::Output>);

/// Waits for all; the values come in the order of the futures.
pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut open: Vec<Part<F>> = futures.into_iter().map(|future| (Some(Box::pin(future)), None)).collect();
    poll_fn(|context| {
        let mut waiting = false;
        for (future, value) in &mut open {
            let Some(inner) = future else { continue };
            match inner.as_mut().poll(context) {
                Poll::Ready(found) => {
                    *value = Some(found);
                    *future = None;
                }
                Poll::Pending => waiting = true,
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    open.into_iter().filter_map(|(_, value)| value).collect()
}

/// The time was over first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimedOut;

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time limit was over first")
    }
}

impl core::error::Error for TimedOut {}

/// Waits for a future, but no longer than this many nanoseconds; then it is dropped, and so
/// cancelled.
///
/// # Errors
/// The process has no `timer`.
pub async fn timeout<T>(nanoseconds: u64, future: impl Future<Output = T>) -> Result<Result<T, TimedOut>, Error> {
    let clock = crate::clock::clock()?;
    let end = clock.now().saturating_add(nanoseconds);
    Ok(match select(future, clock.sleep_until(end)).await {
        Either::First(value) => Ok(value),
        Either::Second(()) => Err(TimedOut),
    })
}

/// Waits for a future unless the token is cancelled first; then it is dropped, and so cancelled.
///
/// # Errors
/// [`Cancelled`].
pub async fn or_cancelled<T>(token: &CancelToken, future: impl Future<Output = T>) -> Result<T, Cancelled> {
    match select(token.cancelled(), future).await {
        Either::First(()) => Err(Cancelled),
        Either::Second(value) => Ok(value),
    }
}

/// Lets the other tasks run.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if core::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
