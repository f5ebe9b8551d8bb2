//! The documentation shows the files that are built, and not copies of how they once were.

use std::path::Path;

#[expect(clippy::unwrap_used, reason = "a part of the tests")]
fn shows(page: &str, files: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(page)).unwrap();
    for file in files {
        let shown = std::fs::read_to_string(root.join(file)).unwrap();
        assert!(text.contains(&format!("\n{}\n```", shown.trim_end())), "{page} shows another {file}");
    }
}

#[test]
fn the_tutorial_shows_the_files_as_they_are() {
    shows(
        "docs/tutorial.md",
        &["schema/hello.capnp", "userspace/examples/hello/src/main.rs", "userspace/examples/hello-client/src/main.rs"],
    );
}

#[test]
fn the_page_on_std_shows_its_program_as_it_is() {
    shows("docs/std.md", &["userspace/programs/greet-std/src/main.rs"]);
}
