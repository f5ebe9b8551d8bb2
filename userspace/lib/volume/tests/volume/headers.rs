//! Damaged, old and foreign headers.

use std::sync::Arc;

use capos_volume::sim::{Image, Seed, SimDisk};
use capos_volume::{Access, BLOCK, Disk, DiskError, Error, Fault, Geometry, Header, HeaderFault, Locked};
use sha2::{Digest, Sha256};

use crate::common::{KEY, content, format, open, open_as, read_all};

/// Blocks of the volume. The count of wrong keys lies behind them.
const BLOCKS: u64 = 40;
const DISK: u64 = BLOCKS + 2;

/// A disk that refuses to read some blocks.
struct BadSectors(SimDisk, Vec<u64>);

impl Disk for BadSectors {
    fn blocks(&self) -> u64 {
        self.0.blocks()
    }

    fn read(&mut self, block: u64, into: &mut [u8]) -> Result<(), DiskError> {
        if self.1.contains(&block) { Err(DiskError::Failed) } else { self.0.read(block, into) }
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), DiskError> {
        self.1.retain(|bad| *bad != block);
        self.0.write(block, from)
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.0.flush()
    }
}

/// A volume with some syncs: images of the last two, and the epoch of the last.
fn images() -> (Image, Image, u64) {
    let mut volume = format(SimDisk::new(DISK, 1));
    for number in 1..4 {
        volume.write(0, &content(number)).unwrap();
        volume.sync().unwrap();
    }
    let before = open_as(volume.into_disk(), Access::Read, 1).unwrap().into_disk();
    let mut volume = open(before.clone()).unwrap();
    volume.write(0, &content(4)).unwrap();
    volume.sync().unwrap();
    let epoch = volume.head().epoch;
    (before.image().clone(), volume.into_disk().image().clone(), epoch)
}

fn disk(image: &Image) -> SimDisk {
    SimDisk::from_image(DISK, image.clone(), Seed(1))
}

fn error_of(image: &Image) -> Error {
    open(disk(image)).err().unwrap()
}

#[test]
fn one_bad_sector_loses_nothing() {
    let (_, image, epoch) = images();
    for bad in [0, 1, BLOCKS - 2, BLOCKS - 1] {
        let locked = Locked::read(BadSectors(disk(&image), vec![bad])).unwrap();
        assert_eq!(locked.damaged_headers(), [bad]);
        let key = locked.unlock(&KEY, None, 0).unwrap();
        let options = crate::common::options(Access::Write);
        let mut volume = locked.open(key, options, &mut |bytes| Seed(9).fill(bytes)).unwrap();
        assert!(volume.head().epoch > epoch);
        let all = read_all(&mut volume).unwrap();
        assert_eq!(all, [(0, 4)].into());
        // Opening has written the copies again, so that the next bad sector loses nothing either.
        let mut healed = volume.into_disk();
        assert_eq!(healed.1, [] as [u64; 0]);
        let newest = Geometry::header(BLOCKS, epoch, 0);
        healed.1 = vec![newest, 1 - newest];
        assert!(Locked::read(healed).is_ok());
    }
}

/// Damage of both copies of the newest header goes unnoticed, and the one before must not say something else for long.
#[test]
fn a_settled_volume_is_the_same_without_any_two_header_copies() {
    let (_, image, _) = images();
    let state = |image: &Image| read_all(&mut open_as(disk(image), Access::Read, 1).unwrap()).unwrap();
    let places = [0, 1, BLOCKS - 2, BLOCKS - 1];
    let without = |image: &Image, bad: [u64; 2]| {
        let mut image = image.clone();
        for block in bad {
            Arc::make_mut(image.get_mut(&block).unwrap())[70] ^= 1;
        }
        image
    };
    let pairs =
        || places.into_iter().flat_map(|one| places.map(|other| [one, other])).filter(|[one, other]| one < other);
    assert!(
        pairs().any(|bad| state(&without(&image, bad)) != [(0, 4)].into()),
        "a pair matters as long as it is not settled"
    );
    let mut volume = open(disk(&image)).unwrap();
    volume.write(0, &content(5)).unwrap();
    volume.sync().unwrap();
    volume.write(1, &content(6)).unwrap();
    volume.settle().unwrap();
    volume.sync().unwrap();
    volume.settle().unwrap();
    let epoch = volume.head().epoch;
    volume.settle().unwrap();
    assert_eq!(volume.head().epoch, epoch, "once is enough");
    let image = volume.into_disk().image().clone();
    for bad in pairs() {
        assert_eq!(state(&without(&image, bad)), [(0, 5), (1, 6)].into(), "{bad:?}");
    }
    // The third one tells: no copy is left of one of the two, or none at all.
    let mut all = without(&image, [0, 1]);
    all = without(&all, [BLOCKS - 2, BLOCKS - 1]);
    assert_eq!(error_of(&all), Error::DamagedHeader);
}

