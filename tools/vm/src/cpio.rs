//! An archive as Linux takes its first files from: cpio's format "newc", regular files and folders.

use anyhow::{Context, Result};

/// The bytes at the start of each entry.
const MAGIC: &str = "070701";
/// Kinds and permissions.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// An archive of these folders and programs, each with its path. A folder precedes its content.
pub fn archive(folders: &[&str], programs: &[(&str, &[u8])]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let folders = folders.iter().map(|path| (*path, FOLDER, &[][..]));
    let entries = folders.chain(programs.iter().map(|(path, content)| (*path, PROGRAM, *content)));
    for (number, (path, mode, content)) in (1..).zip(entries) {
        entry(&mut out, number, path, mode, content)?;
    }
    entry(&mut out, 0, "TRAILER!!!", 0, &[])?;
    Ok(out)
}

fn entry(out: &mut Vec<u8>, number: u32, path: &str, mode: u32, content: &[u8]) -> Result<()> {
    let size = u32::try_from(content.len()).with_context(|| format!("{path} is too large for an archive"))?;
    let name = u32::try_from(path.len() + 1)?;
    // Number, mode, owner, group, links, time, size, four device numbers, length of the name, checksum.
    let fields = [number, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name, 0];
    out.extend(MAGIC.bytes());
    fields.iter().for_each(|field| out.extend(format!("{field:08x}").bytes()));
    out.extend(path.bytes().chain([0]));
    align(out);
    out.extend(content);
    align(out);
    Ok(())
}

/// Headers and contents begin at multiples of four.
fn align(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_as_cpio_writes_it() {
        let made = archive(&["home"], &[("init", b"hello")]).unwrap();
        let text = String::from_utf8(made.clone()).unwrap();
        let home = "0707010000000100\
                    0041ed00000000000000000000000100000000000000000000000000000000000000000000000000000005\
                    00000000home\0";
        assert!(text.starts_with(home), "{text}");
        let init = text.find("init\0").unwrap();
        assert!((init - 110).is_multiple_of(4), "headers are aligned");
        assert_eq!(&text[init + 6..init + 14], "hello\0\0\0");
        assert!(text.ends_with("TRAILER!!!\0\0\0\0"), "{text}");
        assert!(made.len().is_multiple_of(4));
    }
}
