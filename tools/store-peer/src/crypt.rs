//! Devices of dm-crypt and dm-integrity, made by the four requests of Linux's `dm-ioctl.h` that are needed for them.

use std::fs::File;
use std::io::{Error, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl};

/// Bytes of a request, and of its head, `struct dm_ioctl`.
const BYTES: usize = 1024;
const HEAD: u32 = 312;
/// `_IOWR(0xfd, 0, struct dm_ioctl)`, to which the request's number is added.
const REQUESTS: Opcode = 0xc138_fd00;
const CREATE: Opcode = 3;
const RESUME: Opcode = 6;
const LOAD: Opcode = 9;
const CLEAR: Opcode = 10;
/// Where the devices are, in the order in which they are made.
const DEVICES: [&str; 2] = ["/dev/dm-0", "/dev/dm-1"];
const SECTOR: u64 = 512;
/// Sectors of a block.
const BLOCK: u64 = 8;
/// Where the superblock of dm-integrity says how many sectors its device has.
const PROVIDED: u64 = 16;

/// A request: `struct dm_ioctl`, and a target.
struct Request(Opcode, [u8; BYTES]);

// SAFETY: the number is that of a request which reads and writes a `struct dm_ioctl` and what follows it, up to the length in
// its field `data_size`; that is the length of the buffer, which lives as long as this.
unsafe impl Ioctl for Request {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        REQUESTS | self.0
    }

    fn as_ptr(&mut self) -> *mut core::ffi::c_void {
        self.1.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut core::ffi::c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

impl Request {
    fn new(number: Opcode, name: &str) -> Self {
        let mut request = Self(number, [0; BYTES]);
        // Version 4, the length of all, the length of the head.
        request.put(0, &4_u32.to_ne_bytes());
        request.put(12, &(BYTES as u32).to_ne_bytes());
        request.put(16, &HEAD.to_ne_bytes());
        request.put(48, name.as_bytes());
        request
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.1[at..][..bytes.len()].copy_from_slice(bytes);
    }

    /// A table of one target.
    fn load(name: &str, sectors: u64, kind: &str, parameters: &str) -> Self {
        let mut request = Self::new(LOAD, name);
        request.put(20, &1_u32.to_ne_bytes());
        let target = HEAD as usize;
        request.put(target + 8, &sectors.to_ne_bytes());
        request.put(target + 24, kind.as_bytes());
        request.put(target + 40, parameters.as_bytes());
        request
    }

    fn send(self, control: &File, what: &str) -> Result<(), Error> {
        // SAFETY: the file is device mapper's, which knows these requests.
        unsafe { ioctl(control, self) }.map_err(|error| Error::other(format!("{what}: {error}")))
    }
}

/// Makes the encrypted device over a disk; its path. AES-256 in XTS mode, as `cryptsetup` does unless told otherwise, in
/// sectors of 4 KiB.
pub fn open(disk: &str) -> Result<&'static str, Error> {
    let control = control()?;
    let sectors = File::open(disk)?.seek(SeekFrom::End(0))? / SECTOR;
    let parameters = format!("aes-xts-plain64 {} 0 {disk} 0 1 sector_size:4096", key(64));
    make(&control, "data", sectors, "crypt", &parameters)?;
    Ok(DEVICES[0])
}

/// The same with AES-256 in GCM mode over a device of dm-integrity, as `cryptsetup` does for an authenticated volume. Each
/// sector has a tag and a nonce of its own, and a write goes to a journal first. A block can be read once it was written.
pub fn open_authenticated(disk: &str) -> Result<&'static str, Error> {
    let control = control()?;
    let parameters = format!("{disk} 0 28 J 1 block_size:4096");
    // On a blank disk the first table writes the superblock, which tells how long the device can be.
    Request::new(CREATE, "tags").send(&control, "creating the device of tags")?;
    Request::load("tags", BLOCK, "integrity", &parameters).send(&control, "formatting the device of tags")?;
    Request::new(CLEAR, "tags").send(&control, "clearing the device of tags")?;
    let mut provided = [0; 8];
    File::open(disk)?.read_exact_at(&mut provided, PROVIDED)?;
    let sectors = u64::from_le_bytes(provided) / BLOCK * BLOCK;
    Request::load("tags", sectors, "integrity", &parameters).send(&control, "loading the device of tags")?;
    Request::new(RESUME, "tags").send(&control, "resuming the device of tags")?;
    let [tags, data] = DEVICES;
    let parameters = format!("capi:gcm(aes)-random {} 0 {tags} 0 2 integrity:28:aead sector_size:4096", key(32));
    make(&control, "data", sectors, "crypt", &parameters)?;
    Ok(data)
}

fn control() -> Result<File, Error> {
    File::options().read(true).write(true).open("/dev/mapper/control")
}

/// A key of this many bytes.
fn key(bytes: u8) -> String {
    (0..bytes).map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a device with one table.
fn make(control: &File, name: &str, sectors: u64, kind: &str, parameters: &str) -> Result<(), Error> {
    Request::new(CREATE, name).send(control, "creating a device")?;
    Request::load(name, sectors, kind, parameters).send(control, "loading its table")?;
    Request::new(RESUME, name).send(control, "resuming it")
}
