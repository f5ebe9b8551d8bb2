//! From a grant of the manifest to a capability.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use capos_abi::{PAGE, Rights};
use capos_devices::{Found, Place, describe_wanted, wanted};
use capos_process::Granted;
use capos_rt::{Context, Error, log};
use capos_schema::authority::Label;
use capos_schema::cap::{Cap, Client};
use capos_schema::kernel::EndpointClient;
use capos_schema::manifest::{Grant, GrantSource, Service as Entry};
use capos_schema::storage::{DirectoryClient, HomesClient};
use capos_schema::system::PciFunctionClient;
use capos_service_graph::FIRST;

use crate::pci_function::Function;
use crate::service::Service;
use crate::system::System;

/// The page that a service keeps over its lives: name after `kernel.` in the manifest (`capos-manifest`,
/// `source::KEPT_MEMORY`).
const KEPT_MEMORY: &str = "kept-memory";

/// A process's grants: capabilities, and lines of its environment that belong to them.
#[derive(Debug, Default)]
pub struct Given {
    /// The capabilities.
    pub grants: Vec<Granted>,
    /// The lines.
    pub environment: Vec<String>,
    /// Records the labels of everything that was read through its directories, for a program that has them with a
    /// label.
    pub labelled: BTreeMap<String, DirectoryClient>,
}

/// What the programs of a session are given of it: its label, and its home with what the manifest calls that.
pub type OfSession<'a> = (&'a Label, Option<&'a (String, DirectoryClient)>);

/// A PCI function that was given to its driver.
pub struct GivenFunction {
    place: Place,
    function: Rc<Function>,
    client: PciFunctionClient,
}

/// The device that a process is a driver of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Device {
    /// `None`: it is not a driver.
    NoneWanted,
    /// This machine has it.
    Present,
    /// This machine does not have it: a sentence about the search.
    Absent(String),
}

impl System {
    /// Everything that the manifest grants to a process. A program of a session gets the session's home for what the manifest
    /// calls so; its writes into its directories carry the session's label and the labels of its reads there.
    ///
    /// # Errors
    /// The grant that cannot be given, and why.
    pub async fn give(self: &Rc<Self>, entry: &Entry, session: Option<OfSession<'_>>) -> Result<Given, Error> {
        let mut given = Given::default();
        for grant in &entry.grants {
            let context = || format!("grant `{}` of `{}`", grant.name, entry.name);
            let home = session.and_then(|(_, home)| home).filter(|(from, _)| *from == grant.from);
            let mut cap = match home {
                Some((_, home)) => home.clone().into_cap(),
                None => self.source(grant, &entry.name, &mut given.environment).await.with_context(context)?,
            };
            if let Some((label, _)) = session
                && grant.interface == DirectoryClient::INTERFACE_ID
            {
                // Two grants of one tree share what was read there.
                let known = given.labelled.get(&grant.from).cloned();
                let directory = match known {
                    Some(directory) => directory,
                    None => DirectoryClient::from_cap(cap).labelled(label).await.with_context(context)?,
                };
                given.labelled.insert(grant.from.clone(), directory.clone());
                cap = directory.into_cap();
            }
            if grant.read_only {
                cap = DirectoryClient::from_cap(cap).read_only().await.with_context(context)?.into_cap();
            }
            given.grants.push(Granted {
                name: grant.name.clone(),
                cap,
                interface: grant.interface,
                rights: Rights(grant.rights),
            });
        }
        Ok(given)
    }

