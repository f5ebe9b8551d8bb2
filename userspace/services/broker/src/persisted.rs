//! What the broker must not forget when it crashes, as `init` keeps it: wrong passphrases, and what
//! principals have used.

use alloc::string::String;
use alloc::vec::Vec;

use capos_policy::{Attempts, Budgets, Used};

/// Bytes of the count of attempts.
const ATTEMPTS: usize = 12;

/// The state in bytes: the attempts, then for each principal the length of its name, the name, and what it
/// has used.
#[must_use]
pub fn encode(attempts: &Attempts, budgets: &Budgets) -> Vec<u8> {
    let mut bytes = Vec::from(attempts.to_bytes());
    for (name, used) in budgets.principals() {
        let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&used.to_bytes());
    }
    bytes
}

/// The state that was kept; the beginning where nothing was. None where the bytes are not a state.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<(Attempts, Budgets)> {
    let mut budgets = Budgets::default();
    if bytes.is_empty() {
        return Some((Attempts::default(), budgets));
    }
    let (attempts, mut rest) = bytes.split_at_checked(ATTEMPTS)?;
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk::<2>()?;
        let (name, after) = after.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        let (used, after) = Used::from_bytes(after)?;
        budgets.restore(&String::from_utf8(name.to_vec()).ok()?, used);
        rest = after;
    }
    Some((Attempts::from_bytes(attempts)?, budgets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_policy::{Passphrase, Spent, StepUpError};

    #[test]
    fn what_was_counted_outlasts_a_crash() {
        let (mut attempts, mut budgets) = decode(&[]).unwrap();
        assert!(budgets.principals().next().is_none());
        let kept = Passphrase::new("open sesame", [7; 16], 1000).unwrap();
        for _ in 0..5 {
            assert_eq!(attempts.attempt(Some(&kept), "guess", 0), Err(StepUpError::Wrong));
        }
        budgets.charge(("s1", 1000), ("ada", 100), 70).unwrap();
        budgets.charge(("s2", 1000), ("bob \u{e9}", 100), 5).unwrap();
        for second in [10_u64, 11] {
            budgets.request(("s1", 9), ("ada", 2), second * 1_000_000_000).unwrap();
        }
        let bytes = encode(&attempts, &budgets);
        let (mut attempts, mut budgets) = decode(&bytes).unwrap();
        assert!(matches!(attempts.attempt(Some(&kept), "open sesame", 1), Err(StepUpError::Closed { .. })));
        assert_eq!(budgets.charge(("s3", 1000), ("bob \u{e9}", 100), 0), Ok(95));
        assert_eq!(budgets.charge(("s3", 1000), ("ada", 100), 30), Err(Spent::Principal { limit: 100 }));
        let mut request = |principal, second: u64| budgets.request(("s3", 9), (principal, 2), second * 1_000_000_000);
        assert_eq!(request("ada", 30), Err(Spent::Rate { seconds: 40 }));
        assert_eq!(request("ada", 70), Ok(()));
        assert_eq!(request("bob \u{e9}", 30), Ok(()));
        // Nothing but a whole state is taken for one.
        for cut in (1..bytes.len()).filter(|cut| *cut != ATTEMPTS) {
            let whole = decode(&bytes[..cut]).is_some_and(|(_, budgets)| budgets.principals().count() == 1);
            assert!(decode(&bytes[..cut]).is_none() || whole, "{cut}");
        }
    }
}
