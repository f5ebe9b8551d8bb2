//! The methods of IoPorts.

use core::sync::atomic::{AtomicBool, Ordering};

use capos_abi::Rights;
use capos_schema::kernel_capnp::io_ports as m;
use capos_schema::kernel_dispatch::IoPortsKernel;
use capos_schema::sync::{Completion, Exception, capability};

use crate::arch::port::{self, Width};
use crate::cpu::log;
use crate::object::Answer;
use crate::object::capability::Object;
use crate::object::device::ports::IoPorts;
use crate::object::invocation::Invocation;

/// The data register of the first serial port, where the kernel logs until a process takes it.
const COM1: u16 = 0x3f8;

/// Registers that one call reads at most: the kernel does nothing else meanwhile.
const MOST_INDICES: u32 = 256;

static COM1_CLAIMED: AtomicBool = AtomicBool::new(false);

impl IoPorts {
    fn check(self, port: u16, width: u32) -> Result<(), Exception> {
        let (start, end) = (u32::from(self.first), u32::from(self.first).saturating_add(self.count));
        let port = u32::from(port);
        if port >= start && port.saturating_add(width) <= end {
            Ok(())
        } else {
            Err(Exception::invalid_argument("the port is outside the capability's range"))
        }
    }

    fn width(bytes: u8) -> Result<Width, Exception> {
        match bytes {
            1 => Ok(Width::One),
            2 => Ok(Width::Two),
            4 => Ok(Width::Four),
            _ => Err(Exception::invalid_argument("ports are 1, 2 or 4 bytes wide")),
        }
    }
}

/// The kernel leaves the terminal to whoever writes to it first.
fn claim(port: u16) {
    if port == COM1 && !COM1_CLAIMED.swap(true, Ordering::Relaxed) {
        log::claim_com1();
    }
}

impl IoPortsKernel<Invocation<'_>> for IoPorts {
    fn info(
        &self,
        _cx: &mut Invocation<'_>,
        _params: m::info_params::Reader<'_>,
        mut results: m::info_results::Builder<'_>,
    ) -> Answer {
        results.set_first(self.first);
        results.set_count(self.count);
        Ok(Completion::Done)
    }

    fn narrow(
        &self,
        cx: &mut Invocation<'_>,
        params: m::narrow_params::Reader<'_>,
        mut results: m::narrow_results::Builder<'_>,
    ) -> Answer {
        let (first, count) = (params.get_first(), params.get_count());
        if count == 0 || count > 0x1_0000 {
            return Err(Exception::invalid_argument("a range has 1 to 65536 ports"));
        }
        self.check(first, count)?;
        cx.give(Object::Ports(Self { first, count }), cx.rights, cx.node);
        results.set_ports(capability());
        Ok(Completion::Done)
    }

    fn read(
        &self,
        cx: &mut Invocation<'_>,
        params: m::read_params::Reader<'_>,
        mut results: m::read_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::READ)?;
        let width = Self::width(params.get_width())?;
        self.check(params.get_port(), params.get_width().into())?;
        results.set_value(port::input(params.get_port(), width));
        Ok(Completion::Done)
    }

    fn write(
        &self,
        cx: &mut Invocation<'_>,
        params: m::write_params::Reader<'_>,
        _results: m::write_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::WRITE)?;
        let width = Self::width(params.get_width())?;
        self.check(params.get_port(), params.get_width().into())?;
        claim(params.get_port());
        port::output(params.get_port(), width, params.get_value());
        Ok(Completion::Done)
    }

    fn write_bytes(
        &self,
        cx: &mut Invocation<'_>,
        params: m::write_bytes_params::Reader<'_>,
        _results: m::write_bytes_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::WRITE)?;
        self.check(params.get_port(), 1)?;
        claim(params.get_port());
        for byte in params.get_data()? {
            port::output(params.get_port(), Width::One, u32::from(*byte));
        }
        Ok(Completion::Done)
    }

    fn drain(
        &self,
        cx: &mut Invocation<'_>,
        params: m::drain_params::Reader<'_>,
        mut results: m::drain_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::READ)?;
        self.check(params.get_status_port(), 1)?;
        self.check(params.get_data_port(), 1)?;
        let mut data = alloc::vec::Vec::new();
        let most = usize::from(params.get_max()).min(4096);
        cx.expect(most)?;
        while data.len() < most && port::input(params.get_status_port(), Width::One) & u32::from(params.get_mask()) != 0
        {
            data.push(port::input(params.get_data_port(), Width::One).to_le_bytes()[0]);
        }
        results.set_data(&data);
        Ok(Completion::Done)
    }

    fn read_indexed(
        &self,
        cx: &mut Invocation<'_>,
        params: m::read_indexed_params::Reader<'_>,
        results: m::read_indexed_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::READ.union(Rights::WRITE))?;
        let (index_port, data_port) = (params.get_index_port(), params.get_data_port());
        self.check(index_port, 4)?;
        self.check(data_port, 4)?;
        let indices = params.get_indices()?;
        if indices.len() > MOST_INDICES {
            return Err(Exception::invalid_argument("at most 256 registers are read at once"));
        }
        cx.expect((indices.len() as usize).saturating_mul(4))?;
        claim(index_port);
        let mut values = results.init_values(indices.len());
        for (place, index) in (0..).zip(indices) {
            port::output(index_port, Width::Four, index);
            values.set(place, port::input(data_port, Width::Four));
        }
        Ok(Completion::Done)
    }
}
