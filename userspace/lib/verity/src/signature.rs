//! The signature file: five facts about a file, and an Ed25519 signature over them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::text::{Lines, bad, check_name, check_purpose, owned, parse_hex, parse_u64, write_hex};
use crate::{FileDigest, FormatError, KeyId, Refusal, SigningKey, TrustStore};

const MAGIC: &str = "capos-signature";
const VERSION: u32 = 1;
/// The line, and the last bytes of the signed form, of a model that can summarise.
const SUMMARISES: &str = "summarises";

/// First bytes of the signed form, so that a signature made here can never be taken for one over
/// anything else.
const DOMAIN: &[u8] = b"capOS file signature v1\0";

/// A signature file, read but not yet believed.
///
/// The text form (`<name>.sig`) has exactly these lines, in this order, each ended by a line
/// feed. The line `summarises` is absent from most files:
///
/// ```text
/// capos-signature 1
/// purpose: model-weights
/// name: builtin.gguf
/// size: 67108864
/// digest: sha256:<64 hexadecimal digits>
/// summarises: true                            (only of a model that can summarise a conversation)
/// key: <32 hexadecimal digits>
/// signature: <128 hexadecimal digits>
/// ```
///
/// The signature covers a binary form of the facts. It is the 24 bytes `capOS file signature v1\0`,
/// then purpose and name, each after its length in bytes (32 bits, little endian). The size (64
/// bits, little endian), the 32 bytes of the digest and the 16 bytes of the key id follow. A file
/// that summarises has the bytes `summarises` after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSignature {
    purpose: String,
    name: String,
    size: u64,
    digest: FileDigest,
    summarises: bool,
    key: KeyId,
    signature: [u8; 64],
}

/// The caller's requirements for a file before a signature is accepted.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The intended use of the file.
    pub purpose: &'a str,
    /// The file's name, without directories.
    pub name: &'a str,
    /// The file's size in bytes, as its file system gives it.
    pub size: u64,
}

/// A file whose signature was accepted. Only [`FileSignature::verify`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedFile {
    facts: FileSignature,
}

impl FileSignature {
    /// Signs a file's facts. The purpose is the key's.
    ///
    /// # Errors
    /// [`FormatError::Value`] if the name is not one printable path component.
    pub fn sign(key: &SigningKey, name: &str, size: u64, digest: FileDigest) -> Result<Self, FormatError> {
        Self::declare(key, (name, size, digest), false)
    }

    /// The same of a file's name, size and digest, with the statement whether it is a model that can summarise a
    /// conversation.
    ///
    /// # Errors
    /// Those of [`FileSignature::sign`].
    pub fn declare(
        key: &SigningKey,
        (name, size, digest): (&str, u64, FileDigest),
        summarises: bool,
    ) -> Result<Self, FormatError> {
        check_name(name).map_err(bad(0, "name"))?;
        let mut facts = Self {
            purpose: owned(key.purpose()),
            name: owned(name),
            size,
            digest,
            summarises,
            key: key.public().id(),
            signature: [0; 64],
        };
        facts.signature = key.sign(&facts.message());
        Ok(facts)
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// [`FormatError`], naming the line and the field.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut lines = Lines::new(bytes, MAGIC, VERSION)?;
        let (line, purpose) = lines.field("purpose")?;
        check_purpose(purpose).map_err(bad(line, "purpose"))?;
        let (line, name) = lines.field("name")?;
        check_name(name).map_err(bad(line, "name"))?;
        let (line, size) = lines.field("size")?;
        let size = parse_u64(size).ok_or_else(|| bad(line, "size")("not a decimal number"))?;
        let (line, digest) = lines.field("digest")?;
        let digest =
            FileDigest::parse(digest).ok_or_else(|| bad(line, "digest")("not 'sha256:' and 64 hexadecimal digits"))?;
        let summarises = match lines.optional(SUMMARISES) {
            None => false,
            Some((_, "true")) => true,
            Some((line, _)) => return Err(bad(line, SUMMARISES)("it is true, or the line is absent")),
        };
        let (line, key) = lines.field("key")?;
        let key = KeyId::parse(key).ok_or_else(|| bad(line, "key")("not 32 hexadecimal digits"))?;
        let (line, signature) = lines.field("signature")?;
        let signature = parse_hex(signature).ok_or_else(|| bad(line, "signature")("not 128 hexadecimal digits"))?;
        lines.end()?;
        Ok(Self { purpose: owned(purpose), name: owned(name), size, digest, summarises, key, signature })
    }

