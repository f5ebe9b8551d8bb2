//! Volumes that lie: each is refused with a sentence that says which structure, where, and why.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use crate::support::*;
use capos_iso9660::*;
use proptest::prelude::*;

#[track_caller]
fn refused(image: &Image, words: &[&str]) {
    let text = image.refusal();
    for word in words {
        assert!(text.contains(word), "{text:?} should hold {word:?}");
    }
    assert!(image.reads.get() < 70_000, "{} reads", image.reads.get());
}

/// A volume whose root holds these records.
fn with(records: &[Rec]) -> Image {
    let mut image = Image::new(100);
    image.directory(ROOT, ROOT, records);
    image
}

#[test]
fn devices_without_a_volume_are_refused() {
    let mut image = Image::new(100);
    image.sector(16)[1] = b'X';
    refused(&image, &["the volume descriptor at sector 16", "CD001 is missing"]);

    let mut image = Image::new(100);
    image.sector(16)[0] = 2;
    refused(&image, &["no primary volume descriptor"]);

    let mut image = Image::new(100);
    let other = image.sector(17);
    other[0] = 0;
    for lba in 18..100 {
        let copy = image.sector(17).clone();
        image.sectors.insert(lba, copy);
    }
    refused(&image, &["the volume descriptor at sector 80", "no end"]);

    let image = Image::new(100);
    let error = now(Volume::mount(&image, 16)).err().unwrap().to_string();
    assert!(error.contains("no end"), "{error}");
    let error = now(Volume::mount(&image, 99)).err().unwrap().to_string();
    assert!(error.contains("the image may be cut off"), "{error}");
}

#[test]
fn primary_descriptors_that_contradict_themselves_are_refused() {
    let cases: &[(usize, u8, &str)] = &[
        (80, 99, "'volume space size' is 99 in one byte order and 100 in the other"),
        (128, 1, "'logical block size' is 2049 in one byte order"),
        (881, 9, "file structure version"),
        (6, 2, "its version is not 1"),
        (156 + 25, 0, "not the record of a root directory"),
        (156 + 2, 99, "'location of extent' is 99 in one byte order and 18 in the other"),
        (156, 0, "length is zero, but the rest of the sector is in use"),
    ];
    for (at, value, words) in cases {
        let mut image = Image::new(100);
        image.sector(16)[*at] = *value;
        refused(&image, &["sector 16", words]);
    }
    let mut image = Image::new(100);
    image.sector(16)[128..132].copy_from_slice(&both16(512));
    refused(&image, &["logical block size is not 2048"]);
    let mut image = Image::new(100);
    image.sector(16)[156 + 10..156 + 18].copy_from_slice(&both32(2000));
    refused(&image, &["the root directory's record at sector 16, byte 156", "multiple of 2048"]);
    let mut image = Image::new(100);
    image.sector(16)[156 + 2..156 + 10].copy_from_slice(&both32(200));
    refused(&image, &["1 sectors from 200 on", "18 to 100"]);
}

#[test]
fn extents_outside_the_volume_are_refused() {
    refused(&with(&[Rec::file("a", 99, 2049)]), &["the directory record at sector 18", "2 sectors from 99", "100"]);
    refused(&with(&[Rec::file("a", u32::MAX, u32::MAX)]), &["sectors from 4294967295"]);
    // The descriptors' sectors are the contents of no file.
    refused(&with(&[Rec::file("a", 16, 1)]), &["1 sectors from 16 on"]);
    refused(&with(&[Rec::dir("a", 100)]), &["1 sectors from 100 on"]);
    let mut attributes = Rec::file("a", u32::MAX, 1);
    attributes.flags = 0;
    let mut image = with(&[attributes]);
    // The first byte behind the two dot records: the length of the extended attributes.
    let at = record_offset(&image, 2);
    image.sector(ROOT)[at + 1] = 1;
    refused(&image, &["past the last possible sector"]);
}

/// Where the record of this index begins in the root directory.
fn record_offset(image: &Image, index: usize) -> usize {
    let sector = &image.sectors[&ROOT];
    (0..index).fold(0, |at, _| at + usize::from(sector[at]))
}

