//! Buffers that the kernel writes messages into, kept for reuse by size.

use alloc::boxed::Box;
use alloc::vec::Vec;

use capnp::Word;
use capos_ring::message::Lent;
use capos_schema::cap::RESULTS;

/// Sizes of kept buffers, in 8-byte words: 1 KiB, 4 KiB, 16 KiB, 64 KiB, 128 KiB, 320 KiB with the header of a call, 1 MiB.
/// File servers receive calls of 320 KiB. If such a call took a buffer of 1 MiB, the store's answer would find none that is kept, and each
/// read of a large file would make and clear another one.
const CLASSES: [usize; 7] = [128, 512, 2 << 10, 8 << 10, 16 << 10, (40 << 10) + 8, 128 << 10];
/// How many buffers of each size are kept; those of the usual one are, with other lent memory.
const KEPT: [usize; 7] = [16, 16, 8, 0, 2, 2, 1];

/// How much else that operations lend is kept.
const LENT: usize = 32;
/// The size that most operations want, in 8-byte words: that of a call's results. Each larger buffer than the size
/// below serves for it. Then how many of it are kept.
pub(crate) const USUAL: usize = CLASSES[3];
const BELOW: usize = CLASSES[2];
const WHOLE: usize = 4;
const _: () = assert!(USUAL == RESULTS as usize / 8, "most calls have room for that");

/// Free buffers.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "they go to operations and come back by their address")]
pub(crate) struct Pool {
    free: [Vec<Vec<Word>>; CLASSES.len()],
    /// With buffers of the usual size.
    whole: Vec<Box<Lent>>,
    /// Without buffers.
    lent: Vec<Box<Lent>>,
}

impl Pool {
    /// A buffer of at least this many bytes; its content is left over from other messages.
    pub(crate) fn take(&mut self, bytes: usize) -> Vec<Word> {
        let words = bytes.div_ceil(8);
        for (size, free) in CLASSES.iter().zip(&mut self.free) {
            if *size >= words {
                return free.pop().unwrap_or_else(|| Word::allocate_zeroed_vec(*size));
            }
        }
        Word::allocate_zeroed_vec(words)
    }

    /// Keeps a buffer for later, or frees it.
    pub(crate) fn give(&mut self, buffer: Vec<Word>) {
        for ((size, kept), free) in CLASSES.iter().zip(KEPT).zip(&mut self.free) {
            if *size == buffer.len() && free.len() < kept {
                free.push(buffer);
                return;
            }
        }
    }

    /// The memory that an operation lends: a buffer of at least this many bytes to receive into, and an
    /// array for capabilities if one is left over.
    #[inline]
    pub(crate) fn lend(&mut self, bytes: usize) -> Box<Lent> {
        if bytes > BELOW * 8
            && bytes <= USUAL * 8
            && let Some(lent) = self.whole.pop()
        {
            return lent;
        }
        let mut lent = self.lent.pop().unwrap_or_default();
        if bytes > 0 {
            lent.received = self.take(bytes);
        }
        lent
    }

    /// Keeps lent memory for later, or frees it. It holds nothing any more that was sent.
    #[inline]
    pub(crate) fn give_lent(&mut self, mut lent: Box<Lent>) {
        if lent.received.len() == USUAL && self.whole.len() < WHOLE {
            self.whole.push(lent);
            return;
        }
        let received = core::mem::take(&mut lent.received);
        if !received.is_empty() {
            self.give(received);
        }
        if self.lent.len() < LENT {
            self.lent.push(lent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back() {
        let mut pool = Pool::default();
        let buffer = pool.take(3000);
        assert_eq!(buffer.len(), 512);
        let at = buffer.as_ptr();
        pool.give(buffer);
        let again = pool.take(4096);
        assert_eq!(again.as_ptr(), at);
        assert_eq!(pool.take(4 << 20).len(), 512 << 10);
    }

    #[test]
    fn what_is_lent_comes_back() {
        let mut pool = Pool::default();
        for bytes in [USUAL * 8, 17 << 10, 100] {
            let lent = pool.lend(bytes);
            let at = lent.received.as_ptr();
            pool.give_lent(lent);
            let again = pool.lend(bytes);
            assert_eq!(again.received.as_ptr(), at);
            assert!(again.received.len() * 8 >= bytes);
            pool.give_lent(again);
        }
        // Both of the usual size were one.
        assert_eq!((pool.whole.len(), pool.lent.len()), (1, 1));
    }
}
