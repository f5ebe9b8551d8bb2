//! Manifests that are good and manifests that are refused, with the words of the refusal.

use capos_manifest::{describe, encode, read, read_layers};
use capos_schema::authority::Profile;
use capos_schema::manifest::{GrantSource, Manifest};
use capos_schema::models::PermissionMode;

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
    // The disk calls the log too, but the log is on the disk: its lines wait.
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
        ("\"boot:disk\"", "\"/bin/disk\"", "medium: `disk` is not a service of the boot package"),
        ("\"boot:disk\"", "\"disk\"", "service[0] `disk`.program: `disk` is neither boot:NAME nor a path"),
        (
            "[\"Directory\"]",
            "[\"Directry\"]",
            "the schema has no interface `Directry`; after a change of a schema `make tools`",
        ),
        ("name = \"shell\"", "name = \"log\"", "service[2].name: `log` is taken"),
        ("name = \"shell\"", "name = \"She ll\"", "service[1].name: `She ll` is not a name"),
        ("log.Logger", "logs.Logger", "service[0] `disk`.grants[0] `logger`.from: there is no service `logs`"),
        ("log.Logger", "log.Terminal", "`log` does not provide `Terminal`; it provides LogReader, Logger"),
        ("log.Logger", "kernel.disk", "the kernel grants no `disk`"),
        ("rights = [\"call\"]", "rights = [\"cal\"]", "`cal` is not a right; the rights are read, write"),
        ("rights = [\"call\"]", "first = 3", "grants[1] `home`.first: `disk.Directory` takes no `first`"),
        ("first = 0x3f8, ", "", "ports are granted with `first` and `count`"),
        ("count = 8", "count = 0x10000", "the ports must be some of 0 to 0xffff"),
        ("\"home\"", "\"logger\"", "each grant of a process needs a name of its own"),
        ("\"home\"", "\"account\"", "every process has this capability of its own"),
        ("\"home\"", "\"process\"", "every process has this capability of its own"),
        ("\"home\"", "\"err\"", "or gets it from the process that starts it"),
        ("name = \"shell\"", "nam = \"shell\"", "line 9, column 1: unknown field `nam`"),
        ("program = \"/bin/log\"", "program = \"/bin/log\"\nlimits = { threads = 0 }", "needs a thread"),
        (
            "program = \"/bin/log\"",
            "program = \"/bin/log\"\nlimits = { cpu_seconds = 0 }",
            "limits.cpu_seconds: the limit of CPU time is",
        ),
        ("program = \"/bin/log\"", "program = \"/bin/log\"\nlimits = { priority = 3 }", "the priorities are -1 to 2"),
    ] {
        let error = refused(&with(old, new));
        assert!(error.contains(wanted), "{new}: {error}");
    }
}

#[test]
fn cpu_time_is_limited_where_the_manifest_says_so() {
    let limited = with("program = \"/bin/log\"", "program = \"/bin/log\"\nlimits = { cpu_seconds = 30 }");
    let manifest = read("m.toml", &limited).unwrap();
    let limits: Vec<u64> = manifest.services.iter().map(|service| service.limits.cpu_nanoseconds).collect();
    assert_eq!(limits.iter().filter(|limit| **limit == 30_000_000_000).count(), 1, "{limits:?}");
    assert_eq!(limits.iter().filter(|limit| **limit == 0).count(), limits.len() - 1, "{limits:?}");
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
    assert!(error.contains("in a cycle"), "{error}");
    assert!(error.contains("log -> shell"), "{error}");
}

/// A service that issues sessions, and its profiles.
const ISSUER: &str = r#"
[[service]]
name = "broker"
program = "/bin/broker"
provides = ["AuthorityBroker", "Logger"]
trusted = true
[profile.operator]
modes = { readOnly = "auto", mutating = "consent", destructive = "stepUp", outbound = "consent", admin = "stepUp" }
grants = [{ name = "home", from = "disk.Directory" }, { name = "logs", from = "log.LogReader", rights = ["call"] }]
[profile.guest]
modes = { readOnly = "auto", mutating = "stepUp", destructive = "stepUp", outbound = "consent", admin = "forbidden" }
grants = [{ name = "home", from = "disk.Directory", read_only = true }]
[profile.anonymous]
modes = { readOnly = "auto", mutating = "forbidden", destructive = "forbidden", outbound = "consent", admin = "consent" }
grants = []
"#;

