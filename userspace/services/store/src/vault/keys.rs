//! Secrets of people are added, changed and removed, in the header of the volume and in the records of their homes.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_home_keys::HomeKey;
use capos_schema::store::StoreFault;
use capos_volume::{Cost, Error, KeySlot, NewSlot, RecoveryCode, Secret, SlotKind, SlotSecret, Volume};
use zeroize::Zeroizing;

use super::{Stage, Vault, no_key, slots_of};
use crate::base::DataDisk;
use crate::homes::{self, Homes};
use crate::names::{check_name, check_passphrase};
use crate::sealed::Part;
use crate::spaces::Refusal;

/// Whose secret has opened the volume, and what else it gives.
pub(super) struct Entered {
    pub label: String,
    pub kind: SlotKind,
    pub secret: SlotSecret,
}

impl<D: DataDisk> Vault<D> {
    /// Works on the records of homes, of an open volume.
    fn with_homes<T>(&mut self, work: impl FnOnce(&mut Homes<'_, D>) -> Result<T, String>) -> Result<T, String> {
        let (slots, cipher) = self.with_volume(|volume| Ok(homes::slots(volume.header())))?;
        let random = (self.means.random)();
        let Stage::Open(spaces) = &mut self.stage else {
            return Err(format!("no volume is open: {}", self.details));
        };
        let (store, sealed) = spaces.parts();
        let done = work(&mut Homes { store, sealed, random, slots, cipher });
        spaces.settle();
        done
    }

    /// What did not go as it should since this was asked last, a sentence each.
    pub fn warnings(&mut self) -> Vec<String> {
        core::mem::take(&mut self.warnings)
    }

    fn warn(&mut self, done: Result<(), String>) {
        self.warnings.extend(done.err());
    }

    /// A right secret has been given: the homes that it opens are open from now on. The volume is open whatever comes of it.
    pub(super) fn enter(&mut self, Entered { label, kind, secret }: &Entered) {
        let done = match kind {
            SlotKind::Recovery => self.with_homes(|homes| homes.recover(secret)).map(|pair| self.code = Some(pair)),
            SlotKind::Passphrase | SlotKind::KeyFile => self.with_homes(|homes| homes.enter(label, secret)),
        };
        self.warn(done.map_err(|why| format!("the key of a home: {why}")));
    }

    /// The recovery code of a new volume, and the first secret of its first user.
    pub(super) fn enter_new(&mut self, label: &str, first: &SlotSecret, code: &SlotSecret) {
        let renewed = self.with_homes(|homes| homes.renew(code, None)).map(drop);
        self.warn(renewed);
        self.enter(&Entered { label: label.into(), kind: SlotKind::Passphrase, secret: first.clone() });
    }

    /// Continues an earlier life of the process, in which these keys were at hand.
    pub(super) fn resume(&mut self, kept: &[([u8; 16], Zeroizing<[u8; 32]>)]) {
        let done = self.with_homes(|homes| homes.resume(kept));
        self.warn(done);
    }

    /// The keys that are at hand, to be kept for the next life of the process.
    pub(super) fn at_hand(&mut self) -> Vec<([u8; 16], Zeroizing<[u8; 32]>)> {
        let Some(spaces) = self.spaces() else { return Vec::new() };
        spaces.sealed().homes().map(|(_, home): (_, &HomeKey)| (home.id, home.bytes().clone())).collect()
    }

    /// Forgets the key of a user's home until a secret of the user is given again.
    pub fn lock(&mut self, name: &str) {
        if let Some(spaces) = self.spaces() {
            spaces.sealed().lock(name);
        }
    }

    /// Keeps a part of a client's namespace under the key of its owner's home. False if the owner has no such key, with the
    /// reason where the owner could have one.
    ///
    /// # Errors
    /// [`Refusal`]
    pub fn protect(&mut self, client: &str, part: Part<'_>) -> Result<(bool, String), Refusal> {
        let why_not = match self.why_not(part.owner) {
            Ok(None) => None,
            Ok(Some(why)) => Some(why),
            // Nothing is sealed without a volume.
            Err(_) if self.spaces().is_some_and(|spaces| !spaces.is_lasting()) => Some(String::new()),
            Err(why) => Some(why),
        };
        let has_slot = self.with_volume(|volume| Ok(volume.slots().any(|(_, slot)| slot.label == part.owner)));
        let (fault, details) = (self.fault(), self.details.clone());
        let Some(spaces) = self.spaces() else { return Err(Refusal::Fault(fault, details)) };
        let is_near = spaces.sealed().home(part.owner).is_some() || spaces.sealed().why_without(part.owner).is_some();
        let protected = spaces.protect(client, part, why_not)?;
        if !protected.0 && has_slot == Ok(true) && !is_near && !spaces.is_read_only() {
            let why = format!("the home of {0} is locked; it opens when {0} logs in", part.owner);
            return Err(Refusal::Fault(StoreFault::Locked, why));
        }
        Ok(protected)
    }

    /// Why a home is not to be sealed now; an empty reason where its owner is nobody who could have a key.
    fn why_not(&mut self, owner: &str) -> Result<Option<String>, String> {
        let has_code = self.with_volume(|volume| Ok(!slots_of(volume.header(), "", SlotKind::Recovery).is_empty()))?;
        let Some(spaces) = self.spaces() else { return Ok(Some(String::new())) };
        if spaces.is_read_only() {
            return Ok(Some(String::new()));
        }
        if spaces.sealed().home(owner).is_none() {
            return Ok(Some(spaces.sealed().why_without(owner).cloned().unwrap_or_default()));
        }
        let is_recoverable = self.with_homes(|homes| match homes.record(owner)? {
            Some(record) => homes.is_recoverable(&record),
            None => Ok(false),
        })?;
        Ok((has_code && !is_recoverable).then(|| {
            format!(
                "the home of {owner} gets its own key once there is a new recovery code, which can open it; make one"
            )
        }))
    }

    /// Puts a slot into the header, after the record of its owner's home has it.
    fn put(
        &mut self,
        name: &str,
        make: impl FnOnce(&Volume<D>) -> Result<(NewSlot, SlotSecret), Error>,
    ) -> Result<(), String> {
        let (slot, secret) = self.with_volume(|volume| make(volume))?;
        let code = self.code.take();
        let set = self.with_homes(|homes| homes.set(name, &secret, code.as_ref()));
        self.code = code;
        set?;
        self.with_volume(|volume| volume.put_slot(slot))?;
        self.tidy();
        if self.code.is_some() {
            // The user logs in with it at once.
            self.enter(&Entered { label: name.into(), kind: SlotKind::Passphrase, secret });
        }
        Ok(())
    }

    /// What opens nothing any more is removed, now or with the next change.
    fn tidy(&mut self) {
        let done = self.with_homes(|homes| homes.tidy());
        self.warn(done);
    }

    /// Adds a passphrase for a name that has none.
    ///
    /// # Errors
    /// The name has one, it is too short, or the volume does not allow it.
    pub fn add(&mut self, name: &str, passphrase: &str) -> Result<(), String> {
        check_name(name)?;
        check_passphrase(passphrase)?;
        if !self.with_volume(|volume| Ok(slots_of(volume.header(), name, SlotKind::Passphrase)))?.is_empty() {
            return Err(format!("`{name}` has a passphrase already; replace it"));
        }
        let (cost, mut random) = (self.cost()?, (self.means.random)());
        let secret = Secret::Passphrase(passphrase.as_bytes());
        self.put(name, |volume| volume.new_slot(&secret, cost, name, &mut random))
    }

    /// Replaces the passphrase of a name. The home stays open to the new one if its key is at hand, or the recovery code was
    /// given.
    ///
    /// # Errors
    /// The name has none, the new one is too short, or the volume does not allow it.
    pub fn replace(&mut self, name: &str, passphrase: &str) -> Result<(), String> {
        check_name(name)?;
        check_passphrase(passphrase)?;
        let slots = self.with_volume(|volume| Ok(slots_of(volume.header(), name, SlotKind::Passphrase)))?;
        let slot = *slots.first().ok_or_else(|| no_key(name))?;
        let (cost, mut random) = (self.cost()?, (self.means.random)());
        let secret = Secret::Passphrase(passphrase.as_bytes());
        self.put(name, |volume| volume.changed_slot(slot, &secret, cost, &mut random))
    }

    /// Removes all keys of a name, first that of the home.
    ///
    /// # Errors
    /// The name has none, they include the last passphrase, or the volume does not allow it.
    pub fn remove(&mut self, name: &str) -> Result<(), String> {
        check_name(name)?;
        let header = self.with_volume(|volume| Ok(volume.header().clone()))?;
        let gone: Vec<usize> =
            header.slots().filter(|(_, slot)| slot.label == name).map(|(number, _)| number).collect();
        if gone.is_empty() {
            return Err(no_key(name));
        }
        let is_left = |(number, slot): (usize, &KeySlot)| slot.kind == SlotKind::Passphrase && !gone.contains(&number);
        if !header.slots().any(is_left) {
            return Err(format!("`{name}` has the last passphrase of the volume; add another one first"));
        }
        self.with_homes(|homes| homes.remove(name))?;
        gone.iter().try_for_each(|slot| self.with_volume(|volume| volume.remove_slot(*slot)))
    }

    /// Makes a new recovery code; the one before no longer opens the volume.
    ///
    /// # Errors
    /// The volume does not allow it.
    pub fn renew_recovery_code(&mut self) -> Result<Zeroizing<String>, String> {
        let mut random = (self.means.random)();
        let code = RecoveryCode::new(&mut random);
        let secret = Secret::Recovery(&code);
        let slots = self.with_volume(|volume| Ok(slots_of(volume.header(), "", SlotKind::Recovery)))?;
        let mut slots = slots.into_iter();
        let (slot, own) = self.with_volume(|volume| match slots.next() {
            Some(slot) => volume.changed_slot(slot, &secret, Cost::LEAST, &mut random),
            None => volume.new_slot(&secret, Cost::LEAST, "", &mut random),
        })?;
        let before = self.code.take();
        let renewed = self.with_homes(|homes| homes.renew(&own, before.as_ref()));
        // Whoever gave the code so far has the new one as well.
        self.code = match renewed {
            Ok(pair) => before.map(|_| pair),
            Err(why) => {
                self.code = before;
                return Err(why);
            }
        };
        self.with_volume(|volume| {
            volume.put_slot(slot)?;
            slots.try_for_each(|slot| volume.remove_slot(slot))
        })?;
        self.tidy();
        Ok(code.text())
    }
}
