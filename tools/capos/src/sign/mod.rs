//! What the subcommands for keys and signed files share: where a file's signature and tree lie, and how its
//! digest is worked out in one pass and little memory.

pub mod keygen;
pub mod sign_file;
pub mod verify;

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use capos_verity::{BLOCK_SIZE, FileDigest, SigningKey, TreeBuilder, TreeSink, TrustStore};

/// Bytes read at a time.
const PIECE: usize = 4 << 20;

/// `<file>.sig`.
pub fn signature_path(file: &Path) -> PathBuf {
    beside(file, ".sig")
}

/// `<file>.verity`.
pub fn tree_path(file: &Path) -> PathBuf {
    beside(file, ".verity")
}

/// The path with something after its name.
pub fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut path = OsString::from(file);
    path.push(ending);
    path.into()
}

/// The name that a file is signed under: its own, without directories.
pub fn name_of(file: &Path) -> Result<&str> {
    let name = file.file_name().with_context(|| format!("{} names no file", file.display()))?;
    name.to_str()
        .with_context(|| format!("the name of {} is not UTF-8, and only such names can be signed", file.display()))
}

/// Opens a regular file and returns its size in bytes.
pub fn open(path: &Path) -> Result<(File, u64)> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let meta = file.metadata().with_context(|| format!("asking for the size of {}", path.display()))?;
    if !meta.is_file() {
        bail!("{} is not a regular file", path.display());
    }
    Ok((file, meta.len()))
}

/// Reads the whole file once, gives its tree to `sink` and returns its digest.
pub fn digest<S: TreeSink>(path: &Path, mut file: &File, size: u64, sink: &mut S) -> Result<FileDigest>
where
    S::Error: std::fmt::Debug + std::fmt::Display + Send + Sync + 'static,
{
    let mut builder = TreeBuilder::new(size).with_context(|| path.display().to_string())?;
    let mut piece = vec![0; PIECE];
    loop {
        let count = file.read(&mut piece).with_context(|| format!("reading {}", path.display()))?;
        if count == 0 {
            break;
        }
        builder.update(piece.get(..count).unwrap_or(&[]), sink).with_context(|| path.display().to_string())?;
    }
    builder.finish(sink).with_context(|| path.display().to_string())
}

/// Writes a tree to a file.
pub struct TreeFile(pub File);

impl TreeSink for TreeFile {
    type Error = std::io::Error;

    fn write_block(&mut self, tree_block: u64, bytes: &[u8; BLOCK_SIZE]) -> std::io::Result<()> {
        self.0.write_all_at(bytes, tree_block.saturating_mul(BLOCK_SIZE as u64))
    }
}

/// Reads a signing key.
pub fn read_key(path: &Path) -> Result<SigningKey> {
    let text = std::fs::read(path).with_context(|| format!("reading the key {}", path.display()))?;
    SigningKey::parse(&text).with_context(|| format!("{} is not a signing key", path.display()))
}

/// Reads a trust store.
pub fn read_trust(path: &Path) -> Result<TrustStore> {
    let text = std::fs::read(path).with_context(|| format!("reading the trust store {}", path.display()))?;
    TrustStore::parse(&text).with_context(|| format!("{} is not a trust store", path.display()))
}

/// The bytes that a size such as `64MiB`, `1GiB`, `4096` or `512KiB` stands for.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit: u64 = match text.strip_prefix(digits).unwrap_or("") {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(format!("`{text}` is not a size; write a number of bytes, or one with KiB, MiB or GiB")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not a size: it does not begin with a number"))?;
    number.checked_mul(unit).ok_or_else(|| format!("`{text}` is more bytes than can be counted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        assert_eq!(parse_size("1GiB"), Ok(1 << 30));
        assert_eq!(parse_size("3KiB"), Ok(3072));
        for wrong in ["", "MiB", "1MB", "1.5GiB", "-1", "99999999999GiB", "1 GiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