#[test]
fn errors_of_headers_are_told_apart() {
    let (_, image, _) = images();
    let change_all = |change: &dyn Fn(&mut [u8; BLOCK])| {
        let mut image = image.clone();
        for block in [0, 1, BLOCKS - 2, BLOCKS - 1] {
            change(Arc::make_mut(image.get_mut(&block).unwrap()));
        }
        image
    };
    let checksum = |block: &mut [u8; BLOCK]| {
        let sum = Sha256::digest(&block[..BLOCK - 32]);
        block[BLOCK - 32..].copy_from_slice(&sum);
    };
    assert_eq!(error_of(&Image::new()), Error::NotAVolume);
    assert_eq!(error_of(&change_all(&|block| block[0] = 0)), Error::NotAVolume);
    assert_eq!(Locked::read(SimDisk::new(9, 1)).err(), Some(Error::NotAVolume));
    assert_eq!(error_of(&change_all(&|block| block[40] ^= 1)), Error::DamagedHeader);
    let newer = change_all(&|block| {
        block[8] = 2;
        checksum(block);
    });
    assert_eq!(error_of(&newer), Error::Version { found: 2 });
    let altered = change_all(&|block| {
        block[32] ^= 2;
        checksum(block);
    });
    assert_eq!(error_of(&altered), Error::AlteredHeader);
    let foreign = change_all(&|block| {
        block[12] = 9;
        checksum(block);
    });
    assert_eq!(error_of(&foreign), Error::DamagedHeader);
    assert_eq!(Header::parse(&foreign[&0][..]), Err(HeaderFault::Malformed));
    assert_eq!(Header::parse(&[0; 10]), Err(HeaderFault::NoMark));
    let shorter = SimDisk::from_image(BLOCKS - 10, image.clone(), Seed(1));
    assert_eq!(open(shorter).err(), Some(Error::Shrunk { blocks: BLOCKS - 10, needed: DISK }));
    let longer = SimDisk::from_image(BLOCKS + 10, image.clone(), Seed(1));
    assert_eq!(open(longer).unwrap().header().geometry.physical(), BLOCKS);
    for error in [Error::NotAVolume, Error::DamagedHeader, Error::WrongKey, Error::AlteredHeader] {
        assert!(!error.to_string().is_empty());
    }
}

/// A header with a higher epoch that was not written with the key does not hide the newest one.
#[test]
fn a_forged_header_hides_nothing() {
    let (_, image, epoch) = images();
    let mut forged = image.clone();
    for block in [(epoch + 1) & 1, BLOCKS - 2 + ((epoch + 1) & 1)] {
        let header = Arc::make_mut(forged.get_mut(&block).unwrap());
        header[32..40].copy_from_slice(&(epoch + 100).to_le_bytes());
        let sum = Sha256::digest(&header[..BLOCK - 32]);
        header[BLOCK - 32..].copy_from_slice(&sum);
    }
    let mut volume = open(disk(&forged)).unwrap();
    assert_eq!(volume.head().epoch, epoch + 1);
    assert_eq!(read_all(&mut volume).unwrap(), [(0, 4)].into());
}

/// Without the newest header the volume opens with the one before, unless the next epoch has begun. The head shows it.
#[test]
fn the_header_before_is_no_fallback_once_the_next_epoch_has_begun() {
    let (before, image, epoch) = images();
    // Both copies lost before the next epoch: the sync before, and another head.
    let mut cut = image.clone();
    for block in [epoch & 1, BLOCKS - 2 + (epoch & 1)] {
        cut.remove(&block);
    }
    let mut volume = open_as(disk(&cut), Access::Read, 1).unwrap();
    assert_eq!(read_all(&mut volume).unwrap(), [(0, 3)].into());
    assert_ne!(volume.head(), open_as(disk(&image), Access::Read, 1).unwrap().head());
    // The next epoch has written over a block of the sync before: rejected with its number.
    let mut volume = open(disk(&image)).unwrap();
    volume.write(0, &content(5)).unwrap();
    volume.disk_mut().set_fuse(Some(3));
    assert!(volume.sync().is_err());
    let begun = volume.into_disk().image().clone();
    let mut old = begun;
    for block in [0, 1, BLOCKS - 2, BLOCKS - 1] {
        old.insert(block, before[&block].clone());
    }
    let mut volume = open_as(disk(&old), Access::Read, 1);
    let error = match &mut volume {
        Ok(volume) => read_all(volume).err(),
        Err(error) => Some(*error),
    };
    assert!(matches!(error, Some(Error::Block { fault: Fault::Mismatch, .. })), "{error:?}");
}

/// A whole older image opens, and only its head, compared with one kept elsewhere, shows it.
#[test]
fn an_old_image_shows_in_the_head() {
    let (before, image, _) = images();
    let head = |image| open_as(disk(image), Access::Read, 1).unwrap().head();
    let (old, new) = (head(&before), head(&image));
    assert!(old.epoch < new.epoch && old.digest != new.digest);
    assert_eq!(new, head(&image));
}
