//! `capos sign`: writes the Merkle tree and the signature next to a file.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use capos_verity::{FileDigest, FileSignature, PURPOSE_MODEL_WEIGHTS, SigningKey};

use crate::build::system::System;
use crate::sign::{TreeFile, digest, name_of, open, read_key, signature_path, tree_path};
use capos_host::files::{remove_if_there, write_whole};

/// Sign a file: write FILE.verity (its fs-verity Merkle tree) and FILE.sig.
///
/// The signature covers the purpose, the file's name and size, and the digest that `fsverity digest` prints.
#[derive(clap::Args)]
pub struct Args {
    /// The file; it is signed under its name without directories.
    file: PathBuf,
    /// The key, as `capos keygen` wrote it.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The purpose of the file; must be the key's.
    #[arg(long)]
    purpose: String,
    /// Declare that the file is a model that can summarise a long conversation.
    #[arg(long)]
    summarises: bool,
    /// Compute what conversations with a model begin with, too: write and sign FILE.prompts.
    ///
    /// A model for which it is there need not read the tools at the beginning of each session.
    #[arg(long)]
    prompts: bool,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let key = read_key(&args.key)?;
    if args.prompts && args.purpose != PURPOSE_MODEL_WEIGHTS {
        bail!("--prompts is for models, which are signed for the purpose `{PURPOSE_MODEL_WEIGHTS}`");
    }
    if key.purpose() != args.purpose {
        bail!(
            "the key {} is for `{}`; a signature for `{}` needs a key made for that purpose",
            args.key.display(),
            key.purpose(),
            args.purpose
        );
    }
    let digest = declare(&args.file, &key, args.summarises)?;
    println!("{digest} {}", args.file.display());
    if args.prompts && !System::find()?.prompts()?.make(&args.file, digest, &key)? {
        println!("{}: it has no prompt cache; sessions with it read all of their prompts", args.file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes tree and signature of a file and gives its digest.
pub fn sign(path: &Path, key: &SigningKey) -> Result<FileDigest> {
    declare(path, key, false)
}

/// The same, with the statement whether it is a model that can summarise a conversation.
pub fn declare(path: &Path, key: &SigningKey, summarises: bool) -> Result<FileDigest> {
    let name = name_of(path)?;
    let (file, size) = open(path)?;
    // An old signature must not remain next to a new tree, whatever happens in between.
    let signature_path = signature_path(path);
    remove_if_there(&signature_path)?;
    let mut found = None;
    write_whole(&tree_path(path), |tree| {
        let mut sink = TreeFile(tree.try_clone().context("duplicating the tree file's handle")?);
        found = Some(digest(path, &file, size, &mut sink)?);
        Ok(())
    })?;
    let digest = found.context("the file was not read")?;
    let signature = FileSignature::declare(key, (name, size, digest), summarises)?;
    write_whole(&signature_path, |file| Ok(file.write_all(signature.to_text().as_bytes())?))?;
    Ok(digest)
}