#[test]
fn a_profile_says_what_its_sessions_hold() {
    let manifest = read("m.toml", &format!("{SMALL}{ISSUER}")).unwrap();
    let profiles: Vec<Profile> = manifest.profiles.iter().map(|profile| profile.profile).collect();
    assert_eq!(profiles, Profile::ALL);
    let [operator, guest, anonymous] = manifest.profiles.as_slice() else { panic!("{:?}", manifest.profiles) };
    let names: Vec<(&str, &str)> = operator.grants.iter().map(|grant| (&*grant.name, &*grant.held)).collect();
    assert_eq!(names, [("home", "disk.Directory"), ("logs", "log.LogReader")]);
    assert_eq!(operator.grants[1].rights, capos_abi::Rights::CALL.0);
    assert!(guest.grants[0].read_only && !operator.grants[0].read_only);
    assert!(anonymous.grants.is_empty());
    // The broker holds each once, to pass on, and the services know it as a client.
    let broker = manifest.services.iter().find(|service| service.name == "broker").unwrap();
    let held: Vec<&str> = broker.grants.iter().map(|grant| grant.name.as_str()).collect();
    assert_eq!(held, ["disk.Directory", "log.LogReader"]);
    assert!(broker.trusted);
    let disk = manifest.services.iter().find(|service| service.name == "disk").unwrap();
    assert_eq!(disk.clients, ["shell", "broker"]);
    assert!(!disk.trusted);
}

/// The home of a session's principal is held by sessions and programs, and comes from the broker and the launcher.
#[test]
fn a_home_is_a_principals() {
    let homes = |more: &str| {
        let disk = "[[service]]\nname = \"files\"\nprogram = \"/bin/files\"\nprovides = [\"Directory\", \"Homes\"]\n";
        let program = "[[program]]\nname = \"cat\"\nprogram = \"/bin/cat\"\ngrants = [{ name = \"home\", from = \"files.Directory\" }]\n";
        let issuer = ISSUER.replacen("from = \"disk.Directory\" }", "from = \"files.Directory\" }", 1);
        format!("{SMALL}{disk}{more}{program}{issuer}")
    };
    let manifest = read("m.toml", &homes("")).unwrap();
    let of_principal: Vec<bool> = manifest.profiles[0].grants.iter().map(|grant| grant.of_principal).collect();
    assert_eq!(of_principal, [true, false]);
    assert!(!manifest.profiles[1].grants[0].of_principal);
    // The broker has nobody's.
    let broker = manifest.services.iter().find(|service| service.name == "broker").unwrap();
    assert!(broker.grants.iter().all(|grant| grant.from != "files.Directory"));
    let service =
        "[[service]]\nname = \"s\"\nprogram = \"/bin/s\"\ngrants = [{ name = \"home\", from = \"files.Directory\" }]\n";
    let words = refused(&homes(service));
    assert!(
        words
            .ends_with("`files.Directory` is the home of a session's principal, so only sessions and programs hold it"),
        "{words}"
    );
    let given = homes("").replacen("from = \"files.Directory\" }", "from = \"files.Homes\" }", 2);
    assert!(refused(&given).contains("no session is granted `files.Homes`"));
}

#[test]
fn print_shows_what_a_session_holds_and_takes() {
    let text = describe(&read("manifest.toml", SHIPPED).unwrap());
    assert!(text.contains("service audit = /bin/audit, trusted\n"), "{text}");
    let (_, profiles) = text.split_once("profile operator\n").unwrap();
    let (operator, rest) = profiles.split_once("profile guest\n").unwrap();
    let (guest, anonymous) = rest.split_once("profile anonymous\n").unwrap();
    assert!(operator.contains("  holds services: calls init.ServiceSupervisor\n"), "{operator}");
    assert!(operator.contains("    restart_service: consent\n    stop_service: stepUp\n"), "{operator}");
    assert!(guest.contains("  holds home: calls ramfs.Directory, read-only\n"), "{guest}");
    // Methods that the read-only form rejects are not tools.
    assert!(guest.contains("    read_file: auto\n") && !guest.contains("write_file"), "{guest}");
    assert!(operator.contains("    write_file: consent\n"), "{operator}");
    assert!(!guest.contains("restart_service") && !guest.contains("power_off"), "{guest}");
    assert_eq!(anonymous.matches("holds").count(), 2, "{anonymous}");
    assert!(anonymous.contains("permits readOnly auto, mutating forbidden"), "{anonymous}");
}

