//! Reading small files of the boot medium.

use alloc::format;
use alloc::vec::Vec;
use capos_rt::{Context, Error};
use capos_schema::storage::{DirectoryClient, ReadOnlyFileClient};

/// Bytes of one read.
const PIECE: u32 = 32 * 1024;

/// Reads `bytes` of a file from `offset` on, or less if it ends before.
///
/// # Errors
/// The medium's, or there is no memory for that many bytes.
pub async fn read_range(file: &ReadOnlyFileClient, offset: u64, bytes: usize) -> Result<Vec<u8>, Error> {
    let mut data = Vec::new();
    // All at once: a large header that grows would need twice its room meanwhile, and running out of it ends the
    // process.
    data.try_reserve_exact(bytes)
        .map_err(|_| Error::new(format!("there is not enough memory to read {bytes} bytes of it")))?;
    while data.len() < bytes {
        let left = u32::try_from(bytes.saturating_sub(data.len())).unwrap_or(u32::MAX).min(PIECE);
        let piece = file.read(offset.saturating_add(data.len() as u64), left).await?;
        if piece.is_empty() {
            break;
        }
        data.extend_from_slice(&piece);
    }
    Ok(data)
}

/// Reads a whole file of at most `limit` bytes.
///
/// # Errors
/// It does not exist or is larger.
pub async fn read_file(medium: &DirectoryClient, path: &str, limit: usize) -> Result<Vec<u8>, Error> {
    let file = medium.open(path).await.with_context(|| format!("opening {path}"))?;
    let data = read_range(&file, 0, limit.saturating_add(1)).await.with_context(|| format!("reading {path}"))?;
    if data.len() > limit {
        return Err(Error::new(format!("{path} has more than the {limit} bytes that are read")));
    }
    Ok(data)
}
