//! Which process drives which function.
//!
//! A service of the manifest that holds a PCI function is a driver of one kind of device. It runs once for each device
//! of that kind that the machine has, so that no process holds more than one device's registers and interrupts. The
//! first of these processes has the service's name, the next ones that name with `-2`, `-3` and so on. A client that is
//! granted an interface of the driver is granted that of each of them, by names that end in the same way.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_schema::manifest::{Grant, GrantSource, GrantSourcePci, Manifest, Service};
use capos_service_graph::FIRST;

use crate::function::Found;

/// Devices that one service of the manifest drives at most.
pub const MAX_DEVICES: usize = 16;

/// Which process drives which function.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Assignment {
    /// The device of each driver, by the name of the process.
    pub devices: BTreeMap<String, Found>,
    /// The devices that have no driver because their service drives [`MAX_DEVICES`] others, with the service's name.
    pub left_out: Vec<(String, Vec<Found>)>,
}

/// The device that a process is a driver of.
#[must_use]
pub fn wanted(entry: &Service) -> Option<&GrantSourcePci> {
    entry.grants.iter().find_map(|grant| match &grant.source {
        GrantSource::Pci(wanted) => Some(wanted),
        _ => None,
    })
}

/// The name of one of the processes of a driver, or of a grant of its interface.
fn numbered(name: &str, number: usize) -> String {
    if number < 2 { name.into() } else { format!("{name}-{number}") }
}

/// Gives each function to one driver, and makes the manifest one with a process for each device.
pub fn assign(manifest: &mut Manifest, found: &[Found]) -> Assignment {
    let mut assignment = Assignment::default();
    let mut free: Vec<Found> = found.to_vec();
    // The numbers of the processes of each driver that has several.
    let mut processes: Vec<(String, usize)> = Vec::new();
    for service in &manifest.services {
        let Some(wanted) = wanted(service) else { continue };
        let mut theirs: Vec<Found> = free.extract_if(.., |found| found.fits(wanted)).collect();
        let more = theirs.split_off(theirs.len().min(MAX_DEVICES));
        if !more.is_empty() {
            assignment.left_out.push((service.name.clone(), more));
        }
        if theirs.len() > 1 {
            processes.push((service.name.clone(), theirs.len()));
        }
        let named = (1..).zip(theirs).map(|(number, device)| (numbered(&service.name, number), device));
        assignment.devices.extend(named);
    }
    for program in &manifest.programs {
        let device = wanted(program).and_then(|wanted| free.iter().position(|found| found.fits(wanted)));
        if let Some(at) = device {
            assignment.devices.insert(program.name.clone(), free.remove(at));
        }
    }
    for (driver, count) in processes {
        multiply(manifest, &driver, count);
    }
    assignment
}

/// Replaces one driver by this many processes.
fn multiply(manifest: &mut Manifest, driver: &str, count: usize) {
    for process in manifest.services.iter_mut().chain(&mut manifest.programs) {
        process.grants = process.grants.drain(..).flat_map(|grant| of_each(grant, driver, count)).collect();
    }
    let Some(at) = manifest.services.iter().position(|service| service.name == driver) else { return };
    let Some(entry) = manifest.services.get(at).cloned() else { return };
    for number in (2..=count).rev() {
        manifest.services.insert(at.saturating_add(1), Service { name: numbered(driver, number), ..entry.clone() });
    }
    for number in 2..=count {
        introduce(manifest, &numbered(driver, number));
    }
}

/// A grant of an interface of the driver, as one of each of its processes.
fn of_each(grant: Grant, driver: &str, count: usize) -> Vec<Grant> {
    match &grant.source {
        GrantSource::Service(source) if source.service == driver => {}
        _ => return Vec::from([grant]),
    }
    let of = |number: usize| {
        let mut grant = grant.clone();
        if let GrantSource::Service(source) = &mut grant.source {
            source.service = numbered(driver, number);
            if let Some(what) = grant.from.strip_prefix(driver) {
                grant.from = format!("{}{what}", source.service);
            }
        }
        grant.name = numbered(&grant.name, number);
        grant
    };
    (1..=count).map(of).collect()
}

/// Makes a process that was added a client of its own at each service that it calls, so that these tell it from the others.
fn introduce(manifest: &mut Manifest, name: &str) {
    let Some(at) = manifest.services.iter().position(|service| service.name == name) else { return };
    let mut grants = manifest.services.get(at).map(|service| service.grants.clone()).unwrap_or_default();
    let mut numbers: BTreeMap<String, u16> = BTreeMap::new();
    for grant in &mut grants {
        let GrantSource::Service(source) = &mut grant.source else { continue };
        let known = numbers.get(&source.service).copied();
        source.client = match known {
            Some(number) => number,
            None => new_client(manifest, &source.service, name),
        };
        numbers.insert(source.service.clone(), source.client);
    }
    if let Some(service) = manifest.services.get_mut(at) {
        service.grants = grants;
    }
}

/// The number of a new client of a service.
fn new_client(manifest: &mut Manifest, provider: &str, name: &str) -> u16 {
    if provider == FIRST {
        // The first process has no list: it looks for whom a grant gives the number.
        let all = manifest.services.iter().chain(&manifest.programs).flat_map(|process| &process.grants);
        let numbers = all.filter_map(|grant| match &grant.source {
            GrantSource::Service(source) if source.service == FIRST => Some(source.client),
            _ => None,
        });
        return numbers.max().unwrap_or(0).saturating_add(1);
    }
    let Some(service) = manifest.services.iter_mut().find(|service| service.name == provider) else { return 0 };
    service.clients.push(name.into());
    u16::try_from(service.clients.len()).unwrap_or(u16::MAX)
}
