//! The count of wrong keys, in two blocks behind the volume. It is not sealed, since it is needed before there is a key: a
//! person with the disk in hand can set it.

use alloc::vec;

use sha2::{Digest, Sha256};

use crate::Header;
use crate::disk::{BLOCK, Disk};
use crate::entry::{put, take};
use crate::error::{Error, Operation};

/// Blocks behind the volume, each with a copy of the count.
pub const COUNTERS: u64 = 2;
const MAGIC: &[u8; 8] = b"CAPOSTRY";
const UUID_AT: usize = 8;
const COUNT_AT: usize = 24;
const CHECKSUM_AT: usize = BLOCK - 32;

fn places(header: &Header) -> [u64; 2] {
    let physical = header.geometry.physical();
    [physical, physical.saturating_add(1)]
}

/// How often a wrong key was tried since the last right one. Of two copies the higher one counts; one that is not whole, or
/// of another volume, or that the disk does not deliver, counts nothing.
///
/// # Errors
/// The disk delivers neither.
pub fn wrong_keys<D: Disk>(disk: &mut D, header: &Header) -> Result<u32, Error> {
    let (mut most, mut failed) = (0, None);
    for place in places(header) {
        let mut block = vec![0; BLOCK];
        if let Err(error) = disk.read(place, &mut block) {
            if failed.is_some() {
                return Err(Error::Disk { operation: Operation::Read, block: place, error });
            }
            failed = Some(error);
            continue;
        }
        let whole = Sha256::digest(block.get(..CHECKSUM_AT).unwrap_or_default())[..] == take::<32>(&block, CHECKSUM_AT);
        if whole && block.starts_with(MAGIC) && take::<16>(&block, UUID_AT) == header.uuid {
            most = most.max(u32::from_le_bytes(take(&block, COUNT_AT)));
        }
    }
    Ok(most)
}

/// Sets the count, durably. A power cut leaves the old or the new one, and the higher of them if it comes between the copies.
///
/// # Errors
/// The disk fails.
pub fn set_wrong_keys<D: Disk>(disk: &mut D, header: &Header, count: u32) -> Result<(), Error> {
    let mut block = vec![0; BLOCK];
    put(&mut block, 0, MAGIC);
    put(&mut block, UUID_AT, &header.uuid);
    put(&mut block, COUNT_AT, &count.to_le_bytes());
    let checksum = Sha256::digest(block.get(..CHECKSUM_AT).unwrap_or_default());
    put(&mut block, CHECKSUM_AT, &checksum);
    for place in places(header) {
        let failed = |operation, error| Error::Disk { operation, block: place, error };
        disk.write(place, &block).map_err(|error| failed(Operation::Write, error))?;
        // One copy is whole at any time.
        disk.flush().map_err(|error| failed(Operation::Flush, error))?;
    }
    Ok(())
}
