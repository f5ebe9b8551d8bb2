//! The toolchain's own `std`, except the function that looks up names for a backtrace.
//!
//! That function reads the program's file for symbols and DWARF. Programs are packed on an image without either, so it
//! would find nothing. But any program can panic, so each would contain those parsers and the parts of the C library
//! that they call: 200 KiB. In a copy of the compiled `std` it returns at once, and the linker leaves out what only it
//! called. Backtraces then give addresses, which [`symbols`](crate::symbols) names from the file that the linker made.

use std::mem::{offset_of, size_of};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use object::read::archive::ArchiveFile;
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, elf};

use crate::build::toolchain;
use capos_host::files;

/// Parts of the function's mangled name, which end its section's: `Cache::with_global` as `resolve` uses it.
const FUNCTION: [&str; 2] = ["12backtrace_rs9symbolize5gimli", "5Cache11with_global"];
/// `ret`.
const RETURN: u8 = 0xc3;

type Header = elf::FileHeader64<Endianness>;
type Section = elf::SectionHeader64<Endianness>;

/// Writes the copy to `out` unless it is there.
pub fn build(out: &Path) -> Result<()> {
    let folder = toolchain::target_libraries("rustc", toolchain::USER)
        .with_context(|| format!("the compiler has no libraries for {}", toolchain::USER))?;
    let is_std = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libstd-") && name.ends_with(".rlib")
    };
    let found = files::walk(&folder)?.into_iter().find(|path| is_std(path));
    let path = found.with_context(|| format!("there is no libstd-*.rlib in {}", folder.display()))?;
    let mut library = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    empty(&mut library).with_context(|| format!("leaving the look-up of names out of {}", path.display()))?;
    files::write_if_changed(out, &library)?;
    Ok(())
}

/// Makes the function return at once.
fn empty(library: &mut [u8]) -> Result<()> {
    let archive = ArchiveFile::parse(&*library).context("reading the archive")?;
    let mut changes = Vec::new();
    for member in archive.members() {
        let member = member.context("reading the archive")?;
        let (start, _) = member.file_range();
        let object = member.data(&*library).context("reading the archive")?;
        if object.starts_with(&elf::ELFMAG) {
            changes.extend(changes_of(object)?.into_iter().map(|(place, bytes)| (start.saturating_add(place), bytes)));
        }
    }
    ensure!(
        !changes.is_empty(),
        "it has no function `{}`: this toolchain's std looks up names in another way, which {} is to know",
        FUNCTION.join("…"),
        file!(),
    );
    for (place, bytes) in changes {
        let range = usize::try_from(place)?..usize::try_from(place)?.saturating_add(bytes.len());
        library.get_mut(range).context("a section is outside its file")?.copy_from_slice(&bytes);
    }
    Ok(())
}

/// The bytes to write into an object file: the function's section becomes one instruction, without relocations.
fn changes_of(object: &[u8]) -> Result<Vec<(u64, Vec<u8>)>> {
    let header = Header::parse(object).context("reading an object")?;
    let endian = header.endian().context("reading an object")?;
    let sections = header.sections(endian, object).context("reading an object")?;
    let mut changes = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        let name = String::from_utf8_lossy(sections.section_name(endian, section).context("reading a section")?);
        if !FUNCTION.iter().all(|part| name.contains(part)) {
            continue;
        }
        let size = if name.starts_with(".text.") {
            changes.push((section.sh_offset(endian), vec![RETURN]));
            1_u64
        } else if name.starts_with(".rela.text.") {
            0
        } else {
            continue;
        };
        changes.push((size_field(header.e_shoff(endian), index)?, size.to_le_bytes().to_vec()));
    }
    Ok(changes)
}

/// Where a section's header has its size.
fn size_field(table: u64, index: usize) -> Result<u64> {
    let place = index * size_of::<Section>() + offset_of!(Section, sh_size);
    table.checked_add(place as u64).context("a section's header is outside its file")
}

#[cfg(test)]
mod tests {
    use object::{Object, ObjectSection};

    use super::*;

    #[test]
    fn the_function_of_this_toolchain_returns_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("libstd.a");
        build(&out).unwrap();
        let library = std::fs::read(&out).unwrap();
        let mut found = 0;
        for member in ArchiveFile::parse(&*library).unwrap().members() {
            let Ok(object) = object::File::parse(member.unwrap().data(&*library).unwrap()) else { continue };
            for section in object.sections() {
                let name = section.name().unwrap();
                if name.starts_with(".text.") && FUNCTION.iter().all(|part| name.contains(part)) {
                    assert_eq!((section.data().unwrap(), section.relocations().count()), (&[RETURN][..], 0));
                    found += 1;
                }
            }
        }
        assert_eq!(found, 1);
    }

    #[test]
    fn a_library_without_it_is_refused() {
        let error = empty(&mut b"!<arch>\n".to_vec()).unwrap_err().to_string();
        assert!(error.contains("looks up names in another way"), "{error}");
    }
}
