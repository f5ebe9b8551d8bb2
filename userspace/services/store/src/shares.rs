//! How much of the store each client may take.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

/// Percent of the store that a client may take of which the manifest says nothing.
const DEFAULT: u64 = 10;

/// Shares of the store in percent, by the clients' names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares(BTreeMap<String, u64>);

impl Shares {
    /// Reads `files=50 audit=20`: names of clients, with percents.
    ///
    /// # Errors
    /// The part that is none, or that all of them are more than there is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut shares = BTreeMap::new();
        for part in text.split_whitespace() {
            let share = part.split_once('=').and_then(|(name, percent)| Some((name, percent.parse::<u64>().ok()?)));
            let (name, percent) = share
                .filter(|(_, percent)| (1..=100).contains(percent))
                .ok_or_else(|| format!("`{part}` is not NAME=PERCENT, 1 to 100"))?;
            if shares.insert(name.into(), percent).is_some() {
                return Err(format!("`{name}` has two shares"));
            }
        }
        let sum = shares.values().fold(0, |sum: u64, percent| sum.saturating_add(*percent));
        if sum > 100 {
            return Err(format!("the shares are {sum} percent of the store"));
        }
        Ok(Self(shares))
    }

    /// Bytes that a client may take of a store of this capacity.
    #[must_use]
    pub fn limit(&self, client: &str, capacity: u64) -> u64 {
        let percent = self.0.get(client).copied().unwrap_or(DEFAULT);
        // A hundredth is lost at most, and nothing overflows.
        capacity.div_euclid(100).saturating_mul(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percents_of_the_store() {
        let shares = Shares::parse(" files=50\taudit=20 ").unwrap();
        assert_eq!(
            (shares.limit("files", 1000), shares.limit("audit", 1000), shares.limit("x", 1000)),
            (500, 200, 100)
        );
        assert_eq!(shares.limit("files", u64::MAX) / 50, u64::MAX / 100);
        assert_eq!(Shares::parse(""), Ok(Shares::default()));
        for wrong in ["files", "files=", "files=x", "files=0", "files=101", "a=60 b=41", "a=1 a=2"] {
            assert!(Shares::parse(wrong).is_err(), "{wrong}");
        }
    }
}
