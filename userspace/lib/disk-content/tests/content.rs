//! Disks of every kind, and any bytes at all.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)] // Helpers of tests count as tests.

use capos_disk_content::{Content, DATA_DISK, Fat, Table, Uuid, classify, sample};
use proptest::prelude::*;

const HEAD: usize = 68 << 10;

fn disk(parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; HEAD];
    for (at, part) in parts {
        bytes[*at..at + part.len()].copy_from_slice(part);
    }
    bytes
}

fn judged(parts: &[(usize, &[u8])]) -> Content {
    classify(&disk(parts), [&[0_u8; 4096][..]])
}

const SIGNATURE: (usize, &[u8]) = (510, &[0x55, 0xaa]);

/// The parameters of a FAT volume: sectors, bytes of a table in sectors, entries of the root, sectors of a cluster.
fn fat(sectors: u32, table: u32, entries: u16, cluster: u8) -> Vec<u8> {
    let mut bytes = disk(&[(0, &[0xeb, 0x3c, 0x90]), (11, &[0, 2, cluster, 1, 0, 2]), (21, &[0xf8]), SIGNATURE]);
    bytes[17..19].copy_from_slice(&entries.to_le_bytes());
    bytes[32..36].copy_from_slice(&sectors.to_le_bytes());
    match u16::try_from(table).ok().filter(|_| entries > 0) {
        Some(table) => bytes[22..24].copy_from_slice(&table.to_le_bytes()),
        None => bytes[36..40].copy_from_slice(&table.to_le_bytes()),
    }
    let (mark, name) = if entries > 0 { (38, 43) } else { (66, 71) };
    bytes[mark] = 0x29;
    bytes[name..name + 11].copy_from_slice(b"MY STICK   ");
    bytes
}

#[test]
fn a_data_disk_is_known_by_its_header_whatever_else_it_looks_like() {
    let uuid: Vec<u8> = (1..=16).collect();
    let own: [(usize, &[u8]); 3] = [(0, &DATA_DISK), (8, &[3, 0, 0, 0]), (16, &uuid)];
    let content = judged(&own);
    assert_eq!(content, Content::DataDisk { version: 3, uuid: Uuid(uuid.clone().try_into().unwrap()) });
    assert_eq!(content.details(), "format 3");
    let Content::DataDisk { uuid: id, .. } = &content else { panic!() };
    assert_eq!(id.to_string(), "01020304-0506-0708-090a-0b0c0d0e0f10");
    let disguised = [&own[..], &[(32768, b"\x01CD001\x01"), (512, b"EFI PART"), SIGNATURE]].concat();
    assert_eq!(judged(&disguised), content);
    assert_eq!(classify(&DATA_DISK, []), Content::Unknown, "a header that is cut off");
    assert_eq!(judged(&[(0, b"CAPOSVOM")]), Content::Unknown);
}

#[test]
fn a_volume_in_a_partitioned_image_is_a_volume() {
    let parts: [(usize, &[u8]); 4] =
        [(32768, b"\x01CD001\x01"), (32768 + 40, b"CAPOS\x1b[2J                    "), (512, b"EFI PART"), SIGNATURE];
    assert_eq!(judged(&parts), Content::Iso9660 { label: "CAPOS?[2J".into() });
}

