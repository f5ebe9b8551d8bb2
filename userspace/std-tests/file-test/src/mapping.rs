//! Files that are mapped into memory.

use std::ffi::c_void;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::{Outcome, Test, check, told};

pub const TESTS: &[(&str, Test)] = &[
    ("a file is mapped to read", a_file_is_mapped_to_read),
    ("a private mapping is a copy", a_private_mapping_is_a_copy),
    ("mappings are refused in words", mappings_are_refused_in_words),
];

/// Bytes of a page.
const PAGE: usize = 4096;

/// A mapping of a whole number of pages, while it lives.
struct Mapping {
    start: *mut c_void,
    length: usize,
}

impl Mapping {
    fn new(file: &File, length: usize, protection: ProtFlags, flags: MapFlags, offset: u64) -> io::Result<Self> {
        // SAFETY: at a place of the system's choice, so that nothing that is mapped already is touched.
        let start = unsafe { mmap(std::ptr::null_mut(), length, protection, flags, file, offset) }?;
        Ok(Self { start, length })
    }

    fn to_read(file: &File, length: usize, offset: u64) -> Result<Self, String> {
        Self::new(file, length, ProtFlags::READ, MapFlags::PRIVATE, offset).map_err(told("mapping"))
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped to read for as long as this lives; tests map no more pages than the file has.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.length) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: tests call it for writable mappings, from one thread.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and not used any more. Memory that cannot be unmapped stays.
        let _ = unsafe { munmap(self.start, self.length) };
    }
}

fn a_file_is_mapped_to_read(folder: &Path) -> Outcome {
    // A file of the medium has pages of its own, which all processes that map it share; another is copied.
    let path = if cfg!(capos_guest) { Path::new("/medium/bin/file-test").to_owned() } else { folder.join("file") };
    if !cfg!(capos_guest) {
        fs::write(&path, vec![7; 3 * PAGE + 5]).map_err(told("writing"))?;
    }
    let whole = fs::read(&path).map_err(told("reading"))?;
    let file = File::open(&path).map_err(told("opening"))?;
    let length = whole.len().next_multiple_of(PAGE);
    let shared = Mapping::new(&file, length, ProtFlags::READ, MapFlags::SHARED, 0).map_err(told("sharing"))?;
    let private = Mapping::to_read(&file, length, 0)?;
    // It stays when the file is closed.
    drop(file);
    for mapping in [&shared, &private] {
        let (bytes, rest) = mapping.bytes().split_at(whole.len());
        check(bytes == whole && rest.iter().all(|byte| *byte == 0), "other bytes are mapped")?;
    }
    let file = File::open(&path).map_err(told("opening"))?;
    let second = Mapping::to_read(&file, PAGE, PAGE as u64)?;
    check(whole.get(PAGE..2 * PAGE) == Some(second.bytes()), "another page is mapped")
}

fn a_private_mapping_is_a_copy(folder: &Path) -> Outcome {
    let path = folder.join("file");
    fs::write(&path, "before").map_err(told("writing"))?;
    let file = OpenOptions::new().read(true).write(true).open(&path).map_err(told("opening"))?;
    let both = ProtFlags::READ | ProtFlags::WRITE;
    let mut mapping = Mapping::new(&file, PAGE, both, MapFlags::PRIVATE, 0).map_err(told("mapping"))?;
    check(mapping.bytes().starts_with(b"before\0"), "other bytes are mapped")?;
    mapping.bytes_mut().fill(b'x');
    check(fs::read(&path).map_err(told("reading"))? == b"before", "writing to it changed the file")?;
    file.write_all_at(b"after!", 0).map_err(told("writing"))?;
    check(mapping.bytes().iter().all(|byte| *byte == b'x'), "the file changed it")
}

fn mappings_are_refused_in_words(folder: &Path) -> Outcome {
    let path = folder.join("file");
    fs::write(&path, "bytes").map_err(told("writing"))?;
    let refused = |file: &File, length: usize, protection, flags, offset, number: i32, what: &str| {
        let error = Mapping::new(file, length, protection, flags, offset).err().and_then(|error| error.raw_os_error());
        check(error == Some(number), &format!("{what}: {error:?} in place of {number}"))
    };
    let (private, shared, read) = (MapFlags::PRIVATE, MapFlags::SHARED, ProtFlags::READ);
    let file = File::open(&path).map_err(told("opening"))?;
    refused(&file, 0, read, private, 0, 22, "nothing")?;
    refused(&file, PAGE, read, private, 1, 22, "from between pages")?;
    let writes = OpenOptions::new().write(true).open(&path).map_err(told("opening"))?;
    refused(&writes, PAGE, read, private, 0, 13, "what is open to write")?;
    let directory = File::open(folder).map_err(told("opening"))?;
    refused(&directory, PAGE, read, private, 0, 19, "a directory")?;
    if cfg!(capos_guest) {
        let both = OpenOptions::new().read(true).write(true).open(&path).map_err(told("opening"))?;
        refused(&both, PAGE, ProtFlags::WRITE, shared, 0, 19, "to show others what is written")?;
        // A file that lasts has memory, with the content that it had when it was mapped.
        if Mapping::new(&file, PAGE, read, shared, 0).is_err() {
            refused(&file, PAGE, read, shared, 0, 19, "to see what others write")?;
        }
        refused(&file, PAGE, ProtFlags::EXEC, private, 0, 13, "to run")?;
    }
    Ok(())
}
