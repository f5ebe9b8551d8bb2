//! Tool handles: unguessable names of capabilities for one session.

use alloc::collections::BTreeMap;
use alloc::string::String;

/// What every handle begins with.
pub const HANDLE_PREFIX: &str = "/object/";

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The handle made of 128 random bits: `/object/` and 26 characters of base32.
#[must_use]
pub fn handle_text(random: [u8; 16]) -> String {
    let bits = u128::from_be_bytes(random);
    let mut text = String::from(HANDLE_PREFIX);
    for position in 0..26_u32 {
        // 26 characters hold 130 bits: the value is followed by two zero bits.
        let shift = 125_u32.saturating_sub(position.saturating_mul(5));
        let index = if position < 25 { bits >> shift.saturating_sub(2) } else { bits << 2 };
        let letter = usize::try_from(index & 31).ok().and_then(|index| ALPHABET.get(index));
        text.push(char::from(letter.copied().unwrap_or(b'a')));
    }
    text
}

/// The handles of one session. A capability's method keeps its handle while the session lasts; they die with it.
#[derive(Debug, Default)]
pub struct Handles {
    by_target: BTreeMap<(String, u64, String), String>,
}

impl Handles {
    /// The handle of this method of the capability with this name; `random` is used where it has none yet.
    pub fn handle(
        &mut self,
        capability: &str,
        interface: u64,
        method: &str,
        random: impl FnOnce() -> [u8; 16],
    ) -> String {
        self.by_target
            .entry((String::from(capability), interface, String::from(method)))
            .or_insert_with(|| handle_text(random()))
            .clone()
    }

    /// Forgets the handles of capabilities for which `keep` is false: one that comes back later gets new handles.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.by_target.retain(|(capability, _, _), _| keep(capability));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn j01_handles_are_base32_of_128_bits() {
        assert_eq!(handle_text([0; 16]), format!("/object/{}", "a".repeat(26)));
        assert_eq!(handle_text([0xff; 16]), format!("/object/{}4", "7".repeat(25)));
        // RFC 4648 of "0123456789abcdef", lower case, without padding.
        assert_eq!(handle_text(*b"0123456789abcdef"), "/object/gaytemzugu3doobzmfrggzdfmy");
    }

    #[test]
    fn j11_handles_last_for_the_session_only() {
        let mut first = Handles::default();
        let handle = first.handle("home", 1, "read", || [1; 16]);
        assert_eq!(first.handle("home", 1, "read", || [2; 16]), handle);
        assert_ne!(first.handle("home", 1, "write", || [3; 16]), handle);
        first.retain(|capability| capability != "home");
        assert_ne!(first.handle("home", 1, "read", || [4; 16]), handle);
    }

    proptest! {
        #[test]
        fn different_bits_make_different_handles(a: [u8; 16], b: [u8; 16]) {
            prop_assert_eq!(handle_text(a) == handle_text(b), a == b);
            prop_assert_eq!(handle_text(a).len(), 34);
        }
    }
}
