//! Everything that a manifest names is there, once.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;

use capos_schema::manifest::{Grant, GrantSource, GrantSourceService, Manifest, Service};
use capos_schema::storage::DirectoryClient;

use crate::{BOOT, FIRST, FIRST_INTERFACES, GraphError, cycle};

/// Services and programs of a manifest at most.
pub const MAX_PROCESSES: usize = 256;

/// Checks a manifest that could be decoded and is otherwise unknown. `package` are the names of the boot package's
/// files.
///
/// # Errors
/// The first thing that does not make sense.
pub fn check(manifest: &Manifest, package: &[&str]) -> Result<(), GraphError> {
    let found = manifest.services.len().saturating_add(manifest.programs.len());
    if found > MAX_PROCESSES {
        return Err(GraphError::TooMany { found, limit: MAX_PROCESSES });
    }
    let mut taken = BTreeSet::from([FIRST, "kernel"]);
    for process in manifest.services.iter().chain(&manifest.programs) {
        if process.name.is_empty() {
            return Err(GraphError::NoName);
        }
        if !taken.insert(&process.name) {
            return Err(GraphError::Taken(process.name.clone()));
        }
    }
    let services: BTreeMap<&str, &Service> =
        manifest.services.iter().map(|service| (service.name.as_str(), service)).collect();
    for process in manifest.services.iter().chain(&manifest.programs) {
        if let Some(program) = process.program.strip_prefix(BOOT)
            && !package.contains(&program)
        {
            return Err(GraphError::NotInPackage {
                holder: process.name.clone(),
                program: program.to_string(),
                package: package.join(", "),
            });
        }
        for grant in &process.grants {
            if let GrantSource::Service(source) = &grant.source {
                provided(&services, process, grant, source)?;
            }
        }
    }
    let medium = services.get(manifest.medium.as_str()).filter(|service| {
        let root = service.provides.get(usize::from(manifest.medium_ordinal));
        service.program.starts_with(BOOT) && root.is_some_and(|root| root.interface == DirectoryClient::INTERFACE_ID)
    });
    if medium.is_none() {
        return Err(GraphError::NoMedium(manifest.medium.clone()));
    }
    cycle(&manifest.services).map_or(Ok(()), |way| Err(GraphError::Cycle(way)))
}

/// Whether what a grant is of is provided to its holder.
fn provided(
    services: &BTreeMap<&str, &Service>,
    process: &Service,
    grant: &Grant,
    source: &GrantSourceService,
) -> Result<(), GraphError> {
    let (holder, name, provider) = (process.name.clone(), grant.name.clone(), source.service.clone());
    if provider == FIRST {
        return match source.ordinal < FIRST_INTERFACES {
            true => Ok(()),
            false => Err(GraphError::NotProvided { holder, grant: name, provider }),
        };
    }
    let Some(service) = services.get(provider.as_str()) else {
        return Err(GraphError::NoProvider { holder, grant: name, provider });
    };
    let offered = service.provides.get(usize::from(source.ordinal));
    if offered.is_none_or(|offered| offered.interface != grant.interface) {
        return Err(GraphError::NotProvided { holder, grant: name, provider });
    }
    // Clients are numbered from 1.
    let known = usize::from(source.client).checked_sub(1).and_then(|place| service.clients.get(place));
    if known != Some(&process.name) {
        return Err(GraphError::NoClient { holder, grant: name, provider });
    }
    Ok(())
}
