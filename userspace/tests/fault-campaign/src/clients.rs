//! Clients of a service that is killed while they use it.

use alloc::format;
use alloc::string::String;

use capos_rt::Error;

use crate::uses::Uses;

/// Uses a service until it has answered. How many errors that took: none if the answer came before the kill, or the
/// call waited for the service's next life.
///
/// # Errors
/// The client saw a second error, or one that does not say that the other side was gone, or a wrong answer.
pub async fn client(uses: Uses, service: String, number: usize, client: usize) -> Result<u32, Error> {
    let Err(first) = uses.one(&service, number, client).await else { return Ok(0) };
    if !first.is_disconnected() {
        return Err(Error::new(format!("client {client} of `{service}`, use {number}: {first}")));
    }
    match uses.one(&service, number, client).await {
        Ok(()) => Ok(1),
        Err(second) => Err(Error::new(format!(
            "client {client} of `{service}`, use {number}: {first}; its next request was not answered either: {second}"
        ))),
    }
}