/// What sessions hold, and how each category of tools is treated.
#[test]
fn the_shipped_profiles_hold_what_they_are_meant_to() {
    let manifest = read("manifest.toml", SHIPPED).unwrap();
    let held = |profile: Profile| -> Vec<String> {
        let found = manifest.profiles.iter().find(|found| found.profile == profile).unwrap();
        found.grants.iter().map(|grant| format!("{}{}", grant.name, if grant.read_only { "!" } else { "" })).collect()
    };
    assert_eq!(
        held(Profile::Operator),
        ["status", "logs", "home", "services", "launcher", "power", "audit", "disks", "models", "transfer", "manual"]
    );
    assert_eq!(held(Profile::Guest), ["status", "logs", "home!", "manual"]);
    assert_eq!(held(Profile::Anonymous), ["status", "manual"]);
    let [auto, consent, step_up, forbidden] =
        [PermissionMode::Auto, PermissionMode::Consent, PermissionMode::StepUp, PermissionMode::Forbidden];
    let matrix = [
        ("readOnly", [auto, auto, auto]),
        ("mutating", [consent, consent, forbidden]),
        ("destructive", [step_up, step_up, forbidden]),
        ("outbound", [consent, consent, forbidden]),
        ("admin", [step_up, forbidden, forbidden]),
    ];
    for profile in &manifest.profiles {
        for found in &profile.modes {
            let (_, modes) = matrix.iter().find(|(category, _)| found.category == *category).unwrap();
            assert_eq!(found.mode, modes[profile.profile as usize], "{:?} {found:?}", profile.profile);
        }
        assert_eq!(profile.modes.len(), matrix.len());
    }
}

#[test]
fn a_layer_takes_the_place_of_profiles_and_adds_processes() {
    let layer = r#"
        [profile.guest]
        modes = { mutating = "forbidden" }
        [profile.anonymous]
        grants = [{ name = "home", from = "disk.Directory" }]
        [[program]]
        name = "extra"
        program = "/bin/extra"
    "#;
    let base = format!("{SMALL}{ISSUER}");
    let manifest = read_layers(&[("m.toml", &base), ("over.toml", layer)]).unwrap();
    let [operator, guest, anonymous] = manifest.profiles.as_slice() else { panic!("{:?}", manifest.profiles) };
    assert_eq!(*operator, read("m.toml", &base).unwrap().profiles[0]);
    assert_eq!(
        (guest.grants.len(), guest.modes[1].mode.name(), guest.modes[2].mode.name()),
        (1, "forbidden", "stepUp")
    );
    assert_eq!((anonymous.grants[0].name.as_str(), anonymous.modes[1].mode.name()), ("home", "forbidden"));
    assert_eq!(manifest.programs.len(), 1);
    let error = read_layers(&[("m.toml", &base), ("over.toml", "[profile.gast]")]).unwrap_err().to_string();
    assert!(error.contains("m.toml with over.toml: profile.gast: there is no such profile"), "{error}");
}

