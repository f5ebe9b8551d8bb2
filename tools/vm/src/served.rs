//! A disk whose content this program serves to QEMU: it can fail, and has a cache that a power cut loses.
//!
//! QEMU connects by NBD. A write is in the cache until a flush or a write with FUA. When the power is cut, each write in
//! the cache is lost, whole, or torn at 512 bytes, in any order, by a seed. A disk that QEMU reads from a file cannot show
//! that: what QEMU has written when it is killed is in the host's page cache, flushed or not.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Bytes that a disk writes as one.
const SECTOR: usize = 512;

/// How a disk behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// It does what it is told.
    Well,
    /// Every read is answered with an error.
    ReadsFail,
    /// Each read of the byte at this offset is answered with an error.
    Unreadable(u64),
    /// Every write and flush is answered with an error.
    WritesFail,
    /// Every flush is answered with an error. What was written before it is lost.
    FlushesFail,
    /// It answers nothing any more, until its mood changes.
    Silent,
    /// Each answer comes this much later.
    Late(Duration),
}

/// A generator of random numbers (splitmix64): the same ones for the same seed.
#[derive(Debug, Clone)]
pub struct Seed(pub u64);

impl Seed {
    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).checked_rem(limit).unwrap_or_default()
    }
}

/// What the disk has and does.
struct State {
    file: File,
    /// Sectors that were written since the last flush: every version, in the order of the writes.
    cache: BTreeMap<u64, Vec<[u8; SECTOR]>>,
    mood: Mood,
    /// Requests until it stops, if it is to.
    left: Option<u64>,
    /// Requests so far.
    requests: u64,
    /// Whether it has stopped: nothing is answered until the power is cut.
    stopped: bool,
    closed: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    bytes: u64,
}

/// A disk that is served at a socket until it is dropped.
pub struct Served {
    shared: Arc<Shared>,
    folder: PathBuf,
}

