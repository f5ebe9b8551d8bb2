//! The memory the answers are written to: allocated front to back, and addressed as the kernel will see it.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use crate::{HHDM, Refusal, Result};

const FULL: Refusal = Refusal("The handover to the kernel does not fit the memory set aside for it.");

/// A stretch of physical memory being filled.
pub struct Arena<'a> {
    memory: &'a mut [u8],
    phys: u64,
    used: usize,
}

impl<'a> Arena<'a> {
    /// Fills `memory`, whose first byte has the physical address `phys`.
    pub fn new(memory: &'a mut [u8], phys: u64) -> Self {
        Self { memory, phys, used: 0 }
    }

    /// Puts bytes at a multiple of 16 and gives their address in the direct map. No bytes at all: the next unaligned
    /// item begins there.
    pub fn put(&mut self, bytes: &[u8]) -> Result<u64> {
        let start = self.used.checked_next_multiple_of(16).ok_or(FULL)?;
        let end = start.checked_add(bytes.len()).ok_or(FULL)?;
        self.memory.get_mut(start..end).ok_or(FULL)?.copy_from_slice(bytes);
        self.used = end;
        self.address(start)
    }

    /// Writes 64-bit numbers, as [`Arena::put`].
    pub fn put_numbers(&mut self, numbers: &[u64]) -> Result<u64> {
        let address = self.put(&[])?;
        for &number in numbers {
            self.put_number(number)?;
        }
        Ok(address)
    }

    /// Puts one 64-bit number right after the last item, and returns its address.
    pub fn put_number(&mut self, number: u64) -> Result<u64> {
        let (start, end) = (self.used, self.used.checked_add(8).ok_or(FULL)?);
        self.memory.get_mut(start..end).ok_or(FULL)?.copy_from_slice(&number.to_le_bytes());
        self.used = end;
        self.address(start)
    }

    fn address(&self, offset: usize) -> Result<u64> {
        HHDM.checked_add(self.phys).and_then(|base| base.checked_add(offset as u64)).ok_or(FULL)
    }

    /// Puts a string with its closing zero.
    pub fn put_text(&mut self, parts: &[&[u8]]) -> Result<u64> {
        let address = self.put(&[])?;
        for &byte in parts.iter().copied().flatten().chain(&[0]) {
            *self.memory.get_mut(self.used).ok_or(FULL)? = byte;
            self.used = self.used.checked_add(1).ok_or(FULL)?;
        }
        Ok(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_aligned_and_in_the_direct_map() {
        let mut memory = [0xff; 64];
        let mut arena = Arena::new(&mut memory, 0x5000);
        assert_eq!(arena.put_text(&[b"/boot/", b"x"]).unwrap(), HHDM + 0x5000);
        assert_eq!(arena.put_numbers(&[1, 2]).unwrap(), HHDM + 0x5010);
        assert_eq!(arena.put(&[3]).unwrap(), HHDM + 0x5020);
        assert_eq!(arena.put(&[0; 16]).unwrap(), HHDM + 0x5030);
        assert_eq!(arena.put(&[1]), Err(FULL));
        assert_eq!(&memory[..8], b"/boot/x\0");
        assert_eq!(&memory[16..32], &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    }
}
