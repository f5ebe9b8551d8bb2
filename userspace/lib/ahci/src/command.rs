//! The structures that a driver writes to memory for the controller: the head of a command, and the list of memory for
//! its data.

use alloc::vec::Vec;
use core::fmt;

use crate::fis;

/// Bytes of a head in the command list.
pub const HEADER_BYTES: usize = 32;
/// Where the packet is in a command table.
pub const PACKET_AT: u64 = 0x40;
/// Where the list of memory is in a command table.
pub const LIST_AT: u64 = 0x80;
/// Bytes of an entry of that list.
pub const ENTRY_BYTES: usize = 16;
/// Bytes of memory of one entry at most.
const MAX_ENTRY: u64 = 4 << 20;
/// First address that a controller without 64 bits cannot reach.
const NARROW_END: u64 = 1 << 32;

/// Words of a FIS, which a head counts it in.
const FIS_WORDS: u32 = (fis::BYTES / 4) as u32;
/// Head: a packet is with it, and data go to the drive.
const IS_PACKET: u32 = 1 << 5;
const IS_WRITE: u32 = 1 << 6;

/// Contiguous memory as the controller addresses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Its first address.
    pub address: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The kind of a command, apart from the request to the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kind {
    /// Whether it has a packet.
    pub packet: bool,
    /// Whether its data go to the drive.
    pub write: bool,
}

/// The head of a command: `table` is where its command table is, at a multiple of 128.
#[must_use]
pub fn header(kind: Kind, entries: u16, table: u64) -> [u8; HEADER_BYTES] {
    let mut flags = FIS_WORDS | (u32::from(entries) << 16);
    if kind.packet {
        flags |= IS_PACKET;
    }
    if kind.write {
        flags |= IS_WRITE;
    }
    let mut bytes = [0; HEADER_BYTES];
    let table = table.to_le_bytes();
    let words = flags.to_le_bytes().into_iter().chain([0; 4]).chain(table);
    for (byte, value) in bytes.iter_mut().zip(words) {
        *byte = value;
    }
    bytes
}

/// Why memory cannot take a command's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListError {
    /// A piece begins or ends at an odd address.
    Odd,
    /// A piece is at an address that this controller cannot reach.
    OutOfReach,
    /// There is less memory than bytes.
    Short,
    /// There are more entries than fit.
    TooMany,
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Odd => "the controller transfers to even addresses only",
            Self::OutOfReach => "the controller reaches the first 4 GiB of memory only, and this is above",
            Self::Short => "there is less memory than data",
            Self::TooMany => "the memory is in too many pieces",
        })
    }
}