#[test]
fn broken_records_are_refused() {
    let at = record_offset(&with(&[]), 2);
    let cases: &[(usize, u8, &str)] = &[
        (0, 0, "length is zero, but the rest of the sector is in use"),
        (0, 20, "it ends before its field 'identifier length'"),
        (0, 34, "its identifier reaches over its end"),
        (2, 7, "'location of extent' is 7 in one byte order"),
        (10, 7, "'data length'"),
        (26, 1, "interleaved"),
        (28, 2, "'volume sequence number'"),
        (32, 0, "its identifier is empty"),
        (32, 255, "its identifier reaches over its end"),
    ];
    for (field, value, words) in cases {
        let mut image = with(&[Rec::file("a", 30, 10)]);
        image.sector(ROOT)[at + field] = *value;
        refused(&image, &[&format!("at sector 18, byte {at}: "), words]);
    }
    let mut image = with(&[]);
    image.sector(ROOT)[SECTOR - 1] = 1;
    refused(&image, &["length is zero, but"]);
    image.sector(ROOT)[at..].fill(0);
    image.sector(ROOT)[SECTOR - 1] = 40;
    image.sector(ROOT)[at] = 0;
    refused(&image, &["length is zero, but"]);
    let mut image = with(&[Rec::file("a", 30, 10)]);
    let next = record_offset(&image, 3);
    image.sector(ROOT)[next] = 255;
    image.sector(ROOT)[next + 32] = 250;
    refused(&image, &["its identifier reaches over its end"]);
    let mut record = Rec::file("a", 30, 10);
    record.identifier = vec![1];
    record.system_use.clear();
    refused(&with(&[record]), &["the record of the directory or its parent is there again"]);
}

#[test]
fn directories_without_true_dot_records_are_refused() {
    let dot = |lba| Rec { identifier: vec![0], system_use: [sp(), er()].concat(), ..Rec::dir("", lba) };
    let dotdot = |lba| Rec { identifier: vec![1], ..Rec::dir("", lba) };
    let raw = |records: &[Rec]| {
        let mut image = Image::new(100);
        image.raw_directory(ROOT, records);
        image
    };
    refused(&raw(&[]), &["the root directory at sector 18", "empty"]);
    refused(&raw(&[dot(ROOT)]), &["lacks the records of itself and its parent"]);
    refused(&raw(&[dotdot(ROOT), dot(ROOT)]), &["first two records are not"]);
    refused(&raw(&[dot(20), dotdot(ROOT)]), &["should point to the directory itself or its parent"]);
    refused(&raw(&[dot(ROOT), dotdot(20)]), &["should point to the directory itself or its parent"]);
    let long = Rec { bytes: 4096, ..dot(ROOT) };
    refused(&raw(&[long, dotdot(ROOT)]), &["length differs from the one its parent tells"]);
}

#[test]
fn directories_that_form_loops_are_refused() {
    refused(&with(&[Rec::dir("self", ROOT)]), &["sector 18", "the directories form a loop"]);
    let mut image = with(&[Rec::dir("a", 20)]);
    image.directory(20, ROOT, &[Rec::dir("b", 21)]);
    image.directory(21, 20, &[Rec::dir("up", 20)]);
    refused(&image, &["the directory record at sector 21", "a directory that it is in", "at sector 20"]);
    // Overlap by one sector is enough.
    let mut wide = Rec::dir("wide", ROOT - 1);
    wide.bytes = 4096;
    refused(&with(&[wide]), &["17"]);
}

#[test]
fn directories_nested_without_end_are_refused() {
    let mut image = Image::new(1000);
    image.directory(ROOT, ROOT, &[Rec::dir("d", 19)]);
    for lba in 19..200 {
        image.directory(lba, lba - 1, &[Rec::dir("d", lba + 1)]);
    }
    refused(&image, &["the depth of directories is 65"]);
}

