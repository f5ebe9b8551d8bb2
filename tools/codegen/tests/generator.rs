//! Errors of the generator, and that it writes only changed files.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;

use capos_codegen::Generator;

fn generate(folder: &Path, schema: &str) -> Result<(), String> {
    let file = folder.join("thing.capnp");
    fs::write(&file, format!("@0xd0a1b2c3d4e5f607;\n{schema}")).unwrap();
    Generator {
        files: vec![file],
        prefix: folder.to_owned(),
        output: folder.join("out"),
        client: true,
        kernel: true,
        reflect: true,
    }
    .run()
    .map_err(|error| format!("{error:#}"))
}

#[test]
fn what_is_not_supported_is_named() {
    for (schema, part) in [
        ("struct Box(T) { value @0 :T; }", "Box is generic"),
        ("struct A { any @0 :AnyPointer; }", "AnyPointer"),
        ("interface I { m @0 [T] (a :T) -> (); }", "I.m is generic"),
        ("struct A { b @0 :Void; struct B {} } struct AB {}", "two Rust types called AB"),
        ("struct XClient {} interface X {}", "two Rust types called XClient"),
        ("struct A { which @0 :Void; union { x @1 :Void; y @2 :Void; } }", "a field `which`"),
        ("struct A { list @0 :List(Capability); }", "List(AnyPointer) is unsupported"),
        ("struct A { x @0 :Nothing; }", "compiler failed"),
        ("struct A { list @0 :List(Void) = [void, void]; }", "A.list has a default of a pointer type"),
        ("struct A { list @0 :List(Bool) = [true]; }", "A.list has a default of a pointer type"),
        ("struct A { list @0 :List(Text) = [\"x\"]; }", "A.list has a default of a pointer type"),
        ("struct A { list @0 :List(B) = [()]; } struct B {}", "A.list has a default of a pointer type"),
        ("struct A { b @0 :B = (c = 1); } struct B { c @0 :UInt8; }", "A.b has a default of a pointer type"),
        (
            "interface I { m @0 (builder :Text) -> (); }",
            "I.m: the generator has names of its own in place of `builder`",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let error = generate(folder.path(), schema).unwrap_err();
        assert!(error.contains(part), "{error} does not say {part}");
    }
}

#[test]
fn a_default_of_no_elements_is_as_none() {
    let folder = tempfile::tempdir().unwrap();
    let types = ["Void", "Bool", "UInt64", "Text", "A"];
    let fields = types.iter().enumerate().map(|(at, ty)| format!("list{at} @{at} :List({ty}) = [];"));
    generate(folder.path(), &format!("struct A {{ {} }}", fields.collect::<String>())).unwrap();
}

#[test]
fn the_same_schema_makes_the_same_text_and_leaves_files_alone() {
    let folder = tempfile::tempdir().unwrap();
    let schema = "struct A { # An A.\n b @0 :Text; # Its b.\n} interface I { m @0 (a :A) -> (); # Does it.\n }";
    generate(folder.path(), schema).unwrap();
    let owned = folder.path().join("out/thing_owned.rs");
    let (text, time) = (fs::read_to_string(&owned).unwrap(), fs::metadata(&owned).unwrap().modified().unwrap());
    assert!(text.contains("/// An A.\n") && text.contains("/// Its b.\n"), "{text}");
    assert!(fs::read_to_string(folder.path().join("out/thing_server.rs")).unwrap().contains("/// Does it.\n"));
    generate(folder.path(), schema).unwrap();
    assert_eq!(fs::metadata(&owned).unwrap().modified().unwrap(), time);
    generate(folder.path(), &schema.replace("An A.", "One A.")).unwrap();
    assert!(fs::read_to_string(&owned).unwrap().contains("/// One A.\n"));
}