#[test]
fn mistakes_in_profiles_name_place_and_reason() {
    let good = format!("{SMALL}{ISSUER}");
    let home = "{ name = \"home\", from = \"disk.Directory\", read_only = true }";
    for (old, new, wanted) in [
        (
            home,
            "{ name = \"home\", from = \"disc.Directory\" }",
            "profile.guest.grants[0] `home`.from: there is no service `disc`",
        ),
        (home, "{ name = \"home\", from = \"disk.Files\" }", "`disk` does not provide `Files`; it provides Directory"),
        (home, "{ name = \"home\", from = \"disk\" }", "`home`.from: `disk` is not SERVICE.INTERFACE"),
        (
            home,
            "{ name = \"home\", from = \"disk.Directory\", rights = [\"see\"] }",
            "`home`.rights: `see` is not a right",
        ),
        (
            home,
            "{ name = \"home\", from = \"disk.Directory\", line = 3 }",
            "`home`.line: `disk.Directory` takes no `line`",
        ),
        (
            home,
            "{ name = \"l\", from = \"log.LogReader\", read_only = true }",
            "`l`.read_only: `LogReader` has no read-only form",
        ),
        (home, "{ name = \"t\", from = \"kernel.timer\" }", "no session is granted `kernel.timer`"),
        (home, "{ name = \"f\", from = \"init.FaultInjector\" }", "no session is granted `init.FaultInjector`"),
        (home, "{ name = \"s\", from = \"store.Namespace\" }", "no session is granted `store.Namespace`"),
        (home, "{ name = \"s\", from = \"log.MachineSetup\" }", "no session is granted `log.MachineSetup`"),
        (home, "{ name = \"setup\", from = \"disk.Directory\" }", "each grant of a session needs a name of its own"),
        (
            home,
            "{ name = \"approvals\", from = \"disk.Directory\" }",
            "each grant of a session needs a name of its own",
        ),
        (
            home,
            "{ name = \"a\", from = \"disk.Directory\" }, { name = \"b\", from = \"disk.Directory\" }",
            "profile.guest.grants[1] `b`.from: `a` has the same interface",
        ),
        (
            "[profile.guest]",
            "[profile.gast]",
            "m.toml: profile.gast: there is no such profile; the profiles are operator, guest",
        ),
        ("[profile.anonymous]", "[profile.guest.x]", "unknown field `x`"),
        ("grants = []", "", "profile.anonymous.grants: it is missing"),
        (
            "mutating = \"stepUp\"",
            "mutating = \"ask\"",
            "profile.guest.modes.mutating: there is no mode `ask`; the modes are auto",
        ),
        ("mutating = \"stepUp\"", "changing = \"stepUp\"", "profile.guest.modes.changing: there is no such category"),
        ("mutating = \"stepUp\", ", "", "profile.guest.modes.mutating: it is missing"),
        (
            "admin = \"stepUp\"",
            "admin = \"auto\"",
            "profile.operator.modes.admin: tools that are admin need consent at least, not auto",
        ),
        ("\"AuthorityBroker\", ", "", "profile.anonymous: no service provides AuthorityBroker"),
        (
            "from = \"log.Logger\" }",
            "from = \"log.Logger\", read_only = true }",
            "`logger`.read_only: `Logger` has no read-only form",
        ),
    ] {
        assert!(good.contains(old), "{old}");
        let error = refused(&good.replacen(old, new, 1));
        assert!(error.contains(wanted), "{new}: {error}");
    }
    let without = good.split("[profile.anonymous]").next().unwrap();
    assert!(refused(without).contains("profile.anonymous: it is missing; say what its sessions hold"));
}

/// The small manifest with a property.
fn with_property(property: &str) -> String {
    format!("{SMALL}[[property]]\nsays = \"so it is\"\n{property}\n")
}

#[test]
fn properties_hold_or_are_refused_with_who_breaks_them_by_what() {
    let holds = [
        "of = [\"disk\"]\nonly = [\"log.Logger\"]",
        "of = [\"shell\"]\nonly = [\"Logger\", \"Directory\", \"kernel.ports\"]",
        "never = [\"kernel.dma\", \"init.ProcessSpawner\"]",
        "never = [\"kernel.ports\"]\nbut = [\"shell\"]",
        "never = [\"IoPorts\"]\nbut = [\"services\"]",
        "never = [\"kernel.ports\"]\nof = [\"programs\", \"profiles\", \"log\"]",
        "apart = [\"disk.Directory\", \"kernel.dma\"]",
        "of = [\"log\"]\nonly = []\nreach = true",
    ];
    for property in holds {
        assert_eq!(refused(&with_property(property)), "", "{property}");
    }
    let broken = [
        ("never = [\"kernel.ports\"]", "`shell` holds `kernel.ports`"),
        ("never = [\"IoPorts\"]", "`shell` holds `kernel.ports`"),
        ("apart = [\"Logger\", \"Directory\"]", "`shell` holds `log.Logger` and `disk.Directory`"),
        ("of = [\"services\"]\nonly = [\"Logger\", \"Directory\"]", "`shell` holds `kernel.ports` too"),
        ("of = [\"log\", \"shell\"]\nonly = [\"Logger\", \"IoPorts\"]", "`shell` holds `disk.Directory` too"),
    ];
    for (property, reason) in broken {
        assert_eq!(refused(&with_property(property)), format!("m.toml: property[0] \"so it is\": {reason}"));
    }
}

