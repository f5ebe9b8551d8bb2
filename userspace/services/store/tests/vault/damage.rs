//! A disk of which somebody has changed one block: its clients go on without what was there.

use capos_keyspace::Range;
use capos_store_service::kept::{decode_left_out, encode_left_out};
use capos_store_service::marks::Marks;
use capos_volume::sim::Image;

use super::*;

const CLIENTS: [&str; 4] = ["broker", "files", "audit", "conversations"];
const ENTRIES: u8 = 60;

/// The image of a machine whose clients keep something.
fn filled() -> Image {
    let machine = Machine::new();
    let (mut vault, _) = machine.set_up();
    for number in 0..ENTRIES {
        for client in CLIENTS {
            let change =
                Change { table: "t".into(), kind: ChangeKind::Put, key: vec![number], value: vec![number; 400] };
            vault.spaces().unwrap().commit(client, &[change], true, 0).unwrap();
        }
    }
    drop(vault);
    machine.disk.lock().image().clone()
}

/// Entries of a table that can be read one by one. A damaged one is told as that.
fn readable(vault: &mut Vault<Shared>, client: &str, table: &str) -> Vec<u8> {
    let spaces = vault.spaces().unwrap();
    let mut found = Vec::new();
    for number in 0..ENTRIES {
        match spaces.get(client, table, &[number]) {
            Ok(Some(_)) => found.push(number),
            Ok(None) => {}
            Err(Refusal::Fault(StoreFault::Damaged, why)) => assert!(why.contains("does not hold"), "{why}"),
            other => panic!("{client}: {other:?}"),
        }
    }
    found
}

/// The blocks of an image that two starts, clients and a commit read, and every eighth of the others.
fn in_use(image: &Image) -> Vec<u64> {
    let machine = Machine::new();
    *machine.disk.lock() = SimDisk::from_image(BLOCKS, image.clone(), Seed(5));
    for _ in 0..2 {
        let mut vault = machine.start(None, false);
        assert_eq!(vault.open("ada", "correct horse", KeyKind::Passphrase), Ok(Tried::Right));
        for client in CLIENTS {
            assert_eq!(readable(&mut vault, client, "t").len(), usize::from(ENTRIES));
            vault.spaces().unwrap().commit(client, &put(b"new"), true, 0).unwrap();
        }
    }
    let read = machine.disk.3.lock().unwrap().clone();
    image.keys().copied().filter(|block| read.contains(block) || block % 8 == 0).collect()
}

/// Requirements E05 and N04, as far as a damaged disk goes.
#[test]
fn a_client_whose_block_is_damaged_starts_over_and_the_others_go_on() {
    let image = filled();
    let (mut opened, mut lost, mut closed, mut named) = (0, 0, 0, 0);
    for block in in_use(&image) {
        let mut changed = image.clone();
        let mut content = *changed[&block];
        content[1000] ^= 1;
        changed.insert(block, std::sync::Arc::new(content));
        let machine = Machine::new();
        *machine.disk.lock() = SimDisk::from_image(BLOCKS, changed, Seed(5));
        machine.seed.set(90_000 + block * 10);
        let mut vault = machine.start(None, false);
        let tried = vault.open("ada", "correct horse", KeyKind::Passphrase);
        if tried.is_err() || vault.state() != VolumeState::Open {
            // It is told, and nothing is written.
            assert!(vault.details().contains("cannot be used") || tried.is_err(), "{block}: {}", vault.details());
            closed += 1;
            continue;
        }
        opened += 1;
        let before = CLIENTS.map(|client| readable(&mut vault, client, "t"));
        // What was saved last and could not be done again is told: whose it is, and which block. The system log has it once.
        let told = vault.status().lost;
        let spaces = vault.spaces().unwrap();
        assert_eq!((spaces.news().unwrap_or_default(), spaces.news()), (told.clone(), None));
        if !told.is_empty() {
            named += 1;
            let (_, rest) = told.split_once("of what was saved last it has lost ").unwrap();
            let whose = ["users and settings", "home directories", "records of the audit log", "conversations"];
            let readers = CLIENTS.iter().zip(whose).zip(&before).filter(|((_, name), _)| rest.contains(*name));
            assert!(rest.contains(&format!("(block {block} ")) && readers.clone().count() > 0, "block {block}: {told}");
            for ((client, _), before) in readers {
                assert!(before.len() < ENTRIES.into(), "block {block}: {client} has lost nothing, and {told}");
            }
            // The next life of the process tells the same, after a commit too: then nothing of the log is done again.
            for _ in 0..2 {
                let spaces = vault.spaces().unwrap();
                let page = encode_left_out(spaces.left_out());
                let kept = vault.kept().unwrap();
                drop(vault);
                vault = machine.start(Some(&kept), false);
                let spaces = vault.spaces().unwrap();
                spaces.continue_after(&Marks::default(), &decode_left_out(&page));
                let _ = CLIENTS.map(|client| spaces.commit(client, &put(b"new"), true, 0).is_ok());
                assert_eq!(vault.status().lost, told, "block {block}");
            }
        }
        let Some(client) = (0..CLIENTS.len()).find(|client| before[*client].len() < ENTRIES.into()) else { continue };
        lost += 1;
        let name = CLIENTS[client];
        assert_eq!(vault.spaces().unwrap().set_aside(name), Ok(1), "block {block}");
        let spaces = vault.spaces().unwrap();
        assert_eq!(spaces.info(name).unwrap().asides, 1);
        assert_eq!(spaces.range(name, Range::all("t")).unwrap().entries, []);
        let refused =
            spaces.commit(name, &[Change { table: "aside/1/t".into(), key: vec![1], ..Change::default() }], true, 0);
        assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
        spaces.commit(name, &put(b"new"), true, 0).unwrap();
        // The next start finds both.
        drop(vault);
        let mut vault = machine.start(None, false);
        assert_eq!(vault.open("ada", "correct horse", KeyKind::Passphrase), Ok(Tried::Right), "block {block}");
        assert!(vault.spaces().unwrap().get(name, "t", b"new").unwrap().is_some());
        assert_eq!(readable(&mut vault, name, "aside/1/t"), before[client], "block {block}");
        for (client, before) in CLIENTS.iter().zip(&before).filter(|(client, _)| **client != name) {
            assert_eq!(&readable(&mut vault, client, "t"), before, "block {block}, {client}");
        }
        assert!(vault.spaces().unwrap().get(name, "aside/2/t", b"new").is_err());
    }
    println!(
        "with {opened} changed blocks the volume opens, with {closed} it does not; {lost} of them cost a client entries, and {named} \
         something that was saved last"
    );
    assert!(lost > 15 && closed < opened && named > 0, "{opened} {lost} {closed} {named}");
}
