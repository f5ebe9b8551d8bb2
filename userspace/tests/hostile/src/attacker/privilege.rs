//! Instructions and processor states that user mode must not have, or must not be able to harm
//! the kernel with.

use alloc::format;
use core::arch::asm;

use capos_rt::Error;

use crate::kit::Kit;

fn survived(what: &str) -> Result<(), Error> {
    Err(Error::new(format!("`{what}` did no harm")))
}

/// Ends the process by one forbidden instruction.
pub fn instruction(name: &str) -> Result<(), Error> {
    // SAFETY: each of these ends the process. If one does not, the attack has succeeded and the
    // process reports that; nothing that it then does is relied on.
    unsafe {
        match name {
            "in-byte" => asm!("in al, dx", in("dx") 0x3f8_u16, out("al") _),
            "in-word" => asm!("in ax, dx", in("dx") 0xcf8_u16, out("ax") _),
            "in-long" => asm!("in eax, dx", in("dx") 0xcfc_u16, out("eax") _),
            "in-fixed" => asm!("in al, 0x60", out("al") _),
            "out-byte" => asm!("out dx, al", in("dx") 0x3f8_u16, in("al") b'!'),
            "out-exit" => asm!("out dx, eax", in("dx") 0xf4_u16, in("eax") 0x10_u32),
            "out-reset" => asm!("out dx, al", in("dx") 0xcf9_u16, in("al") 6_u8),
            "out-string" => {
                asm!("rep outsb", in("dx") 0x3f8_u16, inout("rcx") 4_u64 => _, inout("rsi") 0x40_0000_u64 => _)
            }
            "cli" => asm!("cli"),
            "sti" => asm!("sti"),
            "hlt" => asm!("hlt"),
            "lgdt" => asm!("lgdt [{0}]", in(reg) 0x40_0000_u64),
            "lidt" => asm!("lidt [{0}]", in(reg) 0x40_0000_u64),
            "lldt" => asm!("lldt ax", in("ax") 0_u16),
            "ltr" => asm!("ltr ax", in("ax") 0x28_u16),
            "read-cr0" => asm!("mov {0}, cr0", out(reg) _),
            "read-cr3" => asm!("mov {0}, cr3", out(reg) _),
            "write-cr0" => asm!("mov cr0, {0}", in(reg) 0_u64),
            "write-cr3" => asm!("mov cr3, {0}", in(reg) 0_u64),
            "write-cr4" => asm!("mov cr4, {0}", in(reg) 0_u64),
            "write-dr7" => asm!("mov dr7, {0}", in(reg) 0_u64),
            "rdmsr" => asm!("rdmsr", in("ecx") 0xc000_0080_u32, out("eax") _, out("edx") _),
            "wrmsr" => asm!("wrmsr", in("ecx") 0xc000_0082_u32, in("eax") 0_u32, in("edx") 0_u32),
            "xsetbv" => asm!("xsetbv", in("ecx") 0_u32, in("eax") 1_u32, in("edx") 0_u32),
            "invlpg" => asm!("invlpg [{0}]", in(reg) 0x40_0000_u64),
            "invd" => asm!("invd"),
            "wbinvd" => asm!("wbinvd"),
            "swapgs" => asm!("swapgs"),
            "clts" => asm!("clts"),
            "lmsw" => asm!("lmsw ax", in("ax") 0_u16),
            "sysret" => asm!("sysretq", in("rcx") 0xffff_ffff_8000_0000_u64, in("r11") 2_u64),
            "iret-to-kernel" => asm!(
                "mov rax, rsp",
                "push 0x10", "push rax", "pushfq", "push 0x8", "lea rax, [rip + 2f]", "push rax",
                "iretq", "2:",
                out("rax") _,
            ),
            "far-jump-to-kernel" => asm!(
                "push 0x8", "lea rax, [rip + 2f]", "push rax", "retfq", "2:",
                out("rax") _,
            ),
            "kernel-code-segment" => asm!("mov ss, ax", in("ax") 0x10_u16),
            "bad-segment" => asm!("mov ds, ax", in("ax") 0x1234_u16),
            "invalid" => asm!("ud2"),
            "divide" => asm!("div {0:e}", in(reg) 0_u32, inout("eax") 1_u32 => _, inout("edx") 0_u32 => _),
            "breakpoint" => asm!("int3"),
            "int-0" => asm!("int 0x00"),
            "int-1" => asm!("int 0x01"),
            "int-2" => asm!("int 0x02"),
            "int-4" => asm!("int 0x04"),
            "int-8" => asm!("int 0x08"),
            "int-13" => asm!("int 0x0d"),
            "int-14" => asm!("int 0x0e"),
            "int-18" => asm!("int 0x12"),
            "int-32" => asm!("int 0x20"),
            "int-33" => asm!("int 0x21"),
            "int-48" => asm!("int 0x30"),
            "int-128" => asm!("int 0x80"),
            "int-254" => asm!("int 0xfe"),
            "int-255" => asm!("int 0xff"),
            "non-canonical-read" => asm!("mov al, [{0}]", in(reg) 0x8000_0000_0000_u64, out("al") _),
            "non-canonical-stack" => asm!("mov rsp, {0}", "push rax", in(reg) 0x8000_0000_1000_u64),
            "non-canonical-jump" => asm!("jmp {0}", in(reg) 0x8000_0000_0000_u64),
            "simd-exception" => {
                asm!(
                    "push 0", "ldmxcsr [rsp]", "add rsp, 8",
                    "xorps xmm0, xmm0", "mov eax, 1", "cvtsi2ss xmm1, eax", "divss xmm1, xmm0",
                    out("eax") _, out("xmm0") _, out("xmm1") _,
                );
                // Not all emulators know this exception.
                return Ok(());
            }
            "x87-exception" => {
                asm!("push 0", "fninit", "fldcw [rsp]", "add rsp, 8", "fldz", "fld1", "fdivrp", "fwait",)
            }
            "aligned-load" => asm!("movaps xmm0, [{0}]", in(reg) 0x40_0001_u64, out("xmm0") _),
            "single-step" => asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq", "nop", "nop"),
            // INVOKE, whose way back the processor must not trace in the kernel.
            "traced-invoke" => asm!(
                "pushfq", "or qword ptr [rsp], 0x100", "popfq", "syscall", "nop",
                inout("rax") 2_u64 => _, out("rdi") _, out("rsi") _, out("rdx") _, out("rcx") _, out("r8") _, out("r9") _,
                out("r10") _, out("r11") _,
            ),
            "lock-prefix" => asm!(".byte 0xf0, 0x90"),
            "long-instruction" => asm!(".fill 15, 1, 0x66", "nop"),
            _ => return Err(Error::new(format!("there is no attack by instruction `{name}`"))),
        }
    }
    survived(name)
}