#[test]
fn the_read_only_form_is_less_than_the_whole() {
    let whole = SMALL.to_owned();
    let less = with("from = \"disk.Directory\", rights = [\"call\"]", "from = \"disk.Directory\", read_only = true");
    // The property, and whether the holder of the whole violates it, and the holder of the read-only form.
    let cases = [
        ("never = [\"Directory\"]", true, false),
        ("never = [\"disk.Directory read-only\"]", true, true),
        ("apart = [\"Directory read-only\", \"Logger\"]", true, true),
        ("of = [\"shell\"]\nonly = [\"Logger\", \"IoPorts\", \"Directory\"]", false, false),
        ("of = [\"shell\"]\nonly = [\"Logger\", \"IoPorts\", \"Directory read-only\"]", true, false),
    ];
    for (property, breaks, breaks_less) in cases {
        let property = format!("[[property]]\nsays = \"so it is\"\n{property}\n");
        for (manifest, breaks) in [(&whole, breaks), (&less, breaks_less)] {
            assert_eq!(!refused(&format!("{manifest}{property}")).is_empty(), breaks, "{property}");
        }
    }
}

#[test]
fn what_is_reached_through_services_counts_where_a_property_says_so() {
    let manifest = with(
        "program = \"/bin/log\"\n",
        "program = \"/bin/log\"\ngrants = [{ name = \"dma\", from = \"kernel.dma\" }]\n",
    )
    .replacen("    { name = \"logger\", from = \"log.Logger\" },\n", "", 1);
    let property = "[[property]]\nsays = \"so it is\"\nof = [\"shell\"]\nnever = [\"kernel.dma\"]\n";
    assert_eq!(refused(&format!("{manifest}{property}")), "");
    assert_eq!(
        refused(&format!("{manifest}{property}reach = true\n")),
        "m.toml: property[0] \"so it is\": `shell` reaches `kernel.dma` (through disk, then log)"
    );
}

#[test]
fn a_property_is_about_the_processes_of_its_own_file_and_those_before() {
    let first = with_property("never = [\"kernel.dma\"]");
    let probe = "[[program]]\nname = \"probe\"\nprogram = \"/bin/probe\"\n\
                 grants = [{ name = \"dma\", from = \"kernel.dma\" }, { name = \"home\", from = \"disk.Directory\" }]\n";
    read_layers(&[("m.toml", &first), ("later.toml", probe)]).unwrap();
    let later = format!("{probe}[[property]]\nsays = \"theirs\"\nnever = [\"Directory\"]\nbut = [\"probe\"]\n");
    let error = read_layers(&[("m.toml", &first), ("later.toml", &later)]).unwrap_err().to_string();
    assert_eq!(error, "m.toml with later.toml: property[1] \"theirs\": `shell` holds `disk.Directory`");
    // Not about one that comes later.
    let first = with_property("of = [\"probe\"]\nnever = [\"kernel.dma\"]");
    let error = read_layers(&[("m.toml", &first), ("later.toml", probe)]).unwrap_err().to_string();
    assert!(error.contains("there is no `probe`"), "{error}");
}

#[test]
fn a_property_that_says_nothing_or_names_what_there_is_not_is_refused() {
    let nothing = "give one of `never` (at least one name), `apart` (at least two) and `only`";
    let nobody = "no service provides `X`; write SERVICE.INTERFACE, kernel.OBJECT or an interface of the schema";
    let cases = [
        ("", nothing.to_owned()),
        ("never = []", nothing.to_owned()),
        ("apart = [\"Logger\"]", nothing.to_owned()),
        ("never = [\"Logger\"]\nonly = []", nothing.to_owned()),
        ("of = []\nonly = []", "`of` is empty; leave it out to mean all".to_owned()),
        (
            "of = [\"disc\"]\nonly = []",
            "there is no `disc`; it names services, programs, profiles, a service, a program or profile.NAME"
                .to_owned(),
        ),
        ("never = [\"disk.Logger\"]", nobody.replace('X', "disk.Logger")),
        ("never = [\"Netwrk\"]", nobody.replace('X', "Netwrk")),
        ("never = [\"kernel.disk\"]", nobody.replace('X', "kernel.disk")),
        ("never = [\"kernel.dma read-only\"]", "`kernel.dma` has no read-only form; a Directory has one".to_owned()),
    ];
    for (property, reason) in cases {
        assert_eq!(refused(&with_property(property)), format!("m.toml: property[0] \"so it is\": {reason}"));
    }
    let taken = refused(&with("name = \"log\"", "name = \"programs\""));
    assert!(taken.contains("`programs` is taken"), "{taken}");
}

