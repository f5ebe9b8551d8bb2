//! Two futures, the first to end wins.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;

/// Which one ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first.
    Left(A),
    /// The second.
    Right(B),
}

/// Runs both until one ends and drops the other; where both could end, the first wins.
pub async fn race<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> Either<A, B> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|cx| {
        if let Poll::Ready(value) = first.as_mut().poll(cx) {
            return Poll::Ready(Either::Left(value));
        }
        second.as_mut().poll(cx).map(Either::Right)
    })
    .await
}
