//! Keys: Ed25519, each with an id that is a hash of its public half.

use alloc::string::String;
use core::fmt::{self, Write};

use sha2::{Digest, Sha256};

use crate::FormatError;
use crate::text::{Lines, bad, check_purpose, owned, parse_hex, write_hex};

const MAGIC: &str = "capos-key";
const VERSION: u32 = 1;

/// Name of a key: the first 16 bytes of a SHA-256 over its public half, printed as 32
/// hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub [u8; 16]);

impl KeyId {
    /// Reads the printed form.
    pub fn parse(text: &str) -> Option<Self> {
        parse_hex(text).map(Self)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The public half of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// The key's id.
    pub fn id(&self) -> KeyId {
        let mut hasher = Sha256::new();
        hasher.update(b"capOS key id v1\0");
        hasher.update(self.0);
        let hash: [u8; 32] = hasher.finalize().into();
        KeyId(hash.first_chunk().copied().unwrap_or_default())
    }

    /// Reads 64 hexadecimal digits; rejects points of small order and other values that are not
    /// usable keys.
    pub fn parse(text: &str) -> Option<Self> {
        let key = Self(parse_hex(text)?);
        ed25519_compact::PublicKey::new(key.0).validate().ok()?;
        Some(key)
    }

    pub(crate) fn verify(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        let signature = ed25519_compact::Signature::new(*signature);
        ed25519_compact::PublicKey::new(self.0).verify(message, &signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A key that can sign, for one purpose.
///
/// The text form (`<purpose>.key`) is
///
/// ```text
/// capos-key 1
/// purpose: model-weights
/// id: <32 hexadecimal digits>
/// seed: <64 hexadecimal digits>
/// ```
pub struct SigningKey {
    purpose: String,
    pair: ed25519_compact::KeyPair,
}

impl SigningKey {
    /// A key out of 32 bytes of good randomness.
    ///
    /// # Errors
    /// [`FormatError::Value`] if the purpose is not a word of lower-case letters, digits and
    /// hyphens, or the seed is all zeros.
    pub fn from_seed(purpose: &str, seed: [u8; 32]) -> Result<Self, FormatError> {
        check_purpose(purpose).map_err(bad(0, "purpose"))?;
        let pair = ed25519_compact::KeyPair::try_from_seed(ed25519_compact::Seed::new(seed))
            .map_err(|_| bad(0, "seed")("the seed is all zeros"))?;
        Ok(Self { purpose: owned(purpose), pair })
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// [`FormatError`], naming the line and the field.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut lines = Lines::new(bytes, MAGIC, VERSION)?;
        let (line, purpose) = lines.field("purpose")?;
        check_purpose(purpose).map_err(bad(line, "purpose"))?;
        let (id_line, id) = lines.field("id")?;
        let id = KeyId::parse(id).ok_or_else(|| bad(id_line, "id")("not 32 hexadecimal digits"))?;
        let (line, seed) = lines.field("seed")?;
        let seed = parse_hex(seed).ok_or_else(|| bad(line, "seed")("not 64 hexadecimal digits"))?;
        lines.end()?;
        let key = Self::from_seed(purpose, seed)?;
        if key.public().id() != id {
            return Err(bad(id_line, "id")("the id does not belong to this seed"));
        }
        Ok(key)
    }

    /// The text form.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "{MAGIC} {VERSION}\npurpose: {}\nid: {}", self.purpose, self.public().id());
        text.push_str("seed: ");
        let _ = write_hex(&mut text, self.pair.sk.seed().as_slice());
        text.push('\n');
        text
    }

    /// The purpose of the key.
    pub fn purpose(&self) -> &str {
        &self.purpose
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(*self.pair.pk)
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        *self.pair.sk.sign(message, None)
    }
}

impl fmt::Debug for SigningKey {
    /// Never shows the seed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({} for {})", self.public().id(), self.purpose)
    }
}
