//! Reading the beginning of a file from front to back.

use crate::GgufError;

/// A place in the file. It distinguishes bytes that were not given yet from bytes that do not exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    file_size: u64,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8], file_size: u64) -> Self {
        // Bytes past the file's end do not belong to the file.
        let within = usize::try_from(file_size).unwrap_or(usize::MAX).min(bytes.len());
        Self { bytes: bytes.get(..within).unwrap_or(bytes), at: 0, file_size }
    }

    /// Bytes from the start of the file.
    pub fn offset(&self) -> u64 {
        self.at as u64
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: u64, what: &'static str) -> Result<&'a [u8], GgufError> {
        let offset = self.offset();
        let end = self.must_exist(count, what)?;
        let found = usize::try_from(end).ok().and_then(|end| Some((end, self.bytes.get(self.at..end)?)));
        let Some((end, bytes)) = found else {
            return Err(match end {
                _ if end > crate::limits::METADATA_BYTES => GgufError::TooLarge {
                    what: "the end of the metadata",
                    offset,
                    found: end,
                    limit: crate::limits::METADATA_BYTES,
                },
                _ => GgufError::NeedMore { bytes: self.suggestion(end) },
            });
        };
        self.at = end;
        Ok(bytes)
    }

    /// Checks that the file has `count` more bytes, whether they were given or not, and gives
    /// where they end.
    pub fn must_exist(&self, count: u64, what: &'static str) -> Result<u64, GgufError> {
        let offset = self.offset();
        offset.checked_add(count).filter(|end| *end <= self.file_size).ok_or(GgufError::CutOff {
            what,
            offset,
            bytes: count,
        })
    }

    /// At least `end`, and twice what there was, so that few rounds are needed.
    fn suggestion(&self, end: u64) -> u64 {
        end.max((self.bytes.len() as u64).saturating_mul(2)).min(self.file_size)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], GgufError> {
        let bytes = self.take(N as u64, what)?;
        Ok(bytes.first_chunk().copied().unwrap_or([0; N]))
    }

    pub fn magic(&mut self) -> Result<[u8; 4], GgufError> {
        self.array("the magic number")
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, GgufError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self, what: &'static str) -> Result<u64, GgufError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A number that must not be past `limit`.
    pub fn count(&mut self, what: &'static str, limit: u64) -> Result<u64, GgufError> {
        let offset = self.offset();
        let found = self.u64(what)?;
        if found > limit {
            return Err(GgufError::TooLarge { what, offset, found, limit });
        }
        Ok(found)
    }

    /// Text with its length before it.
    pub fn text(&mut self, what: &'static str, limit: u64) -> Result<&'a str, GgufError> {
        let bytes = self.bytes_with_length(what, limit)?;
        let offset = self.offset();
        core::str::from_utf8(bytes)
            .map_err(|_| GgufError::NotText { what, offset: offset.saturating_sub(bytes.len() as u64) })
    }

    /// Bytes with their length before them.
    pub fn bytes_with_length(&mut self, what: &'static str, limit: u64) -> Result<&'a [u8], GgufError> {
        let length = self.count(what, limit)?;
        self.take(length, what)
    }
}
