//! The instructions on tiles. The compiler has no names for them that are stable, and never uses tiles itself, so that
//! the setup stays until it is released.

use core::arch::asm;
use core::marker::PhantomData;

/// The sizes of the eight tiles, as the processor reads them.
#[repr(C, align(64))]
struct Sizes {
    palette: u8,
    /// Where an interrupted load continues.
    start: u8,
    nothing: [u8; 14],
    /// Bytes of a row.
    widths: [u16; 16],
    rows: [u8; 16],
}

/// Tiles as they are set up on this thread, until this is dropped.
pub struct Tiles {
    /// They are those of one thread.
    thread: PhantomData<*const ()>,
}

impl Tiles {
    /// Sets up tiles, each with its number of rows (at most 16) and of bytes in a row (at most 64).
    ///
    /// # Safety
    /// The processor has AMX, and the program may use it. There are no other [`Tiles`] on this thread.
    pub unsafe fn set_up(sizes: [(u8, u16); 8]) -> Self {
        let mut all = Sizes { palette: 1, start: 0, nothing: [0; 14], widths: [0; 16], rows: [0; 16] };
        for ((rows, width), size) in all.rows.iter_mut().zip(&mut all.widths).zip(sizes) {
            (*rows, *width) = size;
        }
        // SAFETY: 64 bytes are read; the caller guarantees that the sizes are valid.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const all, options(nostack, readonly, preserves_flags)) };
        Self { thread: PhantomData }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: the processor has AMX, or there were no tiles to set up.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) };
    }
}
