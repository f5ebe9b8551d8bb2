//! What a principal has used, and may use.

use alloc::format;

use capos_keyspace::{Batch, Keyspace};

use crate::conversations::Conversations;
use crate::error::Error;
use crate::keys::{self, ACCOUNTS, Owner};
use crate::record::{self, Account};

impl<K: Keyspace> Conversations<K> {
    pub(crate) async fn account(&self, owner: Owner) -> Result<Account, Error> {
        match self.get(ACCOUNTS, &keys::owner(owner)).await? {
            Some(bytes) => record::read("the account of a principal", &bytes),
            None => Ok(Account::default()),
        }
    }

    /// Puts the account into a batch, if the quota covers it.
    pub(crate) fn charge(&self, batch: &mut Batch, owner: Owner, account: &Account) -> Result<(), Error> {
        let quota = self.quota();
        if account.conversations > quota.conversations {
            return Err(Error::Full(format!(
                "there are {} conversations, which is the limit; delete some with /forget",
                quota.conversations
            )));
        }
        if account.bytes > quota.bytes {
            return Err(Error::Full(format!(
                "the conversations take {} MiB, which is the limit; delete some with /forget",
                quota.bytes >> 20
            )));
        }
        Self::settle(batch, owner, account)
    }

    /// The same where less is used than before.
    pub(crate) fn settle(batch: &mut Batch, owner: Owner, account: &Account) -> Result<(), Error> {
        batch.put(ACCOUNTS, &keys::owner(owner), &record::bytes(account)?);
        Ok(())
    }
}
