//! A repository: its head, which names the volume and holds copies of its key slots.

use alloc::string::ToString;
use alloc::vec::Vec;

use capos_volume::{Disk, Secret, SlotCopy, SlotSecret, Volume};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::seal::Keys;
use crate::{Error, Files};

/// The version of the format. A change that an older reader would misread gets the next number.
pub const VERSION: u32 = 1;

const MARK: &[u8; 8] = b"CAPOSBAK";
pub(crate) const HEAD: &str = "head";
/// What the repository's key is derived for.
const PURPOSE: &[u8] = b"backup";
/// Mark and version, slots, checksum.
const BYTES: usize = 12 + SlotCopy::BYTES + 32;

/// An opened repository.
pub struct Repository {
    pub(crate) keys: Keys,
    slots: SlotCopy,
}

impl Repository {
    /// The repository of a volume that is open, to write a backup.
    #[must_use]
    pub fn of<D: Disk>(volume: &Volume<D>) -> Self {
        Self::with(volume.slot_copy(), &volume.derive(PURPOSE))
    }

    /// The same with what the volume gives: the copy of its slots and the key for `backup`.
    #[must_use]
    pub fn with(slots: SlotCopy, key: &Zeroizing<[u8; 32]>) -> Self {
        Self { keys: Keys::new(key), slots }
    }

    /// Opens a repository with a secret of the machine, to read it. A passphrase's slot takes at most `memory` bytes.
    ///
    /// # Errors
    /// There is none, or it is of another version or altered; the secret does not open it.
    pub async fn open(files: &impl Files, secret: &Secret<'_>, memory: u64) -> Result<Self, Error> {
        let slots = head(files).await?.ok_or(Error::NoBackup)?;
        let (key, _) = slots.derive(secret, memory, PURPOSE).map_err(Error::Key)?;
        Ok(Self::with(slots, &key))
    }

    /// The same with the secret of one person, or with an empty name the recovery code. Returns what else the secret gives.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub async fn open_as(
        files: &impl Files,
        name: &str,
        secret: &Secret<'_>,
        memory: u64,
    ) -> Result<(Self, SlotSecret), Error> {
        let slots = head(files).await?.ok_or(Error::NoBackup)?;
        let (key, own) = slots.clone().of_label(name).derive(secret, memory, PURPOSE).map_err(Error::Key)?;
        Ok((Self::with(slots, &key), own))
    }

    /// Whether somebody of this name has a key of the machine.
    #[must_use]
    pub fn has_user(&self, name: &str) -> bool {
        self.slots.slots().any(|(_, slot)| slot.label == name)
    }

    /// Writes the head, unless it is there as it should be. The key slots may have changed since.
    pub(crate) async fn write_head(&self, files: &impl Files) -> Result<(), Error> {
        match head(files).await {
            Ok(Some(slots)) if slots == self.slots => return Ok(()),
            Ok(Some(slots)) if slots.uuid() != self.slots.uuid() => return Err(Error::OtherVolume),
            // A head that a removed medium left half is written again.
            Ok(_) | Err(Error::Altered { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(MARK);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.slots.encode());
        let checksum: [u8; 32] = Sha256::digest(&bytes).into();
        bytes.extend_from_slice(&checksum);
        files.put(HEAD, &bytes).await
    }
}

/// The slots in the head of a repository; none if there is no head.
async fn head(files: &impl Files) -> Result<Option<SlotCopy>, Error> {
    let Some(bytes) = files.get(HEAD, BYTES).await? else { return Ok(None) };
    let altered = || Error::Altered { file: HEAD.to_string() };
    let rest = bytes.strip_prefix(MARK).ok_or_else(altered)?;
    let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(altered)?;
    let found = u32::from_le_bytes(*version);
    if found != VERSION {
        return Err(Error::Version { found });
    }
    let (slots, checksum) = rest.split_first_chunk::<{ SlotCopy::BYTES }>().ok_or_else(altered)?;
    let (content, _) = bytes.split_at_checked(bytes.len().saturating_sub(32)).ok_or_else(altered)?;
    if checksum != Sha256::digest(content).as_slice() {
        return Err(altered());
    }
    Ok(Some(SlotCopy::decode(slots).ok_or_else(altered)?))
}
