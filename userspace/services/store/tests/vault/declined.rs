//! A blank disk that is set up after its person had put that off.

use capos_store_service::vault::Vault;

use super::*;

/// A vault with something in memory, whose blank disk was declined.
fn declined(machine: &Machine) -> Vault<Shared> {
    let mut vault = machine.start(None, false);
    vault.decline(MemoryBlocks::new(2000)).unwrap();
    assert_eq!(vault.status().state, VolumeState::Declined);
    for (client, key) in [("client", b"before"), ("other", b"thing!")] {
        vault.spaces().unwrap().commit(client, &put(key), true, 0).unwrap();
    }
    vault
}

#[test]
fn what_was_in_memory_is_on_the_disk_that_is_set_up_later() {
    let machine = Machine::new();
    let mut vault = declined(&machine);
    let version = vault.spaces().unwrap().info("client").unwrap().version;
    vault.create(machine.place(false), "ada", "correct horse", KeyKind::Passphrase).unwrap();
    assert_eq!(vault.status().state, VolumeState::Open);
    let info = vault.spaces().unwrap().info("client").unwrap();
    assert!(info.lasting && info.version >= version && has(&mut vault, b"before"));
    vault.spaces().unwrap().commit("client", &put(b"after"), true, 0).unwrap();
    // It is set up once.
    let again = vault.create(machine.place(false), "eve", "correct horse", KeyKind::Passphrase);
    assert!(again.unwrap_err().contains("no volume can be made now"));
    drop(vault);
    let mut vault = machine.start(None, false);
    assert_eq!(vault.open("ada", "correct horse", KeyKind::Passphrase), Ok(Tried::Right));
    assert!(has(&mut vault, b"before") && has(&mut vault, b"after"));
    assert!(vault.spaces().unwrap().get("other", "t", b"thing!").unwrap().is_some());
}

#[test]
fn a_disk_that_fails_meanwhile_leaves_what_is_in_memory() {
    let machine = Machine::new();
    let mut vault = declined(&machine);
    machine.disk.1.store(true, Ordering::Relaxed);
    assert!(vault.create(machine.place(false), "ada", "correct horse", KeyKind::Passphrase).is_err());
    assert_eq!(vault.status().state, VolumeState::Declined);
    assert!(has(&mut vault, b"before"));
    machine.disk.1.store(false, Ordering::Relaxed);
    vault.create(machine.place(false), "ada", "correct horse", KeyKind::Passphrase).unwrap();
    assert!(has(&mut vault, b"before"));
}
