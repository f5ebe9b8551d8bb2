//! What a script may make the worker do to itself. Each ends the process; the system must not mind.

use capos_script::Crash;

/// Ends the process with a code.
pub fn exit(code: u32) -> ! {
    capos_rt::exit(code.cast_signed())
}

/// Gets the process killed.
pub fn crash(how: Crash) -> ! {
    match how {
        #[expect(clippy::panic, reason = "the script asks for it")]
        Crash::Panic => panic!("the script asked for a panic"),
        // SAFETY: none is claimed; the instruction faults and the kernel ends the process. Nothing
        // in Rust's memory is touched before it.
        Crash::Null => unsafe { core::arch::asm!("mov byte ptr [{}], 1", in(reg) 0_usize) },
        // SAFETY: as above: the weights are mapped read-only.
        Crash::Weights => unsafe { core::arch::asm!("mov byte ptr [{}], 1", in(reg) crate::weights::address()) },
        // SAFETY: as above: the stack is not executable.
        Crash::Execute => unsafe { core::arch::asm!("jmp rsp") },
        // SAFETY: as above: user code may not touch ports.
        Crash::Port => unsafe { core::arch::asm!("in al, dx", in("dx") 0x60_u16, out("al") _) },
    }
    // The kernel let it pass: say so by a code that nothing else uses.
    capos_rt::exit(86)
}
