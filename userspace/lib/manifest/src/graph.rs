//! The capability graph as text.

use std::fmt::Write;

use capos_plural::count;
use capos_schema::manifest::{Grant, GrantSource, Manifest, Service, SessionProfile};

use crate::source::RIGHTS;
use crate::tools::grant_tools;

/// The processes in the order of their start, their capabilities, and the services that each may call.
#[must_use]
pub fn describe(manifest: &Manifest) -> String {
    let mut out = String::new();
    for service in &manifest.services {
        process(&mut out, "service", service);
    }
    for program in &manifest.programs {
        process(&mut out, "program", program);
    }
    for held in &manifest.profiles {
        profile(&mut out, held);
    }
    out
}

/// The capabilities of a profile's sessions, and the tools with the modes of their categories.
fn profile(out: &mut String, profile: &SessionProfile) {
    let modes: Vec<String> =
        profile.modes.iter().map(|found| format!("{} {}", found.category, found.mode.name())).collect();
    let _ = writeln!(out, "profile {}\n  permits {}", profile.profile.name(), modes.join(", "));
    for grant in &profile.grants {
        let form = if grant.read_only { ", read-only" } else { "" };
        let _ = writeln!(out, "  holds {}: calls {}{form}{}", grant.name, grant.held, rights(grant.rights));
        for tool in grant_tools(grant, &profile.modes) {
            let _ = writeln!(out, "    {}: {}", tool.name, tool.permission.name());
        }
    }
}

fn process(out: &mut String, kind: &str, process: &Service) {
    // Writing to a string never fails.
    let _ = write!(out, "{kind} {} = {}", process.name, process.program);
    if process.trusted {
        out.push_str(", trusted");
    }
    if !process.when.is_empty() {
        let _ = write!(out, ", if the medium has /{}", process.when);
    }
    let limits = &process.limits;
    let _ = writeln!(
        out,
        "\n  may use {} KiB, {}, {}, {}, {}",
        limits.frames.saturating_mul(4),
        count(limits.capabilities, "capability"),
        count(limits.threads, "thread"),
        count(limits.processes, "process"),
        count(limits.objects, "object")
    );
    if limits.cpu_nanoseconds != 0 {
        let _ = writeln!(out, "  may use {} s of CPU time in all", limits.cpu_nanoseconds / 1_000_000_000);
    }
    if kind == "service" {
        let _ = writeln!(out, "  restarts: {} in {} s", process.max_restarts, process.per_seconds);
        if !process.loses.is_empty() {
            let _ = writeln!(out, "  loses: {}", process.loses);
        }
    }
    for provided in &process.provides {
        let _ = writeln!(out, "  provides {}", provided.name);
    }
    for grant in &process.grants {
        let _ = writeln!(out, "  holds {}: {}{}", grant.name, source(grant), rights(grant.rights));
    }
    if !process.clients.is_empty() {
        let _ = writeln!(out, "  called by {}", process.clients.join(", "));
    }
}

fn name_of(interface: u64) -> &'static str {
    capos_schema::INTERFACES.iter().find(|info| info.id == interface).map_or("unknown", |info| info.name)
}

fn source(grant: &Grant) -> String {
    match &grant.source {
        GrantSource::Service(source) => format!("calls {}.{}", source.service, name_of(grant.interface)),
        GrantSource::Ports(ports) => {
            let last = u32::from(ports.first).saturating_add(ports.count).saturating_sub(1);
            format!("ports {:#x} to {last:#x}", ports.first)
        }
        GrantSource::Interrupt(line) => format!("interrupt line {line}"),
        GrantSource::Pci(pci) if pci.class != 0 => format!("PCI function of class {:06x}", pci.class),
        GrantSource::Pci(pci) => {
            let devices: Vec<String> =
                pci.devices.iter().map(|device| format!("{:04x}:{device:04x}", pci.vendor)).collect();
            format!("PCI function {}", devices.join(" or "))
        }
        GrantSource::Kernel(name) => format!("kernel's {name}"),
        GrantSource::PowerOff => "the power-off ports".to_owned(),
    }
}

fn rights(rights: u32) -> String {
    if rights == u32::MAX {
        return String::new();
    }
    let names: Vec<&str> = RIGHTS.iter().filter(|(_, right)| rights & right.0 != 0).map(|(name, _)| *name).collect();
    format!(" ({} only)", names.join(", "))
}
