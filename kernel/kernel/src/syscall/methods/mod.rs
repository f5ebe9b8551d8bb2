//! Methods of kernel objects, and the one place where a call finds its object.

mod account;
mod address_space;
mod dma;
mod endpoint;
mod entropy;
mod interrupt;
pub mod machine;
mod memory;
mod mmio;
mod ports;
mod process;
pub(crate) mod table;
mod thread;
mod timer;

use capos_schema::kernel_dispatch as to;
use capos_schema::sync::Exception;

use crate::object::capability::Object;
use crate::object::invocation::Invocation;
use crate::object::{Answer, log};

/// Whether an object has methods that [`number`] knows. What they do is bounded and short, and they lock neither a
/// capability table nor a thread: the caller's table is locked.
#[inline]
pub fn answers_with_numbers(object: &Object) -> bool {
    matches!(object, Object::Notification(_) | Object::Timer)
}

/// Calls a method of an object's interface that has no parameters and answers with one number. `None` where it is none of those, or
/// the object has another interface.
#[inline]
pub fn number<L>(
    object: &Object,
    cx: &mut Invocation<'_, L>,
    (interface, method): (u64, u16),
) -> Option<Result<u64, Exception>> {
    match object {
        Object::Notification(notification) if interface == to::NOTIFICATION => {
            to::number_notification(notification, cx, method)
        }
        Object::Timer if interface == to::TIMER => to::number_timer(&timer::Timer, cx, method),
        _ => None,
    }
}

/// Calls a method of an object.
///
/// # Errors
/// The exception that the caller gets.
pub fn dispatch(
    object: &Object,
    cx: &mut Invocation<'_>,
    method: u16,
    params: capnp::any_pointer::Reader<'_>,
    results: capnp::any_pointer::Builder<'_>,
) -> Answer {
    match object {
        Object::Account(account) => to::dispatch_resource_account(account, cx, method, params, results),
        Object::Process(process) => to::dispatch_process(process, cx, method, params, results),
        Object::Thread(thread) => to::dispatch_thread(thread, cx, method, params, results),
        Object::Space(space) => to::dispatch_address_space(space, cx, method, params, results),
        Object::Memory(memory) => to::dispatch_memory_object(memory, cx, method, params, results),
        Object::Endpoint(endpoint) => to::dispatch_endpoint(endpoint, cx, method, params, results),
        Object::Notification(notification) => to::dispatch_notification(notification, cx, method, params, results),
        Object::Interrupts => to::dispatch_interrupt_controller(&interrupt::Controller, cx, method, params, results),
        Object::Interrupt(interrupt) => to::dispatch_interrupt(interrupt, cx, method, params, results),
        Object::Ports(ports) => to::dispatch_io_ports(ports, cx, method, params, results),
        Object::Mmio(mmio) => to::dispatch_mmio(mmio, cx, method, params, results),
        Object::DmaDomain => to::dispatch_dma_domain(&dma::Domain, cx, method, params, results),
        Object::Dma(region) => to::dispatch_dma_region(region, cx, method, params, results),
        Object::Timer => to::dispatch_timer(&timer::Timer, cx, method, params, results),
        Object::Entropy => to::dispatch_entropy(&entropy::Entropy, cx, method, params, results),
        Object::Log => to::dispatch_debug_log(&log::DebugLog, cx, method, params, results),
        Object::Table(process) => {
            to::dispatch_capability_table(&table::CapabilityTable(process), cx, method, params, results)
        }
        Object::Machine => to::dispatch_machine(&machine::Machine, cx, method, params, results),
        Object::Client(_) | Object::Reply(_) => {
            Err(Exception::unimplemented("this capability has no methods of the kernel"))
        }
    }
}
