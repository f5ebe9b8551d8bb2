//! The register FIS from host to drive: an ATA command.

/// Bytes of it.
pub const BYTES: usize = 20;
/// Its type.
const REGISTER_HOST_TO_DEVICE: u8 = 0x27;
/// That it is a command, and no change of the control register.
const IS_COMMAND: u8 = 0x80;
/// Device register: the sector number is linear, not a cylinder.
const LBA: u8 = 0x40;

/// Sectors that one command reads or writes at most.
pub const MAX_SECTORS: u32 = 0x1_0000;
/// First number of a sector that no command can name.
pub const SECTORS_END: u64 = 1 << 48;

/// Commands (ATA8-ACS).
mod code {
    pub const READ_DMA_EXT: u8 = 0x25;
    pub const WRITE_DMA_EXT: u8 = 0x35;
    pub const WRITE_DMA_FUA_EXT: u8 = 0x3d;
    pub const PACKET: u8 = 0xa0;
    pub const IDENTIFY_PACKET_DEVICE: u8 = 0xa1;
    pub const FLUSH_CACHE_EXT: u8 = 0xea;
    pub const IDENTIFY_DEVICE: u8 = 0xec;
}

/// PACKET, features: by DMA, and from the drive.
const DMA: u8 = 1;
const FROM_DRIVE: u8 = 1 << 2;

/// A command for a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fis(pub [u8; BYTES]);

impl Fis {
    fn command(code: u8, features: u8, device: u8) -> Self {
        let mut bytes = [0; BYTES];
        let head = [REGISTER_HOST_TO_DEVICE, IS_COMMAND, code, features, 0, 0, 0, device];
        for (byte, value) in bytes.iter_mut().zip(head) {
            *byte = value;
        }
        Self(bytes)
    }

    /// Asks a disk to identify itself.
    #[must_use]
    pub fn identify_device() -> Self {
        Self::command(code::IDENTIFY_DEVICE, 0, 0)
    }

    /// Asks a drive that takes packets to identify itself.
    #[must_use]
    pub fn identify_packet_device() -> Self {
        Self::command(code::IDENTIFY_PACKET_DEVICE, 0, 0)
    }

    /// That a packet follows. With `data` its data come from the drive, by DMA; a drive that has to know the
    /// direction wants `direction`.
    #[must_use]
    pub fn packet(data: bool, direction: bool) -> Self {
        let features = match (data, direction) {
            (false, _) => 0,
            (true, false) => DMA,
            (true, true) => DMA | FROM_DRIVE,
        };
        Self::command(code::PACKET, features, 0)
    }

    /// Reads sectors of a disk, 1 to [`MAX_SECTORS`] from one below [`SECTORS_END`] on.
    #[must_use]
    pub fn read(sector: u64, count: u32) -> Option<Self> {
        Self::command(code::READ_DMA_EXT, 0, LBA).sectors(sector, count)
    }

    /// Writes them.
    #[must_use]
    pub fn write(sector: u64, count: u32) -> Option<Self> {
        Self::command(code::WRITE_DMA_EXT, 0, LBA).sectors(sector, count)
    }

    /// Writes them to the medium, past the disk's cache.
    #[must_use]
    pub fn write_durably(sector: u64, count: u32) -> Option<Self> {
        Self::command(code::WRITE_DMA_FUA_EXT, 0, LBA).sectors(sector, count)
    }

    /// Makes written data durable.
    #[must_use]
    pub fn flush() -> Self {
        Self::command(code::FLUSH_CACHE_EXT, 0, LBA)
    }

    fn sectors(mut self, sector: u64, count: u32) -> Option<Self> {
        let end = sector.checked_add(u64::from(count))?;
        if count == 0 || count > MAX_SECTORS || end > SECTORS_END {
            return None;
        }
        let [zero, one, two, three, four, five, ..] = sector.to_le_bytes();
        // The most of them is written as 0.
        let [low, high, ..] = count.to_le_bytes();
        let places = [(4, zero), (5, one), (6, two), (8, three), (9, four), (10, five), (12, low), (13, high)];
        for (place, value) in places {
            *self.0.get_mut(place)? = value;
        }
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_are_named_with_48_bits() {
        let Fis(bytes) = Fis::read(0x0605_0403_0201, 0x0807).unwrap();
        assert_eq!(bytes, [0x27, 0x80, 0x25, 0, 1, 2, 3, 0x40, 4, 5, 6, 0, 7, 8, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Fis::write(1, 1).unwrap().0.get(2), Some(&0x35));
        assert_eq!(Fis::write_durably(1, 1).unwrap().0.get(2), Some(&0x3d));
        assert_eq!(Fis::write_durably(0, 0), None);
    }

    #[test]
    fn what_a_command_cannot_say_is_none() {
        let Fis(most) = Fis::read(0, MAX_SECTORS).unwrap();
        assert_eq!(most.get(12..14), Some(&[0, 0][..]));
        assert_eq!(Fis::read(0, 0), None);
        assert_eq!(Fis::read(0, MAX_SECTORS + 1), None);
        assert!(Fis::read(SECTORS_END - 1, 1).is_some());
        assert_eq!(Fis::read(SECTORS_END - 1, 2), None);
        assert_eq!(Fis::read(u64::MAX, 1), None);
    }

    #[test]
    fn a_packet_says_how_its_data_go() {
        let features = |fis: Fis| fis.0.get(2..4).map(<[u8]>::to_vec).unwrap();
        assert_eq!(features(Fis::packet(false, true)), [0xa0, 0]);
        assert_eq!(features(Fis::packet(true, false)), [0xa0, 1]);
        assert_eq!(features(Fis::packet(true, true)), [0xa0, 5]);
    }
}
