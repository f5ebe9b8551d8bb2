//! The system: the first process's capabilities, and the order in which it starts others.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_devices::{Found, MAX_DEVICES};
use capos_rt::{Clock, Context, Either, Env, Error, ServeOptions, Server, join_all, log, select, spawn};
use capos_schema::cap::Client;
use capos_schema::kernel::{
    EndpointClient, InterruptClient, InterruptControllerClient, IoPortsClient, MachineClient, MemoryObjectClient,
    MmioClient, ResourceAccountClient,
};
use capos_schema::manifest::{GrantSource, Manifest, Service as Entry, SessionProfile, SessionProfilesService};
use capos_schema::storage::DirectoryClient;
use capos_schema::system::{
    FaultInjectorService, LauncherService, ProcessSpawnerService, ProgramApprovalService, ServiceState,
    ServiceSupervisorService, StateKeeperService, SystemStatusService,
};
use capos_service_graph::FIRST;

use crate::boot_package::BootPackage;
use crate::grants::{Device, GivenFunction, mint};
use crate::keeper::Keeper;
use crate::launcher::ProgramLauncher;
use crate::pci::Bus;
use crate::profiles::Profiles;
use crate::service::Service;
use crate::spawner::Spawner;
use crate::status::Status;
use crate::steps::Steps;
use crate::supervisor::{Faults, Supervisor};

/// The advice for a medium from which nothing can be started.
const UNREADABLE: &str = "write the image to it again, and attach it as a virtio disk (with QEMU: -drive \
                          file=IMAGE,format=raw,if=virtio,readonly=on) or to a SATA controller that speaks AHCI (with \
                          QEMU: -machine q35 -cdrom IMAGE)";

/// The authority over hardware that the kernel gave to the first process.
pub struct Hardware {
    /// All ports.
    pub ports: IoPortsClient,
    /// All memory that is not RAM.
    pub mmio: MmioClient,
    /// All interrupts.
    pub interrupts: InterruptControllerClient,
    /// The machine.
    pub machine: MachineClient,
    /// The PCI bus.
    pub bus: Rc<Bus>,
    /// Interrupt lines that were given out.
    pub lines: RefCell<BTreeMap<u8, InterruptClient>>,
    /// PCI functions that were given out, by the driver's name.
    pub functions: RefCell<BTreeMap<String, GivenFunction>>,
}

/// Everything that the first process has to do with.
pub struct System {
    /// Its grants.
    pub env: Env,
    /// The account that pays for everything.
    pub account: ResourceAccountClient,
    /// Its own endpoint.
    pub endpoint: EndpointClient,
    /// The server at that endpoint.
    pub server: Rc<Server>,
    /// The time.
    pub clock: Clock,
    /// The boot package.
    pub boot: BootPackage,
    /// The boot medium's root.
    pub medium: DirectoryClient,
    /// Ports, interrupts, devices.
    pub hardware: Hardware,
    /// The services, in the order of starting.
    pub services: Vec<Rc<Service>>,
    /// The device of each driver, by the driver's name.
    pub devices: BTreeMap<String, Found>,
    /// The programs that can be launched.
    pub programs: Vec<Entry>,
    /// The capabilities of sessions.
    pub profiles: Vec<SessionProfile>,
    /// The data kept for services over their restarts, by name.
    pub kept: RefCell<BTreeMap<String, Vec<u8>>>,
    /// The memory kept for services over their restarts, by name.
    pub kept_memory: RefCell<BTreeMap<String, MemoryObjectClient>>,
    medium_name: String,
}