    /// The text form.
    pub fn to_text(&self) -> String {
        let Self { purpose, name, size, digest, summarises, key, signature } = self;
        let able = if *summarises { format!("{SUMMARISES}: true\n") } else { String::new() };
        let mut text = String::new();
        let _ = write!(
            text,
            "{MAGIC} {VERSION}\npurpose: {purpose}\nname: {name}\nsize: {size}\ndigest: {digest}\n{able}key: {key}\nsignature: "
        );
        let _ = write_hex(&mut text, signature);
        text.push('\n');
        text
    }

    /// The size the signature claims, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The purpose the signature claims.
    pub fn purpose(&self) -> &str {
        &self.purpose
    }

    /// The name the signature claims.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The digest the signature claims.
    pub fn digest(&self) -> &FileDigest {
        &self.digest
    }

    /// Whether the signature claims that the file is a model that can summarise a conversation.
    pub fn summarises(&self) -> bool {
        self.summarises
    }

    /// The key the signature claims to be by.
    pub fn key(&self) -> KeyId {
        self.key
    }

    /// Accepts the signature, or returns why not. The key must be in the store for the expected
    /// purpose, the signature must be by it, and purpose, name and size must be those expected.
    ///
    /// # Errors
    /// A [`Refusal`] with the reason.
    pub fn verify(&self, trust: &TrustStore, expected: &Expected<'_>) -> Result<VerifiedFile, Refusal> {
        if self.purpose != expected.purpose {
            let (expected, found) = (owned(expected.purpose), self.purpose.clone());
            return Err(Refusal::Purpose { expected, found });
        }
        let key = self.key;
        let trusted = trust.get(&key).ok_or(Refusal::UnknownKey { key })?;
        if !trusted.purposes.contains(&self.purpose) {
            return Err(Refusal::KeyPurpose { key, purpose: self.purpose.clone() });
        }
        if !trusted.key.verify(&self.message(), &self.signature) {
            return Err(Refusal::BadSignature { key });
        }
        if self.name != expected.name {
            let (expected, found) = (owned(expected.name), self.name.clone());
            return Err(Refusal::Name { expected, found });
        }
        if self.size != expected.size {
            return Err(Refusal::Size { signed: self.size, found: expected.size });
        }
        Ok(VerifiedFile { facts: self.clone() })
    }

    fn message(&self) -> Vec<u8> {
        let mut message = Vec::from(DOMAIN);
        for text in [&self.purpose, &self.name] {
            // Both are far shorter than 4 GiB: `check_purpose` and `check_name` saw to it.
            message.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
            message.extend_from_slice(text.as_bytes());
        }
        message.extend_from_slice(&self.size.to_le_bytes());
        message.extend_from_slice(self.digest.as_bytes());
        message.extend_from_slice(&self.key.0);
        if self.summarises {
            message.extend_from_slice(SUMMARISES.as_bytes());
        }
        message
    }
}

impl VerifiedFile {
    /// Size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.facts.size
    }

    /// The file's fs-verity digest.
    pub fn digest(&self) -> &FileDigest {
        &self.facts.digest
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// The permitted use of the file.
    pub fn purpose(&self) -> &str {
        &self.facts.purpose
    }

    /// Whether it is a model that can summarise a conversation, as its signer says.
    pub fn summarises(&self) -> bool {
        self.facts.summarises
    }

    /// The key that signed it.
    pub fn key(&self) -> KeyId {
        self.facts.key
    }
}
