//! Writes or reads chunks of a home's file through some of its layers, on a volume in memory, to be counted by callgrind:
//!
//! `cargo build --release -p capos-home-keys --features measure --example chunks`
//! `valgrind --tool=callgrind target/release/examples/chunks write all 40`
//!
//! The difference of two runs is the cost of the chunks that one has more. A chunk is 15 blocks of 4 KiB. Below the home's layer
//! `read` writes the chunks first, so its cost is what it has more than `write`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement may fail")]

use capos_home_keys::HomeKey;
use capos_store::{Durability, OnVolume, Store};
use capos_volume::sim::{Memory, Seed};
use capos_volume::{Access, BLOCK, CipherKind, Cost, Format, Options, Secret, Volume};

const CHUNK: usize = 15 * BLOCK;
const BLOCKS: usize = 32 << 10;
const OPTIONS: Options = Options { access: Access::Write, cache_nodes: 256 };
/// Chunks of one commit, as the C library's writes of 240 KiB make.
const AT_ONCE: u64 = 4;

/// The home's layer alone.
fn home(key: &HomeKey, writes: bool, count: u64) {
    let chunk = vec![3; CHUNK];
    let sealed = key.seal(&[b"files", b"content"], &chunk, &[0; 24]).unwrap();
    for number in 0..count {
        let mut salt = [1; 24];
        salt[..8].copy_from_slice(&number.to_le_bytes());
        if writes {
            key.seal(&[b"files", b"content"], &chunk, &salt).unwrap();
        } else {
            key.open(&[b"files", b"content"], &sealed).unwrap();
        }
    }
}

/// The volume alone.
fn volume(mut volume: Volume<Memory>, writes: bool, count: u64) {
    let mut chunk = vec![3; CHUNK];
    for number in 0..count {
        volume.write(number * 15, &chunk).unwrap();
        if number % AT_ONCE == AT_ONCE - 1 {
            volume.sync().unwrap();
        }
    }
    for number in (0..count).filter(|_| !writes) {
        volume.read(number * 15, &mut chunk).unwrap();
    }
}

/// The store over the volume; with the home's layer if there is a key.
fn store(mut store: Store<OnVolume<Memory>>, key: Option<&HomeKey>, writes: bool, count: u64) {
    let space = store.create_namespace("files", 60 << 20).unwrap();
    let chunk = vec![3; CHUNK];
    for first in (0..count).step_by(AT_ONCE as usize) {
        let mut write = store.begin().unwrap();
        for number in first..first + AT_ONCE {
            let mut salt = [1; 24];
            salt[..8].copy_from_slice(&number.to_le_bytes());
            let sealed = key.map(|key| key.seal(&[b"files", b"content"], &chunk, &salt).unwrap());
            write.put(space, "content", &number.to_be_bytes(), sealed.as_ref().unwrap_or(&chunk)).unwrap();
        }
        write.commit(Durability::Later).unwrap();
    }
    let mut store = Store::open(store.close().unwrap()).unwrap();
    for number in (0..count).filter(|_| !writes) {
        let found = store.read(|snapshot| snapshot.get(space, "content", &number.to_be_bytes())).unwrap().unwrap();
        if let Some(key) = key {
            key.open(&[b"files", b"content"], &found).unwrap();
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [action, layers, count] = arguments.as_slice() else {
        return println!("chunks write|read home|volume|store|all COUNT");
    };
    let (writes, count) = (action == "write", count.parse().unwrap());
    let key = HomeKey::new(CipherKind::Aes256Gcm, &mut |bytes| bytes.fill(7));
    if layers == "home" {
        return home(&key, writes, count);
    }
    let disk = Memory::new(vec![0; BLOCKS * BLOCK]);
    let format = Format { cipher: CipherKind::Aes256Gcm, cost: Cost::LEAST, label: "ada", cache_nodes: 256 };
    let made =
        Volume::format(disk.clone(), format, &Secret::KeyFile(&[7; 32]), &mut |bytes| Seed(1).fill(bytes)).unwrap();
    if layers == "volume" {
        return volume(made, writes, count);
    }
    let blocks = OnVolume::new(made, disk, OPTIONS, Box::new(|bytes| Seed(2).fill(bytes)));
    store(Store::open(blocks).unwrap(), Some(&key).filter(|_| layers == "all"), writes, count);
}
