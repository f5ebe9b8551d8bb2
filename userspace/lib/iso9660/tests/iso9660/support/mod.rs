//! Images for tests: built record by record in memory, or read from a file.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::future::Future;
use std::os::unix::fs::FileExt;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use capos_iso9660::*;

/// Runs a future whose sources never make it wait.
pub fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a source that never waits made its reader wait"),
    }
}

pub const ROOT: u32 = 18;

/// A volume in memory. Sectors that were not written hold their own number in each word, so
/// that files of any size cost nothing and their contents are known.
#[derive(Clone)]
pub struct Image {
    pub sectors: BTreeMap<u32, Vec<u8>>,
    pub size: u32,
    pub reads: Cell<u64>,
}

impl ReadSectors for Image {
    type Error = String;

    async fn read(&self, lba: u32, buffer: &mut [u8]) -> Result<(), String> {
        self.reads.set(self.reads.get() + 1);
        assert!(buffer.len().is_multiple_of(SECTOR) && !buffer.is_empty());
        for (lba, piece) in (lba..).zip(buffer.chunks_mut(SECTOR)) {
            if lba >= self.size {
                return Err(format!("sector {lba} of {} was asked for", self.size));
            }
            match self.sectors.get(&lba) {
                Some(bytes) => piece.copy_from_slice(bytes),
                None => piece.chunks_mut(4).for_each(|word| word.copy_from_slice(&lba.to_le_bytes())),
            }
        }
        Ok(())
    }
}

impl Image {
    /// A volume of `size` sectors whose root directory, at [`ROOT`], takes one sector.
    pub fn new(size: u32) -> Self {
        let mut image = Self { sectors: BTreeMap::new(), size, reads: Cell::new(0) };
        let primary = image.sector(16);
        primary[0] = 1;
        primary[1..7].copy_from_slice(b"CD001\x01");
        primary[40..72].copy_from_slice(b"TEST VOLUME                     ");
        primary[80..88].copy_from_slice(&both32(size));
        primary[120..124].copy_from_slice(&both16(1));
        primary[124..128].copy_from_slice(&both16(1));
        primary[128..132].copy_from_slice(&both16(2048));
        let root = Rec { identifier: vec![0], ..Rec::dir("", ROOT) }.bytes();
        primary[156..156 + root.len()].copy_from_slice(&root);
        primary[881] = 1;
        let terminator = image.sector(17);
        terminator[0] = 255;
        terminator[1..7].copy_from_slice(b"CD001\x01");
        image.directory(ROOT, ROOT, &[]);
        image
    }

    pub fn sector(&mut self, lba: u32) -> &mut Vec<u8> {
        self.sectors.entry(lba).or_insert_with(|| vec![0; SECTOR])
    }

    /// Writes a directory of one sector.
    pub fn directory(&mut self, lba: u32, parent: u32, records: &[Rec]) {
        let mut dot = Rec { identifier: vec![0], ..Rec::dir("", lba) };
        if lba == ROOT {
            dot.system_use = [sp(), er()].concat();
        }
        let dotdot = Rec { identifier: vec![1], ..Rec::dir("", parent) };
        self.raw_directory(lba, &[&[dot, dotdot], records].concat());
    }

    /// Writes records into one sector, whatever they are.
    pub fn raw_directory(&mut self, lba: u32, records: &[Rec]) {
        let mut bytes: Vec<u8> = records.iter().flat_map(Rec::bytes).collect();
        assert!(bytes.len() <= SECTOR, "{} bytes in one sector", bytes.len());
        bytes.resize(SECTOR, 0);
        self.sectors.insert(lba, bytes);
    }

    pub fn mount(&self) -> Result<Volume<&Self>, Error<String>> {
        now(Volume::mount(self, self.size.into()))
    }

    /// What goes wrong when everything on the volume is looked at.
    pub fn refusal(&self) -> String {
        let error = match self.mount() {
            Ok(volume) => now(volume.check()).expect_err("the volume should be refused"),
            Err(error) => error,
        };
        assert!(matches!(error, Error::Malformed(_)), "{error:?}");
        error.to_string()
    }
}

