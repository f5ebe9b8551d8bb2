//! Sound volumes: made record by record, and made by xorriso.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::support::*;
use capos_iso9660::*;
use proptest::prelude::*;

/// The largest extent that image makers write: 4 GiB less a sector.
const FULL: u32 = 0xffff_f800;

/// A file of 2 * FULL + 5000 bytes, in three extents that lie apart.
fn big() -> Image {
    let sectors = FULL / SECTOR as u32;
    let part = |lba, bytes, flags| Rec { flags, ..Rec::file("big.gguf", lba, bytes) };
    let mut image = Image::new(2 * sectors + 1000);
    image.directory(ROOT, ROOT, &[part(100, FULL, 0x80), part(200 + sectors, FULL, 0x80), part(30, 5000, 0)]);
    image
}

#[test]
fn files_over_4_gib_are_read_across_their_extents() {
    let image = big();
    let sectors = FULL / SECTOR as u32;
    let volume = image.mount().unwrap();
    assert_eq!(volume.label(), "TEST VOLUME");
    let file = now(volume.resolve(volume.root(), "big.gguf")).unwrap();
    let size = 2 * u64::from(FULL) + 5000;
    assert_eq!(file.size(), size);
    assert_eq!(file.extents().len(), 3);

    // 12 KiB around the first seam: each word tells the sector it came from.
    let mut buffer = vec![0; 12288];
    let offset = u64::from(FULL) - 6144;
    assert_eq!(now(volume.read(&file, offset, &mut buffer)).unwrap(), 12288);
    let words: Vec<u32> = buffer.chunks(2048).map(|s| u32::from_le_bytes(s[100..104].try_into().unwrap())).collect();
    let last = 100 + sectors - 1;
    assert_eq!(words, [last - 2, last - 1, last, 200 + sectors, 201 + sectors, 202 + sectors]);

    // A page over the seam is two runs, each from a sector's start.
    let runs: Vec<Run> = file.runs(u64::from(FULL) - 2048, 4096).collect();
    assert_eq!(runs, [Run { lba: last, skip: 0, bytes: 2048 }, Run { lba: 200 + sectors, skip: 0, bytes: 2048 }]);
    // And the end is cut.
    let runs: Vec<Run> = file.runs(size - 904, 4096).collect();
    assert_eq!(runs, [Run { lba: 32, skip: 0, bytes: 904 }]);
    assert_eq!(file.runs(size, 1).count(), 0);
    assert_eq!(file.runs(u64::MAX, u64::MAX).count(), 0);
    assert_eq!(file.runs(0, u64::MAX).map(|run| run.bytes).sum::<u64>(), size);
    let mut end = [0; 4096];
    assert_eq!(now(volume.read(&file, size - 5, &mut end)).unwrap(), 5);
    assert_eq!(now(volume.read(&file, size + 5, &mut end)).unwrap(), 0);
    assert!(image.reads.get() < 40, "reading a little reads little: {}", image.reads.get());
}

proptest! {
    #[test]
    fn any_range_is_what_its_sectors_hold(offset in 0u64..40_000, length in 0usize..20_000) {
        let part = |lba, bytes, flags| Rec { flags, ..Rec::file("f", lba, bytes) };
        let mut image = Image::new(100);
        image.directory(ROOT, ROOT, &[part(50, 8192, 0x80), part(40, 2048, 0x80), part(60, 20_001, 0)]);
        let whole: Vec<u8> = [50u32, 51, 52, 53, 40].into_iter().chain(60..70)
            .flat_map(|lba| lba.to_le_bytes().repeat(512)).take(30_241).collect();
        let volume = image.mount().unwrap();
        let file = now(volume.resolve(volume.root(), "f")).unwrap();
        let mut buffer = vec![0xee; length];
        let count = now(volume.read(&file, offset, &mut buffer)).unwrap();
        let from = (offset as usize).min(whole.len());
        let to = (from + length).min(whole.len());
        prop_assert_eq!(&buffer[..count], &whole[from..to]);
        prop_assert!(buffer[count..].iter().all(|byte| *byte == 0xee));
        prop_assert_eq!(file.runs(offset, length as u64).map(|run| run.bytes).sum::<u64>(), count as u64);
    }
}