#[test]
fn directories_of_absurd_length_are_refused() {
    let mut record = Rec::dir("d", 20);
    record.bytes = limits::DIRECTORY_BYTES + 2048;
    let mut image = Image::new(u32::MAX);
    image.directory(ROOT, ROOT, &[record]);
    refused(&image, &["a directory's length is 16779264; at most 16777216"]);
    let mut record = Rec::dir("d", 20);
    record.bytes = 0;
    refused(&with(&[record]), &["multiple of 2048 above zero"]);
}

#[test]
fn directories_and_files_that_lie_over_one_another_are_refused() {
    let mut image = with(&[Rec::dir("a", 20), Rec::dir("b", 20)]);
    image.directory(20, ROOT, &[]);
    refused(&image, &["the extent at sector 20", "a directory"]);
    refused(&with(&[Rec::file("a", 30, 4096), Rec::file("b", 31, 100)]), &["another file at sector 30"]);
    refused(&with(&[Rec::file("b", 31, 100), Rec::file("a", 30, 4096)]), &["another file at sector 31"]);
    refused(&with(&[Rec::file("root", ROOT, 100)]), &["a directory at sector 18"]);
    // Hard links share contents, and that is well.
    let image = with(&[Rec::file("a", 30, 4096), Rec::file("b", 30, 4096)]);
    assert_eq!(now(image.mount().unwrap().check()).unwrap().files, 2);
}

#[test]
fn files_of_several_extents_must_be_whole() {
    let part = |lba, bytes, flags| Rec { flags, ..Rec::file("f", lba, bytes) };
    refused(&with(&[part(30, 4096, 0x80)]), &["announces a further extent, and the directory ends"]);
    let mut other = part(40, 10, 0);
    other.identifier = b"OTHER.;1".to_vec();
    refused(&with(&[part(30, 4096, 0x80), other]), &["announces a further extent, and another file follows"]);
    refused(&with(&[part(30, 4097, 0x80), part(40, 10, 0)]), &["not the file's last ends within a sector"]);
    refused(&with(&[part(30, 4096, 0x80), part(31, 10, 0)]), &["an earlier extent of the same file at sector 30"]);
    // More extents than a file may have, over as many sectors as the directory needs.
    let records: Vec<Rec> = (0..300).map(|i| part(1000 + i, 2048, 0x80)).collect();
    let mut image = Image::new(10_000);
    write_directory(&mut image, 20, ROOT, &records);
    refused(&image, &["the number of extents of a file is 257"]);
}

/// Writes a directory of many sectors and links it into the root as `d`.
fn write_directory(image: &mut Image, lba: u32, parent: u32, records: &[Rec]) {
    let mut all =
        vec![Rec { identifier: vec![0], ..Rec::dir("", lba) }, Rec { identifier: vec![1], ..Rec::dir("", parent) }];
    all.extend_from_slice(records);
    let mut sectors: Vec<Vec<Rec>> = vec![vec![]];
    let mut used = 0;
    for record in all {
        let length = record.bytes().len();
        if used + length > SECTOR {
            sectors.push(vec![]);
            used = 0;
        }
        used += length;
        sectors.last_mut().unwrap().push(record);
    }
    let bytes = (sectors.len() * SECTOR) as u32;
    sectors[0][0].bytes = bytes;
    for (lba, records) in (lba..).zip(&sectors) {
        image.raw_directory(lba, records);
    }
    let mut entry = Rec::dir("d", lba);
    entry.bytes = bytes;
    image.directory(ROOT, ROOT, &[entry]);
}

#[test]
fn long_directories_are_read_to_their_end() {
    let records: Vec<Rec> = (0..1000).map(|i| Rec::file(&format!("file-{i}"), 5000 + i, 1)).collect();
    let mut image = Image::new(10_000);
    write_directory(&mut image, 20, ROOT, &records);
    let volume = image.mount().unwrap();
    let folder = now(volume.resolve(volume.root(), "d")).unwrap();
    let entries = now(volume.list(&folder, |_| ())).unwrap();
    assert_eq!(entries.len(), 1000);
    assert_eq!(entries[999].name, "file-999");
    assert_eq!(entries[999].node.extents(), [Extent { lba: 5999, bytes: 1 }]);
}

