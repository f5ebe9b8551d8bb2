//! Works with the store, kills it, and breaks its disk: a program for tests of the store across the machine's power.
//!
//! Its arguments are one step, see `step`. What it cannot keep in the store while the volume is locked, the recovery code, it
//! keeps on a disk that begins with `CAPOSNOTE`.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod crash;
mod raw;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use capos_keyspace::{Batch, Durability, Fault, Keyspace, Range};
use capos_rt::{Context, Env, Error, join};
use capos_schema::store::{KeyKind, NamespaceClient, VaultClient, VolumeInfo};
use capos_schema::system::{FaultInjectorClient, StandardClient};

use raw::Raw;

const TABLE: &str = "work";

struct Test {
    vault: VaultClient,
    space: NamespaceClient,
    faults: FaultInjectorClient,
    disks: Raw,
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::new(why())) }
}

/// The value of a key: as long as its number says.
fn value(number: u32) -> Vec<u8> {
    vec![number.to_le_bytes()[0]; usize::try_from(number % 97).unwrap_or(0).saturating_mul(61)]
}

fn key(kind: u8, number: u32) -> Vec<u8> {
    let mut key = vec![kind];
    key.extend(number.to_be_bytes());
    key
}

impl Test {
    /// The status, once the disks were looked at.
    async fn status(&self) -> Result<VolumeInfo, Error> {
        // A namespace answers when it is known what there is.
        let _ = Keyspace::info(&self.space).await;
        Ok(self.vault.status().await?)
    }

    /// One commit; it is repeated if the store ends meanwhile. Whether it was.
    async fn commit(&self, kind: u8, number: u32, durability: Durability) -> Result<bool, Error> {
        let mut batch = Batch::new();
        batch.put(TABLE, &key(kind, number), &value(number));
        let mut lost = false;
        loop {
            match Keyspace::commit(&self.space, &batch, durability).await {
                Err(Fault::Lost(_)) if !lost => lost = true,
                done => return done.map(|()| lost).context("a commit"),
            }
        }
    }

    /// Commits that are durable later, each followed by one that is durable now; then one that need not last.
    async fn write(&self, from: u32, count: u32) -> Result<(), Error> {
        for number in from..from.saturating_add(count) {
            self.commit(b'l', number, Durability::Later).await?;
            self.commit(b'd', number, Durability::Now).await?;
        }
        self.commit(b'x', from, Durability::Later).await?;
        Ok(())
    }

    /// The same, while the store is killed in the middle of every twentieth commit.
    async fn write_killed(&self, from: u32, count: u32) -> Result<(u32, u32), Error> {
        let (mut kills, mut lost) = (0_u32, 0_u32);
        for number in from..from.saturating_add(count) {
            let commit = self.commit(b'd', number, Durability::Now);
            if number % 20 == 19 {
                let (done, killed) = join(commit, self.faults.kill("tested")).await;
                killed?;
                kills = kills.saturating_add(1);
                lost = lost.saturating_add(done?.into());
            } else {
                lost = lost.saturating_add(commit.await?.into());
            }
        }
        Ok((kills, lost))
    }

    /// Durable commits while the driver of the data disk is killed in the middle of three. One that fails is repeated: it says
    /// what the value is to be.
    async fn write_over_driver(&self, driver: &str, from: u32, count: u32) -> Result<(u32, u32), Error> {
        let (mut kills, mut failed) = (0_u32, 0_u32);
        for number in from..from.saturating_add(count) {
            let mut batch = Batch::new();
            batch.put(TABLE, &key(b'd', number), &value(number));
            let mut commit = if number % 20 == 19 {
                let commit = Keyspace::commit(&self.space, &batch, Durability::Now);
                let (done, killed) = join(commit, self.faults.kill(driver)).await;
                killed?;
                kills = kills.saturating_add(1);
                done
            } else {
                Keyspace::commit(&self.space, &batch, Durability::Now).await
            };
            if let Err(Fault::Medium(_)) = commit {
                failed = failed.saturating_add(1);
                commit = Keyspace::commit(&self.space, &batch, Durability::Now).await;
            }
            commit.context("a commit over a driver that was killed")?;
        }
        Ok((kills, failed))
    }

    /// Whether everything that was acknowledged as durable is there: `later` numbers of both kinds, and durable ones up to `all`.
    async fn verify(&self, later: u32, all: u32) -> Result<(), Error> {
        for number in 0..all {
            for kind in [b'l', b'd'] {
                if kind == b'l' && number >= later {
                    continue;
                }
                let found = Keyspace::get(&self.space, TABLE, &key(kind, number)).await.context("reading")?;
                ensure(found == Some(value(number)), || {
                    format!("commit {}{number} was acknowledged and is not there", char::from(kind))
                })?;
            }
        }
        let mut from = Vec::new();
        let mut entries = 0_u32;
        loop {
            let range = Range { from: &from, ..Range::all(TABLE) };
            let found = Keyspace::range(&self.space, range).await.context("reading a range")?;
            for (key, held) in &found.entries {
                let number = key.get(1..).and_then(|number| number.first_chunk()).map_or(0, |n| u32::from_be_bytes(*n));
                ensure(*held == value(number), || format!("a value of {} bytes is none that was written", held.len()))?;
                entries = entries.saturating_add(1);
            }
            let Some((last, _)) = found.entries.last().filter(|_| found.more) else { break };
            from.clone_from(last);
            from.push(0);
        }
        ensure(entries >= later.saturating_add(all), || format!("{entries} entries"))
    }

