//! What the broker must not forget when it crashes, as `init` keeps it: wrong passphrases, requests to models, and budgets as long
//! as the store's namespace is locked.

use alloc::string::String;
use alloc::vec::Vec;

use capos_policy::{Attempts, Rate, Rates};

use crate::budgets::{Budgets, Entry, Table};

/// Bytes of the count of attempts.
const ATTEMPTS: usize = 12;

fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    let part = part.get(..usize::from(u16::MAX)).unwrap_or(part);
    bytes.extend_from_slice(&u16::try_from(part.len()).unwrap_or(u16::MAX).to_le_bytes());
    bytes.extend_from_slice(part);
}

fn take(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))
}

/// The state in bytes: the attempts, then records of a kind (1 byte), a key and a value, each with its length (2 bytes).
#[must_use]
pub fn encode(attempts: &Attempts, rates: &Rates, budgets: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::from(attempts.to_bytes());
    for (name, rate) in rates.principals() {
        bytes.push(0);
        put(&mut bytes, name.as_bytes());
        put(&mut bytes, &rate.to_bytes());
    }
    for Entry { table, key, value } in budgets {
        bytes.push(match table {
            Table::Principals => 1,
            Table::Sessions => 2,
            Table::Runs => 3,
        });
        put(&mut bytes, key.as_bytes());
        put(&mut bytes, value);
    }
    bytes
}

/// The state that was kept; the beginning where nothing was. None where the bytes are not a state.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<(Attempts, Rates, Budgets)> {
    let (mut rates, mut budgets) = (Rates::default(), Budgets::default());
    if bytes.is_empty() {
        return Some((Attempts::default(), rates, budgets));
    }
    let (attempts, mut rest) = bytes.split_at_checked(ATTEMPTS)?;
    while let Some((kind, after)) = rest.split_first() {
        let (key, after) = take(after)?;
        let (value, after) = take(after)?;
        let key = String::from_utf8(key.to_vec()).ok()?;
        let mut entry = |table| budgets.restore(&Entry { table, key: key.clone(), value: value.to_vec() }).ok();
        match kind {
            0 => {
                let (rate, none) = Rate::from_bytes(value)?;
                none.is_empty().then(|| rates.restore(&key, rate))?;
            }
            1 => entry(Table::Principals)?,
            2 => entry(Table::Sessions)?,
            3 => entry(Table::Runs)?,
            _ => return None,
        }
        rest = after;
    }
    Some((Attempts::from_bytes(attempts)?, rates, budgets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budgets::{Moment, Opening};
    use capos_budget::{Amounts, Dimension, Plan, Refused};
    use capos_policy::{Passphrase, StepUpError, TooMany};
    use capos_schema::authority::Profile;

    fn opening(id: &'static str, principal: &'static str) -> Opening<'static> {
        Opening { id, principal, profile: Profile::Operator, plan: Plan::default(), principal_tokens: 100 }
    }

    #[test]
    fn what_was_counted_outlasts_a_crash() {
        let (mut attempts, mut rates, mut budgets) = decode(&[]).unwrap();
        assert!(rates.principals().next().is_none() && budgets.entries().is_empty());
        let kept = Passphrase::new("open sesame", [7; 16], 1000).unwrap();
        for _ in 0..5 {
            assert_eq!(attempts.attempt(Some(&kept), "guess", 0), Err(StepUpError::Wrong));
        }
        let at = Moment::default();
        for (session, principal, tokens) in [("s1", "ada", 70), ("s2", "bob \u{e9}", 5)] {
            budgets.open_session(&opening(session, principal), at).unwrap();
            budgets.charge((session, principal), Amounts::of(Dimension::Tokens, tokens));
        }
        for second in [10_u64, 11] {
            rates.request(("s1", 9), ("ada", 2), second * 1_000_000_000).unwrap();
        }
        let bytes = encode(&attempts, &rates, &budgets.entries());
        let (mut attempts, mut rates, mut budgets) = decode(&bytes).unwrap();
        assert!(matches!(attempts.attempt(Some(&kept), "open sesame", 1), Err(StepUpError::Closed { .. })));
        for (session, principal, left) in [("s3", "bob \u{e9}", 95), ("s4", "ada", 30)] {
            assert_eq!(budgets.open_session(&opening(session, principal), at), Ok(true));
            assert_eq!(budgets.tokens_left(session, at), Ok(left));
        }
        budgets.charge(("s4", "ada"), Amounts::of(Dimension::Tokens, 30));
        assert!(matches!(budgets.tokens_left("s4", at), Err(Refused::Exceeded(why)) if why.limit == 100));
        let mut request = |principal, second: u64| rates.request(("s3", 9), (principal, 2), second * 1_000_000_000);
        assert_eq!(request("ada", 30), Err(TooMany { seconds: 40 }));
        assert_eq!(request("ada", 70), Ok(()));
        assert_eq!(request("bob \u{e9}", 30), Ok(()));
        // Nothing but whole records are taken for a state.
        let whole: Vec<usize> = (1..bytes.len()).filter(|cut| decode(&bytes[..*cut]).is_some()).collect();
        assert_eq!(whole.len(), 5, "{whole:?}");
    }
}
