//! Appends pairs of records to a chain on an encrypted volume in memory, to be counted by callgrind:
//!
//! `cargo build --release -p capos-audit --features measure --example pair`
//! `valgrind --tool=callgrind target/release/examples/pair 200`
//!
//! The difference of two runs is the cost of the pairs that one has more. Callgrind's processor has no instructions for
//! SHA-256, as that of the guest.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a measurement may fail")]

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use capos_audit::{Room, Stored};
use capos_keyspace::local::LocalKeyspace;
use capos_schema::audit::{GeneralEvent, GeneralEventField};
use capos_store::{OnVolume, Store};
use capos_volume::sim::Seed;
use capos_volume::{Access, BLOCK, CipherKind, Cost, Disk, DiskError, Format, Options, Secret, Volume};

const BLOCKS: usize = 16 << 10;
const OPTIONS: Options = Options { access: Access::Write, cache_nodes: 256 };

/// A disk in one piece of memory. All clones are the same disk.
#[derive(Clone)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn with(&self, block: u64, bytes: usize, work: impl FnOnce(&mut [u8])) -> Result<(), DiskError> {
        let at = usize::try_from(block).map_err(|_| DiskError::OutOfRange)? * BLOCK;
        let mut disk = self.0.lock().unwrap();
        disk.get_mut(at..at + bytes).map(work).ok_or(DiskError::OutOfRange)
    }
}

impl Disk for Memory {
    fn blocks(&self) -> u64 {
        BLOCKS as u64
    }

    fn read(&mut self, block: u64, into: &mut [u8]) -> Result<(), DiskError> {
        self.with(block, into.len(), |part| into.copy_from_slice(part))
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), DiskError> {
        self.with(block, from.len(), |part| part.copy_from_slice(from))
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        Ok(())
    }
}

fn done<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a store in the same process answers at once"),
    }
}

fn main() {
    let pairs: u64 = std::env::args().nth(1).map_or(100, |text| text.parse().unwrap());
    let disk = Memory(Arc::new(Mutex::new(vec![0; BLOCKS * BLOCK])));
    let format = Format { cipher: CipherKind::Aes256Gcm, cost: Cost::LEAST, label: "ada", cache_nodes: 256 };
    let volume =
        Volume::format(disk.clone(), format, &Secret::KeyFile(&[7; 32]), &mut |bytes| Seed(1).fill(bytes)).unwrap();
    let blocks = OnVolume::new(volume, disk, OPTIONS, Box::new(|bytes| Seed(2).fill(bytes)));
    let store = Rc::new(RefCell::new(Store::open(blocks).unwrap()));
    let space = LocalKeyspace::new(store, "audit", 8 << 20).unwrap();
    let mut chain = Stored::new(space, Room::Shared(0));
    let event = GeneralEvent {
        kind: "bench".into(),
        fields: vec![
            GeneralEventField { name: "text".into(), value: "x".repeat(1000) },
            GeneralEventField { name: "source".into(), value: "bench".into() },
        ],
        ..GeneralEvent::default()
    };
    for number in 0..2 * pairs {
        done(chain.append_general(number, event.clone())).unwrap();
    }
    println!("{pairs} pairs; head {}", chain.head().unwrap());
}