impl System {
    /// Reads the manifest and makes an endpoint for every service.
    ///
    /// # Errors
    /// The boot package or the manifest is damaged, or the kernel did not give the needed objects.
    pub async fn new(env: &Env) -> Result<Rc<Self>, Error> {
        let boot = BootPackage::open(&env.cap("boot")?)?;
        let mut manifest = manifest(&boot)
            .map_err(|error| Error::new(format!("{error}; write the image to its medium again, or build it again")))?;
        let account: ResourceAccountClient = env.cap("account")?;
        let ports: IoPortsClient = env.cap("ports")?;
        let mut bus = Bus::scan(&ports).await?;
        let assignment = capos_devices::assign(&mut manifest, bus.found());
        bus.measure(assignment.devices.values().map(|found| found.place)).await?;
        for (driver, devices) in &assignment.left_out {
            let devices: Vec<String> = devices.iter().map(|device| device.place.to_string()).collect();
            log::warning!(
                "`{driver}` drives {MAX_DEVICES} devices at most; these are left out: {}",
                devices.join(", ")
            );
        }
        let hardware = Hardware {
            ports,
            mmio: env.cap("mmio")?,
            interrupts: env.cap("interrupts")?,
            machine: env.cap("machine")?,
            bus: Rc::new(bus),
            lines: RefCell::default(),
            functions: RefCell::default(),
        };
        let mut services = Vec::new();
        for entry in manifest.services {
            let endpoint =
                account.create_endpoint().await.with_context(|| format!("an endpoint for `{}`", entry.name))?;
            services.push(Rc::new(Service::new(entry, endpoint)));
        }
        let root = services
            .iter()
            .find(|service| service.name() == manifest.medium)
            .with_context(|| format!("the manifest's medium: there is no service `{}`", manifest.medium))?;
        let medium = mint(&root.endpoint, manifest.medium_ordinal, 0, DirectoryClient::INTERFACE_ID).await?;
        let endpoint = account.create_endpoint().await?;
        let server = Rc::new(Server::at(endpoint.clone(), env.cap("table")?));
        let system = Rc::new(Self {
            env: env.clone(),
            account,
            endpoint,
            server,
            clock: env.clock()?,
            boot,
            medium: DirectoryClient::from_cap(medium),
            hardware,
            services,
            devices: assignment.devices,
            programs: manifest.programs,
            profiles: manifest.profiles,
            kept: RefCell::default(),
            kept_memory: RefCell::default(),
            medium_name: manifest.medium,
        });
        system.serve();
        Ok(system)
    }

    /// The interfaces that the first process provides, in the order that the manifest's compiler
    /// knows (`capos-manifest`, `source::INIT`).
    fn serve(self: &Rc<Self>) {
        self.server.serve(0, Rc::new(SystemStatusService(Rc::new(Status(self.clone())))));
        self.server.serve(1, Rc::new(ServiceSupervisorService(Rc::new(Supervisor(self.clone())))));
        self.server.serve(2, Rc::new(LauncherService(Rc::new(ProgramLauncher::new(self.clone())))));
        let system = self.clone();
        self.server.serve_clients(3, move |client| {
            let keeper = system.client(client.number);
            Rc::new(ProcessSpawnerService(Rc::new(Spawner { system: system.clone(), keeper })))
        });
        self.server.serve(4, Rc::new(SessionProfilesService(Rc::new(Profiles(self.clone())))));
        self.server.serve(5, Rc::new(FaultInjectorService(Rc::new(Faults(self.clone())))));
        let system = self.clone();
        self.server.serve_clients(6, move |client| {
            let name = system.client(client.number).map(|service| service.name().to_string()).unwrap_or_default();
            Rc::new(StateKeeperService(Rc::new(Keeper::new(system.clone(), &name))))
        });
        // For processes that no session runs: no person can be asked.
        self.server.serve(7, Rc::new(ProgramApprovalService(Rc::new(Steps::default()))));
    }

    /// The service that is the first process's client of this number.
    fn client(&self, number: u16) -> Option<Rc<Service>> {
        let is_client = |service: &&Rc<Service>| {
            service.entry.grants.iter().any(|grant| match &grant.source {
                GrantSource::Service(source) => source.service == FIRST && source.client == number,
                _ => false,
            })
        };
        self.services.iter().find(is_client).cloned()
    }

    /// The service with this name.
    pub fn service(&self, name: &str) -> Option<Rc<Service>> {
        self.services.iter().find(|service| service.name() == name).cloned()
    }

    /// Starts everything and runs for ever.
    ///
    /// # Errors
    /// Nothing could be started, or its own endpoint is gone.
    pub async fn run(self: Rc<Self>) -> Result<(), Error> {
        // Each program that runs has a call of its caller open, and may have a question.
        let options = ServeOptions { buffers: 8, message_bytes: 64 << 10, concurrent: 96 };
        let booting = async {
            match self.clone().boot().await {
                // Started services continue by themselves.
                Ok(()) => core::future::pending().await,
                Err(error) => error,
            }
        };
        match select(self.server.run(options), booting).await {
            Either::First(served) => served,
            Either::Second(error) => Err(error),
        }
    }

