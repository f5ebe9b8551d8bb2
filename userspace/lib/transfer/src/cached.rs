//! A disk with the pieces of it that were read last.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use crate::{Disk, Fault};

/// Bytes of a piece: short reads fetch the whole piece around them.
const PIECE: u64 = 32 << 10;
/// Pieces that are kept.
const KEPT: usize = 16;

/// A disk, of which pieces are kept in memory. A write drops the pieces that it touches.
pub struct Cached<D> {
    disk: D,
    pieces: RefCell<VecDeque<(u64, Rc<[u8]>)>>,
}

impl<D: Disk> Cached<D> {
    pub fn new(disk: D) -> Self {
        Self { disk, pieces: RefCell::default() }
    }

    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// Reads whole blocks into `out`.
    pub async fn read(&self, block: u64, out: &mut [u8]) -> Result<(), Fault> {
        let bytes = u64::from(self.disk.block_bytes());
        let per_piece = PIECE.checked_div(bytes).unwrap_or(1).max(1);
        let count = (out.len() as u64).checked_div(bytes).unwrap_or(0);
        let end = block.checked_add(count).filter(|end| *end <= self.disk.blocks());
        let end = end.ok_or_else(|| outside(block, self.disk.blocks()))?;
        let number = block.checked_div(per_piece).unwrap_or(0);
        let first = number.saturating_mul(per_piece);
        if end > first.saturating_add(per_piece) || out.len() as u64 >= PIECE {
            return copy(&self.fetch(block, count).await?, 0, out);
        }
        let at = usize::try_from(block.saturating_sub(first).saturating_mul(bytes)).unwrap_or(usize::MAX);
        if let Some(piece) = self.find(number) {
            return copy(&piece, at, out);
        }
        let count = per_piece.min(self.disk.blocks().saturating_sub(first));
        match self.fetch(first, count).await {
            Ok(piece) => {
                copy(&piece, at, out)?;
                self.keep(number, piece.into());
                Ok(())
            }
            Err(Fault::Removed) => Err(Fault::Removed),
            // Another block of the piece may be the one that cannot be read.
            Err(_) => copy(&self.fetch(block, end.saturating_sub(block)).await?, 0, out),
        }
    }

    /// Writes whole blocks.
    pub async fn write(&self, block: u64, bytes: Vec<u8>) -> Result<(), Fault> {
        let block_bytes = u64::from(self.disk.block_bytes());
        let per_piece = PIECE.checked_div(block_bytes).unwrap_or(1).max(1);
        let count = (bytes.len() as u64).checked_div(block_bytes).unwrap_or(0);
        let end = block.checked_add(count).filter(|end| *end <= self.disk.blocks());
        let end = end.ok_or_else(|| outside(block, self.disk.blocks()))?;
        self.pieces.borrow_mut().retain(|(number, _)| {
            let first = number.saturating_mul(per_piece);
            first >= end || first.saturating_add(per_piece) <= block
        });
        self.disk.write(block, bytes).await
    }

    async fn fetch(&self, block: u64, count: u64) -> Result<Vec<u8>, Fault> {
        let count = u32::try_from(count).map_err(|_| outside(block, self.disk.blocks()))?;
        self.disk.read(block, count).await
    }

    fn find(&self, number: u64) -> Option<Rc<[u8]>> {
        let mut pieces = self.pieces.borrow_mut();
        let at = pieces.iter().position(|(kept, _)| *kept == number)?;
        let piece = pieces.remove(at)?;
        let bytes = piece.1.clone();
        pieces.push_back(piece);
        Some(bytes)
    }

    fn keep(&self, number: u64, piece: Rc<[u8]>) {
        let mut pieces = self.pieces.borrow_mut();
        pieces.push_back((number, piece));
        while pieces.len() > KEPT {
            pieces.pop_front();
        }
    }
}

fn outside(block: u64, blocks: u64) -> Fault {
    Fault::Failed(format!("block {block} lies outside of the disk's {blocks} blocks"))
}

fn copy(from: &[u8], at: usize, out: &mut [u8]) -> Result<(), Fault> {
    let end = at.saturating_add(out.len());
    let part = from.get(at..end).ok_or_else(|| Fault::Failed("the disk returned too few bytes".into()))?;
    out.copy_from_slice(part);
    Ok(())
}