/// A directory record to be written.
#[derive(Clone)]
pub struct Rec {
    pub identifier: Vec<u8>,
    pub lba: u32,
    pub bytes: u32,
    pub flags: u8,
    pub system_use: Vec<u8>,
}

impl Rec {
    pub fn file(name: &str, lba: u32, bytes: u32) -> Self {
        let system_use = [nm(0, name.as_bytes()), px(0o100_644)].concat();
        Self { identifier: b"FILE.;1".to_vec(), lba, bytes, flags: 0, system_use }
    }

    pub fn dir(name: &str, lba: u32) -> Self {
        let system_use = if name.is_empty() { vec![] } else { [nm(0, name.as_bytes()), px(0o40_755)].concat() };
        Self { identifier: b"DIR".to_vec(), lba, bytes: SECTOR as u32, flags: 2, system_use }
    }

    pub fn with(name: &str, system_use: &[Vec<u8>]) -> Self {
        let mut record = Self::file(name, 0, 0);
        record.system_use.extend(system_use.concat());
        record
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = vec![0, 0];
        out.extend(both32(self.lba));
        out.extend(both32(self.bytes));
        out.extend([124, 2, 29, 12, 34, 56, 0, self.flags, 0, 0]);
        out.extend(both16(1));
        out.push(self.identifier.len() as u8);
        out.extend(&self.identifier);
        if out.len() % 2 == 1 {
            out.push(0);
        }
        out.extend(&self.system_use);
        if out.len() % 2 == 1 {
            out.push(0);
        }
        out[0] = out.len().try_into().expect("a record has at most 255 bytes");
        out
    }
}

pub fn both32(value: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&value.to_le_bytes());
    out[4..].copy_from_slice(&value.to_be_bytes());
    out
}

pub fn both16(value: u16) -> [u8; 4] {
    let mut out = [0; 4];
    out[..2].copy_from_slice(&value.to_le_bytes());
    out[2..].copy_from_slice(&value.to_be_bytes());
    out
}

/// A system use entry.
pub fn entry(signature: &[u8; 2], data: &[u8]) -> Vec<u8> {
    let mut out = signature.to_vec();
    out.push((data.len() + 4) as u8);
    out.push(1);
    out.extend(data);
    out
}

pub fn sp() -> Vec<u8> {
    entry(b"SP", &[0xbe, 0xef, 0])
}

pub fn er() -> Vec<u8> {
    entry(b"ER", &[&[10, 0, 0, 1][..], b"RRIP_1991A"].concat())
}

pub fn nm(flags: u8, name: &[u8]) -> Vec<u8> {
    entry(b"NM", &[&[flags][..], name].concat())
}

pub fn px(mode: u32) -> Vec<u8> {
    entry(b"PX", &[both32(mode), both32(1), both32(0), both32(0)].concat())
}

/// A link entry out of components: flags and text.
pub fn sl(flags: u8, components: &[(u8, &[u8])]) -> Vec<u8> {
    let mut data = vec![flags];
    for (flags, text) in components {
        data.extend([*flags, text.len() as u8]);
        data.extend(*text);
    }
    entry(b"SL", &data)
}

pub fn ce(lba: u32, offset: u32, length: u32) -> Vec<u8> {
    entry(b"CE", &[both32(lba), both32(offset), both32(length)].concat())
}

/// An image file.
pub struct Disk(pub File);

impl Disk {
    pub fn mount(self) -> Volume<Self> {
        let sectors = self.0.metadata().unwrap().len() / SECTOR as u64;
        now(Volume::mount(self, sectors)).unwrap()
    }
}

impl ReadSectors for Disk {
    type Error = std::io::Error;

    async fn read(&self, lba: u32, buffer: &mut [u8]) -> std::io::Result<()> {
        self.0.read_exact_at(buffer, u64::from(lba) * SECTOR as u64)
    }
}
