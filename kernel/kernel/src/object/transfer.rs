//! Capabilities in messages.
//!
//! They are taken from the sender's array when the message is delivered, all or none. A copy derives
//! from its source; a move takes the source's place.

use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_abi::entry::{CapArray, MAX_CAPS};
use capos_abi::{CapId, CapSlot, Rights, Status, TransferMode};

use crate::cpu::kernel_lock::Exclusive;
use crate::object::address_space::Unreachable;
use crate::object::capability::{Capability, Object};
use crate::object::operation::Progress;
use crate::object::process::{Process, discard};

/// Why capabilities were not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    Memory(Unreachable),
    Status(Status),
}

impl From<Unreachable> for Refusal {
    fn from(unreachable: Unreachable) -> Self {
        Self::Memory(unreachable)
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

/// An entry that names this memory or these capabilities: it waits for a page, or is answered with the reason.
impl From<Refusal> for Progress {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Memory(Unreachable::Absent(address)) => Self::Absent(address),
            Refusal::Memory(Unreachable::Forbidden) => Status::BadAddress.into(),
            Refusal::Status(status) => status.into(),
        }
    }
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
/// The array is not accessible; an identifier is not valid; a right is missing; no memory.
pub fn offers(process: &Process, caps: CapArray, grant: bool) -> Result<Vec<Offer>, Refusal> {
    let mut offers: Vec<Offer> = Vec::new();
    if caps.sent == 0 {
        return Ok(offers);
    }
    offers.try_reserve_exact(usize::from(caps.sent)).map_err(|_| Refusal::Status(Status::OutOfMemory))?;
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

/// The slots of a message as its receiver gets them.
#[derive(Default, Debug)]
pub struct Slots {
    slots: [CapSlot; MAX_CAPS as usize],
    length: usize,
}

impl Slots {
    /// Appends a slot. A message has no more than there is room for.
    pub fn push(&mut self, slot: CapSlot) {
        if let Some(place) = self.slots.get_mut(self.length) {
            *place = slot;
            self.length = self.length.saturating_add(1);
        }
    }

    /// The slots.
    pub fn as_slice(&self) -> &[CapSlot] {
        self.slots.get(..self.length).unwrap_or_default()
    }
}

/// Gives what is offered to a process, all or nothing; the slots for its array. The caller has made
/// sure that the receiver accepts as many.
///
/// # Errors
/// The receiver cannot pay for the slots, there is no memory, or a source is gone; the sender still
/// has everything then, and the receiver nothing.
pub fn hand_over(lock: &mut Exclusive, from: &Process, offers: &[Offer], to: &Arc<Process>) -> Result<Slots, Status> {
    let mut slots = Slots::default();
    for offer in offers {
        let Capability { object, rights, node } = offer.capability.clone();
        let interface = object.interface();
        let new = match offer.mode {
            TransferMode::Copy => to.insert(object, rights, node),
            TransferMode::Move => to.expect(object, rights),
        };
        match new {
            Ok(id) => slots.push(CapSlot { word0: id.0, word1: interface }),
            Err(status) => {
                take_back(lock, offers, &slots, to);
                return Err(status);
            }
        }
    }
    // Everything has its place now: what moves can leave its old one, which needs nothing.
    for (offer, slot) in offers.iter().zip(slots.as_slice()) {
        if offer.mode == TransferMode::Move {
            match from.take(lock, offer.id) {
                Ok(taken) => {
                    if let Object::Reply(reply) = &taken.object {
                        reply.leaves(lock, from);
                    }
                    to.adopt(CapId(slot.word0), taken.node);
                }
                // Another thread of the sender gave it up meanwhile: it goes from here as well.
                Err(_) => drop(to.take(lock, CapId(slot.word0))),
            }
        }
    }
    Ok(slots)
}

/// Empties the places that a receiver has got already.
fn take_back(lock: &mut Exclusive, offers: &[Offer], slots: &Slots, to: &Process) {
    for (offer, slot) in offers.iter().zip(slots.as_slice()) {
        // Just put there.
        let _ = match offer.mode {
            TransferMode::Copy => to.release(lock, CapId(slot.word0)),
            TransferMode::Move => to.take(lock, CapId(slot.word0)).map(drop),
        };
    }
}

/// Removes what was sent to the kernel by move.
pub fn consume(lock: &mut Exclusive, from: &Process, offers: &[Offer]) {
    for offer in offers.iter().filter(|offer| offer.mode == TransferMode::Move) {
        if let Ok(capability) = from.take(lock, offer.id) {
            discard(lock, capability);
        }
    }
}

/// Writes received capabilities into their array.
///
/// # Errors
/// It is not accessible any more.
pub fn write(lock: &mut Exclusive, process: &Process, address: u64, slots: &[CapSlot]) -> Result<(), Unreachable> {
    let mut raw = [0_u8; CapSlot::SIZE * MAX_CAPS as usize];
    for (into, slot) in raw.as_chunks_mut().0.iter_mut().zip(slots) {
        *into = slot.encode();
    }
    let length = CapSlot::SIZE.saturating_mul(slots.len());
    process.space.write(lock, address, raw.get(..length).unwrap_or(&[]))
}
