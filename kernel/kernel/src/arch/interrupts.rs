//! Vectors: who has them, and what happens when one comes in.

use core::fmt;

use spin::Mutex;

use super::context::{can_go_back, go_back};
use super::entry::Frame;
use super::io_apic::Route;
use super::{apic, exit, io_apic};
use crate::arch::percpu;
use crate::arch::processors::{self, Request};
use crate::cpu::{kernel_lock, panic};
use crate::events;
use crate::memory::{kernel_space, shootdown};

/// The local APIC's timer.
pub const TIMER: u8 = 0xf0;
/// Another processor calls this one to look at its queue.
pub const CALL: u8 = 0xf1;
/// Another processor waits for this one to do something.
pub const REQUEST: u8 = 0xf2;
/// What the local APIC raises when an interrupt went away before it was taken.
pub const SPURIOUS: u8 = 0xff;
/// Where the 8259s are put, though they are masked: they too can raise spurious interrupts.
pub const LEGACY: u8 = 0x20;
/// Vectors for devices.
const FIRST: u8 = 0x40;
const LAST: u8 = 0xef;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Free,
    /// An input of an I/O APIC.
    Line(Route),
    /// Raised by a message that a device writes.
    Message,
}

static USES: Mutex<[Use; 256]> = Mutex::new([Use::Free; 256]);

/// A vector for the ISA interrupt `irq` (0 to 15) or, above that, the I/O APIC input of that
/// number, masked. `None` where there is no such input, it is in use, or no vector is left.
pub fn line(irq: u8) -> Option<u8> {
    let route = io_apic::route(irq)?;
    let mut uses = USES.lock();
    if uses.iter().any(|purpose| matches!(purpose, Use::Line(other) if other.input == route.input)) {
        return None;
    }
    let vector = take(&mut uses, Use::Line(route))?;
    if io_apic::connect(route, vector, apic::first_identifier()) {
        Some(vector)
    } else {
        give(&mut uses, vector);
        None
    }
}

/// A vector for a device that raises it by writing: the vector, and the address and data of the
/// write. `None` where no vector is left.
pub fn message() -> Option<(u8, u64, u32)> {
    let destination = apic::first_identifier();
    // The address holds eight bits of the identifier; a processor beyond needs remapping hardware.
    let destination = u8::try_from(destination).ok()?;
    let vector = take(&mut USES.lock(), Use::Message)?;
    Some((vector, 0xfee0_0000 | u64::from(destination) << 12, u32::from(vector)))
}

/// Stops a line from being raised. Messages are masked at their device.
pub fn mask(vector: u8) {
    if let Use::Line(route) = usage(vector) {
        io_apic::set_mask(route.input, true);
    }
}

/// Stops a line that has come from being raised again at once: a level stays raised until its driver has served the
/// device, and comes again after [`unmask`]. An edge is not masked, since the I/O APIC forgets edges that come
/// while it is: one between the driver's last look at the device and its [`unmask`] would never be told.
pub fn hold(vector: u8) {
    if let Use::Line(route) = usage(vector)
        && route.wiring.level
    {
        io_apic::set_mask(route.input, true);
    }
}

/// Lets a line be raised again.
pub fn unmask(vector: u8) {
    if let Use::Line(route) = usage(vector) {
        io_apic::set_mask(route.input, false);
    }
}

/// Gives a vector back; a line is masked.
pub fn release(vector: u8) {
    mask(vector);
    give(&mut USES.lock(), vector);
}

/// Whether a vector is a line.
pub fn is_line(vector: u8) -> bool {
    matches!(usage(vector), Use::Line(_))
}

fn usage(vector: u8) -> Use {
    USES.lock().get(usize::from(vector)).copied().unwrap_or(Use::Free)
}

fn take(uses: &mut [Use; 256], purpose: Use) -> Option<u8> {
    let vector = (FIRST..=LAST).find(|v| uses.get(usize::from(*v)) == Some(&Use::Free))?;
    *uses.get_mut(usize::from(vector))? = purpose;
    Some(vector)
}

fn give(uses: &mut [Use; 256], vector: u8) {
    if let Some(slot) = uses.get_mut(usize::from(vector)) {
        *slot = Use::Free;
    }
}

