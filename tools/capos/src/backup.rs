//! `capos backup`: checks backups that a machine has written.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use capos_backup::{Error, Files, Repository, Sum, read, states};
use capos_volume::{RecoveryCode, Secret};

use crate::secret;

/// Memory that deriving a key from a passphrase may take, in bytes.
const MEMORY: u64 = 4 << 30;

/// Work with backups of a machine.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Read every file of all backups in a folder, and check that they are what the machine has written.
    ///
    /// The passphrase of a user of the machine, or its recovery code, is read from standard input.
    Verify {
        /// The folder that `/backup` has made.
        folder: PathBuf,
        /// Standard input is the recovery code.
        #[arg(long)]
        recovery_code: bool,
    },
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let Action::Verify { folder, recovery_code } = &args.action;
    if !folder.join("head").is_file() {
        bail!("{}: {}", folder.display(), Error::NoBackup);
    }
    eprintln!("{}:", if *recovery_code { "recovery code" } else { "passphrase" });
    let secret = secret::line(&std::io::stdin(), std::io::stdin().lock())?;
    let folder = Folder(folder);
    let mut bad = false;
    for (time, found) in verify(&folder, &secret, *recovery_code)? {
        match found {
            Ok(Sum { records, bytes, hash }) => {
                println!("{time}: {records} records, {bytes} bytes, sum {}, good", hex(&hash));
            }
            Err(error) => {
                bad = true;
                println!("{time}: {error}");
            }
        }
    }
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Each backup in a folder: its time, and its sum or what is wrong with it.
pub fn verify(files: &impl Files, secret: &str, recovery_code: bool) -> Result<Vec<(u64, Result<Sum, Error>)>> {
    let code;
    let secret = if recovery_code {
        code = RecoveryCode::parse(secret).map_err(|error| anyhow!("{error}"))?;
        Secret::Recovery(&code)
    } else {
        Secret::Passphrase(secret.as_bytes())
    };
    pollster::block_on(async {
        let repository = Repository::open(files, &secret, MEMORY).await?;
        let mut all = Vec::new();
        for time in states(files).await? {
            all.push((time, read(&repository, files, time, |_| Ok(())).await));
        }
        Ok(all)
    })
}

/// A folder of this machine.
pub struct Folder<'a>(pub &'a Path);

impl Folder<'_> {
    fn failed(&self, path: &str, error: std::io::Error) -> Error {
        Error::Files(format!("{}: {error}", self.0.join(path).display()))
    }
}

impl Files for Folder<'_> {
    async fn put(&self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        let file = self.0.join(path);
        let half = file.with_extension("part");
        let written = file
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&half, bytes))
            .and_then(|()| std::fs::rename(&half, &file));
        written.map_err(|error| self.failed(path, error))
    }

    async fn get(&self, path: &str, most: usize) -> Result<Option<Vec<u8>>, Error> {
        let file = self.0.join(path);
        match std::fs::metadata(&file) {
            Ok(found) if found.len() > most as u64 => Err(Error::Altered { file: path.into() }),
            Ok(_) => std::fs::read(&file).map(Some).map_err(|error| self.failed(path, error)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(path, error)),
        }
    }

    async fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
        let entries = match std::fs::read_dir(self.0.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed(folder, error)),
        };
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names: Vec<String> = names.collect::<Result<_, _>>().map_err(|error| self.failed(folder, error))?;
        names.sort();
        Ok(names)
    }

    async fn flush(&self) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use capos_backup::{Record, Source, write};
    use capos_volume::sim::{Seed, SimDisk};
    use capos_volume::{CipherKind, Cost, Format, Volume};

    use super::*;

    struct Records(u32);

    impl Source for Records {
        async fn next(&mut self) -> Result<Option<Record>, Error> {
            let Some(left) = self.0.checked_sub(1) else { return Ok(None) };
            self.0 = left;
            Ok(Some(match left {
                99 => Record::Namespace { name: "home".into(), limit: 1 << 20 },
                _ => Record::Entry { table: "t".into(), key: left.to_be_bytes().into(), value: vec![7; 5000] },
            }))
        }
    }

    #[test]
    fn a_backup_in_a_folder_is_verified() {
        let folder = tempfile::tempdir().unwrap();
        let files = Folder(folder.path());
        let secret = Secret::Passphrase(b"correct horse");
        let format = Format { cipher: CipherKind::ChaCha20Poly1305, cost: Cost::LEAST, label: "ada", cache_nodes: 4 };
        let volume = Volume::format(SimDisk::new(64, 1), format, &secret, &mut |bytes| Seed(1).fill(bytes)).unwrap();
        let repository = Repository::of(&volume);
        let random = &mut |bytes: &mut [u8]| Seed(2).fill(bytes);
        let state = pollster::block_on(write(&repository, &files, &mut Records(100), 7, random, |_| true)).unwrap();
        assert_eq!(verify(&files, "correct horse", false).unwrap(), [(7, Ok(state.sum))]);
        assert!(verify(&files, "wrong", false).is_err());
        let chunk = walk(&folder.path().join("chunks"));
        let mut bytes = std::fs::read(&chunk).unwrap();
        bytes[40] ^= 1;
        std::fs::write(&chunk, bytes).unwrap();
        assert!(matches!(&verify(&files, "correct horse", false).unwrap()[..], [(7, Err(Error::Altered { .. }))]));
    }

    /// The first file below a folder.
    fn walk(folder: &Path) -> PathBuf {
        let mut names: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        if names[0].is_dir() { walk(&names[0]) } else { names[0].clone() }
    }
}
