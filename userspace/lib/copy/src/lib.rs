//! Copies of one file, in pieces, that can be cancelled and continue later.
//!
//! A copy goes to a file of its own next to its destination ([`part_name`]); the caller renames it when it is complete. If such
//! a file is left from an earlier attempt, the copy continues behind it, provided that its bytes are those of the source:
//! the SHA-256 digests of both beginnings are compared. The source may have changed meanwhile, and the file may be another.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

#[cfg(feature = "clients")]
mod clients;

use alloc::string::String;
use alloc::vec::Vec;
use core::future::Future;
use core::ops::ControlFlow;

use sha2::{Digest, Sha256};

/// Bytes that are copied at once. Between two pieces a copy can be cancelled.
pub const PIECE: usize = 128 << 10;
/// What the name of a file that is not complete ends with.
const PART: &str = ".part";
/// The same on a FAT volume if only the short name is left.
const SHORT_PART: &str = ".PAR";

/// The name of the file that a copy to `name` is made in.
#[must_use]
pub fn part_name(name: &str) -> String {
    [name, PART].concat()
}

/// Whether a file of this name is a copy that is not complete.
#[must_use]
pub fn is_part(name: &str) -> bool {
    name.ends_with(PART) || name.ends_with(SHORT_PART)
}

/// A file that is read.
pub trait Source {
    /// What goes wrong there.
    type Error;

    /// Its length in bytes.
    fn size(&mut self) -> impl Future<Output = Result<u64, Self::Error>>;

    /// At most `most` bytes from `offset` on; none at the end only.
    fn read(&mut self, offset: u64, most: usize) -> impl Future<Output = Result<Vec<u8>, Self::Error>>;
}

/// A file that is written. It is also read, for what an earlier attempt left there.
pub trait Target: Source {
    /// Writes all bytes.
    fn write(&mut self, offset: u64, bytes: Vec<u8>) -> impl Future<Output = Result<(), Self::Error>>;

    /// Cuts the file.
    fn truncate(&mut self, bytes: u64) -> impl Future<Output = Result<(), Self::Error>>;
}

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that the destination has.
    pub done: u64,
    /// Bytes of the source.
    pub total: u64,
}

/// A copy that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes that an earlier attempt had copied.
    pub resumed: u64,
    /// SHA-256 of the file.
    pub digest: [u8; 32],
}

/// Why a copy is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyError<S, T> {
    Source(S),
    Target(T),
    /// The source has this many bytes, more than the destination holds.
    TooLarge(u64),
    /// The source became shorter while it was copied.
    Changed,
    /// The caller cancelled it; what is there stays for the next attempt.
    Cancelled(Progress),
}

/// Copies a file, of `limit` bytes at most.
///
/// # Errors
/// [`CopyError`]. What was copied stays in the target for another attempt.
pub async fn copy<S: Source, T: Target>(
    source: &mut S,
    target: &mut T,
    limit: u64,
    mut progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Copied, CopyError<S::Error, T::Error>> {
    let total = source.size().await.map_err(CopyError::Source)?;
    if total > limit {
        return Err(CopyError::TooLarge(total));
    }
    let mut digest = Sha256::new();
    let mut tell = |done| match progress(Progress { done, total }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(CopyError::Cancelled(Progress { done, total })),
    };
    let left = target.size().await.map_err(CopyError::Target)?;
    let mut done = 0_u64;
    if left <= total {
        let mut there = Sha256::new();
        while done < left {
            tell(0)?;
            let most = usize::try_from(left.saturating_sub(done)).unwrap_or(PIECE).min(PIECE);
            let ours = target.read(done, most).await.map_err(CopyError::Target)?;
            let theirs = source.read(done, ours.len()).await.map_err(CopyError::Source)?;
            there.update(&ours);
            digest.update(&theirs);
            if ours.is_empty() || ours.len() != theirs.len() {
                break;
            }
            done = done.saturating_add(ours.len() as u64);
        }
        if there.finalize() != digest.clone().finalize() {
            done = 0;
        }
    }
    if done < left {
        target.truncate(0).await.map_err(CopyError::Target)?;
        done = 0;
        digest = Sha256::new();
    }
    let resumed = done;
    while done < total {
        tell(done)?;
        let most = usize::try_from(total.saturating_sub(done)).unwrap_or(PIECE).min(PIECE);
        let bytes = source.read(done, most).await.map_err(CopyError::Source)?;
        if bytes.is_empty() {
            return Err(CopyError::Changed);
        }
        digest.update(&bytes);
        let count = bytes.len() as u64;
        target.write(done, bytes).await.map_err(CopyError::Target)?;
        done = done.saturating_add(count);
    }
    tell(done)?;
    Ok(Copied { bytes: total, resumed, digest: digest.finalize().into() })
}