#[test]
fn paths_never_leave_where_they_start() {
    let mut image = Image::new(100);
    let link = |name: &str, components: &[(u8, &[u8])]| Rec::with(name, &[sl(0, components)]);
    image.directory(ROOT, ROOT, &[Rec::dir("sub", 20), Rec::file("top", 30, 1)]);
    image.directory(
        20,
        ROOT,
        &[
            Rec::file("in", 31, 1),
            Rec::dir("deeper", 21),
            link("up", &[(4, b""), (0, b"top")]),
            link("absolute", &[(8, b""), (0, b"in")]),
            link("loop", &[(0, b"loop")]),
            link("bomb", &[(0, b"bomb"), (0, b"bomb")]),
        ],
    );
    image.directory(21, 20, &[link("back", &[(2, b""), (4, b""), (0, b"in")])]);
    let volume = image.mount().unwrap();
    let root = volume.root().clone();
    let at = |start: &Node, path: &str| now(volume.resolve(start, path)).map(|node| node.extents().to_vec());
    let (top, inner) = (vec![Extent { lba: 30, bytes: 1 }], vec![Extent { lba: 31, bytes: 1 }]);
    assert_eq!(at(&root, "/sub/../sub//./in"), Ok(inner.clone()));
    assert_eq!(at(&root, "../../sub/in"), Ok(inner.clone()));
    assert_eq!(at(&root, "sub/up"), Ok(top));
    assert_eq!(at(&root, "sub/deeper/back"), Ok(inner.clone()));
    assert_eq!(at(&root, ""), Ok(root.extents().to_vec()));
    // With the directory as the root of what its holder sees, everything outside is gone.
    let sub = now(volume.resolve(&root, "sub")).unwrap();
    assert_eq!(at(&sub, "absolute"), Ok(inner));
    assert!(matches!(at(&sub, "up"), Err(Error::NotFound { .. })));
    assert!(matches!(at(&sub, "../top"), Err(Error::NotFound { .. })));
    assert_eq!(at(&sub, ".."), Ok(sub.extents().to_vec()));
    assert!(matches!(at(&root, "sub/loop"), Err(Error::TooManyLinks { .. })));
    assert!(matches!(at(&root, "sub/bomb"), Err(Error::TooManyLinks { .. })));
    assert!(matches!(at(&root, "top/x"), Err(Error::NotADirectory { .. })));
    assert!(matches!(at(&root, "sub\0"), Err(Error::BadPath { .. })));
    assert!(matches!(at(&root, &"x/".repeat(3000)), Err(Error::BadPath { .. })));
    let link = now(volume.resolve_link(&root, "sub/up")).unwrap();
    assert_eq!(link.kind(), &Kind::Link("../top".into()));
    assert!(matches!(now(volume.read(&link, 0, &mut [0; 1])), Err(Error::NotAFile)));
    assert!(matches!(now(volume.list(&link, |_| ())), Err(Error::NotADirectory { .. })));
}

#[test]
fn names_and_targets_continue_over_entries_and_areas() {
    let mut image = Image::new(100);
    let name = [nm(1, &[b'a'; 100]), ce(50, 100, 0)].concat();
    let mut record = Rec { system_use: name, ..Rec::file("", 30, 1) };
    let rest = [
        nm(0, &[b'b'; 100]),
        px(0o120_777),
        sl(1, &[(8, b""), (0, b"usr"), (1, b"li")]),
        sl(0, &[(0, b"b"), (4, b""), (0, b"x")]),
        entry(b"TF", &[2, 100, 1, 1, 0, 0, 0, 0]),
    ]
    .concat();
    let at = record.system_use.len() - 8;
    record.system_use[at..].copy_from_slice(&both32(rest.len() as u32));
    image.directory(ROOT, ROOT, &[record]);
    image.sector(50)[100..100 + rest.len()].copy_from_slice(&rest);
    let volume = image.mount().unwrap();
    let entries = now(volume.list(volume.root(), |_| ())).unwrap();
    assert_eq!(entries[0].name, format!("{}{}", "a".repeat(100), "b".repeat(100)));
    assert_eq!(entries[0].node.kind(), &Kind::Link("/usr/lib/../x".into()));
    assert_eq!(entries[0].node.mode(), 0o120_777);
    assert_eq!(entries[0].node.modified(), 946_684_800);
}

