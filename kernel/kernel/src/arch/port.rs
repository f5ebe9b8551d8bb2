//! I/O ports.

/// How many bytes an access moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    One,
    Two,
    Four,
}

/// Reads a port; a narrow value is zero-extended.
pub fn input(port: u16, width: Width) -> u32 {
    let value: u32;
    // SAFETY: port accesses touch no memory of Rust's. What a device does with one is in the
    // responsibility of the caller that holds the authority over the port.
    unsafe {
        match width {
            Width::One => {
                core::arch::asm!("in al, dx", "movzx eax, al", in("dx") port, out("eax") value, options(nostack, nomem))
            }
            Width::Two => {
                core::arch::asm!("in ax, dx", "movzx eax, ax", in("dx") port, out("eax") value, options(nostack, nomem, preserves_flags))
            }
            Width::Four => {
                core::arch::asm!("in eax, dx", in("dx") port, out("eax") value, options(nostack, nomem, preserves_flags))
            }
        }
    }
    value
}

/// Writes a port; the upper bytes of a narrow value are ignored.
pub fn output(port: u16, width: Width, value: u32) {
    // SAFETY: as in `input`.
    unsafe {
        match width {
            Width::One => {
                core::arch::asm!("out dx, al", in("dx") port, in("eax") value, options(nostack, preserves_flags))
            }
            Width::Two => {
                core::arch::asm!("out dx, ax", in("dx") port, in("eax") value, options(nostack, preserves_flags))
            }
            Width::Four => {
                core::arch::asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack, preserves_flags))
            }
        }
    }
}

/// Reads one byte.
pub fn read_byte(port: u16) -> u8 {
    input(port, Width::One) as u8
}

/// Writes one byte.
pub fn write_byte(port: u16, value: u8) {
    output(port, Width::One, u32::from(value));
}
