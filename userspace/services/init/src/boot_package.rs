//! The boot package: a ustar archive in the memory that the loader left it in.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use capos_rt::memory::{Access, Mapping, map_all};
use capos_rt::{Context, Error};
use capos_schema::kernel::MemoryObjectClient;

/// Bytes of a header, and what files are padded to.
const BLOCK: u64 = 512;
/// Files at most.
const MAX_FILES: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    name: String,
    offset: u64,
    bytes: usize,
}

/// The boot package.
#[derive(Debug)]
pub struct BootPackage {
    mapping: Mapping,
    items: Vec<Item>,
}

/// A header's name and size; `None` for the end of the archive.
fn header(block: &[u8]) -> Result<Option<(String, u64)>, Error> {
    if block.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let field = |from: usize, length: usize| -> &[u8] {
        let raw = block.get(from..from.saturating_add(length)).unwrap_or_default();
        raw.split(|byte| *byte == 0).next().unwrap_or_default()
    };
    let octal = |from: usize, length: usize| -> Option<u64> {
        let text = core::str::from_utf8(field(from, length)).ok()?.trim();
        u64::from_str_radix(text, 8).ok()
    };
    // The sum counts its own field as spaces.
    let sum: u64 = block
        .iter()
        .enumerate()
        .map(|(at, byte)| if (148..156).contains(&at) { u64::from(b' ') } else { u64::from(*byte) })
        .sum();
    if field(257, 5) != b"ustar" || octal(148, 8) != Some(sum) {
        return Err(Error::new("a header is damaged"));
    }
    let name = core::str::from_utf8(field(0, 100)).ok().context("a file's name is not UTF-8")?;
    let size = octal(124, 12).context("a file's size is damaged")?;
    Ok(Some((name.into(), size)))
}

/// Lists an archive of `length` bytes that `block` reads blocks of.
fn list(length: u64, mut block: impl FnMut(u64) -> Result<Vec<u8>, Error>) -> Result<Vec<Item>, Error> {
    let mut items = Vec::new();
    let mut at = 0_u64;
    while at.saturating_add(BLOCK) <= length && items.len() < MAX_FILES {
        let Some((name, size)) = header(&block(at)?)? else { break };
        let offset = at.saturating_add(BLOCK);
        let end = offset.checked_add(size).filter(|end| *end <= length);
        let end = end.with_context(|| format!("`{name}` reaches beyond the end"))?;
        let bytes = usize::try_from(size).ok().with_context(|| format!("`{name}` is too large"))?;
        items.push(Item { name, offset, bytes });
        at = end.checked_next_multiple_of(BLOCK).context("a file is too large")?;
    }
    Ok(items)
}

impl BootPackage {
    /// Opens the package in this memory.
    ///
    /// # Errors
    /// It cannot be mapped, or is damaged.
    pub fn open(memory: &MemoryObjectClient) -> Result<Self, Error> {
        let mapping = map_all(memory, Access::Read).context("mapping the boot package")?;
        let block = |at| Ok(mapping.read_vec(at, BLOCK as usize)?);
        let items = list(mapping.len(), block).context("the boot package is no intact ustar archive")?;
        Ok(Self { mapping, items })
    }

    /// A file's bytes.
    ///
    /// # Errors
    /// There is none with this name.
    pub fn file(&self, name: &str) -> Result<Rc<[u8]>, Error> {
        let item = self.items.iter().find(|item| item.name == name).with_context(|| {
            let names: Vec<&str> = self.items.iter().map(|item| item.name.as_str()).collect();
            format!("the boot package has no `{name}`; it has {}", names.join(", "))
        })?;
        Ok(self.mapping.read_vec(item.offset, item.bytes)?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, content) in files {
            let mut block = vec![0_u8; 512];
            block[..name.len()].copy_from_slice(name.as_bytes());
            block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
            block[257..262].copy_from_slice(b"ustar");
            block[148..156].copy_from_slice(b"        ");
            let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
            block[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
            block[154] = 0;
            out.extend(block);
            out.extend_from_slice(content);
            out.resize(out.len().next_multiple_of(512), 0);
        }
        out.resize(out.len() + 1024, 0);
        out
    }

    fn items(bytes: &[u8]) -> Result<Vec<Item>, Error> {
        list(bytes.len() as u64, |at| Ok(bytes[at as usize..at as usize + 512].to_vec()))
    }

    #[test]
    fn files_are_found_where_they_lie() {
        let bytes = archive(&[("init", &[7; 600]), ("manifest", b"x")]);
        let items = items(&bytes).unwrap();
        assert_eq!(items[0], Item { name: "init".into(), offset: 512, bytes: 600 });
        assert_eq!(items[1], Item { name: "manifest".into(), offset: 2048, bytes: 1 });
        assert_eq!(bytes[2048], b'x');
    }

    #[test]
    fn damage_is_refused() {
        let mut bytes = archive(&[("init", &[7; 600])]);
        bytes[3] ^= 1;
        assert!(items(&bytes).unwrap_err().words().contains("damaged"));
        let bytes = archive(&[("init", &[7; 6000])]);
        assert!(items(&bytes[..2048]).unwrap_err().words().contains("`init` reaches beyond the end"));
        assert_eq!(items(&[]).unwrap(), []);
    }
}
