//! What the process has: the vault, the machine's means, and the page that outlives a crash.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};

use capos_async_lock::Waiters;
use capos_rt::memory::{self, Access, Mapping};
use capos_rt::{Clock, Env, Error, exit, exit_code, log, wait_for};
use capos_schema::cap::CallError;
use capos_schema::kernel::{EntropyClient, MemoryObjectClient, ResourceAccountClient};
use capos_schema::storage::DiskAccessClient;
use capos_schema::store::{BackupState, VolumeState};
use capos_store::{LeftOut, MemoryBlocks, Random};
use capos_store_service::kept::{BYTES, Kept, LEFT_OUT_BYTES, decode_left_out, encode_left_out};
use capos_store_service::marks::{self, Marks};
use capos_store_service::shares::Shares;
use capos_store_service::spaces::Spaces;
use capos_store_service::vault::{Means, Vault};

use crate::disk::GuestDisk;
use crate::here::Here;

/// Memory of the process that a key derivation leaves alone: buffers, caches of the database and the volume, one batch.
const REST: u64 = 8 << 20;
const FRAME: u64 = 4096;
/// Where the page has the marks, behind the key.
const MARKS: u64 = 1024;
/// Where it has what damaged blocks have cost, behind the marks.
const LEFT_OUT: u64 = 1280;
const _: () = assert!(BYTES <= 1024 && marks::BYTES <= 256 && LEFT_OUT_BYTES <= 4096 - 1280);
/// How long no client has called before the volume is settled, in nanoseconds.
const IDLE: u64 = 1_000_000_000;
/// Random bytes of one call.
const ENTROPY: usize = 1024;

/// What the manifest says of the service.
pub struct Settings {
    /// KiB of the store in memory, on a machine without a data disk.
    pub memory_kib: u64,
    /// Time that the derivation of a new key takes at most.
    pub key_milliseconds: u64,
}

/// What the process has.
pub struct Holder {
    pub access: DiskAccessClient,
    pub vault: RefCell<Vault<GuestDisk>>,
    /// Wakes at every change of the vault's state.
    pub changed: Waiters,
    memory_kib: u64,
    page: Option<Mapping>,
    /// What the page says of clients.
    marks: RefCell<Marks>,
    /// What the page says of lost changes.
    left_out: RefCell<BTreeMap<LeftOut, u64>>,
    /// Wakes at every call of a client that may have changed something, and how many there were.
    pub used: (Waiters, Cell<u64>),
    /// How far the backup or the restore is; none if there is none.
    pub copying: RefCell<Option<BackupState>>,
}

/// The right to be the one backup or restore.
pub struct Copying(Rc<Holder>);

impl Copying {
    /// # Errors
    /// Another one is running.
    pub fn begin(holder: &Rc<Holder>, state: BackupState) -> Result<Self, CallError> {
        let mut copying = holder.copying.borrow_mut();
        if copying.is_some() {
            return Err(CallError::overloaded("another backup or restore is running; wait for its end"));
        }
        *copying = Some(state);
        Ok(Self(holder.clone()))
    }

    /// Says how far it is.
    pub fn tell(&self, change: impl FnOnce(&mut BackupState)) {
        if let Some(state) = self.0.copying.borrow_mut().as_mut() {
            change(state);
        }
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        *self.0.copying.borrow_mut() = None;
    }
}

impl Holder {
    /// The shares are those of a data disk, and those of a store in memory.
    ///
    /// # Errors
    /// A grant is missing or of another kind.
    pub fn new(env: &Env, shares: (Shares, Shares), settings: Settings) -> Result<Rc<Self>, Error> {
        let (clock, account) = (env.clock()?, env.cap::<ResourceAccountClient>("account")?);
        let entropy = env.cap::<EntropyClient>("entropy")?;
        let page = env.optional::<MemoryObjectClient>("kept")?;
        let page = page.map(|memory| memory::map_all(&memory, Access::ReadWrite)).transpose()?;
        let means = Means {
            clock: Box::new(move || clock.now()),
            random: Box::new(move || random(entropy.clone())),
            memory: Box::new(move || derivation(&account)),
            target: settings.key_milliseconds.saturating_mul(1_000_000),
        };
        Ok(Rc::new(Self {
            access: env.cap("disks")?,
            vault: RefCell::new(Vault::new(shares, capos_formats::ALL, means)),
            changed: Waiters::default(),
            memory_kib: settings.memory_kib,
            marks: RefCell::new(Marks::new(part(page.as_ref(), MARKS))),
            left_out: RefCell::new(decode_left_out(&part::<LEFT_OUT_BYTES>(page.as_ref(), LEFT_OUT))),
            page,
            used: (Waiters::default(), Cell::new(0)),
            copying: RefCell::default(),
        }))
    }

