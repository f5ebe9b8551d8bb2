//! Manifests that are good and manifests that are refused, with the words of the refusal.

use capos_manifest::{describe, encode, read};
use capos_schema::manifest::{GrantSource, Manifest};

const SHIPPED: &str = include_str!("../../../../iso_root/etc/manifest.toml");

const SMALL: &str = r#"
medium = "disk.Directory"
[[service]]
name = "disk"
program = "boot:disk"
provides = ["Directory"]
grants = [{ name = "logger", from = "log.Logger" }]
[[service]]
name = "shell"
program = "/bin/shell"
grants = [
    { name = "logger", from = "log.Logger" },
    { name = "home", from = "disk.Directory", rights = ["call"] },
    { name = "ports", from = "kernel.ports", first = 0x3f8, count = 8 },
]
[[service]]
name = "log"
program = "/bin/log"
provides = ["LogReader", "Logger"]
"#;

fn refused(text: &str) -> String {
    read("m.toml", text).err().map(|error| error.to_string()).unwrap_or_default()
}

/// The small manifest with one text replaced.
fn with(old: &str, new: &str) -> String {
    assert!(SMALL.contains(old), "{old}");
    SMALL.replacen(old, new, 1)
}

#[test]
fn the_shipped_manifest_is_good_and_round_trips() {
    let manifest = read("manifest.toml", SHIPPED).unwrap();
    let bytes = encode(&manifest).unwrap();
    let back: Manifest = capos_schema::wire::from_bytes(&bytes).unwrap();
    assert_eq!(back, manifest);
    let text = describe(&manifest);
    assert!(text.contains("holds terminal: calls terminal.Terminal"), "{text}");
}

#[test]
fn services_come_after_those_that_they_call() {
    let manifest = read("m.toml", SMALL).unwrap();
    let names: Vec<&str> = manifest.services.iter().map(|service| service.name.as_str()).collect();
    // The disk calls the log too, but the log lies on the disk: its lines wait.
    assert_eq!(names, ["disk", "log", "shell"]);
    assert_eq!(manifest.services[1].clients, ["disk", "shell"]);
    let GrantSource::Service(source) = &manifest.services[2].grants[0].source else { panic!("not a service") };
    assert_eq!((source.service.as_str(), source.ordinal, source.client), ("log", 1, 2));
    assert_eq!(manifest.services[2].grants[1].rights, capos_abi::Rights::CALL.0);
    assert_eq!(manifest.services[2].limits.frames, 512);
}

#[test]
fn refusals_name_place_and_reason() {
    for (old, new, wanted) in [
        ("disk.Directory\"\n", "disk\"\n", "m.toml: medium: `disk` is not SERVICE.INTERFACE"),
        ("\"boot:disk\"", "\"/bin/disk\"", "medium: `disk` is no service of the boot package"),
        ("\"boot:disk\"", "\"disk\"", "service[0] `disk`.program: `disk` is neither boot:NAME nor a path"),
        ("[\"Directory\"]", "[\"Directry\"]", "the schema has no interface `Directry`"),
        ("name = \"shell\"", "name = \"log\"", "service[2].name: `log` is taken"),
        ("name = \"shell\"", "name = \"She ll\"", "service[1].name: `She ll` is not a name"),
        ("log.Logger", "logs.Logger", "service[0] `disk`.grants[0] `logger`.from: there is no service `logs`"),
        ("log.Logger", "log.Terminal", "`log` does not provide `Terminal`; it provides LogReader, Logger"),
        ("log.Logger", "kernel.disk", "the kernel has no `disk` to grant"),
        ("rights = [\"call\"]", "rights = [\"cal\"]", "`cal` is no right; there are read, write"),
        ("rights = [\"call\"]", "first = 3", "grants[1] `home`.first: `disk.Directory` takes no `first`"),
        ("first = 0x3f8, ", "", "ports are granted with `first` and `count`"),
        ("count = 8", "count = 0x10000", "the ports must be some of 0 to 0xffff"),
        ("\"home\"", "\"logger\"", "each grant of a process needs a name of its own"),
        ("\"home\"", "\"account\"", "every process has this capability of its own"),
        ("name = \"shell\"", "nam = \"shell\"", "line 9, column 1: unknown field `nam`"),
        ("program = \"/bin/log\"", "program = \"/bin/log\"\nlimits = { threads = 0 }", "needs a thread"),
    ] {
        let error = refused(&with(old, new));
        assert!(error.contains(wanted), "{new}: {error}");
    }
}

#[test]
fn hardware_has_one_driver() {
    let second = r#"
        [[service]]
        name = "other"
        program = "/bin/other"
        grants = [{ name = "ports", from = "kernel.ports", first = 0x3ff, count = 1 }]
    "#;
    let error = refused(&format!("{SMALL}{second}"));
    assert!(error.contains("`shell` holds ports 0x3f8 to 0x3ff"), "{error}");
    let free = second.replace("0x3ff", "0x400");
    assert!(read("m.toml", &format!("{SMALL}{free}")).is_ok());
}

#[test]
fn circles_are_refused_with_their_way() {
    let text = with(
        "provides = [\"LogReader\", \"Logger\"]",
        "provides = [\"LogReader\", \"Logger\"]\ngrants = [{ name = \"s\", from = \"shell.Greeter\" }]",
    );
    let text = text.replace("program = \"/bin/shell\"", "program = \"/bin/shell\"\nprovides = [\"Greeter\"]");
    let error = refused(&text);
    assert!(error.contains("in a circle"), "{error}");
    assert!(error.contains("log -> shell"), "{error}");
}
