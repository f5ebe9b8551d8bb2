//! What is particular to x86-64, what each processor has for itself, and the list of processors.

pub mod apic;
pub mod calibration;
pub mod clock;
pub mod context;
pub mod cpu;
pub mod entry;
pub mod exit;
pub mod fpu;
pub mod gdt;
pub mod idt;
pub mod interrupts;
pub mod io_apic;
pub mod msr;
pub mod percpu;
pub mod pic;
pub mod port;
pub mod processors;
pub mod serial;
pub mod time;
