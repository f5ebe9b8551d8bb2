//! Fuzz targets: the parsers of untrusted files, messages, ring entries and records.
//!
//! A target takes any bytes and has to come back: with a result or an error, and without a panic. `make fuzz` gives it
//! what libFuzzer makes up; the tests of this crate give it its seeds, and those with some bytes changed.
#![forbid(unsafe_code)]

mod parsers;
mod seeds;
pub mod transfer;
// The whole path of a model file, as in the tests of the inference library.
#[path = "../../../userspace/lib/inference/tests/hostile/drive.rs"]
mod drive;

use anyhow::{Context, Result};

/// Something that reads bytes of others.
pub struct Target {
    /// Its name: `make fuzz TARGET=…`.
    pub name: &'static str,
    /// Reads the bytes.
    pub run: fn(&[u8]),
    /// Bytes from which fuzzing starts.
    pub seeds: fn() -> Result<Vec<Vec<u8>>>,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "acpi", run: parsers::acpi, seeds: seeds::acpi },
    Target { name: "audit", run: parsers::audit, seeds: seeds::audit },
    Target { name: "disk-content", run: parsers::disk_content, seeds: seeds::disk_content },
    Target { name: "elf", run: parsers::elf, seeds: seeds::elf },
    Target { name: "gguf", run: parsers::gguf, seeds: seeds::models },
    Target { name: "template", run: parsers::template, seeds: seeds::template },
    Target { name: "handbook", run: parsers::handbook, seeds: seeds::handbook },
    Target { name: "iso9660", run: parsers::iso9660, seeds: seeds::iso9660 },
    Target { name: "json", run: parsers::json, seeds: seeds::json },
    Target { name: "json-schema", run: parsers::json_schema, seeds: seeds::json_schema },
    Target { name: "keyboard", run: parsers::keyboard, seeds: seeds::keyboard },
    Target { name: "manifest", run: parsers::manifest, seeds: seeds::manifest },
    Target { name: "message", run: parsers::message, seeds: seeds::message },
    Target { name: "model", run: parsers::model, seeds: seeds::models },
    Target { name: "ring-entry", run: parsers::ring_entry, seeds: seeds::ring_entry },
    Target { name: "screen", run: parsers::screen, seeds: seeds::screen },
    Target { name: "script", run: parsers::script, seeds: seeds::script },
    Target { name: "signature", run: parsers::signature, seeds: seeds::signature },
    Target { name: "transfer", run: transfer::transfer, seeds: seeds::transfer },
    Target { name: "typed-message", run: parsers::typed_message, seeds: seeds::typed_message },
    Target { name: "ustar", run: parsers::ustar, seeds: seeds::ustar },
    Target { name: "volume", run: parsers::volume, seeds: seeds::volume },
];

/// The target of a name.
///
/// # Errors
/// There is none; the error names the existing ones.
pub fn named(name: &str) -> Result<&'static Target> {
    TARGETS.iter().find(|target| target.name == name).with_context(|| {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        format!("there is no fuzz target {name:?}; there are {}", names.join(", "))
    })
}
