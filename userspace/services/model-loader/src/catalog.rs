//! The models of this machine: which there are, and which are open.

use crate::report::Report;
use crate::weights::VerifiedWeights;
use crate::worker::{Forge, Worker};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use capos_rt::{Context, Error};
use capos_schema::cap::{CallContext, CallError, Export};
use capos_schema::kernel::{CapabilityTableClient, MemoryObjectClient, PagerClient, ResourceAccountClient};
use capos_schema::models::{
    BackendPolicy, LanguageModelClient, ModelAdminServer, ModelCatalogServer, ModelInfo, TextEmbedderClient,
};
use capos_schema::storage::{DirectoryClient, ReadOnlyFileClient};
use capos_verity::TrustStore;
use core::cell::{Cell, RefCell};

/// The backend of this build's worker.
const BACKEND: &str = "local-scripted";

struct Model {
    info: ModelInfo,
    weights: Rc<VerifiedWeights>,
    memory: MemoryObjectClient,
    worker: Option<Rc<Worker>>,
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
    models: RefCell<BTreeMap<String, Model>>,
    local_allowed: Cell<bool>,
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
        Rc::new(Self {
            medium,
            trust,
            table,
            account,
            exporter,
            report,
            forge,
            models: RefCell::default(),
            local_allowed: Cell::new(true),
        })
    }

    /// Verifies and registers a model file.
    ///
    /// # Errors
    /// It is refused, or the audit log takes no record of it.
    pub async fn register(&self, path: &str) -> Result<ModelInfo, Error> {
        match self.verify(path).await {
            Ok(model) => {
                self.report.loaded(path, &model.info).await.context("the audit log took no record of the load")?;
                let info = model.info.clone();
                self.models.borrow_mut().entry(info.id.clone()).or_insert(model);
                Ok(info)
            }
            Err(error) => {
                self.report.refused(path, error.words()).await;
                Err(error)
            }
        }
    }

    async fn verify(&self, path: &str) -> Result<Model, Error> {
        let weights =
            VerifiedWeights::open(&self.medium, path, &self.trust, self.table.clone(), self.report.clone()).await?;
        let info = weights.info(BACKEND).await?;
        let weights = Rc::new(weights);
        let pager = PagerClient::serve(&self.exporter, weights.clone())?;
        let memory = self
            .account
            .create_paged_memory(weights.size(), &pager)
            .await
            .context("making the weights' memory object")?;
        Ok(Model { info, weights, memory, worker: None })
    }

    /// Registers every model file in a directory of the medium; those that are refused are reported.
    pub async fn register_all(&self, directory: &str) -> Result<usize, Error> {
        let mut count = 0_usize;
        for entry in self.medium.list(directory).await.with_context(|| format!("listing {directory}"))? {
            if entry.name.ends_with(".gguf") {
                let path = format!("{directory}/{}", entry.name);
                if self.register(&path).await.is_ok() {
                    count = count.saturating_add(1);
                }
            }
        }
        Ok(count)
    }

    fn find<R>(&self, id: &str, act: impl FnOnce(&mut Model) -> R) -> Result<R, CallError> {
        let mut models = self.models.borrow_mut();
        let model = models.get_mut(id).ok_or_else(|| {
            CallError::invalid_argument(format!("no model `{id}` is registered; list shows those that are"))
        })?;
        Ok(act(model))
    }
}

impl ModelCatalogServer for Catalog {
    async fn list(&self, _cx: &CallContext) -> Result<Vec<ModelInfo>, CallError> {
        Ok(self.models.borrow().values().map(|model| model.info.clone()).collect())
    }

    async fn open_language_model(&self, _cx: &CallContext, id: String) -> Result<LanguageModelClient, CallError> {
        if !self.local_allowed.get() {
            return Err(CallError::invalid_argument("the backend policy allows no local model"));
        }
        let (worker, weights, memory) =
            self.find(&id, |model| (model.worker.clone(), model.weights.clone(), model.memory.clone()))?;
        if let Some(worker) = worker.filter(|worker| !worker.is_given_up()) {
            return Ok(worker.client());
        }
        let worker = Worker::start(&self.forge, &id, &weights, &memory).await?;
        let client = worker.client();
        self.find(&id, |model| model.worker = Some(worker))?;
        Ok(client)
    }

    async fn open_embedder(&self, _cx: &CallContext, id: String) -> Result<TextEmbedderClient, CallError> {
        self.find(&id, |_| ())?;
        Err(CallError::unimplemented("the scripted backend embeds no text"))
    }
}

impl ModelAdminServer for Catalog {
    async fn load_weights(
        &self,
        _cx: &CallContext,
        _source: ReadOnlyFileClient,
        _info: ModelInfo,
    ) -> Result<String, CallError> {
        Err(CallError::invalid_argument(
            "a bare file has no tree and no signature beside it; use load with a path on the medium",
        ))
    }

    async fn unload(&self, _cx: &CallContext, id: String) -> Result<(), CallError> {
        self.find(&id, |_| ())?;
        let removed = self.models.borrow_mut().remove(&id);
        if let Some(worker) = removed.and_then(|model| model.worker) {
            worker.stop().await;
        }
        self.report.worker("model.unloaded", &id, "unloaded").await;
        Ok(())
    }

    async fn set_backend_policy(&self, _cx: &CallContext, policy: BackendPolicy) -> Result<(), CallError> {
        self.local_allowed.set(policy.allow_local);
        Ok(())
    }

    async fn load(&self, _cx: &CallContext, path: String) -> Result<ModelInfo, CallError> {
        Ok(self.register(&path).await?)
    }
}