    async fn boot(self: Rc<Self>) -> Result<(), Error> {
        let (first, others): (Vec<_>, Vec<_>) =
            self.services.iter().cloned().partition(|service| service.entry.program.starts_with("boot:"));
        // Each with the devices that this machine lacks for it, if any.
        let (mut needed, mut drivers, mut lacking) = (Vec::new(), Vec::new(), Vec::new());
        for service in &first {
            let absent = match self.device_of(&service.entry) {
                Device::Absent(words) => Some(words),
                Device::Present => {
                    drivers.push(service.clone());
                    None
                }
                _ => {
                    needed.push(service.clone());
                    None
                }
            };
            lacking.extend(absent.iter().map(|words| format!("for `{}` {words}", service.name())));
            spawn(self.clone().begin(service.clone(), absent));
        }
        let medium = match !drivers.is_empty() || lacking.is_empty() {
            true => self.wait_for_medium(&needed, &drivers).await,
            false => {
                let lacking = lacking.join(", ");
                Err(Error::new(format!("there is no drive that this system has a driver for: {lacking}")))
            }
        };
        if let Err(error) = medium {
            for service in &first {
                self.give_up(service).await;
            }
            log::error!("devices found: {}", self.hardware.bus.describe());
            return Err(Error::new(format!("the boot medium cannot be read: {error}; {UNREADABLE}")));
        }
        for service in others {
            let wanted = &service.entry.when;
            let absent = match self.device_of(&service.entry) {
                Device::Absent(words) => Some(words),
                _ if wanted.is_empty() || self.medium.stat(wanted).await.is_ok() => None,
                _ => Some(format!("the medium has no /{wanted}")),
            };
            spawn(self.clone().begin(service, absent));
        }
        Ok(())
    }

    /// Waits until the boot medium answers, or one of the services that it takes has failed, or all drivers have: one whose
    /// device is not the medium's may.
    async fn wait_for_medium(&self, needed: &[Rc<Service>], drivers: &[Rc<Service>]) -> Result<(), Error> {
        // The whole list, so that a damaged record ends the boot with one sentence and not with one for each program.
        let answer = async { self.medium.list("bin").await };
        let failed = |service: Rc<Service>| async move {
            service.changed.until(|| (service.state() == ServiceState::Failed).then_some(())).await;
            format!("service `{}` has failed: {} (its messages are above)", service.name(), service.last_exit())
        };
        let all = async {
            match join_all(drivers.iter().cloned().map(failed)).await.into_iter().next() {
                Some(words) => words,
                None => core::future::pending().await,
            }
        };
        let failure = async {
            match select(first_of(needed.iter().cloned().map(failed).collect()), all).await {
                Either::First(words) | Either::Second(words) => words,
            }
        };
        match select(answer, failure).await {
            Either::First(Ok(_)) => Ok(()),
            Either::First(Err(error)) => {
                Err(Error::new(format!("service `{}` cannot list the programs in /bin: {error}", self.medium_name)))
            }
            Either::Second(words) => Err(Error::new(words)),
        }
    }
}

/// The manifest in the boot package, once it makes sense.
fn manifest(boot: &BootPackage) -> Result<Manifest, Error> {
    let manifest = capos_schema::wire::from_bytes(&boot.file("manifest")?);
    let manifest = manifest.context("the manifest in the boot package is damaged")?;
    capos_service_graph::check(&manifest, &boot.names()).context("the manifest in the boot package is damaged")?;
    Ok(manifest)
}

/// Waits for the first of many.
async fn first_of<T>(futures: Vec<impl Future<Output = T>>) -> T {
    let mut futures: Vec<_> = futures.into_iter().map(alloc::boxed::Box::pin).collect();
    core::future::poll_fn(|context| {
        for future in &mut futures {
            if let core::task::Poll::Ready(value) = future.as_mut().poll(context) {
                return core::task::Poll::Ready(value);
            }
        }
        core::task::Poll::Pending
    })
    .await
}