/// An interrupt or exception while a thread ran; its registers are saved.
pub extern "C" fn from_user(vector: u64, error_code: u64) -> ! {
    let vector = vector as u8;
    match vector {
        14 => {
            let address = fault_address();
            kernel_lock::take();
            let bit = |n: u32| error_code >> n & 1 == 1;
            if !bit(2) {
                // An access of the processor's own, as part of an instruction: to a descriptor, say.
                // Nothing that could be mapped would let it succeed.
                events::on_exception(vector, error_code, name(vector));
            }
            events::on_page_fault(address, bit(1), bit(4), bit(0))
        }
        0..32 => {
            kernel_lock::take();
            events::on_exception(vector, error_code, name(vector))
        }
        _ => external(vector),
    }
}

/// An interrupt while the processor idled, or an exception in the kernel.
pub extern "C" fn from_kernel(frame: &Frame) -> ! {
    if frame.vector < 32 {
        kernel_exception(frame);
    }
    assert!(
        percpu::current().context().is_null(),
        "interrupt {} came while the kernel ran, at {:#x}",
        frame.vector,
        frame.rip
    );
    external(frame.vector as u8)
}

/// NMI, double fault, machine check.
pub extern "C" fn fatal(frame: &Frame) -> ! {
    if panic::is_over() {
        // Another processor has told the story.
        exit::halt();
    }
    // It may have come between two instructions of an entry, so GS is not to be relied on.
    panic::distrust_processor();
    kernel_exception(frame)
}

#[allow(
    clippy::panic,
    reason = "an exception in the kernel is a defect of the kernel or the machine; there is nothing to go back to"
)]
fn kernel_exception(frame: &Frame) -> ! {
    let address = fault_address();
    if kernel_space::is_stack_guard(address) && matches!(frame.vector, 8 | 14) {
        panic!("the kernel stack overflowed at address {address:#x}, instruction {:#x}", frame.rip);
    }
    panic!("{} in the kernel: {}", name(frame.vector as u8), Words(frame, address));
}

/// The frame of an exception, in words.
struct Words<'a>(&'a Frame, u64);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Words(frame, address) = self;
        write!(
            f,
            "instruction {:#x}, stack {:#x}, flags {:#x}, error code {:#x}, fault address {address:#x}",
            frame.rip, frame.rsp, frame.rflags, frame.error_code
        )
    }
}

/// A device, the timer, another processor, or a spurious interrupt. Levels are masked before the APIC may raise the
/// next interrupt.
fn external(vector: u8) -> ! {
    match vector {
        TIMER => {
            apic::end_of_interrupt();
            kernel_lock::take();
            events::on_timer()
        }
        CALL => {
            apic::end_of_interrupt();
            kernel_lock::take();
            events::on_call()
        }
        REQUEST => {
            apic::end_of_interrupt();
            match processors::asked() {
                Request::None | Request::Forget => {
                    shootdown::answer();
                    resume()
                }
                Request::Leave => {
                    // It answers while it waits. So it is in the line before who asks goes on: who learns of the end looks
                    // later than this one lets go of what has ended.
                    kernel_lock::take();
                    events::on_call()
                }
            }
        }
        FIRST..=LAST => {
            kernel_lock::take();
            hold(vector);
            apic::end_of_interrupt();
            events::on_interrupt(vector)
        }
        // Nothing to acknowledge: these come from no device.
        _ => resume(),
    }
}

/// Goes on with what was interrupted. The kernel's lock was not taken.
fn resume() -> ! {
    let context = percpu::current().context();
    // SAFETY: where there is one, it is that which the interrupt was taken from, still current.
    unsafe {
        if can_go_back(context) {
            go_back(context)
        }
    }
    // It idled, or let interrupts in between two parts of long work, which goes on from the scheduler.
    kernel_lock::take();
    events::on_call()
}

/// The address that the last page fault was about.
fn fault_address() -> u64 {
    let address: u64;
    // SAFETY: reading CR2 has no effect.
    unsafe { core::arch::asm!("mov {}, cr2", out(reg) address, options(nostack, nomem, preserves_flags)) };
    address
}

/// What an exception is called.
pub fn name(vector: u8) -> &'static str {
    match vector {
        0 => "division error",
        1 => "debug exception",
        2 => "non-maskable interrupt",
        3 => "breakpoint",
        4 => "overflow",
        5 => "bound range exceeded",
        6 => "invalid instruction",
        7 => "device not available",
        8 => "double fault",
        10 => "invalid task state",
        11 => "segment not present",
        12 => "stack fault",
        13 => "general protection fault",
        14 => "page fault",
        16 => "x87 floating-point error",
        17 => "alignment check",
        18 => "machine check",
        19 => "vector floating-point error",
        20 => "virtualization exception",
        21 => "control protection exception",
        _ => "reserved exception",
    }
}
