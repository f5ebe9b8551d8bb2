//! A thread's registers while it does not run, and the way into user mode.

use core::arch::naked_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};

use capos_machine::page_entry::USER_END;

pub use super::fpu::Fpu;
use super::{gdt, msr};
use crate::arch::percpu::PerCpu;

/// The registers of a thread in user mode. The entry code writes it, [`enter_user`] loads it.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Context {
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rbp: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rip: u64,
    pub rsp: u64,
    pub rflags: u64,
    /// Base of FS: the thread pointer.
    fs_base: u64,
    /// Different for every context that ever was, so that the processor's segment state is known
    /// to belong to this one.
    identity: u64,
}

/// Flags that a thread may have as it likes: carry, parity, adjust, zero, sign, trap, direction,
/// overflow, resume, alignment check, identification.
const USER_FLAGS: u64 = 0x25_0dd5;
/// Interrupts on, and the bit that is always set.
const FIXED_FLAGS: u64 = 0x202;
/// Flags that `sysretq` cannot be trusted with: trap and resume.
pub const SLOW_FLAGS: u64 = 0x1_0100;

static IDENTITIES: AtomicU64 = AtomicU64::new(1);

impl Context {
    /// A thread that starts at `entry` with `arguments` in `rdi`, `rsi`, `rdx`, stack pointer
    /// `stack` and FS base `thread_pointer`. All else is zero.
    pub fn new(entry: u64, stack: u64, arguments: [u64; 3], thread_pointer: u64) -> Self {
        let [rdi, rsi, rdx] = arguments;
        Self {
            rax: 0,
            rbx: 0,
            rcx: 0,
            rdx,
            rsi,
            rdi,
            rbp: 0,
            r8: 0,
            r9: 0,
            r10: 0,
            r11: 0,
            r12: 0,
            r13: 0,
            r14: 0,
            r15: 0,
            rip: entry,
            rsp: stack,
            rflags: FIXED_FLAGS,
            fs_base: thread_pointer,
            identity: IDENTITIES.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The base of FS.
    pub fn thread_pointer(&self) -> u64 {
        self.fs_base
    }

    /// Changes the base of FS. A processor that holds the old one loads the new one: it belongs to
    /// another identity.
    pub fn set_thread_pointer(&mut self, address: u64) {
        self.fs_base = address;
        self.identity = IDENTITIES.fetch_add(1, Ordering::Relaxed);
    }
}

/// Lets the thread of `context` run on this processor, which is `cpu`, and calls `release` with the guard `lock` right before. The
/// address space must be active and the thread's vector registers loaded.
///
/// Returns the guard, and has not called `release`, if the processor would not accept the instruction pointer or the thread pointer.
///
/// # Safety
/// `context` must stay valid and untouched by others until the processor next enters the kernel
/// from user mode, which saves the registers there, except INVOKE, which leaves it unchanged. No lock may be held.
#[inline(always)]
pub unsafe fn enter_user<L>(cpu: &PerCpu, context: *mut Context, lock: L, release: impl FnOnce(L)) -> L {
    cpu.set_context(context);
    // SAFETY: the caller gives a valid context that nothing else uses now.
    let registers = unsafe { &mut *context };
    if registers.rip >= USER_END || registers.fs_base >= USER_END {
        return lock;
    }
    registers.rflags = (registers.rflags & USER_FLAGS) | FIXED_FLAGS;
    if cpu.swap_loaded(registers.identity) != registers.identity {
        load_segments(registers.fs_base);
    }
    // `sysretq` takes rip from rcx and the flags from r11, so it serves where the thread lost
    // these two in a system call.
    let fast =
        registers.rcx == registers.rip && registers.r11 == registers.rflags && registers.rflags & SLOW_FLAGS == 0;
    release(lock);
    // SAFETY: the context is valid, its instruction pointer canonical, its flags harmless; GS is
    // the kernel's and both paths swap it as their last step but one.
    unsafe { if fast { return_fast(context) } else { return_slow(context) } }
}

/// Whether [`go_back`] may be used: a thread was interrupted, at an address that the processor accepts.
///
/// # Safety
/// `context` must be null or the one that the entry code saved.
pub unsafe fn can_go_back(context: *const Context) -> bool {
    // SAFETY: the caller's promise.
    unsafe { context.as_ref() }.is_some_and(|registers| registers.rip < USER_END)
}

/// Goes back to a thread that an interrupt was taken from, where the kernel had nothing to do for it. The kernel's
/// lock is not held.
///
/// # Safety
/// `context` must be that of the thread which was interrupted, as the entry code saved it.
pub unsafe fn go_back(context: *mut Context) -> ! {
    // SAFETY: it holds what the processor had in user mode a moment ago.
    unsafe { return_slow(context) }
}

/// Continues with `then` on the empty stack of this processor, which is `cpu`, so that what can follow on itself takes no more of it
/// each time.
pub fn begin_anew(cpu: &'static PerCpu, then: extern "C" fn(&'static PerCpu) -> !) -> ! {
    // SAFETY: nothing on the stack is needed any more. `call` leaves the stack aligned as a function expects it.
    unsafe {
        core::arch::asm!(
            "mov rsp, {top}", "xor ebp, ebp", "call {then}", "ud2",
            top = in(reg) cpu.stack_top(), then = in(reg) then, in("rdi") core::ptr::from_ref(cpu), options(noreturn)
        );
    }
}

/// Gives the data segment registers the state that a new thread finds, and FS its base.
fn load_segments(fs_base: u64) {
    // SAFETY: null selectors are always loadable. Loading GS may change the active base, which is
    // the user's between the two swaps; interrupts are off.
    unsafe {
        core::arch::asm!(
            "mov ds, {0:e}", "mov es, {0:e}", "mov fs, {0:e}",
            "swapgs", "mov gs, {0:e}", "swapgs",
            in(reg) 0, options(nostack, preserves_flags)
        );
    }
    msr::write(msr::FS_BASE, fs_base);
}

/// Loads all registers and returns with `sysretq`; `rdi` holds the context.
#[unsafe(naked)]
unsafe extern "C" fn return_fast(context: *mut Context) -> ! {
    naked_asm!(
        "mov rax, [rdi + {rax}]", "mov rbx, [rdi + {rbx}]", "mov rdx, [rdi + {rdx}]",
        "mov rsi, [rdi + {rsi}]", "mov rbp, [rdi + {rbp}]",
        "mov r8, [rdi + {r8}]", "mov r9, [rdi + {r9}]", "mov r10, [rdi + {r10}]",
        "mov r12, [rdi + {r12}]", "mov r13, [rdi + {r13}]", "mov r14, [rdi + {r14}]", "mov r15, [rdi + {r15}]",
        "mov rcx, [rdi + {rip}]", "mov r11, [rdi + {rflags}]",
        "mov rsp, [rdi + {rsp}]", "mov rdi, [rdi + {rdi}]",
        "swapgs",
        "sysretq",
        rax = const offset_of!(Context, rax), rbx = const offset_of!(Context, rbx),
        rdx = const offset_of!(Context, rdx), rsi = const offset_of!(Context, rsi),
        rdi = const offset_of!(Context, rdi), rbp = const offset_of!(Context, rbp),
        r8 = const offset_of!(Context, r8), r9 = const offset_of!(Context, r9),
        r10 = const offset_of!(Context, r10), r12 = const offset_of!(Context, r12),
        r13 = const offset_of!(Context, r13), r14 = const offset_of!(Context, r14),
        r15 = const offset_of!(Context, r15), rip = const offset_of!(Context, rip),
        rsp = const offset_of!(Context, rsp), rflags = const offset_of!(Context, rflags),
    )
}

/// Loads all registers and returns with `iretq`; `rdi` holds the context.
#[unsafe(naked)]
unsafe extern "C" fn return_slow(context: *mut Context) -> ! {
    naked_asm!(
        "push {user_data}", "push qword ptr [rdi + {rsp}]", "push qword ptr [rdi + {rflags}]",
        "push {user_code}", "push qword ptr [rdi + {rip}]",
        "mov rax, [rdi + {rax}]", "mov rbx, [rdi + {rbx}]", "mov rcx, [rdi + {rcx}]", "mov rdx, [rdi + {rdx}]",
        "mov rsi, [rdi + {rsi}]", "mov rbp, [rdi + {rbp}]",
        "mov r8, [rdi + {r8}]", "mov r9, [rdi + {r9}]", "mov r10, [rdi + {r10}]", "mov r11, [rdi + {r11}]",
        "mov r12, [rdi + {r12}]", "mov r13, [rdi + {r13}]", "mov r14, [rdi + {r14}]", "mov r15, [rdi + {r15}]",
        "mov rdi, [rdi + {rdi}]",
        "swapgs",
        "iretq",
        user_data = const gdt::USER_DATA, user_code = const gdt::USER_CODE,
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

/// Calls `release`, then lets in pending interrupts of this processor, which is `cpu`. Each of them starts an event of its own. If there
/// is none, continues with `then`. No thread may be current and no user memory mapped.
pub fn open(cpu: &'static PerCpu, release: impl FnOnce(), then: extern "C" fn(&'static PerCpu) -> !) -> ! {
    cpu.set_context(core::ptr::null_mut());
    release();
    // SAFETY: nothing on the stack is needed any more, so it can be begun again; an interrupt after the
    // instruction behind `sti` pushes its frame there and its handler never returns. `call` leaves the
    // stack aligned as a function expects it.
    unsafe {
        core::arch::asm!(
            "mov rsp, {top}", "xor ebp, ebp", "sti", "nop", "nop", "cli", "call {then}", "ud2",
            top = in(reg) cpu.stack_top(), then = in(reg) then, in("rdi") core::ptr::from_ref(cpu), options(noreturn)
        );
    }
}

/// Calls `release`, then waits for an interrupt of this processor, which is `cpu`. It starts an event and never returns here. No thread
/// may be current and no user memory mapped.
pub fn idle(cpu: &'static PerCpu, release: impl FnOnce()) -> ! {
    cpu.set_context(core::ptr::null_mut());
    release();
    // SAFETY: nothing on the stack is needed any more, so it can be begun again; an interrupt in
    // the loop pushes its frame there and its handler never returns.
    unsafe {
        core::arch::asm!("mov rsp, {}", "xor ebp, ebp", "2:", "sti", "hlt", "cli", "jmp 2b", in(reg) cpu.stack_top(), options(noreturn));
    }
}
