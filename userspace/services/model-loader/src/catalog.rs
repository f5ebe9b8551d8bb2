//! The models of this machine: which there are, and which are open.

use crate::report::Report;
use crate::weights::{Offer, VerifiedWeights};
use crate::worker::{Entrance, Forge, Opening, Room, Worker, threads};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use capos_async_lock::AsyncMutex;
use capos_model::{LOCAL_SCRIPTED, most_prompt_bytes};
use capos_plural::count;
use capos_policy::{check_backend_policy, may_open};
use capos_rt::{Context, Error, log};
use capos_schema::cap::{CallContext, CallError, Client, Export, Rights};
use capos_schema::kernel::{CapabilityTableClient, MemoryObjectClient, PagerClient, ResourceAccountClient};
use capos_schema::models::{
    BackendPolicy, LanguageModelClient, ModelAdminServer, ModelAdminWeightsResults, ModelCatalogServer, ModelInfo,
    TextEmbedderClient,
};
use capos_schema::storage::{DirectoryClient, ReadOnlyFileClient};
use capos_verity::TrustStore;
use core::cell::RefCell;

/// Bytes of the reason for which a worker is replaced.
const MAX_REASON: usize = 256;
/// Bytes of a prompt cache that are checked at once.
const PIECE: usize = 64 << 10;

/// A model's prompt cache. It is checked while other tasks go on; a worker that starts waits for the end of that.
#[derive(Clone, Default)]
struct Prompts {
    /// Held while it is checked.
    checking: Rc<AsyncMutex>,
    checked: Rc<RefCell<Option<(MemoryObjectClient, u64)>>>,
}

struct Model {
    /// Its file's name, without folders.
    file: String,
    info: ModelInfo,
    weights: Rc<VerifiedWeights>,
    memory: MemoryObjectClient,
    prompts: Prompts,
    worker: Option<Rc<Worker>>,
    room: Room,
}

/// The catalog.
pub struct Catalog {
    medium: DirectoryClient,
    trust: TrustStore,
    table: CapabilityTableClient,
    account: ResourceAccountClient,
    exporter: Rc<dyn Export>,
    report: Rc<Report>,
    forge: Rc<Forge>,
    /// In the order in which they are offered.
    models: RefCell<Vec<Model>>,
}

impl Catalog {
    /// An empty catalog.
    pub fn new(
        medium: DirectoryClient,
        trust: TrustStore,
        table: CapabilityTableClient,
        account: ResourceAccountClient,
        exporter: Rc<dyn Export>,
        report: Rc<Report>,
        forge: Rc<Forge>,
    ) -> Rc<Self> {
        Rc::new(Self { medium, trust, table, account, exporter, report, forge, models: RefCell::default() })
    }

    /// Verifies and registers a model file of a medium.
    ///
    /// # Errors
    /// It is refused, or the audit log takes no record of it.
    pub async fn register(self: &Rc<Self>, medium: &DirectoryClient, path: &str) -> Result<ModelInfo, Error> {
        let offer = Offer::on_medium(medium, path).await;
        let info = self.admit(path, &ModelInfo::default(), offer).await?;
        let found = Offer::prompts(medium, path).await;
        let Ok((prompts, size)) = self.find(&info.id, |model| (model.prompts.clone(), model.weights.size())) else {
            return Ok(info);
        };
        // Without it the model reads what it could have known.
        match found {
            Ok(Some(offer)) => {
                // A file that is registered once more has been checked.
                if prompts.checked.borrow().is_none()
                    && let Some(checking) = prompts.checking.try_lock()
                {
                    let catalog = self.clone();
                    capos_rt::spawn(async move {
                        let path = offer.path.clone();
                        match catalog.check_prompts(offer, size).await {
                            Ok(memory) => {
                                log::info!("the prompt cache {path} is checked");
                                prompts.checked.replace(Some(memory));
                            }
                            Err(error) => log::warning!("the prompt cache {path} is not used: {error}"),
                        }
                        drop(checking);
                    });
                }
            }
            Ok(None) => {}
            Err(error) => log::warning!("the prompt cache of {path} is not used: {error}"),
        }
        Ok(info)
    }

    /// A prompt cache for a model of `size` bytes, and its length in bytes. It is checked as a whole, so that a damaged one costs
    /// its model nothing but time. It is paged in as weights are, and not kept in this process's memory.
    async fn check_prompts(&self, offer: Offer, size: u64) -> Result<(MemoryObjectClient, u64), Error> {
        let cache = self.examine(offer).await?;
        let bytes = cache.size();
        check_prompts_size(bytes, size)?;
        let mut at = 0;
        while at < bytes {
            let piece = cache.read(at, PIECE).await?;
            at = at.saturating_add(piece.len().max(1) as u64);
        }
        let pager = PagerClient::serve(&self.exporter, Rc::new(cache))?;
        let memory = self.account.create_paged_memory(bytes, &pager).await.context("making its memory object")?;
        Ok((memory, bytes))
    }