impl Served {
    /// Serves a file's content at a socket of its own.
    ///
    /// # Errors
    /// The file cannot be opened for writing, or there is no socket.
    pub fn start(file: &Path) -> Result<Self> {
        let opened = File::options().read(true).write(true).open(file);
        let opened = opened.with_context(|| format!("opening {}", file.display()))?;
        let bytes = opened.metadata()?.len();
        let state = State {
            file: opened,
            cache: BTreeMap::new(),
            mood: Mood::Well,
            left: None,
            requests: 0,
            stopped: false,
            closed: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), bytes });
        // A socket's path must be short.
        let folder = std::env::temp_dir().join(format!("capos-disk-{}-{:p}", std::process::id(), Arc::as_ptr(&shared)));
        std::fs::create_dir_all(&folder)?;
        let served = Self { shared: shared.clone(), folder };
        let listener = UnixListener::bind(served.socket()).context("making the disk's socket")?;
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.lock().closed {
                    return;
                }
                // The machine may end in the middle of a request.
                let _ = stream.and_then(|stream| shared.serve(&stream));
            }
        });
        Ok(served)
    }

    /// Where QEMU connects.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.join("nbd")
    }

    /// Changes how it behaves from the next request on. A request that waits is answered then.
    pub fn set_mood(&self, mood: Mood) {
        self.shared.lock().mood = mood;
        self.shared.changed.notify_all();
    }

    /// Has it stop before it does the request of this number from now on.
    pub fn stop_before(&self, request: u64) {
        let mut state = self.shared.lock();
        (state.left, state.stopped, state.requests) = (Some(request), false, 0);
    }

    /// Waits until it has stopped. False if it has not until the deadline.
    #[must_use]
    pub fn wait_stopped(&self, deadline: Instant) -> bool {
        let mut state = self.shared.lock();
        while !state.stopped {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Requests since [`Self::stop_before`], or since it was made.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.lock().requests
    }

    /// Ends the power: what of the cache is on the medium is decided by a seed. The machine must have ended.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn cut(&self, seed: &mut Seed) -> Result<()> {
        let mut state = self.shared.lock();
        let cache = std::mem::take(&mut state.cache);
        for (sector, versions) in cache {
            // The one that was there before, or any of those since.
            let chosen = seed.below(versions.len() as u64 + 1);
            let chosen = usize::try_from(chosen).ok().and_then(|chosen| versions.get(chosen.checked_sub(1)?));
            if let Some(bytes) = chosen {
                state.file.write_all_at(bytes, sector * SECTOR as u64).context("writing the disk's file")?;
            }
        }
        state.rest();
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Writes the cache to the medium, as a disk does by itself after a while. The machine must have ended.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn settle(&self) -> Result<()> {
        let mut state = self.shared.lock();
        state.flush().context("writing the disk's file")?;
        state.rest();
        self.shared.changed.notify_all();
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        // The listener waits for a connection.
        let _ = UnixStream::connect(self.socket());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl State {
    fn flush(&mut self) -> io::Result<()> {
        for (sector, versions) in std::mem::take(&mut self.cache) {
            if let Some(bytes) = versions.last() {
                self.file.write_all_at(bytes, sector * SECTOR as u64)?;
            }
        }
        Ok(())
    }

    /// As after power-on.
    fn rest(&mut self) {
        (self.left, self.stopped) = (None, false);
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)?;
        for (sector, bytes) in (offset / SECTOR as u64..).zip(into.chunks_exact_mut(SECTOR)) {
            if let Some(cached) = self.cache.get(&sector).and_then(|versions| versions.last()) {
                bytes.copy_from_slice(cached);
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, from: &[u8]) {
        for (sector, bytes) in (offset / SECTOR as u64..).zip(from.chunks_exact(SECTOR)) {
            let mut copy = [0; SECTOR];
            copy.copy_from_slice(bytes);
            self.cache.entry(sector).or_default().push(copy);
        }
    }
}

/// Words of the protocol; see `doc/proto.md` of NBD.
mod nbd {
    pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
    pub const OPTION: u64 = 0x4948_4156_454f_5054;
    pub const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
    pub const REQUEST: u32 = 0x2560_9513;
    pub const REPLY: u32 = 0x6744_6698;
    /// Fixed new style, and no zeros after the export's description.
    pub const HANDSHAKE: u16 = 3;
    /// The disk has flags, flushes, and writes with FUA.
    pub const EXPORT: u16 = 1 | 4 | 8;
    pub const FUA: u16 = 1;
    pub const GO: u32 = 7;
    pub const ACKNOWLEDGED: u32 = 1;
    pub const INFO: u32 = 3;
    pub const UNSUPPORTED: u32 = (1 << 31) | 1;
    pub const EIO: u32 = 5;
    pub const EINVAL: u32 = 22;
    /// Bytes of an option or a request at most.
    pub const MOST: u32 = 32 << 20;
}

fn word<const N: usize>(mut stream: &UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn payload(mut stream: &UnixStream, length: u32) -> io::Result<Vec<u8>> {
    if length > nbd::MOST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one machine until it ends.
    fn serve(&self, mut stream: &UnixStream) -> io::Result<()> {
        stream.write_all(
            &[&nbd::MAGIC.to_be_bytes()[..], &nbd::OPTION.to_be_bytes(), &nbd::HANDSHAKE.to_be_bytes()].concat(),
        )?;
        word::<4>(stream)?;
        loop {
            word::<8>(stream)?;
            let option = u32::from_be_bytes(word(stream)?);
            let length = u32::from_be_bytes(word(stream)?);
            payload(stream, length)?;
            let reply = |kind: u32, data: &[u8]| {
                let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
                let head = [option, kind, length].map(u32::to_be_bytes).concat();
                [&nbd::OPTION_REPLY.to_be_bytes()[..], &head, data].concat()
            };
            if option != nbd::GO {
                stream.write_all(&reply(nbd::UNSUPPORTED, &[]))?;
                continue;
            }
            let export = [&0_u16.to_be_bytes()[..], &self.bytes.to_be_bytes(), &nbd::EXPORT.to_be_bytes()].concat();
            stream.write_all(&reply(nbd::INFO, &export))?;
            stream.write_all(&reply(nbd::ACKNOWLEDGED, &[]))?;
            break;
        }
        while self.request(stream)? {}
        Ok(())
    }

    /// Does one request; whether the machine is still there.
    fn request(&self, mut stream: &UnixStream) -> io::Result<bool> {
        if u32::from_be_bytes(word(stream)?) != nbd::REQUEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (flags, kind) = (u16::from_be_bytes(word(stream)?), u16::from_be_bytes(word(stream)?));
        let cookie: [u8; 8] = word(stream)?;
        let (offset, length) = (u64::from_be_bytes(word(stream)?), u32::from_be_bytes(word(stream)?));
        let data = if kind == 1 { payload(stream, length)? } else { Vec::new() };
        if kind == 2 {
            return Ok(false);
        }
        let Some(done) = self.done(kind, flags, offset, length, &data) else { return Ok(false) };
        let (error, data) = match done {
            Ok(data) => (0, data),
            Err(error) => (error, Vec::new()),
        };
        stream.write_all(&[&nbd::REPLY.to_be_bytes()[..], &error.to_be_bytes(), &cookie, &data].concat())?;
        Ok(true)
    }

    /// What a request is answered with: the data of a read, or the number of an error; `None` if the machine's power is cut
    /// before an answer.
    fn done(&self, kind: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> Option<Result<Vec<u8>, u32>> {
        let mut state = self.lock();
        state.requests += 1;
        match state.left {
            Some(0) => {
                state.stopped = true;
                self.changed.notify_all();
                while state.stopped && !state.closed {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                return None;
            }
            Some(left) => state.left = Some(left - 1),
            None => {}
        }
        let began = Instant::now();
        loop {
            let until = match state.mood {
                _ if state.closed => return None,
                Mood::Silent => Duration::from_secs(60),
                Mood::Late(late) => late.saturating_sub(began.elapsed()),
                _ => Duration::ZERO,
            };
            if until.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, until).unwrap_or_else(PoisonError::into_inner).0;
        }
        let fits = offset.checked_add(length.into()).is_some_and(|end| end <= self.bytes);
        let whole = offset.is_multiple_of(SECTOR as u64) && (length as usize).is_multiple_of(SECTOR);
        if kind > 3 || (kind != 3 && !(fits && whole)) {
            return Some(Err(nbd::EINVAL));
        }
        let failed = |_: io::Error| nbd::EIO;
        let touched = |at: u64| (offset..offset.saturating_add(length.into())).contains(&at);
        Some(match (kind, state.mood) {
            (0, Mood::Unreadable(at)) if touched(at) => Err(nbd::EIO),
            (0, Mood::ReadsFail) | (1 | 3, Mood::WritesFail) => Err(nbd::EIO),
            (3, Mood::FlushesFail) => {
                state.cache.clear();
                Err(nbd::EIO)
            }
            (0, _) => {
                let mut into = vec![0; length as usize];
                state.read(offset, &mut into).map(|()| into).map_err(failed)
            }
            (1, mood) => {
                state.write(offset, data);
                match (flags & nbd::FUA != 0, mood) {
                    (true, Mood::FlushesFail) => Err(nbd::EIO),
                    (true, _) => state.flush().map(|()| Vec::new()).map_err(failed),
                    (false, _) => Ok(Vec::new()),
                }
            }
            _ => state.flush().map(|()| Vec::new()).map_err(failed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served() -> (tempfile::TempDir, PathBuf, Served) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk.img");
        std::fs::write(&file, [0; 8 * SECTOR]).unwrap();
        let served = Served::start(&file).unwrap();
        (folder, file, served)
    }

    fn done(served: &Served, kind: u16, sector: u64, byte: u8) -> Result<Vec<u8>, u32> {
        let length = if kind == 3 { 0 } else { SECTOR as u32 };
        served.shared.done(kind, 0, sector * SECTOR as u64, length, &[byte; SECTOR]).unwrap()
    }

    #[test]
    fn a_cut_loses_what_was_not_flushed_and_nothing_else() {
        let mut seen = [false; 3];
        for seed in 0..64 {
            let (_folder, file, served) = served();
            done(&served, 1, 0, 1).unwrap();
            done(&served, 3, 0, 0).unwrap();
            done(&served, 1, 1, 2).unwrap();
            done(&served, 1, 1, 3).unwrap();
            assert_eq!(done(&served, 0, 1, 0).unwrap(), [3; SECTOR]);
            served.cut(&mut Seed(seed)).unwrap();
            let bytes = std::fs::read(file).unwrap();
            assert_eq!((bytes[0], bytes[2 * SECTOR]), (1, 0));
            seen[usize::from(bytes[SECTOR].saturating_sub(1))] = true;
        }
        assert_eq!(seen, [true; 3]);
    }

    #[test]
    fn it_fails_as_it_is_told() {
        let (_folder, _, served) = served();
        served.set_mood(Mood::ReadsFail);
        assert!(done(&served, 0, 0, 0).is_err() && done(&served, 1, 0, 1).is_ok());
        served.set_mood(Mood::Unreadable(2 * SECTOR as u64 - 1));
        assert!([0, 1, 2].map(|sector| done(&served, 0, sector, 0).is_ok()) == [true, false, true]);
        assert!(done(&served, 1, 1, 1).is_ok());
        served.set_mood(Mood::FlushesFail);
        assert!(done(&served, 3, 0, 0).is_err() && done(&served, 0, 0, 0).unwrap() == [0; SECTOR]);
        served.set_mood(Mood::WritesFail);
        assert!(done(&served, 1, 0, 0).is_err() && done(&served, 3, 0, 0).is_err() && done(&served, 0, 0, 0).is_ok());
        served.set_mood(Mood::Well);
        assert!(done(&served, 0, 8, 0).is_err());
        served.stop_before(1);
        assert!(done(&served, 0, 0, 0).is_ok() && !served.wait_stopped(Instant::now()));
        std::thread::scope(|scope| {
            let stopped = scope.spawn(|| served.shared.done(0, 0, 0, SECTOR as u32, &[]));
            assert!(served.wait_stopped(Instant::now() + Duration::from_secs(60)));
            served.cut(&mut Seed(0)).unwrap();
            assert!(stopped.join().unwrap().is_none());
        });
    }
}
