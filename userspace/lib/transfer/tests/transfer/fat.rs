//! FAT volumes: what is read, written and rejected.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use crate::support::*;
use capos_transfer::{Error, Fault, Format, Kind, MAX_FILE, MAX_GAP, Volume};

#[test]
fn files_of_another_system_are_read() {
    for bits in [12, 16, 32] {
        let mut volume = mount(&Memory::new(&image(bits), 512));
        assert_eq!(run(volume.label()).unwrap(), "STICK");
        for (name, content) in files() {
            assert_eq!(read(&mut volume, name), Ok(content.clone()), "FAT{bits} {name}");
            let status = run(volume.status(name)).unwrap();
            assert_eq!((status.kind, status.bytes), (Kind::File, content.len() as u64));
            assert!(status.modified > 1_600_000_000, "{}", status.modified);
        }
        let top = run(volume.list("/")).unwrap();
        let names: Vec<_> = top.entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["A long file name with spaces.bin", "SHORT.TXT", "docs", "empty.dat"]);
        assert_eq!(top.left_out, 0);
        assert_eq!(run(volume.status("docs/deep")).unwrap().kind, Kind::Folder);
    }
}

#[test]
fn another_system_reads_what_is_written() {
    for (bits, block) in [(12, 512), (16, 512), (32, 512), (32, 4096)] {
        let disk = Memory::new(&image(bits), block);
        let mut volume = mount(&disk);
        let text = content(9, 40_000);
        run(async {
            volume.make_folder("new folder").await?;
            let file = volume.create("new folder/Ein langer Name – größer.txt").await?;
            for (number, piece) in text.chunks(7_000).enumerate() {
                volume.write(&file, number as u64 * 7_000, piece).await?;
            }
            volume.close(file).await?;
            let file = volume.open("SHORT.TXT", true).await?;
            volume.truncate(&file, 100).await?;
            volume.close(file).await?;
            volume.rename("docs/Grüße an die Welt.txt", "new folder/moved.txt").await?;
            volume.remove_file("empty.dat").await
        })
        .unwrap();
        let image = disk.whole();
        assert_eq!(read_with_mtools(&image, "new folder/Ein langer Name – größer.txt"), text, "FAT{bits}");
        assert_eq!(read_with_mtools(&image, "SHORT.TXT"), content(2, 3_000)[..100]);
        assert_eq!(read_with_mtools(&image, "new folder/moved.txt"), content(3, 700));
        assert_eq!(run(volume.status("empty.dat")), Err(Error::NotFound("empty.dat".into())));
        // And it is whole: the check before the first write finds nothing.
        run(mount(&disk).check_writable()).unwrap();
    }
}

#[test]
fn what_was_answered_is_on_the_medium() {
    let disk = Memory::new(&image(16), 512);
    let mut volume = mount(&disk);
    let file = run(volume.create("new.txt")).unwrap();
    run(volume.write(&file, 0, b"hello")).unwrap();
    // The file is still open, and the power is cut.
    let mut later = mount(&disk.cut(usize::MAX, 0));
    assert_eq!(read(&mut later, "new.txt"), Ok(b"hello".to_vec()));
}

#[test]
fn errors_say_what_was_wrong() {
    let disk = Memory::new(&image(32), 512);
    let mut volume = mount(&disk);
    let not_found = |path: &str| Error::NotFound(path.into());
    assert_eq!(run(volume.status("none/x")), Err(not_found("none")));
    assert_eq!(run(volume.list("SHORT.TXT")), Err(Error::NotFolder("SHORT.TXT".into())));
    assert_eq!(run(volume.open("docs", false)).unwrap_err(), Error::IsFolder("docs".into()));
    assert_eq!(run(volume.create("short.txt")).unwrap_err(), Error::Exists("short.txt".into()));
    assert_eq!(run(volume.remove_folder("docs")), Err(Error::NotEmpty("docs".into())));
    assert_eq!(run(volume.rename("docs", "docs/deep/x")), Err(Error::IntoItself));
    assert!(matches!(run(volume.status("../x")), Err(Error::Path(_))));
    assert!(matches!(run(volume.status("a\u{1b}")), Err(Error::Path(_))));
    for name in ["a:b", "con.txt", "end."] {
        assert!(matches!(run(volume.make_folder(name)), Err(Error::Name(_))), "{name}");
        assert!(matches!(run(volume.create(name)), Err(Error::Name(_))), "{name}");
        assert!(matches!(run(volume.rename("SHORT.TXT", name)), Err(Error::Name(_))), "{name}");
    }
    let file = run(volume.open("SHORT.TXT", true)).unwrap();
    assert_eq!(run(volume.remove_file("SHORT.TXT")), Err(Error::Busy("SHORT.TXT".into())));
    assert_eq!(run(volume.write(&file, MAX_FILE, b"x")), Err(Error::TooLarge));
    assert_eq!(run(volume.truncate(&file, MAX_FILE + 1)), Err(Error::TooLarge));
    assert_eq!(run(volume.write(&file, 1 << 31, b"x")), Err(Error::Gap));
    assert_eq!(run(volume.truncate(&file, MAX_FILE)), Err(Error::Gap), "it could have this length");
    let size = run(volume.status_of(&file)).unwrap().bytes;
    assert_eq!(run(volume.truncate(&file, size + MAX_GAP + 1)), Err(Error::Gap));
    run(volume.close(file)).unwrap();
    let reader = run(volume.open("SHORT.TXT", false)).unwrap();
    assert!(matches!(run(volume.write(&reader, 0, b"x")), Err(Error::ReadOnly(_))));
    assert!(disk.state.borrow().log.len() < 10, "an error wrote to the volume");
}