#[test]
fn a_device_is_granted_by_its_numbers_or_by_its_class() {
    let device = |fields: &str| {
        let (old, new) = ("name = \"ports\", from = \"kernel.ports\", first = 0x3f8, count = 8", "name = \"pci\"");
        with(old, &format!("{new}, from = \"init.PciFunction\"{fields}"))
    };
    let source = |fields: &str| {
        let manifest = read("m.toml", &device(fields)).unwrap();
        manifest.services.iter().flat_map(|service| &service.grants).find_map(|grant| match &grant.source {
            GrantSource::Pci(pci) => Some((pci.vendor, pci.devices.clone(), pci.class)),
            _ => None,
        })
    };
    assert_eq!(source(", class = 0x010601"), Some((0, Vec::new(), 0x01_0601)));
    assert_eq!(source(", vendor = 0x1af4, devices = [0x1001]"), Some((0x1af4, vec![0x1001], 0)));
    let neither = "a PCI function is granted with `vendor` and `devices`, or with `class`";
    for (fields, reason) in [
        ("", neither),
        (", vendor = 0x1af4", neither),
        (", vendor = 0x1af4, devices = []", neither),
        (", vendor = 0x1af4, devices = [0x1001], class = 0x010601", neither),
        (", devices = [], class = 0x010601", neither),
        (", class = 0", "class, subclass and programming interface are one number"),
        (", class = 0x1000000", "class, subclass and programming interface are one number"),
    ] {
        let words = refused(&device(fields));
        assert!(words.contains(reason), "{fields}: {words}");
    }
    let twice = device(", class = 0x010601")
        + "\n[[service]]\nname = \"other\"\nprogram = \"/bin/other\"\n\
        grants = [{ name = \"pci\", from = \"init.PciFunction\", class = 0x010601 }]\n";
    let words = refused(&twice);
    assert!(words.contains("`shell` holds the PCI device of class 010601; one driver per device"), "{words}");
}

/// A driver runs once for each of its devices, so the names of these processes and their grants are reserved.
#[test]
fn a_driver_leaves_room_for_several_devices() {
    let driver = "\n[[service]]\nname = \"net\"\nprogram = \"/bin/net\"\nprovides = [\"Greeter\"]\n\
        grants = [{ name = \"pci\", from = \"init.PciFunction\", class = 0x020000 }]\n";
    let process = |name: &str, grants: &str| {
        format!("{SMALL}{driver}\n[[program]]\nname = \"{name}\"\nprogram = \"/bin/p\"\ngrants = [{grants}]\n")
    };
    let of_net = |name: &str| format!("{{ name = \"{name}\", from = \"net.Greeter\" }}");
    for (name, grants) in [("net-x", ""), ("net2", ""), ("net-", ""), ("internet-2", ""), ("p", of_net("a").as_str())] {
        read("m.toml", &process(name, grants)).unwrap();
    }
    for name in ["net-2", "net-16", "net-0"] {
        let words = refused(&process(name, ""));
        let reason = format!("`{name}` is what a second process of driver `net` is called; give it another name");
        assert_eq!(words, format!("m.toml: service: {reason}"));
    }
    let timer = "{ name = \"a-2\", from = \"kernel.timer\" }";
    let words = refused(&process("p", &format!("{}, {timer}", of_net("a"))));
    assert!(
        words.ends_with("`a-2` is what the grant `a` of a second device is called; give it another name"),
        "{words}"
    );
    let two = "{ name = \"one\", from = \"init.PciFunction\", class = 1 }, \
               { name = \"two\", from = \"init.PciFunction\", class = 2 }";
    let words = refused(&process("p", two));
    assert!(words.ends_with("a process drives one device, so it is granted one PCI function"), "{words}");
}