#[test]
fn names_that_could_lead_elsewhere_are_refused() {
    refused(&with(&[Rec::file("a/b", 0, 0)]), &["a name holds '/' or NUL"]);
    refused(&with(&[Rec::file("a\0", 0, 0)]), &["a name holds '/' or NUL"]);
    refused(&with(&[Rec::file("..", 0, 0)]), &["a name is '.' or '..'"]);
    refused(&with(&[Rec::file("", 0, 0)]), &["a name is empty"]);
    let mut plain = Rec::file("", 0, 0);
    plain.system_use = px(0o100_644);
    plain.identifier = b"..".to_vec();
    refused(&with(&[plain]), &["a name is '.' or '..'"]);
    let mut latin = Rec::file("", 0, 0);
    latin.system_use = nm(0, b"\xe4");
    refused(&with(&[latin]), &["a name is not UTF-8"]);
    let mut twice = Rec::file("a", 0, 0);
    twice.system_use.extend(nm(0, b"b"));
    refused(&with(&[twice]), &["there are two names"]);
    let mut endless = Rec::file("", 0, 0);
    endless.system_use = nm(1, b"b");
    refused(&with(&[endless]), &["says that it goes on, and does not"]);
    let mut image = with(&[Rec { system_use: [nm(1, &[b'x'; 150]), ce(50, 0, 155)].concat(), ..Rec::file("", 0, 0) }]);
    image.sector(50)[..155].copy_from_slice(&nm(0, &[b'x'; 150]));
    refused(&image, &["the continuation area at sector 50", "the length of a name is 300"]);
}

#[test]
fn a_name_that_is_refused_hides_no_other_entry() {
    let image = with(&[Rec::file("first", 0, 0), Rec::file("a/b", 0, 0), Rec::file("last", 0, 0)]);
    let volume = image.mount().unwrap();
    let mut skipped = Vec::new();
    let entries = now(volume.list(volume.root(), |malformed| skipped.push(malformed.to_string()))).unwrap();
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["first", "last"]);
    assert!(matches!(skipped.as_slice(), [one] if one.contains("a name holds '/' or NUL")), "{skipped:?}");
    assert!(now(volume.resolve(volume.root(), "last")).unwrap().is_file());
}

#[test]
fn broken_system_use_areas_are_refused() {
    let cases: &[(Vec<u8>, &str)] = &[
        (vec![b'X', b'X', 3, 1], "an entry's length is below 4 or past the area's end"),
        (vec![b'X', b'X', 200, 1], "an entry's length is below 4 or past the area's end"),
        (vec![b'P', b'X', 36, 2].into_iter().chain([0; 32]).collect(), "an entry's version is not 1"),
        (entry(b"PX", &[0; 7]), "it ends before its field 'file mode'"),
        (entry(b"PX", &[1, 0, 0, 0, 0, 0, 0, 2]), "'file mode' is 1 in one byte order and 2"),
        (entry(b"ZF", &[0; 12]), "compressed (zisofs)"),
        (entry(b"SF", &[0; 12]), "sparse"),
        (entry(b"SL", &[0, 0]), "it ends before its field 'link component length'"),
        (entry(b"SL", &[0, 0, 9, b'x']), "it ends before its field 'link component'"),
        (sl(0, &[(0x40, b"")]), "a link's target is empty"),
        (sl(0, &[(0x10, b"")]), "a link component of an unknown kind"),
        (sl(1, &[(0, b"a")]), "says that it goes on, and does not"),
        (sl(0, &[(1, b"a")]), "says that it goes on, and does not"),
        ([sl(0, &[(0, b"a")]), sl(0, &[(0, b"b")])].concat(), "there are two link targets"),
        (sl(0, &[(0, b"\xff")]), "a link's target is not UTF-8"),
        (entry(b"SP", &[0, 0, 0]), "check bytes"),
        (entry(b"TF", &[2, 1]), "it ends before its field 'time'"),
    ];
    for (bytes, words) in cases {
        refused(&with(&[Rec::with("a", std::slice::from_ref(bytes))]), &["at sector 18", words]);
    }
    let mut disguised = Rec::file("a", 0, 0);
    disguised.system_use = [nm(0, b"a"), px(0o120_777)].concat();
    refused(&with(&[disguised.clone()]), &["symbolic link without a target"]);
    disguised.system_use = [nm(0, b"a"), px(0o40_755)].concat();
    refused(&with(&[disguised]), &["a directory by its mode and none by its flags"]);
    let mut file = Rec::dir("a", 20);
    file.system_use = [nm(0, b"a"), px(0o100_644)].concat();
    refused(&with(&[file]), &["a directory by its flags and none by its mode"]);
}

