//! The trust store: which key may sign for which purpose.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::text::{Lines, bad, check_purpose, owned};
use crate::{FormatError, KeyId, PublicKey};

const MAGIC: &str = "capos-trust";
const VERSION: u32 = 1;

/// Most keys that one store may hold.
const MAX_KEYS: usize = 256;

/// A key of the store and its purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedKey {
    /// The public half; its id is the key's name.
    pub key: PublicKey,
    /// The purposes that the key may sign for; at least one, none twice.
    pub purposes: Vec<String>,
}

/// Keys and their purposes.
///
/// The text form is one line per key; lines that are empty or begin with `#` are ignored:
///
/// ```text
/// capos-trust 1
/// # Development keys.
/// key id=<32 hexadecimal digits> public=<64 hexadecimal digits> purposes=model-weights,program
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustStore {
    keys: Vec<TrustedKey>,
}

impl TrustStore {
    /// A store that trusts nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// [`FormatError`], naming the line: unknown versions, unknown or repeated fields and keys,
    /// and ids that do not belong to their key are all refused.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut lines = Lines::new(bytes, MAGIC, VERSION)?;
        let mut store = Self::new();
        while let Some((line, text)) = lines.next() {
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let entry = parse_entry(line, text)?;
            if store.keys.len() >= MAX_KEYS {
                return Err(FormatError::UnexpectedLine { line, expected: "at most 256 keys" });
            }
            if store.get(&entry.key.id()).is_some() {
                let what = owned("this key is in the store already");
                return Err(FormatError::Duplicate { line, what });
            }
            store.keys.push(entry);
        }
        Ok(store)
    }

    /// The text form.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "{MAGIC} {VERSION}");
        for entry in &self.keys {
            let purposes = entry.purposes.join(",");
            let _ = writeln!(text, "key id={} public={} purposes={purposes}", entry.key.id(), entry.key);
        }
        text
    }

    /// Lets a key sign for one more purpose.
    ///
    /// # Errors
    /// [`FormatError::Value`] if the purpose is not a word of lower-case letters, digits and
    /// hyphens; [`FormatError::UnexpectedLine`] past 256 keys.
    pub fn allow(&mut self, key: PublicKey, purpose: &str) -> Result<(), FormatError> {
        check_purpose(purpose).map_err(bad(0, "purposes"))?;
        let full = self.keys.len() >= MAX_KEYS;
        match self.keys.iter_mut().find(|entry| entry.key == key) {
            Some(entry) if entry.purposes.iter().any(|known| known == purpose) => {}
            Some(entry) => entry.purposes.push(owned(purpose)),
            None if full => {
                return Err(FormatError::UnexpectedLine { line: 0, expected: "at most 256 keys" });
            }
            None => {
                let purposes = alloc::vec![owned(purpose)];
                self.keys.push(TrustedKey { key, purposes });
            }
        }
        Ok(())
    }

    /// The keys in the order of the text.
    pub fn keys(&self) -> &[TrustedKey] {
        &self.keys
    }

    /// The key of this id.
    pub fn get(&self, id: &KeyId) -> Option<&TrustedKey> {
        self.keys.iter().find(|entry| entry.key.id() == *id)
    }
}

fn parse_entry(line: usize, text: &str) -> Result<TrustedKey, FormatError> {
    let mut words = text.split(' ');
    if words.next() != Some("key") {
        return Err(FormatError::UnexpectedLine { line, expected: "'key', a comment or an empty line" });
    }
    let (mut id, mut public, mut purposes) = (None, None, None);
    for word in words {
        let expected = "fields written as name=value, one blank between them";
        let (name, value) = word.split_once('=').ok_or(FormatError::UnexpectedLine { line, expected })?;
        let slot = match name {
            "id" => &mut id,
            "public" => &mut public,
            "purposes" => &mut purposes,
            _ => {
                let field = name.chars().take(64).collect();
                return Err(FormatError::UnknownField { line, field });
            }
        };
        if slot.replace(value).is_some() {
            let mut what = owned("the field is there twice: ");
            what.push_str(name);
            return Err(FormatError::Duplicate { line, what });
        }
    }
    let id = id.ok_or(FormatError::Missing { field: "id" })?;
    let id = KeyId::parse(id).ok_or_else(|| bad(line, "id")("not 32 hexadecimal digits"))?;
    let public = public.ok_or(FormatError::Missing { field: "public" })?;
    let key =
        PublicKey::parse(public).ok_or_else(|| bad(line, "public")("not 64 hexadecimal digits of an Ed25519 key"))?;
    if key.id() != id {
        return Err(bad(line, "id")("the id does not belong to the public key"));
    }
    let mut list: Vec<String> = Vec::new();
    for purpose in purposes.ok_or(FormatError::Missing { field: "purposes" })?.split(',') {
        check_purpose(purpose).map_err(bad(line, "purposes"))?;
        if list.iter().any(|known| known == purpose) {
            return Err(bad(line, "purposes")("a purpose is there twice"));
        }
        list.push(owned(purpose));
    }
    Ok(TrustedKey { key, purposes: list })
}
