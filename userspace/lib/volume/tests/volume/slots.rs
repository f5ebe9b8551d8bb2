//! Key slots: every kind, and every change of them.

use capos_volume::sim::{Seed, SimDisk};
use capos_volume::{
    Access, CipherKind, Cost, Error, Format, Header, LABEL, Locked, RecoveryCode, SLOTS, Secret, SlotKind, Volume, wipe,
};

use crate::common::{KEY, Model, content, format, open, options, read_all};

const WORD: Secret<'static> = Secret::Passphrase(b"correct horse");
const OTHER: Secret<'static> = Secret::Passphrase(b"correct house");
const MEMORY: u64 = 1 << 20;

fn unlock(disk: SimDisk, secret: &Secret<'_>) -> Result<usize, Error> {
    Locked::read(disk)?.unlock(secret, None, MEMORY).map(|key| key.slot().unwrap())
}

fn random(seed: u64) -> impl FnMut(&mut [u8]) {
    let mut seed = Seed(seed);
    move |bytes| seed.fill(bytes)
}

#[test]
fn every_kind_of_secret_opens_its_slot() {
    let code = RecoveryCode::new(&mut random(4));
    let mut volume = format(SimDisk::new(40, 1));
    volume.write(0, &content(1)).unwrap();
    volume.sync().unwrap();
    let cost = Cost { memory_kib: 64, passes: 2 };
    assert_eq!(volume.add_slot(&WORD, cost, "Ada", &mut random(2)), Ok(1));
    assert_eq!(volume.add_slot(&Secret::Recovery(&code), cost, "", &mut random(3)), Ok(2));
    let kinds: Vec<_> = volume.slots().map(|(number, slot)| (number, slot.kind, slot.label.clone())).collect();
    let expected = [(SlotKind::KeyFile, "test"), (SlotKind::Passphrase, "Ada"), (SlotKind::Recovery, "")];
    assert_eq!(kinds, expected.iter().zip(0..).map(|((k, l), n)| (n, *k, l.to_string())).collect::<Vec<_>>());
    assert_eq!(volume.slots().nth(1).unwrap().1.cost, cost);
    let disk = volume.into_disk();
    let typed = RecoveryCode::parse(&code.text().to_lowercase()).unwrap();
    for (secret, slot) in [(KEY, 0), (WORD, 1), (Secret::Recovery(&typed), 2)] {
        let locked = Locked::read(disk.clone()).unwrap();
        let key = locked.unlock(&secret, None, MEMORY).unwrap();
        assert_eq!(key.slot(), Some(slot));
        let mut volume = locked.open(key, options(Access::Write), &mut random(5)).unwrap();
        assert_eq!(read_all(&mut volume).unwrap(), Model::from([(0, 1)]));
    }
    let wrong = RecoveryCode::new(&mut random(6));
    for secret in [OTHER, Secret::Recovery(&wrong), Secret::KeyFile(&[8; 32]), Secret::Passphrase(&[7; 32])] {
        assert_eq!(unlock(disk.clone(), &secret), Err(Error::WrongKey));
    }
    // A named slot alone is tried.
    let locked = Locked::read(disk).unwrap();
    assert!(locked.unlock(&WORD, Some(1), MEMORY).is_ok());
    assert_eq!(locked.unlock(&WORD, Some(0), MEMORY).err(), Some(Error::WrongKey));
    assert_eq!(locked.header().unwrap().slots().count(), 3);
}

#[test]
fn opening_takes_no_more_memory_than_allowed_and_says_how_much() {
    let mut volume = format(SimDisk::new(40, 1));
    volume.add_slot(&WORD, Cost { memory_kib: 512, passes: 1 }, "", &mut random(2)).unwrap();
    let locked = Locked::read(volume.into_disk()).unwrap();
    let error = locked.unlock(&WORD, None, (512 << 10) - 1).err().unwrap();
    assert_eq!(error, Error::Memory { needed: 512 << 10, limit: (512 << 10) - 1 });
    assert_eq!(
        error.to_string(),
        "this key slot needs 512 KiB of memory to open, and 511 KiB are there: use another slot or more memory"
    );
    assert!(locked.unlock(&WORD, None, 512 << 10).is_ok());
    assert!(locked.unlock(&KEY, None, 0).is_ok());
}

