//! `cksum`: the CRC of POSIX.

use std::io::Write;
use std::process::ExitCode;

use crate::input::{Failure, each, pieces};

const POLYNOMIAL: u32 = 0x04c1_1db7;

/// The remainder for each value of a byte.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest >> 31 == 1 { (rest << 1) ^ POLYNOMIAL } else { rest << 1 };
            bit += 1;
        }
        #[allow(clippy::indexing_slicing, reason = "the loop ends at the table's end")]
        {
            table[byte] = rest;
        }
        byte += 1;
    }
    table
};

/// A checksum that grows.
#[derive(Default)]
struct Checksum {
    rest: u32,
    bytes: u64,
}

impl Checksum {
    fn byte(&mut self, byte: u8) {
        let at = usize::from(self.rest.to_be_bytes()[0] ^ byte);
        self.rest = (self.rest << 8) ^ TABLE.get(at).copied().unwrap_or_default();
    }

    fn add(&mut self, piece: &[u8]) {
        for byte in piece {
            self.byte(*byte);
        }
        self.bytes = self.bytes.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
    }

    /// The checksum, with the length after the bytes.
    fn finish(mut self) -> u32 {
        let mut length = self.bytes;
        while length > 0 {
            self.byte(length.to_le_bytes()[0]);
            length >>= 8;
        }
        !self.rest
    }
}

pub fn cksum(files: &[String], out: &mut dyn Write) -> Result<ExitCode, Failure> {
    each(files, |name, input| {
        let mut sum = Checksum::default();
        pieces(name, input, |piece| {
            sum.add(piece);
            Ok(())
        })?;
        let name = if name.is_empty() { String::new() } else { format!(" {name}") };
        let bytes = sum.bytes;
        writeln!(out, "{} {bytes}{name}", sum.finish()).map_err(Failure::Output)
    })?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_posix() {
        for (text, sum) in [("", 4_294_967_295), ("123456789", 930_766_865), ("hello\n", 3_015_617_425)] {
            let mut found = Checksum::default();
            found.add(text.as_bytes());
            assert_eq!(found.finish(), sum, "{text:?}");
        }
    }
}
