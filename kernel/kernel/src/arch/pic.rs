//! The 8259 interrupt controllers, which are moved out of the way and masked.

use super::interrupts::LEGACY;
use super::port::write_byte;

/// Maps both behind the exceptions and masks all of their inputs.
pub fn disable() {
    // Start of initialisation, vector offsets, the cascade's wiring, 8086 mode, then the masks.
    let steps = [
        (0x20, 0x11),
        (0xa0, 0x11),
        (0x21, LEGACY),
        (0xa1, LEGACY + 8),
        (0x21, 4),
        (0xa1, 2),
        (0x21, 1),
        (0xa1, 1),
        (0x21, 0xff),
        (0xa1, 0xff),
    ];
    for (port, value) in steps {
        write_byte(port, value);
        // Old controllers need a moment between two writes; port 0x80 takes one.
        write_byte(0x80, 0);
    }
}
