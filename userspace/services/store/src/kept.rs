//! The volume key in the page that outlives a crash of the service (`docs/adr/0022-the-volume-key-outlives-the-store.md`), and what
//! damaged blocks have cost.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use capos_home_keys::ID;
use capos_store::LeftOut;
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

/// Bytes of the page that say what damaged blocks have cost: room for 30 blocks whose namespaces have the longest names.
pub const LEFT_OUT_BYTES: usize = 2720;

/// What damaged blocks have cost, for the page: for each block the length of the namespace's name, the name, the generation of the
/// log, the block's number, and the number of changes. A zero byte ends them. What has no room is left out: the system log has it.
#[must_use]
pub fn encode_left_out(left_out: &BTreeMap<LeftOut, u64>) -> [u8; LEFT_OUT_BYTES] {
    let mut bytes = Vec::new();
    for (LeftOut { generation, namespace, block }, count) in left_out {
        let Ok(length) = u8::try_from(namespace.len()) else { continue };
        let numbers = [generation, block, count].map(|number| number.to_le_bytes());
        let entry = [&[length], namespace.as_bytes(), numbers.as_flattened()].concat();
        // A namespace without a name would end them.
        if length > 0 && bytes.len().saturating_add(entry.len()) < LEFT_OUT_BYTES {
            bytes.extend(entry);
        }
    }
    let mut page = [0; LEFT_OUT_BYTES];
    page.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    page
}

/// What an earlier life of the process has lost.
#[must_use]
pub fn decode_left_out(mut bytes: &[u8]) -> BTreeMap<LeftOut, u64> {
    let mut left_out = BTreeMap::new();
    while let Some((length, rest)) = bytes.split_first().filter(|(length, _)| **length > 0)
        && let Some((name, rest)) = rest.split_at_checked(usize::from(*length))
        && let Some((numbers, rest)) = rest.split_first_chunk::<24>()
        && let ([generation, block, count], []) = numbers.as_chunks()
    {
        let [generation, block, count] = [generation, block, count].map(|number| u64::from_le_bytes(*number));
        left_out.insert(LeftOut { generation, namespace: String::from_utf8_lossy(name).into_owned(), block }, count);
        bytes = rest;
    }
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_kept_as_far_as_the_page_has_room() {
        assert_eq!(decode_left_out(&[0; LEFT_OUT_BYTES]), BTreeMap::new());
        let some = |count: u64, name: &str| -> BTreeMap<LeftOut, u64> {
            let left_out = |block| LeftOut { generation: 3, namespace: name.into(), block };
            (1..=count).map(|block| (left_out(block), block * 7)).collect()
        };
        for kept in [some(1, "files"), some(30, &"x".repeat(64))] {
            assert_eq!(decode_left_out(&encode_left_out(&kept)), kept);
        }
        assert_eq!(decode_left_out(&encode_left_out(&some(90, "audit"))), some(90, "audit"));
        assert_eq!(decode_left_out(&encode_left_out(&some(91, "audit"))), some(90, "audit"));
        // Whatever the page has, it is read to its end.
        assert_eq!(decode_left_out(&[1; 30]).len(), 1);
        assert_eq!(decode_left_out(&[255; LEFT_OUT_BYTES]).len(), 1);
    }

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
