//! Every scenario of the source can be read.

use std::path::Path;

use capos_tools::scenario::Scenario;

#[test]
fn every_scenario_can_be_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut read = 0;
    for place in ["tools/scenarios", "tests/scenarios"] {
        for entry in std::fs::read_dir(root.join(place)).unwrap() {
            let folder = entry.unwrap().path();
            if folder.is_dir() {
                Scenario::open(&folder).unwrap_or_else(|error| panic!("{}: {error:#}", folder.display()));
                read += 1;
            }
        }
    }
    assert!(read > 20, "only {read} scenarios were found");
}
