//! Capabilities in messages.
//!
//! They are taken from the sender's array when the message is delivered, all or none. A copy derives
//! from its source; a move takes the source's place.

use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_abi::entry::{CapArray, MAX_CAPS};
use capos_abi::{CapId, CapSlot, Rights, Status, TransferMode};

use crate::object::address_space::Unreachable;
use crate::object::capability::Capability;
use crate::object::process::{Process, discard};

/// Why capabilities were not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    Memory(Unreachable),
    Status(Status),
}

/// A capability as its sender offers it: judged, not yet taken.
#[derive(Debug)]
pub struct Offer {
    id: CapId,
    mode: TransferMode,
    /// With the rights that the receiver gets.
    pub capability: Capability,
}

/// Reads and judges what a process sends. `grant` says that it is passed on to somebody else, for
/// which each needs the grant right.
///
/// # Errors
/// The array is not accessible; an identifier is not valid; a right is missing.
pub fn offers(process: &Process, caps: CapArray, grant: bool) -> Result<Vec<Offer>, Refusal> {
    let mut offers: Vec<Offer> = Vec::new();
    if caps.sent == 0 {
        return Ok(offers);
    }
    let mut raw = [0_u8; CapSlot::SIZE * MAX_CAPS as usize];
    let length = CapSlot::SIZE * usize::from(caps.sent);
    let bytes = raw.get_mut(..length).ok_or(Refusal::Status(Status::TooLarge))?;
    process.space.read(caps.address, bytes).map_err(Refusal::Memory)?;
    for slot in bytes.as_chunks().0 {
        let (id, mask, mode) = CapSlot::decode(slot).sent().map_err(Refusal::Status)?;
        let id = CapId(id);
        let mut capability = process.get(id).map_err(Refusal::Status)?;
        let copyable = capability.node.is_some() || mode == TransferMode::Move;
        if grant && !(capability.rights.contains(Rights::GRANT) && copyable) {
            return Err(Refusal::Status(Status::MissingRight));
        }
        let moves = |offer: &Offer| offer.mode == TransferMode::Move || mode == TransferMode::Move;
        if offers.iter().any(|offer| offer.id == id && moves(offer)) {
            return Err(Refusal::Status(Status::InvalidArgument));
        }
        capability.rights = capability.rights.intersection(mask);
        offers.push(Offer { id, mode, capability });
    }
    Ok(offers)
}

/// Gives what is offered to a process; the slots for its array. The caller has made sure that the
/// receiver accepts as many.
///
/// # Errors
/// The receiver cannot pay for the slots; nothing has moved then.
pub fn hand_over(from: &Process, offers: Vec<Offer>, to: &Arc<Process>) -> Result<Vec<CapSlot>, Status> {
    to.can_take(offers.len())?;
    let mut slots = Vec::with_capacity(offers.len());
    for offer in offers {
        let Offer { id, mode, capability } = offer;
        let interface = capability.object.interface();
        // The receiver was asked before: what still goes wrong here is that another thread was
        // faster, and the capability does not arrive.
        let new = match mode {
            TransferMode::Copy => to.insert(capability.object, capability.rights, capability.node),
            TransferMode::Move => {
                from.take(id).and_then(|taken| to.adopt(Capability { rights: capability.rights, ..taken }))
            }
        };
        let id = new.unwrap_or(CapId::NULL);
        slots.push(CapSlot { word0: id.0, word1: if id.is_null() { 0 } else { interface } });
    }
    Ok(slots)
}

/// Removes what was sent to the kernel by move.
pub fn consume(from: &Process, offers: &[Offer]) {
    for offer in offers.iter().filter(|offer| offer.mode == TransferMode::Move) {
        if let Ok(capability) = from.take(offer.id) {
            discard(capability);
        }
    }
}

/// Writes received capabilities into their array.
///
/// # Errors
/// It is not accessible any more.
pub fn write(process: &Process, address: u64, slots: &[CapSlot]) -> Result<(), Unreachable> {
    let mut raw = [0_u8; CapSlot::SIZE * MAX_CAPS as usize];
    for (into, slot) in raw.as_chunks_mut().0.iter_mut().zip(slots) {
        *into = slot.encode();
    }
    let length = CapSlot::SIZE * slots.len();
    process.space.write(address, raw.get(..length).unwrap_or(&[]))
}
