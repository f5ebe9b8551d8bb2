//! Where sectors come from.

use core::future::Future;

/// A device, image or memory that gives sectors of [`crate::SECTOR`] bytes.
pub trait ReadSectors {
    /// What can go wrong there.
    type Error;

    /// Fills `buffer`, whose length is a multiple of [`crate::SECTOR`], with sectors from `lba`
    /// on. Only sectors below the count given to [`crate::Volume::mount`] are asked for.
    fn read(&self, lba: u32, buffer: &mut [u8]) -> impl Future<Output = Result<(), Self::Error>>;
}

impl<T: ReadSectors> ReadSectors for &T {
    type Error = T::Error;

    fn read(&self, lba: u32, buffer: &mut [u8]) -> impl Future<Output = Result<(), Self::Error>> {
        (**self).read(lba, buffer)
    }
}
