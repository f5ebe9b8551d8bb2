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