#[test]
fn continuations_that_lead_nowhere_or_round_are_refused() {
    refused(&with(&[Rec::with("a", &[ce(100, 0, 10)])]), &["1 sectors from 100 on"]);
    refused(&with(&[Rec::with("a", &[ce(50, 2000, 49)])]), &["continuation reaches over the end of a sector"]);
    refused(&with(&[Rec::with("a", &[ce(50, u32::MAX, u32::MAX)])]), &["over the end of a sector"]);
    refused(&with(&[Rec::with("a", &[ce(50, 0, 28), ce(51, 0, 28)])]), &["two continuations"]);
    let mut image = with(&[Rec::with("a", &[ce(50, 0, 28)])]);
    image.sector(50)[..28].copy_from_slice(&ce(51, 4, 28));
    image.sector(51)[4..32].copy_from_slice(&ce(50, 0, 28));
    refused(&image, &["the number of continuations of a record (they may form a loop)"]);
    // In the root's own record too, where Rock Ridge is looked for.
    let mut image = Image::new(100);
    let dot = Rec { identifier: vec![0], system_use: [sp(), ce(50, 0, 28)].concat(), ..Rec::dir("", ROOT) };
    image.raw_directory(ROOT, &[dot]);
    image.sector(50)[..28].copy_from_slice(&ce(50, 0, 28));
    refused(&image, &["they may form a loop"]);
}

#[test]
fn moved_directories_must_be_there() {
    let child = |lba| Rec::with("deep", &[entry(b"CL", &both32(lba))]);
    refused(&with(&[child(100)]), &["1 sectors from 100 on"]);
    let mut image = with(&[child(40)]);
    image.raw_directory(40, &[]);
    refused(&image, &["leads to a moved directory that is not there"]);
    image.raw_directory(40, &[Rec { identifier: vec![0], ..Rec::dir("", 41) }]);
    refused(&image, &["leads to a moved directory that is not there"]);
    // Moved, but its `..` tells of another place than this.
    let mut image = with(&[child(40)]);
    let dotdot = Rec { identifier: vec![1], system_use: entry(b"PL", &both32(77)), ..Rec::dir("", ROOT) };
    image.raw_directory(40, &[Rec { identifier: vec![0], ..Rec::dir("", 40) }, dotdot.clone()]);
    refused(&image, &["should point to the directory itself or its parent"]);
    let good = Rec { system_use: entry(b"PL", &both32(ROOT)), ..dotdot };
    image.raw_directory(40, &[Rec { identifier: vec![0], ..Rec::dir("", 40) }, good]);
    assert_eq!(now(image.mount().unwrap().check()).unwrap().directories, 2);
    // A directory moved to where it is in itself.
    refused(&with(&[child(ROOT)]), &["form a loop"]);
}

#[test]
fn device_errors_are_handed_on() {
    let mut image = with(&[Rec::dir("d", 20)]);
    image.directory(20, ROOT, &[]);
    let volume = image.mount().unwrap();
    let short = Image { size: 20, ..image.clone() };
    let error = match now(Volume::mount(&short, 100)) {
        Ok(volume) => now(volume.check()).unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(error, Error::Source { lba: 20, .. }), "{error}");
    drop(volume);
}