/// Makes a system call whose number does not exist.
pub fn system_call(number: u64) -> Result<(), Error> {
    // SAFETY: the kernel ends the process, or, if it does not, changes rax, rcx and r11 only.
    unsafe {
        asm!("syscall", inout("rax") number => _, in("rdi") 0_u64, in("rsi") 0_u64, in("rdx") 0_u64, lateout("rcx") _, lateout("r11") _);
    }
    Err(Error::new(format!("system call {number:#x} did no harm")))
}

/// Makes an ENTER with every flag set that user mode can set, with other registers and segments as
/// a process should not have them. The kernel must not care, and must give all registers back.
pub fn states(kit: &Kit) -> Result<(), Error> {
    // Direction, alignment check, nested task, identification.
    for flags in [0x400_u64, 0x4_0000, 0x4000, 0x20_0000, 0x4_4400, 0x24_4400] {
        let mut taken: u64 = 0;
        let mut after: u64;
        // SAFETY: an ENTER that submits nothing and does not wait; the flags are restored before
        // Rust code continues.
        unsafe {
            asm!(
                "pushfq", "or qword ptr [rsp], {flags}", "popfq",
                "syscall",
                "pushfq", "pop {after}",
                "pushfq", "and qword ptr [rsp], {clear}", "popfq",
                flags = in(reg) flags,
                clear = in(reg) !0x24_4500_i64,
                after = out(reg) after,
                inout("rax") taken, in("rdi") 0_u64, in("rsi") 0_u64, in("rdx") 0_u64,
                lateout("rcx") _, lateout("r11") _,
            );
        }
        if taken != 0 {
            return Err(Error::new(format!("an ENTER with flags {flags:#x} took {taken} entries")));
        }
        let kept = after & flags & 0x20_0400;
        if kept != flags & 0x20_0400 {
            return Err(Error::new(format!("flags {flags:#x} became {after:#x} in a system call")));
        }
        kit.still_served()?;
    }
    registers()?;
    stack_pointers()?;
    segments()?;
    kit.still_served()
}