    /// Verifies and registers an offer, whose description `said` has to be true.
    async fn admit(&self, path: &str, said: &ModelInfo, offer: Result<Offer, Error>) -> Result<ModelInfo, Error> {
        let verified = match offer {
            Ok(offer) => self.verify(said, offer).await,
            Err(error) => Err(error),
        };
        match verified {
            Ok(model) => {
                self.report
                    .loaded(path, &model.info)
                    .await
                    .context("the audit log did not record the load, so the model is not offered")?;
                let info = model.info.clone();
                let mut models = self.models.borrow_mut();
                if models.iter().all(|known| known.info.id != info.id) {
                    models.push(model);
                }
                drop(models);
                Ok(info)
            }
            Err(error) => {
                self.report.refused(path, error.words()).await;
                Err(error)
            }
        }
    }

    /// Verifies the signature of an offer. Refusals are reported.
    ///
    /// # Errors
    /// It is refused.
    pub async fn examine(&self, offer: Offer) -> Result<VerifiedWeights, Error> {
        let path = offer.path.clone();
        let verified = VerifiedWeights::verify(offer, &self.trust, self.table.clone(), self.report.clone()).await;
        if let Err(error) = &verified {
            self.report.refused(&path, error.words()).await;
        }
        verified
    }

    /// Whether the model could be offered, and is not yet.
    ///
    /// # Errors
    /// It could not, or it is there already: the reason.
    pub async fn check_new(&self, weights: &VerifiedWeights) -> Result<(), Error> {
        let (info, _) = weights.info(threads()).await?;
        let known = self.models.borrow().iter().find(|model| model.info.id == info.id).map(|model| model.file.clone());
        known.map_or(Ok(()), |file| Err(Error::new(format!("this model is offered already, as `{file}`"))))
    }

    /// The id of the model with this file name.
    pub fn id_of(&self, file: &str) -> Option<String> {
        self.models.borrow().iter().find(|model| model.file == file).map(|model| model.info.id.clone())
    }

    /// What reports go through.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Ends a model's worker and forgets the model.
    ///
    /// # Errors
    /// There is no such model.
    pub async fn withdraw(&self, id: &str, why: &str) -> Result<(), CallError> {
        let worker = self.find(id, |model| model.worker.clone())?;
        self.models.borrow_mut().retain(|model| model.info.id != id);
        if let Some(worker) = worker {
            worker.stop(why).await;
        }
        Ok(())
    }

    async fn verify(&self, said: &ModelInfo, offer: Offer) -> Result<Model, Error> {
        let weights = VerifiedWeights::verify(offer, &self.trust, self.table.clone(), self.report.clone()).await?;
        let (mut info, need) = weights.info(threads()).await?;
        let says_so = self.forge.script.as_ref().is_some_and(|(.., summarises)| *summarises);
        info.summarises |= says_so && info.backend == LOCAL_SCRIPTED;
        // The description of a model is that of its file.
        if let Some(difference) = capos_model::difference(said, &self.shown(&info)) {
            return Err(Error::new(format!(
                "{}: {difference}; state what the file says, or leave it empty",
                weights.path
            )));
        }
        let room = Room::of(&info, need.as_ref(), self.forge.machine);
        if let Some(tokens) = room.fewer {
            let (path, of) = (&weights.path, count(info.context_tokens, "token"));
            log::info!("{path}: the file permits conversations of {of}; this machine's memory is enough for {tokens}");
            info.context_tokens = tokens;
        }
        let weights = Rc::new(weights);
        let pager = PagerClient::serve(&self.exporter, weights.clone())?;
        let memory = self
            .account
            .create_paged_memory(weights.size(), &pager)
            .await
            .context("making the weights' memory object")?;
        let file = weights.name().to_string();
        Ok(Model { file, info, weights, memory, prompts: Prompts::default(), worker: None, room })
    }

