//! A power cut loses nothing that was on the volume before, wherever it comes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use crate::support::*;
use capos_transfer::{Error, Volume};

/// Work that touches all that FAT has: new and longer files, folders, names, and space that is freed and used again.
async fn work(volume: &mut Volume<Memory>) -> Result<(), Error> {
    volume.make_folder("new folder").await?;
    let file = volume.create("new folder/report of today.txt.part").await?;
    for number in 0..3 {
        volume.write(&file, number * 3_000, &content(10 + number, 3_000)).await?;
    }
    volume.close(file).await?;
    volume.rename("new folder/report of today.txt.part", "new folder/report of today.txt").await?;
    let file = volume.create("replacement.part").await?;
    volume.write(&file, 0, &content(20, 2_000)).await?;
    volume.close(file).await?;
    volume.rename("replacement.part", "SHORT.TXT").await?;
    volume.remove_file("empty.dat").await?;
    let file = volume.create("after.bin").await?;
    volume.write(&file, 0, &content(21, 4_000)).await?;
    volume.truncate(&file, 1_000).await?;
    volume.close(file).await?;
    volume.remove_file("after.bin").await
}

#[test]
fn every_cut_leaves_the_files_that_were_there() {
    for bits in [12, 16, 32] {
        let disk = Memory::new(&image(bits), 512);
        run(work(&mut mount(&disk))).unwrap();
        let writes = disk.state.borrow().log.len();
        assert!(writes > 60, "{writes}");
        for cut in 0..=writes {
            let sectors = disk.state.borrow().log.get(cut).map_or(0, |(_, bytes)| bytes.len() / SECTOR);
            // Between two writes, and torn in the middle of one.
            for torn in [0, sectors / 2] {
                let after = disk.cut(cut, torn);
                let mut volume = mount(&after);
                let at = format!("FAT{bits}, cut after {cut} of {writes} writes and {torn} sectors");
                // These were never named by the work.
                for (name, content) in
                    files().into_iter().filter(|(name, _)| !matches!(*name, "SHORT.TXT" | "empty.dat"))
                {
                    assert_eq!(read(&mut volume, name), Ok(content), "{at}: {name}");
                }
                // FAT cannot replace atomically: between two writes, the new file has its first name only.
                let (old, new) = (content(2, 3_000), content(20, 2_000));
                let found = [read(&mut volume, "SHORT.TXT"), read(&mut volume, "replacement.part")];
                assert!(found.contains(&Ok(old)) || found.contains(&Ok(new)), "{at}: {found:?}");
                // A file has its own name only when it is complete.
                if let Ok(report) = read(&mut volume, "new folder/report of today.txt") {
                    let whole: Vec<u8> = (0..3).flat_map(|number| content(10 + number, 3_000)).collect();
                    assert_eq!(report, whole, "{at}");
                }
                // What the cut left behind is no danger to the next write.
                run(volume.check_writable()).unwrap_or_else(|error| panic!("{at}: {error}"));
            }
        }
    }
}
