//! The methods of InterruptController and Interrupt.

use alloc::sync::Arc;

use capos_abi::Rights;
use capos_schema::kernel_capnp::{interrupt, interrupt_controller as controller};
use capos_schema::kernel_dispatch::{InterruptControllerKernel, InterruptKernel};
use capos_schema::sync::{Completion, Exception, capability};

use crate::arch::interrupts;
use crate::object::Answer;
use crate::object::account::Resource;
use crate::object::capability::Object;
use crate::object::device::interrupt::Interrupt;
use crate::object::invocation::{Invocation, refused};

/// The authority over interrupts.
pub struct Controller;

impl InterruptControllerKernel<Invocation<'_>> for Controller {
    fn line(
        &self,
        cx: &mut Invocation<'_>,
        params: controller::line_params::Reader<'_>,
        mut results: controller::line_results::Builder<'_>,
    ) -> Answer {
        let charge = cx.process().account.hold(Resource::Objects, 1).map_err(refused)?;
        let vector = interrupts::line(params.get_irq())
            .ok_or_else(|| Exception::failed("the interrupt line does not exist or is in use"))?;
        cx.give(Object::Interrupt(Interrupt::new(vector, charge)), Rights::ALL, cx.node);
        results.set_interrupt(capability());
        Ok(Completion::Done)
    }

    fn message(
        &self,
        cx: &mut Invocation<'_>,
        _params: controller::message_params::Reader<'_>,
        mut results: controller::message_results::Builder<'_>,
    ) -> Answer {
        let charge = cx.process().account.hold(Resource::Objects, 1).map_err(refused)?;
        let (vector, address, data) =
            interrupts::message().ok_or_else(|| Exception::overloaded("no interrupt vector is free"))?;
        cx.give(Object::Interrupt(Interrupt::new(vector, charge)), Rights::ALL, cx.node);
        results.set_interrupt(capability());
        results.set_address(address);
        results.set_data(data);
        Ok(Completion::Done)
    }
}

impl InterruptKernel<Invocation<'_>> for Arc<Interrupt> {
    fn bind(
        &self,
        cx: &mut Invocation<'_>,
        params: interrupt::bind_params::Reader<'_>,
        _results: interrupt::bind_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::RECEIVE)?;
        let bound = cx.capability()?;
        let Object::Notification(notification) = &bound.object else {
            return Err(Exception::invalid_argument("an interrupt is bound to a Notification"));
        };
        if !bound.rights.contains(Rights::CALL) {
            return Err(Exception::failed("the notification's capability lacks the right to signal"));
        }
        Interrupt::bind(self, Arc::clone(notification), params.get_bits());
        interrupts::unmask(self.vector());
        Ok(Completion::Done)
    }

    fn acknowledge(
        &self,
        cx: &mut Invocation<'_>,
        _params: interrupt::acknowledge_params::Reader<'_>,
        _results: interrupt::acknowledge_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::RECEIVE)?;
        interrupts::unmask(self.vector());
        Ok(Completion::Done)
    }
}
