//! The memory windows of a function are found, and everything is as before afterwards.

#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, clippy::panic, clippy::indexing_slicing)] // Helpers of tests count as tests.

use std::cell::Cell;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use capos_devices::{Place, Registers, Window, WritableRegisters, windows};
use proptest::prelude::*;

const PLACE: Place = Place { bus: 0, device: 3, function: 0 };
/// Decodes ports and memory, masters the bus.
const COMMAND: u32 = 0x0007;

/// The registers of a function. Of each window, the bits that can be written.
struct Function {
    command: Cell<u32>,
    values: [Cell<u32>; 6],
    writable: [u32; 6],
}

impl Function {
    fn new(registers: [(u32, u32); 6]) -> Self {
        let values = registers.map(|(value, _)| Cell::new(value));
        Self { command: Cell::new(COMMAND), values, writable: registers.map(|(_, writable)| writable) }
    }

    fn window(offset: u8) -> usize {
        usize::from((offset - 0x10) / 4)
    }

    fn windows(&self) -> [Window; 6] {
        let before: Vec<u32> = self.values.iter().map(Cell::get).collect();
        let found = match pin!(windows(self, PLACE)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(found) => found.unwrap(),
            Poll::Pending => panic!("a function that never waits made it wait"),
        };
        assert_eq!(self.values.iter().map(Cell::get).collect::<Vec<_>>(), before);
        assert_eq!(self.command.get(), COMMAND);
        found
    }
}

impl Registers for Function {
    type Error = ();

    async fn read_all(&self, places: &[Place], offset: u8) -> Result<Vec<u32>, ()> {
        assert_eq!(places, [PLACE]);
        Ok(vec![match offset {
            4 => self.command.get() | 0x0010_0000,
            offset => self.values[Self::window(offset)].get(),
        }])
    }
}

impl WritableRegisters for Function {
    async fn write(&self, _: Place, offset: u8, value: u32) -> Result<(), ()> {
        if offset == 4 {
            self.command.set(value);
            return Ok(());
        }
        assert_eq!(self.command.get() & 2, 0, "it decodes memory while a window moves");
        let index = Self::window(offset);
        let register = &self.values[index];
        register.set(register.get() & !self.writable[index] | value & self.writable[index]);
        Ok(())
    }
}

/// A window of 32 bits: its register, and the bits that can be written.
fn narrow(address: u32, bytes: u32) -> (u32, u32) {
    (address, !(bytes - 1))
}

/// The two registers of a window of 64 bits.
fn wide(address: u64, bytes: u64) -> [(u32, u32); 2] {
    let mask = !(bytes - 1);
    let [low, high] = [address, mask]
        .map(|value| (value & 0xffff_ffff, value >> 32))
        .map(|(low, high)| [u32::try_from(low).unwrap(), u32::try_from(high).unwrap()]);
    [(low[0] | 0xc, high[0] & !0xf), (low[1], high[1])]
}

#[test]
fn each_kind_of_window_is_told_apart() {
    let [low, high] = wide(0x38_0000_0000, 0x4000);
    let function =
        Function::new([(0xc001, 0xffff_ff80), narrow(0xfebd_0000, 0x1000), (0, 0), (0, 0xffff_f000), low, high]);
    let memory = |address, bytes| Window::Memory { address, bytes };
    let found = function.windows();
    assert_eq!(found[..2], [Window::Ports, memory(0xfebd_0000, 0x1000)]);
    // The fourth one was never placed.
    assert_eq!(found[2..], [Window::Absent, Window::Absent, memory(0x38_0000_0000, 0x4000), Window::Absent]);
}

#[test]
fn a_window_of_64_bits_in_the_last_register_has_no_upper_half() {
    let absent = (0, 0);
    let function = Function::new([absent, absent, absent, absent, absent, (0xfebd_0004, 0xffff_0000)]);
    assert_eq!(function.windows()[5], Window::Memory { address: 0xfebd_0000, bytes: 0x1_0000 });
}

proptest! {
    #[test]
    fn a_window_of_any_size_is_found(power in 4_u32..48, place in 1_u64..200, at in 0_usize..3) {
        let bytes = 1_u64 << power;
        let mut registers = [(0, 0); 6];
        registers[2 * at..2 * at + 2].copy_from_slice(&wide(place << power, bytes));
        let found = Function::new(registers).windows();
        let expected: Vec<Window> = (0..6).map(|index| match index == 2 * at {
            true => Window::Memory { address: place << power, bytes },
            false => Window::Absent,
        }).collect();
        prop_assert_eq!(&found[..], &expected[..]);
    }

    /// Whatever a function answers, it ends as it was.
    #[test]
    fn any_function_keeps_its_registers(registers: [(u32, u32); 6]) {
        Function::new(registers).windows();
    }
}
