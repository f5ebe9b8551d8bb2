//! Volumes in memory: made by mtools, damaged by seed, and cut off from power.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "each test uses a part, and may fail"
)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use capos_transfer::{Disk, Fault, Format, Kind, Volume};

pub const SECTOR: usize = 512;

/// Runs a future that waits for nothing.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

/// What a disk has done, shared with its test.
#[derive(Default)]
pub struct State {
    /// Sectors that were written.
    pub written: BTreeMap<u64, [u8; SECTOR]>,
    /// All writes in order.
    pub log: Vec<(u64, Vec<u8>)>,
    /// Operations so far, and after how many of them the medium is removed.
    pub operations: u64,
    pub removed_after: Option<u64>,
}

#[derive(Clone)]
pub struct Memory {
    base: Arc<Vec<u8>>,
    block_bytes: u32,
    pub writable: bool,
    pub state: Rc<RefCell<State>>,
}

impl Memory {
    pub fn new(image: &Arc<Vec<u8>>, block_bytes: u32) -> Self {
        Self { base: image.clone(), block_bytes, writable: true, state: Rc::default() }
    }

    /// The disk after the first `writes` of its log, and the first sectors of the next one.
    pub fn cut(&self, writes: usize, sectors: usize) -> Self {
        let cut = Self { state: Rc::default(), ..self.clone() };
        let state = self.state.borrow();
        for (at, bytes) in state.log.iter().take(writes) {
            cut.put(*at, bytes);
        }
        if let Some((at, bytes)) = state.log.get(writes) {
            cut.put(*at, &bytes[..bytes.len().min(sectors * SECTOR)]);
        }
        cut
    }

    pub fn get(&self, at: u64, out: &mut [u8]) {
        for (index, out) in out.chunks_mut(SECTOR).enumerate() {
            let (sector, skip) = (at / SECTOR as u64 + index as u64, (at % SECTOR as u64) as usize);
            assert!(skip + out.len() <= SECTOR);
            match self.state.borrow().written.get(&sector) {
                Some(bytes) => out.copy_from_slice(&bytes[skip..skip + out.len()]),
                None => out.copy_from_slice(&self.base[sector as usize * SECTOR + skip..][..out.len()]),
            }
        }
    }

    /// Changes bytes, wherever they lie.
    pub fn put(&self, at: u64, bytes: &[u8]) {
        for (at, byte) in (at..).zip(bytes) {
            let (sector, within) = (at / SECTOR as u64, (at % SECTOR as u64) as usize);
            let mut state = self.state.borrow_mut();
            let sector = state
                .written
                .entry(sector)
                .or_insert_with(|| self.base[sector as usize * SECTOR..][..SECTOR].try_into().unwrap());
            sector[within] = *byte;
        }
    }

    pub fn u16(&self, at: u64) -> u64 {
        let mut bytes = [0; 2];
        for (at, byte) in (at..).zip(&mut bytes) {
            self.get(at, std::slice::from_mut(byte));
        }
        u16::from_le_bytes(bytes).into()
    }

    fn step(&self) -> Result<(), Fault> {
        let mut state = self.state.borrow_mut();
        state.operations += 1;
        match state.removed_after {
            Some(after) if state.operations > after => Err(Fault::Removed),
            _ => Ok(()),
        }
    }

    pub fn whole(&self) -> Vec<u8> {
        let mut image = self.base.to_vec();
        for (sector, bytes) in &self.state.borrow().written {
            image[*sector as usize * SECTOR..][..SECTOR].copy_from_slice(bytes);
        }
        image
    }
}

impl Disk for Memory {
    fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    fn blocks(&self) -> u64 {
        self.base.len() as u64 / u64::from(self.block_bytes)
    }

    fn is_writable(&self) -> bool {
        self.writable
    }

    async fn read(&self, block: u64, count: u32) -> Result<Vec<u8>, Fault> {
        self.step()?;
        let mut out = vec![0; (count * self.block_bytes) as usize];
        self.get(block * u64::from(self.block_bytes), &mut out);
        Ok(out)
    }

