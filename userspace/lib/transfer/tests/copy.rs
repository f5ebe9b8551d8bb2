//! Copies: progress, cancelling, and going on where one stopped.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

mod support;

use std::convert::Infallible;
use std::ops::ControlFlow;

use capos_transfer::copy::{Copied, CopyError, PIECE, Progress, Source, Target, copy};
use sha2::{Digest, Sha256};
use support::{content, run};

#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    /// Bytes that came by `write`.
    written: usize,
}

impl File {
    fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), written: 0 }
    }
}

impl Source for File {
    type Error = Infallible;

    async fn size(&mut self) -> Result<u64, Infallible> {
        Ok(self.bytes.len() as u64)
    }

    async fn read(&mut self, offset: u64, most: usize) -> Result<Vec<u8>, Infallible> {
        let from = self.bytes.get(offset as usize..).unwrap_or_default();
        Ok(from[..most.min(from.len())].to_vec())
    }
}

impl Target for File {
    async fn write(&mut self, offset: u64, bytes: Vec<u8>) -> Result<(), Infallible> {
        assert_eq!(offset, self.bytes.len() as u64, "bytes come in order");
        self.written += bytes.len();
        self.bytes.extend(bytes);
        Ok(())
    }

    async fn truncate(&mut self, bytes: u64) -> Result<(), Infallible> {
        self.bytes.truncate(bytes as usize);
        Ok(())
    }
}

type Answer = Result<Copied, CopyError<Infallible, Infallible>>;

fn whole(source: &[u8], target: &mut File) -> Answer {
    run(copy(&mut File::of(source), target, u64::MAX, |_| ControlFlow::Continue(())))
}

fn copied(bytes: &[u8], resumed: usize) -> Answer {
    Ok(Copied { bytes: bytes.len() as u64, resumed: resumed as u64, digest: Sha256::digest(bytes).into() })
}

#[test]
fn a_copy_tells_how_far_it_is() {
    let bytes = content(1, 2 * PIECE + 5);
    let (mut target, mut told) = (File::default(), Vec::new());
    let done = run(copy(&mut File::of(&bytes), &mut target, u64::MAX, |progress| {
        told.push(progress);
        ControlFlow::Continue(())
    }));
    assert_eq!(done, copied(&bytes, 0));
    assert_eq!(target.bytes, bytes);
    let total = bytes.len() as u64;
    let expected = [0, PIECE as u64, 2 * PIECE as u64, total].map(|done| Progress { done, total });
    assert_eq!(told, expected);
    assert_eq!(whole(&[], &mut File::default()), copied(&[], 0));
}

#[test]
fn a_cancelled_copy_continues_where_it_stopped() {
    let bytes = content(2, 5 * PIECE);
    let mut target = File::default();
    let cancelled = run(copy(&mut File::of(&bytes), &mut target, u64::MAX, |progress| {
        if progress.done >= 2 * PIECE as u64 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }));
    let progress = Progress { done: 2 * PIECE as u64, total: 5 * PIECE as u64 };
    assert_eq!(cancelled, Err(CopyError::Cancelled(progress)));
    assert_eq!(target.bytes, bytes[..2 * PIECE]);
    target.written = 0;
    assert_eq!(whole(&bytes, &mut target), copied(&bytes, 2 * PIECE));
    assert_eq!((target.written, &target.bytes), (3 * PIECE, &bytes));
    // A piece that was cut.
    let mut target = File::of(&bytes[..PIECE + 77]);
    assert_eq!(whole(&bytes, &mut target), copied(&bytes, PIECE + 77));
    // All of it was there.
    assert_eq!(whole(&bytes, &mut target), copied(&bytes, 5 * PIECE));
}

#[test]
fn a_beginning_of_another_file_is_not_continued() {
    let bytes = content(3, 3 * PIECE);
    let mut flipped = bytes[..2 * PIECE].to_vec();
    flipped[PIECE + 9] ^= 1;
    for left in [flipped, content(4, 3 * PIECE), content(4, 4 * PIECE), [bytes.as_slice(), b"x"].concat()] {
        let mut target = File::of(&left);
        assert_eq!(whole(&bytes, &mut target), copied(&bytes, 0));
        assert_eq!(target.bytes, bytes);
    }
}

#[test]
fn a_file_that_is_too_large_or_changes_is_rejected() {
    let bytes = content(5, 100);
    let mut target = File::default();
    let limited = run(copy(&mut File::of(&bytes), &mut target, 99, |_| ControlFlow::Continue(())));
    assert_eq!(limited, Err(CopyError::TooLarge(100)));

    /// Says that it is longer than it is.
    struct Shrinks(File);
    impl Source for Shrinks {
        type Error = Infallible;
        async fn size(&mut self) -> Result<u64, Infallible> {
            Ok(self.0.bytes.len() as u64 + 1)
        }
        async fn read(&mut self, offset: u64, most: usize) -> Result<Vec<u8>, Infallible> {
            self.0.read(offset, most).await
        }
    }
    let shrunk = run(copy(&mut Shrinks(File::of(&bytes)), &mut target, u64::MAX, |_| ControlFlow::Continue(())));
    assert_eq!(shrunk, Err(CopyError::Changed));
}
