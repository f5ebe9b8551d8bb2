//! Two workers of one model: they share its verified pages, and one that was cancelled stops working.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_rt::{Either, Env, Error};
use capos_schema::cap::{Client, Rights};
use capos_schema::kernel::{
    EndpointClient, EntropyClient, Limits, MachineStatistics, MemoryObjectClient, ProcessClient, ResourceAccountClient,
    TimerClient,
};
use capos_schema::models::{FinishReason, LanguageModelClient, ModelAdminClient, ModelCatalogClient};
use capos_schema::storage::{DirectoryClient, ReadOnlyFileMemoryResults};
use capos_schema::system::{Grant, ProcessSpawnerClient, SystemStatusClient};

pub use capos_abi::PAGE;

use crate::models::{request, whole};
use crate::{Report, ensure};

/// Frames that a worker may take besides the weights' pages: its text, heap, stack, rings and page tables.
pub const OWN: u64 = 1024;
/// Frames per query: as many as one call may name.
const BATCH: u32 = 512;
/// A millisecond in nanoseconds.
const MILLISECOND: u64 = 1_000_000;
/// A worker's permitted capabilities.
const LIMITS: Limits =
    Limits { frames: 8192, capabilities: 128, threads: 2, processes: 0, objects: 64, priority: 0, cpu_nanoseconds: 0 };

/// The means to start workers of a model.
pub struct Forge {
    spawner: ProcessSpawnerClient,
    account: ResourceAccountClient,
    timer: TimerClient,
    entropy: EntropyClient,
    model: String,
    weights: MemoryObjectClient,
    /// Bytes of the weights.
    pub bytes: u64,
    script: ReadOnlyFileMemoryResults,
}

/// A worker besides the catalog's.
pub struct Worker {
    /// The process.
    pub process: ProcessClient,
    /// Its account.
    pub account: ResourceAccountClient,
    /// The model that it serves.
    pub model: LanguageModelClient,
    /// The source of the model's capability.
    _endpoint: EndpointClient,
}

fn grant<C: Client>(name: &str, client: &C, rights: Rights) -> Grant {
    Grant {
        name: name.to_string(),
        capability: Client::from_cap(client.as_cap().clone()),
        interface: C::INTERFACE_ID,
        rights: rights.0,
    }
}

impl Forge {
    /// The means to start workers of this model.
    pub async fn of(env: &Env, model: &str) -> Result<Self, Error> {
        let weights = env.cap::<ModelAdminClient>("admin")?.weights(model).await?;
        Ok(Self {
            spawner: env.cap("spawner")?,
            account: env.cap("account")?,
            timer: env.cap("timer")?,
            entropy: env.cap("entropy")?,
            model: model.to_string(),
            weights: weights.memory,
            bytes: weights.bytes,
            script: env.cap::<DirectoryClient>("medium")?.open("scenario/model.jsonl").await?.memory().await?,
        })
    }

    /// Starts a worker with this many threads.
    pub async fn worker(&self, threads: u32) -> Result<Worker, Error> {
        let endpoint = self.account.create_endpoint().await?;
        let client = endpoint.mint(0, LanguageModelClient::INTERFACE_ID).await?;
        let read_only = Rights::READ.union(Rights::CALL);
        let grants = [
            grant("serve", &endpoint, Rights::ALL),
            grant("weights", &self.weights, read_only),
            grant("timer", &self.timer, Rights::CALL),
            grant("entropy", &self.entropy, Rights::CALL),
            grant("script", &self.script.memory, read_only),
        ];
        let arguments = [
            self.model.clone(),
            self.bytes.to_string(),
            self.script.bytes.to_string(),
            "4096".to_string(),
            threads.to_string(),
            "0".to_string(),
            // It has no prompt cache.
            "0".to_string(),
        ];
        let process = self.spawner.spawn("second-worker", "/bin/model-worker", &arguments, &grants, &LIMITS).await?;
        let account = process.account().await?;
        Ok(Worker { process, account, model: client.cast(), _endpoint: endpoint })
    }

    /// Which frames hold the weights, page by page.
    pub async fn frames(&self) -> Result<Vec<u64>, Error> {
        let mut ids = Vec::new();
        let mut left = self.bytes.div_ceil(PAGE);
        while left > 0 {
            let now = u32::try_from(left).unwrap_or(BATCH).min(BATCH);
            ids.extend(self.weights.frames((ids.len() as u64).saturating_mul(PAGE), now).await?);
            left = left.saturating_sub(u64::from(now));
        }
        Ok(ids)
    }
}

