//! What `capos new-service` and `capos new-app` make is in the source, where it is built and run like the rest.

use std::path::{Path, PathBuf};

use capos_tools::scaffold::{self, Name};

#[expect(clippy::unwrap_used, reason = "a part of the tests")]
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A source folder with the files that a new part is checked against, and no more.
#[expect(clippy::unwrap_used, reason = "a part of the tests")]
fn source() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let put = |place: &str, text: &[u8]| {
        let path = folder.path().join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put("Cargo.toml", b"[workspace]\nresolver = \"2\"\nmembers = [\"userspace/services/*\"]\n");
    put(
        "userspace/services/clock/Cargo.toml",
        b"[package]\nname = \"svc\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[[bin]]\nname = \"clock\"\npath = \"main.rs\"\n",
    );
    put("userspace/services/clock/main.rs", b"fn main() {}\n");
    let manifest = "iso_root/etc/manifest.toml";
    put(manifest, &std::fs::read(root().join(manifest)).unwrap());
    for entry in std::fs::read_dir(root().join("schema")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && path.file_name().is_some_and(|name| name != "notes.capnp") {
            let name = path.file_name().unwrap().to_str().unwrap();
            put(&format!("schema/{name}"), &std::fs::read(&path).unwrap());
        }
    }
    folder
}

#[expect(clippy::unwrap_used, reason = "a part of the tests")]
fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// The scaffold's file at this place in the source: its examples are on the image and not in the manifest.
fn kept(place: &Path) -> PathBuf {
    match place.strip_prefix("userspace/services/notes") {
        Ok(rest) => root().join("userspace/examples/notes").join(rest),
        Err(_) => root().join(place),
    }
}

#[expect(clippy::unwrap_used, clippy::panic, reason = "a part of the tests")]
fn compare(made: &[(PathBuf, String)], folder: &Path) {
    for (path, text) in made {
        let place = path.strip_prefix(folder).unwrap();
        let there = std::fs::read_to_string(kept(place)).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
        // The first line of a schema is an identifier of its own.
        let content = |text: &str| match place.extension() {
            Some(ending) if ending == "capnp" => text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap(),
            _ => text.to_owned(),
        };
        assert_eq!(content(text), content(&there), "{} is not what the scaffold makes", place.display());
    }
}

#[test]
fn the_examples_are_what_the_scaffolds_make() {
    let folder = source();
    compare(scaffold::service(folder.path(), &name("notes")).unwrap().files(), folder.path());
    compare(scaffold::app(folder.path(), &name("letters")).unwrap().files(), folder.path());
}

#[test]
fn new_entries_stand_in_the_manifest() {
    let folder = source();
    let manifest = |text: &str| text.parse::<toml::Table>().unwrap();
    let service = scaffold::service(folder.path(), &name("field-notes")).unwrap();
    let table = manifest(service.manifest());
    let last = table["service"].as_array().unwrap().last().unwrap();
    assert_eq!(last["name"].as_str(), Some("field-notes"));
    assert_eq!(last["provides"].as_array().unwrap()[0].as_str(), Some("FieldNotes"));
    let held = table["profile"]["operator"]["grants"].as_array().unwrap().last().unwrap();
    assert_eq!(held["from"].as_str(), Some("field-notes.FieldNotes"));
    let before = std::fs::read_to_string(folder.path().join("iso_root/etc/manifest.toml")).unwrap();
    assert_eq!(table["profile"]["guest"], manifest(&before)["profile"]["guest"]);
    let app = scaffold::app(folder.path(), &name("word-count")).unwrap();
    let programs = manifest(app.manifest());
    assert_eq!(programs["program"].as_array().unwrap().last().unwrap()["program"].as_str(), Some("/bin/word-count"));
}

#[test]
fn names_that_are_taken_are_refused() {
    let folder = source();
    let refused = |part: Result<scaffold::Part, _>, what: &str| {
        let error: anyhow::Error = part.unwrap_err();
        assert!(format!("{error:#}").contains(what), "{error:#}");
    };
    refused(scaffold::app(folder.path(), &name("clock")), "builds a program `clock` already");
    refused(scaffold::service(folder.path(), &name("greeter")), "has an interface or type `Greeter` already");
    refused(scaffold::service(folder.path(), &name("kernel")), "kernel.capnp exists already");
    for own in ["wire", "cap", "kernel-capnp"] {
        refused(scaffold::service(folder.path(), &name(own)), "of its own; choose another name");
    }
    refused(scaffold::service(folder.path(), &name("a")), "`A` is what a schema calls its annotations");
    refused(scaffold::service(folder.path(), &name("home")), "sessions of `operator` hold a `home` already");
    refused(scaffold::service(folder.path(), &name("text")), "`Text` is a type of every schema");
    refused(scaffold::app(folder.path(), &name("sleep")), "it has a program `sleep` already");
    std::fs::create_dir_all(folder.path().join("tests/scenarios/notes")).unwrap();
    refused(scaffold::app(folder.path(), &name("notes")), "exists already; choose another name");
}

/// The modules that the scaffold keeps clear of are those that are there.
#[test]
fn hand_written_modules_of_the_schemas_are_known() {
    let folder = source();
    for entry in std::fs::read_dir(root().join("schema/rust/src")).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().and_then(|stem| stem.to_str()).unwrap();
        if module != "lib" {
            assert!(scaffold::service(folder.path(), &name(module)).is_err(), "{module}");
        }
    }
}
