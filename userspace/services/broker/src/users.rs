//! The users of the data volume: the table of them, and what may be done to it.
//!
//! A key that opens the volume is the vault's; here is who they are. Each key has a user: a user is written before the key is
//! made, and removed after it. A power cut between the two leaves a user without a key, who cannot log in and can be
//! removed.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_keyspace::{Batch, Durability, Fault, Keyspace, Range};
use capos_policy::Quota;
use capos_schema::authority::{Profile, UserInfo};

/// The table of the users, by name: the time of creation in seconds since 1970 in 8 bytes, then the profile's name.
pub(crate) const USERS: &str = "users";
/// The table of the quotas that are not the default: the quota as text, by the user's name.
pub(crate) const QUOTAS: &str = "quotas";
/// The version of the tables.
pub(crate) const FORMAT: (&str, &[u8], u32) =
    (capos_formats::TABLE, capos_formats::KEY, capos_formats::USERS.version());

pub(crate) fn encode(user: &UserInfo) -> Vec<u8> {
    let mut bytes = Vec::from(user.created_unix.to_le_bytes());
    bytes.extend_from_slice(user.profile.name().as_bytes());
    bytes
}

pub(crate) fn decode(name: &[u8], value: &[u8]) -> Option<UserInfo> {
    let (created, profile) = value.split_first_chunk()?;
    let profile = Profile::from_name(core::str::from_utf8(profile).ok()?)?;
    let created_unix = i64::from_le_bytes(*created);
    let name = String::from_utf8(name.to_vec()).ok()?;
    Some(UserInfo { name, profile, created_unix, ..UserInfo::default() })
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
    let mut users: Vec<UserInfo> = users.collect::<Option<_>>().ok_or_else(|| malformed("table of users"))?;
    for (name, quota) in space.range(Range::all(QUOTAS)).await?.entries {
        let quota = String::from_utf8(quota).map_err(|_| malformed("table of quotas"))?;
        if let Some(user) = users.iter_mut().find(|user| user.name.as_bytes() == name) {
            user.quota = quota;
        }
    }
    Ok(users)
}

/// Writes a user, who is there from then on.
///
/// # Errors
/// The store does not keep it.
pub async fn put(space: &impl Keyspace, user: &UserInfo) -> Result<(), Fault> {
    let (table, key, version) = FORMAT;
    let mut batch = Batch::new();
    batch.put(table, key, &version.to_le_bytes()).put(USERS, user.name.as_bytes(), &encode(user));
    match user.quota.as_str() {
        "" => batch.remove(QUOTAS, user.name.as_bytes()),
        quota => batch.put(QUOTAS, user.name.as_bytes(), quota.as_bytes()),
    };
    space.commit(&batch, Durability::Now).await
}

/// Removes a user.
///
/// # Errors
/// The store does not keep that.
pub async fn remove(space: &impl Keyspace, name: &str) -> Result<(), Fault> {
    let mut batch = Batch::new();
    batch.remove(USERS, name.as_bytes()).remove(QUOTAS, name.as_bytes());
    space.commit(&batch, Durability::Now).await
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

/// A quota as it is kept: empty for the default.
///
/// # Errors
/// It is none.
pub fn quota(given: &str) -> Result<String, String> {
    match given {
        "" | "default" => Ok(String::new()),
        given => Ok(Quota::parse(given)?.to_string()),
    }
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
        UserInfo { name: name.into(), profile, created_unix: 7, ..UserInfo::default() }
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
        run(put(&space, &UserInfo { quota: "5MiB".into(), ..ada.clone() })).unwrap().unwrap();
        assert_eq!((all()[0].quota.as_str(), all()[1].quota.as_str()), ("5MiB", ""));
        run(remove(&space, "ada")).unwrap().unwrap();
        run(remove(&space, "ada")).unwrap().unwrap();
        assert_eq!(all().len(), 1);
        // A later user of the name has the default.
        run(put(&space, &ada)).unwrap().unwrap();
        assert_eq!(all()[0].quota, "");
        run(remove(&space, "ada")).unwrap().unwrap();
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