impl Worker {
    /// Has the worker read every byte of its weights, and returns its report.
    async fn reads_its_weights(&self) -> Result<String, Error> {
        // The endpoint outlives the worker: a caller of a dead one would wait for ever.
        let asked = request("Read your weights.");
        match capos_rt::select(self.model.complete(&asked), self.process.wait()).await {
            Either::First(response) => Ok(response?.message.content),
            Either::Second(exit) => Err(Error::new(format!("a worker ended: {:?}", exit?))),
        }
    }

    /// How much processor time the worker uses during `milliseconds`, in percent.
    async fn share(&self, milliseconds: u64) -> Result<u64, Error> {
        let used = async || Ok::<_, Error>(self.account.usage().await?.usage.cpu_nanoseconds);
        let (start, before) = (capos_rt::now()?, used().await?);
        capos_rt::sleep(milliseconds.saturating_mul(MILLISECOND)).await?;
        let (end, after) = (capos_rt::now()?, used().await?);
        let worked = after.saturating_sub(before).saturating_mul(100);
        Ok(worked.checked_div(end.saturating_sub(start)).unwrap_or_default())
    }
}

/// Frames that went.
pub fn lost(before: &MachineStatistics, after: &MachineStatistics) -> u64 {
    before.free_frames.saturating_sub(after.free_frames)
}

/// A04: the second worker finds every page of the weights in memory, in the frames that the first one uses.
async fn pages_are_shared(env: &Env, forge: &Forge, report: &Report) -> Result<Worker, Error> {
    let status = env.cap::<SystemStatusClient>("status")?;
    let pages = forge.bytes.div_ceil(PAGE);
    let start = status.statistics().await?;
    let first = forge.worker(1).await?;
    let said = first.reads_its_weights().await?;
    ensure(said.contains(&format!("[weights 0..{}: sum ", forge.bytes)), format!("it read something else: {said}"))?;
    let one = status.statistics().await?;
    let taken = lost(&start, &one);
    ensure(taken >= pages.saturating_sub(OWN), format!("the weights' {pages} pages took {taken} frames"))?;
    let frames = forge.frames().await?;
    let different: BTreeSet<u64> = frames.iter().copied().collect();
    ensure(!different.contains(&0) && different.len() as u64 == pages, "not every page has a frame of its own")?;

    let second = forge.worker(1).await?;
    ensure(second.reads_its_weights().await? == said, "the second worker reads other weights")?;
    let two = status.statistics().await?;
    let (more, misses) = (lost(&one, &two), two.cache_misses.saturating_sub(one.cache_misses));
    ensure(misses == 0, format!("{misses} faults of the second worker went to the pager"))?;
    ensure(more <= OWN, format!("the second worker took {more} frames more"))?;
    let own = second.account.usage().await?.usage.frames;
    ensure(own <= OWN, format!("the second worker pays for {own} frames"))?;
    ensure(forge.frames().await? == frames, "the weights lie in other frames now")?;
    report.line(&format!(
        "first worker: {taken} frames with {pages} pages of weights; second: {more} more, {own} of them its own account's, \
         the same frames, no fault that went to the pager"
    ));
    first.process.kill("it was looked at").await?;
    Ok(second)
}

/// B02: a worker that works on an answer stops working when the answer is cancelled.
async fn cancelled_work_stops(worker: &Worker, report: &Report) -> Result<(), Error> {
    let stream = worker.model.stream(&request("Work for long.")).await?;
    let cancel = async {
        let busy = worker.share(300).await?;
        stream.cancel().await?;
        Ok::<_, Error>(busy)
    };
    let (end, busy) = capos_rt::join(whole(&stream), cancel).await;
    let (end, busy) = (end?.end.map(|end| end.reason), busy?);
    ensure(busy >= 50, format!("it took {busy} % of the processor while it worked"))?;
    ensure(end == Some(FinishReason::Cancelled), format!("it ended as {end:?}"))?;
    let idle = worker.share(300).await?;
    ensure(idle <= 5, format!("it took {idle} % of the processor after it was cancelled"))?;
    report.line(&format!("a cancelled worker falls from {busy} % of the processor to {idle} %"));
    Ok(())
}

/// Everything.
///
/// # Errors
/// What does not hold.
pub async fn run(env: &Env, report: &Report) -> Result<(), Error> {
    let models = env.cap::<ModelCatalogClient>("catalog")?.list().await?;
    let Some(model) = models.iter().find(|model| model.display_name.starts_with("capOS")) else {
        return Err(Error::new("the built-in model is not registered"));
    };
    let forge = Forge::of(env, &model.id).await?;
    let worker = pages_are_shared(env, &forge, report).await?;
    cancelled_work_stops(&worker, report).await?;
    worker.process.kill("it was looked at").await?;
    report.line("workers share their weights and stop when they are told to");
    Ok(())
}
