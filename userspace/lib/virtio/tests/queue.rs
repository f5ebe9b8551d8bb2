//! A queue does what a driver asks of an honest device, and stops at whatever else a device writes.

#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, clippy::indexing_slicing, clippy::panic)] // Helpers of tests count as tests.

use std::cell::RefCell;
use std::rc::Rc;

use capos_virtio::{Answer, Command, Memory, Piece, ProtocolError, QUEUE_BYTES, Queue};
use proptest::prelude::*;

const BASE: u64 = 0x7_0000_0000;

#[derive(Clone)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Shared {
    fn number<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0.borrow()[at..][..N].try_into().unwrap()
    }

    fn word16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.number(at))
    }
}

impl Memory for Shared {
    fn read_word(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.number(usize::try_from(at).unwrap()))
    }

    fn write_word(&self, at: u64, word: u32) {
        self.write(at, &word.to_le_bytes());
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.0.borrow_mut()[usize::try_from(at).unwrap()..][..bytes.len()].copy_from_slice(bytes);
    }
}

/// A device: it looks only at the shared memory.
struct Device {
    shared: Shared,
    parts: [usize; 3],
    length: u16,
    seen: u16,
    used: u16,
}

/// A request as the device finds it.
#[derive(Debug, PartialEq)]
struct Found {
    id: u16,
    command: u32,
    sector: u64,
    pieces: Vec<Piece>,
    room: u32,
    status: usize,
}

impl Device {
    fn with_queue(length: u16) -> (Queue<Shared>, Self) {
        let shared = Shared(Rc::new(RefCell::new(vec![0; usize::try_from(QUEUE_BYTES).unwrap()])));
        let queue = Queue::new(shared.clone(), BASE, length);
        let parts = queue.addresses().map(|address| usize::try_from(address - BASE).unwrap());
        (queue, Self { shared, parts, length, seen: 0, used: 0 })
    }

    fn next(&mut self) -> Option<Found> {
        let [descriptors, available, _] = self.parts;
        if self.shared.word16(available + 2) == self.seen {
            return None;
        }
        let id = self.shared.word16(available + 4 + 2 * usize::from(self.seen % self.length));
        self.seen = self.seen.wrapping_add(1);
        let mut buffers = Vec::new();
        let mut next = Some(id);
        while let Some(descriptor) = next {
            assert!(descriptor < self.length && buffers.len() < self.length.into(), "chains have an end");
            let at = descriptors + 16 * usize::from(descriptor);
            let address = u64::from_le_bytes(self.shared.number(at));
            let bytes = u32::from_le_bytes(self.shared.number(at + 8));
            let flags = self.shared.word16(at + 12);
            buffers.push((address, bytes, flags & 2 != 0));
            next = (flags & 1 != 0).then(|| self.shared.word16(at + 14));
        }
        let (head, status) = (buffers.remove(0), buffers.pop().unwrap());
        assert_eq!((head.1, head.2, status.1, status.2), (16, false, 1, true));
        let at = |address: u64| usize::try_from(address - BASE).unwrap();
        let command = u32::from_le_bytes(self.shared.number(at(head.0)));
        assert!(buffers.iter().all(|(_, _, writes)| *writes == (command == 0)));
        let written = buffers.iter().filter(|(_, _, writes)| *writes).map(|(_, bytes, _)| bytes).sum::<u32>();
        let pieces = buffers.iter().map(|(address, bytes, _)| (*address, u64::from(*bytes))).collect();
        let sector = u64::from_le_bytes(self.shared.number(at(head.0) + 8));
        Some(Found { id, command, sector, pieces, room: written + 1, status: at(status.0) })
    }

    fn entry(&mut self, id: u32, written: u32) {
        let at = (self.parts[2] + 4 + 8 * usize::from(self.used % self.length)) as u64;
        self.shared.write_word(at, id);
        self.shared.write_word(at + 4, written);
        self.index(1);
    }

    fn index(&mut self, more: u16) {
        self.used = self.used.wrapping_add(more);
        self.shared.write(self.parts[2] as u64 + 2, &self.used.to_le_bytes());
    }

    fn answer(&mut self, found: &Found, status: u8) {
        self.shared.write(found.status as u64, &[status]);
        self.entry(found.id.into(), found.room);
    }
}

/// Two requests of two pieces each are in flight.
fn two_in_flight() -> (Queue<Shared>, Device, [Found; 2]) {
    let (mut queue, mut device) = Device::with_queue(16);
    for sector in [3, 9] {
        queue.send(Command::Read, sector, &[(0x1000, 512), (0x9000, 4096)]).unwrap();
    }
    let found = [device.next().unwrap(), device.next().unwrap()];
    assert_eq!(found[1].pieces, [(0x1000, 512), (0x9000, 4096)]);
    (queue, device, found)
}

