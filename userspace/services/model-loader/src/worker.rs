//! Worker processes: one for each model that is open, restarted within bounds.

use crate::report::Report;
use crate::weights::VerifiedWeights;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use capos_model::memory::{Need, share};
use capos_model::{LOCAL_ENGINE, LOCAL_SCRIPTED};
use capos_rt::{Context, Error, Task};
use capos_schema::cap::{AsCap, Client, Rights};
use capos_schema::kernel::{
    CapabilityInfo, CapabilityTableClient, EndpointClient, EntropyClient, Limits, MemoryObjectClient, ProcessClient,
    ResourceAccountClient, TimerClient,
};
use capos_schema::models::{BackendPolicy, LanguageModelClient, ModelInfo, TextEmbedderClient};
use capos_schema::system::{Grant, ProcessSpawnerClient};
use core::cell::{Cell, RefCell};
use core::ops::Deref;

/// The worker's program on the medium.
const PROGRAM: &str = "/bin/model-worker";
/// Restarts within [`WINDOW`] before the loader stops restarting a worker.
const MAX_RESTARTS: usize = 5;
/// The time in which restarts are counted, in nanoseconds.
const WINDOW: u64 = 60_000_000_000;
/// Threads of a worker at most. It has one for each processor that the kernel runs.
const MOST_THREADS: u32 = 16;
/// What a worker may use at least: 64 MiB besides the shared weights.
const LIMITS: Limits = Limits {
    frames: 16_384,
    capabilities: 512,
    threads: 1,
    processes: 0,
    objects: 128,
    priority: 0,
    cpu_nanoseconds: 0,
};
/// Frames for each further thread: its stack, its rings, and its kept work.
const FRAMES_PER_THREAD: u64 = 1_024;
/// Objects for each further thread.
const OBJECTS_PER_THREAD: u32 = 8;
/// The engine's models may use one further frame per this many bytes of weights, for embeddings too: the data between
/// layers, and the keys and values of conversations, grow with the model. How much more it may use follows its shape
/// and the machine.
const BYTES_PER_FRAME: u64 = 8 * FRAME;
/// Bytes of a frame.
pub const FRAME: u64 = 4096;
const MEBIBYTE: u64 = 1 << 20;

/// The means to start workers.
pub struct Forge {
    /// Starts processes with exact grants.
    pub spawner: ProcessSpawnerClient,
    /// Pays for endpoints.
    pub account: ResourceAccountClient,
    /// For revoking the capabilities to a worker that is no longer restarted.
    pub table: CapabilityTableClient,
    /// The clock, for restarts and for scripted delays.
    pub timer: TimerClient,
    /// Chance, for the hash tables of workers' libraries.
    pub entropy: EntropyClient,
    /// The script of the scripted backend, its length in bytes, and whether it says that its model summarises.
    pub script: Option<(MemoryObjectClient, u64, bool)>,
    /// Bytes of the machine's memory.
    pub machine: u64,
    /// The limits of workers and of their answers.
    pub policy: RefCell<BackendPolicy>,
    /// Where events go.
    pub report: Rc<Report>,
}

/// The worker of one model.
pub struct Worker {
    forge: Rc<Forge>,
    model: String,
    /// Whether its backend plays the script; others do not get it.
    scripted: bool,
    summarises: bool,
    limits: Limits,
    /// Tokens of a conversation, if the machine gives fewer than the file says.
    context: Option<u32>,
    weights: Rc<VerifiedWeights>,
    memory: MemoryObjectClient,
    /// Its prompt cache, until a process has ended with it: a page of it that cannot be supplied ends each process.
    prompts: RefCell<Option<(MemoryObjectClient, u64)>>,
    entrance: Entrance,
    process: RefCell<Option<ProcessClient>>,
    starts: RefCell<Vec<u64>>,
    /// How often it was given to a client.
    given: Cell<u64>,
    /// Callers that are being given it, and hold nothing of it yet.
    openings: Cell<u32>,
    given_up: Cell<bool>,
    /// Its process was ended so that another one takes its place.
    renewed: Cell<bool>,
}

/// A worker that is being opened. Until this is dropped, the worker does not end for lack of a holder.
pub struct Opening(Rc<Worker>);

impl Opening {
    /// Begins it.
    pub fn of(worker: Rc<Worker>) -> Self {
        worker.openings.set(worker.openings.get().saturating_add(1));
        Self(worker)
    }
}

impl Deref for Opening {
    type Target = Worker;

    fn deref(&self) -> &Worker {
        &self.0
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.openings.set(self.0.openings.get().saturating_sub(1));
    }
}

/// Where a worker is called: made before the worker, so that making the worker itself waits for nothing.
pub struct Entrance {
    endpoint: EndpointClient,
    language_model: LanguageModelClient,
    embedder: TextEmbedderClient,
}