#[test]
fn a_changed_or_removed_secret_no_longer_opens() {
    let mut volume = format(SimDisk::new(40, 1));
    volume.add_slot(&WORD, Cost::LEAST, "Ada", &mut random(2)).unwrap();
    volume.change_slot(1, &OTHER, Cost::LEAST, &mut random(3)).unwrap();
    assert_eq!(volume.slots().nth(1).unwrap().1.label, "Ada");
    let disk = volume.into_disk();
    assert_eq!(unlock(disk.clone(), &WORD), Err(Error::WrongKey));
    assert_eq!(unlock(disk.clone(), &OTHER), Ok(1));
    let mut volume = open(disk).unwrap();
    volume.remove_slot(0).unwrap();
    assert_eq!(volume.remove_slot(0), Err(Error::NoSlot { slot: 0 }));
    assert_eq!(volume.remove_slot(1), Err(Error::LastSlot));
    assert_eq!(volume.remove_slot(99), Err(Error::NoSlot { slot: 99 }));
    assert_eq!(volume.change_slot(5, &WORD, Cost::LEAST, &mut random(1)), Err(Error::NoSlot { slot: 5 }));
    let disk = volume.into_disk();
    assert_eq!(unlock(disk.clone(), &KEY), Err(Error::WrongKey));
    assert_eq!(unlock(disk.clone(), &OTHER), Ok(1));
    // No header copy holds the removed slot any longer.
    for block in [0, 1, 36, 37] {
        assert_eq!(Header::parse(&disk.image()[&block][..]).unwrap().slots().count(), 1, "block {block}");
    }
}

#[test]
fn slots_have_limits() {
    let mut volume = format(SimDisk::new(40, 1));
    for (secret, needed) in [(Secret::Passphrase(b""), 1), (Secret::KeyFile(&[1; 31]), 32)] {
        let error = volume.add_slot(&secret, Cost::LEAST, "", &mut random(1));
        assert_eq!(error, Err(Error::TooShort { needed }));
    }
    let long = "x".repeat(LABEL + 1);
    assert_eq!(volume.add_slot(&WORD, Cost::LEAST, &long, &mut random(1)), Err(Error::LongLabel { most: LABEL }));
    let cost = Cost { memory_kib: 1, passes: 1 };
    assert_eq!(volume.add_slot(&WORD, cost, "", &mut random(1)), Err(Error::Cost));
    for slot in 1..SLOTS {
        assert_eq!(volume.add_slot(&WORD, Cost::LEAST, &long[1..], &mut random(slot as u64)), Ok(slot));
    }
    assert_eq!(volume.add_slot(&WORD, Cost::LEAST, "", &mut random(1)), Err(Error::SlotsFull));
    volume.remove_slot(3).unwrap();
    assert_eq!(volume.add_slot(&WORD, Cost::LEAST, "", &mut random(1)), Ok(3));
}

/// The power goes at any write of a change, and any of its writes may be lost or torn. The old or the new secret opens
/// the slot, not both. After an acknowledged change only the new one does.
#[test]
fn a_change_of_slots_is_atomic() {
    let mut volume = format(SimDisk::new(40, 1));
    volume.add_slot(&WORD, Cost::LEAST, "", &mut random(2)).unwrap();
    let before = volume.into_disk();
    let (mut olds, mut news) = (0, 0);
    for fuse in 0..8 {
        for seed in 0..40 {
            let mut disk = before.clone();
            disk.seed = Seed(seed);
            let mut volume = open(disk).unwrap();
            volume.disk_mut().set_fuse(Some(fuse));
            let changed = volume.change_slot(1, &OTHER, Cost::LEAST, &mut random(3));
            let disk = volume.into_disk().crash();
            let (old, new) = (unlock(disk.clone(), &WORD), unlock(disk.clone(), &OTHER));
            assert!(old.is_ok() != new.is_ok(), "fuse {fuse}, seed {seed}: {old:?} {new:?}");
            assert!(new.is_ok() || changed.is_err());
            assert_eq!(unlock(disk, &KEY), Ok(0));
            olds += u32::from(old.is_ok());
            news += u32::from(new.is_ok());
        }
    }
    assert!(olds > 40 && news > 40, "{olds} {news}");
}

#[test]
fn a_wiped_or_formatted_volume_is_gone() {
    let mut disk = format(SimDisk::new(40, 1)).into_disk();
    let mut other = format(disk.clone());
    other.write(0, &content(1)).unwrap();
    other.sync().unwrap();
    // The new volume knows nothing of the old one's blocks.
    let again = Format { cipher: CipherKind::Aes256Gcm, cost: Cost::LEAST, label: "", cache_nodes: 2 };
    let mut volume = Volume::format(other.into_disk(), again, &WORD, &mut random(8)).unwrap();
    assert_eq!(read_all(&mut volume).unwrap(), Model::new());
    assert_eq!(unlock(volume.into_disk(), &KEY), Err(Error::WrongKey));
    wipe(&mut disk, &mut random(9)).unwrap();
    assert_eq!(unlock(disk, &KEY), Err(Error::NotAVolume));
    let small = Volume::format(SimDisk::new(9, 1), again, &WORD, &mut random(8));
    assert_eq!(small.err(), Some(Error::TooSmall { blocks: 9, needed: 10 }));
}
