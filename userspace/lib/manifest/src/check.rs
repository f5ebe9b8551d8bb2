//! From the document to the manifest: everything named is found, nothing is claimed twice.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use capos_abi::Rights;
use capos_schema::kernel::Limits;
use capos_schema::manifest::{
    Grant, GrantSource, GrantSourcePci, GrantSourcePorts, GrantSourceService, Manifest, Provided, Service, Setting,
};
use capos_service_graph::{FIRST, GraphError};
use capos_settings::{Kind, is_name};

use crate::error::ManifestError;
use crate::property;
use crate::source::{DEVICE, DIRECTORY, HARDWARE, INIT, KERNEL, RIGHTS};
use crate::text::{self, Document, Process};

/// The largest limit of CPU time, in seconds: ten years.
const MOST_CPU_SECONDS: u64 = 315_360_000;

/// Bytes of a service's statement of its loss: it is read before a yes.
const MOST_LOSS: usize = 200;

/// Names that a process holds whatever it is granted, so that no grant may take them.
const RESERVED: &[&str] = &["account", "space", "table", "process", "serve", "in", "out", "err"];

/// The kernel's priorities of threads (`Thread.setPriority`).
const PRIORITIES: RangeInclusive<i8> = -1..=2;

pub(crate) type Result<T> = std::result::Result<T, ManifestError>;

/// The place of a process in the document.
fn place(kind: &str, index: usize, process: &Process) -> String {
    format!("{kind}[{index}] `{}`", process.name)
}

pub(crate) struct Checker<'a> {
    file: &'a str,
    pub(crate) document: &'a Document,
    /// Clients of each service, in the order of their numbers.
    clients: BTreeMap<String, Vec<String>>,
    /// The holders of each piece of hardware.
    ports: Vec<(u32, u32, String)>,
    lines: BTreeMap<u8, String>,
    devices: BTreeMap<(u16, u16), String>,
    classes: BTreeMap<u32, String>,
}

/// Whether a process is a driver of a device.
fn is_driver(process: &Process) -> bool {
    process
        .grants
        .iter()
        .any(|grant| grant.from.strip_prefix(FIRST).is_some_and(|what| what.strip_prefix('.') == Some(DEVICE)))
}

/// `of`, if `name` is that with a number after it.
fn numbered<'n>(name: &str, of: &'n str) -> Option<&'n str> {
    let number = name.strip_prefix(of)?.strip_prefix('-')?;
    (!number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())).then_some(of)
}

/// The interface with this name.
pub fn interface(name: &str) -> Option<u64> {
    capos_schema::INTERFACES.iter().find(|interface| interface.name == name).map(|interface| interface.id)
}

/// The error for an interface that is in no schema of this build.
pub fn no_interface(name: &str) -> String {
    format!("the schema has no interface `{name}`; after a change of a schema `make tools` builds this tool with it")
}

/// Checks a document and makes the manifest of it.
///
/// # Errors
/// The first thing that does not make sense, with its place.
pub fn compile(file: &str, document: &Document) -> Result<Manifest> {
    let mut checker = Checker {
        file,
        document,
        clients: BTreeMap::new(),
        ports: Vec::new(),
        lines: BTreeMap::new(),
        devices: BTreeMap::new(),
        classes: BTreeMap::new(),
    };
    checker.names()?;
    let (profiles, mut held) = checker.profiles()?;
    let mut services = Vec::new();
    for (index, process) in document.service.iter().enumerate() {
        let mut service = checker.process("service", index, process)?;
        if checker.issuer().is_some_and(|issuer| issuer.name == process.name) {
            checker.hand_on(index, process, &mut service, std::mem::take(&mut held))?;
        }
        services.push(service);
    }
    let mut programs = Vec::new();
    for (index, process) in document.program.iter().enumerate() {
        programs.push(checker.process("program", index, process)?);
    }
    for service in &mut services {
        service.clients = checker.clients.remove(&service.name).unwrap_or_default();
    }
    let (medium, medium_ordinal) = checker.medium()?;
    let services = checker.order(services, &medium)?;
    let manifest = Manifest { services, programs, medium, medium_ordinal, profiles };
    property::check(file, &document.property, &manifest)?;
    Ok(manifest)
}