    /// Registers every model file in a directory of the medium; those that are refused are reported. The models are
    /// offered in the order of `first`, which lists file names; the others follow in the order of their names. If
    /// `script_first` is set, those that play a script come before all.
    pub async fn register_all(
        self: &Rc<Self>,
        directory: &str,
        first: &str,
        script_first: bool,
    ) -> Result<usize, Error> {
        let mut count = 0_usize;
        let listed = self.medium.list(directory).await.with_context(|| format!("listing {directory}"))?;
        for entry in listed.entries {
            if entry.name.ends_with(".gguf") {
                let path = format!("{directory}/{}", entry.name);
                if self.register(&self.medium, &path).await.is_ok() {
                    count = count.saturating_add(1);
                }
            }
        }
        self.models.borrow_mut().sort_by_cached_key(|model| {
            let place = first.lines().position(|name| name.trim() == model.file).unwrap_or(usize::MAX);
            let plays = script_first && model.info.backend == LOCAL_SCRIPTED;
            (!plays, place, model.file.clone())
        });
        Ok(count)
    }

    /// A model as the policy in force lets it be.
    fn shown(&self, info: &ModelInfo) -> ModelInfo {
        let per_call = self.forge.policy.borrow().max_tokens_per_call;
        ModelInfo { output_tokens: capos_model::output_tokens(info, per_call), ..info.clone() }
    }

    /// The worker of a model, if it has one that may be called.
    ///
    /// # Errors
    /// The policy in force does not allow the model's backend.
    fn live(&self, model: &Model) -> Result<Option<Rc<Worker>>, CallError> {
        may_open(&self.forge.policy.borrow(), &model.info.backend).map_err(CallError::invalid_argument)?;
        Ok(model.worker.clone().filter(|worker| !worker.is_given_up()))
    }

    /// Ends the workers without a holder, except that of the wanted model: each keeps its whole account. So the model
    /// that a session leaves is ready until it leaves another one.
    async fn end_unheld(&self, wanted: &str) {
        let workers: Vec<(Rc<Worker>, u64)> = self
            .models
            .borrow()
            .iter()
            .filter(|model| model.info.id != wanted)
            .filter_map(|model| model.worker.clone())
            .filter(|worker| !worker.is_given_up() && !worker.is_being_opened())
            .map(|worker| (worker.clone(), worker.given()))
            .collect();
        if workers.is_empty() {
            return;
        }
        // Without the list it is unknown which are held, so none is ended.
        let Ok(held) = capos_rt::capabilities(&self.table).await else { return };
        for (worker, given) in workers {
            // A client may have opened it since the list was made, or be about to.
            if !worker.is_held(&held) && worker.given() == given && !worker.is_being_opened() {
                worker.stop("its model has no holder any more").await;
            }
        }
    }

    /// The worker of a model that `serves` the request; it is started if there is none.
    async fn worker(
        &self,
        id: &str,
        serves: impl Fn(&ModelInfo) -> Result<(), CallError>,
    ) -> Result<Opening, CallError> {
        let live = self.find(id, |model| {
            serves(&model.info)?;
            if let Some(why) = &model.room.too_little {
                return Err(CallError::failed(format!("the model `{id}` cannot be opened: {why}")));
            }
            Ok::<_, CallError>(self.live(model)?.map(Opening::of))
        })??;
        if let Some(worker) = live {
            return Ok(worker);
        }
        self.end_unheld(id).await;
        let prompts = self.find(id, |model| model.prompts.clone())?;
        drop(prompts.checking.lock().await);
        let entrance = Entrance::make(&self.forge).await?;
        // Meanwhile the policy may have changed, the model been unloaded, another opener been first. There is no wait
        // between the check of all that and the start, and the worker is with its model before it starts. So a model
        // has one worker at most, and unloading the model or setting the policy finds each that is starting.
        let (worker, starting) = self.find(id, |model| {
            if let Some(worker) = self.live(model)? {
                return Ok::<_, CallError>((Opening::of(worker), None));
            }
            let worker = Worker::new(
                &self.forge,
                entrance,
                &model.info,
                &model.room,
                (&model.weights, &model.memory),
                model.prompts.checked.borrow().clone(),
            );
            model.worker = Some(worker.clone());
            let starting = worker.start();
            Ok((Opening::of(worker), Some(starting)))
        })??;
        // Another opener's worker may still be starting: calls wait at its endpoint.
        if let Some(starting) = starting {
            starting
                .await
                .ok_or_else(|| CallError::failed("the worker's start was cancelled; open the model again"))??;
        }
        if worker.is_given_up() {
            return Err(CallError::failed("the worker was ended while it was being opened; open the model again"));
        }
        Ok(worker)
    }