    /// The blocks of a store in memory.
    pub fn memory(&self) -> MemoryBlocks {
        MemoryBlocks::new(self.memory_kib.saturating_mul(1024).div_euclid(capos_store::BLOCK_BYTES as u64))
    }

    /// Waits until the disks have been looked at.
    pub async fn searched(&self) {
        let searched = || (self.vault.borrow().state() != VolumeState::Searching).then_some(());
        self.changed.until(searched).await;
    }

    /// The key that an earlier life of the process has kept.
    pub fn kept(&self) -> Option<Kept> {
        let mut bytes = zeroize::Zeroizing::new([0; BYTES]);
        self.page.as_ref()?.read(0, &mut *bytes).ok()?;
        Kept::decode(&bytes)
    }

    /// The clients to whom an earlier life of the process owes something, and what it has lost.
    pub fn owed(&self) -> (Marks, BTreeMap<LeftOut, u64>) {
        (self.marks.borrow().clone(), self.left_out.borrow().clone())
    }

    /// Keeps for the next life which clients it will have to tell, before they are answered, and what was lost; and says what is new
    /// of the disk.
    pub fn keep(&self, spaces: &mut Spaces<GuestDisk>) {
        let (used, count) = &self.used;
        count.set(count.get().wrapping_add(1));
        used.wake();
        if let Some(news) = spaces.news() {
            log::warning!("{news}");
        }
        let (at_risk, mut marks) = (spaces.at_risk(), self.marks.borrow_mut());
        if at_risk != *marks {
            self.write(MARKS, at_risk.bytes());
            *marks = at_risk;
        }
        let mut left_out = self.left_out.borrow_mut();
        if *spaces.left_out() != *left_out {
            left_out.clone_from(spaces.left_out());
            self.write(LEFT_OUT, &encode_left_out(&left_out));
        }
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        if let Some(page) = &self.page
            && let Err(error) = page.write(at, bytes)
        {
            log::warning!("after a crash of this service nobody is told what was lost: {error}");
        }
    }

    /// Settles the volume whenever no client has called for a while.
    pub async fn settle_when_idle(&self, clock: &Clock) {
        let (used, count) = &self.used;
        let mut settled = 0;
        loop {
            used.until(|| (count.get() != settled).then_some(())).await;
            settled = count.get();
            clock.sleep(IDLE).await;
            if count.get() == settled
                && let Some(spaces) = self.vault.borrow_mut().spaces()
                && let Err(error) = spaces.with_store(|store| store.settle())
            {
                log::warning!("the volume's second header could not be written: {error}");
            }
        }
    }

    /// Keeps the keys of an open volume for the next life of the process, and tells those who wait for a state.
    pub fn settle(&self) {
        for warning in self.vault.borrow_mut().warnings() {
            log::warning!("{warning}");
        }
        let kept = self.vault.borrow_mut().kept();
        if let (Some(kept), Some(page)) = (kept, &self.page)
            && let Err(error) = page.write(0, &*kept.encode())
        {
            log::warning!("after a crash of this service the volume has to be opened again: {error}");
        }
        self.changed.wake();
    }
}

/// What an earlier life of the process has left at this place in the page. Zeros are nothing.
fn part<const LENGTH: usize>(page: Option<&Mapping>, at: u64) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    let read = page.map(|page| page.read(at, &mut bytes));
    if matches!(read, Some(Ok(()))) { bytes } else { [0; LENGTH] }
}

/// Bytes that a key derivation may take. The heap may have to hold room for two, since what was free before is in pieces.
fn derivation(account: &ResourceAccountClient) -> u64 {
    let limit = wait_for(account.usage()).map_or(0, |usage| usage.limits.frames);
    limit.saturating_mul(FRAME).saturating_sub(REST).div_euclid(2)
}

/// A source of random bytes.
fn random(entropy: EntropyClient) -> Random {
    let entropy = Here::new(entropy);
    Box::new(move |bytes| {
        for part in bytes.chunks_mut(ENTROPY) {
            let wanted = u16::try_from(part.len()).unwrap_or(u16::MAX);
            match wait_for(entropy.get().read(wanted)) {
                Ok(data) if data.len() == part.len() => part.copy_from_slice(&data),
                // A key without randomness is worse than no service.
                other => {
                    log::error!("the kernel gave no random bytes: {:?}", other.map(|data| data.len()));
                    exit(exit_code::FAILURE);
                }
            }
        }
    })
}
