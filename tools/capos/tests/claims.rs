//! Claims about the whole source: words that the kernel and the schema must not contain, and which files an image
//! contains. Also whether every claim of `docs/claims.md` names a test that exists and that names the claim's row.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::expect_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use capos_gguf::Synthetic;
use capos_model::SCRIPTED;
use capos_tools::checks::Checks;
use capos_tools::files;
use capos_tools::qemu::Machine;
use capos_verity::{BLOCK_SIZE, TreeBuilder, TreeSink};

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

/// Rows that this state of the system has to account for, shown or not.
const ROWS: &str = "A01 A02 A03 A04 A05 A06 A07 A08 A09 A10 A11 A12 A13 A14 A15 A16 A17 A18 A19 A20 B01 B02 B03 B04 B05 B06 B07 B08 \
                    B09 B10 B11 B12 B13 B14 B15 B16 B17 B18 B20 B21 B22 C01 C03 C04 C05 C06 C07 C08 C09 C10 C11 C12 C13 C26 C28 C31 D01 D02 D03 D04 \
                    D09 D12 E01 E02 E03 E04 E05 J01 J02 J05 J06 J07 J08 J11";

/// A line of a table of `docs/claims.md`.
struct Line {
    rows: Vec<String>,
    cells: Vec<String>,
    shown: bool,
}

fn lines() -> Vec<Line> {
    let mut shown = true;
    let mut lines = Vec::new();
    for line in text("docs/claims.md").lines() {
        shown &= !line.starts_with("## Not shown yet");
        let Some(cells) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else { continue };
        let cells: Vec<String> = cells.split(" | ").map(|cell| cell.trim().to_owned()).collect();
        if cells[0] == "row" || cells[0].starts_with("--") {
            continue;
        }
        let rows = cells[0].split(", ").map(str::to_owned).collect();
        lines.push(Line { rows, cells, shown });
    }
    lines
}

/// Why a test does not show a row, if it does not.
fn missing(test: &str, row: &str) -> Option<String> {
    if let Some((path, function)) = test.split_once("::") {
        let source = std::fs::read_to_string(root().join(path)).unwrap_or_default();
        if !source.contains(&format!("fn {function}(")) {
            return Some(format!("{path} has no test {function}"));
        }
        let named = source.contains(row) || source.contains(&format!("{}_", row.to_lowercase()));
        return (!named && row != "—").then(|| format!("{path} does not name it"));
    }
    let Some(name) = test.strip_prefix("qemu/") else { return Some("it is neither a scenario nor a function".into()) };
    let (name, part) = name.split_once('/').unwrap_or((name, ""));
    let folders = ["tests/scenarios", "tools/scenarios"].map(|folder| root().join(folder).join(name));
    let Some(folder) = folders.iter().find(|folder| folder.join("terminal.txt").is_file()) else {
        return Some("there is no such scenario".into());
    };
    let inside = match (name, part) {
        (_, "") => {
            let checks = Checks::open(folder).unwrap();
            let named = row == "—" || checks.rows.iter().any(|named| named == row);
            return (!named).then(|| "its check.toml does not name it".into());
        }
        ("kernel-tests", part) => ["mod", "machine"].iter().any(|file| {
            text(&format!("kernel/kernel/src/tests_in_kernel/{file}.rs")).contains(&format!("(\"{part}\""))
        }),
        ("refusals", part) => text("kernel/kernel/src/tests_in_kernel/start.rs").contains(&format!("\"{part}\"")),
        ("hostile", part) => text("userspace/tests/hostile/src/runner/plan.rs").contains(&format!("\"{part}\"")),
        _ => false,
    };
    (!inside).then(|| format!("{name} has no test {part}"))
}

