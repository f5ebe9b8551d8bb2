//! Which services are killed when, and the required state afterwards.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use core::num::NonZeroU64;
use core::ops::Range;

use capos_plural::count;
use capos_rt::{Clock, Context, Env, Error, Task, log, spawn, yield_now};
use capos_schema::kernel::DebugLogClient;
use capos_schema::system::{FaultInjectorClient, ServiceInfo, ServiceState, ServiceSupervisorClient};

use crate::clients::client;
use crate::figures::{Ledger, Rest};
use crate::patience::Patience;
use crate::uses::{USES, Uses};

/// Points of each use at which its service is killed, if the manifest does not say how many: fifty of each service.
const INSTANTS: u64 = 5;
/// A service without clients is killed this often for each point: to restart it, and during its start.
const KILLS: u32 = 2;
/// How often it is measured how long a use takes. The first time is longer: its pages are not in memory yet.
const MEASURED: u32 = 3;
/// Longer than any service's deaths count against it, in nanoseconds: the supervisor's bounds are those of the shipped
/// system.
const WINDOW: u64 = 61_000_000_000;

/// The log's service keeps a copy of the kernel's log, so its size depends on earlier events. This many lines of this
/// many letters displace all others.
const FILL_LINES: usize = 300;
const FILL_LETTERS: usize = 960;

/// Upper bound of the work after a service is back, such as writing that to the log, in nanoseconds. Without it a use
/// would take longer than the one that was measured.
const AFTERWARDS: u64 = 20_000_000;

/// Between two checks whether a service has a process again, in nanoseconds. Much longer than it takes the campaign to
/// go to sleep: no other thread runs before that, so the service would never come back.
const LOOK: u64 = 100_000;

/// How often the log is asked for a session that the shell opens: for a few seconds.
const ASKED: u32 = 20_000;

/// The middle of part number `part` of `parts`.
fn middle(length: u64, part: u64, parts: u64) -> u64 {
    let halves = part.saturating_mul(2).saturating_add(1);
    length.saturating_mul(halves).checked_div(parts.saturating_mul(2)).unwrap_or(0)
}

/// One service's course through its points.
struct Course {
    service: String,
    /// At how many it is killed.
    points: u64,
    /// How long what it is killed over takes, in nanoseconds: a use by two clients, or its beginning.
    length: u64,
    /// Calls that ended with it.
    errors: u32,
    /// A check failed, so it is killed no more.
    failed: bool,
}

impl Course {
    fn new(service: &str, points: u64) -> Self {
        Self { service: service.to_string(), points, length: 0, errors: 0, failed: false }
    }
}

impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, points, length, errors, failed } = self;
        match (failed, Uses::known(service)) {
            (true, _) => write!(f, "`{service}`: failed"),
            (false, true) => write!(f, "`{service}`: {points} points: {errors} calls of {} ended with it", points * 2),
            (false, false) => {
                write!(f, "`{service}`: {points} points of its beginning, which takes {length} instructions")
            }
        }
    }
}

/// The campaign.
pub struct Campaign {
    journal: DebugLogClient,
    uses: Uses,
    faults: FaultInjectorClient,
    supervisor: ServiceSupervisorClient,
    clock: Clock,
    patience: Patience,
    own: String,
    /// Points of each use at which its service is killed.
    instants: u64,
    /// How often each service was killed within its supervisor's window.
    deaths: RefCell<BTreeMap<String, u32>>,
}

impl Campaign {
    /// # Errors
    /// The manifest does not grant what it takes.
    pub async fn new(env: &Env) -> Result<Self, Error> {
        Ok(Self {
            journal: env.cap("log")?,
            uses: Uses::new(env)?,
            faults: env.cap("faults")?,
            supervisor: env.cap("services")?,
            clock: env.clock()?,
            patience: Patience::new(env).await?,
            own: env.name().to_string(),
            instants: match env.variable("INSTANTS") {
                Some(given) => given.parse::<NonZeroU64>().context("INSTANTS is no number above 0")?.get(),
                None => INSTANTS,
            },
            deaths: RefCell::default(),
        })
    }