    async fn write(&self, block: u64, bytes: Vec<u8>) -> Result<(), Fault> {
        self.step()?;
        assert!(self.writable && !bytes.is_empty() && bytes.len().is_multiple_of(self.block_bytes as usize));
        let at = block * u64::from(self.block_bytes);
        self.put(at, &bytes);
        self.state.borrow_mut().log.push((at, bytes));
        Ok(())
    }
}

/// Bytes that are told apart from others.
pub fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random(seed);
    (0..bytes).map(|_| random.next() as u8).collect()
}

fn tool(name: &str, arguments: &[&str]) {
    let output = Command::new(name).args(arguments).env("LC_ALL", "C.UTF-8").env("MTOOLS_SKIP_CHECK", "1").output();
    let output = output.unwrap_or_else(|error| panic!("{name}, from the package mtools: {error}"));
    assert!(output.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The files of each image.
pub fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("A long file name with spaces.bin", content(1, 20_000)),
        ("SHORT.TXT", content(2, 3_000)),
        ("docs/Grüße an die Welt.txt", content(3, 700)),
        ("docs/deep/er/another rather long name.data", content(4, 5_000)),
        ("empty.dat", Vec::new()),
    ]
}

/// An image with [`files`], made by mtools.
pub fn image(bits: u32) -> Arc<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (image, file) = (path("image"), path("file"));
    let (sectors, arguments): (&str, &[&str]) = match bits {
        12 => ("2880", &["-c", "1"]),
        16 => ("8400", &["-c", "1"]),
        32 => ("70000", &["-c", "1", "-F"]),
        _ => panic!("FAT{bits}"),
    };
    let mut all = vec!["-C", "-i", &image, "-T", sectors, "-v", "STICK"];
    all.extend(arguments);
    all.push("::");
    tool("mformat", &all);
    for folder in ["::/docs", "::/docs/deep", "::/docs/deep/er"] {
        tool("mmd", &["-i", &image, folder]);
    }
    for (name, content) in files() {
        std::fs::write(&file, content).unwrap();
        tool("mcopy", &["-i", &image, &file, &format!("::/{name}")]);
    }
    Arc::new(std::fs::read(Path::new(&image)).unwrap())
}

/// A file as mtools reads it.
pub fn read_with_mtools(image: &[u8], name: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    std::fs::write(path("image"), image).unwrap();
    tool("mcopy", &["-i", &path("image"), &format!("::/{name}"), &path("file")]);
    std::fs::read(path("file")).unwrap()
}

pub fn mount(disk: &Memory) -> Volume<Memory> {
    run(Volume::mount(disk.clone(), Format::Fat, true)).unwrap()
}

/// All of a file.
pub fn read(volume: &mut Volume<Memory>, path: &str) -> Result<Vec<u8>, capos_transfer::Error> {
    run(async {
        let file = volume.open(path, false).await?;
        let bytes = volume.read(&file, 0, usize::MAX).await;
        volume.close(file).await?;
        bytes
    })
}

/// All that a volume gives, within bounds, with every error passed over.
pub fn walk(volume: &mut Volume<Memory>) -> usize {
    let (mut folders, mut seen) = (vec![String::new()], 0);
    while let Some(folder) = folders.pop() {
        let Ok(listing) = run(volume.list(&folder)) else { continue };
        for entry in listing.entries {
            seen += 1;
            assert!(capos_transfer::name::is_accepted(&entry.name), "{:?}", entry.name);
            let path = format!("{folder}/{}", entry.name);
            match entry.status.kind {
                Kind::Folder if folder.matches('/').count() < 8 && seen < 2_000 => folders.push(path),
                Kind::File if seen < 2_000 => drop(read(volume, &path)),
                _ => {}
            }
        }
    }
    seen
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}

