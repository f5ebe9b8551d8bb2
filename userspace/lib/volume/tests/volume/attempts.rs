//! The count of wrong keys behind the volume.

use capos_volume::sim::{Seed, SimDisk};
use capos_volume::{Access, Disk, Error, Locked, set_wrong_keys, wrong_keys};

use crate::common::{content, format, options, read_all};

const DISK: u64 = 42;

#[test]
fn a_power_cut_leaves_one_of_two_counts_and_never_a_lower_one() {
    let volume = format(SimDisk::new(DISK, 1));
    let header = volume.header().clone();
    let mut disk = volume.into_disk();
    assert_eq!(wrong_keys(&mut disk, &header), Ok(0));
    set_wrong_keys(&mut disk, &header, 4).unwrap();
    for (next, least) in [(5, 4), (0, 0)] {
        for (seed, fuse) in (0..200).zip([0, 1, 2, 3].into_iter().cycle()) {
            let mut disk = disk.clone();
            disk.seed = Seed(seed);
            disk.set_fuse(Some(fuse));
            assert!(set_wrong_keys(&mut disk, &header, next).is_err());
            let found = wrong_keys(&mut disk.crash(), &header).unwrap();
            assert!(found >= least && found <= 5, "seed {seed}, fuse {fuse}: {found}");
        }
    }
    set_wrong_keys(&mut disk, &header, 0).unwrap();
    assert_eq!(wrong_keys(&mut disk, &header), Ok(0));
}

#[test]
fn the_count_is_the_volumes_own_and_its_blocks_hold_nothing_else() {
    let mut volume = format(SimDisk::new(DISK, 1));
    let header = volume.header().clone();
    for index in 0..volume.len() {
        volume.write(index, &content(index + 1)).unwrap();
    }
    volume.sync().unwrap();
    let mut disk = volume.into_disk();
    set_wrong_keys(&mut disk, &header, 3).unwrap();
    let locked = Locked::read(disk.clone()).unwrap();
    let key = locked.unlock(&crate::common::KEY, None, 0).unwrap();
    let mut volume = locked.open(key, options(Access::Write), &mut |bytes| Seed(9).fill(bytes)).unwrap();
    assert_eq!(read_all(&mut volume).unwrap().len() as u64, volume.len());
    // Another volume on the same disk begins with none.
    let mut again = capos_volume::Volume::format(
        disk,
        capos_volume::Format {
            cipher: capos_volume::CipherKind::Aes256Gcm,
            cost: capos_volume::Cost::LEAST,
            label: "",
            cache_nodes: 2,
        },
        &crate::common::KEY,
        &mut |bytes| Seed(77).fill(bytes),
    )
    .unwrap();
    let header = again.header().clone();
    assert_eq!(wrong_keys(again.disk_mut(), &header), Ok(0));
    // A cut disk is said to be one, instead of a count that cannot be kept.
    let cut = SimDisk::from_image(DISK - 1, again.into_disk().image().clone(), Seed(1));
    assert_eq!(Locked::read(cut).err(), Some(Error::Shrunk { blocks: DISK - 1, needed: DISK }));
}

#[test]
fn a_kept_key_opens_and_another_does_not() {
    let mut volume = format(SimDisk::new(DISK, 1));
    volume.write(0, &content(5)).unwrap();
    volume.sync().unwrap();
    let key = volume.key();
    assert!(!volume.is_read_only());
    let locked = Locked::read(volume.into_disk()).unwrap();
    assert_eq!(locked.resume(&[9; 32]).err(), Some(Error::AlteredHeader));
    let key = locked.resume(&key).unwrap();
    assert_eq!(key.slot(), None);
    let mut volume = locked.open(key, options(Access::Read), &mut |bytes| Seed(9).fill(bytes)).unwrap();
    assert!(volume.is_read_only());
    assert_eq!(read_all(&mut volume).unwrap(), [(0, 5)].into());
    assert!(volume.opens(0, &crate::common::KEY, 0).unwrap().is_some());
    assert!(volume.opens(0, &capos_volume::Secret::KeyFile(&[8; 32]), 0).unwrap().is_none());
    assert_eq!(volume.opens(1, &crate::common::KEY, 0).err(), Some(Error::NoSlot { slot: 1 }));
    assert_eq!(volume.disk_mut().blocks(), DISK);
}
