//! Keys of a repository, and files sealed with them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{ChaCha20Poly1305, XChaCha20Poly1305};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::{Error, Random};

/// Bytes that sealing adds to a chunk.
pub(crate) const TAG: usize = 16;
const NONCE: usize = 24;

/// Names a chunk: a keyed hash of its content.
pub(crate) type Name = [u8; 32];

/// What a chunk holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Records = 1,
    Names = 2,
}

/// The keys.
pub(crate) struct Keys {
    names: Zeroizing<[u8; 32]>,
    chunks: Zeroizing<[u8; 32]>,
    states: Zeroizing<[u8; 32]>,
}

fn mac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    // A key of any length is accepted, so the fallback is never taken.
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).unwrap_or_else(|_| Mac::new(&Default::default()));
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

impl Keys {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        let derive = |purpose: &[u8]| Zeroizing::new(mac(key, &[purpose]));
        Self { names: derive(b"names"), chunks: derive(b"chunks"), states: derive(b"states") }
    }

    /// The name of a chunk. Without the key nobody can tell whether a repository holds a known text.
    pub(crate) fn name(&self, kind: Kind, content: &[u8]) -> Name {
        mac(&self.names, &[&[kind as u8], content])
    }

    /// The cipher of one chunk. The name stands for the content, so each content has a key of its own, and the nonce can stay
    /// the same.
    fn cipher(&self, name: &Name) -> ChaCha20Poly1305 {
        ChaCha20Poly1305::new((&mac(&self.chunks, &[name])).into())
    }

    pub(crate) fn seal_chunk(&self, name: &Name, content: &[u8]) -> Result<Vec<u8>, Error> {
        self.cipher(name).encrypt(&[0; 12].into(), content).map_err(|_| altered(name))
    }

    pub(crate) fn open_chunk(&self, kind: Kind, name: &Name, sealed: &[u8]) -> Result<Vec<u8>, Error> {
        let content = self.cipher(name).decrypt(&[0; 12].into(), sealed).map_err(|_| altered(name))?;
        (self.name(kind, &content) == *name).then_some(content).ok_or_else(|| altered(name))
    }

    pub(crate) fn seal_state(&self, path: &str, content: &[u8], random: Random<'_>) -> Result<Vec<u8>, Error> {
        let mut nonce = [0; NONCE];
        random(&mut nonce);
        let cipher = XChaCha20Poly1305::new((&*self.states).into());
        let sealed = cipher.encrypt(&nonce.into(), Payload { msg: content, aad: path.as_bytes() });
        let sealed = sealed.map_err(|_| Error::Altered { file: path.into() })?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    pub(crate) fn open_state(&self, path: &str, sealed: &[u8]) -> Result<Vec<u8>, Error> {
        let cipher = XChaCha20Poly1305::new((&*self.states).into());
        let parts = sealed.split_first_chunk::<NONCE>();
        let opened = parts.and_then(|(nonce, sealed)| {
            cipher.decrypt(nonce.into(), Payload { msg: sealed, aad: path.as_bytes() }).ok()
        });
        opened.ok_or_else(|| Error::Altered { file: path.into() })
    }
}

fn altered(name: &Name) -> Error {
    Error::Altered { file: path(name) }
}

/// The file of a chunk.
pub(crate) fn path(name: &Name) -> String {
    let text = hex::encode(name);
    let (folder, file) = text.split_at_checked(2).unwrap_or(("", &text));
    format!("chunks/{folder}/{file}")
}
