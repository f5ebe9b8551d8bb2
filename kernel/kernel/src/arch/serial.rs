//! Output on the first two serial ports, by polling.

use core::sync::atomic::{AtomicBool, Ordering};

use super::port::{read_byte, write_byte};

/// A serial port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Port {
    Com1,
    Com2,
}

static PRESENT: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];

/// How long to wait for room before bytes are given up: a port that nothing drains must not stop
/// the system.
const PATIENCE: u32 = 1_000_000;
/// Bytes that fit once the transmitter says that it is empty.
const FIFO: usize = 16;

impl Port {
    /// One of its eight registers.
    fn register(self, number: u16) -> u16 {
        let first: u16 = match self {
            Port::Com1 => 0x3f8,
            Port::Com2 => 0x2f8,
        };
        first | number & 7
    }

    fn present(self) -> &'static AtomicBool {
        let [first, second] = &PRESENT;
        match self {
            Port::Com1 => first,
            Port::Com2 => second,
        }
    }
}

/// Finds the ports and sets them to 115,200 baud, 8 bits, no parity, queues on, interrupts off.
pub fn initialize() {
    for port in [Port::Com1, Port::Com2] {
        // A port that is there keeps what is written to its scratch register.
        let scratch = port.register(7);
        write_byte(scratch, 0x5a);
        let first = read_byte(scratch) == 0x5a;
        write_byte(scratch, 0xa5);
        let second = read_byte(scratch) == 0xa5;
        // As when the machine started: the port's driver keeps there whether an earlier instance of it used the port.
        write_byte(scratch, 0);
        if !(first && second) {
            continue;
        }
        for (register, value) in [(1, 0), (3, 0x80), (0, 1), (1, 0), (3, 3), (2, 0x07), (4, 0x03)] {
            write_byte(port.register(register), value);
        }
        port.present().store(true, Ordering::Relaxed);
    }
}

/// Sends bytes, with a carriage return before each line end. Takes no lock.
pub fn write(port: Port, bytes: &[u8]) {
    if !port.present().load(Ordering::Relaxed) {
        return;
    }
    let (data, line_status) = (port.register(0), port.register(5));
    let mut room: usize = 0;
    let mut put = |byte: u8| {
        if room == 0 {
            let mut patience = 0..PATIENCE;
            while read_byte(line_status) & 0x20 == 0 {
                if patience.next().is_none() {
                    return false;
                }
                core::hint::spin_loop();
            }
            room = FIFO;
        }
        room = room.saturating_sub(1);
        write_byte(data, byte);
        true
    };
    for byte in bytes {
        if *byte == b'\n' && !put(b'\r') || !put(*byte) {
            return;
        }
    }
}
