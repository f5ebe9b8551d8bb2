//! The system manifest, on the host: read from TOML, checked, encoded for the image, explained.
//!
//! The manifest says which processes the first process starts, their capabilities, and the services
//! that each may call. It is checked as a whole before anything is built: names, interfaces,
//! hardware that two services would share, dependency cycles. Errors name the file, the place, and
//! what to do.
#![forbid(unsafe_code)]

mod check;
mod dot;
mod error;
mod graph;
mod profile;
mod property;
mod source;
mod text;
mod tools;

pub use check::compile;
pub use dot::dot;
pub use error::ManifestError;
pub use graph::describe;
pub use source::INIT as FIRST_PROVIDES;
pub use tools::profile_tools;

use capos_schema::manifest::Manifest;

/// Reads and checks a manifest; `file` is its name for errors.
///
/// # Errors
/// It is not TOML of the right shape, or does not make sense.
pub fn read(file: &str, text: &str) -> Result<Manifest, ManifestError> {
    read_layers(&[(file, text)])
}

/// Reads files that make a manifest together, each with its name: processes of a later one come besides, its profiles
/// take the place of those before.
///
/// # Errors
/// One is not TOML of the right shape, or they do not make sense together.
pub fn read_layers(files: &[(&str, &str)]) -> Result<Manifest, ManifestError> {
    let mut document = text::Document::default();
    for (file, text) in files {
        document.add(text::parse(file, text)?);
    }
    let names: Vec<&str> = files.iter().map(|(file, _)| *file).collect();
    compile(&names.join(" with "), &document)
}

/// An encoded manifest of the boot package.
///
/// # Errors
/// It is too large.
pub fn encode(manifest: &Manifest) -> Result<Vec<u8>, ManifestError> {
    capos_schema::wire::to_bytes(manifest)
        .map_err(|error| ManifestError::new("manifest", "encoding", error.to_string()))
}
