//! Copies of key slots, keys for a purpose, and the words of errors.

use capos_volume::sim::{Seed, SimDisk};
use capos_volume::{CipherKind, Cost, Error, HeaderFault, RecoveryCode, Secret, SlotCopy};

use crate::common::*;

const MEMORY: u64 = 1 << 20;

#[test]
fn a_copy_of_the_slots_opens_what_the_volume_opens() {
    let random = |seed: u64| move |bytes: &mut [u8]| Seed(seed).fill(bytes);
    let mut volume = format(SimDisk::new(64, 1));
    let ada = Secret::Passphrase(b"correct horse");
    let code = RecoveryCode::new(&mut random(9));
    volume.add_slot(&ada, Cost::LEAST, "ada", &mut random(2)).unwrap();
    volume.add_slot(&Secret::Recovery(&code), Cost::LEAST, "", &mut random(3)).unwrap();
    let copy = volume.slot_copy();
    let read = SlotCopy::decode(&copy.encode()).unwrap();
    assert!(read == copy && read.slots().count() == 3 && read.uuid() == &volume.header().uuid);
    // Each secret gives the key that the open volume gives, and another for each purpose.
    let (backup, other) = (volume.derive(b"backup"), volume.derive(b"other"));
    assert!(*backup != *other && *backup != *volume.key() && *backup != [0; 32]);
    for secret in [&KEY, &ada, &Secret::Recovery(&code)] {
        assert_eq!(*read.derive(secret, MEMORY, b"backup").unwrap().0, *backup);
        assert_eq!(*read.derive(secret, MEMORY, b"other").unwrap().0, *other);
    }
    assert!(matches!(read.derive(&Secret::Passphrase(b"wrong"), MEMORY, b"backup"), Err(Error::WrongKey)));
    // Of one person alone.
    let of_ada = read.clone().of_label("ada");
    assert_eq!(of_ada.slots().map(|(_, slot)| slot.label.as_str()).collect::<Vec<_>>(), ["ada"]);
    assert!(of_ada.derive(&ada, MEMORY, b"backup").is_ok() && of_ada.derive(&KEY, MEMORY, b"backup").is_err());
}

#[test]
fn a_volume_opens_with_the_key_that_it_had() {
    let mut volume = format(SimDisk::new(64, 1));
    volume.write(5, &content(5)).unwrap();
    volume.sync().unwrap();
    let key = volume.key();
    let locked = capos_volume::Locked::read(volume.into_disk()).unwrap();
    let unlocked = locked.unlock(&KEY, None, MEMORY).unwrap();
    assert_eq!(*unlocked.bytes(), *key);
    let resumed = locked.resume(&key).unwrap();
    let mut volume =
        locked.open(resumed, options(capos_volume::Access::Read), &mut |bytes| Seed(4).fill(bytes)).unwrap();
    let mut found = vec![0; capos_volume::BLOCK];
    volume.read(5, &mut found).unwrap();
    assert_eq!(found, content(5));
}

#[test]
fn what_is_wrong_with_a_recovery_code_is_told() {
    let code = RecoveryCode::new(&mut |bytes| Seed(1).fill(bytes)).text();
    let says = |code: &str| RecoveryCode::parse(code).err().map(|error| error.to_string());
    assert_eq!(says(&code), None);
    let short = says(&code[..code.len() - 1]).unwrap();
    assert!(short.contains("40 letters, and this one has 39"), "{short}");
    let letter = says(&code.replacen(|letter: char| letter.is_ascii_alphanumeric(), "!", 1)).unwrap();
    assert!(letter.contains('!'), "{letter}");
    let (one, rest) = code.split_at(5);
    let (two, rest) = rest[1..].split_at(5);
    let group = says(&format!("{two}-{one}{rest}")).unwrap();
    assert!(group.contains('1'), "{group}");
}

#[test]
fn ciphers_and_faults_have_names_of_their_own() {
    let names = CipherKind::ALL.map(CipherKind::name);
    assert_eq!(names, ["AES-256-GCM", "ChaCha20-Poly1305"]);
    let faults = [HeaderFault::NoMark, HeaderFault::Damaged, HeaderFault::Version { found: 7 }, HeaderFault::Malformed];
    let told = faults.map(|fault| fault.to_string());
    for (one, word) in told.iter().zip(["no volume header", "damaged", "format 7", "no known value"]) {
        assert!(one.contains(word), "{one}");
    }
}

/// A disk that is lent is the same disk.
#[test]
fn a_lent_disk_is_written_and_flushed() {
    let mut disk = SimDisk::new(64, 1);
    let mut volume = format(&mut disk);
    volume.write(1, &content(1)).unwrap();
    volume.sync().unwrap();
    drop(volume);
    let mut volume = open(disk.crash()).unwrap();
    let mut found = vec![0; capos_volume::BLOCK];
    volume.read(1, &mut found).unwrap();
    assert_eq!(found, content(1));
}

/// Whoever changes a copy of the slots, or moves it to another volume, gets no key from it. The label is not part of the key.
#[test]
fn a_changed_copy_gives_no_key() {
    /// The volume, and of the first slot all up to its label.
    const BOUND: usize = 16 + 120;
    let copy = format(SimDisk::new(64, 1)).slot_copy();
    let bytes = copy.encode();
    assert_eq!(&bytes[BOUND..BOUND + 5], b"test\0");
    for at in 0..BOUND {
        for bit in [0, 7] {
            let mut changed = bytes;
            changed[at] ^= 1 << bit;
            let Some(changed) = SlotCopy::decode(&changed) else { continue };
            assert!(changed.derive(&KEY, MEMORY, b"backup").is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn read_nodes_are_kept_in_memory() {
    for (most, kept) in [(0, 4), (5, 5)] {
        let mut volume = format_with(SimDisk::new(40_000, 1), CipherKind::Aes256Gcm, most);
        let (blocks, mut found) = (volume.len(), vec![0; capos_volume::BLOCK]);
        for part in 0..20 {
            volume.write(part * (blocks - 1) / 19, &content(part)).unwrap();
            volume.sync().unwrap();
        }
        for part in 0..20 {
            volume.read(part * (blocks - 1) / 19, &mut found).unwrap();
            assert_eq!(found, content(part));
        }
        assert_eq!(volume.cached_nodes(), kept, "with room for {most}");
    }
}
