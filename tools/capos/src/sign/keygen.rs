//! `capos keygen`: a signing key for one purpose, and a line in the trust store next to it.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use capos_verity::{SigningKey, TrustStore};

use crate::sign::read_trust;
use capos_host::files::write_whole;

/// Make a signing key for one purpose and add it to the trust store next to it.
///
/// Writes DIR/PURPOSE.key, readable by its owner only, and adds the key to DIR/trust. With the key file one can sign
/// whatever systems with that trust store accept.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the key and the trust store; it is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Purpose of the key: `model-weights`, `program`, or another word.
    #[arg(long)]
    purpose: String,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    generate(&args.out, &args.purpose)?;
    Ok(ExitCode::SUCCESS)
}

/// Makes a key for one purpose in a folder, and has the trust store there trust it.
pub fn generate(out: &Path, purpose: &str) -> Result<()> {
    let mut seed = [0; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut seed))
        .context("reading 32 random bytes from /dev/urandom")?;
    let key = SigningKey::from_seed(purpose, seed).with_context(|| format!("`{purpose}`"))?;
    std::fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let trust_path = out.join("trust");
    let mut trust = if trust_path.exists() { read_trust(&trust_path)? } else { TrustStore::new() };
    let key_path = out.join(format!("{purpose}.key"));
    write_key(&key_path, &key)?;
    trust.allow(key.public(), key.purpose())?;
    write_whole(&trust_path, |file| Ok(file.write_all(trust.to_text().as_bytes())?))?;
    println!("key {} for {}: {}", key.public().id(), key.purpose(), key_path.display());
    println!("trusted by {}", trust_path.display());
    Ok(())
}

/// Writes a key that only its owner may read, and never over another one.
fn write_key(path: &Path, key: &SigningKey) -> Result<()> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = match opened {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "{} exists already; a key is never overwritten, because no other key can replace it: \
             move it away, or choose another directory",
            path.display()
        ),
        other => other.with_context(|| format!("creating {}", path.display()))?,
    };
    file.write_all(key.to_text().as_bytes()).with_context(|| format!("writing {}", path.display()))
}
