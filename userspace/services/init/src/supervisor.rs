//! Keeping services alive: starting, bounded restarts, stopping on request.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;

use capos_plural::count;
use capos_process::{Image, Launch, describe_exit};
use capos_rt::{Context, Either, Error, log, refuse_calls, select};
use capos_schema::cap::{CallContext, CallError, Client};
use capos_schema::kernel::{EndpointClient, ProcessClient};
use capos_schema::system::{FaultInjectorServer, ServiceInfo, ServiceState, ServiceSupervisorServer};

use crate::grants::Given;
use crate::service::{Service, Wish};
use crate::system::System;

impl System {
    /// The program of a service, read once.
    async fn image(&self, service: &Service) -> Result<Rc<Image>, Error> {
        if let Some(image) = &*service.image.borrow() {
            return Ok(image.clone());
        }
        let program = &service.entry.program;
        let image = Rc::new(match program.strip_prefix("boot:") {
            Some(name) => {
                Image::from_bytes(self.boot.file(name)?).with_context(|| format!("`{name}` of the boot package"))?
            }
            None => Image::open(&self.medium, program).await?,
        });
        // Capabilities of the medium are opened again at each start: they do not outlive the file
        // system's process.
        if program.starts_with("boot:") {
            *service.image.borrow_mut() = Some(image.clone());
        }
        Ok(image)
    }

    async fn start(self: &Rc<Self>, service: &Service, mut given: Given) -> Result<ProcessClient, Error> {
        let image = self.image(service).await?;
        if !service.entry.provides.is_empty() {
            given.grants.push(capos_process::Granted {
                name: "serve".into(),
                cap: service.endpoint.clone().into_cap(),
                interface: EndpointClient::INTERFACE_ID,
                rights: capos_abi::Rights::ALL,
            });
        }
        let mut environment = service.entry.environment.clone();
        environment.append(&mut given.environment);
        environment.push(format!("EPOCH={}", service.count_start()));
        for (number, client) in (1_u32..).zip(&service.entry.clients) {
            environment.push(format!("CLIENT_{number}={client}"));
        }
        let started = Launch {
            name: service.name(),
            image: &image,
            arguments: service.entry.arguments.clone(),
            environment,
            grants: given.grants,
            limits: service.entry.limits.clone(),
            account: &self.account,
        }
        .start()
        .await?;
        let process = started.process.clone();
        *service.running.borrow_mut() = Some(started);
        Ok(process)
    }

    /// One instance of a service: how it ended, as text, and whether another try can help. It
    /// cannot if the machine lacks a device.
    async fn live(self: &Rc<Self>, service: &Service) -> (String, bool) {
        service.set_state(ServiceState::Starting);
        let given = match self.give(&service.entry, None).await {
            Ok(given) => given,
            Err(error) => return (format!("{error}"), false),
        };
        let process = match self.start(service, given).await {
            Ok(process) => process,
            Err(error) => return (format!("{error}"), true),
        };
        service.set_state(ServiceState::Running);
        if service.wish.get() == Wish::Stop {
            // A client that stopped it while it was started had nothing to end.
            end(service, "stopped on request").await;
        }
        let end = match process.wait().await {
            Ok(exit) => describe_exit(&exit),
            Err(error) => format!("waiting for its end failed: {error}"),
        };
        *service.running.borrow_mut() = None;
        service.end_spawned().await;
        self.silence(&service.entry).await;
        (end, true)
    }

    /// Starts a service and keeps it within its bounds, for ever.
    pub async fn supervise(self: Rc<Self>, service: Rc<Service>) {
        loop {
            let (end, may_help) = self.live(&service).await;
            service.set_last_exit(end.clone());
            if service.wish.get() == Wish::Stop {
                self.rest(&service, ServiceState::Stopped, "was stopped").await;
                continue;
            }
            if service.expected.take() {
                continue;
            }
            if !may_help {
                log::error!("service `{}` cannot be started: {end}", service.name());
                self.rest(&service, ServiceState::Failed, "cannot be started").await;
                continue;
            }
            if service.may_restart(self.clock.now()) {
                log::warning!("service `{}` is restarted: {end}", service.name());
                service.set_state(ServiceState::Restarting);
                continue;
            }
            log::error!(
                "service `{}` has failed: {end}; it was restarted {} in {} s and is not tried again",
                service.name(),
                count(service.entry.max_restarts, "time"),
                service.entry.per_seconds
            );
            self.rest(&service, ServiceState::Failed, "has failed").await;
        }
    }

    /// Starts a service that lacks nothing. Another one rests, with a sentence about that, until a client asks for it.
    pub async fn begin(self: Rc<Self>, service: Rc<Service>, absent: Option<String>) {
        if let Some(words) = absent {
            service.set_last_exit(words);
            self.rest(&service, ServiceState::Unneeded, "is not needed").await;
        }
        self.supervise(service).await;
    }

