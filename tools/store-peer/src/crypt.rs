//! A device of dm-crypt, made by the three requests of Linux's `dm-ioctl.h` that are needed for it.

use std::fs::File;
use std::io::{Error, Read, Seek, SeekFrom};

use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl};

/// Bytes of a request, and of its head, `struct dm_ioctl`.
const BYTES: usize = 1024;
const HEAD: u32 = 312;
/// `_IOWR(0xfd, 0, struct dm_ioctl)`, to which the request's number is added.
const REQUESTS: Opcode = 0xc138_fd00;
const CREATE: Opcode = 3;
const RESUME: Opcode = 6;
const LOAD: Opcode = 9;
/// The name of the device, and where it then is: the first of its kind.
const NAME: &[u8] = b"data";
const DEVICE: &str = "/dev/dm-0";
const SECTOR: u64 = 512;

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
    fn new(number: Opcode) -> Self {
        let mut request = Self(number, [0; BYTES]);
        // Version 4, the length of all, the length of the head.
        request.put(0, &4_u32.to_ne_bytes());
        request.put(12, &(BYTES as u32).to_ne_bytes());
        request.put(16, &HEAD.to_ne_bytes());
        request.put(48, NAME);
        request
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.1[at..][..bytes.len()].copy_from_slice(bytes);
    }

    /// A table of one target.
    fn load(sectors: u64, kind: &str, parameters: &str) -> Self {
        let mut request = Self::new(LOAD);
        request.put(20, &1_u32.to_ne_bytes());
        let target = HEAD as usize;
        request.put(target + 8, &sectors.to_ne_bytes());
        request.put(target + 24, kind.as_bytes());
        request.put(target + 40, parameters.as_bytes());
        request
    }

    fn send(self, control: &File, what: &str) -> Result<(), Error> {
        // SAFETY: the file is device mapper's, which knows these requests.
        unsafe { ioctl(control, self) }.map_err(|error| Error::other(format!("{what} of dm-crypt: {error}")))
    }
}

/// Makes the encrypted device over a disk; its path. AES-256 in XTS mode, as `cryptsetup` does unless told otherwise, in
/// sectors of 4 KiB.
pub fn open(disk: &str) -> Result<&'static str, Error> {
    let control = File::options().read(true).write(true).open("/dev/mapper/control")?;
    let bytes = File::open(disk)?.seek(SeekFrom::End(0))?;
    let key: String = (0..64).map(|byte| format!("{byte:02x}")).collect();
    Request::new(CREATE).send(&control, "creating a device")?;
    let parameters = format!("aes-xts-plain64 {key} 0 {disk} 0 1 sector_size:4096");
    Request::load(bytes / SECTOR, "crypt", &parameters).send(&control, "loading the table")?;
    Request::new(RESUME).send(&control, "resuming the device")?;
    // The first block can be read.
    File::open(DEVICE)?.read_exact(&mut [0; 4096])?;
    Ok(DEVICE)
}
