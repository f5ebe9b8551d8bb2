//! Which clients have commits that are not durable. The set outlives the process, in the page that keeps the key. A client
//! without a call in progress at the process's end would otherwise not see that what it had committed for later is gone.

use capos_store::Namespace;

/// Bytes of a set.
pub const BYTES: usize = 256;

/// A set of namespaces, by their numbers. Numbers beyond its bits share them: what is told to one too many does no harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks([u8; BYTES]);

impl Default for Marks {
    fn default() -> Self {
        Self([0; BYTES])
    }
}

/// The byte of a namespace, and its bit there.
fn place(namespace: Namespace) -> (usize, u8) {
    let (byte, bit) = (namespace.number() >> 3, namespace.number() & 7);
    (usize::try_from(byte & 0xff).unwrap_or(0), 1 << bit)
}

impl Marks {
    /// All clients.
    #[must_use]
    pub fn all() -> Self {
        Self([0xff; BYTES])
    }

    /// As it was kept.
    #[must_use]
    pub fn new(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }

    /// To be kept.
    #[must_use]
    pub fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    /// Adds a namespace.
    pub fn insert(&mut self, namespace: Namespace) {
        let (byte, bit) = place(namespace);
        if let Some(byte) = self.0.get_mut(byte) {
            *byte |= bit;
        }
    }

    /// Adds all of another set.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(byte, more)| *byte |= more);
    }

    /// Removes a namespace; whether it was there.
    pub fn remove(&mut self, namespace: Namespace) -> bool {
        let (byte, bit) = place(namespace);
        self.0.get_mut(byte).is_some_and(|byte| {
            let was = *byte & bit != 0;
            *byte &= !bit;
            was
        })
    }
}
