//! The volume key in the page that outlives a crash of the service (`docs/adr/0022-the-volume-key-outlives-the-store.md`).

use capos_volume::KEY;
use zeroize::Zeroizing;

/// Bytes of the page that are used: a mark, the volume's UUID, the key.
pub const BYTES: usize = MARK.len() + 16 + KEY;
const MARK: &[u8; 8] = b"capOSkey";

/// A volume and its key.
pub struct Kept {
    pub uuid: [u8; 16],
    pub key: Zeroizing<[u8; KEY]>,
}

impl Kept {
    /// The page's bytes.
    #[must_use]
    pub fn encode(&self) -> Zeroizing<[u8; BYTES]> {
        let mut bytes = Zeroizing::new([0; BYTES]);
        let parts = MARK.iter().chain(&self.uuid).chain(self.key.iter());
        bytes.iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
        bytes
    }

    /// What the page holds; none if no volume was open.
    #[must_use]
    pub fn decode(bytes: &[u8; BYTES]) -> Option<Self> {
        let rest = bytes.strip_prefix(MARK)?;
        let (uuid, key) = rest.split_first_chunk::<16>()?;
        Some(Self { uuid: *uuid, key: Zeroizing::new(*key.first_chunk()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_zeros_holds_no_key() {
        assert!(Kept::decode(&[0; BYTES]).is_none());
        let kept = Kept { uuid: [3; 16], key: Zeroizing::new([7; KEY]) };
        let found = Kept::decode(&kept.encode()).unwrap();
        assert_eq!((found.uuid, *found.key), ([3; 16], [7; KEY]));
    }
}
