//! Reading the battery-backed clock.

use capos_machine::rtc::{self, Registers};

use super::port::{read_byte, write_byte};

/// Seconds since 1970 by the machine's clock, where it holds a date. `century` is the index of its
/// century register, 0 where there is none.
pub fn read(century: u8) -> Option<u64> {
    // Two equal readings outside of an update are one moment's. An update takes 2 ms at most.
    let mut last = None;
    for _ in 0..1000 {
        let mut patience = 1_000_000u32;
        while register(0x0a) & 0x80 != 0 {
            patience = patience.checked_sub(1)?;
        }
        let now = registers(century);
        if last == Some(now) {
            return rtc::unix_seconds(now);
        }
        last = Some(now);
    }
    None
}

fn registers(century: u8) -> Registers {
    Registers {
        second: register(0),
        minute: register(2),
        hour: register(4),
        day: register(7),
        month: register(8),
        year: register(9),
        century: if (0x0e..0x80).contains(&century) { register(century) } else { 0 },
        status_b: register(0x0b),
    }
}

fn register(index: u8) -> u8 {
    write_byte(0x70, index);
    read_byte(0x71)
}
