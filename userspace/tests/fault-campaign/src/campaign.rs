//! Which services are killed when, and what must be so afterwards.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_plural::count;
use capos_rt::{Clock, Context, Env, Error, log, spawn};
use capos_schema::kernel::DebugLogClient;
use capos_schema::system::{FaultInjectorClient, ServiceInfo, ServiceState};

use crate::clients::client;
use crate::figures::{Figures, Rest};
use crate::uses::{USES, Uses};

/// Points of each use at which its service is killed.
const INSTANTS: u64 = 10;
/// Points of each service.
const POINTS: u64 = USES as u64 * INSTANTS;
/// Longer than any service's deaths count against it, in nanoseconds: the supervisor's bounds are those of the shipped
/// system.
const WINDOW: u64 = 61_000_000_000;

/// The log's service keeps what the kernel's log has, so what it holds depends on what happened: of this many lines of so
/// many letters there is room for no other beside them.
const FILL_LINES: usize = 300;
const FILL_LETTERS: usize = 960;

/// How often it is looked whether a service has a process again, in nanoseconds.
const LOOK: u64 = 10_000;

/// The campaign.
pub struct Campaign {
    journal: DebugLogClient,
    uses: Uses,
    faults: FaultInjectorClient,
    clock: Clock,
    own: String,
}

impl Campaign {
    /// # Errors
    /// The manifest does not grant what it takes.
    pub fn new(env: &Env) -> Result<Self, Error> {
        Ok(Self {
            journal: env.cap("log")?,
            uses: Uses::new(env)?,
            faults: env.cap("faults")?,
            clock: env.clock()?,
            own: env.name().to_string(),
        })
    }

    /// Kills every service that runs at each of its points. In words, what came of it.
    ///
    /// # Errors
    /// What does not hold.
    pub async fn run(&self) -> Result<String, Error> {
        self.rest().await?;
        let services = self.running().await?;
        // Until everything has been used and started again once, there is memory that was never needed before.
        self.round(&services).await?;
        for service in &services {
            self.used_by_two(service).await?;
        }
        let before = self.round(&services).await?;
        let mut failures: Vec<String> = Vec::new();
        for service in services.iter().rev() {
            let (began, told) = (self.clock.now(), failures.len());
            let words = match self.hundred(service).await {
                Ok(words) => words,
                Err(error) => {
                    failures.push(format!("killing `{service}`: {error}"));
                    error.to_string()
                }
            };
            let after = self.round(&services).await?;
            let seconds = self.clock.now().saturating_sub(began) / 1_000_000_000;
            log::info!("`{service}`: {POINTS} points: {words}; {seconds} s of the machine's clock; {}", after.figures);
            // One that is killed over its beginning is killed for that first.
            let kills = if Uses::known(service) { POINTS } else { POINTS.saturating_mul(2) };
            if !after.figures.is_same(&before.figures, kills) {
                failures.push(format!(
                    "after `{service}` was killed the kernel holds {}; before it held {}{}",
                    after.figures,
                    before.figures,
                    after.difference(&before)
                ));
            }
            for failure in failures.iter().skip(told) {
                log::error!("{failure}");
            }
        }
        if !failures.is_empty() {
            return Err(Error::new(failures.join("; ")));
        }
        Ok(format!(
            "{} at {POINTS} points each; the kernel holds {}, as before",
            count(services.len(), "service"),
            before.figures
        ))
    }

    async fn services(&self) -> Result<Vec<ServiceInfo>, Error> {
        Ok(self.uses.status().services().await?)
    }

    /// The services that run, but for the campaign itself.
    async fn running(&self) -> Result<Vec<String>, Error> {
        let services = self.services().await?;
        let runs = |info: &ServiceInfo| info.state == ServiceState::Running && info.name != self.own;
        Ok(services.into_iter().filter(runs).map(|info| info.name).collect())
    }

    async fn rest(&self) -> Result<Rest, Error> {
        Figures::at_rest(self.uses.status(), self.uses.disk(), &self.clock).await
    }

    /// Kills each service once at rest, then uses each: a state that can be compared with itself.
    async fn round(&self, services: &[String]) -> Result<Rest, Error> {
        for service in services {
            let before = self.services().await?;
            self.faults.kill(service).await?;
            self.back(service, &before, 1).await?;
        }
        self.fill_log(services).await?;
        for service in services {
            for number in 0..USES {
                self.uses.one(service, number, 0).await.with_context(|| format!("`{service}`, use {number}"))?;
            }
        }
        self.rest().await
    }

    /// Fills the kernel's log with what is always the same, and has the log's service read it anew.
    async fn fill_log(&self, services: &[String]) -> Result<(), Error> {
        let line = "-".repeat(FILL_LETTERS);
        for _ in 0..FILL_LINES {
            self.journal.write(&line).await?;
        }
        for service in services.iter().filter(|service| *service == "log") {
            let before = self.services().await?;
            self.faults.kill(service).await?;
            self.back(service, &before, 1).await?;
        }
        Ok(())
    }