impl Checker<'_> {
    pub(crate) fn error(&self, place: impl Into<String>, reason: impl Into<String>) -> ManifestError {
        ManifestError::new(self.file, place, reason)
    }

    fn names(&self) -> Result<()> {
        let mut seen: BTreeSet<&str> = property::GROUPS.iter().copied().chain([FIRST, "kernel"]).collect();
        let services = self.document.service.iter().enumerate().map(|item| ("service", item));
        let programs = self.document.program.iter().enumerate().map(|item| ("program", item));
        for (kind, (index, process)) in services.chain(programs) {
            let allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
            if process.name.is_empty() || process.name.len() > 32 || !process.name.chars().all(allowed) {
                return Err(self.error(
                    format!("{kind}[{index}].name"),
                    format!("`{}` is not a name: 1 to 32 of a-z, 0-9 and `-`", process.name),
                ));
            }
            if !seen.insert(&process.name) {
                return Err(self.error(
                    format!("{kind}[{index}].name"),
                    format!("`{}` is taken; every service and program needs a name of its own", process.name),
                ));
            }
        }
        let drivers = self.document.service.iter().filter(|process| is_driver(process));
        let taken =
            drivers.flat_map(|driver| seen.iter().filter_map(|name| Some((numbered(name, &driver.name)?, *name))));
        if let Some((driver, name)) = taken.min() {
            let reason =
                format!("`{name}` is what a second process of driver `{driver}` is called; give it another name");
            return Err(self.error("service", reason));
        }
        Ok(())
    }

    /// A driver runs once for each of its devices, and its clients hold a grant of each of these processes, by names that
    /// end in a number.
    fn names_of_several(&self, here: &str, grants: &[Grant]) -> Result<()> {
        let is_device = |grant: &&Grant| matches!(grant.source, GrantSource::Pci(_));
        if grants.iter().filter(is_device).count() > 1 {
            return Err(self.error(here, "a process drives one device, so it is granted one PCI function"));
        }
        let of_driver = |grant: &&Grant| match &grant.source {
            GrantSource::Service(source) => {
                let provider = self.document.service.iter().find(|service| service.name == source.service);
                provider.is_some_and(is_driver)
            }
            _ => false,
        };
        for several in grants.iter().filter(of_driver) {
            if let Some(other) = grants.iter().find(|other| numbered(&other.name, &several.name).is_some()) {
                let reason = format!(
                    "`{}` is what the grant `{}` of a second device is called; give it another name",
                    other.name, several.name
                );
                return Err(self.error(here, reason));
            }
        }
        Ok(())
    }

    fn process(&mut self, kind: &str, index: usize, process: &Process) -> Result<Service> {
        let here = place(kind, index, process);
        let of_boot = process.program.strip_prefix("boot:").is_some_and(|name| !name.is_empty() && !name.contains('/'));
        if !of_boot && !process.program.starts_with('/') {
            return Err(self.error(
                format!("{here}.program"),
                format!("`{}` is neither boot:NAME nor a path on the medium that begins with /", process.program),
            ));
        }
        if of_boot && !process.when.is_empty() {
            return Err(self.error(
                format!("{here}.when"),
                "a program of the boot package is started before the medium can be read, so it has no condition",
            ));
        }
        if let Some(line) = process.environment.iter().find(|line| !line.contains('=')) {
            return Err(self.error(format!("{here}.environment"), format!("`{line}` is not KEY=VALUE")));
        }
        if kind == "program" && process.trusted {
            return Err(self.error(format!("{here}.trusted"), "only services are supervised, so only they are trusted"));
        }
        if kind == "program" && !process.loses.is_empty() {
            return Err(self.error(format!("{here}.loses"), "only services are restarted or stopped"));
        }
        if process.trusted && !process.loses.is_empty() {
            let reason = "no session restarts or stops a trusted service, so nobody would be told";
            return Err(self.error(format!("{here}.loses"), reason));
        }
        if process.loses.chars().any(char::is_control) || process.loses.len() > MOST_LOSS {
            let reason = format!("it is one line of at most {MOST_LOSS} bytes");
            return Err(self.error(format!("{here}.loses"), reason));
        }
        if kind == "program" && !process.provides.is_empty() {
            return Err(self.error(format!("{here}.provides"), "only services provide interfaces"));
        }
        let mut provides = Vec::new();
        for name in &process.provides {
            let interface =
                interface(name).ok_or_else(|| self.error(format!("{here}.provides"), no_interface(name)))?;
            if provides.iter().any(|provided: &Provided| provided.name == *name) {
                return Err(self.error(format!("{here}.provides"), format!("`{name}` is listed twice")));
            }
            provides.push(Provided { name: name.clone(), interface });
        }
        let mut grants: Vec<Grant> = Vec::new();
        for (at, grant) in process.grants.iter().enumerate() {
            let there = format!("{here}.grants[{at}] `{}`", grant.name);
            if RESERVED.contains(&grant.name.as_str()) {
                return Err(self.error(
                    there,
                    "every process has this capability of its own, or gets it from the process that starts it",
                ));
            }
            if grant.name.is_empty() || grants.iter().any(|other| other.name == grant.name) {
                return Err(self.error(there, "each grant of a process needs a name of its own"));
            }
            if kind == "service"
                && grant.from.split_once('.').is_some_and(|(from, what)| self.is_of_principals(from, what))
            {
                let reason = format!(
                    "`{}` is the home of a session's principal, so only sessions and programs hold it",
                    grant.from
                );
                return Err(self.error(format!("{there}.from"), reason));
            }
            grants.push(self.grant(process, &there, grant)?);
        }
        self.names_of_several(&here, &grants)?;
        let settings = self.settings((kind, &here), process)?;
        let restarts = process.restarts.unwrap_or_default();
        if kind == "service" && restarts.per_seconds == 0 {
            return Err(self.error(format!("{here}.restarts.per_seconds"), "it must be at least one second"));
        }
        Ok(Service {
            name: process.name.clone(),
            description: process.description.clone(),
            program: process.program.clone(),
            arguments: process.arguments.clone(),
            environment: process.environment.clone(),
            provides,
            grants,
            limits: self.limits(&here, process.limits)?,
            max_restarts: restarts.max,
            per_seconds: restarts.per_seconds,
            when: process.when.trim_start_matches('/').to_owned(),
            clients: Vec::new(),
            trusted: process.trusted,
            loses: process.loses.clone(),
            settings,
        })
    }

    /// The values that a program takes when it is started.
    fn settings(&self, (kind, here): (&str, &str), process: &text::Process) -> Result<Vec<Setting>> {
        let setting = |(name, wanted): (&String, &String)| {
            let why = match (kind, Kind::from_name(wanted)) {
                ("program", Some(_)) if is_name(name) => {
                    return Ok(Setting { name: name.clone(), kind: wanted.clone() });
                }
                ("program", Some(_)) => {
                    "the name of a setting has 1 to 40 lower-case letters, digits, - and _, a letter first"
                }
                ("program", None) => "the type of a setting is text, number, flag or path",
                _ => "only programs have settings; a service has its environment",
            };
            Err(self.error(format!("{here}.settings.{name}"), why))
        };
        process.settings.iter().map(setting).collect()
    }

    fn limits(&self, here: &str, limits: text::Limits) -> Result<Limits> {
        if limits.memory_kib < 512 || limits.memory_kib > 64 << 20 {
            return Err(self.error(
                format!("{here}.limits.memory_kib"),
                "a process needs 512 KiB at least, and more than 64 GiB is not granted",
            ));
        }
        if limits.threads == 0 || limits.capabilities < 16 {
            return Err(self.error(format!("{here}.limits"), "a process needs a thread and 16 capabilities at least"));
        }
        if limits.cpu_seconds.is_some_and(|seconds| !(1..=MOST_CPU_SECONDS).contains(&seconds)) {
            return Err(self.error(
                format!("{here}.limits.cpu_seconds"),
                format!("the limit of CPU time is 1 to {MOST_CPU_SECONDS} s; without this field there is no limit"),
            ));
        }
        if !PRIORITIES.contains(&limits.priority) {
            let (lowest, highest) = (PRIORITIES.start(), PRIORITIES.end());
            return Err(self.error(
                format!("{here}.limits.priority"),
                format!("the priorities are {lowest} to {highest}; a thread starts with 0"),
            ));
        }
        Ok(Limits {
            frames: limits.memory_kib.div_ceil(4),
            capabilities: limits.capabilities,
            threads: limits.threads,
            processes: limits.processes,
            objects: limits.objects,
            priority: limits.priority,
            cpu_nanoseconds: limits.cpu_seconds.unwrap_or(0).saturating_mul(1_000_000_000),
        })
    }

    pub(crate) fn rights(&self, there: &str, grant: &text::Grant, usual: Rights) -> Result<Rights> {
        let Some(names) = &grant.rights else { return Ok(usual) };
        let mut rights = Rights::NONE;
        for name in names {
            let found = RIGHTS.iter().find(|(known, _)| known == name).ok_or_else(|| {
                let known: Vec<&str> = RIGHTS.iter().map(|(name, _)| *name).collect();
                self.error(
                    format!("{there}.rights"),
                    format!("`{name}` is not a right; the rights are {}", known.join(", ")),
                )
            })?;
            rights = rights.union(found.1);
        }
        Ok(rights)
    }

    pub(crate) fn grant(&mut self, process: &Process, there: &str, grant: &text::Grant) -> Result<Grant> {
        let Some((from, what)) = grant.from.split_once('.') else {
            return Err(self.error(format!("{there}.from"), format!("`{}` is not SERVICE.INTERFACE", grant.from)));
        };
        let (interface, usual, source) = match (from, what) {
            ("kernel", "ports") => (self.known("IoPorts"), Rights::ALL, self.ports(process, there, grant)?),
            ("kernel", "interrupts") => (self.known("Interrupt"), Rights::ALL, self.line(process, there, grant)?),
            ("kernel", "power-off") => (self.known("IoPorts"), Rights::ALL, GrantSource::PowerOff),
            ("kernel", object) => {
                let (name, interface, rights) =
                    KERNEL.iter().find(|(name, _, _)| *name == object).ok_or_else(|| {
                        let known =
                            HARDWARE.iter().map(|(name, _)| *name).chain(KERNEL.iter().map(|(name, _, _)| *name));
                        let known = known.collect::<Vec<_>>().join(", ");
                        self.error(
                            format!("{there}.from"),
                            format!("the kernel grants no `{object}`; it grants {known}"),
                        )
                    })?;
                (self.known(interface), *rights, GrantSource::Kernel((*name).to_owned()))
            }
            (FIRST, DEVICE) => (self.known(DEVICE), Rights::ALL, self.pci(process, there, grant)?),
            (provider, name) => {
                let ordinal = self.provided(there, provider, name)?;
                let clients = self.clients.entry(provider.to_owned()).or_default();
                let client = match clients.iter().position(|client| *client == process.name) {
                    Some(at) => at,
                    None => {
                        clients.push(process.name.clone());
                        clients.len().saturating_sub(1)
                    }
                };
                let client = u16::try_from(client.saturating_add(1))
                    .map_err(|_| self.error(there, "the service has more clients than badges can distinguish"))?;
                let service = GrantSourceService { service: provider.to_owned(), ordinal, client };
                (self.known(name), Rights::ALL, GrantSource::Service(service))
            }
        };
        self.no_others(there, grant, Some(&source))?;
        let rights = self.rights(there, grant, usual)?.0;
        let read_only = self.read_only(there, grant, what)?;
        Ok(Grant {
            name: grant.name.clone(),
            interface: interface?,
            rights,
            source,
            from: grant.from.clone(),
            read_only,
        })
    }

    fn known(&self, name: &str) -> Result<u64> {
        interface(name).ok_or_else(|| self.error("schema", format!("it has no interface `{name}`")))
    }

    /// Fields that belong to another kind of grant are mistakes.
    pub(crate) fn no_others(&self, there: &str, grant: &text::Grant, source: Option<&GrantSource>) -> Result<()> {
        let ports = matches!(source, Some(GrantSource::Ports(_)));
        let line = matches!(source, Some(GrantSource::Interrupt(_)));
        let pci = matches!(source, Some(GrantSource::Pci(_)));
        for (name, present, fits) in [
            ("first", grant.first.is_some(), ports),
            ("count", grant.count.is_some(), ports),
            ("line", grant.line.is_some(), line),
            ("vendor", grant.vendor.is_some(), pci),
            ("devices", grant.devices.is_some(), pci),
            ("class", grant.class.is_some(), pci),
        ] {
            if present && !fits {
                return Err(self.error(format!("{there}.{name}"), format!("`{}` takes no `{name}`", grant.from)));
            }
        }
        Ok(())
    }

    pub(crate) fn provided(&self, there: &str, provider: &str, name: &str) -> Result<u16> {
        let list: Vec<&str> = if provider == FIRST {
            INIT.to_vec()
        } else {
            let service = self.document.service.iter().find(|service| service.name == provider).ok_or_else(|| {
                let known: Vec<&str> = self.document.service.iter().map(|service| service.name.as_str()).collect();
                let reason =
                    format!("there is no service `{provider}`; the services are {FIRST}, {}", known.join(", "));
                self.error(format!("{there}.from"), reason)
            })?;
            service.provides.iter().map(String::as_str).collect()
        };
        let at = list.iter().position(|provided| *provided == name).ok_or_else(|| {
            self.error(
                format!("{there}.from"),
                format!("`{provider}` does not provide `{name}`; it provides {}", list.join(", ")),
            )
        })?;
        u16::try_from(at)
            .map_err(|_| self.error(there, "the service provides more interfaces than badges can distinguish"))
    }

    /// Whether it is the read-only form of a directory.
    pub(crate) fn read_only(&self, there: &str, grant: &text::Grant, name: &str) -> Result<bool> {
        let read_only = grant.read_only.unwrap_or_default();
        if read_only && name != DIRECTORY {
            let reason = format!("`{name}` has no read-only form; a Directory has one");
            return Err(self.error(format!("{there}.read_only"), reason));
        }
        Ok(read_only)
    }

    fn ports(&mut self, process: &Process, there: &str, grant: &text::Grant) -> Result<GrantSource> {
        let (Some(first), Some(count)) = (grant.first, grant.count) else {
            return Err(self.error(there, "ports are granted with `first` and `count`"));
        };
        let end = u32::from(first).saturating_add(count);
        if count == 0 || end > 0x1_0000 {
            return Err(self.error(format!("{there}.count"), "the ports must be some of 0 to 0xffff"));
        }
        let taken = self.ports.iter().find(|(from, to, _)| u32::from(first) < *to && *from < end);
        if let Some((from, to, owner)) = taken {
            let last = to.saturating_sub(1);
            return Err(
                self.error(there, format!("`{owner}` holds ports {from:#x} to {last:#x}; one driver per device"))
            );
        }
        self.ports.push((first.into(), end, process.name.clone()));
        Ok(GrantSource::Ports(GrantSourcePorts { first, count }))
    }

    fn line(&mut self, process: &Process, there: &str, grant: &text::Grant) -> Result<GrantSource> {
        let Some(line) = grant.line.filter(|line| *line < 16) else {
            return Err(self.error(there, "an interrupt is granted with `line`, 0 to 15"));
        };
        if let Some(owner) = self.lines.insert(line, process.name.clone()) {
            return Err(self.error(there, format!("`{owner}` holds interrupt line {line}; one driver per device")));
        }
        Ok(GrantSource::Interrupt(line))
    }

    fn pci(&mut self, process: &Process, there: &str, grant: &text::Grant) -> Result<GrantSource> {
        let named = (grant.vendor, grant.devices.as_ref().filter(|list| !list.is_empty()), grant.class);
        let (vendor, devices) = match named {
            (Some(vendor), Some(devices), None) => (vendor, devices),
            (None, None, Some(class)) if grant.devices.is_none() => return self.class(process, there, class),
            _ => {
                let reason = "a PCI function is granted with `vendor` and `devices`, or with `class`";
                return Err(self.error(there, reason));
            }
        };
        for device in devices {
            if let Some(owner) = self.devices.insert((vendor, *device), process.name.clone()) {
                return Err(self.error(
                    there,
                    format!("`{owner}` holds PCI device {vendor:04x}:{device:04x}; one driver per device"),
                ));
            }
        }
        Ok(GrantSource::Pci(GrantSourcePci { vendor, devices: devices.clone(), class: 0 }))
    }

    fn class(&mut self, process: &Process, there: &str, class: u32) -> Result<GrantSource> {
        if class == 0 || class > 0xff_ffff {
            let reason = "class, subclass and programming interface are one number of 0x000001 to 0xffffff";
            return Err(self.error(format!("{there}.class"), reason));
        }
        if let Some(owner) = self.classes.insert(class, process.name.clone()) {
            let reason = format!("`{owner}` holds the PCI device of class {class:06x}; one driver per device");
            return Err(self.error(there, reason));
        }
        Ok(GrantSource::Pci(GrantSourcePci { vendor: 0, devices: Vec::new(), class }))
    }

    fn medium(&self) -> Result<(String, u16)> {
        let Some(medium) = &self.document.medium else {
            return Err(self.error("medium", "it is missing; say which SERVICE.INTERFACE is the boot medium's root"));
        };
        let Some((service, name)) = medium.split_once('.') else {
            return Err(self.error("medium", format!("`{medium}` is not SERVICE.INTERFACE")));
        };
        if name != DIRECTORY {
            return Err(self.error("medium", "the medium's interface is Directory"));
        }
        let found = self.document.service.iter().find(|process| process.name == service);
        if !found.is_some_and(|process| process.program.starts_with("boot:")) {
            return Err(self.error("medium", format!("`{service}` is not a service of the boot package")));
        }
        Ok((service.to_owned(), self.provided("medium", service, name)?))
    }

    /// The services in an order in which each comes after those that it calls. Those of the boot
    /// package come first: their calls to others wait until these run.
    fn order(&self, services: Vec<Service>, medium: &str) -> Result<Vec<Service>> {
        let providers = |service: &Service| -> Vec<String> {
            let mut names: Vec<String> = service
                .grants
                .iter()
                .filter_map(|grant| match &grant.source {
                    GrantSource::Service(source) if source.service != FIRST => Some(source.service.clone()),
                    _ => None,
                })
                .collect();
            if !service.program.starts_with("boot:") {
                names.push(medium.to_owned());
            }
            names
        };
        let is_boot: BTreeMap<String, bool> =
            services.iter().map(|service| (service.name.clone(), service.program.starts_with("boot:"))).collect();
        if let Some(way) = capos_service_graph::cycle(&services) {
            return Err(self.error("service", GraphError::Cycle(way).to_string()));
        }
        let (mut open, mut out): (Vec<Service>, Vec<Service>) = (services, Vec::new());
        while !open.is_empty() {
            let ready = open.iter().position(|service| {
                let boot = service.program.starts_with("boot:");
                providers(service).iter().all(|name| {
                    out.iter().any(|done| done.name == *name)
                        || *name == service.name
                        || (boot && is_boot.get(name) == Some(&false))
                })
            });
            match ready {
                Some(at) => out.push(open.remove(at)),
                None => {
                    let names: Vec<&str> = open.iter().map(|service| service.name.as_str()).collect();
                    return Err(self.error(
                        "service",
                        format!("these form a dependency cycle, so none of them can start: {}", names.join(", ")),
                    ));
                }
            }
        }
        Ok(out)
    }
}
