//! Blocks that the disk does not deliver.

use capos_volume::sim::SimDisk;
use capos_volume::{
    Access, BLOCK, Disk, DiskError, Error, Fault, Locked, Operation, Volume, set_wrong_keys, wrong_keys,
};

use crate::common::{content, format, open_as};

const DISK: u64 = 600;

/// A disk with blocks that cannot be read.
#[derive(Clone, Debug)]
struct Bad {
    disk: SimDisk,
    bad: Vec<u64>,
    /// Whether they are delivered after a first failure.
    again: bool,
    error: DiskError,
}

impl Disk for Bad {
    fn blocks(&self) -> u64 {
        self.disk.blocks()
    }

    fn read(&mut self, block: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let blocks = block..block + (into.len() / BLOCK) as u64;
        if self.bad.iter().any(|bad| blocks.contains(bad)) {
            if self.again {
                self.bad.clear();
            }
            return Err(self.error);
        }
        self.disk.read(block, into)
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), DiskError> {
        self.disk.write(block, from)
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.disk.flush()
    }
}

/// A volume with content in all of its blocks, and the disk block of each.
fn filled() -> (Bad, Vec<u64>) {
    let mut volume = format(SimDisk::new(DISK, 1));
    let blocks = volume.len();
    for index in 0..blocks {
        volume.write(index, &content(index + 1)).unwrap();
    }
    volume.sync().unwrap();
    let geometry = volume.header().geometry;
    let disk = volume.into_disk();
    // Each was written once, to one of its two slots.
    let place =
        |index| [0, 1].map(|slot| geometry.block(0, index, slot)).into_iter().find(|at| disk.image().contains_key(at));
    let places = (0..blocks).map(|index| place(index).unwrap()).collect();
    (Bad { disk, bad: Vec::new(), again: false, error: DiskError::Failed }, places)
}

fn open(disk: Bad) -> Volume<Bad> {
    open_as(disk, Access::Read, 3).unwrap()
}

fn read(volume: &mut Volume<Bad>, first: u64, blocks: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; blocks as usize * BLOCK];
    volume.read(first, &mut bytes).map(|()| bytes)
}

#[test]
fn a_block_that_cannot_be_read_is_named_and_costs_no_other() {
    let (disk, places) = filled();
    let at = 40_u64;
    let mut volume = open(Bad { bad: vec![places[at as usize]], ..disk });
    let fault = Error::Block { block: places[at as usize], level: 0, index: at, fault: Fault::Unreadable };
    // By itself, and in a request for many.
    assert_eq!(read(&mut volume, at, 1), Err(fault));
    assert_eq!(read(&mut volume, at - 20, 63), Err(fault));
    assert!(fault.to_string().contains("cannot be read"), "{fault}");
    for index in (0..volume.len()).filter(|index| *index != at) {
        assert_eq!(read(&mut volume, index, 1), Ok(content(index + 1)));
    }
}

#[test]
fn a_disk_that_delivers_nothing_has_failed_and_no_block_is_blamed() {
    let (disk, places) = filled();
    for error in [DiskError::Failed, DiskError::Gone] {
        let mut volume = open(disk.clone());
        // The nodes are in the cache.
        read(&mut volume, 0, 1).unwrap();
        let mut all = volume.into_disk();
        (all.bad, all.error) = ((0..DISK).collect(), error);
        let locked = Locked::read(all);
        assert!(matches!(locked, Err(Error::Disk { operation: Operation::Read, .. })), "{error}");
    }
    // Every copy of the header and one block.
    let header = open(disk.clone()).header().clone();
    let end = header.geometry.physical();
    let mut volume = open(disk.clone());
    read(&mut volume, 0, 1).unwrap();
    volume.disk_mut().bad = vec![0, 1, end - 2, end - 1, places[1]];
    let failed = Error::Disk { operation: Operation::Read, block: places[1], error: DiskError::Failed };
    assert_eq!(read(&mut volume, 1, 1), Err(failed));
}

#[test]
fn a_block_that_is_read_the_second_time_is_no_fault() {
    let (disk, places) = filled();
    let mut volume = open(Bad { bad: vec![places[7]], again: true, ..disk });
    assert_eq!(read(&mut volume, 7, 1), Ok(content(8)));
}

#[test]
fn a_node_that_cannot_be_read_costs_what_is_below_it_and_no_write_goes_past_it() {
    let (disk, _) = filled();
    let geometry = open(disk.clone()).header().geometry;
    let node = |index| [0, 1].map(|slot| geometry.block(1, index, slot));
    let mut volume = open_as(Bad { bad: node(1).to_vec(), ..disk }, Access::Write, 3).unwrap();
    // A node has 128 entries.
    assert_eq!(read(&mut volume, 100, 1), Ok(content(101)));
    let fault = read(&mut volume, 128, 1).unwrap_err();
    assert!(matches!(fault, Error::Block { level: 1, index: 1, fault: Fault::Unreadable, .. }), "{fault:?}");
    volume.write(5, &content(1000)).unwrap();
    volume.sync().unwrap();
    assert_eq!(volume.write(130, &content(1001)), Err(fault));
    assert_eq!(volume.write(6, &content(1002)), Err(Error::Failed));
    let mut volume = open(volume.into_disk());
    assert_eq!((read(&mut volume, 5, 1), read(&mut volume, 6, 1)), (Ok(content(1000)), Ok(content(7))));
}

#[test]
fn one_copy_of_the_count_of_wrong_keys_is_enough() {
    let (mut disk, _) = filled();
    let header = open(disk.clone()).header().clone();
    set_wrong_keys(&mut disk, &header, 3).unwrap();
    let end = header.geometry.physical();
    for bad in [end, end + 1] {
        assert_eq!(wrong_keys(&mut Bad { bad: vec![bad], ..disk.clone() }, &header), Ok(3));
    }
    assert!(wrong_keys(&mut Bad { bad: vec![end, end + 1], ..disk }, &header).is_err());
}
