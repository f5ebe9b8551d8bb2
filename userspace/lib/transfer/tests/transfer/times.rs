//! The times of files that are made and changed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use crate::support::*;

#[test]
fn files_have_the_time_at_which_they_were_written() {
    let mut volume = mount(&Memory::new(&image(16), 512));
    let mut times = Vec::new();
    for (name, now) in [("a.txt", 1_700_000_000), ("b.txt", 1_800_000_002)] {
        capos_transfer::set_time(now);
        run(async {
            let file = volume.create(name).await?;
            volume.write(&file, 0, b"content").await?;
            times.push(volume.status_of(&file).await?);
            volume.close(file).await
        })
        .unwrap();
        // FAT counts in steps of two seconds.
        assert_eq!((run(volume.status(name)).unwrap().modified, times.last().unwrap().bytes), (now, 7));
    }
    assert_eq!(run(volume.status("a.txt")).unwrap().modified, 1_700_000_000);
    run(volume.set_modified("b.txt", 1_600_000_000)).unwrap();
    assert_eq!(run(volume.status("b.txt")).unwrap().modified, 1_600_000_000);
}