/// A volume with one of everything.
fn rich() -> Image {
    let mut image = Image::new(100);
    image.directory(
        ROOT,
        ROOT,
        &[
            Rec::dir("sub", 20),
            Rec::file("a.txt", 30, 100),
            Rec { flags: 0x80, ..Rec::file("big", 31, 2048) },
            Rec::file("big", 33, 5000),
            Rec::with("link", &[sl(0, &[(0, b"sub"), (0, b"b.txt")])]),
            Rec::with("long", &[ce(50, 8, 28)]),
            Rec::with("moved", &[entry(b"CL", &both32(40))]),
        ],
    );
    image.directory(20, ROOT, &[Rec::file("b.txt", 36, 10), Rec::dir("rr", 21)]);
    let mut moved = Rec::dir("moved", 40);
    moved.system_use.extend(entry(b"RE", &[]));
    image.directory(21, 20, &[moved]);
    let dotdot = Rec { identifier: vec![1], system_use: entry(b"PL", &both32(ROOT)), ..Rec::dir("", 21) };
    image.raw_directory(40, &[Rec { identifier: vec![0], ..Rec::dir("", 40) }, dotdot, Rec::file("c", 41, 1)]);
    image.sector(50)[8..36].copy_from_slice(&ce(51, 0, 7));
    image.sector(51)[..7].copy_from_slice(&sl(0, &[(0, b"")]));
    image.sector(51)[..7].copy_from_slice(&entry(b"ZZ", &[1, 2, 3]));
    image
}

#[test]
fn the_rich_volume_is_sound() {
    let image = rich();
    let summary = now(image.mount().unwrap().check()).unwrap();
    assert_eq!((summary.directories, summary.files, summary.links), (4, 5, 1));
}

/// Walks, lists and reads everything that is not rejected.
fn exercise(image: &Image) {
    let Ok(volume) = image.mount() else { return };
    let _ = now(volume.check());
    for path in ["sub/b.txt", "link", "moved/c", "big", "../..//a.txt", "sub/rr/moved"] {
        if let Ok(node) = now(volume.resolve(volume.root(), path)) {
            let mut buffer = [0; 5000];
            let _ = now(volume.read(&node, 1000, &mut buffer));
            assert!(node.runs(0, u64::MAX).all(|run| u64::from(run.lba) < 100));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever bytes change, nothing panics, nothing outside the volume is read (the source
    /// would refuse, and no refusal but that of the volume is accepted), and the work is bounded.
    #[test]
    fn mutated_volumes_are_refused_or_read(changes in prop::collection::vec((0usize..12, 0usize..400, any::<u8>()), 1..12)) {
        let mut image = rich();
        for (which, at, value) in changes {
            let lba = [16, 17, 18, 18, 18, 20, 21, 40, 50, 51, 18, 16][which];
            // Most of the primary descriptor says nothing; aim at what does.
            let at = if lba == 16 { [80, 84, 124, 128, 156, 158, 162, 166, 170, 181, 188, 189, 881][at % 13] } else { at };
            image.sector(lba)[at] = value;
        }
        exercise(&image);
        prop_assert!(image.reads.get() < 5_000, "{} reads", image.reads.get());
        if let Ok(volume) = image.mount() && let Err(error) = now(volume.check()) {
 prop_assert!(matches!(error, Error::Malformed(_)), "{error}"); }
    }

    #[test]
    fn any_system_use_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..250)) {
        let mut rock = RockRidge::default();
        let place = Place::new("test", 20);
        if let Ok(Some(next)) = rock.add(&bytes, place) {
            prop_assert!(u64::from(next.offset) + u64::from(next.length) <= SECTOR as u64);
        }
        let _ = rock.finish(place);
    }

    #[test]
    fn any_sector_is_read_without_panic(bytes in prop::collection::vec(any::<u8>(), SECTOR)) {
        let _ = VolumeDescriptor::parse(&bytes, 16);
        let total: usize = records_in_sector(&bytes, 20).flatten().map(|record| record.length()).sum();
        prop_assert!(total <= SECTOR);
    }
}
