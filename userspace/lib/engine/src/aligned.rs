//! Numbers that begin where a line of the processor's cache does. Registers are as wide as a line, so that one that is
//! read or written touches one line and not two.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use bytemuck::{Pod, Zeroable, try_cast_slice, try_cast_slice_mut};

/// Bytes of a line.
const LINE: usize = 64;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// Numbers of 1, 2, 4 or 8 bytes.
#[derive(Clone)]
pub struct Aligned<T> {
    lines: Vec<Line>,
    length: usize,
    of: PhantomData<T>,
}

impl<T> Default for Aligned<T> {
    fn default() -> Self {
        Self { lines: Vec::new(), length: 0, of: PhantomData }
    }
}

impl<T: Pod> Aligned<T> {
    /// Makes it this long. Numbers that were there stay, and others may be any.
    pub fn resize(&mut self, length: usize) {
        const { assert!(LINE.is_multiple_of(size_of::<T>())) }
        let bytes = length.saturating_mul(size_of::<T>());
        self.lines.resize(bytes.div_ceil(LINE), Line::zeroed());
        self.length = length;
    }

    /// Bytes of memory that it has taken.
    pub fn bytes(&self) -> usize {
        self.lines.capacity().saturating_mul(LINE)
    }

    /// Makes it `length` zeros.
    pub fn refill(&mut self, length: usize) {
        self.lines.clear();
        self.resize(length);
    }
}

impl<T: Pod> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        try_cast_slice(&self.lines).ok().and_then(|all| all.get(..self.length)).unwrap_or_default()
    }
}

impl<T: Pod> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        try_cast_slice_mut(&mut self.lines).ok().and_then(|all| all.get_mut(..self.length)).unwrap_or_default()
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for Aligned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_with_a_line() {
        let mut numbers = Aligned::<f32>::default();
        for length in [0, 1, 15, 16, 17, 1000] {
            numbers.resize(length);
            assert_eq!(numbers.len(), length);
            assert!(numbers.as_ptr().addr().is_multiple_of(LINE));
            numbers.fill(1.0);
        }
        numbers.resize(10);
        numbers.resize(12);
        assert_eq!(*numbers, [1.0; 12]);
        numbers.refill(20);
        assert_eq!(*numbers, [0.0; 20]);
    }
}
