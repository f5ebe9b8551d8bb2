//! A step-up: the kept passphrase, how often it may be tried, and the lease that it gives.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use capos_policy::*;

use crate::support::*;

/// The hash of "open sesame", and of the empty text, with 1,000 iterations and this salt. Computed with Python's
/// hashlib.pbkdf2_hmac.
const SALT: [u8; 16] = *b"0123456789abcdef";
const HASH: &str = "32aa7cc00b2b3ac8d5108ca64c3d24013c53a537f87fed1932040f0e5ba493fc";
const OF_NOTHING: &str = "d52a3016f73233c5a658a1399b0d6613a4b35a14eb424235a332df163429bd8e";

fn kept(iterations: &str, hash: &str) -> Result<Passphrase, String> {
    let text = format!("pbkdf2-sha256${iterations}${}${hash}", "30313233343536373839616263646566");
    Passphrase::parse(&text).map_err(|why| why.to_string())
}

/// No bytes of a hash make up for others.
#[test]
fn each_byte_of_a_hash_counts() {
    assert!(kept("1000", HASH).unwrap().is("open sesame"));
    let bytes: Vec<u8> =
        (0..32).map(|at| u8::from_str_radix(HASH.get(2 * at..2 * at + 2).unwrap(), 16).unwrap()).collect();
    let with = |changed: &[usize]| -> String {
        let byte = |(at, byte): (usize, &u8)| format!("{:02x}", byte ^ u8::from(changed.contains(&at)));
        bytes.iter().enumerate().map(byte).collect()
    };
    assert_eq!(with(&[]), HASH);
    for changed in [&[0][..], &[31], &[0, 1], &[3, 30], &[0, 1, 2], &[4, 5, 6, 7]] {
        assert!(!kept("1000", &with(changed)).unwrap().is("open sesame"), "{changed:?}");
    }
}

/// A hash of the empty text in a file that somebody wrote opens nothing.
#[test]
fn an_empty_passphrase_opens_nothing() {
    assert!(!kept("1000", OF_NOTHING).unwrap().is(""));
    assert_eq!(Passphrase::new("", SALT, 1000).unwrap_err().to_string(), "the passphrase is empty");
}

#[test]
fn a_kept_passphrase_is_read_as_it_is_written() {
    let new = Passphrase::new("open sesame", SALT, 1000).unwrap();
    assert_eq!(kept("1000", HASH), Ok(new.clone()));
    assert_eq!(String::from(&new), new.to_string());
    for (iterations, hash, words) in [
        ("999", HASH, "from 1000 to 10000000"),
        ("10000001", HASH, "from 1000 to 10000000"),
        ("x", HASH, "not a number"),
        ("1000", "00", "the hash is 64 hexadecimal digits"),
        ("1000", "$", "the hash is 64 hexadecimal digits"),
    ] {
        let found = kept(iterations, hash).unwrap_err();
        assert!(found.contains(words), "{found}");
    }
    assert!(kept("10000000", HASH).is_ok(), "the most that a person waits for");
    assert!(kept("1000", &format!("{HASH}$")).unwrap_err().contains("follows the hash"));
    for (text, words) in [("", "no other"), ("pbkdf2-sha256", "has the form"), ("pbkdf2-sha256$1000$0$", "the salt")] {
        let found = Passphrase::parse(text).unwrap_err().to_string();
        assert!(found.contains(words), "{found}");
    }
}

/// The wait doubles with each wrong one, up to an hour.
#[test]
fn waits_double_up_to_an_hour() {
    let waits = (4..14).map(|wrong| {
        let mut attempts = Attempts::continued(wrong, 0);
        attempts.count(0).map_or_else(|why| why.to_string(), |()| "none".into())
    });
    let of = |time: &str| format!("too many wrong passphrases; try again in {time} seconds");
    let mut wanted = vec!["none".to_string()];
    wanted.extend(["30", "60", "120", "240", "480", "960", "1920", "3600", "3600"].map(of));
    assert_eq!(waits.collect::<Vec<_>>(), wanted);
    assert!(Attempts::continued(u32::MAX, 0).count(0).unwrap_err().to_string().contains(" 3600 "));
}

#[test]
fn a_count_is_stored_in_its_place() {
    let attempts = Attempts::continued(0x0102_0306, 5);
    let bytes = attempts.to_bytes();
    assert_eq!(bytes.split_at(4).0, [6, 3, 2, 1]);
    let closed = u64::from_le_bytes(bytes.split_at(4).1.try_into().unwrap());
    assert_eq!(closed, 5 + 3600 * 1_000_000_000);
    assert_eq!(Attempts::from_bytes(&bytes), Some(attempts));
}

/// A lease ends with the policy at the latest, and never later than it would have.
#[test]
fn a_lease_is_only_ever_shortened() {
    let call = at("a");
    for (until, valid) in [(50, 50), (100, 100), (200, 100)] {
        let lease = Lease::until("s1", &call, 100).no_later(until);
        assert_eq!(lease.clone().redeem("s1", &call, valid - 1), Ok(()));
        assert_eq!(lease.clone().redeem("s1", &call, valid), Err(LeaseError::Bound(BindingError::Expired)));
    }
    assert_eq!(Binding::new("s1", &call, 100).expires(), 100);
}
