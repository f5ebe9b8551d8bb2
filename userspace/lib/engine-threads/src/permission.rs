//! Permission to use the tiles of AMX, which a system may want to be asked for.

/// Asks the system for the tiles, and informs the engine if they are granted, so that it may choose the kernels `amx`.
/// All threads of the process have them then. On systems that are not known to grant them it does nothing.
pub fn permit_tiles() -> bool {
    let granted = granted();
    #[cfg(target_arch = "x86_64")]
    if granted {
        capos_engine::kernel::permit_tiles();
    }
    granted
}

/// Linux grants a process the tiles if the stacks of its signal handlers have room for them.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[expect(unsafe_code, reason = "a system call")]
fn granted() -> bool {
    /// The system call `arch_prctl`, and its request: that the process may use a part of the processor's state, the
    /// tiles' data.
    const CALL: u64 = 158;
    const REQUEST_PERMISSION: u64 = 0x1023;
    const TILE_DATA: u64 = 18;
    let status: i64;
    // SAFETY: this request reads and writes no memory. A system call changes no registers but these three.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") CALL => status,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    status == 0
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn granted() -> bool {
    false
}
