//! `capos verify`: whether a signed file, its tree and its signature belong together and are trusted.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use capos_verity::{
    BLOCK_SIZE, Expected, FileSignature, PURPOSE_MODEL_WEIGHTS, Refusal, TreeSink, TrustStore, VerifiedFile,
    VerityError,
};

use crate::sign::{digest, name_of, open, read_trust, signature_path, tree_path};

/// Verify a signed file against FILE.sig, FILE.verity and a trust store.
///
/// Reads the whole file; a running system checks the same, block by block, as it reads.
#[derive(clap::Args)]
pub struct Args {
    /// The file.
    file: PathBuf,
    /// The trust store that says which key may sign for which purpose.
    #[arg(long, value_name = "FILE")]
    trust: PathBuf,
    /// The intended use of the file.
    #[arg(long, default_value = PURPOSE_MODEL_WEIGHTS)]
    purpose: String,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let trust = read_trust(&args.trust)?;
    let verified = verify(&args.file, &trust, &args.purpose)?;
    println!("{} {}", verified.digest(), args.file.display());
    println!("signed by {} for {}: {} bytes, good", verified.key(), verified.purpose(), verified.size());
    Ok(ExitCode::SUCCESS)
}

/// Checks signature, tree and every byte of the file.
pub fn verify(path: &Path, trust: &TrustStore, purpose: &str) -> Result<VerifiedFile> {
    let (file, size) = open(path)?;
    let signature_path = signature_path(path);
    let text = std::fs::read(&signature_path).with_context(|| match signature_path.exists() {
        true => format!("reading {}", signature_path.display()),
        false => format!("{} is not signed: `capos sign` makes {}", path.display(), signature_path.display()),
    })?;
    let refused = || format!("{} is rejected", path.display());
    let signature = FileSignature::parse(&text).map_err(Refusal::from).with_context(refused)?;
    let expected = Expected { purpose, name: name_of(path)?, size };
    let verified = signature.verify(trust, &expected).with_context(refused)?;

    let tree_path = tree_path(path);
    let (tree, tree_size) = open(&tree_path)?;
    let mut sink = Comparison { tree, different: None };
    let found = digest(path, &file, size, &mut sink)?;
    if found != *verified.digest() {
        return Err(Refusal::Digest { signed: *verified.digest(), found }).with_context(refused);
    }
    // The file is what was signed, so the tree just built is the true one.
    let in_tree = || format!("{} is rejected", tree_path.display());
    capos_verity::TreeGeometry::for_size(size)
        .and_then(|geometry| geometry.check_tree_length(tree_size))
        .with_context(in_tree)?;
    match sink.different {
        Some(tree_block) => Err(VerityError::TreeMismatch { tree_block }).with_context(in_tree),
        None => Ok(verified),
    }
}

/// Compares a tree with the one in a file.
struct Comparison {
    tree: File,
    different: Option<u64>,
}

impl TreeSink for Comparison {
    type Error = std::convert::Infallible;

    fn write_block(&mut self, tree_block: u64, bytes: &[u8; BLOCK_SIZE]) -> Result<(), Self::Error> {
        let mut found = [0; BLOCK_SIZE];
        let read = self.tree.read_exact_at(&mut found, tree_block.saturating_mul(BLOCK_SIZE as u64));
        // An unreadable file is not the same; a tree that is too short is reported later.
        if read.is_err() || found != *bytes {
            self.different.get_or_insert(tree_block);
        }
        Ok(())
    }
}
