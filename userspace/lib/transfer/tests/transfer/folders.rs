//! Folders of an attacker that lie in themselves, in one below them, or in two places: the volume is still a tree of its
//! folders, and is never written.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use crate::support::*;
use capos_transfer::{Error, Format, Kind, Volume};

const ENTRY: u64 = 32;

/// An image of which folders can be given further names.
struct Image {
    disk: Memory,
    layout: Layout,
}

impl Image {
    fn new(bits: u32) -> Self {
        let disk = Memory::new(&image(bits), 512);
        let layout = layout(&disk, bits);
        Self { disk, layout }
    }

    /// Where the cluster of a folder begins.
    fn start(&self, cluster: u64) -> u64 {
        if cluster == 0 { self.layout.root } else { self.layout.data + (cluster - 2) * self.layout.cluster }
    }

    fn entry(&self, at: u64) -> [u8; 32] {
        let mut entry = [0; 32];
        self.disk.get(at, &mut entry);
        entry
    }

    /// Where the entry of this short name is in a folder, or with an empty name the first free place.
    fn find(&self, folder: u64, name: &str) -> u64 {
        let name = format!("{name:11}");
        let is_it = |at: &u64| match name.trim() {
            "" => self.entry(*at)[0] == 0,
            _ => self.entry(*at)[..11] == *name.as_bytes(),
        };
        (0..16).map(|number| self.start(folder) + number * ENTRY).find(is_it).unwrap()
    }

    /// The cluster of a folder by its path.
    fn cluster(&self, path: &[&str]) -> u64 {
        path.iter().fold(0, |folder, name| self.disk.u16(self.find(folder, name) + 26))
    }

    /// Gives the folder at `cluster` one more name, in another folder.
    fn name(&self, folder: u64, name: &str, cluster: u64) {
        let mut entry = [0; 32];
        entry[..11].copy_from_slice(format!("{name:11}").as_bytes());
        entry[11] = 0x10;
        entry[26..28].copy_from_slice(&(cluster as u16).to_le_bytes());
        self.disk.put(self.find(folder, ""), &entry);
    }

    /// Makes `cluster` a folder in the one at `above`, without a name yet.
    fn make(&self, cluster: u64, above: u64) {
        self.disk.put(self.start(cluster), &[0; SECTOR]);
        for (place, (name, target)) in [(".          ", cluster), ("..         ", above)].into_iter().enumerate() {
            let mut entry = [0; 32];
            entry[..11].copy_from_slice(name.as_bytes());
            entry[11] = 0x10;
            entry[26..28].copy_from_slice(&(target as u16).to_le_bytes());
            self.disk.put(self.start(cluster) + place as u64 * ENTRY, &entry);
        }
        link(&self.disk, &self.layout, cluster, 0x0fff_ffff);
    }
}

/// The folders that somebody finds who walks through all of them without looking out for loops, and how many are rejected.
fn walk_all(volume: &mut Volume<Memory>) -> (usize, Vec<Error>) {
    let (mut folders, mut found, mut rejected) = (vec![String::new()], 0, Vec::new());
    while let Some(folder) = folders.pop() {
        found += 1;
        assert!(found < 10_000, "the walk does not end");
        match run(volume.list(&folder)) {
            Ok(listing) => folders.extend(
                listing
                    .entries
                    .iter()
                    .filter(|entry| entry.status.kind == Kind::Folder)
                    .map(|entry| format!("{folder}/{}", entry.name)),
            ),
            Err(error) => rejected.push(error),
        }
    }
    (found, rejected)
}

