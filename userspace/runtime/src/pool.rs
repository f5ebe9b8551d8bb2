//! Buffers that the kernel writes messages into, kept for reuse by size.

use alloc::vec::Vec;

use capnp::Word;
use capos_ring::message::whole_words;

/// Sizes that are kept, in words: 1 KiB, 4 KiB, 16 KiB, 64 KiB, 320 KiB, 1 MiB.
const CLASSES: [usize; 6] = [128, 512, 2 << 10, 8 << 10, 40 << 10, 128 << 10];
/// How many buffers of each size are kept.
const KEPT: [usize; 6] = [16, 16, 8, 4, 2, 1];

/// Free buffers.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: [Vec<Vec<Word>>; CLASSES.len()],
}

impl Pool {
    /// A buffer of at least this many bytes; what is in it is left over from other messages.
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

    /// The first `bytes` of a buffer as a message of their own. A large message keeps the buffer,
    /// a small one is copied out of it so that the buffer goes back.
    pub(crate) fn cut(&mut self, mut buffer: Vec<Word>, bytes: usize) -> Vec<Word> {
        let words = whole_words(bytes).min(buffer.len());
        if words >= buffer.len() / 2 {
            buffer.truncate(words);
            return buffer;
        }
        let message = buffer.get(..words).unwrap_or_default().to_vec();
        self.give(buffer);
        message
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
        let message = pool.cut(buffer, 20);
        // Of its third word only a half would be the message's.
        assert_eq!(message.len(), 2);
        let again = pool.take(4096);
        assert_eq!(again.as_ptr(), at);
        assert_eq!(pool.take(4 << 20).len(), 512 << 10);
    }

    #[test]
    fn a_large_message_keeps_its_buffer() {
        let mut pool = Pool::default();
        let buffer = pool.take(4096);
        let at = buffer.as_ptr();
        let message = pool.cut(buffer, 4000);
        assert_eq!((message.len(), message.as_ptr()), (500, at));
        let other = pool.take(4096);
        assert_ne!(other.as_ptr(), at);
    }
}