#[test]
fn every_claim_names_tests_that_exist_and_name_it() {
    let mut wrong = Vec::new();
    for line in lines().iter().filter(|line| line.shown) {
        let [_, claim, tests, command] = line.cells.as_slice() else {
            panic!("a claim has a row, a sentence, its tests and a command: {:?}", line.cells)
        };
        assert!(claim.ends_with('.') && claim.len() > 20, "{claim:?} is no sentence");
        assert!(command.starts_with('`'), "{command:?} is no command");
        let tests: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "{claim:?} names no test");
        for test in tests {
            for row in &line.rows {
                wrong.extend(missing(test, row).map(|why| format!("{row}: {test}: {why}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The names of the tests that run inside the kernel.
fn kernel_tests() -> Vec<String> {
    let files = ["mod", "machine"].map(|file| text(&format!("kernel/kernel/src/tests_in_kernel/{file}.rs")));
    let names = files.iter().flat_map(|source| source.lines()).filter_map(|line| line.trim().strip_prefix("(\""));
    names.filter_map(|rest| rest.split_once("\", ")).map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn every_promise_names_tests_that_exist_and_no_test_of_the_kernel_is_left_out() {
    let page = text("docs/spec.md");
    let mut numbers = BTreeSet::new();
    let mut named = BTreeSet::new();
    for line in page.lines().filter(|line| line.starts_with("| S")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, promise, tests] = cells.as_slice() else { panic!("a promise has three cells: {line}") };
        assert!(numbers.insert(*number), "{number} is there twice");
        assert!(promise.ends_with('.'), "{number} is no sentence");
        for test in tests.split('`').skip(1).step_by(2) {
            let why = missing(test, "—");
            assert_eq!(why, None, "{number}: {test}");
            named.insert(test);
        }
    }
    assert!(numbers.len() > 40, "{numbers:?}");
    let tests = kernel_tests();
    assert!(tests.len() > 60, "{tests:?}");
    for test in tests {
        assert!(named.contains(format!("qemu/kernel-tests/{test}").as_str()), "no promise names kernel-tests/{test}");
    }
}

/// The functions inside `proptest!` of a file, as `path::function`.
fn properties(path: &Path) -> Vec<String> {
    let source = std::fs::read_to_string(path).unwrap();
    let path = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
    let mut found = Vec::new();
    for block in source.split("proptest! {\n").skip(1) {
        // Up to a brace as far left as the macro is itself.
        let indent = block.find(|letter| letter != ' ').unwrap().saturating_sub(4);
        let end = format!("\n{}}}\n", " ".repeat(indent));
        let inside = &block[..block.find(&end).unwrap_or_else(|| panic!("{path}: a proptest! does not end"))];
        let functions = inside.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
        found.extend(functions.map(|line| format!("{path}::{}", line.split('(').next().unwrap())));
    }
    found
}

#[test]
fn every_property_is_listed_and_every_listed_one_is_tested() {
    let mut tested = BTreeSet::new();
    for folder in ["abi", "captable", "elf", "machine", "paging", "sync"] {
        for path in files::walk(&root().join("kernel").join(folder)).unwrap() {
            if path.extension().is_some_and(|ending| ending == "rs") {
                tested.extend(properties(&path));
            }
        }
    }
    let (mut numbers, mut listed) = (BTreeSet::new(), BTreeSet::new());
    let page = text("docs/properties.md");
    for line in page.lines().filter(|line| line.starts_with("| P")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, property, test] = cells.as_slice() else { panic!("a property has three cells: {line}") };
        assert!(numbers.insert(*number), "{number} is there twice");
        assert!(property.ends_with('.'), "{number} is no sentence");
        assert!(listed.insert(test.trim_matches('`').to_owned()), "{test} is listed twice");
    }
    assert!(listed.len() >= 15, "{listed:?}");
    let missing: Vec<&String> = listed.symmetric_difference(&tested).collect();
    assert!(missing.is_empty(), "listed or tested, and not both: {missing:#?}");
}

#[test]
fn every_row_is_accounted_for_once() {
    let lines = lines();
    for row in ROWS.split_whitespace() {
        let shown = lines.iter().any(|line| line.shown && line.rows.iter().any(|found| found == row));
        let not = lines.iter().filter(|line| !line.shown && line.rows.iter().any(|found| found == row)).count();
        assert!(shown != (not == 1), "{row}: shown {shown}, said not to be shown {not} times");
    }
}

#[test]
fn every_row_that_a_scenario_names_is_claimed_with_it() {
    let lines = lines();
    for folder in ["tests/scenarios", "tools/scenarios"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if !path.join("terminal.txt").is_file() {
                continue;
            }
            let name = format!("`qemu/{}`", path.file_name().unwrap().to_string_lossy());
            for row in Checks::open(&path).unwrap().rows {
                let claimed =
                    lines.iter().any(|line| line.shown && line.rows.contains(&row) && line.cells[2].contains(&name));
                assert!(claimed, "{name} names {row}, and docs/claims.md does not name it there");
            }
        }
    }
}
