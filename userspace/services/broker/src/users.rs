//! The users of the data volume: the table of them, and what may be done to it.
//!
//! A key that opens the volume is the vault's; here is who they are. Each key has a user: a user is written before the key is
//! made, and removed after it. A power cut between the two leaves a user without a key, who cannot log in and can be
//! removed.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_keyspace::{Batch, Durability, Fault, Keyspace, Range};
use capos_schema::authority::{Profile, UserInfo};

/// The table of the users, by name: the time of creation in seconds since 1970 in 8 bytes, then the profile's name.
const USERS: &str = "users";
/// The version of the tables.
const FORMAT: (&str, &[u8], u32) = (capos_formats::TABLE, capos_formats::KEY, capos_formats::USERS.version());

fn encode(user: &UserInfo) -> Vec<u8> {
    let mut bytes = Vec::from(user.created_unix.to_le_bytes());
    bytes.extend_from_slice(user.profile.name().as_bytes());
    bytes
}

fn decode(name: &[u8], value: &[u8]) -> Option<UserInfo> {
    let (created, profile) = value.split_first_chunk()?;
    let profile = Profile::from_name(core::str::from_utf8(profile).ok()?)?;
    let created_unix = i64::from_le_bytes(*created);
    Some(UserInfo { name: String::from_utf8(name.to_vec()).ok()?, profile, created_unix })
}

fn malformed(what: &str) -> Fault {
    Fault::Damaged(format!("the broker's {what} is not one that this version of capOS writes"))
}

/// All users, in the order of their names.
///
/// # Errors
/// The store has none to give, or what it has is not a table of users.
pub async fn list(space: &impl Keyspace) -> Result<Vec<UserInfo>, Fault> {
    let (table, key, known) = FORMAT;
    match space.get(table, key).await? {
        None => {}
        Some(version) if version == known.to_le_bytes() => {}
        Some(_) => return Err(malformed("format")),
    }
    let found = space.range(Range::all(USERS)).await?;
    let users = found.entries.iter().map(|(name, value)| decode(name, value));
    users.collect::<Option<_>>().ok_or_else(|| malformed("table of users"))
}

/// Writes a user, who is there from then on.
///
/// # Errors
/// The store does not keep it.
pub async fn put(space: &impl Keyspace, user: &UserInfo) -> Result<(), Fault> {
    let (table, key, version) = FORMAT;
    let mut batch = Batch::new();
    batch.put(table, key, &version.to_le_bytes()).put(USERS, user.name.as_bytes(), &encode(user));
    space.commit(&batch, Durability::Now).await
}

/// Removes a user.
///
/// # Errors
/// The store does not keep that.
pub async fn remove(space: &impl Keyspace, name: &str) -> Result<(), Fault> {
    space.commit(Batch::new().remove(USERS, name.as_bytes()), Durability::Now).await
}

/// The user of a name.
///
/// # Errors
/// There is none.
pub fn find<'a>(users: &'a [UserInfo], name: &str) -> Result<&'a UserInfo, String> {
    let found = users.iter().find(|user| user.name == name);
    found.ok_or_else(|| format!("there is no user {name:?}; the list of users has their names"))
}

/// Whether a user may stop being an operator: another one is left who can add users.
///
/// # Errors
/// Nobody would be left.
pub fn may_lose_operator(users: &[UserInfo], name: &str) -> Result<(), String> {
    let is_operator = |user: &&UserInfo| user.profile == Profile::Operator;
    let others = users.iter().filter(is_operator).any(|user| user.name != name);
    if others || find(users, name)?.profile != Profile::Operator {
        return Ok(());
    }
    Err(format!("{name} is the last operator; make another user an operator first"))
}

/// A passphrase of 72 bits, to be told once: four groups of four letters.
#[must_use]
pub fn first_passphrase(random: &[u8; 16]) -> String {
    // Those that are not misread.
    const LETTERS: &[u8; 23] = b"abcdefghjkmnpqrstuvwxyz";
    let mut text = String::new();
    for (at, byte) in random.iter().enumerate() {
        if at > 0 && at.is_multiple_of(4) {
            text.push('-');
        }
        let letter = LETTERS.get(usize::from(*byte).checked_rem(LETTERS.len()).unwrap_or_default());
        text.extend(letter.map(|letter| char::from(*letter)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::rc::Rc;
    use capos_keyspace::local::LocalKeyspace;
    use capos_schema::local::run;
    use capos_store::{MemoryBlocks, Store};
    use core::cell::RefCell;

    fn user(name: &str, profile: Profile) -> UserInfo {
        UserInfo { name: name.into(), profile, created_unix: 7 }
    }

    #[test]
    fn users_are_there_until_they_are_removed() {
        let store = Rc::new(RefCell::new(Store::open(MemoryBlocks::new(4096)).unwrap()));
        let space = LocalKeyspace::new(store, "broker", 1 << 20).unwrap();
        let all = || run(list(&space)).unwrap().unwrap();
        assert!(all().is_empty());
        let (ada, bob) = (user("ada", Profile::Operator), user("bob \u{e9}", Profile::Guest));
        for one in [&bob, &ada] {
            run(put(&space, one)).unwrap().unwrap();
        }
        assert_eq!(all(), [ada.clone(), bob.clone()]);
        run(put(&space, &user("bob \u{e9}", Profile::Operator))).unwrap().unwrap();
        assert_eq!(all()[1].profile, Profile::Operator);
        run(remove(&space, "ada")).unwrap().unwrap();
        run(remove(&space, "ada")).unwrap().unwrap();
        assert_eq!(all().len(), 1);
        // Nothing else is taken for a table of users.
        for (table, key, value) in
            [(USERS, "eve", b"01234567root".as_slice()), (USERS, "eve", &[0; 3]), ("format", "version", &[2])]
        {
            run(space.commit(Batch::new().put(table, key.as_bytes(), value), Durability::Now)).unwrap().unwrap();
            assert!(matches!(run(list(&space)).unwrap(), Err(Fault::Damaged(_))), "{table}");
            run(space.commit(Batch::new().remove(table, key.as_bytes()), Durability::Now)).unwrap().unwrap();
        }
    }

    #[test]
    fn an_operator_is_left() {
        let users = [user("ada", Profile::Operator), user("bob", Profile::Guest)];
        assert!(may_lose_operator(&users, "ada").unwrap_err().contains("ada is the last operator"));
        assert_eq!(may_lose_operator(&users, "bob"), Ok(()));
        assert!(may_lose_operator(&users[1..], "eve").unwrap_err().contains("no user \"eve\""));
        let two = [user("ada", Profile::Operator), user("eve", Profile::Operator)];
        assert_eq!(may_lose_operator(&two, "ada"), Ok(()));
    }

    #[test]
    fn a_first_passphrase_may_be_set() {
        let all: Vec<String> = (0..=255).map(|byte| first_passphrase(&[byte; 16])).collect();
        assert!(all.iter().all(|text| text.len() == 19));
        let mixed = first_passphrase(&core::array::from_fn(|at| at as u8 * 3));
        assert_eq!(capos_setup::rules::check_passphrase(&mixed), Ok(()));
        assert_eq!(mixed, "adgk-psvy-behm-qtwz");
    }
}