/// Where the parts of an image lie.
pub struct Layout {
    pub bits: u32,
    pub fat: u64,
    pub fat_bytes: u64,
    pub root: u64,
    pub data: u64,
    pub cluster: u64,
}

pub fn layout(disk: &Memory, bits: u32) -> Layout {
    let cluster = SECTOR as u64;
    let fat = disk.u16(14) * cluster;
    let sectors = if disk.u16(22) == 0 { disk.u16(36) } else { disk.u16(22) };
    let root = fat + 2 * sectors * cluster;
    Layout { bits, fat, fat_bytes: sectors * cluster, root, data: root + disk.u16(17) * 32, cluster }
}

/// Sets a cluster's entry in both tables.
pub fn link(disk: &Memory, layout: &Layout, cluster: u64, to: u64) {
    for table in [layout.fat, layout.fat + layout.fat_bytes] {
        match layout.bits {
            32 => disk.put(table + cluster * 4, &(to as u32).to_le_bytes()),
            16 => disk.put(table + cluster * 2, &(to as u16).to_le_bytes()),
            _ => {
                let at = table + cluster + cluster / 2;
                let (old, to) = (disk.u16(at), to & 0xfff);
                let new = if cluster % 2 == 1 { old & 0xf | to << 4 } else { old & 0xf000 | to };
                disk.put(at, &(new as u16).to_le_bytes());
            }
        }
    }
}

/// Damages a disk in one to six places: parameters, tables, entries, names.
pub fn damage(disk: &Memory, bits: u32, seed: u64) {
    const FIELDS: &[(u64, usize)] = &[
        (0, 3),
        (11, 2),
        (13, 1),
        (14, 2),
        (16, 1),
        (17, 2),
        (19, 2),
        (21, 1),
        (22, 2),
        (32, 4),
        (36, 4),
        (40, 2),
        (44, 4),
        (48, 2),
        (50, 2),
        (510, 2),
    ];
    /// Clusters of an image that are in use, about.
    const USED: u64 = 80;
    let mut random = Random(seed);
    let layout = layout(disk, bits);
    for _ in 0..=random.below(5) {
        match random.below(7) {
            0 => {
                let ((at, bytes), any) = (random.of(FIELDS), random.next());
                let value = random.of(&[0, u64::MAX, 1, any, any % 64, 1 << (any % 32)]);
                disk.put(at, &value.to_le_bytes()[..bytes]);
            }
            1 | 2 => {
                let (cluster, other, any) =
                    (2 + random.below(USED), 2 + random.below(USED), random.next() & 0x0fff_ffff);
                link(disk, &layout, cluster, random.of(&[cluster, other, other, 0, 1, 2, any, 0x0fff_fff7]));
            }
            3 => {
                let at = layout.fat + random.below(2 * layout.fat_bytes);
                disk.put(at, &[random.next() as u8]);
            }
            4 => disk.put(SECTOR as u64 + random.below(SECTOR as u64), &[random.next() as u8]),
            _ => {
                let within = [layout.root, layout.data][usize::from(random.below(2) == 1)];
                let at = within + random.below(16 + USED * layout.cluster / 32) * 32;
                let any = random.next();
                match random.below(6) {
                    0 => disk.put(at, &[random.of(&[0, 0xe5, b'.', 5, b'/', 0x1b, b'A', 0x42, 0x7f])]),
                    1 => disk.put(at + 11, &[random.of(&[0x10, 0x0f, 0x08, 0x20, 0, 0xff])]),
                    2 => disk.put(at + 26, &(any as u16 % USED as u16).to_le_bytes()),
                    3 => disk.put(at + 28, &(any as u32).to_le_bytes()),
                    4 => {
                        let unit = random.of(&[0x1b, 0x2f, 0xd800, 0xdfff, 0x202e, 0, 0xffff, any as u16]);
                        disk.put(at + 1 + 2 * random.below(5), &unit.to_le_bytes());
                    }
                    _ => disk.put(at + random.below(32), &[any as u8]),
                }
            }
        }
    }
}