    /// Opens the volume; whether the secret is right.
    async fn open(&self, name: &str, secret: &str, kind: KeyKind) -> Result<String, Error> {
        let opened = self.vault.open(name, secret, kind).await?;
        Ok(if opened.opened { "opened".into() } else { format!("not opened: {}", opened.why) })
    }

    async fn step(&self, arguments: &[&str]) -> Result<String, Error> {
        let number = |text: &str| text.parse::<u32>().ok().with_context(|| format!("`{text}` is no number"));
        Ok(match arguments {
            ["status"] => {
                let info = self.status().await?;
                let keys: Vec<String> = info.keys.iter().map(|key| format!("{:?} {}", key.kind, key.name)).collect();
                format!(
                    "state {:?}, disk {}, {} wrong, keys [{}], {}",
                    info.state,
                    info.disk,
                    info.failed_attempts,
                    keys.join(", "),
                    info.details
                )
            }
            ["create", name, passphrase] => {
                let disk = self.status().await?.disk;
                let short = self.vault.create(&disk, name, "short", KeyKind::Passphrase).await;
                ensure(short.is_err(), || "a short passphrase was taken".into())?;
                let code = self.vault.create(&disk, name, passphrase, KeyKind::Passphrase).await?;
                self.disks.note(&code).await?;
                let again = self.vault.create(&disk, name, passphrase, KeyKind::Passphrase).await;
                ensure(again.is_err(), || "a volume was made over another".into())?;
                let info = self.status().await?;
                ensure(self.space.opened().await? && !info.head.is_empty(), || "it is not open".into())?;
                format!("made on {disk}, state {:?}", info.state)
            }
            ["open", name, passphrase] => self.open(name, passphrase, KeyKind::Passphrase).await?,
            ["open-by-code"] => self.open("", &self.disks.noted().await?, KeyKind::RecoveryCode).await?,
            ["locked"] => match Keyspace::get(&self.space, TABLE, b"a").await {
                Err(Fault::Locked) => "the namespace is locked".into(),
                other => return Err(Error::new(format!("a locked namespace answers {other:?}"))),
            },
            ["write", from, count] => {
                self.write(number(from)?, number(count)?).await?;
                "written".into()
            }
            ["write-killed", from, count] => {
                let (kills, lost) = self.write_killed(number(from)?, number(count)?).await?;
                format!("killed {kills} times, and {lost} commits were repeated")
            }
            ["write-over-driver", driver, from, count] => {
                let (kills, failed) = self.write_over_driver(driver, number(from)?, number(count)?).await?;
                format!("killed the driver {kills} times, and {failed} commits were repeated")
            }
            ["verify", later, all] => {
                self.verify(number(later)?, number(all)?).await?;
                "all of it is there".into()
            }
            ["keys"] => self.keys().await?,
            ["in-memory"] => {
                self.write(0, 10).await?;
                self.verify(10, 10).await?;
                let info = Keyspace::info(&self.space).await.context("the namespace")?;
                ensure(!info.lasting && !self.space.opened().await?, || "it says that it lasts".into())?;
                self.disks.untouched().await?
            }
            ["break", how] => self.disks.break_headers(how).await?,
            _ => return Err(Error::new("there is no such step")),
        })
    }

    /// Changes keys of an open volume.
    async fn keys(&self) -> Result<String, Error> {
        let verify = async |name: &str, secret: &str| Ok::<bool, Error>(self.vault.verify(name, secret).await?.valid);
        self.vault.add("bob", "second person").await?;
        ensure(self.vault.add("bob", "second again").await.is_err(), || "bob was added twice".into())?;
        ensure(verify("bob", "second person").await?, || "bob's passphrase is not right".into())?;
        ensure(!verify("ada", "second person").await?, || "ada has bob's passphrase".into())?;
        self.vault.replace("bob", "another phrase").await?;
        ensure(!verify("bob", "second person").await?, || "the old passphrase is right".into())?;
        ensure(verify("bob", "another phrase").await?, || "the new passphrase is wrong".into())?;
        self.vault.remove("bob").await?;
        ensure(!verify("bob", "another phrase").await?, || "a removed passphrase is right".into())?;
        let last = self.vault.remove("ada").await;
        ensure(last.is_err_and(|error| error.to_string().contains("last passphrase")), || "it was removed".into())?;
        self.disks.note(&self.vault.renew_recovery_code().await?).await?;
        ensure(verify("ada", "correct horse").await?, || "ada's passphrase is wrong".into())?;
        Ok("keys are changed".to_string())
    }
}

async fn run(env: Env) -> Result<(), Error> {
    if env.arguments().iter().any(|argument| argument == "crash") {
        return crash::run(&env).await;
    }
    let out = env.cap::<StandardClient>("out")?;
    let test = Test {
        vault: env.cap("vault")?,
        space: env.cap("namespace")?,
        faults: env.cap("faults")?,
        disks: Raw::open(&env).await?,
    };
    let arguments: Vec<&str> = env.arguments().iter().map(AsRef::as_ref).collect();
    let done = match test.step(&arguments).await {
        Ok(done) => format!("step is done: {done}\n"),
        Err(error) => format!("step has failed: {error}\n"),
    };
    out.write(&done).await?;
    Ok(())
}
capos_rt::program!(run);