#[test]
fn the_number_of_clusters_tells_the_kinds_of_fat() {
    // 1 reserved sector, 2 tables and the root come first.
    for (sectors, table, entries, cluster, bits) in [
        (2_880, 9, 224, 1, 12),
        (1 + 2 * 16 + 32 + 4_084, 16, 512, 1, 12),
        (1 + 2 * 16 + 32 + 4_085, 16, 512, 1, 16),
        (1 + 2 * 256 + 32 + 65_524, 256, 512, 1, 16),
        (1 + 2 * 512 + 65_525, 512, 0, 1, 32),
        (1 << 21, 2_048, 0, 8, 32),
    ] {
        let volume = Content::Fat(Fat { bits, label: "MY STICK".into() });
        assert_eq!(classify(&fat(sectors, table, entries, cluster), []), volume, "{sectors}");
    }
    assert_eq!(classify(&fat(2_880, 9, 224, 1), []).details(), "FAT12 MY STICK");
    for (at, byte) in [(0, 0), (11, 1), (13, 3), (14, 0), (16, 3), (21, 0), (510, 0)] {
        let mut volume = fat(2_880, 9, 224, 1);
        volume[at] = byte;
        assert_eq!(classify(&volume, []), Content::Unknown, "byte {at}");
    }
    assert_eq!(classify(&fat(33, 9, 224, 1), []), Content::Unknown, "tables that leave no room");
}

#[test]
fn partition_tables_of_both_kinds_are_told() {
    let linux = [0x80, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1, 0];
    assert_eq!(judged(&[(446, &linux), SIGNATURE]), Content::Partitions(Table::Mbr(1)));
    assert_eq!(judged(&[(446, &linux), (478, &linux), SIGNATURE]), Content::Partitions(Table::Mbr(2)));
    assert_eq!(judged(&[(446, &linux)]), Content::Unknown, "without its signature");
    assert_eq!(judged(&[SIGNATURE]), Content::Unknown, "an empty one");
    let mut bad = linux;
    bad[0] = 1;
    assert_eq!(judged(&[(446, &bad), SIGNATURE]), Content::Unknown);
    bad[4] = 0xee;
    assert_eq!(judged(&[(446, &bad), SIGNATURE]), Content::Partitions(Table::Gpt));
    for block in [512, 4096] {
        assert_eq!(judged(&[(block, b"EFI PART")]), Content::Partitions(Table::Gpt));
    }
}

#[test]
fn one_byte_anywhere_keeps_a_disk_from_being_blank() {
    let (head, other) = ([0; HEAD], [0; 4096]);
    assert_eq!(classify(&head, [&other[..], &other]), Content::Blank);
    for at in [0, 511, 4095] {
        let mut changed = other;
        changed[at] = 1;
        assert_eq!(classify(&head, [&other[..], &changed]), Content::Unknown);
        assert_eq!(classify(&changed, [&other[..]]), Content::Unknown);
    }
    assert_eq!(sample(0), []);
    let [whole] = sample(512).try_into().unwrap();
    assert_eq!(whole, 0..512);
}

proptest! {
    #[test]
    fn any_bytes_are_judged_and_shown(head in prop::collection::vec(any::<u8>(), 0..HEAD), magic in any::<bool>()) {
        let mut head = head;
        if magic && head.len() >= 512 {
            head[0..3].copy_from_slice(&[0xeb, 0x3c, 0x90]);
            head[510..512].copy_from_slice(&[0x55, 0xaa]);
        }
        let content = classify(&head, []);
        prop_assert!(content.details().bytes().all(|byte| matches!(byte, 0x20..0x7f)));
        prop_assert!(content != Content::Blank || head.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn samples_lie_in_the_disk_in_order_and_reach_its_ends(sectors in prop_oneof![1_u64..4096, any::<u64>().prop_map(|n| n >> 12)]) {
        let bytes = sectors * 512;
        let places = sample(bytes);
        prop_assert_eq!(places.first().map(|place| place.start), Some(0));
        prop_assert_eq!(places.last().map(|place| place.end), Some(bytes));
        let mut end = 0;
        for place in &places {
            prop_assert!(place.start >= end && place.start < place.end);
            prop_assert!(place.start.is_multiple_of(4096));
            prop_assert!(place.end.is_multiple_of(4096) || place.end == bytes);
            end = place.end;
        }
        prop_assert!(places.iter().map(|place| place.end - place.start).sum::<u64>() <= 68 * 1024 + 65 * 8192);
    }
}
