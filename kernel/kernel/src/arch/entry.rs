//! Entry from user mode: the system call instruction, interrupts and exceptions.
//!
//! All paths take the processor's kernel stack from its top. All but that of INVOKE save the user's registers in the current
//! thread's context and go on in Rust, which never returns. INVOKE keeps what it needs on the stack and in the processor's
//! scratch word, and returns: until then nothing may let interrupts in or enter user mode.

use core::arch::{global_asm, naked_asm};
use core::mem::offset_of;

use capos_abi::syscall::INVOKE;

use super::context::{Context, SLOW_FLAGS};
use super::{cpu, gdt, msr};
use crate::arch::percpu::{CONTEXT_OFFSET, SCRATCH_OFFSET, STACK_OFFSET};

// What the entries call: it lies above this layer, and the linker finds it by name.
unsafe extern "C" {
    fn kernel_system_call() -> !;
    fn kernel_invoke(cap: u64, interface: u64, method: u64);
    fn kernel_from_user(vector: u64, error_code: u64) -> !;
    fn kernel_from_kernel(frame: &Frame) -> !;
    fn kernel_fatal(frame: &Frame) -> !;
}

/// Flags that the system call instruction clears: all but the bit that is always set, that is
/// interrupts, trap, direction, nested task and alignment check among them.
const CLEARED_FLAGS: u64 = 0x3f_7fd5;

/// Sets the system call instruction up on this processor.
pub fn initialize() {
    // For `syscall`: kernel code, then kernel data behind it. For `sysretq`: the base of which
    // user data is the next and user code the second next.
    let star = (u64::from(gdt::KERNEL_DATA) | 3) << 48 | u64::from(gdt::KERNEL_CODE) << 32;
    msr::write(msr::STAR, star);
    msr::write(msr::LSTAR, system_call as *const () as u64);
    msr::write(msr::FMASK, CLEARED_FLAGS);
    msr::write(msr::EFER, msr::read(msr::EFER) | cpu::EFER_SYSTEM_CALL);
}

// INVOKE goes back by `sysretq` to where it came from without a look at the address. The processor takes it in the kernel's name,
// so it has to be one that it accepts: behind the last instruction that user memory can hold.
const _: () = assert!(capos_abi::bootstrap::USER_END < capos_machine::page_entry::USER_END);

/// Where `syscall` goes: `rcx` holds the return address, `r11` the flags, `rsp` is the user's.
#[unsafe(naked)]
unsafe extern "C" fn system_call() -> ! {
    naked_asm!(
        "cmp rax, {invoke_number}",
        "je 3f",
        "2:",
        "swapgs",
        "mov gs:[{scratch}], rsp",
        "mov rsp, gs:[{context}]",
        "mov [rsp + {rax}], rax", "mov [rsp + {rbx}], rbx", "mov [rsp + {rcx}], rcx", "mov [rsp + {rdx}], rdx",
        "mov [rsp + {rsi}], rsi", "mov [rsp + {rdi}], rdi", "mov [rsp + {rbp}], rbp",
        "mov [rsp + {r8}], r8", "mov [rsp + {r9}], r9", "mov [rsp + {r10}], r10", "mov [rsp + {r11}], r11",
        "mov [rsp + {r12}], r12", "mov [rsp + {r13}], r13", "mov [rsp + {r14}], r14", "mov [rsp + {r15}], r15",
        "mov [rsp + {rip}], rcx", "mov [rsp + {rflags}], r11",
        "mov rax, gs:[{scratch}]", "mov [rsp + {rsp}], rax",
        "mov rsp, gs:[{stack}]",
        "xor ebp, ebp",
        "call {handler}",
        "ud2",
        // INVOKE, which returns from here: what it may change is cleared, so that nothing of the kernel's is seen. The stack
        // stays a multiple of 16 for the call.
        "3:",
        "test r11d, {slow}",
        "jnz 2b",
        "swapgs",
        "mov gs:[{scratch}], rsp",
        "mov rsp, gs:[{stack}]",
        "push rcx",
        "push r11",
        "call {invoke}",
        "pop r11",
        "pop rcx",
        "mov rsp, gs:[{scratch}]",
        "xor edi, edi", "xor esi, esi", "xor r8d, r8d", "xor r9d, r9d", "xor r10d, r10d",
        "swapgs",
        "sysretq",
        scratch = const SCRATCH_OFFSET, context = const CONTEXT_OFFSET, stack = const STACK_OFFSET,
        invoke_number = const INVOKE, slow = const SLOW_FLAGS,
        handler = sym kernel_system_call, invoke = sym kernel_invoke,
        rax = const offset_of!(Context, rax), rbx = const offset_of!(Context, rbx),
        rcx = const offset_of!(Context, rcx), rdx = const offset_of!(Context, rdx),
        rsi = const offset_of!(Context, rsi), rdi = const offset_of!(Context, rdi),
        rbp = const offset_of!(Context, rbp), r8 = const offset_of!(Context, r8),
        r9 = const offset_of!(Context, r9), r10 = const offset_of!(Context, r10),
        r11 = const offset_of!(Context, r11), r12 = const offset_of!(Context, r12),
        r13 = const offset_of!(Context, r13), r14 = const offset_of!(Context, r14),
        r15 = const offset_of!(Context, r15), rip = const offset_of!(Context, rip),
        rsp = const offset_of!(Context, rsp), rflags = const offset_of!(Context, rflags),
    )
}