/// The list of memory for `bytes` of data from `skip` bytes into `pieces` on, of `most` entries at most; `wide` if the
/// controller reaches addresses of 64 bits.
///
/// # Errors
/// The controller does not support it.
pub fn list(pieces: &[Piece], skip: u64, bytes: u64, most: u16, wide: bool) -> Result<(Vec<u8>, u16), ListError> {
    let (mut skip, mut left) = (skip, bytes);
    let (mut list, mut count) = (Vec::new(), 0_u16);
    for piece in pieces {
        let skipped = skip.min(piece.bytes);
        skip = skip.saturating_sub(skipped);
        let mut address = piece.address.checked_add(skipped).ok_or(ListError::OutOfReach)?;
        let mut here = piece.bytes.saturating_sub(skipped).min(left);
        left = left.saturating_sub(here);
        while here > 0 {
            let taken = here.min(MAX_ENTRY);
            let end = address.checked_add(taken).ok_or(ListError::OutOfReach)?;
            if !address.is_multiple_of(2) || !taken.is_multiple_of(2) {
                return Err(ListError::Odd);
            }
            if !wide && end > NARROW_END {
                return Err(ListError::OutOfReach);
            }
            if count == most {
                return Err(ListError::TooMany);
            }
            count = count.saturating_add(1);
            list.extend(address.to_le_bytes());
            list.extend([0; 4]);
            // The controller counts from 0.
            list.extend(u32::try_from(taken.saturating_sub(1)).unwrap_or(0).to_le_bytes());
            address = end;
            here = here.saturating_sub(taken);
        }
    }
    if left > 0 { Err(ListError::Short) } else { Ok((list, count)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The pieces of a list.
    fn read(list: &[u8]) -> Vec<Piece> {
        let number = |bytes: &[u8]| u32::from_le_bytes(*bytes.first_chunk().unwrap());
        let entry = |entry: &[u8]| {
            assert_eq!(number(&entry[8..]), 0, "reserved");
            let address = u64::from(number(entry)) | (u64::from(number(&entry[4..])) << 32);
            Piece { address, bytes: u64::from(number(&entry[12..])) + 1 }
        };
        list.chunks(ENTRY_BYTES).map(entry).collect()
    }

    #[test]
    fn a_head_says_what_the_controller_has_to_do() {
        let kind = Kind { packet: true, write: false };
        let head = header(kind, 0x0102, 0x1122_3344_5566_7780);
        assert_eq!(head[..16], [0x25, 0, 2, 1, 0, 0, 0, 0, 0x80, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
        assert_eq!(head[16..], [0; 16]);
        assert_eq!(header(Kind { packet: false, write: true }, 0, 0)[0], 0x45);
    }

    #[test]
    fn a_list_begins_within_a_piece_and_ends_within_another() {
        let pieces = [Piece { address: 0x1000, bytes: 0x1000 }, Piece { address: 0x1_0000_5000, bytes: 0x2000 }];
        let (list_, count) = list(&pieces, 0x800, 0x1000, 8, true).unwrap();
        assert_eq!(count, 2);
        let wanted = [Piece { address: 0x1800, bytes: 0x800 }, Piece { address: 0x1_0000_5000, bytes: 0x800 }];
        assert_eq!(read(&list_), wanted);
        let (list_, count) = list(&pieces, 0x1000, 2, 8, true).unwrap();
        assert_eq!((read(&list_), count), (alloc::vec![Piece { address: 0x1_0000_5000, bytes: 2 }], 1));
    }

    #[test]
    fn what_a_controller_cannot_do_is_refused() {
        let at = |address, bytes| [Piece { address, bytes }];
        assert_eq!(list(&at(0x1001, 64), 0, 64, 8, true), Err(ListError::Odd));
        assert_eq!(list(&at(0x1000, 64), 0, 63, 8, true), Err(ListError::Odd));
        assert_eq!(list(&at(0x1000, 64), 0, 65, 8, true), Err(ListError::Short));
        assert_eq!(list(&at(0x1000, 64), 2, 64, 8, true), Err(ListError::Short));
        assert_eq!(list(&at(u64::MAX - 1, 64), 0, 64, 8, true), Err(ListError::OutOfReach));
        assert!(list(&at(NARROW_END - 64, 64), 0, 64, 8, false).is_ok());
        assert_eq!(list(&at(NARROW_END - 62, 64), 0, 64, 8, false), Err(ListError::OutOfReach));
        assert_eq!(list(&at(0, MAX_ENTRY * 2 + 2), 0, MAX_ENTRY * 2 + 2, 2, true), Err(ListError::TooMany));
    }

    proptest! {
        #[test]
        fn a_list_is_the_memory_that_was_asked_for(
            lengths in prop::collection::vec(1_u64..6, 1..20),
            skip in 0_u64..40,
            bytes in 0_u64..120,
        ) {
            // Pieces apart from each other, and the addresses of all their halves of an entry in order.
            let unit = MAX_ENTRY / 2;
            let piece = |(at, length): (u64, &u64)| Piece { address: at << 32, bytes: length * unit };
            let pieces: Vec<Piece> = (1..).zip(&lengths).map(piece).collect();
            let halves = |pieces: &[Piece]| -> Vec<u64> {
                pieces.iter().flat_map(|piece| (0..piece.bytes / unit).map(|at| piece.address + at * unit)).collect()
            };
            let all = halves(&pieces);
            let wanted: Vec<u64> = all.iter().copied().skip(skip as usize).take(bytes as usize).collect();
            match list(&pieces, skip * unit, bytes * unit, u16::MAX, true) {
                Ok((list, count)) => {
                    let read = read(&list);
                    prop_assert_eq!(read.len(), usize::from(count));
                    prop_assert!(read.iter().all(|piece| piece.bytes <= MAX_ENTRY));
                    prop_assert_eq!(halves(&read), wanted.clone());
                    prop_assert_eq!(wanted.len() as u64, bytes);
                }
                Err(error) => {
                    prop_assert_eq!(error, ListError::Short);
                    prop_assert!((wanted.len() as u64) < bytes);
                }
            }
        }
    }
}