#[test]
fn a_file_grows_by_the_longest_gap() {
    let mut volume = mount(&Memory::new(&image(32), 512));
    let file = run(volume.open("SHORT.TXT", true)).unwrap();
    let before = run(volume.status_of(&file)).unwrap().bytes;
    run(volume.truncate(&file, before + MAX_GAP)).unwrap();
    assert_eq!(run(volume.read(&file, before + MAX_GAP - 2, 100)), Ok(vec![0; 2]));
    run(volume.close(file)).unwrap();
    let faults =
        [Fault::Removed, Fault::ReadOnly, Fault::Failed("block 7 failed".into())].map(|fault| fault.to_string());
    assert_eq!(faults, ["the medium was removed", "the medium is write-protected", "block 7 failed"]);
}

#[test]
fn a_full_volume_says_so_and_loses_nothing() {
    let disk = Memory::new(&image(12), 512);
    let mut volume = mount(&disk);
    let file = run(volume.create("large")).unwrap();
    let piece = vec![7; 128 << 10];
    let full = (0..20).find_map(|number| run(volume.write(&file, number * (128 << 10), &piece)).err());
    assert_eq!(full, Some(Error::NoSpace));
    run(volume.close(file)).unwrap();
    run(volume.remove_file("large")).unwrap();
    run(mount(&disk).check_writable()).unwrap();
    for (name, content) in files() {
        assert_eq!(read(&mut volume, name), Ok(content));
    }
}

#[test]
fn nothing_is_written_to_a_protected_or_damaged_volume() {
    let image = image(16);
    let mut protected = Memory::new(&image, 512);
    protected.writable = false;
    let mut volume = mount(&protected);
    assert!(matches!(run(volume.create("x")), Err(Error::ReadOnly(_))));
    let plain = Memory::new(&image, 512);
    let mut volume = run(Volume::mount(plain.clone(), Format::Fat, false)).unwrap();
    assert!(matches!(run(volume.make_folder("x")), Err(Error::ReadOnly(_))));
    // The chains of two files meet.
    let crossed = Memory::new(&image, 512);
    let layout = layout(&crossed, 16);
    link(&crossed, &layout, 5, 50);
    let mut volume = mount(&crossed);
    for result in [
        run(volume.make_folder("x")),
        run(volume.remove_file("SHORT.TXT")),
        run(volume.rename("SHORT.TXT", "y")),
        run(volume.create("x")).map(drop),
        run(volume.open("SHORT.TXT", true)).map(drop),
        run(volume.set_modified("SHORT.TXT", 0)),
    ] {
        assert!(matches!(result, Err(Error::Damaged(_))), "{result:?}");
    }
    assert_eq!(read(&mut volume, "docs/Grüße an die Welt.txt"), Ok(content(3, 700)));
    for disk in [protected, plain, crossed] {
        assert!(disk.state.borrow().log.is_empty());
    }
}

#[test]
fn a_removed_medium_is_an_error_that_says_so() {
    let image = image(16);
    let disk = Memory::new(&image, 512);
    let mut volume = mount(&disk);
    let file = run(volume.create("new.txt")).unwrap();
    let now = disk.state.borrow().operations;
    disk.state.borrow_mut().removed_after = Some(now + 2);
    let error = run(volume.write(&file, 0, &[1; 5_000])).unwrap_err();
    assert_eq!(error, Error::Removed);
    assert!(error.to_string().contains("its medium was removed"), "{error}");
    assert_eq!(run(volume.close(file)), Err(Error::Removed));
    let mut later = mount(&disk.cut(usize::MAX, 0));
    for (name, content) in files() {
        assert_eq!(read(&mut later, name), Ok(content));
    }
}

#[test]
fn an_iso_volume_is_read_only() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("tree/sub")).unwrap();
    std::fs::write(folder.path().join("tree/sub/File.txt"), content(5, 5_000)).unwrap();
    let made = std::process::Command::new("xorriso")
        .args(["-as", "mkisofs", "-quiet", "-R", "-V", "DISC", "-o", "disc.iso", "tree"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let image = std::sync::Arc::new(std::fs::read(folder.path().join("disc.iso")).unwrap());
    for block in [512, 2048] {
        let disk = Memory::new(&image, block);
        let mut volume = run(Volume::mount(disk.clone(), Format::Iso9660, true)).unwrap();
        assert_eq!(run(volume.label()).unwrap(), "DISC");
        assert_eq!(run(volume.list("")).unwrap().entries[0].name, "sub");
        assert_eq!(read(&mut volume, "sub/File.txt"), Ok(content(5, 5_000)));
        let sub = run(volume.status("sub")).unwrap();
        assert_eq!((sub.kind, sub.bytes, run(volume.list("")).unwrap().entries[0].status), (Kind::Folder, 0, sub));
        let file = run(volume.open("sub/File.txt", false)).unwrap();
        assert_eq!(run(volume.status_of(&file)), run(volume.status("sub/File.txt")));
        assert_eq!(run(volume.status_of(&file)).unwrap().bytes, 5_000);
        for result in [
            run(volume.create("x")).map(drop),
            run(volume.open("sub/File.txt", true)).map(drop),
            run(volume.make_folder("x")),
            run(volume.remove_file("sub/File.txt")),
            run(volume.remove_folder("sub")),
            run(volume.rename("sub", "x")),
            run(volume.check_writable()),
        ] {
            assert!(matches!(result, Err(Error::ReadOnly(_))), "{result:?}");
        }
        assert!(run(volume.status("../x")).is_err());
        assert!(disk.state.borrow().log.is_empty());
    }
    assert!(run(Volume::mount(Memory::new(&image, 4096), Format::Iso9660, false)).is_err());
}