#[test]
fn each_shipped_property_is_broken_by_what_it_is_there_for() {
    // A grant that violates each property, in the order of the manifest.
    let given = [
        ("name = \"seq\"", "kernel.dma", ""),
        ("name = \"seq\"", "kernel.interrupts", ", line = 5"),
        ("name = \"client-port\"", "kernel.entropy", ""),
        ("name = \"seq\"", "client-port.ClientPort", ""),
        ("name = \"virtio-blk\"", "log.Logger", ""),
        ("name = \"seq\"", "virtio-blk.BlockDevice", ""),
        ("name = \"seq\"", "iso9660.DiskAccess", ""),
        ("name = \"seq\"", "store.Vault", ""),
        ("name = \"seq\"", "kernel.clock", ""),
        ("name = \"store\"", "terminal.Terminal", ""),
        ("name = \"seq\"", "iso9660.TransferDisks", ""),
        ("name = \"seq\"", "transfer.TransferVolumes", ""),
        ("name = \"transfer\"", "audit.AuditLog", ""),
        ("name = \"seq\"", "iso9660.Disks", ""),
        ("name = \"audit\"", "ramfs.Directory", ""),
        ("name = \"terminal\"", "kernel.entropy", ""),
        ("name = \"conversations\"", "kernel.entropy", ""),
        ("name = \"agent-host\"", "terminal.Terminal", ""),
        ("name = \"shell\"", "audit.AuditLog", ""),
        ("name = \"shell\"", "init.ProcessSpawner", ""),
        ("name = \"model-loader\"", "ramfs.Directory", ", read_only = true"),
        ("name = \"seq\"", "files.ModelFolder", ""),
        ("name = \"seq\"", "model-loader.ModelStore", ""),
        ("name = \"shell\"", "init.FaultInjector", ""),
        ("name = \"seq\"", "power.Power", ""),
        ("[profile.guest]", "audit.AuditReader", ""),
        ("[profile.anonymous]", "log.LogReader", ""),
        ("name = \"manual\"", "kernel.timer", ""),
    ];
    let properties: Vec<&str> = SHIPPED.lines().filter_map(|line| line.strip_prefix("says = \"")).collect();
    assert_eq!(properties.len(), given.len());
    for ((holder, from, more), says) in given.into_iter().zip(properties) {
        let (before, after) = SHIPPED.split_once(holder).unwrap();
        let grant = format!("{{ name = \"more\", from = \"{from}\"{more} }},");
        // Into the holder's own grants, or into new ones if it has none.
        let own = after.find("\n[").map_or(after, |end| &after[..end]);
        let changed = match own.find("grants = [") {
            Some(at) => format!("{before}{holder}{}{grant}{}", &after[..at + 10], &after[at + 10..]),
            None => format!("{before}{holder}\ngrants = [{grant}]{after}"),
        };
        let refusal = refused(&changed);
        assert!(refusal.contains(says.trim_end_matches('"')), "{says}: {refusal}");
    }
}

/// The loss is stated for services that sessions may restart, on one line that is read before a yes.
#[test]
fn a_service_says_what_is_lost_with_it() {
    let manifest = read("manifest.toml", SHIPPED).unwrap();
    for service in &manifest.services {
        assert_eq!(service.loses.is_empty(), service.trusted, "{}", service.name);
    }
    let text = describe(&manifest);
    assert!(text.contains("  loses: what guests look at: it restarts"), "{text}");
    let disk = |line: &str| read("m.toml", &SMALL.replacen("provides", &format!("{line}\nprovides"), 1));
    assert_eq!(disk("loses = \"all\"").unwrap().services[0].loses, "all");
    let wrong = |line: &str| disk(line).unwrap_err().to_string();
    assert!(wrong("loses = \"a\\nb\"").ends_with("it is one line of at most 200 bytes"));
    assert!(wrong(&format!("loses = \"{}\"", "x".repeat(201))).ends_with("it is one line of at most 200 bytes"));
    assert!(wrong("loses = \"all\"\ntrusted = true").contains("no session restarts or stops a trusted service"));
    let program = "\n[[program]]\nname = \"p\"\nprogram = \"/bin/p\"\nloses = \"all\"\n";
    let why = read("m.toml", &format!("{SMALL}{program}")).unwrap_err().to_string();
    assert!(why.ends_with("only services are restarted or stopped"), "{why}");
}
