//! The tutorial shows the files that are built, and not copies of how they once were.

use std::path::Path;

#[test]
fn the_tutorial_shows_the_files_as_they_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tutorial = std::fs::read_to_string(root.join("docs/tutorial.md")).unwrap();
    for file in
        ["schema/hello.capnp", "userspace/examples/hello/src/main.rs", "userspace/examples/hello-client/src/main.rs"]
    {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        assert!(tutorial.contains(&format!("\n{}\n```", text.trim_end())), "docs/tutorial.md shows another {file}");
    }
}
