//! The volume key in the page that outlives a crash of the service (`docs/adr/0022-the-volume-key-outlives-the-store.md`).

use alloc::vec::Vec;

use capos_home_keys::ID;
use capos_volume::{KEY, SLOTS};
use zeroize::Zeroizing;

/// Bytes of the page that are used: a mark, the volume's UUID, its key, and the keys of homes.
pub const BYTES: usize = MARK.len() + 16 + KEY + SLOTS * (ID + KEY);
const MARK: &[u8; 8] = b"capOSkey";

/// A volume and its key.
pub struct Kept {
    pub uuid: [u8; 16],
    pub key: Zeroizing<[u8; KEY]>,
    /// The keys of homes that are open. There are no more than key slots.
    pub homes: Vec<([u8; ID], Zeroizing<[u8; KEY]>)>,
}

impl Kept {
    /// The page's bytes.
    #[must_use]
    pub fn encode(&self) -> Zeroizing<[u8; BYTES]> {
        let mut bytes = Zeroizing::new([0; BYTES]);
        let homes = self.homes.iter().flat_map(|(id, key)| id.iter().chain(key.iter()));
        let parts = MARK.iter().chain(&self.uuid).chain(self.key.iter()).chain(homes);
        bytes.iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
        bytes
    }

    /// What the page holds; none if no volume was open.
    #[must_use]
    pub fn decode(bytes: &[u8; BYTES]) -> Option<Self> {
        let rest = bytes.strip_prefix(MARK)?;
        let (uuid, key) = rest.split_first_chunk::<16>()?;
        let (key, rest) = key.split_first_chunk::<KEY>()?;
        let (mut homes, mut rest) = (Vec::new(), rest);
        while let Some((id, next)) = rest.split_first_chunk::<ID>().filter(|(id, _)| **id != [0; ID]) {
            let (key, next) = next.split_first_chunk()?;
            homes.push((*id, Zeroizing::new(*key)));
            rest = next;
        }
        Some(Self { uuid: *uuid, key: Zeroizing::new(*key), homes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_zeros_holds_no_key() {
        assert!(Kept::decode(&[0; BYTES]).is_none());
        for count in [0, 1, SLOTS as u8] {
            let homes: Vec<_> = (1..=count).map(|home| ([home; ID], Zeroizing::new([home; KEY]))).collect();
            let kept = Kept { uuid: [3; 16], key: Zeroizing::new([7; KEY]), homes: homes.clone() };
            let found = Kept::decode(&kept.encode()).unwrap();
            assert_eq!((found.uuid, *found.key, found.homes), ([3; 16], [7; KEY], homes));
        }
    }
}
