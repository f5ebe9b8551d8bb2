//! Notifications and interrupts: bits that one side sets and the other waits for.

use capos_abi::Status;
use capos_abi::entry::Operation;
use capos_ring::message::transport;
use capos_schema::cap::AsCap;

use crate::operation::Pending;

/// Waits until a notification or interrupt has bits set; takes and clears them.
///
/// # Errors
/// The capability is gone, is neither, or lacks the right to receive.
pub async fn wait(notification: &impl AsCap) -> Result<u64, Status> {
    let cap = notification.as_cap().clone();
    let (completion, _) = Pending::start(Operation::Wait { cap: cap.id() }).await;
    transport(&completion)?;
    Ok(completion.value)
}

/// Sets bits of a notification.
///
/// # Errors
/// The capability is gone, is not a notification, or lacks the right to signal.
pub async fn notify(notification: &impl AsCap, bits: u64) -> Result<(), Status> {
    let cap = notification.as_cap().clone();
    let operation = Operation::Notify { notification: cap.id(), bits };
    let (completion, _) = Pending::start(operation).await;
    transport(&completion)
}
