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
use std::task::{Context, Poll, Waker};

use capos_audit::{Room, Stored};
use capos_keyspace::local::LocalKeyspace;
use capos_schema::audit::{GeneralEvent, GeneralEventField};
use capos_store::{OnVolume, Store};
use capos_volume::sim::{Memory, Seed};
use capos_volume::{Access, BLOCK, CipherKind, Cost, Format, Options, Secret, Volume};

const BLOCKS: usize = 16 << 10;
const OPTIONS: Options = Options { access: Access::Write, cache_nodes: 256 };

fn done<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a store in the same process answers at once"),
    }
}

fn main() {
    let pairs: u64 = std::env::args().nth(1).map_or(100, |text| text.parse().unwrap());
    let disk = Memory::new(vec![0; BLOCKS * BLOCK]);
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
