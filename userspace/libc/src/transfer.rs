//! The division of long reads and writes into calls of a file server.

/// The most that one call carries, in bytes.
pub const MAX_TRANSFER: usize = 256 << 10;
/// Long ones are divided at multiples of this in the file, in bytes. The server of homes keeps files in chunks of 60 KiB. If a chunk
/// was in two calls, it would be read or sealed twice.
const STEP: u64 = 240 << 10;

/// The bytes of the first call, at least one and at most [`MAX_TRANSFER`], of a read or write of `bytes` bytes at `offset`.
pub fn first(offset: u64, bytes: usize) -> usize {
    if bytes <= MAX_TRANSFER {
        return bytes;
    }
    let behind = offset.checked_rem(STEP).unwrap_or(0);
    usize::try_from(STEP.saturating_sub(behind)).unwrap_or(MAX_TRANSFER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls of a read or write.
    fn calls(mut offset: u64, mut bytes: usize) -> Vec<(u64, usize)> {
        let mut calls = Vec::new();
        while bytes > 0 {
            let first = first(offset, bytes);
            assert!((1..=MAX_TRANSFER.min(bytes)).contains(&first), "{first} of {bytes} bytes");
            calls.push((offset, first));
            (offset, bytes) = (offset + first as u64, bytes - first);
        }
        calls
    }

    #[test]
    fn long_transfers_are_divided_between_the_chunks_of_a_home() {
        const CHUNK: u64 = 60 << 10;
        let file = (0..64).flat_map(|call| calls(call << 20, 1 << 20));
        // A call begins within a chunk only where the program's own call does.
        let within: Vec<u64> = file.map(|(at, _)| at).filter(|at| at % CHUNK != 0).collect();
        assert!(within.iter().all(|at| at % (1 << 20) == 0), "{within:?}");
        assert_eq!(calls(7, 1 << 20).iter().map(|(_, bytes)| bytes).sum::<usize>(), 1 << 20);
        assert_eq!(calls(100, MAX_TRANSFER), [(100, MAX_TRANSFER)]);
    }
}
