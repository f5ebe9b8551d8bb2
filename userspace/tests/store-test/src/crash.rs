//! Commits without an end, for a machine whose power is cut at random points.
//!
//! What it says on the log is read by the host: `acknowledged N` after a durable commit, and at the start `found N`, after
//! the whole table was compared with what the first N batches leave. A batch is a function of its number alone.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use capos_keyspace::{Batch, Durability, Keyspace, Range};
use capos_rt::{Context, Env, Error, log};
use capos_schema::store::{KeyKind, NamespaceClient, VaultClient, VolumeState};

const TABLE: &str = "crash";
const NUMBER: &[u8] = b"number";
/// Keys that the batches write, and how many of them each writes.
const KEYS: u64 = 48;
const WRITES: u64 = 6;
/// What opens the volume: 64 bytes, which cost no derivation.
const KEY_FILE: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn key(batch: u64, write: u64) -> [u8; 8] {
    batch.wrapping_mul(5).wrapping_add(write.wrapping_mul(7)).checked_rem(KEYS).unwrap_or(0).to_be_bytes()
}

/// The value that a batch gives a key; none if it removes the key.
fn value(batch: u64, write: u64) -> Option<Vec<u8>> {
    let mixed = (batch ^ (write << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let length = usize::try_from(mixed >> 54).unwrap_or(0);
    let bytes = mixed.to_le_bytes();
    (!mixed.is_multiple_of(11)).then(|| bytes.iter().copied().cycle().take(length).collect())
}

fn batch(number: u64) -> Batch {
    let mut batch = Batch::new();
    for write in 0..WRITES {
        match value(number, write) {
            Some(value) => batch.put(TABLE, &key(number, write), &value),
            None => batch.remove(TABLE, &key(number, write)),
        };
    }
    batch.put(TABLE, NUMBER, &number.to_le_bytes());
    batch
}

/// What the first batches leave.
fn expected(count: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut table = BTreeMap::new();
    // Every key is written again within this many batches.
    for number in count.saturating_sub(KEYS).saturating_add(1)..=count {
        for write in 0..WRITES {
            match value(number, write) {
                Some(value) => table.insert(key(number, write).to_vec(), value),
                None => table.remove(&key(number, write)[..]),
            };
        }
    }
    table
}

/// The number of the last batch that is there, after everything was compared.
async fn verify(space: &NamespaceClient) -> Result<u64, Error> {
    let number = Keyspace::get(space, TABLE, NUMBER).await.context("reading")?;
    let number = number.and_then(|bytes| Some(u64::from_le_bytes(*bytes.first_chunk()?))).unwrap_or(0);
    let mut held = BTreeMap::new();
    let mut from = Vec::new();
    loop {
        let range = Range { from: &from, ..Range::all(TABLE) };
        let found = Keyspace::range(space, range).await.context("reading a range")?;
        let more = found.more;
        held.extend(found.entries);
        let Some((last, _)) = held.last_key_value().filter(|_| more) else { break };
        from = [last.as_slice(), &[0]].concat();
    }
    held.remove(NUMBER);
    if held == expected(number) {
        return Ok(number);
    }
    Err(Error::new(format!("batch {number} is there, and not all that the batches up to it leave")))
}

/// Sets up a blank disk, or opens its volume.
async fn open(vault: &VaultClient, space: &NamespaceClient) -> Result<(), Error> {
    // It answers when it is known what there is.
    let _ = Keyspace::info(space).await;
    let info = vault.status().await?;
    match info.state {
        VolumeState::Blank => drop(vault.create(&info.disk, "crash", KEY_FILE, KeyKind::KeyFile).await?),
        VolumeState::Locked => {
            let opened = vault.open("crash", KEY_FILE, KeyKind::KeyFile).await?;
            if !opened.opened {
                return Err(Error::new(format!("the volume does not open: {}", opened.why)));
            }
        }
        _ => return Err(Error::new(format!("there is no volume: {}", info.details))),
    }
    Ok(())
}

async fn work(env: &Env) -> Result<(), Error> {
    let (vault, space) = (env.cap::<VaultClient>("vault")?, env.cap::<NamespaceClient>("namespace")?);
    open(&vault, &space).await?;
    let mut number = verify(&space).await?;
    log::info!("found {number}");
    loop {
        number = number.saturating_add(1);
        // Every third is durable with the next one.
        let durability = if number % 3 == 0 { Durability::Later } else { Durability::Now };
        Keyspace::commit(&space, &batch(number), durability).await.context("a commit")?;
        if durability == Durability::Now {
            log::info!("acknowledged {number}");
        }
    }
}

/// Works until the power is cut.
pub async fn run(env: &Env) -> Result<(), Error> {
    if let Err(error) = work(env).await {
        log::error!("FAILED {error}");
    }
    // A service that ends is started again.
    env.clock()?.sleep_until(u64::MAX).await;
    Ok(())
}
