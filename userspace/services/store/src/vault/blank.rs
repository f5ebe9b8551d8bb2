//! A disk that is blank again.

use capos_disk_content::sample;
use capos_volume::{BLOCK, Disk, Error, Operation, Random, wipe};

/// Makes a disk of `bytes` bytes blank whose volume was made in this life or in one that ended before the volume was whole.
///
/// The keys are overwritten first, so that nothing on the disk can be read any more. Then the places that
/// [tell what a disk holds](sample) get the zeros that they had when the disk was chosen. Otherwise the disk would have unknown
/// content, and would never be written. What the volume has elsewhere stays there, sealed with a key that no longer exists.
///
/// # Errors
/// The disk fails.
pub fn make_blank<D: Disk>(disk: &mut D, bytes: u64, random: Random<'_>) -> Result<(), Error> {
    wipe(disk, random)?;
    let failed = |operation, block| move |error| Error::Disk { operation, block, error };
    let in_blocks = |bytes: u64| bytes.checked_div(BLOCK as u64).unwrap_or_default();
    for place in sample(bytes) {
        // What is less than a block at the disk's end has no volume ever written.
        for block in in_blocks(place.start)..in_blocks(place.end).min(disk.blocks()) {
            disk.write(block, &[0; BLOCK]).map_err(failed(Operation::Write, block))?;
        }
    }
    disk.flush().map_err(failed(Operation::Flush, 0))
}
