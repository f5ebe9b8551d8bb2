//! The data volume and its keys: created, opened, verified, changed. Wrong keys are counted on the disk before they are tried.

pub mod backup;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_home_keys::Pair;
use capos_policy::Attempts;
use capos_schema::store::{KeyInfo, KeyKind, StoreFault, VolumeInfo, VolumeState};
use capos_store::{MemoryBlocks, OnVolume, Random, StoreError};
use capos_volume::{
    Access, Cost, Error, Format, Header, KeySlot, Locked, Operation, Options, RecoveryCode, Secret, SlotKind,
    SlotSecret, Volume, calibrate, choose, set_wrong_keys, wrong_keys,
};
use zeroize::Zeroizing;

use crate::base::{Base, DataDisk};
use crate::disks::Decision;
use crate::kept::Kept;
use crate::names::{check_name, check_passphrase, check_secret};
use crate::sealed::Sealed;
use crate::shares::Shares;
use crate::spaces::Spaces;
use crate::waiting::Waiting;
use keys::Entered;

mod blank;
mod formats;
mod keys;

/// Nodes of the volume's tree that stay in memory, of 4 KiB each.
const CACHE_NODES: usize = 256;
/// The least memory with which the calibration tries again if there is less than it was told.
const LEAST_MEMORY: u64 = 1 << 20;

/// What the vault needs of the machine.
pub struct Means {
    /// Nanoseconds that do not go back.
    pub clock: Box<dyn FnMut() -> u64>,
    /// Makes a source of random bytes.
    pub random: Box<dyn FnMut() -> Random>,
    /// Bytes of memory that a key derivation may take now.
    pub memory: Box<dyn FnMut() -> u64>,
    /// Nanoseconds that the derivation of a new key takes at most.
    pub target: u64,
}

/// Where the volume is.
enum Stage<D: DataDisk> {
    /// The disks are being looked at.
    Searching,
    /// There is a disk for it, and no volume.
    Blank,
    Locked(Box<Locked<D>>, D),
    /// It is unlocked, and has parts of other formats.
    Waiting(Box<Waiting<D>>),
    Open(Box<Spaces<D>>),
    /// What is on the disk cannot be used.
    Broken,
    /// A volume is being filled from a backup.
    Restoring,
}

/// The data volume, or what stands for it.
pub struct Vault<D: DataDisk> {
    stage: Stage<D>,
    state: VolumeState,
    details: String,
    place: String,
    bytes: u64,
    read_only: bool,
    attempts: Attempts,
    /// Of a data disk, and of a store in memory.
    shares: (Shares, Shares),
    /// The parts of the store, with what is known of them.
    formats: &'static [capos_formats::Format],
    /// The secret that has opened the volume, until the store is open.
    entered: Option<Entered>,
    /// The recovery code was given since the machine was started.
    code: Option<Pair>,
    warnings: Vec<String>,
    means: Means,
}

/// A new volume, with what its first secret and its recovery code give.
struct Made<D> {
    volume: Volume<D>,
    code: Zeroizing<String>,
    first: SlotSecret,
    recovery: SlotSecret,
}

/// How a secret did.
#[derive(Debug, PartialEq, Eq)]
pub enum Tried {
    Right,
    /// Why not, as a sentence.
    Wrong(String),
}

/// A disk that the search has found.
#[derive(Clone)]
pub struct Place<D> {
    pub name: String,
    pub bytes: u64,
    pub read_only: bool,
    pub disk: D,
}

impl<D: DataDisk> Vault<D> {
    /// A vault whose disks are being looked at.
    #[must_use]
    pub fn new(shares: (Shares, Shares), formats: &'static [capos_formats::Format], means: Means) -> Self {
        Self {
            stage: Stage::Searching,
            state: VolumeState::Searching,
            details: "the disks are being looked at".into(),
            place: String::new(),
            bytes: 0,
            read_only: false,
            attempts: Attempts::default(),
            shares,
            formats,
            entered: None,
            code: None,
            warnings: Vec::new(),
            means,
        }
    }

    /// The open store.
    pub fn spaces(&mut self) -> Option<&mut Spaces<D>> {
        match &mut self.stage {
            Stage::Open(spaces) => Some(spaces),
            _ => None,
        }
    }

