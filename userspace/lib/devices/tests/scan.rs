//! The scan finds what a machine has, once, wherever it lies.

#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, clippy::panic)] // Helpers of tests count as tests.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use capos_devices::{BATCH, MAX_FUNCTIONS, Place, Registers, Scan, scan};
use proptest::prelude::*;

/// A function's first sixteen bytes, and a bridge's numbers of buses.
#[derive(Clone, Copy, Debug)]
struct Function {
    identity: u32,
    class: u32,
    header: u8,
    secondary: u8,
}

/// The configuration space of a machine.
#[derive(Default)]
struct Machine {
    functions: BTreeMap<Place, Function>,
    reads: Cell<usize>,
}

impl Registers for Machine {
    type Error = ();

    async fn read_all(&self, places: &[Place], offset: u8) -> Result<Vec<u32>, ()> {
        assert!(places.len() <= BATCH);
        self.reads.set(self.reads.get() + places.len());
        let read = |place: &Place| match (self.functions.get(place), offset) {
            (None, _) => u32::MAX,
            (Some(function), 0) => function.identity,
            (Some(function), 8) => function.class << 8,
            (Some(function), 12) => u32::from(function.header) << 16,
            (Some(function), 0x18) => u32::from(function.secondary) << 8,
            (_, offset) => panic!("register {offset:#x} is read"),
        };
        Ok(places.iter().map(read).collect())
    }
}

impl Machine {
    fn with(mut self, [bus, device, function]: [u8; 3], identity: u32, header: u8, secondary: u8) -> Self {
        let place = Place { bus, device, function };
        let class = if header & 0x7f == 1 { 0x06_0400 } else { 0x01_0000 };
        self.functions.insert(place, Function { identity, class, header, secondary });
        self
    }

    fn scan(&self) -> Scan {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(scan(self)).poll(&mut context) {
            Poll::Ready(found) => found.unwrap(),
            Poll::Pending => panic!("a machine that never waits made the scan wait"),
        }
    }

    fn places(&self) -> Vec<String> {
        self.scan().found.iter().map(|found| found.place.to_string()).collect()
    }
}

const DISK: u32 = 0x1042_1af4;
const BRIDGE: u32 = 0x000c_1b36;

#[test]
fn a_second_root_is_found_with_what_is_behind_it() {
    let machine = Machine::default()
        .with([0, 0, 0], 0x29c0_8086, 0, 0)
        .with([0, 3, 0], 0x000b_1b36, 0, 0)
        .with([128, 0, 0], BRIDGE, 1, 129)
        .with([129, 0, 0], DISK, 0, 0)
        .with([200, 17, 0], DISK, 0, 0)
        .with([255, 31, 0], DISK, 0, 0);
    assert_eq!(machine.places(), ["00:00.0", "00:03.0", "80:00.0", "81:00.0", "c8:11.0", "ff:1f.0"]);
    let disk = machine.scan().found[3];
    assert_eq!((disk.vendor, disk.device, disk.class), (0x1af4, 0x1042, 0x01_0000));
}

#[test]
fn bridges_that_lie_add_nothing() {
    let machine = Machine::default()
        .with([0, 0, 0], BRIDGE, 1, 0)
        .with([0, 1, 0], BRIDGE, 1, 5)
        .with([0, 2, 0], BRIDGE, 1, 5)
        .with([5, 0, 0], BRIDGE, 1, 0)
        .with([5, 1, 0], DISK, 0, 0);
    assert_eq!(machine.places(), ["00:00.0", "00:01.0", "00:02.0", "05:00.0", "05:01.0"]);
}

#[test]
fn other_functions_are_those_of_devices_that_have_several() {
    let machine = Machine::default()
        .with([0, 31, 0], 0x2918_8086, 0x80, 0)
        .with([0, 31, 2], 0x2922_8086, 0, 0)
        .with([0, 31, 7], 0x2930_8086, 0, 0)
        // What a device without the mark answers at other functions is itself.
        .with([1, 0, 0], DISK, 0, 0)
        .with([1, 0, 1], DISK, 0, 0)
        // Without a first function there is no device.
        .with([2, 0, 3], DISK, 0, 0);
    assert_eq!(machine.places(), ["00:1f.0", "00:1f.2", "00:1f.7", "01:00.0"]);
}

#[test]
fn a_machine_that_answers_everywhere_is_bounded() {
    let mut machine = Machine::default();
    for bus in 0..=255 {
        for device in 0..32 {
            for function in 0..8 {
                machine = machine.with([bus, device, function], DISK, 0x80, 0);
            }
        }
    }
    let scan = machine.scan();
    assert_eq!((scan.found.len(), scan.left_out), (MAX_FUNCTIONS, 65536 - MAX_FUNCTIONS));
    assert!(machine.reads.get() <= 65536 + 8192 + MAX_FUNCTIONS);
}

proptest! {
    /// Exactly the functions that are there are listed, once and in order, whatever headers and bridges say.
    #[test]
    fn what_is_there_is_found_once(
        functions in prop::collection::btree_map(
            (any::<u8>(), 0_u8..32, 0_u8..8),
            (0_u32..0xffff, 0_u32..0x100_0000, any::<u8>(), any::<u8>()),
            0..400,
        ),
    ) {
        let machine = Machine {
            functions: functions
                .into_iter()
                .map(|((bus, device, function), (identity, class, header, secondary))| {
                    (Place { bus, device, function }, Function { identity, class, header, secondary })
                })
                .collect(),
            reads: Cell::new(0),
        };
        let is_there = |place: &Place| {
            let first = machine.functions.get(&Place { function: 0, ..*place });
            first.is_some_and(|first| place.function == 0 || first.header & 0x80 != 0)
        };
        let expected: Vec<Place> = machine.functions.keys().copied().filter(is_there).collect();
        let scan = machine.scan();
        prop_assert_eq!(scan.left_out, 0);
        prop_assert_eq!(scan.found.iter().map(|found| found.place).collect::<Vec<_>>(), expected);
        for found in scan.found {
            let function = machine.functions[&found.place];
            let identity = u32::from(found.vendor) | u32::from(found.device) << 16;
            prop_assert_eq!((identity, found.class), (function.identity, function.class));
        }
    }
}
