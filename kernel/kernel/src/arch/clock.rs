//! The battery-backed clock.

use core::sync::atomic::{AtomicU8, Ordering};

use capos_machine::rtc::{self, Registers};

use super::port::{read_byte, write_byte};

/// The index of the century register; 0 where there is none.
static CENTURY: AtomicU8 = AtomicU8::new(0);
/// In status register B: the registers keep what is written until it is cleared.
const SET: u8 = 0x80;

/// Sets the clock to this many seconds since 1970. False if it holds no such date.
pub fn write(seconds: u64) -> bool {
    let status_b = register(0x0b);
    let Some(date) = rtc::registers_of(seconds, status_b) else { return false };
    let century = CENTURY.load(Ordering::Relaxed);
    set_register(0x0b, status_b | SET);
    for (index, value) in
        [(0, date.second), (2, date.minute), (4, date.hour), (7, date.day), (8, date.month), (9, date.year)]
    {
        set_register(index, value);
    }
    if (0x0e..0x80).contains(&century) {
        set_register(century, date.century);
    }
    set_register(0x0b, status_b & !SET);
    true
}

/// Seconds since 1970 by the machine's clock, where it holds a date. `century` is the index of its
/// century register, 0 where there is none.
pub fn read(century: u8) -> Option<u64> {
    CENTURY.store(century, Ordering::Relaxed);
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

fn set_register(index: u8, value: u8) {
    write_byte(0x70, index);
    write_byte(0x71, value);
}

fn register(index: u8) -> u8 {
    write_byte(0x70, index);
    read_byte(0x71)
}