    fn find<R>(&self, id: &str, act: impl FnOnce(&mut Model) -> R) -> Result<R, CallError> {
        let mut models = self.models.borrow_mut();
        let model = models.iter_mut().find(|model| model.info.id == id).ok_or_else(|| {
            CallError::invalid_argument(format!("no model `{id}` is registered; list shows those that are"))
        })?;
        Ok(act(model))
    }
}

/// Checks that the prompt cache of a model of `model` bytes is not too large.
///
/// # Errors
/// It is.
pub fn check_prompts_size(bytes: u64, model: u64) -> Result<(), Error> {
    let most = most_prompt_bytes(model);
    if bytes > most {
        return Err(Error::new(format!("it has {bytes} bytes, and {most} are kept for this model")));
    }
    Ok(())
}

impl ModelCatalogServer for Catalog {
    async fn list(&self, _cx: &CallContext) -> Result<Vec<ModelInfo>, CallError> {
        Ok(self.models.borrow().iter().map(|model| self.shown(&model.info)).collect())
    }

    async fn open_language_model(&self, _cx: &CallContext, id: String) -> Result<LanguageModelClient, CallError> {
        let worker = self
            .worker(&id, |info| match capos_model::writes(info) {
                true => Ok(()),
                false => Err(CallError::invalid_argument(format!(
                    "the model `{id}` embeds texts and writes none; openEmbedder opens it"
                ))),
            })
            .await?;
        Ok(worker.language_model())
    }

    async fn open_embedder(&self, _cx: &CallContext, id: String) -> Result<TextEmbedderClient, CallError> {
        let worker = self
            .worker(&id, |info| match capos_model::embeds(info) {
                true => Ok(()),
                false => Err(CallError::invalid_argument(format!(
                    "the model `{id}` is of the backend {}, which embeds no texts",
                    info.backend
                ))),
            })
            .await?;
        Ok(worker.embedder())
    }

    async fn replace_worker(&self, _cx: &CallContext, id: String, reason: String) -> Result<(), CallError> {
        if reason.len() > MAX_REASON {
            return Err(CallError::invalid_argument(format!("a reason has at most {MAX_REASON} bytes")));
        }
        // One that has ended already, or ends now, needs no end.
        if let Some(worker) = self.find(&id, |model| model.worker.clone())?.filter(|worker| !worker.is_given_up()) {
            self.report.worker("worker.replaced", &id, &reason).await;
            worker.renew(&reason).await;
        }
        Ok(())
    }
}

impl ModelAdminServer for Catalog {
    async fn load_weights(
        &self,
        _cx: &CallContext,
        source: ReadOnlyFileClient,
        info: ModelInfo,
        name: String,
        signature: Vec<u8>,
        tree: ReadOnlyFileClient,
    ) -> Result<String, CallError> {
        let offer = Offer { path: name.clone(), file: source, signature, tree };
        Ok(self.admit(&name, &info, Ok(offer)).await?.id)
    }

    async fn unload(&self, _cx: &CallContext, id: String) -> Result<(), CallError> {
        self.withdraw(&id, "its model was unloaded").await?;
        self.report.worker("model.unloaded", &id, "unloaded").await;
        Ok(())
    }

    async fn set_backend_policy(&self, _cx: &CallContext, policy: BackendPolicy) -> Result<(), CallError> {
        check_backend_policy(&policy).map_err(CallError::invalid_argument)?;
        self.report.policy(&policy).await.context("the audit log did not record the policy, so it is not in force")?;
        let before = self.forge.policy.replace(policy.clone());
        let workers: Vec<(String, Rc<Worker>)> = self
            .models
            .borrow()
            .iter()
            .filter_map(|model| model.worker.clone().map(|worker| (model.info.backend.clone(), worker)))
            .filter(|(_, worker)| !worker.is_given_up())
            .collect();
        for (backend, worker) in workers {
            if may_open(&policy, &backend).is_err() {
                worker.stop("the backend policy allows it no more").await;
            } else if before.max_tokens_per_call != policy.max_tokens_per_call {
                worker.renew("the backend policy changed").await;
            }
        }
        Ok(())
    }

    async fn backend_policy(&self, _cx: &CallContext) -> Result<BackendPolicy, CallError> {
        Ok(self.forge.policy.borrow().clone())
    }

    async fn weights(&self, _cx: &CallContext, id: String) -> Result<ModelAdminWeightsResults, CallError> {
        let (memory, bytes) = self.find(&id, |model| (model.memory.clone(), model.weights.size()))?;
        let rights = Rights::READ.union(Rights::CALL).union(Rights::MANAGE).union(Rights::GRANT);
        Ok(ModelAdminWeightsResults { memory: memory.attenuated(rights), bytes })
    }
}