    /// Waits until a service is back, and the system as it was: this service was started again so often, no other one was.
    async fn back(&self, service: &str, before: &[ServiceInfo], times: u32) -> Result<(), Error> {
        if Uses::known(service) {
            self.uses.one(service, 0, 0).await.with_context(|| format!("`{service}`, after the kill"))?;
        } else {
            self.rest().await?;
        }
        for (now, then) in self.services().await?.iter().zip(before) {
            let expected = if now.name == service { times } else { 0 };
            if now.state != then.state || now.restarts != then.restarts.saturating_add(expected) {
                return Err(Error::new(format!(
                    "`{service}` was killed {}, and `{}` was restarted {} and is {}: {}",
                    count(times, "time"),
                    now.name,
                    count(now.restarts.saturating_sub(then.restarts), "time"),
                    now.state.name(),
                    now.last_exit
                )));
            }
        }
        self.clock.sleep(WINDOW).await;
        Ok(())
    }

    /// Kills a service at each of its points. What its clients saw, in words.
    async fn hundred(&self, service: &str) -> Result<String, Error> {
        if !Uses::known(service) {
            return self.hundred_beginnings(service).await;
        }
        let mut errors = 0_u32;
        for number in 0..USES {
            let length = self.length(service, number).await?;
            for instant in 0..INSTANTS {
                let before = self.services().await?;
                let (first, second) = (number, number.saturating_add(1) % USES);
                let start = self.clock.now();
                let clients = [(first, 1), (second, 2)]
                    .map(|(number, name)| spawn(client(self.uses.clone(), service.to_string(), number, name)));
                let middle = instant.saturating_mul(2).saturating_add(1);
                self.clock.sleep_until(start.saturating_add(length.saturating_mul(middle) / (INSTANTS * 2))).await;
                self.faults.kill(service).await?;
                for task in clients {
                    let seen = task.await.context("a client was ended")?;
                    errors = errors.saturating_add(seen.with_context(|| format!("use {number}, instant {instant}"))?);
                }
                self.back(service, &before, 1).await?;
            }
        }
        Ok(format!("{errors} calls of {} ended with it", POINTS.saturating_mul(2)))
    }

    /// Two clients at once, as beside a kill: what they hold at the same time has had its place then.
    async fn used_by_two(&self, service: &str) -> Result<(), Error> {
        for number in 0..USES {
            let clients = [(number, 1), (number.saturating_add(1) % USES, 2)]
                .map(|(number, name)| spawn(client(self.uses.clone(), service.to_string(), number, name)));
            for task in clients {
                task.await.context("a client was ended")??;
            }
        }
        Ok(())
    }

    /// How long a use takes, in nanoseconds.
    async fn length(&self, service: &str, number: usize) -> Result<u64, Error> {
        let mut length = 0;
        // The first time is longer: what it needs is not in memory yet.
        for _ in 0..2 {
            let start = self.clock.now();
            self.uses.one(service, number, 1).await.with_context(|| format!("`{service}`, use {number}"))?;
            length = self.clock.now().saturating_sub(start);
        }
        Ok(length)
    }

    /// Kills a service that serves nobody at points of its own beginning.
    async fn hundred_beginnings(&self, service: &str) -> Result<String, Error> {
        let before = self.services().await?;
        self.faults.kill(service).await?;
        self.started(service, &before).await?;
        let length = self.beginning(self.clock.now()).await?;
        self.back(service, &before, 1).await?;
        for instant in 0..POINTS {
            let before = self.services().await?;
            let record = self.uses.next_record().await?;
            self.faults.kill(service).await?;
            self.started(service, &before).await?;
            let start = self.clock.now();
            let middle = instant.saturating_mul(2).saturating_add(1);
            self.clock.sleep_until(start.saturating_add(length.saturating_mul(middle) / (POINTS * 2))).await;
            self.faults.kill(service).await?;
            self.back(service, &before, 2).await?;
            if service == "shell" && !self.uses.session_opened_since(record).await? {
                return Err(Error::new("the shell has opened no session after it was killed"));
            }
        }
        Ok(format!("each at another point of its beginning, which takes {length} instructions"))
    }

    /// Waits until a service that was killed has a process again.
    async fn started(&self, service: &str, before: &[ServiceInfo]) -> Result<(), Error> {
        let starts = before.iter().find(|info| info.name == service).map_or(0, |info| info.restarts);
        let runs =
            |info: &ServiceInfo| info.name == service && info.state == ServiceState::Running && info.restarts > starts;
        while !self.services().await?.iter().any(runs) {
            self.clock.sleep(LOOK).await;
        }
        Ok(())
    }

    /// How long it took from `start` until nothing happened any more.
    async fn beginning(&self, start: u64) -> Result<u64, Error> {
        let busy = async || Ok::<_, Error>(self.uses.status().statistics().await?.idle_nanoseconds);
        let idle = busy().await?;
        self.rest().await?;
        let waited = busy().await?.saturating_sub(idle);
        Ok(self.clock.now().saturating_sub(start).saturating_sub(waited))
    }
}
