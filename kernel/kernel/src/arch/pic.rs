//! The 8259 interrupt controllers, which are moved out of the way and masked, and the 8254's tick, which is stopped.

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

/// Ends the tick that the firmware leaves behind: nobody takes its interrupts, but the host of a virtual machine wakes for
/// each of them. Channel 0, both bytes, one shot: it counts once more, and then stands still.
pub fn stop_tick() {
    for (port, value) in [(0x43, 0x30), (0x40, 0), (0x40, 0)] {
        write_byte(port, value);
    }
}