#[cfg(test)]
mod tests {
    use core::cell::{Cell, RefCell};
    use core::future::Future;
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};

    use super::*;

    /// A disk whose blocks hold their numbers. It counts what it reads, and one block cannot be read.
    struct Numbers {
        reads: Cell<u32>,
        bad: Option<u64>,
        written: RefCell<Vec<u64>>,
    }

    const BLOCK: usize = 512;
    const BLOCKS: u64 = 64 * 20 + 3;
    /// Blocks of a piece.
    const EACH: u64 = 64;

    impl Disk for Numbers {
        fn block_bytes(&self) -> u32 {
            BLOCK as u32
        }

        fn blocks(&self) -> u64 {
            BLOCKS
        }

        fn is_writable(&self) -> bool {
            true
        }

        async fn read(&self, block: u64, count: u32) -> Result<Vec<u8>, Fault> {
            let blocks = block..block + u64::from(count);
            assert!(count > 0 && blocks.end <= BLOCKS, "{blocks:?}");
            self.reads.set(self.reads.get() + 1);
            if self.bad.is_some_and(|bad| blocks.contains(&bad)) {
                return Err(Fault::Failed("it is bad".into()));
            }
            let more = if self.written.borrow().is_empty() { 0 } else { 7 };
            Ok(blocks.flat_map(|block| [(block as u8).wrapping_add(more); BLOCK]).collect())
        }

        async fn write(&self, block: u64, _: Vec<u8>) -> Result<(), Fault> {
            self.written.borrow_mut().push(block);
            Ok(())
        }
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("it waits"),
        }
    }

    fn cached(bad: Option<u64>) -> Cached<Numbers> {
        Cached::new(Numbers { reads: Cell::new(0), bad, written: RefCell::default() })
    }

    /// Reads blocks: the first byte of each, and how often the disk was read for them.
    fn read(cached: &Cached<Numbers>, block: u64, count: usize) -> (Result<Vec<u8>, Fault>, u32) {
        let mut out = alloc::vec![0; count * BLOCK];
        cached.disk.reads.set(0);
        let done = run(cached.read(block, &mut out));
        let blocks = out.chunks(BLOCK).map(|block| block.first().copied().unwrap_or_default());
        (done.map(|()| blocks.collect()), cached.disk.reads.get())
    }

    fn numbers(block: u64, count: usize) -> Vec<u8> {
        (block..).take(count).map(|block| block as u8).collect()
    }

    #[test]
    fn the_pieces_read_last_are_kept() {
        let cached = cached(None);
        for round in 0..3 {
            for piece in 0..KEPT as u64 {
                let (at, reads) = (piece * EACH + 57 + round, u32::from(round == 0));
                assert_eq!(read(&cached, at, 5), (Ok(numbers(at, 5)), reads), "round {round}, piece {piece}");
            }
        }
        // One more takes the place of the one that was not read for longest.
        read(&cached, 0, 1).0.unwrap();
        assert_eq!(read(&cached, KEPT as u64 * EACH, 1).1, 1);
        assert_eq!((read(&cached, 0, 1).1, read(&cached, 2 * EACH, 1).1), (0, 0));
        assert_eq!(read(&cached, EACH, 1), (Ok(numbers(EACH, 1)), 1));
        assert_eq!(cached.pieces.borrow().len(), KEPT);
    }

    #[test]
    fn long_reads_and_those_of_two_pieces_are_not_kept() {
        let cached = cached(None);
        for (block, count) in [(EACH - 1, 2), (EACH, EACH as usize), (5, 200)] {
            for _ in 0..2 {
                assert_eq!(read(&cached, block, count), (Ok(numbers(block, count)), 1), "{count} from {block}");
            }
        }
        assert!(cached.pieces.borrow().is_empty());
        // The last piece is shorter.
        assert_eq!(read(&cached, BLOCKS - 2, 2), (Ok(numbers(BLOCKS - 2, 2)), 1));
        assert_eq!(read(&cached, BLOCKS - 3, 3), (Ok(numbers(BLOCKS - 3, 3)), 0));
        for (block, count) in [(BLOCKS, 1), (BLOCKS - 1, 2), (u64::MAX, 2)] {
            assert!(matches!(read(&cached, block, count), (Err(Fault::Failed(_)), 0)));
        }
    }

    #[test]
    fn a_bad_block_spoils_no_other() {
        let cached = cached(Some(10));
        assert_eq!(read(&cached, 11, 2), (Ok(numbers(11, 2)), 2));
        assert_eq!(read(&cached, 9, 2), (Err(Fault::Failed("it is bad".into())), 2));
    }

    #[test]
    fn what_is_written_is_read_again() {
        for (block, blocks, forgotten) in [
            (EACH, 1, [false, true, false]),
            (2 * EACH - 1, 1, [false, true, false]),
            (EACH - 1, 2, [true, true, false]),
            (0, 3 * EACH, [true; 3]),
            (5 * EACH, 1, [false; 3]),
        ] {
            let cached = cached(None);
            for piece in 0..3 {
                read(&cached, piece * EACH, 1).0.unwrap();
            }
            run(cached.write(block, alloc::vec![0; blocks as usize * BLOCK])).unwrap();
            let reads = [0, 1, 2].map(|piece| read(&cached, piece * EACH, 1).1 == 1);
            assert_eq!(reads, forgotten, "{blocks} blocks from {block}");
            assert_eq!(*cached.disk.written.borrow(), [block]);
        }
        assert!(run(cached(None).write(BLOCKS, alloc::vec![0; BLOCK])).is_err());
    }
}
