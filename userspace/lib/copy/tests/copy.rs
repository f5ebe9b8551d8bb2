//! Copies: progress, cancelling, and going on where one stopped.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use capos_copy::{Copied, CopyError, PIECE, Progress, Source, Target, copy, is_part, part_name};
use sha2::{Digest, Sha256};

/// Runs a future that waits for nothing.
fn run<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

/// Bytes that are others for each seed and that do not repeat.
fn content(seed: u8, bytes: usize) -> Vec<u8> {
    (0_u64..).flat_map(|block| Sha256::digest([&[seed], &block.to_le_bytes()[..]].concat())).take(bytes).collect()
}

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
    // A piece that was cut. While what is there is compared, nothing is done yet.
    let (mut target, mut told) = (File::of(&bytes[..PIECE + 77]), Vec::new());
    let resumed = run(copy(&mut File::of(&bytes), &mut target, u64::MAX, |progress| {
        told.push(progress.done as usize);
        ControlFlow::Continue(())
    }));
    assert_eq!(resumed, copied(&bytes, PIECE + 77));
    assert_eq!(told, [0, 0, PIECE + 77, 2 * PIECE + 77, 3 * PIECE + 77, 4 * PIECE + 77, 5 * PIECE]);
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
    let enough = run(copy(&mut File::of(&bytes), &mut File::default(), 100, |_| ControlFlow::Continue(())));
    assert_eq!(enough, copied(&bytes, 0));

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

/// A file that returns at most this many bytes at once, and none from an offset on.
struct Gives {
    file: File,
    most: usize,
    until: u64,
}

impl Source for Gives {
    type Error = Infallible;

    async fn size(&mut self) -> Result<u64, Infallible> {
        self.file.size().await
    }

    async fn read(&mut self, offset: u64, most: usize) -> Result<Vec<u8>, Infallible> {
        let left = self.until.saturating_sub(offset) as usize;
        self.file.read(offset, most.min(self.most).min(left)).await
    }
}

impl Target for Gives {
    async fn write(&mut self, offset: u64, bytes: Vec<u8>) -> Result<(), Infallible> {
        self.file.write(offset, bytes).await
    }

    async fn truncate(&mut self, bytes: u64) -> Result<(), Infallible> {
        self.file.truncate(bytes).await
    }
}

#[test]
fn reads_may_return_less() {
    let bytes = content(6, PIECE + 300);
    let left = PIECE + 100;
    for (most, until, resumed) in [
        (1000, u64::MAX, left),
        // A source that returns less than the target had is not compared further.
        (PIECE, u64::MAX, 0),
        // A target that ends before its size is begun again.
        (1000, 5500, 0),
        (1000, 0, 0),
    ] {
        let mut target = Gives { file: File::of(&bytes[..left]), most, until };
        let mut source = Gives { file: File::of(&bytes), most: 1000, until: u64::MAX };
        let done = run(copy(&mut source, &mut target, u64::MAX, |_| ControlFlow::Continue(())));
        assert_eq!((done, &target.file.bytes), (copied(&bytes, resumed), &bytes), "{most} at once, until {until}");
    }
}

#[test]
fn files_that_are_not_complete_are_known_by_their_names() {
    for name in ["a", "report.txt", "x.part", ""] {
        assert!(is_part(&part_name(name)) && part_name(name).starts_with(name) && part_name(name) != name);
    }
    assert!(is_part("REPORT~1.PAR"), "the short name of a FAT volume");
    assert!(!is_part("report.txt") && !is_part("parts") && !is_part("part.txt"));
}
