//! Volumes from an attacker: no panic, no endless loop, no unbounded memory, and no write to a damaged volume that reaches
//! another file.
//!
//! `VOLUMES=100000 cargo test -p capos-transfer --test transfer hostile --release` tries that many of each kind.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use crate::support::*;
use capos_transfer::{Error, Format, Volume};

/// The most operations of the disk that all the work on one damaged volume takes. A volume that is intact takes about 150.
const MOST: u64 = 20_000;

async fn change(volume: &mut Volume<Memory>) -> Result<(), Error> {
    volume.make_folder("new folder with a long name").await?;
    let file = volume.create("new folder with a long name/file.txt").await?;
    let written = volume.write(&file, 0, &[7; 5_000]).await;
    volume.close(file).await?;
    written?;
    volume.rename("new folder with a long name/file.txt", "moved to the top.txt").await?;
    for name in ["SHORT.TXT", "A long file name with spaces.bin", "moved to the top.txt"] {
        match volume.remove_file(name).await {
            Ok(()) | Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    volume.remove_folder("new folder with a long name").await
}

#[test]
fn damaged_volumes_are_read_and_rejected_within_bounds() {
    let volumes = std::env::var("VOLUMES").ok().and_then(|number| number.parse().ok()).unwrap_or(400_u64);
    for bits in [12, 16, 32] {
        let image = image(bits);
        let (mut mounted, mut changed, mut most) = (0, 0, 0);
        for seed in 0..volumes {
            let disk = Memory::new(&image, if seed % 4 == 3 { 4096 } else { 512 });
            damage(&disk, bits, seed);
            if let Ok(mut volume) = run(Volume::mount(disk.clone(), Format::Fat, true)) {
                mounted += 1;
                walk(&mut volume);
                let rejected = run(volume.check_writable()).is_err();
                let done = run(change(&mut volume));
                changed += u64::from(done.is_ok());
                assert!(
                    !rejected || disk.state.borrow().log.is_empty(),
                    "FAT{bits}, seed {seed}: a damaged volume was written"
                );
                if !rejected {
                    // It may have lost space, but no chain has come into another one.
                    let checked = run(mount(&disk).check_writable());
                    assert!(checked.is_ok(), "FAT{bits}, seed {seed}: {done:?}, {checked:?}");
                }
            }
            let operations = disk.state.borrow().operations;
            assert!(operations < MOST, "FAT{bits}, seed {seed}: {operations} operations");
            most = most.max(operations);
        }
        println!("FAT{bits}: of {volumes} volumes {mounted} mounted, {changed} changed; {most} operations at most");
        assert!(mounted > volumes / 2 && changed > volumes / 10, "FAT{bits}: {mounted} mounted, {changed} changed");
    }
}

#[test]
fn loops_and_names_of_an_attacker() {
    for bits in [12, 16, 32] {
        let image = image(bits);
        let damaged = |cluster, to| {
            let disk = Memory::new(&image, 512);
            link(&disk, &layout(&disk, bits), cluster, to);
            disk
        };
        // Every cluster in use leads to itself, or to the first one.
        for cluster in 2..80 {
            for to in [cluster, 2, 3] {
                let disk = damaged(cluster, to);
                let Ok(mut volume) = run(Volume::mount(disk.clone(), Format::Fat, true)) else { continue };
                walk(&mut volume);
                assert!(disk.state.borrow().operations < MOST, "FAT{bits}, cluster {cluster} to {to}");
            }
        }
        // Every entry of the folder is `..`, a path, or holds an escape.
        for name in [*b"..         ", *b"A/B     TXT", *b"A\x1b[2J   TXT", *b"/ETC       "] {
            let disk = Memory::new(&image, 512);
            let at = layout(&disk, bits).root;
            for entry in 0..16 {
                disk.put(at + entry * 32, &name);
                disk.put(at + entry * 32 + 11, &[0x20]);
            }
            let mut volume = mount(&disk);
            // The walk checks each name.
            walk(&mut volume);
        }
    }
}