    async fn source(self: &Rc<Self>, grant: &Grant, holder: &str, environment: &mut Vec<String>) -> Result<Cap, Error> {
        match &grant.source {
            GrantSource::Service(source) if self.is_of_principals(&source.service, grant.interface) => {
                Err(Error::new("the session has no home of its own, and nobody else's is given"))
            }
            GrantSource::Service(source) => {
                let endpoint = self.endpoint_of(&source.service)?;
                mint(&endpoint, source.ordinal, source.client, grant.interface).await
            }
            GrantSource::Ports(ports) => Ok(self.hardware.ports.narrow(ports.first, ports.count).await?.into_cap()),
            GrantSource::Interrupt(line) => {
                let known = self.hardware.lines.borrow().get(line).cloned();
                if let Some(interrupt) = known {
                    return Ok(interrupt.into_cap());
                }
                let interrupt = self.hardware.interrupts.line(*line).await?;
                self.hardware.lines.borrow_mut().insert(*line, interrupt.clone());
                Ok(interrupt.into_cap())
            }
            GrantSource::Pci(_) => self.pci_function(holder),
            GrantSource::Kernel(name) if name == KEPT_MEMORY => self.kept_memory(holder).await,
            GrantSource::Kernel(name) => self
                .env
                .raw(name)
                .with_context(|| format!("the kernel gave no `{name}` to the first process; build the image again")),
            GrantSource::PowerOff => {
                let info = self.hardware.machine.info().await?;
                if info.power_off_port == 0 {
                    return Err(Error::new(
                        "the firmware does not say how this machine is turned off (ACPI); use its power button",
                    ));
                }
                environment.push(format!("POWER_OFF_PORT={}", info.power_off_port));
                environment.push(format!("POWER_OFF_VALUE={}", info.power_off_value));
                Ok(self.hardware.ports.narrow(info.power_off_port, 2).await?.into_cap())
            }
        }
    }

    /// Whether each principal has their own of what a service provides.
    fn is_of_principals(&self, service: &str, interface: u64) -> bool {
        let provides = |service: Rc<Service>, interface| {
            service.entry.provides.iter().any(|provided| provided.interface == interface)
        };
        interface == DirectoryClient::INTERFACE_ID
            && self.service(service).is_some_and(|service| provides(service, HomesClient::INTERFACE_ID))
    }

    /// The page of a service, the same over all its lives. It is never mapped here, so what a service keeps in it is in no
    /// other process's address space.
    async fn kept_memory(&self, holder: &str) -> Result<Cap, Error> {
        let known = self.kept_memory.borrow().get(holder).cloned();
        let memory = match known {
            Some(memory) => memory,
            None => {
                let memory = self.account.create_memory(PAGE).await?;
                self.kept_memory.borrow_mut().entry(holder.into()).or_insert(memory).clone()
            }
        };
        Ok(memory.into_cap())
    }

    /// The endpoint at which a provider receives.
    fn endpoint_of(&self, provider: &str) -> Result<EndpointClient, Error> {
        if provider == FIRST {
            return Ok(self.endpoint.clone());
        }
        self.service(provider)
            .map(|service| service.endpoint.clone())
            .with_context(|| format!("there is no service `{provider}`"))
    }

    /// The device of a driver, the same over all its lives.
    fn pci_function(self: &Rc<Self>, holder: &str) -> Result<Cap, Error> {
        if let Some(given) = self.hardware.functions.borrow().get(holder) {
            return Ok(given.client.clone().into_cap());
        }
        let found = self.devices.get(holder);
        let Found { place, .. } = found.with_context(|| format!("this machine has no PCI device for `{holder}`"))?;
        let function = Rc::new(Function::new(
            self.hardware.bus.clone(),
            *place,
            self.hardware.mmio.clone(),
            self.hardware.interrupts.clone(),
        ));
        let client = PciFunctionClient::serve(&self.server, function.clone())?;
        let given = GivenFunction { place: *place, function, client: client.clone() };
        self.hardware.functions.borrow_mut().insert(holder.into(), given);
        Ok(client.into_cap())
    }

    /// Which device a process is a driver of, and whether this machine has it.
    pub fn device_of(&self, entry: &Entry) -> Device {
        match wanted(entry) {
            None => Device::NoneWanted,
            Some(_) if self.devices.contains_key(&entry.name) => Device::Present,
            Some(wanted) => Device::Absent(format!("this machine has no PCI device {}", describe_wanted(wanted))),
        }
    }

    /// Keeps the device of a dead driver from reaching memory.
    pub async fn silence(&self, entry: &Entry) {
        let given =
            self.hardware.functions.borrow().get(&entry.name).map(|given| (given.place, given.function.clone()));
        if let Some((place, function)) = given
            && let Err(error) = function.silence().await
        {
            log::error!(
                "device {place} of `{}` may still write to memory: {error}; turn the machine off and on",
                entry.name
            );
        }
    }
}

/// A capability to a provided interface: the badge identifies it, and the caller.
pub async fn mint(endpoint: &EndpointClient, ordinal: u16, client: u16, interface: u64) -> Result<Cap, Error> {
    let badge = u64::from(ordinal) | (u64::from(client) << 16);
    Ok(endpoint.mint(badge, interface).await?.into_cap())
}
