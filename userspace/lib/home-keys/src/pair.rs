//! A key pair of X25519: whoever has its public half seals a key to it.

use capos_volume::{KEY, SlotSecret, derive};
use ed25519_compact::x25519::{PublicKey, SecretKey};
use zeroize::Zeroizing;

use crate::Random;
use crate::seal::{SEALED_KEY, open_key, seal_key};

/// Bytes of the public half.
pub const PUBLIC: usize = 32;
/// Bytes of the secret half as it is kept.
pub const WRAPPED: usize = SEALED_KEY;
/// Bytes of a key that is sealed to a pair: the public half of another pair, and the key.
pub const BOX: usize = PUBLIC + SEALED_KEY;

/// A pair.
pub struct Pair {
    secret: Zeroizing<[u8; KEY]>,
    public: [u8; PUBLIC],
}

/// The key between two pairs, of which one was made for this box.
fn between(
    secret: &[u8; KEY],
    public: &[u8; PUBLIC],
    made: &[u8; PUBLIC],
    to: &[u8; PUBLIC],
) -> Option<Zeroizing<[u8; KEY]>> {
    // A public key without a point of the curve's large group gives no key.
    let shared = PublicKey::new(*public).dh(&SecretKey::new(*secret)).ok()?;
    Some(derive(&*shared, &[b"capos-home box", made, to]))
}

/// The bound data of a key that is wrapped by a slot's secret.
fn bound(id: &[u8], public: &[u8; PUBLIC]) -> alloc::vec::Vec<u8> {
    [b"capos-home pair".as_slice(), id, public].concat()
}

impl Pair {
    /// A new pair. `None` never happens with random bytes.
    pub fn new(random: Random<'_>) -> Option<Self> {
        let mut secret = Zeroizing::new([0; KEY]);
        random(&mut *secret);
        Self::of(secret)
    }

    fn of(secret: Zeroizing<[u8; KEY]>) -> Option<Self> {
        let public = SecretKey::new(*secret).recover_public_key().ok()?;
        Some(Self { public: *public, secret })
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> &[u8; PUBLIC] {
        &self.public
    }

    /// The secret half, wrapped by what a slot's secret gives.
    pub fn wrap(&self, own: &SlotSecret, random: Random<'_>) -> Option<[u8; WRAPPED]> {
        seal_key(&own.key, &bound(&own.id, &self.public), &self.secret, random)
    }

    /// The pair of a wrapped half; `None` if this slot's secret did not wrap it.
    #[must_use]
    pub fn unwrap(wrapped: &[u8; WRAPPED], public: &[u8; PUBLIC], own: &SlotSecret) -> Option<Self> {
        let secret = open_key(&own.key, &bound(&own.id, public), wrapped)?;
        Self::of(secret).filter(|pair| pair.public == *public)
    }

    /// Seals a key to the public half of a pair, for a purpose.
    pub fn seal(to: &[u8; PUBLIC], purpose: &[u8], key: &[u8; KEY], random: Random<'_>) -> Option<[u8; BOX]> {
        let made = Self::new(random)?;
        let between = between(&made.secret, to, &made.public, to)?;
        [made.public.as_slice(), &seal_key(&between, purpose, key, random)?].concat().try_into().ok()
    }

    /// The key in a box; `None` if it was not sealed to this pair for this purpose.
    #[must_use]
    pub fn open(&self, sealed: &[u8; BOX], purpose: &[u8]) -> Option<Zeroizing<[u8; KEY]>> {
        let (made, sealed) = sealed.split_first_chunk::<PUBLIC>()?;
        open_key(&*between(&self.secret, made, made, &self.public)?, purpose, sealed)
    }
}
