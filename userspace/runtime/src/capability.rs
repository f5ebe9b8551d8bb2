//! The runtime's handle of a capability.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::Cell;
use core::task::{Context, Poll};

use capos_schema::cap::{AsCap, Begun, CallError, Cap, CapTransport, Client, Message, ReadResult};
use capos_schema::kernel::{CapabilityInfo, CapabilityTableClient};

use crate::{call, runtime};

/// A place in the process's capability table. Dropping the last clone of its [`Cap`] releases it.
#[derive(Clone, Debug)]
pub struct KernelCap {
    place: Rc<Place>,
}

#[derive(Debug)]
struct Place {
    id: u64,
    interface: u64,
    owned: Cell<bool>,
}

impl KernelCap {
    /// Takes over the capability with this identifier.
    pub(crate) fn own(id: u64, interface: u64) -> Cap {
        Cap::new(Self { place: Rc::new(Place { id, interface, owned: Cell::new(true) }) })
    }

    /// A capability that the process was started with. Threads of `std` have handles of it each, so none of them
    /// releases it.
    pub(crate) fn granted(id: u64, interface: u64) -> Cap {
        let owned = Cell::new(cfg!(not(all(capos_guest, feature = "std"))));
        Cap::new(Self { place: Rc::new(Place { id, interface, owned }) })
    }

    /// The interface that it offers.
    #[must_use]
    pub fn interface(&self) -> u64 {
        self.place.interface
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.owned.get() {
            release(self.id);
        }
    }
}

/// The capabilities of a process. What is given, moved or released meanwhile may be missing.
///
/// # Errors
/// A part of the list cannot be had.
pub async fn capabilities(table: &CapabilityTableClient) -> Result<Vec<CapabilityInfo>, CallError> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let part = table.list(from).await?;
        all.extend(part.capabilities);
        // Places only grow, or this would have no end.
        if part.next <= from {
            return Ok(all);
        }
        from = part.next;
    }
}

/// Releases the capability with this identifier.
pub(crate) fn release(id: u64) {
    match runtime::idle_ring() {
        Some(ring) => ring.release(id),
        None => drop(runtime::with(|rt| rt.release(id))),
    }
}

impl CapTransport for KernelCap {
    fn begin(
        &self,
        method: (u64, u16),
        params: Message,
        results: u32,
        context: &mut Context<'_>,
        read: ReadResult<'_>,
    ) -> Begun {
        call::begin(self.place.id, method, params, results, (context, read))
    }

    fn poll_call(&self, number: u64, context: &mut Context<'_>, read: ReadResult<'_>) -> Poll<()> {
        call::poll(number, context, read)
    }

    fn abandon_call(&self, number: u64) {
        call::abandon(number);
    }

    fn invoke(&self, (interface, method): (u64, u16)) -> Option<u64> {
        capos_ring::invoke(self.place.id, interface, method)
    }

    fn forget(&self) {
        self.place.owned.set(false);
    }

    fn id(&self) -> u64 {
        self.place.id
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Takes over a capability that a call on the process's own table made, such as `CapabilityTable.derive`. Dropping it
/// releases the identifier, so each is taken over once.
#[must_use]
pub fn adopt<C: Client>(id: u64) -> C {
    C::from_cap(KernelCap::own(id, C::INTERFACE_ID))
}

/// The interface of a capability, according to the kernel; 0 for one that is not the kernel's.
#[must_use]
pub fn interface_of(cap: &impl AsCap) -> u64 {
    cap.as_cap().transport().as_any().downcast_ref::<KernelCap>().map_or(0, KernelCap::interface)
}

/// A second handle whose calls accept this many bytes of results at least (if the schema says
/// nothing a call accepts 64 KiB; the most is 1 MiB). It keeps the first alive.
#[must_use]
pub fn with_results<C: Client>(client: &C, bytes: u32) -> C {
    C::from_cap(Cap::new(Wide { inner: client.as_cap().clone(), bytes }))
}

/// A capability with another size of results.
struct Wide {
    inner: Cap,
    bytes: u32,
}

impl CapTransport for Wide {
    fn begin(
        &self,
        method: (u64, u16),
        params: Message,
        results: u32,
        context: &mut Context<'_>,
        read: ReadResult<'_>,
    ) -> Begun {
        self.inner.transport().begin(method, params, self.bytes.max(results), context, read)
    }

    fn poll_call(&self, number: u64, context: &mut Context<'_>, read: ReadResult<'_>) -> Poll<()> {
        self.inner.transport().poll_call(number, context, read)
    }

    fn abandon_call(&self, number: u64) {
        self.inner.transport().abandon_call(number);
    }

    fn invoke(&self, method: (u64, u16)) -> Option<u64> {
        self.inner.transport().invoke(method)
    }

    fn forget(&self) {
        self.inner.transport().forget();
    }

    fn id(&self) -> u64 {
        self.inner.id()
    }

    fn as_any(&self) -> &dyn Any {
        self.inner.transport().as_any()
    }
}