#[test]
fn every_field_that_a_device_writes_is_checked() {
    type Lie = fn(&mut Device, &[Found; 2]);
    let lies: [(Lie, ProtocolError); 9] = [
        (|device, _| device.entry(1, 1), ProtocolError::Request(1)),
        (|device, _| device.entry(16, 1), ProtocolError::Request(16)),
        // Its lower half names a request in flight.
        (|device, found| device.entry(0x1_0000 | u32::from(found[0].id), 1), ProtocolError::Request(0x1_0003)),
        (|device, _| device.entry(u32::MAX, 1), ProtocolError::Request(u32::MAX)),
        (
            |device, found| {
                device.shared.write(found[0].status as u64, &[0]);
                device.entry(found[0].id.into(), found[0].room + 1);
            },
            ProtocolError::Length { written: 4610, room: 4609 },
        ),
        (|device, found| device.entry(found[0].id.into(), 1), ProtocolError::Status(0xff)),
        (|device, found| device.answer(&found[0], 3), ProtocolError::Status(3)),
        (|device, _| device.index(3), ProtocolError::Entries { new: 3, in_flight: 2 }),
        (|device, _| device.index(u16::MAX), ProtocolError::Entries { new: u16::MAX, in_flight: 2 }),
    ];
    for (lie, error) in lies {
        let (mut queue, mut device, found) = two_in_flight();
        assert_eq!((found[0].id, queue.take()), (3, Ok(None)));
        lie(&mut device, &found);
        assert_eq!(queue.take(), Err(error), "{error}");
        assert_eq!(queue.take(), Err(error), "it does not get better");
    }
}

#[test]
fn a_request_is_answered_once() {
    let (mut queue, mut device, found) = two_in_flight();
    device.answer(&found[1], 0);
    assert_eq!(queue.take(), Ok(Some((1, Answer::Done))));
    device.answer(&found[1], 0);
    assert_eq!(queue.take(), Err(ProtocolError::Request(found[1].id.into())));
    let words = ProtocolError::Request(4).to_string();
    assert_eq!(words, "its used ring names request 4, which is not in flight");
}

#[test]
fn a_host_that_reports_one_byte_for_everything_is_believed() {
    let (mut queue, mut device, found) = two_in_flight();
    device.shared.write(found[0].status as u64, &[0]);
    device.entry(found[0].id.into(), 1);
    assert_eq!(queue.take(), Ok(Some((0, Answer::Done))));
}

proptest! {
    /// With requests of all sizes, answered in any order, each comes back once with its answer, and the device finds what
    /// was sent; room is never lost.
    #[test]
    fn what_is_sent_comes_back_once(
        log in 2_u32..8,
        steps in prop::collection::vec((any::<bool>(), 0_usize..8, 0_u8..3, any::<prop::sample::Index>()), 1..400),
    ) {
        let length = 1_u16 << log;
        let (mut queue, mut device) = Device::with_queue(length);
        let mut open: Vec<(u64, Found)> = Vec::new();
        let mut numbers = 0;
        for (send, pieces, status, which) in steps {
            let command = [Command::Read, Command::Write, Command::Flush][usize::from(status)];
            let pieces: Vec<Piece> = (1..=pieces as u64).map(|piece| (piece << 20, piece * 512)).collect();
            if send {
                let had_room = queue.has_room(pieces.len());
                let sent = queue.send(command, numbers + 7, &pieces);
                prop_assert_eq!(sent, had_room.then_some(numbers));
                if let Some(number) = sent {
                    let found = device.next().unwrap();
                    prop_assert_eq!((found.command, found.sector), (command as u32, number + 7));
                    prop_assert_eq!(&found.pieces, &pieces);
                    open.push((number, found));
                    numbers += 1;
                }
            } else if !open.is_empty() {
                let (number, found) = open.remove(which.index(open.len()));
                device.answer(&found, status);
                let answer = [Answer::Done, Answer::MediumError, Answer::Unsupported][usize::from(status)];
                prop_assert_eq!(queue.take(), Ok(Some((number, answer))));
            }
            prop_assert_eq!(queue.take(), Ok(None));
        }
        for (_, found) in open {
            device.answer(&found, 0);
            prop_assert!(queue.take().unwrap().is_some());
        }
        prop_assert!(queue.has_room(usize::from(length) - 2));
    }

    /// Whatever a device writes to its ring, a request comes back once at most, and never one that was not sent.
    #[test]
    fn nothing_that_a_device_writes_panics(ring in prop::collection::vec(prop_oneof![any::<u32>(), 0_u32..20], 70)) {
        let (mut queue, device, _) = two_in_flight();
        for (word, value) in (0_u64..).zip(ring) {
            device.shared.write_word(device.parts[2] as u64 + 4 * word, value);
        }
        let mut back = Vec::new();
        while let Ok(Some((number, _))) = queue.take() {
            back.push(number);
        }
        back.sort_unstable();
        let once = back.windows(2).all(|pair| pair[0] < pair[1]);
        prop_assert!(once && back.iter().all(|number| *number < 2));
    }
}
