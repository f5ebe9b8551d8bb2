//! What the broker keeps on a damaged block: users, settings and budgets start over with what can be read of them.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_keyspace::{Batch, Durability, Fault, Keyspace, Range, Within, aside};
use capos_schema::authority::{Profile, UserInfo};
use capos_schema::cap::CallError;
use capos_schema::store::{KeyKind, VolumeState};

use super::login::has_all_keys;
use super::{DataVolume, not_kept};
use crate::budgets::Table;
use crate::users;

/// The tables of users and settings, each with what it holds.
const TABLES: [(&str, &str); 3] =
    [(users::USERS, "users"), (users::QUOTAS, "quotas of users"), (crate::settings::TABLE, "settings")];

/// All tables that a login reads, with what they hold.
fn tables() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLES.into_iter().chain(Table::ALL.map(|table| (table.name(), table.what())))
}

/// What was read of the tables before, and what was not.
#[derive(Default)]
struct Saved {
    entries: Vec<(&'static str, Vec<u8>, Vec<u8>)>,
    lost: Vec<&'static str>,
    why: String,
    /// An operator is left who has a key.
    operator: bool,
}

/// What can be read of one table from both its ends, by key, and what stands in between, if something does.
async fn table(space: &impl Keyspace, name: &str) -> Result<(BTreeMap<Vec<u8>, Vec<u8>>, Option<String>), Fault> {
    let (mut found, mut why) = (BTreeMap::new(), None);
    for reverse in [false, true] {
        let (mut from, mut to, mut most) = (Vec::new(), Vec::new(), u32::MAX);
        loop {
            let page = match space.range(Range { from: &from, to: &to, reverse, most, ..Range::all(name) }).await {
                Ok(page) => page,
                Err(Fault::Damaged(told)) => {
                    why.get_or_insert(told);
                    // One by one up to the damage.
                    if core::mem::replace(&mut most, 1) == 1 {
                        break;
                    }
                    continue;
                }
                Err(other) => return Err(other),
            };
            let Some((last, _)) = page.entries.last() else { break };
            if reverse {
                to.clone_from(last);
            } else {
                from.clone_from(last);
                from.push(0);
            }
            found.extend(page.entries);
            // No key is empty; as an end it would stand for the table's.
            if !page.more || (reverse && to.is_empty()) {
                break;
            }
        }
        if why.is_none() {
            break;
        }
    }
    Ok((found, why))
}

impl<K: Keyspace + Clone> DataVolume<K> {
    /// Looks whether the tables can be read. If a block of them is damaged, they start over with what can be read, and the sentence
    /// that is returned says so. Users whose entry is lost are guests, whatever they were: a guest is not to become an operator by
    /// damage. Only somebody with all keys has the profile of the set-up. If no operator is left with a key, the recovery code
    /// makes one.
    ///
    /// # Errors
    /// The store does not answer, or the damage is not of these tables alone.
    pub async fn mend(&self) -> Result<Option<String>, CallError> {
        let _turn = self.changing.lock().await;
        if self.info().await?.state != VolumeState::Open {
            return Ok(None);
        }
        let asides = match self.space.info().await {
            Ok(info) => info.asides,
            Err(fault) => return Err(not_kept(&fault)),
        };
        let mut damaged = users::list(&self.space).await.map(|users| users.is_empty() && asides > 0);
        for (name, _) in tables() {
            if let Ok(false) = damaged {
                damaged = match table(&self.space, name).await {
                    Ok((_, None)) => Ok(false),
                    Ok((_, Some(why))) => Err(Fault::Damaged(why)),
                    Err(fault) => Err(fault),
                };
            }
        }
        let part = match damaged {
            Ok(false) => return Ok(None),
            // The power was cut behind the last step.
            Ok(true) => asides,
            Err(Fault::Damaged(_)) => self.space.set_aside().await.map_err(|fault| not_kept(&fault))?,
            Err(fault) => return Err(not_kept(&fault)),
        };
        let saved = self.save(part).await.map_err(|fault| not_kept(&fault))?;
        let next = if saved.operator {
            "Look at /users and /settings"
        } else {
            "No operator is known any more: restart, enter `forgot` at the login and then the recovery code, and the user whose \
             passphrase you set becomes one"
        };
        Ok(Some(format!(
            "what the data disk keeps of users and settings was damaged ({}). What could be read is there; lost are, in part or all: {}. {next}",
            saved.why,
            saved.lost.join(", ")
        )))
    }

    /// Writes what can be read of a part that was set aside.
    async fn save(&self, part: u32) -> Result<Saved, Fault> {
        let old = Within::new(self.space.clone(), aside(part));
        let status = self.vault.status().await.map_err(|error| Fault::Medium(error.to_string()))?;
        let mut keys = status.keys;
        keys.retain(|key| key.kind != KeyKind::RecoveryCode);
        let mut saved = Saved::default();
        for (name, what) in tables() {
            let (mut entries, why) = table(&old, name).await?;
            if let Some(why) = why {
                saved.lost.push(what);
                saved.why = why;
                for key in keys.iter().map(|key| key.name.as_bytes()) {
                    if let Ok(Some(value)) = old.get(name, key).await {
                        entries.insert(key.to_vec(), value);
                    }
                }
            }
            saved.entries.extend(entries.into_iter().map(|(key, value)| (name, key, value)));
        }
        let (table, key, version) = users::FORMAT;
        let mut batch = Batch::new();
        batch.put(table, key, &version.to_le_bytes());
        for (table, key, value) in &saved.entries {
            batch.put(table, key, value);
        }
        let users = saved.entries.iter().filter(|(table, ..)| *table == users::USERS);
        let known: Vec<UserInfo> = users.filter_map(|(_, name, value)| users::decode(name, value)).collect();
        let of = |name: &str| known.iter().find(|user| user.name == name);
        let is_operator = |name: &str| of(name).is_some_and(|user| user.profile == Profile::Operator);
        saved.operator = keys.iter().any(|key| is_operator(&key.name));
        for key in keys.iter().filter(|key| of(&key.name).is_none()) {
            let profile = if has_all_keys(&keys, &key.name) { self.first_profile(&key.name) } else { Profile::Guest };
            saved.operator |= profile == Profile::Operator;
            let user = UserInfo { name: key.name.clone(), created_unix: self.now(), profile, ..UserInfo::default() };
            batch.put(users::USERS, key.name.as_bytes(), &users::encode(&user));
        }
        self.space.commit(&batch, Durability::Now).await?;
        Ok(saved)
    }
}
