//! Generates this crate's modules from `schema/*.capnp`, and those of the test schema.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result};
use capos_codegen::Generator;

/// The kernel's part: its own objects, and the annotations on them.
const KERNEL_FILES: &[&str] = &["annotations.capnp", "kernel.capnp"];

fn main() -> Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let output = PathBuf::from(env::var("OUT_DIR")?);
    let root = here.join("../..");
    let feature = |name: &str| env::var_os(format!("CARGO_FEATURE_{name}")).is_some();
    let (client, kernel, reflect) = (feature("CLIENT"), feature("KERNEL"), feature("REFLECT"));

    let folder = root.join("schema");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = schema_files(&folder)?;
    if !client {
        files.retain(|file| KERNEL_FILES.iter().any(|name| file.ends_with(name)));
    }
    Generator { files, prefix: folder, output: output.clone(), client, kernel, reflect }.run()?;

    let folder = root.join("tools/codegen/tests");
    let files = schema_files(&folder)?;
    for file in &files {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    let output = output.join("test");
    Generator { files, prefix: folder, output, client: true, kernel: true, reflect: true }.run()
}

fn schema_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "capnp") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