// One stub of 16 bytes per vector. Those for which the processor pushes no error code push a zero.
global_asm!(
    ".balign 16",
    ".global interrupt_stubs",
    "interrupt_stubs:",
    ".set vector, 0",
    ".rept 256",
    ".balign 16",
    ".if (vector != 8) && (vector != 10) && (vector != 11) && (vector != 12) && (vector != 13) && (vector != 14) && (vector != 17) && (vector != 21) && (vector != 29) && (vector != 30)",
    "pushq $0",
    ".endif",
    "pushq $vector",
    ".if (vector == 2) || (vector == 8) || (vector == 18)",
    "jmp {fatal}",
    ".else",
    "jmp {common}",
    ".endif",
    ".set vector, vector + 1",
    ".endr",
    common = sym interrupt_common,
    fatal = sym interrupt_fatal,
    options(att_syntax)
);

unsafe extern "C" {
    static interrupt_stubs: u8;
}

/// Address of the stub for `vector`.
pub fn stub(vector: u8) -> u64 {
    (&raw const interrupt_stubs as u64).wrapping_add(u64::from(vector) << 4)
}

/// What the stub and the processor push.
#[derive(Debug)]
#[repr(C)]
pub struct Frame {
    pub vector: u64,
    pub error_code: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

/// Saves the user's registers, or goes to the kernel's handler with the frame in place.
#[unsafe(naked)]
unsafe extern "C" fn interrupt_common() -> ! {
    naked_asm!(
        "test byte ptr [rsp + {frame_cs}], 3",
        "jz 2f",
        "swapgs",
        "push rax",
        "mov rax, gs:[{context}]",
        "mov [rax + {rbx}], rbx", "mov [rax + {rcx}], rcx", "mov [rax + {rdx}], rdx",
        "mov [rax + {rsi}], rsi", "mov [rax + {rdi}], rdi", "mov [rax + {rbp}], rbp",
        "mov [rax + {r8}], r8", "mov [rax + {r9}], r9", "mov [rax + {r10}], r10", "mov [rax + {r11}], r11",
        "mov [rax + {r12}], r12", "mov [rax + {r13}], r13", "mov [rax + {r14}], r14", "mov [rax + {r15}], r15",
        "pop qword ptr [rax + {rax}]",
        "pop rdi", "pop rsi",
        "pop qword ptr [rax + {rip}]", "add rsp, 8", "pop qword ptr [rax + {rflags}]", "pop qword ptr [rax + {rsp}]",
        "mov rsp, gs:[{stack}]",
        // Clears the user's direction, alignment check (which would suspend SMAP) and nested task.
        "push 2", "popfq",
        "xor ebp, ebp",
        "call {user}",
        "ud2",
        "2:",
        "mov rdi, rsp",
        "cld",
        "and rsp, -16",
        "call {kernel}",
        "ud2",
        frame_cs = const offset_of!(Frame, cs),
        context = const CONTEXT_OFFSET, stack = const STACK_OFFSET,
        user = sym kernel_from_user, kernel = sym kernel_from_kernel,
        rax = const offset_of!(Context, rax), rbx = const offset_of!(Context, rbx),
        rcx = const offset_of!(Context, rcx), rdx = const offset_of!(Context, rdx),
        rsi = const offset_of!(Context, rsi), rdi = const offset_of!(Context, rdi),
        rbp = const offset_of!(Context, rbp), r8 = const offset_of!(Context, r8),
        r9 = const offset_of!(Context, r9), r10 = const offset_of!(Context, r10),
        r11 = const offset_of!(Context, r11), r12 = const offset_of!(Context, r12),
        r13 = const offset_of!(Context, r13), r14 = const offset_of!(Context, r14),
        r15 = const offset_of!(Context, r15), rip = const offset_of!(Context, rip),
        rsp = const offset_of!(Context, rsp), rflags = const offset_of!(Context, rflags),
    )
}

/// NMI, double fault and machine check come on stacks of their own and end the system; they may
/// come between two instructions of an entry, so neither GS nor the context is touched.
#[unsafe(naked)]
unsafe extern "C" fn interrupt_fatal() -> ! {
    naked_asm!(
        "mov rdi, rsp",
        "cld",
        "and rsp, -16",
        "call {handler}",
        "ud2",
        handler = sym kernel_fatal,
    )
}
