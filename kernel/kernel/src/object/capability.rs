//! What a slot of a capability table holds.

use alloc::sync::Arc;

use capos_abi::Rights;
use capos_captable::NodeId;
use capos_schema::kernel_dispatch as interface;

use crate::arch::time;
use crate::cpu::kernel_lock::Exclusive;
use crate::log;
use crate::memory::reserve;
use crate::object::account::Account;
use crate::object::address_space::AddressSpace;
use crate::object::deadline::{self, Due};
use crate::object::device::dma::DmaRegion;
use crate::object::device::interrupt::Interrupt;
use crate::object::device::mmio::Mmio;
use crate::object::device::ports::IoPorts;
use crate::object::endpoint::{Client, Endpoint};
use crate::object::memory::MemoryObject;
use crate::object::notification::Notification;
use crate::object::process::Process;
use crate::object::reply::Reply;
use crate::object::thread_handle::ThreadHandle;

/// How long a device has to finish with memory that its driver lost, nanoseconds.
const LINGER: u64 = 1_000_000_000;

/// Every kind of thing that a capability can designate.
#[derive(Clone, Debug)]
pub enum Object {
    Account(Arc<Account>),
    Process(Arc<Process>),
    Thread(Arc<ThreadHandle>),
    Space(Arc<AddressSpace>),
    Memory(Arc<MemoryObject>),
    /// The receiving side of an endpoint.
    Endpoint(Arc<Endpoint>),
    /// The calling side of an endpoint.
    Client(Client),
    Reply(Reply),
    Notification(Arc<Notification>),
    Interrupts,
    Interrupt(Arc<Interrupt>),
    Ports(IoPorts),
    Mmio(Mmio),
    DmaDomain,
    Dma(Arc<DmaRegion>),
    Timer,
    Entropy,
    Log,
    Table(Arc<Process>),
    Machine,
}

impl Object {
    /// The interface that it offers; 0 where it offers none.
    pub fn interface(&self) -> u64 {
        match self {
            Self::Account(_) => interface::RESOURCE_ACCOUNT,
            Self::Process(_) => interface::PROCESS,
            Self::Thread(_) => interface::THREAD,
            Self::Space(_) => interface::ADDRESS_SPACE,
            Self::Memory(_) => interface::MEMORY_OBJECT,
            Self::Endpoint(_) => interface::ENDPOINT,
            Self::Client(client) => client.interface,
            Self::Reply(_) => 0,
            Self::Notification(_) => interface::NOTIFICATION,
            Self::Interrupts => interface::INTERRUPT_CONTROLLER,
            Self::Interrupt(_) => interface::INTERRUPT,
            Self::Ports(_) => interface::IO_PORTS,
            Self::Mmio(_) => interface::MMIO,
            Self::DmaDomain => interface::DMA_DOMAIN,
            Self::Dma(_) => interface::DMA_REGION,
            Self::Timer => interface::TIMER,
            Self::Entropy => interface::ENTROPY,
            Self::Log => interface::DEBUG_LOG,
            Self::Table(_) => interface::CAPABILITY_TABLE,
            Self::Machine => interface::MACHINE,
        }
    }

    /// Whether operations other than calls wait at it.
    pub fn is_waited_at(&self) -> bool {
        matches!(self, Self::Endpoint(_) | Self::Notification(_) | Self::Interrupt(_))
    }

    /// Its kind, for people.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Account(_) => "ResourceAccount",
            Self::Process(_) => "Process",
            Self::Thread(_) => "Thread",
            Self::Space(_) => "AddressSpace",
            Self::Memory(_) => "MemoryObject",
            Self::Endpoint(_) => "Endpoint",
            Self::Client(_) => "client of an Endpoint",
            Self::Reply(_) => "Reply",
            Self::Notification(_) => "Notification",
            Self::Interrupts => "InterruptController",
            Self::Interrupt(_) => "Interrupt",
            Self::Ports(_) => "IoPorts",
            Self::Mmio(_) => "Mmio",
            Self::DmaDomain => "DmaDomain",
            Self::Dma(_) => "DmaRegion",
            Self::Timer => "Timer",
            Self::Entropy => "Entropy",
            Self::Log => "DebugLog",
            Self::Table(_) => "CapabilityTable",
            Self::Machine => "Machine",
        }
    }

    /// A slot designates it from now on. Takes no lock.
    pub fn enter_slot(&self) {
        match self {
            Self::Account(account) => account.enter_slot(),
            Self::Endpoint(endpoint) => endpoint.hold(),
            Self::Process(process) => process.hold(),
            _ => {}
        }
    }

    /// Its holder lost it without having said that it is done with it. A device may still work on
    /// memory that a driver pinned: that memory stays a while before it is anybody else's.
    pub fn linger(&self) {
        if let Self::Dma(region) = self
            && !region.is_settled()
        {
            let region = Arc::clone(region);
            if reserve::covers_ends() {
                deadline::add(time::now().saturating_add(LINGER), Due::Free(region));
            } else {
                log!("no memory to note when {} bytes that a device may reach can go: they stay", region.bytes());
                core::mem::forget(region);
            }
        }
    }

    /// A slot that designated it is empty now, for good. No lock may be held.
    pub fn leave_slot(&self, lock: &mut Exclusive) {
        match self {
            Self::Account(account) => account.leave_slot(),
            Self::Endpoint(endpoint) => endpoint.let_go(lock),
            Self::Process(process) => process.let_go(lock),
            Self::Reply(reply) => {
                if let Some(caller) = reply.caller() {
                    caller.refuse(lock, capos_abi::Status::Disconnected);
                }
            }
            _ => {}
        }
    }
}

/// An object, what may be done with it, and where it stands in the derivation forest.
#[derive(Clone, Debug)]
pub struct Capability {
    pub object: Object,
    pub rights: Rights,
    /// None for a reply: it cannot be copied.
    pub node: Option<NodeId>,
}
