//! Disks that lie about flushes: what is written is then lost or mixed, but never returned as something else.

use std::collections::BTreeMap;

use capos_volume::sim::{Seed, SimDisk};
use capos_volume::{Access, BLOCK, Error};

use crate::common::{Model, change, content, format, open_as};

/// Each block read after such a crash is that of the state that was opened, or an error with the block's number.
#[test]
fn a_lying_flush_loses_or_is_detected() {
    let (mut rejected, mut lost, mut whole) = (0, 0, 0);
    for start in 0..400 {
        let mut seed = Seed(start);
        let mut volume = format(SimDisk::new(60, start));
        let mut model = Model::new();
        let mut states = BTreeMap::from([(volume.head().epoch, model.clone())]);
        volume.disk_mut().lies = 2;
        for _ in 0..12 {
            change(&mut volume, &mut model, &mut seed).unwrap();
            volume.sync().unwrap();
            states.insert(volume.head().epoch, model.clone());
        }
        let last = volume.head();
        let mut volume = match open_as(volume.into_disk().crash(), Access::Read, 1) {
            Ok(volume) => volume,
            Err(error) => {
                assert!(matches!(error, Error::Block { .. } | Error::DamagedHeader), "seed {start}: {error}");
                rejected += 1;
                continue;
            }
        };
        let model = &states[&volume.head().epoch];
        let mut errors = 0;
        for index in 0..volume.len() {
            let mut block = vec![1; BLOCK];
            match volume.read(index, &mut block) {
                Ok(()) => assert_eq!(block, model.get(&index).map_or(vec![0; BLOCK], |number| content(*number))),
                Err(Error::Block { .. }) => errors += 1,
                Err(error) => panic!("seed {start}: {error}"),
            }
        }
        // A state that was rolled back as a whole shows in the head alone.
        match errors {
            0 if volume.head() == last => whole += 1,
            0 => lost += 1,
            _ => rejected += 1,
        }
    }
    println!("whole {whole}, rolled back {lost}, rejected {rejected}");
    assert!(whole > 10 && lost > 10 && rejected > 10, "{whole} {lost} {rejected}");
}