    /// Ends a service permanently, if the system cannot continue.
    pub async fn give_up(&self, service: &Service) {
        service.wish.set(Wish::Stop);
        end(service, "the system cannot start").await;
    }

    /// Waits until a service is wanted again; refuses its clients' calls meanwhile.
    async fn rest(&self, service: &Service, state: ServiceState, words: &str) {
        service.set_state(state);
        service.wish.set(Wish::Stop);
        let remedy = if service.entry.trusted { "turn the machine off and on" } else { "restart the service" };
        let reason = format!("service `{}` {words}: {}; {remedy} to use it", service.name(), service.last_exit());
        let wanted = service.changed.until(|| (service.wish.get() == Wish::Run).then_some(()));
        if let Either::Second(()) = select(wanted, refuse_calls(&service.endpoint, &reason)).await {
            // The endpoint itself is gone, so no caller can reach it.
            service.changed.until(|| (service.wish.get() == Wish::Run).then_some(())).await;
        }
    }
}

/// What the system serves to sessions that may manage services. The log has one line for each request that was done, as the
/// audit log has one record, whatever state the service was in.
pub struct Supervisor(pub Rc<System>);

impl Supervisor {
    /// The service, if a session may stop it. A trusted one records what sessions did, or counts what they may still
    /// do: a session that could restart it could make it forget.
    fn find_untrusted(&self, name: &str) -> Result<Rc<Service>, CallError> {
        let service = find(&self.0, name)?;
        if service.entry.trusted {
            return Err(CallError::failed(format!(
                "service `{name}` is trusted, so no session may restart or stop it: it would forget what it has recorded \
                 or counted. After a fault it is restarted without asking; to restart it otherwise, turn the machine off \
                 and on"
            )));
        }
        Ok(service)
    }
}

fn find(system: &System, name: &str) -> Result<Rc<Service>, CallError> {
    system.service(name).ok_or_else(|| {
        let names: alloc::vec::Vec<&str> = system.services.iter().map(|service| service.name()).collect();
        CallError::invalid_argument(format!("there is no service `{name}`; there are {}", names.join(", ")))
    })
}

async fn end(service: &Service, reason: &str) {
    let process = service.running.borrow().as_ref().map(|started| started.process.clone());
    if let Some(process) = process {
        // That it is dead already is as good.
        let _ = process.kill(reason).await;
    }
}

impl ServiceSupervisorServer for Supervisor {
    async fn status(&self, _cx: &CallContext, name: String) -> Result<ServiceInfo, CallError> {
        Ok(find(&self.0, &name)?.info().await)
    }

    async fn restart(&self, _cx: &CallContext, name: String) -> Result<ServiceInfo, CallError> {
        let service = self.find_untrusted(&name)?;
        service.forgive();
        let before = service.starts();
        // A start in progress is as good as a new one: there is nothing to end.
        let starting = service.state() == ServiceState::Starting;
        service.wish.set(Wish::Run);
        service.expected.set(service.running.borrow().is_some());
        service.changed.wake();
        end(&service, "restarted on request").await;
        let settled = || match service.state() {
            ServiceState::Running => starting || service.starts() > before,
            // Earlier failures no longer count; a new failure, or a client that stops it, withdraws the request.
            ServiceState::Failed | ServiceState::Stopped | ServiceState::Unneeded => service.wish.get() == Wish::Stop,
            _ => false,
        };
        service.changed.until(|| settled().then_some(())).await;
        let info = service.info().await;
        if matches!(info.state, ServiceState::Stopped | ServiceState::Unneeded) {
            return Err(CallError::failed(format!("service `{name}` was stopped meanwhile; start it again")));
        }
        if info.state == ServiceState::Failed {
            return Err(CallError::failed(format!(
                "service `{name}` does not start: {}; the log has its messages",
                info.last_exit
            )));
        }
        log::info!("service `{name}` was started again, as was asked");
        Ok(info)
    }

    async fn stop(&self, _cx: &CallContext, name: String) -> Result<(), CallError> {
        let service = self.find_untrusted(&name)?;
        service.wish.set(Wish::Stop);
        end(&service, "stopped on request").await;
        let rests = || matches!(service.state(), ServiceState::Stopped | ServiceState::Failed | ServiceState::Unneeded);
        service.changed.until(|| rests().then_some(())).await;
        log::info!("service `{name}` was stopped, as was asked");
        Ok(())
    }
}

/// The interface for programs that test supervision.
pub struct Faults(pub Rc<System>);

impl FaultInjectorServer for Faults {
    async fn kill(&self, _cx: &CallContext, name: String) -> Result<(), CallError> {
        let service = find(&self.0, &name)?;
        if service.running.borrow().is_none() {
            return Err(CallError::failed(format!("service `{name}` does not run; restart it first")));
        }
        end(&service, "killed on request").await;
        Ok(())
    }
}
