//! Keys, signing and verifying, through the command line that users have.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    /// A folder with a key for weights in `keys`, and a model that it has signed.
    fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        bench.good(&["keygen", "--out", "keys", "--purpose", "model-weights"]);
        bench.good(&["gguf", "--size", "1MiB", "--out", "m.gguf", "--seed", "7"]);
        bench.good(&["sign", "m.gguf", "--key", "keys/model-weights.key", "--purpose", "model-weights"]);
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_capos")).args(args).current_dir(self.folder.path()).output().unwrap()
    }

    #[track_caller]
    fn good(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn refused(&self, args: &[&str], words: &str) {
        let output = self.run(args);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {text}");
        assert!(text.contains(words), "{text:?} should hold {words:?}");
    }

    fn verify(&self) -> String {
        self.good(&["verify", "m.gguf", "--trust", "keys/trust"])
    }

    #[track_caller]
    fn verify_refused(&self, words: &str) {
        self.refused(&["verify", "m.gguf", "--trust", "keys/trust"], words);
    }

    fn flip(&self, name: &str, at: usize) {
        let mut bytes = fs::read(self.path(name)).unwrap();
        bytes[at] ^= 1;
        fs::write(self.path(name), bytes).unwrap();
    }
}

fn fsverity(file: &Path) -> Option<String> {
    let output = Command::new("fsverity").args(["digest", "--hash-alg=sha256", "--block-size=4096"]).arg(file).output();
    Some(String::from_utf8(output.ok()?.stdout).unwrap())
}

/// Requirement A08 on the host: a changed byte anywhere is rejected, with its place.
#[test]
fn a08_a_changed_byte_anywhere_is_refused() {
    let bench = Bench::new();
    assert!(bench.verify().contains("good"));

    bench.flip("m.gguf", 500_000);
    bench.verify_refused("the file was changed after signing");
    bench.flip("m.gguf", 500_000);

    bench.flip("m.gguf.verity", 4096 * 2 + 17);
    bench.verify_refused("block 2 of the Merkle tree differs");
    bench.flip("m.gguf.verity", 4096 * 2 + 17);

    let signature = fs::read(bench.path("m.gguf.sig")).unwrap();
    bench.flip("m.gguf.sig", signature.len() - 2);
    bench.verify_refused("m.gguf is rejected: ");
    fs::write(bench.path("m.gguf.sig"), &signature).unwrap();

    let tree = fs::read(bench.path("m.gguf.verity")).unwrap();
    fs::write(bench.path("m.gguf.verity"), &tree[4096..]).unwrap();
    bench.verify_refused("the Merkle tree has 8192 bytes and should have 12288");
    fs::write(bench.path("m.gguf.verity"), &tree).unwrap();

    let model = fs::read(bench.path("m.gguf")).unwrap();
    fs::write(bench.path("m.gguf"), &model[..model.len() - 1]).unwrap();
    bench.verify_refused("1048575 bytes, but 1048576 were signed");
    fs::write(bench.path("m.gguf"), &model).unwrap();
    bench.verify();
}

/// Requirement A18 on the host: keys sign for their purpose only, and are trusted for it only.
#[test]
fn a18_keys_of_other_purposes_are_refused() {
    let bench = Bench::new();
    bench.good(&["keygen", "--out", "keys", "--purpose", "program"]);
    bench.verify();
    let sign = ["sign", "m.gguf", "--key", "keys/program.key", "--purpose", "model-weights"];
    bench.refused(&sign, "is for `program`; a signature for `model-weights` needs a key made for that purpose");
    bench.verify();
    bench.good(&["sign", "m.gguf", "--key", "keys/program.key", "--purpose", "program"]);
    bench.verify_refused("the signature is for the purpose 'program', and 'model-weights' is needed");
    bench.good(&["verify", "m.gguf", "--trust", "keys/trust", "--purpose", "program"]);

    // The key file relabelled by hand: now the trust store objects.
    let text = fs::read_to_string(bench.path("keys/program.key")).unwrap();
    fs::write(bench.path("forged.key"), text.replace("purpose: program", "purpose: model-weights")).unwrap();
    bench.good(&["sign", "m.gguf", "--key", "forged.key", "--purpose", "model-weights"]);
    bench.verify_refused("is trusted, but not for the purpose 'model-weights'");

    bench.good(&["keygen", "--out", "elsewhere", "--purpose", "model-weights"]);
    bench.good(&["sign", "m.gguf", "--key", "elsewhere/model-weights.key", "--purpose", "model-weights"]);
    bench.verify_refused("is not in the trust store");
}

#[test]
fn signatures_are_for_one_name() {
    let bench = Bench::new();
    for ending in ["", ".sig", ".verity"] {
        fs::copy(bench.path(&format!("m.gguf{ending}")), bench.path(&format!("n.gguf{ending}"))).unwrap();
    }
    bench.refused(&["verify", "n.gguf", "--trust", "keys/trust"], "is for a file named 'm.gguf', not 'n.gguf'");
}

#[test]
fn digests_and_trees_are_those_of_fsverity() {
    let bench = Bench::new();
    let Some(expected) = fsverity(&bench.path("m.gguf")) else {
        println!("fsverity is not installed; fixed digests are checked elsewhere");
        return;
    };
    let digest = expected.split(' ').next().unwrap();
    assert!(bench.verify().starts_with(digest), "{digest}");
}

#[test]
fn keys_are_private_and_never_overwritten() {
    let bench = Bench::new();
    let key = bench.path("keys/model-weights.key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let before = fs::read(&key).unwrap();
    bench.refused(&["keygen", "--out", "keys", "--purpose", "model-weights"], "is never overwritten");
    assert_eq!(fs::read(&key).unwrap(), before);
    bench.refused(&["keygen", "--out", "keys", "--purpose", "../x"], "a purpose is made of lower-case letters");
    bench.refused(&["sign", "m.gguf", "--key", "m.gguf", "--purpose", "model-weights"], "m.gguf is not a signing key");
}

#[test]
fn model_files_are_repeatable_and_of_the_exact_size() {
    let bench = Bench::new();
    bench.good(&["gguf", "--size", "1048576", "--out", "again.gguf", "--seed", "7"]);
    assert!(fs::read(bench.path("m.gguf")).unwrap() == fs::read(bench.path("again.gguf")).unwrap());
    bench.good(&["gguf", "--size", "3MiB", "--out", "other.gguf", "--seed", "8"]);
    assert_eq!(fs::metadata(bench.path("other.gguf")).unwrap().len(), 3 << 20);
    bench.refused(&["gguf", "--size", "1KiB", "--out", "x.gguf"], "the smallest file has");
    bench.refused(&["gguf", "--size", "1048577", "--out", "x.gguf"], "a multiple of 32");
    assert!(!bench.path("x.gguf").exists());
}

/// A missing part is named.
#[test]
fn a_missing_file_is_said_to_be_missing() {
    let bench = Bench::new();
    let key = ["--key", "keys/model-weights.key", "--purpose", "model-weights"];
    bench.refused(&[&["sign", "absent"][..], &key].concat(), "opening absent");
    bench.refused(&[&["sign", "keys"][..], &key].concat(), "keys is not a regular file");
    fs::remove_file(bench.path("m.gguf.sig")).unwrap();
    bench.verify_refused("m.gguf is not signed: `capos sign` makes m.gguf.sig");
}
