//! A small volume and the model that it is compared with.

use std::collections::BTreeMap;
use std::ops::Range;

use capos_volume::sim::{Seed, SimDisk};
use capos_volume::{Access, BLOCK, CipherKind, Cost, Disk, Error, Format, Locked, Options, Secret, Volume};

pub const KEY: Secret<'static> = Secret::KeyFile(&[7; 32]);

/// What the volume's blocks hold: a number from which the content follows. Absent blocks are zeros.
pub type Model = BTreeMap<u64, u64>;

pub fn content(number: u64) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    Seed(number).fill(&mut block);
    block[..8].copy_from_slice(&number.to_le_bytes());
    block
}

pub fn format_with<D: Disk>(disk: D, cipher: CipherKind, cache_nodes: usize) -> Volume<D> {
    let format = Format { cipher, cost: Cost::LEAST, label: "test", cache_nodes };
    Volume::format(disk, format, &KEY, &mut |bytes| Seed(1).fill(bytes)).unwrap()
}

pub fn format<D: Disk>(disk: D) -> Volume<D> {
    format_with(disk, CipherKind::Aes256Gcm, 2)
}

pub fn options(access: Access) -> Options {
    Options { access, cache_nodes: 2 }
}

/// Opens a volume; `start` decides where its sequence numbers begin.
pub fn open_as<D: Disk>(disk: D, access: Access, start: u64) -> Result<Volume<D>, Error> {
    let locked = Locked::read(disk)?;
    let key = locked.unlock(&KEY, None, 1 << 20)?;
    locked.open(key, options(access), &mut |bytes| Seed(start).fill(bytes))
}

pub fn open<D: Disk>(disk: D) -> Result<Volume<D>, Error> {
    open_as(disk, Access::Write, 3)
}

/// The blocks that tests write: all of a small volume, and groups across a large one.
pub fn groups(blocks: u64) -> Vec<Range<u64>> {
    if blocks <= 200 {
        return std::iter::once(0..blocks).collect();
    }
    (0..6).map(|group| group * (blocks - 8) / 5).map(|first| first..first + 8).collect()
}

/// What the volume holds in those blocks.
pub fn read_all<D: Disk>(volume: &mut Volume<D>) -> Result<Model, Error> {
    let mut found = Model::new();
    for group in groups(volume.len()) {
        let mut bytes = vec![0; (group.end - group.start) as usize * BLOCK];
        volume.read(group.start, &mut bytes)?;
        for (block, index) in bytes.chunks(BLOCK).zip(group) {
            if block.iter().any(|byte| *byte != 0) {
                // Each content begins with its number.
                let number = u64::from_le_bytes(block[..8].try_into().unwrap());
                assert!(block == content(number), "block {index} is none that was ever written");
                found.insert(index, number);
            }
        }
    }
    Ok(found)
}

/// Writes or discards some blocks, in the volume and in the model.
pub fn change(volume: &mut Volume<SimDisk>, model: &mut Model, seed: &mut Seed) -> Result<(), Error> {
    let groups = groups(volume.len());
    let group = &groups[seed.below(groups.len() as u64) as usize];
    let first = group.start + seed.below(group.end - group.start);
    let count = 1 + seed.below((group.end - first).min(5));
    if seed.once_in(5) {
        for index in first..first + count {
            model.remove(&index);
        }
        return volume.discard(first, count);
    }
    let mut bytes = Vec::new();
    for index in first..first + count {
        let number = seed.number();
        model.insert(index, number);
        bytes.extend(content(number));
    }
    volume.write(first, &bytes)
}

/// How often a test does something: `usual`, or what the environment variable says.
pub fn times(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().map_or(usual, |text| text.replace('_', "").parse().unwrap())
}
