//! Claims about the whole source: words that the kernel and the schema must not contain, and which files an image
//! contains. Also whether every claim of `docs/claims.md` names a test that exists and that names the claim's row.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::expect_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use capos_gguf::Synthetic;
use capos_host::files;
use capos_model::SCRIPTED;
use capos_verity::{BLOCK_SIZE, TreeBuilder, TreeSink};
use capos_vm::qemu::Machine;

#[path = "claims/evidence.rs"]
mod evidence;
#[path = "claims/pages.rs"]
mod pages;
#[path = "claims/requirements.rs"]
mod requirements;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every word of a text, in lower case: runs of letters, so that `tool_call` is two.
fn words(text: &str) -> BTreeSet<String> {
    let split = text.split(|letter: char| !letter.is_ascii_alphabetic());
    let mut words = BTreeSet::new();
    for run in split.filter(|run| !run.is_empty()) {
        // `ToolCall` is two words as well.
        let mut start = 0;
        let bytes = run.as_bytes();
        for at in 1..bytes.len() {
            if bytes[at].is_ascii_uppercase() && bytes[at - 1].is_ascii_lowercase() {
                words.insert(run[start..at].to_lowercase());
                start = at;
            }
        }
        words.insert(run[start..].to_lowercase());
    }
    words
}

#[test]
fn a01_the_kernel_knows_no_model_agent_or_tool() {
    let strange = [
        "agent",
        "agents",
        "chat",
        "conversation",
        "gguf",
        "inference",
        "llm",
        "model",
        "models",
        "prompt",
        "prompts",
        "tool",
        "tools",
        "token",
        "tokens",
        "weights",
        "persona",
        "approval",
        "consent",
    ];
    let mut sources: Vec<PathBuf> = files::walk(&root().join("kernel")).unwrap();
    sources.retain(|path| {
        path.extension().is_some_and(|ending| ending == "rs") && !path.to_string_lossy().contains("/tests")
    });
    sources.push(root().join("schema/kernel.capnp"));
    assert!(sources.len() > 50, "the kernel's sources are not where they were");
    for path in sources {
        let source = std::fs::read_to_string(&path).unwrap();
        let source = source.split("#[cfg(test)]\nmod tests").next().unwrap();
        for line in source.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let found: Vec<String> = words(line).into_iter().filter(|word| strange.contains(&word.as_str())).collect();
            assert!(found.is_empty(), "{} speaks of {found:?}: {line}", path.display());
        }
    }
    // Three system calls, and ring entries that move capabilities and messages about.
    let calls = text("kernel/abi/src/syscall.rs");
    let numbers: Vec<&str> = calls
        .lines()
        .filter(|line| {
            line.starts_with("pub const ")
                && !line.contains("DEADLINE")
                && !line.contains("EXIT_")
                && !line.contains("INVOKE_")
        })
        .collect();
    assert_eq!(numbers, ["pub const ENTER: u64 = 0;", "pub const EXIT: u64 = 1;", "pub const INVOKE: u64 = 2;"]);
}

/// Keeps no tree.
struct Nowhere;

impl TreeSink for Nowhere {
    type Error = std::convert::Infallible;

    fn write_block(&mut self, _: u64, _: &[u8; BLOCK_SIZE]) -> Result<(), Self::Error> {
        Ok(())
    }
}

#[test]
fn a02_a09_the_models_id_in_the_guest_is_the_digest_that_the_host_computes() {
    let size = 64 << 20;
    let mut builder = TreeBuilder::new(size).unwrap();
    Synthetic::with_entries(size, 1, &[SCRIPTED]).unwrap().write(|piece| builder.update(piece, &mut Nowhere)).unwrap();
    let digest = builder.finish(&mut Nowhere).unwrap();
    let check = text("tests/scenarios/model-service/check.toml");
    let wanted = format!("path = \"boot/models/scripted.gguf\", bytes = \"{size}\", model = \"{digest}-llama\"");
    assert!(check.contains(&wanted), "check.toml does not hold: {wanted}");
}

#[test]
fn a06_the_manifest_is_small_and_holds_no_weights() {
    let manifest = capos_manifest::read("manifest.toml", &text("iso_root/etc/manifest.toml")).unwrap();
    let bytes = capos_manifest::encode(&manifest).unwrap();
    assert!(bytes.len() < (11 << 20) / 4, "the manifest has {} bytes", bytes.len());
    assert!(!bytes.windows(4).any(|part| part == b"GGUF"));
}

#[test]
fn a12_a13_no_process_and_no_machine_has_a_network() {
    let machine = Machine::new(Path::new("x.iso"), "tcg").arguments().unwrap();
    let machine: Vec<String> = machine.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    assert!(machine.contains(&"-nodefaults".to_owned()), "{machine:?}");
    assert!(!machine.iter().any(|part| part.contains("net") || part.contains("nic")), "{machine:?}");
    let manifest = text("iso_root/etc/manifest.toml").to_lowercase();
    for device in ["virtio-net", "e1000", "0x1000", "0x1041", "gpu", "npu"] {
        assert!(!manifest.contains(device), "the manifest speaks of {device}");
    }
}

fn interface(name: &str) -> &'static capos_schema::reflection::InterfaceInfo {
    capos_schema::INTERFACES.iter().find(|found| found.name == name).unwrap()
}

#[test]
fn b13_no_capability_goes_into_a_model_and_only_a_stream_comes_out() {
    for name in ["LanguageModel", "TokenStream", "TextEmbedder"] {
        for method in interface(name).methods {
            assert!(!method.takes_capabilities, "{name}.{} takes a capability", method.name);
            let gives = (name, method.name) == ("LanguageModel", "stream");
            assert_eq!(method.gives_capabilities, gives, "{name}.{}", method.name);
        }
    }
}

#[test]
fn b14_a_model_has_no_method_that_runs_anything() {
    let methods = |name: &str| -> Vec<&str> { interface(name).methods.iter().map(|method| method.name).collect() };
    assert_eq!(methods("LanguageModel"), ["info", "complete", "stream"]);
    assert_eq!(methods("TokenStream"), ["next", "cancel"]);
    assert_eq!(methods("TextEmbedder"), ["info", "embed"]);
    for name in ["LanguageModel", "TokenStream", "TextEmbedder", "ModelCatalog", "ModelAdmin"] {
        assert!(interface(name).methods.iter().all(|method| method.tool.is_none()), "{name} is offered as a tool");
    }
}