    /// Kills every service that runs at each of its points. Returns a report of the outcome.
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
        let mut ledger = Ledger::new(self.round(&services).await?);
        let mut failures: Vec<String> = Vec::new();
        let mut courses: Vec<Course> =
            services.iter().rev().map(|service| Course::new(service, self.points_of_each())).collect();
        let (all, part) = (self.points_of_each(), self.points_of_each().div_ceil(2));
        // They take turns: the time after which deaths do not count any more is waited for by all of them together.
        let turn = self.turn().await?;
        let (mut first, mut looked) = (0, 0);
        while first < all {
            let end = first.saturating_add(turn).min(all);
            for course in courses.iter_mut().filter(|course| !course.failed) {
                if let Err(error) = self.points(course, first..end).await {
                    course.failed = true;
                    log::error!("killing `{}`: {error}", course.service);
                    failures.push(format!("killing `{}`: {error}", course.service));
                }
            }
            first = end;
            let since = first.saturating_sub(looked);
            // The machine's figures are compared after half of the points, and at the end.
            if since >= part || first == all {
                ledger.note(self.round(&services).await?, since);
                looked = first;
            }
        }
        for course in &courses {
            log::info!("{course}");
        }
        if !ledger.agrees() {
            failures.push(format!("the machine does not hold what it held: {ledger}"));
        }
        if !failures.is_empty() {
            return Err(Error::new(failures.join("; ")));
        }
        Ok(format!("{} at {all} points each; {ledger}", count(services.len(), "service")))
    }

    /// Points of each service.
    fn points_of_each(&self) -> u64 {
        (USES as u64).saturating_mul(self.instants)
    }

    /// At how many points in a row each service can be killed within its bounds.
    async fn turn(&self) -> Result<u64, Error> {
        let services = self.services().await?;
        let points = |info: &ServiceInfo| info.max_restarts / if Uses::known(&info.name) { 1 } else { KILLS };
        let within = services.iter().filter(|info| info.name != self.own).map(points);
        Ok(within.min().unwrap_or(1).max(1).into())
    }

    async fn services(&self) -> Result<Vec<ServiceInfo>, Error> {
        Ok(self.uses.status().services().await?)
    }

    /// The services that run, except the campaign itself and the store. Without a data disk the store's end takes with it what
    /// others keep there, so they start over too; `store`, `storage-audit` and `random-kills` kill it over a disk.
    async fn running(&self) -> Result<Vec<String>, Error> {
        let services = self.services().await?;
        let others = [self.own.as_str(), "store"];
        let runs = |info: &ServiceInfo| info.state == ServiceState::Running && !others.contains(&info.name.as_str());
        Ok(services.into_iter().filter(runs).map(|info| info.name).collect())
    }

    async fn rest(&self) -> Result<Rest, Error> {
        Rest::now(self.uses.status(), self.uses.disk(), &self.clock, &self.patience, &self.own).await
    }

    /// Has a service do something for one client.
    async fn once(&self, service: &str, number: usize) -> Result<(), Error> {
        Ok(self.patience.wait(self.uses.one(service, number, 0)).await??)
    }

    /// Waits for a client's end. How many errors it saw.
    async fn end(&self, client: Task<Result<u32, Error>>) -> Result<u32, Error> {
        self.patience.wait(client).await?.context("a client was ended")?
    }

    /// The services, once this one may be killed `kills` more times.
    async fn within_bounds(&self, service: &str, kills: u32) -> Result<Vec<ServiceInfo>, Error> {
        let services = self.services().await?;
        let most = services.iter().find(|info| info.name == service).map_or(0, |info| info.max_restarts);
        let deaths = self.deaths.borrow().get(service).copied().unwrap_or(0).saturating_add(kills);
        if deaths <= most {
            self.deaths.borrow_mut().insert(service.to_string(), deaths);
        } else {
            self.forgotten().await?;
            self.deaths.borrow_mut().insert(service.to_string(), kills);
        }
        Ok(services)
    }

    /// Waits until no death counts any more. No process may be waiting for a time then: a minute passes at once.
    async fn forgotten(&self) -> Result<(), Error> {
        self.rest().await?;
        self.clock.sleep(WINDOW).await;
        self.deaths.borrow_mut().clear();
        Ok(())
    }

    /// Kills each service once at rest, then uses each: a state that can be compared with itself.
    async fn round(&self, services: &[String]) -> Result<Rest, Error> {
        self.forgotten().await?;
        for service in services {
            let before = self.within_bounds(service, 1).await?;
            self.faults.kill(service).await?;
            self.back(service, &before, 1).await?;
        }
        self.fill_log(services).await?;
        for service in services {
            for number in 0..USES {
                self.once(service, number).await.with_context(|| format!("`{service}`, use {number}"))?;
            }
        }
        self.rest().await
    }

    /// Fills the kernel's log with constant lines, and has the log's service read it again.
    async fn fill_log(&self, services: &[String]) -> Result<(), Error> {
        let line = "-".repeat(FILL_LETTERS);
        for _ in 0..FILL_LINES {
            self.journal.write(&line).await?;
        }
        for service in services.iter().filter(|service| *service == "log") {
            let before = self.within_bounds(service, 1).await?;
            self.faults.kill(service).await?;
            self.back(service, &before, 1).await?;
        }
        Ok(())
    }

    /// Waits until a service is back, and the rest of the system unchanged: this service was started again this often,
    /// no other one was.
    async fn back(&self, service: &str, before: &[ServiceInfo], times: u32) -> Result<(), Error> {
        if Uses::known(service) {
            self.once(service, 0).await.with_context(|| format!("`{service}`, after the kill"))?;
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
        self.clock.sleep(AFTERWARDS).await;
        Ok(())
    }

    /// Kills a service at these of its points.
    async fn points(&self, course: &mut Course, points: Range<u64>) -> Result<(), Error> {
        for point in points {
            match Uses::known(&course.service) {
                true => self.over_a_use(course, point).await.with_context(|| format!("point {point}"))?,
                false => self.over_the_beginning(course, point).await.with_context(|| format!("point {point}"))?,
            }
        }
        Ok(())
    }

    /// Kills a service that two clients use.
    async fn over_a_use(&self, course: &mut Course, point: u64) -> Result<(), Error> {
        let (number, instant) = ((point / self.instants) as usize, point % self.instants);
        let service = &course.service;
        if instant == 0 {
            course.length = self.length(service, number).await?;
        }
        let before = self.within_bounds(service, 1).await?;
        let (clients, start) = self.two(service, number).await;
        self.clock.sleep_until(start.saturating_add(middle(course.length, instant, self.instants))).await;
        self.faults.kill(service).await?;
        for task in clients {
            let seen = self.end(task).await?;
            course.errors = course.errors.saturating_add(seen);
        }
        self.back(service, &before, 1).await
    }

    /// Two concurrent clients of a service with a request each, and the time of the requests.
    async fn two(&self, service: &str, number: usize) -> ([Task<Result<u32, Error>>; 2], u64) {
        let clients = [(number, 1), (number.saturating_add(1) % USES, 2)]
            .map(|(number, name)| spawn(client(self.uses.clone(), service.to_string(), number, name)));
        yield_now().await;
        (clients, self.clock.now())
    }

    /// Two clients at once, as during a kill: so their peak use of memory is allocated already.
    async fn used_by_two(&self, service: &str) -> Result<(), Error> {
        for number in 0..USES {
            for task in self.two(service, number).await.0 {
                self.end(task).await?;
            }
        }
        Ok(())
    }

    /// How long it takes until two clients have their answers, in nanoseconds. If they wait for the disk it is the
    /// host's time that counts: the shortest has least of that.
    async fn length(&self, service: &str, number: usize) -> Result<u64, Error> {
        let mut length = u64::MAX;
        for _ in 0..MEASURED {
            let (clients, start) = self.two(service, number).await;
            for task in clients {
                self.end(task).await?;
            }
            length = length.min(self.clock.now().saturating_sub(start));
        }
        Ok(length)
    }

    /// Kills a service without clients, and then its next instance at a point of its start.
    async fn over_the_beginning(&self, course: &mut Course, point: u64) -> Result<(), Error> {
        let service = &course.service;
        if point == 0 {
            let before = self.within_bounds(service, 1).await?;
            self.faults.kill(service).await?;
            self.started(service, &before).await?;
            course.length = self.beginning(self.clock.now()).await?;
            self.back(service, &before, 1).await?;
        }
        let before = self.within_bounds(service, KILLS).await?;
        let record = self.uses.record().await?;
        self.faults.kill(service).await?;
        self.started(service, &before).await?;
        let start = self.clock.now();
        self.clock.sleep_until(start.saturating_add(middle(course.length, point, course.points))).await;
        self.faults.kill(service).await?;
        self.back(service, &before, KILLS).await?;
        if service == "shell" && !self.patience.wait(self.session_opened(record)).await?? {
            return Err(Error::new("the shell has opened no session after it was killed"));
        }
        Ok(())
    }

    /// Whether a session is opened after this record. While the shell waits for a disk the machine rests too, so the log is asked
    /// more than once.
    async fn session_opened(&self, record: u64) -> Result<bool, Error> {
        for _ in 0..ASKED {
            if self.uses.session_opened_since(record).await? {
                return Ok(true);
            }
            yield_now().await;
        }
        Ok(false)
    }

    /// Waits until a service that was killed has a process again.
    async fn started(&self, service: &str, before: &[ServiceInfo]) -> Result<(), Error> {
        let starts = before.iter().find(|info| info.name == service).map_or(0, |info| info.restarts);
        loop {
            let now = self.supervisor.status(service).await?;
            if now.state == ServiceState::Running && now.restarts > starts {
                return Ok(());
            }
            self.clock.sleep(LOOK).await;
        }
    }

    /// How long it took from `start` until nothing happened any more.
    async fn beginning(&self, start: u64) -> Result<u64, Error> {
        let before = self.clock.now().saturating_sub(start);
        let busy = self.busy().await?;
        self.rest().await?;
        Ok(self.busy().await?.saturating_sub(busy).saturating_add(before))
    }

    /// For how long the machine has had something to do, in nanoseconds: as many instructions.
    async fn busy(&self) -> Result<u64, Error> {
        let idle = self.uses.status().statistics().await?.idle_nanoseconds;
        Ok(self.clock.now().saturating_sub(idle))
    }
}
