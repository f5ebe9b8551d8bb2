//! Traps: what the entry code of `arch` calls, by the names of linker symbols.

use core::fmt;

use crate::arch::context::{can_go_back, go_back};
use crate::arch::entry::Frame;
use crate::arch::percpu::{self, PerCpu};
use crate::arch::processors::{self, Request};
use crate::arch::{apic, exit, interrupts};
use crate::cpu::kernel_lock::{self, Entered};
use crate::cpu::panic;
use crate::events;
use crate::memory::{kernel_space, shootdown};

/// A system call that is not INVOKE; the thread's registers are saved.
#[unsafe(no_mangle)]
extern "C" fn kernel_system_call() -> ! {
    match kernel_lock::enter(percpu::current()) {
        Entered::Shared(lock) => events::on_syscall(lock),
        Entered::Exclusive(lock) => events::on_late_syscall(lock),
    }
}

/// An interrupt or exception while a thread ran; its registers are saved.
#[unsafe(no_mangle)]
extern "C" fn kernel_from_user(vector: u64, error_code: u64) -> ! {
    let vector = vector as u8;
    let cpu = percpu::current();
    match vector {
        14 => {
            let address = fault_address();
            let lock = kernel_lock::acquire(cpu);
            let bit = |n: u32| error_code >> n & 1 == 1;
            if !bit(2) {
                // An access of the processor's own, as part of an instruction: to a descriptor, say.
                // Nothing that could be mapped would let it succeed.
                events::on_exception(lock, vector, error_code, name(vector));
            }
            events::on_page_fault(lock, address, bit(1), bit(4), bit(0))
        }
        0..32 => events::on_exception(kernel_lock::acquire(cpu), vector, error_code, name(vector)),
        _ => external(cpu, vector),
    }
}

/// An interrupt while the processor idled, or an exception in the kernel.
#[unsafe(no_mangle)]
extern "C" fn kernel_from_kernel(frame: &Frame) -> ! {
    if frame.vector < 32 {
        kernel_exception(frame);
    }
    let cpu = percpu::current();
    assert!(cpu.context().is_null(), "interrupt {} came while the kernel ran, at {:#x}", frame.vector, frame.rip);
    external(cpu, frame.vector as u8)
}

/// NMI, double fault, machine check.
#[unsafe(no_mangle)]
extern "C" fn kernel_fatal(frame: &Frame) -> ! {
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

/// The frame of an exception, as text.
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
fn external(cpu: &'static PerCpu, vector: u8) -> ! {
    match vector {
        interrupts::TIMER => {
            apic::end_of_interrupt();
            events::on_timer(kernel_lock::acquire(cpu))
        }
        interrupts::CALL => {
            apic::end_of_interrupt();
            events::on_call(kernel_lock::acquire(cpu))
        }
        interrupts::REQUEST => {
            apic::end_of_interrupt();
            match processors::asked(cpu) {
                asked @ (Request::None | Request::Forget) => {
                    shootdown::answer_to(cpu, asked);
                    resume(cpu)
                }
                Request::Leave => {
                    // It answers while it waits, so it is in the line before the processor that asks continues. So whoever
                    // learns of the end looks after this processor has released what has ended.
                    events::on_call(kernel_lock::acquire(cpu))
                }
            }
        }
        interrupts::FIRST..=interrupts::LAST => {
            let lock = kernel_lock::acquire(cpu);
            interrupts::hold(vector);
            apic::end_of_interrupt();
            events::on_interrupt(lock, vector)
        }
        // Nothing to acknowledge: these come from no device.
        _ => resume(cpu),
    }
}

/// Continues with what was interrupted. The kernel's lock was not taken.
fn resume(cpu: &'static PerCpu) -> ! {
    let context = cpu.context();
    // SAFETY: where there is one, it is that which the interrupt was taken from, still current.
    unsafe {
        if can_go_back(context) {
            go_back(context)
        }
    }
    // It idled, or let interrupts in between two parts of long work, which continues from the event loop.
    events::on_call(kernel_lock::acquire(cpu))
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