/// Every register but rax, rcx and r11 survives a system call.
fn registers() -> Result<(), Error> {
    let mut wrong: u64;
    // SAFETY: an ENTER that does nothing; all registers that change are declared.
    unsafe {
        asm!(
            "push rbx", "push rbp",
            "mov rbx, 0x1001", "mov rbp, 0x1002", "mov r8, 0x1003", "mov r9, 0x1004", "mov r10, 0x1005",
            "mov r12, 0x1006", "mov r13, 0x1007", "mov r14, 0x1008", "mov r15, 0x1009",
            "movq xmm7, rbx", "movq xmm15, r15",
            "xor eax, eax", "xor edi, edi", "xor esi, esi", "xor edx, edx",
            "syscall",
            "xor ecx, ecx",
            "sub rbx, 0x1001", "or rcx, rbx", "sub rbp, 0x1002", "or rcx, rbp", "sub r8, 0x1003", "or rcx, r8",
            "sub r9, 0x1004", "or rcx, r9", "sub r10, 0x1005", "or rcx, r10", "sub r12, 0x1006", "or rcx, r12",
            "sub r13, 0x1007", "or rcx, r13", "sub r14, 0x1008", "or rcx, r14",
            "movq rax, xmm15", "sub rax, r15", "or rcx, rax", "sub r15, 0x1009", "or rcx, r15",
            "movq rax, xmm7", "sub rax, 0x1001", "or rcx, rax", "or rcx, rdi", "or rcx, rsi", "or rcx, rdx",
            "pop rbp", "pop rbx",
            out("rcx") wrong,
            out("rax") _, out("rdi") _, out("rsi") _, out("rdx") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _, out("xmm7") _, out("xmm15") _,
        );
    }
    if wrong == 0 { Ok(()) } else { Err(Error::new("a system call changed a register that it must preserve")) }
}

/// The kernel must not use the process's stack pointer.
fn stack_pointers() -> Result<(), Error> {
    for stack in [
        0_u64,
        8,
        0x40_0000,
        0x7fff_ffff_fff8,
        0x8000_0000_0000,
        0xffff_8000_0010_0000,
        0xffff_ffff_8000_0000,
        u64::MAX - 7,
    ] {
        let taken: u64;
        // SAFETY: an ENTER that does nothing; the stack pointer is saved in r12 and restored before
        // anything uses it.
        unsafe {
            asm!(
                "mov r12, rsp", "mov rsp, {stack}", "syscall", "mov rsp, r12",
                stack = in(reg) stack,
                inout("rax") 0_u64 => taken, in("rdi") 0_u64, in("rsi") 0_u64, in("rdx") 0_u64,
                lateout("rcx") _, lateout("r11") _, out("r12") _,
            );
        }
        if taken != 0 {
            return Err(Error::new(format!("an ENTER with stack pointer {stack:#x} took {taken} entries")));
        }
    }
    Ok(())
}

/// Null segments, and segment bases, do not reach the kernel.
fn segments() -> Result<(), Error> {
    let taken: u64;
    // SAFETY: data segments are not used in 64-bit mode, and this program uses neither fs nor gs.
    unsafe {
        asm!(
            "xor eax, eax", "mov ds, ax", "mov es, ax", "mov fs, ax", "mov gs, ax",
            "syscall",
            inout("rax") 0_u64 => taken, in("rdi") 0_u64, in("rsi") 0_u64, in("rdx") 0_u64,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    if taken == 0 { Ok(()) } else { Err(Error::new("an ENTER with null segments took entries")) }
}

/// Sets its own GS base and enters the kernel: by a system call first, then by a fault. If the
/// processor does not let it, it dies of the first instruction.
pub fn gs_base() -> Result<(), Error> {
    // SAFETY: this program uses no gs; the last instruction ends the process.
    unsafe {
        asm!(
            "mov rax, 0xffffffff80000000",
            "wrgsbase rax",
            "xor eax, eax",
            "xor edi, edi",
            "xor esi, esi",
            "xor edx, edx",
            "syscall",
            "xor eax, eax",
            "wrgsbase rax",
            "ud2",
            options(noreturn)
        )
    }
}

/// Reads registers that user-mode instruction prevention hides, if the processor has it.
pub fn tables() -> Result<(), Error> {
    let mut table = [0_u8; 16];
    // SAFETY: the instruction writes ten bytes, or ends the process.
    unsafe { asm!("sgdt [{0}]", in(reg) table.as_mut_ptr()) };
    let base = table.get(2..10).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes));
    Err(Error::new(format!("the address of the kernel's descriptor table was read: {base:#x}")))
}
