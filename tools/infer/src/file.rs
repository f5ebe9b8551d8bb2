//! Files: models, mapped into memory, and files that are read whole.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use capos_gguf::Header;
use capos_tokenizer::Tokenizer;
use memmap2::Mmap;

/// A file's mapping.
pub struct ModelFile {
    mapping: Mmap,
    name: String,
}

impl ModelFile {
    /// Maps a file.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("{name} cannot be opened"))?;
        // SAFETY: the mapping is only read. If another program writes to the file while a model runs from it, the
        // results mean nothing. If it truncates the file, this program ends. Memory safety never depends on a byte
        // keeping its value: the engine checks what it reads each time.
        let mapping = unsafe { Mmap::map(&file) }.with_context(|| format!("{name} cannot be mapped"))?;
        Ok(Self { mapping, name })
    }

    /// All its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.mapping
    }

    /// The bytes before the tensors.
    pub fn header(&self) -> Result<Header<'_>> {
        Header::parse(self.bytes(), self.bytes().len() as u64).with_context(|| self.name.clone())
    }

    /// How its text becomes tokens.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        Tokenizer::new(&self.header()?).with_context(|| format!("{} has no usable tokenizer", self.name))
    }

    /// How people call it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The content of a file; `-` is standard input.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes).context("standard input cannot be read")?;
        return Ok(bytes);
    }
    std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))
}