/// Makes an image of a folder; None where xorriso is not installed.
fn xorriso(folder: &Path, options: &[&str]) -> Option<tempfile::NamedTempFile> {
    let image = tempfile::NamedTempFile::new().unwrap();
    let output = Command::new("xorriso").args(options).arg("-o").arg(image.path()).arg(folder).output();
    let Ok(output) = output else {
        println!("xorriso is not installed; only volumes made by these tests were read");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(image)
}

fn sample_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir_all(at("boot/models")).unwrap();
    fs::create_dir_all(at("many")).unwrap();
    fs::create_dir_all(at("1/2/3/4/5/6/7/8/9/10")).unwrap();
    let model: Vec<u8> = (0..1_000_003u32).flat_map(u32::to_le_bytes).collect();
    fs::write(at("boot/models/builtin.gguf"), model).unwrap();
    fs::write(at("boot/empty"), "").unwrap();
    fs::write(at("boot/Grüße, with a long name that Rock Ridge keeps as it is.Txt"), "hallo").unwrap();
    fs::write(at("1/2/3/4/5/6/7/8/9/10/deep.txt"), "deep").unwrap();
    fs::write(at(&format!("many/{}", "n".repeat(250))), "long").unwrap();
    for i in 0..500 {
        fs::write(at(&format!("many/file-{i:03}.txt")), format!("number {i}")).unwrap();
    }
    fs::set_permissions(at("many/file-007.txt"), PermissionsExt::from_mode(0o750)).unwrap();
    symlink("models/builtin.gguf", at("boot/current")).unwrap();
    symlink("/1/../boot//empty", at("boot/absolute")).unwrap();
    symlink(format!("./{}", "very-long-component/".repeat(40)), at("boot/dangling")).unwrap();
    folder
}

/// Compares a directory of the volume with one of the host, and all below.
fn compare(volume: &Volume<Disk>, node: &Node, host: &Path, rock_ridge: bool) -> usize {
    let mut entries = now(volume.list(node, |_| ())).unwrap();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let mut names: Vec<String> =
        fs::read_dir(host).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(entries.iter().map(|e| e.name.clone()).collect::<Vec<_>>(), names);
    let mut count = names.len();
    for Entry { name, node } in entries {
        let path = host.join(&name);
        let meta = fs::symlink_metadata(&path).unwrap();
        if rock_ridge {
            assert_eq!(node.mode(), meta.permissions().mode(), "{name}");
            let modified = meta.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
            assert_eq!(node.modified(), modified.as_secs() as i64, "{name}");
        }
        match node.kind() {
            Kind::Directory => count += compare(volume, &node, &path, rock_ridge),
            Kind::File => {
                let mut bytes = vec![0; node.size() as usize + 10];
                let read = now(volume.read(&node, 0, &mut bytes)).unwrap();
                assert!(bytes[..read] == fs::read(&path).unwrap(), "{name}");
            }
            Kind::Link(target) => {
                // Rock Ridge has components and no doubled slashes.
                let host = fs::read_link(&path).unwrap().to_str().unwrap().replace("//", "/");
                assert_eq!(target, host.trim_end_matches('/'));
            }
            Kind::Special => assert!(!meta.is_file()),
        }
    }
    count
}

/// Requirement A02: what lies on the volume is what the host put there, byte for byte.
#[test]
fn a02_volumes_of_xorriso_are_what_was_put_on_them() {
    let folder = sample_folder();
    let variants: [&[&str]; 3] = [
        &["-as", "mkisofs", "-R", "-D"],
        &["-as", "mkisofs", "-R", "-J", "-iso-level", "3", "-V", "CAPOS"],
        // Directories deeper than ISO 9660 allows are moved.
        &["-compliance", "deep_paths_off", "-as", "mkisofs", "-R"],
    ];
    for options in variants {
        let Some(image) = xorriso(folder.path(), options) else {
            return;
        };
        let volume = Disk(image.reopen().unwrap()).mount();
        assert!(volume.has_rock_ridge());
        let root = volume.root().clone();
        let count = compare(&volume, &root, folder.path(), true);
        let summary = now(volume.check()).unwrap();
        let all = summary.directories + summary.files + summary.links + summary.specials;
        assert_eq!(all, count as u64 + 1, "{options:?}");
        let model = now(volume.resolve(&root, "/boot/current")).unwrap();
        assert_eq!(model.size(), 4_000_012);
        let empty = now(volume.resolve(&root, "boot/absolute")).unwrap();
        assert_eq!(empty.size(), 0);
    }
}

#[test]
fn volumes_without_rock_ridge_show_their_plain_names() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("boot")).unwrap();
    fs::write(folder.path().join("boot/kernel.elf"), "elf").unwrap();
    fs::write(folder.path().join("readme"), "read").unwrap();
    let Some(image) = xorriso(folder.path(), &["-as", "mkisofs", "--norock"]) else {
        return;
    };
    let volume = Disk(image.reopen().unwrap()).mount();
    assert!(!volume.has_rock_ridge());
    let root = volume.root().clone();
    assert_eq!(compare(&volume, &root, folder.path(), false), 3);
}