impl Entrance {
    /// A new one, which no process serves yet.
    ///
    /// # Errors
    /// The account has no room for it.
    pub async fn make(forge: &Forge) -> Result<Self, Error> {
        let endpoint = forge.account.create_endpoint().await.context("making the worker's endpoint")?;
        let mint = async |place, interface| {
            endpoint.mint(place, interface).await.context("minting a capability to the worker")
        };
        let language_model = mint(0, LanguageModelClient::INTERFACE_ID).await?.cast();
        let embedder = mint(1, TextEmbedderClient::INTERFACE_ID).await?.cast();
        Ok(Self { endpoint, language_model, embedder })
    }
}

impl Worker {
    /// The worker of a model, still without a process.
    pub fn new(
        forge: &Rc<Forge>,
        entrance: Entrance,
        info: &ModelInfo,
        room: &Room,
        (weights, memory): (&Rc<VerifiedWeights>, &MemoryObjectClient),
        prompts: Option<(MemoryObjectClient, u64)>,
    ) -> Rc<Self> {
        Rc::new(Self {
            forge: forge.clone(),
            model: info.id.clone(),
            scripted: info.backend == LOCAL_SCRIPTED,
            summarises: info.summarises,
            limits: Limits { frames: room.frames, ..limits(info) },
            context: room.fewer,
            weights: weights.clone(),
            memory: memory.clone(),
            prompts: RefCell::new(prompts),
            entrance,
            process: RefCell::new(None),
            starts: RefCell::new(Vec::new()),
            given: Cell::new(0),
            openings: Cell::new(0),
            given_up: Cell::new(false),
            renewed: Cell::new(false),
        })
    }

    /// Starts its process, and others after it, within bounds. The task ends with the first start,
    /// and continues if its caller is cancelled: others may hold the worker already.
    pub fn start(self: &Rc<Self>) -> Task<Result<(), Error>> {
        let worker = self.clone();
        capos_rt::spawn(async move {
            match worker.spawn().await {
                Ok(process) => {
                    drop(capos_rt::spawn(supervise(worker, process)));
                    Ok(())
                }
                Err(error) => {
                    worker.give_up().await;
                    Err(error)
                }
            }
        })
    }

    /// The model's capability, for a session.
    pub fn language_model(&self) -> LanguageModelClient {
        self.count();
        self.entrance.language_model.clone()
    }

    /// The model, as an embedder of texts.
    pub fn embedder(&self) -> TextEmbedderClient {
        self.count();
        self.entrance.embedder.clone()
    }

    fn count(&self) {
        self.given.set(self.given.get().wrapping_add(1));
    }

    /// Whether one of these capabilities derives from the worker's and has a holder.
    pub fn is_held(&self, held: &[CapabilityInfo]) -> bool {
        let own = [self.entrance.language_model.as_cap().id(), self.entrance.embedder.as_cap().id()];
        held.iter().any(|info| own.contains(&info.id) && info.derived)
    }

    /// Whether a client is being given it.
    pub fn is_being_opened(&self) -> bool {
        self.openings.get() > 0
    }

    /// A number that changes whenever the worker is given to a client.
    pub fn given(&self) -> u64 {
        self.given.get()
    }

    /// Whether it ended permanently.
    pub fn is_given_up(&self) -> bool {
        self.given_up.get()
    }

    /// Ends the process, also one that is just being started; none follows it. If there is one, its memory has been
    /// freed when this is done.
    pub async fn stop(&self, reason: &str) {
        self.given_up.set(true);
        let process = self.process.borrow().clone();
        self.kill(reason).await;
        if let Some(process) = process {
            // Its supervisor reports how it ended.
            drop(process.wait().await);
        }
    }

    /// Ends the process, which another one replaces; that does not count as a restart. If none runs, one is being
    /// started.
    pub async fn renew(&self, reason: &str) {
        // One that is just being started is looked at by `spawn`.
        self.renewed.set(self.process.borrow().is_some());
        self.kill(reason).await;
    }

    async fn kill(&self, reason: &str) {
        let process = self.process.borrow().clone();
        if let Some(process) = process
            && let Err(error) = process.kill(reason).await
        {
            capos_rt::log::warning!("a worker of {} could not be ended: {error}", self.model);
        }
    }

    async fn spawn(&self) -> Result<ProcessClient, Error> {
        let read_only = Rights::READ.union(Rights::CALL);
        let mut grants = vec![
            grant("serve", &self.entrance.endpoint, Rights::ALL),
            grant("weights", &self.memory, read_only),
            grant("timer", &self.forge.timer, Rights::CALL),
            grant("entropy", &self.forge.entropy, Rights::CALL),
        ];
        let script_bytes = match &self.forge.script {
            Some((memory, bytes, _)) if self.scripted => {
                grants.push(grant("script", memory, read_only));
                *bytes
            }
            _ => 0,
        };
        let prompts = self.prompts.borrow().clone();
        let prompt_bytes = match &prompts {
            Some((memory, bytes)) => {
                grants.push(grant("prompts", memory, read_only));
                *bytes
            }
            None => 0,
        };
        let max_tokens = self.forge.policy.borrow().max_tokens_per_call;
        let mut arguments = vec![
            self.model.clone(),
            self.weights.size().to_string(),
            script_bytes.to_string(),
            max_tokens.to_string(),
            self.limits.threads.to_string(),
            u8::from(self.summarises).to_string(),
            prompt_bytes.to_string(),
        ];
        arguments.extend(self.context.map(|tokens| tokens.to_string()));
        let process = self
            .forge
            .spawner
            .spawn("model-worker", PROGRAM, &arguments, &grants, &self.limits)
            .await
            .context("starting the worker")?;
        // Until here `stop` and `renew` found no process to end, and from here on they find this one. Pending stops and
        // limits of an earlier policy are applied now, so that no worker serves with them.
        *self.process.borrow_mut() = Some(process.clone());
        if self.is_given_up() {
            self.kill("it was stopped while it was starting").await;
        } else if self.forge.policy.borrow().max_tokens_per_call != max_tokens {
            self.renew("the backend policy changed while it was starting").await;
        }
        self.forge.report.worker("worker.start", &self.model, "started").await;
        Ok(process)
    }

