//! The beginning of a model file: all that comes before its tensors.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use capos_gguf::{GgufError, Header};
use capos_tokenizer::Tokenizer;

/// As much of a file as its metadata takes.
pub struct Metadata {
    bytes: Vec<u8>,
    file_size: u64,
}

impl Metadata {
    /// Reads what is needed of the file, and checks that it holds together.
    pub fn read(path: &Path) -> Result<Self> {
        let what = || format!("{} cannot be read", path.display());
        let mut file = File::open(path).with_context(what)?;
        let file_size = file.metadata().with_context(what)?.len();
        let mut metadata = Self { bytes: Vec::new(), file_size };
        let mut wanted = file_size.min(1 << 20);
        loop {
            let missing = wanted.saturating_sub(metadata.bytes.len() as u64);
            let read = file.by_ref().take(missing).read_to_end(&mut metadata.bytes).with_context(what)?;
            match Header::parse(&metadata.bytes, file_size) {
                Err(GgufError::NeedMore { bytes }) if read > 0 => wanted = bytes,
                Err(error) => return Err(error).with_context(|| format!("{} is no usable model file", path.display())),
                Ok(_) => return Ok(metadata),
            }
        }
    }

    /// The metadata and the table of tensors.
    pub fn header(&self) -> Result<Header<'_>> {
        Ok(Header::parse(&self.bytes, self.file_size)?)
    }
}

/// The tokenizer of a model file.
pub fn tokenizer(path: &Path) -> Result<Tokenizer> {
    let metadata = Metadata::read(path)?;
    Tokenizer::new(&metadata.header()?).with_context(|| format!("{} has no usable tokenizer", path.display()))
}