#[test]
fn a_folder_that_leads_to_itself_or_to_one_above_is_rejected() {
    for bits in [12, 16, 32] {
        for (within, to) in [
            (&["DOCS"][..], &["DOCS"][..]),
            (&["DOCS", "DEEP"], &["DOCS"]),
            (&["DOCS", "DEEP", "ER"], &["DOCS", "DEEP"]),
            // Not above it, but in another place.
            (&["DOCS"], &["DOCS", "DEEP", "ER"]),
            (&[], &["DOCS", "DEEP"]),
        ] {
            let image = Image::new(bits);
            image.name(image.cluster(within), "LOOP", image.cluster(to));
            let mut volume = mount(&image.disk);
            let path = [&within.join("/"), "LOOP"].join("/");
            for error in [
                run(volume.list(&path)).unwrap_err(),
                run(volume.status(&path)).unwrap_err(),
                run(volume.status(&format!("{path}/deep/x"))).unwrap_err(),
                run(volume.open(&format!("{path}/x"), false)).unwrap_err(),
            ] {
                let told = error.to_string();
                assert!(
                    told.contains("LOOP` lies in another folder by its own entry `..`"),
                    "FAT{bits}, {path}: {told}"
                );
            }
            // All else is read. Four folders are there, and the fifth is rejected.
            let (found, rejected) = walk_all(&mut volume);
            assert_eq!((found, rejected.len()), (5, 1), "FAT{bits}, {path}: {rejected:?}");
            for (name, content) in files() {
                assert_eq!(read(&mut volume, name), Ok(content), "FAT{bits}, {path}");
            }
            let refused = run(volume.make_folder("new"));
            assert!(matches!(refused, Err(Error::Damaged(_))), "FAT{bits}, {path}: {refused:?}");
            assert!(image.disk.state.borrow().log.is_empty());
            // What was rejected does not stay open in the driver, which has room for 1,024 files and folders.
            for _ in 0..1_100 {
                run(volume.status(&path)).unwrap_err();
            }
            run(volume.status("docs/deep/er")).unwrap();
        }
    }
}

/// Folders with two names each, in one folder: those who walk find two to the power of the depth, unless one name is left out.
#[test]
fn a_folder_with_many_names_is_listed_once() {
    const DEPTH: u64 = 20;
    for bits in [16, 32] {
        let image = Image::new(bits);
        // Clusters behind those that are in use.
        let (first, mut above) = (1000, 0);
        for cluster in first..first + DEPTH {
            image.make(cluster, above);
            for name in ["ONE", "TWO", "THREE"] {
                image.name(above, name, cluster);
            }
            above = cluster;
        }
        let disk = image.disk;
        let mut volume = mount(&disk);
        let listed = run(volume.list("one/one")).unwrap();
        assert_eq!((listed.entries.len(), listed.left_out), (1, 2));
        let (found, rejected) = walk_all(&mut volume);
        assert_eq!((found, rejected), (4 + DEPTH as usize, Vec::new()), "FAT{bits}");
        assert!(disk.state.borrow().operations < 2_000, "{}", disk.state.borrow().operations);
        assert!(matches!(run(volume.make_folder("new")), Err(Error::Damaged(_))));
    }
}

#[test]
fn a_folder_of_a_disc_with_two_names_is_listed_once() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        std::fs::create_dir_all(folder.path().join("tree").join(name)).unwrap();
        std::fs::write(folder.path().join("tree").join(name).join("file.txt"), name).unwrap();
    }
    let made = std::process::Command::new("xorriso")
        .args(["-as", "mkisofs", "-quiet", "-R", "-V", "DISC", "-o", "disc.iso", "tree"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut image = std::fs::read(folder.path().join("disc.iso")).unwrap();
    let names = |image: Vec<u8>| {
        let disk = Memory::new(&std::sync::Arc::new(image), 512);
        let mut volume = run(Volume::mount(disk, Format::Iso9660, false)).unwrap();
        let listing = run(volume.list("")).unwrap();
        (listing.entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>(), listing.left_out)
    };
    assert_eq!(names(image.clone()), (vec!["one".into(), "two".into()], 0));
    // The place of `one` and its length go into the record of `two`.
    let record = |name: &[u8]| image.windows(4).position(|part| part[0] == 3 && part[1..] == *name).unwrap() - 32;
    let (one, two) = (record(b"ONE"), record(b"TWO"));
    image.copy_within(one + 2..one + 18, two + 2);
    assert_eq!(names(image), (vec!["one".into()], 1));
}