    /// Why there is no open store, to those who have a namespace.
    #[must_use]
    pub fn fault(&self) -> StoreFault {
        match self.stage {
            Stage::Searching | Stage::Blank | Stage::Locked(..) | Stage::Waiting(_) | Stage::Restoring => {
                StoreFault::Locked
            }
            Stage::Open(_) | Stage::Broken => StoreFault::Damaged,
        }
    }

    /// State and way out, as a sentence.
    #[must_use]
    pub fn details(&self) -> &str {
        &self.details
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> VolumeState {
        self.state
    }

    fn tell(&mut self, decision: &Decision, place: Option<&Place<D>>) {
        self.state = decision.state;
        self.details.clone_from(&decision.details);
        if let Some(place) = place {
            self.place.clone_from(&place.name);
            (self.bytes, self.read_only) = (place.bytes, place.read_only);
        }
    }

    /// What is on the disk cannot be used, whatever key there is.
    fn broken(&mut self, state: VolumeState, why: &dyn core::fmt::Display) {
        self.stage = Stage::Broken;
        self.state = state;
        let instead = match state {
            VolumeState::OtherVersion => "start the capOS that made it",
            _ => "attach another disk to keep things, and restore a backup to it",
        };
        self.details = format!(
            "the data volume on {} cannot be used: {why}. Nothing on it was changed; {instead}. Until then nothing is kept \
             when the machine is turned off",
            self.place
        );
    }

    /// The search has found no volume that could be opened: everything is in memory.
    ///
    /// # Errors
    /// The store cannot be made.
    pub fn in_memory(
        &mut self,
        decision: &Decision,
        place: Option<&Place<D>>,
        blocks: MemoryBlocks,
    ) -> Result<(), StoreError> {
        self.tell(decision, place);
        self.stage = Stage::Open(Box::new(Spaces::open(Base::Memory(blocks), self.shares.1.clone())?));
        Ok(())
    }

    /// If a key was right and the volume cannot be used all the same, everything is in memory, as with damaged headers.
    ///
    /// # Errors
    /// The store in memory cannot be made.
    pub fn go_without(&mut self, blocks: impl FnOnce() -> MemoryBlocks) -> Result<(), StoreError> {
        if !matches!(self.stage, Stage::Broken) {
            return Ok(());
        }
        let decision = Decision { state: self.state, disk: None, details: self.details.clone() };
        self.in_memory(&decision, None, blocks())
    }

    /// The search has found a blank disk.
    pub fn blank(&mut self, decision: &Decision, place: &Place<D>) {
        self.tell(decision, Some(place));
        self.stage = Stage::Blank;
    }

    /// The search has found a volume. With the key of an earlier life it is open at once.
    pub fn found(&mut self, decision: &Decision, place: Place<D>, mut locked: Locked<D>, kept: Option<&Kept>) {
        self.tell(decision, Some(&place));
        let Some(header) = locked.header().cloned() else {
            return self.broken(VolumeState::Damaged, &Error::DamagedHeader);
        };
        match wrong_keys(locked.disk_mut(), &header) {
            Ok(wrong) => self.attempts = Attempts::continued(wrong, (self.means.clock)()),
            Err(error) => return self.broken(VolumeState::Damaged, &error),
        }
        let key = kept.filter(|kept| kept.uuid == header.uuid).and_then(|kept| locked.resume(&kept.key).ok());
        match key {
            Some(key) => {
                self.unlocked(locked, key, place.disk);
                if let (Some(kept), VolumeState::Open) = (kept, self.state) {
                    self.resume(&kept.homes);
                }
            }
            None => self.stage = Stage::Locked(Box::new(locked), place.disk),
        }
    }

    /// A new volume as blocks.
    fn blocks(&mut self, volume: Volume<D>, disk: D) -> Base<D> {
        let options = Options { access: Access::Write, cache_nodes: CACHE_NODES };
        Base::Volume(Box::new(OnVolume::new(volume, disk, options, (self.means.random)())))
    }

    fn opened(&mut self, opened: Result<Spaces<D>, StoreError>) {
        match opened {
            Ok(spaces) => {
                let sealed = Sealed::new(&mut (self.means.random)());
                self.stage = Stage::Open(Box::new(spaces.with_keys(sealed)));
                self.state = VolumeState::Open;
                self.details = format!("the data volume on {} is open", self.place);
                if let Some(entered) = self.entered.take() {
                    self.enter(&entered);
                }
            }
            Err(error @ StoreError::Format(_)) => self.broken(VolumeState::OtherVersion, &error),
            Err(error) => self.broken(VolumeState::Damaged, &error),
        }
    }

    /// The key of the open volume, to be kept for the next life of the process.
    pub fn kept(&mut self) -> Option<Kept> {
        let homes = self.at_hand();
        self.with_volume(|volume| Ok(Kept { uuid: volume.header().uuid, key: volume.key(), homes })).ok()
    }

    fn with_volume<T>(&mut self, work: impl FnOnce(&mut Volume<D>) -> Result<T, Error>) -> Result<T, String> {
        let on_volume = |base: &mut Base<D>| match base {
            Base::Volume(base) => Some(base.volume().and_then(work)),
            Base::Memory(_) => None,
        };
        let done = match &mut self.stage {
            Stage::Open(spaces) => spaces.with_base(on_volume),
            Stage::Waiting(waiting) => waiting.with_base(on_volume),
            _ => return Err(format!("no volume is open: {}", self.details)),
        };
        let done = done.ok_or_else(|| format!("there is no volume: {}", self.details))?;
        done.map_err(|error| error.to_string())
    }

    /// The status, with the keys and the head.
    pub fn status(&mut self) -> VolumeInfo {
        let mut info = VolumeInfo {
            state: self.state,
            disk: self.place.clone(),
            details: self.details.clone(),
            bytes: self.bytes,
            failed_attempts: self.attempts.wrong(),
            read_only: self.read_only || self.spaces().is_some_and(|spaces| spaces.is_read_only()),
            plan: match &self.stage {
                Stage::Waiting(waiting) => waiting.sentences(),
                _ => Vec::new(),
            },
            ..VolumeInfo::default()
        };
        let locked = match &self.stage {
            Stage::Locked(locked, _) => locked.header().cloned(),
            _ => None,
        };
        if let Some(why) = self.spaces().and_then(|spaces| spaces.why_read_only()) {
            (info.details, info.read_only) = (why, true);
        }
        info.lost = self.spaces().map(|spaces| spaces.lost()).unwrap_or_default();
        let open = self.with_volume(|volume| Ok((volume.header().clone(), volume.head()))).ok();
        if let Some((_, head)) = &open {
            let digest = hex::encode(head.digest.get(..16).unwrap_or_default());
            info.head = format!("{} {digest}", head.epoch);
        }
        if let Some(header) = locked.or(open.map(|(header, _)| header)) {
            info.id = capos_disk_content::Uuid(header.uuid).to_string();
            info.keys = header.slots().map(|(number, slot)| key_info(number, slot)).collect();
        }
        info
    }

    /// Makes a volume on a blank disk, with a passphrase or a key file; it is open then. Returns the recovery code.
    ///
    /// # Errors
    /// The state, the name or the key does not allow it, or the disk fails.
    pub fn create(
        &mut self,
        place: Place<D>,
        name: &str,
        secret: &str,
        kind: KeyKind,
    ) -> Result<Zeroizing<String>, String> {
        self.may_create(name, secret, kind)?;
        let Made { volume, code, first, recovery } = self.format(&place, name, secret, kind)?;
        let store = self.copied(volume, &place)?;
        (self.place, self.bytes, self.read_only) = (place.name, place.bytes, false);
        self.attempts = Attempts::default();
        let shares = self.shares.0.clone();
        self.opened(store.map(|store| Spaces::new(store, shares)));
        if self.state != VolumeState::Open {
            return Err(self.details.clone());
        }
        self.enter_new(name, &first, &recovery);
        Ok(code)
    }

    /// Makes a volume on a disk, with a key and a recovery code.
    fn format(&mut self, place: &Place<D>, name: &str, secret: &str, kind: KeyKind) -> Result<Made<D>, String> {
        let (secret, cost) = match kind {
            KeyKind::KeyFile => (Secret::KeyFile(secret.as_bytes()), Cost::LEAST),
            KeyKind::Passphrase | KeyKind::RecoveryCode => (Secret::Passphrase(secret.as_bytes()), self.cost()?),
        };
        let cipher = choose(&mut *self.means.clock);
        let format = Format { cipher, cost, label: name, cache_nodes: CACHE_NODES };
        let mut random = (self.means.random)();
        let made = Volume::format_own(place.disk.clone(), format, &secret, &mut random);
        let (mut volume, first) = made.map_err(|error| error.to_string())?;
        let code = RecoveryCode::new(&mut random);
        let added = volume.new_slot(&Secret::Recovery(&code), Cost::LEAST, "", &mut random);
        let added = added.and_then(|(slot, own)| volume.put_slot(slot).map(|()| own));
        let recovery = added.map_err(|error| error.to_string())?;
        Ok(Made { volume, code: code.text(), first, recovery })
    }

    /// Whether a volume can be made now, for this person.
    ///
    /// # Errors
    /// Why not.
    pub fn may_create(&self, name: &str, secret: &str, kind: KeyKind) -> Result<(), String> {
        check_name(name)?;
        match kind {
            KeyKind::Passphrase => check_passphrase(secret)?,
            KeyKind::KeyFile => check_secret(secret)?,
            KeyKind::RecoveryCode => return Err("a volume begins with a passphrase or a key file".into()),
        }
        if matches!(self.stage, Stage::Blank) || self.state == VolumeState::Declined {
            return Ok(());
        }
        Err(format!("no volume can be made now: {}", self.details))
    }

    /// Leaves the blank disk unchanged; everything is in memory until it is set up, or until the next start.
    ///
    /// # Errors
    /// No blank or locked disk waits, or the store in memory cannot be made.
    pub fn decline(&mut self, blocks: capos_store::MemoryBlocks) -> Result<(), String> {
        let (state, left) = match self.stage {
            Stage::Blank => (VolumeState::Declined, "is blank and was not set up"),
            Stage::Locked(..) | Stage::Waiting(_) => (VolumeState::None, "holds a data volume and is left as it is"),
            _ => return Err(format!("there is nothing to decline: {}", self.details)),
        };
        let details = format!("{} {left}; nothing is kept when the machine is turned off", self.place);
        let decision = Decision { state, disk: None, details };
        self.in_memory(&decision, None, blocks).map_err(|error| error.to_string())
    }

    /// What a new key costs on this machine.
    fn cost(&mut self) -> Result<Cost, String> {
        let mut memory = (self.means.memory)();
        loop {
            match calibrate(&mut *self.means.clock, self.means.target, memory) {
                // There is less than the account says.
                Err(Error::Allocation { .. }) if memory > LEAST_MEMORY => memory = memory.div_euclid(2),
                other => return other.map_err(|error| error.to_string()),
            }
        }
    }

    /// Tries a secret on the keys of a name, or on all of its kind if the name is empty.
    ///
    /// # Errors
    /// The volume cannot be opened, whatever the secret is.
    pub fn open(&mut self, name: &str, secret: &str, kind: KeyKind) -> Result<Tried, String> {
        check_secret(secret)?;
        let Stage::Locked(locked, _) = &self.stage else {
            return Err(format!("there is no locked volume: {}", self.details));
        };
        let code;
        let (secret, slot_kind) = match kind {
            KeyKind::Passphrase => (Secret::Passphrase(secret.as_bytes()), SlotKind::Passphrase),
            KeyKind::KeyFile => (Secret::KeyFile(secret.as_bytes()), SlotKind::KeyFile),
            KeyKind::RecoveryCode => {
                // A code with a wrong letter is none, and no try.
                match RecoveryCode::parse(secret) {
                    Ok(parsed) => code = parsed,
                    Err(error) => return Ok(Tried::Wrong(error.to_string())),
                }
                (Secret::Recovery(&code), SlotKind::Recovery)
            }
        };
        let header = locked.header().ok_or("the volume has no header")?;
        // A recovery code is the volume's and nobody's own.
        let slots = slots_of(header, if slot_kind == SlotKind::Recovery { "" } else { name }, slot_kind);
        // The random bytes of a key file cannot be guessed. A machine that opens its disk with one at each start neither waits after
        // starts that were cut off, nor forgets the wrong passphrases that were entered at it.
        let is_counted = slot_kind != SlotKind::KeyFile;
        if is_counted && let Err(answer) = self.count() {
            return answer;
        }
        let memory = (self.means.memory)();
        let Stage::Locked(locked, disk) = core::mem::replace(&mut self.stage, Stage::Broken) else {
            return Err("the volume is not locked any more".into());
        };
        let mut failure = Error::WrongKey;
        for slot in slots {
            match locked.unlock(&secret, Some(slot), memory) {
                Ok(key) => {
                    self.unlocked(*locked, key, disk);
                    // A restore that was cut off leaves a blank disk.
                    if matches!(self.stage, Stage::Broken | Stage::Blank) {
                        return Err(self.details.clone());
                    }
                    if is_counted {
                        self.right();
                    }
                    return Ok(Tried::Right);
                }
                Err(Error::WrongKey) => {}
                Err(error) => failure = error,
            }
        }
        self.stage = Stage::Locked(locked, disk);
        match failure {
            Error::WrongKey => Ok(Tried::Wrong(self.wrong(slot_kind))),
            other => Err(other.to_string()),
        }
    }

    /// Tries a passphrase of a name while the volume is open.
    ///
    /// # Errors
    /// No volume is open, or it fails.
    pub fn verify(&mut self, name: &str, secret: &str) -> Result<Tried, String> {
        check_secret(secret)?;
        let slots = self.with_volume(|volume| Ok(slots_of(volume.header(), name, SlotKind::Passphrase)))?;
        if let Err(answer) = self.count() {
            return answer;
        }
        let memory = (self.means.memory)();
        let secret = Secret::Passphrase(secret.as_bytes());
        for slot in slots {
            let opens = |volume: &mut Volume<D>| {
                let label = volume.slots().find(|(number, _)| *number == slot).map(|(_, slot)| slot.label.clone());
                Ok(volume.opens(slot, &secret, memory)?.zip(label))
            };
            if let Some((secret, label)) = self.with_volume(opens)? {
                self.enter(&Entered { label, kind: SlotKind::Passphrase, secret });
                self.right();
                return Ok(Tried::Right);
            }
        }
        Ok(Tried::Wrong(self.wrong(SlotKind::Passphrase)))
    }

    /// Counts a try as a wrong one, on the disk, before anything is compared. The error is the answer if none may be made.
    fn count(&mut self) -> Result<(), Result<Tried, String>> {
        let mut attempts = self.attempts.clone();
        let counted = attempts.count((self.means.clock)());
        counted.map_err(|error| Ok(Tried::Wrong(error.to_string())))?;
        self.record(attempts.wrong()).map_err(Err)?;
        self.attempts = attempts;
        Ok(())
    }

    /// Forgets the wrong keys before a right one. On a disk that fails meanwhile the count stays too high.
    fn right(&mut self) {
        self.attempts = Attempts::default();
        let _ = self.record(0);
    }

    /// Records the count of wrong keys. A disk that cannot be written keeps none: it can still be read.
    fn record(&mut self, wrong: u32) -> Result<(), String> {
        if self.read_only {
            return Ok(());
        }
        let unwritten = |done: Result<(), Error>| match done {
            Err(Error::Disk { operation: Operation::Write | Operation::Flush, .. }) => Ok(()),
            other => other,
        };
        if let Stage::Locked(locked, _) = &mut self.stage {
            let header = locked.header().cloned().ok_or("the volume has no header")?;
            let done = set_wrong_keys(locked.disk_mut(), &header, wrong);
            return unwritten(done).map_err(|error| error.to_string());
        }
        self.with_volume(|volume| {
            let header = volume.header().clone();
            unwritten(set_wrong_keys(volume.disk_mut(), &header, wrong))
        })
    }

    /// Why a secret does not open, after it was tried.
    fn wrong(&mut self, kind: SlotKind) -> String {
        let what = match kind {
            SlotKind::Passphrase => "passphrase",
            SlotKind::Recovery => "recovery code",
            SlotKind::KeyFile => return "the key file is wrong".to_string(),
        };
        match self.attempts.clone().count((self.means.clock)()) {
            Ok(()) => format!("the {what} is wrong"),
            Err(error) => format!("the {what} is wrong; {error}"),
        }
    }
}

fn no_key(name: &str) -> String {
    format!("the volume has no key of `{name}`")
}

/// The slots of a kind, of a name or of all if it is empty.
fn slots_of(header: &Header, name: &str, kind: SlotKind) -> Vec<usize> {
    let wanted = |slot: &KeySlot| slot.kind == kind && (name.is_empty() || slot.label == name);
    header.slots().filter(|(_, slot)| wanted(slot)).map(|(number, _)| number).collect()
}

fn key_info(number: usize, slot: &KeySlot) -> KeyInfo {
    let kind = match slot.kind {
        SlotKind::Passphrase => KeyKind::Passphrase,
        SlotKind::Recovery => KeyKind::RecoveryCode,
        SlotKind::KeyFile => KeyKind::KeyFile,
    };
    KeyInfo { slot: u32::try_from(number).unwrap_or(u32::MAX), kind, name: slot.label.clone() }
}