    /// Whether another start is within bounds; counts it.
    async fn may_restart(&self) -> bool {
        let now = self.forge.timer.now().await.unwrap_or(u64::MAX);
        let mut starts = self.starts.borrow_mut();
        starts.retain(|start| now.saturating_sub(*start) < WINDOW);
        starts.push(now);
        starts.len() <= MAX_RESTARTS
    }

    /// No process follows. A remaining holder of the model gets an error at its next call, and does not wait for ever.
    async fn give_up(&self) {
        self.given_up.set(true);
        if let Err(error) = self.forge.table.revoke(self.entrance.endpoint.as_cap().id()).await {
            capos_rt::log::error!("the capabilities to a dead worker could not be revoked: {error}");
        }
    }
}

/// The memory of a model's worker, and the conversations that fit.
#[derive(Default)]
pub struct Room {
    /// Frames that the worker may use.
    pub frames: u64,
    /// Tokens of a conversation, if these are fewer than the file says.
    pub fewer: Option<u32>,
    /// Why the model cannot be opened, if not even a short conversation has room.
    pub too_little: Option<String>,
}

impl Room {
    /// For a model with this need, on a machine with `machine` bytes. If its need is unknown, or it has no
    /// conversations, the file's size decides.
    pub fn of(info: &ModelInfo, need: Option<&Need>, machine: u64) -> Self {
        let least = limits(info).frames;
        let Some(need) = need.filter(|_| info.backend == LOCAL_ENGINE) else {
            return Self { frames: least, ..Self::default() };
        };
        let given = least.saturating_mul(FRAME).max(share(machine, info.bytes));
        match need.tokens(given) {
            Ok(tokens) => Self {
                frames: need.bytes(tokens).div_ceil(FRAME).max(least),
                fewer: (tokens < need.context).then_some(tokens),
                too_little: None,
            },
            Err(needed) => {
                let [needed, given] = [needed.div_ceil(MEBIBYTE), given / MEBIBYTE];
                let words = format!(
                    "it needs at least {needed} MiB besides its file, and a model may use {given} MiB of this machine's \
                     memory; give the machine more memory or choose a smaller model"
                );
                Self { frames: least, fewer: None, too_little: Some(words) }
            }
        }
    }
}

/// Threads of a worker.
pub fn threads() -> u32 {
    capos_rt::processors().min(MOST_THREADS)
}

/// The minimum for the worker of a model.
fn limits(info: &ModelInfo) -> Limits {
    let more = if capos_model::embeds(info) { info.bytes / BYTES_PER_FRAME } else { 0 };
    let threads = threads();
    let further = u64::from(threads.saturating_sub(1));
    let frames = LIMITS.frames.saturating_add(more).saturating_add(further.saturating_mul(FRAMES_PER_THREAD));
    let objects = LIMITS.objects.saturating_add(threads.saturating_sub(1).saturating_mul(OBJECTS_PER_THREAD));
    Limits { frames, objects, threads, ..LIMITS }
}

/// A grant of these rights; the process that starts the worker may pass it on, the worker may not.
fn grant<C: Client>(name: &str, client: &C, rights: Rights) -> Grant {
    Grant {
        name: name.to_string(),
        capability: Client::from_cap(client.as_cap().attenuated(rights.union(Rights::GRANT))),
        interface: C::INTERFACE_ID,
        rights: rights.0,
    }
}

/// Waits for the worker's end and starts it again, within bounds. The verified memory stays, so a
/// new worker verifies nothing again.
async fn supervise(worker: Rc<Worker>, first: ProcessClient) {
    let mut process = first;
    loop {
        let how = match process.wait().await {
            Ok(exit) => capos_process::describe_exit(&exit),
            Err(error) => format!("its end is unknown: {error}"),
        };
        *worker.process.borrow_mut() = None;
        let renewed = worker.renewed.replace(false);
        if !renewed {
            worker.prompts.replace(None);
        }
        worker.forge.report.worker("worker.end", &worker.model, &how).await;
        if (renewed || worker.may_restart().await) && !worker.is_given_up() {
            match worker.spawn().await {
                Ok(next) => {
                    process = next;
                    continue;
                }
                Err(error) => worker.forge.report.worker("worker.failed", &worker.model, error.words()).await,
            }
        }
        worker.give_up().await;
        return;
    }
}
